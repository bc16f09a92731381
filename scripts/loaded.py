"""Measures what a training loads: the modules of the package after a few iterations, an evaluation and a save.

    python -m scripts.loaded ppo            # each module, its code lines, and which module imported it first
    python -m scripts.loaded ppo --groups   # the largest packages alone

Nothing is followed on paper: the training runs in a fresh process, and what is in `sys.modules` afterwards counts.
Names that a table resolves at run time are in it, so laziness hides nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.house import PACKAGE, ROOT, Module

TRAIN = """
import importlib.abc, json, sys, tempfile

first = {}

class Watch(importlib.abc.MetaPathFinder):
    # Records which module imports a name first; imports by a path are those of the module that asked for it.
    def find_spec(self, name, path=None, target=None):
        frame = sys._getframe(1)
        while frame and frame.f_globals.get("__name__", "").partition(".")[0] in ("importlib", "_frozen_importlib"):
            frame = frame.f_back
        while frame and frame.f_globals.get("__name__") == "rlrun.engine.settings.registry":
            frame = frame.f_back
        first.setdefault(name, frame.f_globals.get("__name__", "") if frame else "")

sys.meta_path.insert(0, Watch())
import rlrun

asked = json.loads(sys.argv[1])
algorithm = getattr(rlrun, asked["algorithm"])(**asked["config"])
with tempfile.TemporaryDirectory() as folder, rlrun.Training(asked["env"], algorithm) as training:
    for _ in range(3):
        training.step()
    training.evaluate(episodes=1)
    training.save(folder + "/checkpoint")
print(json.dumps({
    name: [module.__file__, first.get(name, "")]
    for name, module in sys.modules.items() if name.partition(".")[0] == "rlrun" and getattr(module, "__file__", None)
}))
"""
"""Program of the fresh process; its argument has the `algorithm`, its `config`, and the `env`."""

OFF_POLICY = {"learning_starts": 16, "min_env_steps_per_iteration": 32, "minibatch_size": 8}
TRAININGS: dict[str, dict[str, Any]] = {
    "ppo": {
        "algorithm": "PPO", "env": "CartPole-v1",
        "config": {"num_envs_per_worker": 2, "train_batch_size": 32, "minibatch_size": 16, "num_epochs": 1},
    },
    "dqn": {"algorithm": "DQN", "env": "CartPole-v1", "config": OFF_POLICY},
    "sac": {"algorithm": "SAC", "env": "Pendulum-v1", "config": OFF_POLICY},
    "qmix": {
        "algorithm": "QMIX", "env": {"world": "rlrun.toys:TwoStepGame"},
        "config": OFF_POLICY,
    },
}  # fmt: skip
"""Trainings that are measured: those of the defaults, in sizes that take a second."""


@dataclass(frozen=True)
class Loaded:
    """A module that a training has loaded.

    Attributes:
        name: Its dotted name.
        code_lines: Its code lines.
        importer: The module that imported it first.
    """

    name: str
    code_lines: int
    importer: str


def loaded_by(name: str) -> list[Loaded]:
    """Runs a training in a fresh process, and returns the modules of the package that it loads, in their order.

    Args:
        name: A key of `TRAININGS`.
    """
    command = [sys.executable, "-c", TRAIN, json.dumps(TRAININGS[name])]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return [
        Loaded(module, Module(module, Path(file).read_text()).num_code_lines, importer)
        for module, (file, importer) in found.items()
    ]


def groups(loaded: list[Loaded]) -> dict[str, list[Loaded]]:
    """Returns the modules by room: the first three words of their names, those with most code lines first."""
    found: dict[str, list[Loaded]] = defaultdict(list)
    for module in loaded:
        words = module.name.split(".")
        found[".".join(words[: min(3, len(words) - 1)]) or PACKAGE].append(module)
    return dict(sorted(found.items(), key=lambda item: -sum(module.code_lines for module in item[1])))


def main() -> int:
    """Prints what a training loads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("training", choices=TRAININGS)
    parser.add_argument("--groups", action="store_true", help="print the rooms alone")
    asked = parser.parse_args()
    loaded = loaded_by(asked.training)
    for room, modules in groups(loaded).items():
        print(f"{sum(module.code_lines for module in modules):6,} {len(modules):4} {room}")
        for module in [] if asked.groups else sorted(modules, key=lambda each: -each.code_lines):
            print(f"  {module.code_lines:6,}      {module.name.removeprefix(room + '.'):<40} {module.importer}")
    print(f"{sum(module.code_lines for module in loaded):6,} {len(loaded):4} in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
