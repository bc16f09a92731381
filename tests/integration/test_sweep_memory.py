"""What the driver of a sweep keeps of trials that have ended: a sweep that takes days must not fill its memory."""

import gc
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import rlrun
from rlrun.experiments.runs.events import RunEvent, TrialEvent

TRIALS = 4
KEPT_BYTES = 5_000
"""What Tune may keep of a trial: its name, its paths, a few small objects. With 200 trials per hour, this is 1 MB."""


def reachable(root: Any) -> dict[int, Any]:
    """Returns the objects that an object keeps alive, by id, except code."""
    found, left = {}, [root]
    while left:
        one = left.pop()
        if id(one) not in found and not isinstance(one, type | ModuleType | FunctionType):
            found[id(one)] = one
            left += gc.get_referents(one)
    return found


@pytest.mark.usefixtures("running_ray")
def test_the_driver_keeps_almost_no_memory_per_finished_trial(tmp_path: Path) -> None:
    from ray.tune.experiment import Trial

    ended: list[str] = []
    kept: dict[str, list[Any]] = {}

    def watch(event: RunEvent) -> None:
        if isinstance(event, TrialEvent) and event.status == "TERMINATED":
            ended.append(event.trial)
        if len(ended) < TRIALS or kept:
            return
        every = [one for one in gc.get_objects() if type(one) is Trial]
        for trial in every:
            if str(trial) in ended[:-1]:  # Tune has not yet heard that the last trial ended
                shared = {number for other in every if other is not trial for number in reachable(other)}
                kept[str(trial)] = [one for number, one in reachable(trial).items() if number not in shared]

    rlrun.run(
        {
            "sweep": {
                "algorithm": "ppo",
                "env": "CartPole-v1",
                "seeds": TRIALS,
                "stop": {"iteration": 2},
                "resources": {"cpus": 4},
                "config": {
                    "train_batch_size": 64,
                    "min_env_steps_per_iteration": 0,
                    "minibatch_size": 32,
                    "num_epochs": 1,
                    "model": {"hiddens": [8]},
                },
            }
        },
        runs_dir=tmp_path,
        watch=watch,
    )

    assert len(kept) == TRIALS - 1
    for objects in kept.values():
        assert sum(map(sys.getsizeof, objects)) < KEPT_BYTES
        assert "ObjectRef" not in {type(one).__name__ for one in objects}
