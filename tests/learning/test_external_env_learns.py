"""PPO learns CartPole from client processes, and serves 64 clients at once without losing any."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from rlrun.algorithms.ppo import PPO
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.training.training import Training
from tests.external_recording import recording

ROOT = Path(__file__).resolve().parents[2]
CLIENT = """
import sys
import gymnasium
from rlrun.engine.external.client import Client, EpisodeUnknown
from rlrun.engine.external.env_client import run

run(gymnasium.make("CartPole-v1"), Client(sys.argv[1], patience_s=60.0), EpisodeUnknown, seed=int(sys.argv[2]))
"""
SPACES = {
    "observation": {"type": "Box", "shape": [4], "low": "-inf", "high": "inf"},
    "action": {"type": "Discrete", "n": 2},
}
ENV_STEPS = 48_000
"""A fifth more env steps than in `configs/regression/ppo_cartpole.yaml`."""


@contextmanager
def clients(command: list[str], number: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    started = [subprocess.Popen([*command, str(each)], cwd=ROOT, stdout=subprocess.DEVNULL) for each in range(number)]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.regress
def test_ppo_learns_cartpole_from_four_client_processes() -> None:
    env = EnvConfig.parse({"external": {"port": 9917, "spaces": SPACES}})
    config = {
        "num_envs_per_worker": 4,
        "train_batch_size": 256,
        "minibatch_size": 256,
        "num_epochs": 20,
        "lr": [[0, 1e-3], [40_000, 0.0]],
        "clip_param": [[0, 0.2], [40_000, 0.0]],
        "gamma": 0.98,
        "gae_lambda": 0.8,
    }
    address = "http://127.0.0.1:9917"
    with Training(env, PPO(PPO.Config.parse(config))) as training:
        with clients([sys.executable, "-c", CLIENT, address], 4) as started:
            results = training.train(ENV_STEPS)
            assert [process.poll() for process in started] == [None] * 4  # no client died on its own
        evaluated = training.evaluate(20, env=EnvConfig.parse("CartPole-v1"))
    assert max(result["policies/default/info/client_lost"] for result in results[1:]) == 0.0
    assert results[-1]["env_steps"] <= ENV_STEPS + 2_000
    assert evaluated.mean >= 350


@pytest.mark.regress
def test_episodes_from_64_simultaneous_clients_are_recorded_exactly() -> None:
    with recording(64, 1, gather_ms=50.0) as (_, address, record):
        command = [sys.executable, "-S", str(ROOT / "tests/integration/external_client.py")]
        folder = str(ROOT / "rlrun/engine/external")
        started = [subprocess.Popen([*command, folder, address, "4"], stdout=subprocess.DEVNULL) for _ in range(64)]
        episodes, steps = [], 0
        while len(episodes) < 256:
            recorded = record()
            episodes += recorded.episodes
            steps += recorded.env_steps
        assert [process.wait() for process in started] == [0] * 64
    assert {(own.length, own.episode_return) for own in episodes} == {(3, 3.0)}
    assert steps == 3 * 256
    assert np.isfinite(recorded.batches["default"]["obs"]).all()
