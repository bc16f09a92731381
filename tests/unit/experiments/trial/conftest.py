"""Small trials with real PPO, and a user's algorithms that go wrong."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlrun.engine.settings.registry import algorithm_class
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.trial.results import read_results
from tests.results import all_numbers

SMALL = {
    "train_batch_size": 64,
    "min_env_steps_per_iteration": 0,
    "num_envs_per_worker": 4,
    "minibatch_size": 32,
    "num_epochs": 1,
    "compile": False,
}

USERS_FILE = '''
import math

from rlrun.algorithms.ppo import PPO
from rlrun.engine.flow.flow import Operator


class Diverges(PPO):
    """Its parameters turn into NaN in the third iteration."""

    def learn(self, fragments, trainee):
        def diverge(item):
            if trainee.learner.weights_version == 3:
                trainee.learner.load_flat(trainee.learner.flat() * math.nan)
            return item

        return super().learn(fragments, trainee).for_each(diverge)


class InfiniteLoss(Operator):
    def __call__(self, item):
        return item

    def metrics(self):
        return {"learner/policy_loss": math.inf}


class ReportsInfinity(PPO):
    def learn(self, fragments, trainee):
        return super().learn(fragments, trainee).for_each(InfiniteLoss())


class Fails(PPO):
    def learn(self, fragments, trainee):
        def fail(fragment):
            if trainee.learner.weights_version == 2:
                raise_from_here()
            return fragment

        return super().learn(fragments.for_each(fail), trainee)


class CannotBeBuilt(PPO):
    def objectives(self, policy):
        return 1 // 0


def raise_from_here():
    raise KeyError("my own mistake")


class IsInterrupted(PPO):
    """Ctrl-C comes in the middle of the fourth iteration, when its experience is collected and not learned from."""

    pressed = False

    def learn(self, fragments, trainee):
        def interrupt(fragment):
            if trainee.learner.weights_version == 3 and not IsInterrupted.pressed:
                IsInterrupted.pressed = True
                raise KeyboardInterrupt
            return fragment

        return super().learn(fragments.for_each(interrupt), trainee)
'''


@pytest.fixture
def small_trial() -> Callable[..., TrialSpec]:
    """Makes a trial with quick iterations; without a stop, it never ends."""

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
        return all_numbers(rows)

    return read


@pytest.fixture
def users_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts a user's algorithms next to the spec, as `my_lab:Name`."""
    folder = tmp_path / "lab"
    folder.mkdir()
    path = folder / "my_lab.py"
    path.write_text(USERS_FILE)
    monkeypatch.syspath_prepend(folder)
    return path
