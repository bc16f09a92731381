"""Tests of tensor envs, with packages that only `make test-tensors` installs."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("rsl_rl") else ["test_trainings.py"]
