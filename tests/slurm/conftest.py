"""A Slurm cluster on this machine, shared by all tests in this folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.slurm_lab import missing, slurm_lab

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from jobs import Jobs  # noqa: E402 (it is next to this file)


@pytest.fixture(scope="session")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """Jobs of a cluster of three nodes with two CPUs each."""
    if lacks := missing():
        pytest.skip(lacks)
    with slurm_lab(tmp_path_factory.mktemp("lab"), nodes=3, cpus=2) as lab:
        programs = lab.folder / "bin"
        programs.mkdir()
        for name, module in (("rlrun", "rlrun"), ("ray", "ray.scripts.scripts")):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
            program.chmod(0o755)
        yield Jobs(lab, programs)
