"""Learning does not depend on where a replay is stored, or on whether it stores stacks of images whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlrun import DQN, Training
from rlrun.experiments.trial.results import is_timing

CONFIG = {
    "learning_starts": 150,
    "training_intensity": 0.5,
    "min_env_steps_per_iteration": 200,
    "num_envs_per_worker": 2,
    "minibatch_size": 16,
    "target_update_interval": 20,
    "n_step": 2,
    "epsilon": [[0, 1.0], [600, 0.1]],
}

Learned = tuple[NDArray[np.float32], list[dict[str, Any]]]


def learned_from(env: Any, replay: dict[str, Any], model: dict[str, Any], iterations: int) -> Learned:
    """Trains; returns the weights at the end, and all results but times and sizes."""
    with Training(env, DQN(**CONFIG, model=model, replay=replay), seed=1) as training:
        results = [training.step() for _ in range(iterations)]
        trainee = training.running.trainee
        first, weights = trainee.learner_factory().flat(), trainee.learner.flat()
    assert results[-1]["env_steps"] >= 200 * iterations
    assert results[-1]["sgd_steps"] == int(0.5 * (results[-1]["env_steps"] - 150))
    assert np.abs(weights - first).max() > 0.01
    left_out = ("replay/gigabytes",)
    return weights, [
        {name: value for name, value in result.items() if not is_timing(name) and name not in left_out}
        for result in results
    ]


@pytest.mark.parametrize("sampling", ["uniform", "prioritized"])
def test_a_run_learns_identically_from_a_replay_buffer_on_disk_and_in_memory(tmp_path: Path, sampling: Any) -> None:
    in_memory = {"capacity": 300, "sampling": sampling}  # the oldest half is overwritten
    on_disk = {**in_memory, "on_disk": str(tmp_path)}
    weights, results = learned_from("CartPole-v1", in_memory, {"hiddens": [16]}, 3)
    weights_from_disk, results_from_disk = learned_from("CartPole-v1", on_disk, {"hiddens": [16]}, 3)
    np.testing.assert_array_equal(weights_from_disk, weights)
    assert results_from_disk == results


DOT = """
import gymnasium
import numpy as np

class Dot(gymnasium.Env):
    '''A dot that is pushed to and fro until it leaves the picture; how fast it is, two pictures tell.'''

    observation_space = gymnasium.spaces.Box(0, 255, (36, 36), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.speed = int(self.np_random.integers(12, 24)), 0
        return self.picture(), {}

    def step(self, action):
        self.speed += 2 * action - 1
        self.place += self.speed
        return self.picture(), 1.0, not 0 <= self.place < 36, False, {}

    def picture(self):
        picture = np.zeros((36, 36), np.uint8)
        picture[16:20, np.clip([self.place - 1, self.place, self.place + 1], 0, 35)] = 255
        return picture
"""


@pytest.mark.parametrize("padding", ["reset", "zero"])
def test_a_run_that_stores_each_image_once_learns_as_if_it_stored_whole_stacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, padding: str
) -> None:
    (tmp_path / "world_of_a_dot.py").write_text(DOT)
    monkeypatch.syspath_prepend(tmp_path)
    stacked = {"id": "FrameStackObservation", "kwargs": {"stack_size": 3, "padding_type": padding}}
    env = {"id": "world_of_a_dot:Dot", "max_episode_steps": 25, "wrappers": [stacked]}
    model = {"conv": "nature", "hiddens": [], "activation": "relu", "orthogonal_init": False}
    # This replay never fills up. In a full one, steps whose older images are overwritten can only be drawn if stacks
    # are stored whole.
    whole: dict[str, Any] = {"capacity": 1000}
    weights, results = learned_from(env, whole, model, 2)
    weights_by_image, results_by_image = learned_from(env, {**whole, "frame_stack": 3}, model, 2)
    np.testing.assert_array_equal(weights_by_image, weights)
    assert results_by_image == results
