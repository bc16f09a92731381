"""A replay returns each observation with its own mask, even the n-th next observation."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from numpy.typing import NDArray

from rlrun.algorithms.dqn.policy import QPolicy
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.make import spaces_of
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.weights import Weights
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from rlrun.engine.replay.replay_config import ReplayConfig, SequenceReplayConfig
from rlrun.engine.replay.replay_shards import ReplayShard
from rlrun.engine.replay.sequences import SequenceReplay
from rlrun.engine.rollout.rewards import RewardSettings
from rlrun.engine.rollout.rollout_worker import RolloutWorker
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_config import WorkerConfig
from tests.policies import plain_policy

GRID = EnvConfig(id="rlrun.toys:MaskedGrid", kwargs={"size": 3})
FRAMES = EnvConfig(id=f"{__name__}:Frames")
MODEL = ModelConfig(hiddens=(8,), activation="relu", orthogonal_init=False)


class Frames(gymnasium.Env):
    """Counts its steps in the brightness of three frames, and forbids the action given by the last digit."""

    observation_space = Dict({"frames": Box(0, 255, (3, 36, 36), np.uint8), "action_mask": MultiBinary(4)})
    action_space = Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.counts = [0, 0, int(self.np_random.integers(4))]
        return self.show(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action != self.counts[-1] % 4
        self.counts = [*self.counts[1:], self.counts[-1] + 1]
        return self.show(), 1.0, self.counts[-1] > 15, False, {}

    def show(self) -> dict[str, Any]:
        frames = np.broadcast_to(np.array(self.counts, np.uint8)[:, None, None], (3, 36, 36))
        return {"frames": frames, "action_mask": np.arange(4) != self.counts[-1] % 4}


def fragments_of(env: EnvConfig, number: int, length: int = 20) -> list[SampleBatch]:
    """Fragments of a worker that takes any allowed action."""
    spaces = spaces_of(env)
    policy = plain_policy(QPolicy, spaces.observation, spaces.action, MODEL, seed=1)
    worker = RolloutWorker(
        WorkerConfig(
            env=env,
            num_envs=3,
            fragment_length=length,
            seed=5,
            behaviors={"default": policy.behavior()},
            rewards={"default": RewardSettings(0.9)},
        )
    )
    schedules = {"epsilon": 1.0, "temperature": 1.0}
    worker.follow(Orders({"default": Weights(0, np.zeros(policy.parameters.size, np.float32), schedules=schedules)}))
    return [worker.sample().batches["default"] for _ in range(number)]


def grid_masks(positions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Allowed moves of a 3 x 3 grid at positions [..., 2]: up, down, left, right, and nothing at the last cell."""
    row, column = positions[..., 0], positions[..., 1]
    inside = np.stack([row > 0, row < 2, column > 0, column < 2], -1)
    return inside & ~((row == 2) & (column == 2))[..., None]


def assert_masks_are_the_grid_s(observations: Any) -> None:
    np.testing.assert_array_equal(observations["action_mask"] != 0, grid_masks(observations["position"]))


@pytest.mark.parametrize("sampling", ["uniform", "prioritized"])
@pytest.mark.parametrize("n_step", [1, 3])
def test_transitions_contain_the_masks_of_both_of_their_observations(n_step: int, sampling: Any) -> None:
    config = ReplayConfig(capacity=300, sampling=sampling)
    replay = ReplayBuffer(config, num_workers=1, n_step=n_step, gamma=0.9, seed=0)
    shard = ReplayShard(partial(ReplayBuffer, config, num_workers=1, n_step=n_step, gamma=0.9, seed=0))
    for fragment in fragments_of(GRID, 8):
        replay.add(0, fragment)
        shard.add(0, fragment)
    batch = replay.sample(500, 0)
    for observations in (batch["obs"], batch["next_obs"]):
        assert_masks_are_the_grid_s(observations)
    assert batch["obs"]["action_mask"].any(-1).all()
    distance = np.abs(batch["next_obs"]["position"] - batch["obs"]["position"]).sum(-1)
    final = ~batch["next_obs"]["action_mask"].any(-1)
    np.testing.assert_array_equal(batch["discounts"] == 0, final)
    assert (distance % 2 == n_step % 2)[~final].all()
    taken = np.take_along_axis(batch["obs"]["action_mask"], batch["actions"][..., None], -1)
    assert taken.all()
    portion = shard.sample(1, 500, 0, None)
    assert portion is not None
    for name in ("obs/action_mask", "next_obs/action_mask"):
        column, key = name.split("/")
        np.testing.assert_array_equal(portion[column][key][0], batch[column][key])


@pytest.mark.parametrize("n_step", [1, 3])
def test_rebuilt_stacks_of_frames_come_with_their_own_masks(n_step: int) -> None:
    replay = ReplayBuffer(ReplayConfig(capacity=240, frame_stack=3), num_workers=1, n_step=n_step, gamma=0.9, seed=0)
    for fragment in fragments_of(FRAMES, 6):
        replay.add(0, fragment)
    batch = replay.sample(300, 0)
    for observations in (batch["obs"], batch["next_obs"]):
        last = observations["frames"][:, 0, -1, 0, 0]
        np.testing.assert_array_equal(observations["action_mask"][:, 0] != 0, np.arange(4) != (last % 4)[:, None])


def test_sequences_contain_the_masks_of_their_observations() -> None:
    config = SequenceReplayConfig(sampling="prioritized", capacity=400, length=6, burn_in=2, stride=3)
    replay = SequenceReplay(config, num_workers=1, n_step=2, gamma=0.9, seed=0)
    for fragment in fragments_of(GRID, 6):
        slots = fragment["valid"].shape
        replay.add(
            0, SampleBatch(fragment, state=np.zeros((*slots, 4), np.float32), episode_starts=np.zeros(slots, np.bool_))
        )
    batch = replay.sample(50, 0)
    own = {key: part[:, 2:8][batch["valid"]] for key, part in batch["obs"].items()}  # after the burn-in
    assert_masks_are_the_grid_s(own)
    assert own["action_mask"].any(-1).all()
