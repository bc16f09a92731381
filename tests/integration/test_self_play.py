"""Self-play on remote workers: a worker that dies is replaced, and the numbers equal those of an undisturbed run."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from stub_workers import actor_pids

from rlrun.algorithms.alphazero.alphazero import AlphaZero, AlphaZeroConfig
from rlrun.engine.checkpoint.format import read_checkpoint
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.training.training import Training
from tests.results import numbers

pytestmark = pytest.mark.usefixtures("running_ray")

WORLD = EnvConfig(world="rlrun.toys:TicTacToe")
SETTINGS = {
    "num_workers": 2,
    "num_envs_per_worker": 4,
    "rollout_fragment_length": 5,
    "simulations": 6,
    "learning_starts": 20,
    "minibatch_size": 16,
    "min_env_steps_per_iteration": 60,
    "model": {"hiddens": [8]},
    "gate": {"every": 50, "games": 4, "share": 0.4},
    "compile": False,
}


def training() -> Training:
    return Training(WORLD, AlphaZero(AlphaZeroConfig.parse(SETTINGS)), seed=3)


@pytest.mark.chaos
def test_replacing_a_worker_that_dies_mid_game_does_not_change_the_results(tmp_path: Path) -> None:
    with training() as first:
        for _ in range(2):
            first.step()
        first.save(tmp_path / "checkpoint")
        expected = [numbers(first.step()) for _ in range(3)]
    others = set(actor_pids())
    with training() as again:
        again.load(read_checkpoint(tmp_path / "checkpoint"))
        found = [numbers(again.step())]
        os.kill(min(set(actor_pids()) - others), signal.SIGKILL)
        found += [numbers(again.step()) for _ in range(2)]
        assert again.running.workers.lost_nothing
    assert [row.pop("worker_restarts") for row in found] == [0, 1, 1]
    assert [row.pop("worker_restarts") for row in expected] == [0, 0, 0]
    assert found == expected
