"""Small trials on real PPO, and a user's own algorithms that go wrong."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rlrun.registry import algorithm_class
from rlrun.spec.experiment import TrialSpec
from rlrun.trial.results import is_timing, read_results

SMALL = {"train_batch_size": 64, "num_envs_per_worker": 4, "minibatch_size": 32, "num_epochs": 1, "compile": False}

USERS_FILE = '''
import math

from rlrun.algorithms.ppo import PPO


class Diverges(PPO):
    """Its parameters turn into NaN in the third iteration."""

    def train(self):
        result = super().train()
        if result["iteration"] == 3:
            self.learner.load_flat(self.learner.flat() * math.nan)
        return result


class ReportsInfinity(PPO):
    def train(self):
        return super().train() | {"learner/policy_loss": math.inf}


class Fails(PPO):
    def train(self):
        if self.iteration == 2:
            raise_from_here()
        return super().train()


class CannotBeBuilt(PPO):
    def objectives(self):
        return 1 // 0


def raise_from_here():
    raise KeyError("my own mistake")


class IsInterrupted(PPO):
    """Ctrl-C comes in the middle of the fourth iteration, when its experience is half collected."""

    pressed = False

    def train(self):
        if self.iteration == 3 and not IsInterrupted.pressed:
            IsInterrupted.pressed = True
            self.workers.local.sample()
            raise KeyboardInterrupt
        return super().train()
'''


@pytest.fixture
def small_trial() -> Callable[..., TrialSpec]:
    """Makes a trial of quick iterations; without a stop it goes on for ever."""

    def make(*, seed: int = 0, algorithm: str = "ppo", config: dict[str, Any] | None = None, **more: Any) -> TrialSpec:
        data = {
            "name": f"000-seed={seed}",
            "index": 0,
            "seed": seed,
            "params": {"seed": seed},
            "experiment": "small",
            "algorithm": algorithm,
            "env": "CartPole-v1",
            "config": algorithm_class(algorithm).Config.parse({**SMALL, **(config or {})}),
            "stop": {"iteration": 1_000_000},
            "checkpoint": {"every": 2, "keep": 2},
            "evaluation": None,
            "resources": {},
            "expect": None,
        }
        return TrialSpec.parse({**data, **more})

    return make


@pytest.fixture
def curve() -> Callable[[Path], list[dict[str, Any]]]:
    """Reads the rows of a trial without what depends on the clock."""

    def read(directory: Path) -> list[dict[str, Any]]:
        rows = read_results(directory)
        return [{name: value for name, value in row.items() if not is_timing(name)} for row in rows]

    return read


@pytest.fixture
def users_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Puts a user's algorithms beside the spec, as `my_lab:Name`."""
    folder = tmp_path / "lab"
    folder.mkdir()
    path = folder / "my_lab.py"
    path.write_text(USERS_FILE)
    monkeypatch.syspath_prepend(folder)
    yield path
    sys.modules.pop("my_lab", None)
