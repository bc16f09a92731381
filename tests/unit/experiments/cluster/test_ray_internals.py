"""Private names of Ray are used in one file, which says with which version of Ray they were checked."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import rlrun
from rlrun.experiments.cluster import ray_internals

PACKAGE = Path(rlrun.__file__).parent


def attributes(file: Path) -> set[str]:
    return {node.attr for node in ast.walk(ast.parse(file.read_bytes())) if isinstance(node, ast.Attribute)}


def test_the_pinned_ray_is_the_one_in_which_its_private_names_were_checked() -> None:
    (pinned,) = re.findall(r"^ray==(\S+)$", (PACKAGE.parent / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned == ray_internals.CHECKED_WITH


def test_private_names_of_ray_are_used_in_one_file() -> None:
    own = Path(ray_internals.__file__)
    private = {name for name in attributes(own) if name.startswith("_")} | {"temporary_state"}
    assert private >= {"_tune_controller", "_schedule_trial_train", "_global_node"}
    for folder in ("engine/actors", "engine/learner/data_parallel", "experiments"):
        for file in (PACKAGE / folder).rglob("*.py"):
            if file != own:
                assert not private & attributes(file), file
                assert "ray._private" not in file.read_text(), file
