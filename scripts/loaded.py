"""Lists the modules of rlrun that training loads: after three iterations, an evaluation and a save.

    python -m scripts.loaded                       # the largest rooms for each training
    python -m scripts.loaded ppo                   # its modules, their code lines, and who imported each of them first

Each training runs in a fresh process, and every module in `sys.modules` afterwards counts. Modules that are imported
lazily during the training are therefore included.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from scripts.house import PACKAGE, ROOT, Module

PROGRAM = """
import importlib.abc, json, os, sys, tempfile
import gymnasium, numpy, pydantic, torch  # once for all trainings; nothing of the package is loaded before the forks

first = {}

class Watch(importlib.abc.MetaPathFinder):
    # Records which module imports a name first; for a name of a table, the module with the table.
    def find_spec(self, name, path=None, target=None):
        frame = sys._getframe(1)
        passed = ("importlib", "importlib._bootstrap", "_frozen_importlib", "rlrun.engine.settings.registry")
        while frame and frame.f_globals.get("__name__") in passed:
            frame = frame.f_back
        first.setdefault(name, frame.f_globals["__name__"] if frame else "")

def train(algorithm, config, env):
    import rlrun
    made = getattr(rlrun, algorithm)(**config)
    with tempfile.TemporaryDirectory() as folder, rlrun.Training(env, made) as training:
        for _ in range(3):
            training.step()
        training.evaluate(episodes=1)
        training.save(folder + "/checkpoint")

sys.meta_path.insert(0, Watch())
for asked in json.loads(sys.argv[1]):
    child = os.fork()
    if child:
        if os.waitpid(child, 0)[1]:
            sys.exit(1)
        continue
    train(**asked)
    ours = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "rlrun"}
    found = [(name, path, first[name]) for name, module in ours.items() if (path := getattr(module, "__file__", None))]
    os.write(1, json.dumps(found).encode() + b"\\n")
    os._exit(0)
"""
"""Program that forks a child for each argument and trains in it; an argument has `algorithm`, `config` and `env`."""

OFF_POLICY = {"learning_starts": 16, "min_env_steps_per_iteration": 32, "minibatch_size": 8}
TRAININGS: dict[str, dict[str, Any]] = {
    "ppo": {
        "algorithm": "PPO", "env": "CartPole-v1",
        "config": {"num_envs_per_worker": 2, "train_batch_size": 32, "minibatch_size": 16, "num_epochs": 1},
    },
    "dqn": {"algorithm": "DQN", "env": "CartPole-v1", "config": OFF_POLICY},
    "sac": {"algorithm": "SAC", "env": "Pendulum-v1", "config": OFF_POLICY},
    "qmix": {"algorithm": "QMIX", "env": {"world": "rlrun.toys:TwoStepGame"}, "config": OFF_POLICY},
}  # fmt: skip
"""The trainings, with default settings, but so small that each takes a second."""


@dataclass(frozen=True)
class Loaded:
    """A module that a training run has loaded.

    Attributes:
        name: Its dotted name.
        code_lines: Its code lines.
        importer: The module that imported it first.
    """

    name: str
    code_lines: int
    importer: str


@cache
def loaded_by(*names: str) -> dict[str, list[Loaded]]:
    """Runs trainings in fresh processes, and returns the modules of rlrun that each loads, in order of import.

    Args:
        names: Keys of `TRAININGS`.
    """
    command = [sys.executable, "-c", PROGRAM, json.dumps([TRAININGS[name] for name in names])]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = map(json.loads, done.stdout.splitlines())
    return {
        name: [Loaded(module, _code_lines_of(file), importer) for module, file, importer in modules]
        for name, modules in zip(names, found, strict=True)
    }


@cache
def _code_lines_of(file: str) -> int:
    return Module(file, Path(file).read_text()).num_code_lines


def by_room(modules: Sequence[Loaded]) -> dict[str, list[Loaded]]:
    """Returns modules by room (the first three parts of their names); the rooms with the most code lines come first."""
    found: dict[str, list[Loaded]] = defaultdict(list)
    for module in modules:
        words = module.name.split(".")
        found[".".join(words[: min(3, len(words) - 1)]) or PACKAGE].append(module)
    return dict(sorted(found.items(), key=lambda room: -code_lines(room[1])))


def code_lines(modules: Sequence[Loaded]) -> int:
    """Returns the number of code lines in modules."""
    return sum(module.code_lines for module in modules)


def main() -> int:
    """Prints the modules that trainings load."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("training", nargs="?", choices=TRAININGS)
    asked = parser.parse_args().training
    for name, modules in loaded_by(*([asked] if asked else TRAININGS)).items():
        print(f"{name}: {len(modules)} modules, {code_lines(modules):,} code lines")
        for room, own in by_room(modules).items():
            print(f"{code_lines(own):6,} {len(own):4} {room}")
            for module in sorted(own, key=lambda each: -each.code_lines) if asked else ():
                print(f"{module.code_lines:10,}  {module.name.removeprefix(room + '.'):<40} {module.importer}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
