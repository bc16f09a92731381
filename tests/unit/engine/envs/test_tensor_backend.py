from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor

from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import make_env, make_vector_env, spaces_of
from rlrun.engine.envs.vector_env import observation_hash
from rlrun.engine.messages.errors import EnvironmentUnusable, SpecError, UsageError
from rlrun.experiments.spec.load import load_experiments
from rlrun.toys.tensor_envs import TensorToy, tensor_cartpole

HERE = "tests.unit.engine.envs.test_tensor_backend"


def unseeded(num_envs: int, device: torch.device) -> TensorToy:
    """CartPole with three-step episodes, whose slots cannot be seeded or reset one by one."""

    class Unseeded(TensorToy):
        seeds_episodes = False

        def reset(self, *, seeds: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
            assert mask is None
            return super().reset(seeds=seeds)

    toy = tensor_cartpole(1, device)
    return Unseeded(toy._dynamics, num_envs, device, max_episode_steps=3, dtype=torch.float32)


def only_one(num_envs: int, device: torch.device) -> TensorToy:
    made = tensor_cartpole(num_envs, device)
    made.is_only_one = True
    return made


def two_slots(num_envs: int, device: torch.device) -> TensorToy:
    return tensor_cartpole(2, device)


def on_meta(num_envs: int, device: torch.device) -> TensorToy:
    return tensor_cartpole(num_envs, torch.device("meta"))


def single(num_envs: int, device: torch.device) -> Any:
    return gymnasium.make("CartPole-v1")


def viewed(factory: str, slots: int = 2, **kwargs: Any) -> Any:
    return make_vector_env(EnvConfig.parse({"tensors": factory, "kwargs": kwargs}), slots, EpisodeSeeds(0, 0))


def test_an_evaluation_sees_the_final_observation_before_the_next_seeded_episode_starts() -> None:
    env = viewed("rlrun.toys:tensor_cartpole", max_episode_steps=2)
    first = env.reset()
    env.step(np.array([0, 1]))
    final, rewards, _, truncateds, _ = env.step(np.array([0, 1]))
    assert truncateds.all()
    assert (np.abs(final[:, 1]) > 0.3).all()
    assert [place.length for place in env.places()] == [2, 2]
    second, rewards, terminateds, truncateds, _ = env.step(np.array([0, 1]))
    assert not rewards.any()
    assert not (truncateds | terminateds).any()
    assert (np.abs(second) <= 0.05).all()
    assert not np.array_equal(first, second)
    assert [(place.episode, place.length) for place in env.places()] == [(1, 0), (1, 0)]
    again = env.begin([1], [EpisodeSeeds(0, 0).seed(1, 0)])
    assert np.array_equal(again, np.stack([second[0], first[1]]))


def test_a_running_episode_is_restored_by_replaying_its_actions() -> None:
    env = viewed("rlrun.toys:tensor_cartpole")
    env.reset()
    actions = np.array([[0, 1], [1, 1], [0, 0]])
    for row in actions:
        observations = env.step(row)[0]
    other = viewed("rlrun.toys:tensor_cartpole")
    other.reset()
    hashes = [observation_hash(map_tree(lambda leaf, slot=slot: leaf[slot], observations)) for slot in range(2)]
    restored, exact = other.restore(env.places(), [actions[:, 0], actions[:, 1]], hashes, 60.0)
    assert exact == [True, True]
    assert np.array_equal(restored, observations)


def test_slots_of_an_unseeded_env_continue_with_the_episode_that_the_env_itself_started() -> None:
    env = viewed(f"{HERE}:unseeded")
    env.reset()
    lengths = [env.step(np.array([0, 1]))[3].all() for _ in range(7)]
    assert lengths == [False, False, True, False, False, True, False]
    assert [(place.episode, place.length) for place in env.places()] == [(2, 0), (2, 0)]


@pytest.mark.parametrize(
    ("factory", "found"),
    [
        (f"{HERE}:two_slots", "returned an env of 2 slots"),
        (f"{HERE}:on_meta", "returned an env on meta"),
        (f"{HERE}:single", "has no num_envs"),
    ],
)
def test_a_factory_whose_env_has_the_wrong_slots_device_or_interface_is_refused(factory: str, found: str) -> None:
    with pytest.raises(EnvironmentUnusable) as error:
        viewed(factory, slots=3)
    assert found in str(error.value)


def test_unknown_factories_and_arguments_are_refused() -> None:
    with pytest.raises(UsageError):
        viewed("rlrun.toys:tensor_cartpol")
    with pytest.raises(UsageError) as error:
        viewed("rlrun.toys:tensor_cartpole", max_episode_step=3)
    assert "max_episode_steps" in str(error.value)


def test_a_simulator_that_allows_only_one_instance_is_made_again_only_after_it_was_closed() -> None:
    env = viewed(f"{HERE}:only_one")
    with pytest.raises(EnvironmentUnusable):
        viewed(f"{HERE}:only_one")
    assert spaces_of(EnvConfig.parse({"tensors": f"{HERE}:only_one"})).action == gymnasium.spaces.Discrete(2)
    env.close()
    viewed(f"{HERE}:only_one").close()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"id": "CartPole-v1"}, "id"),
        ({"wrappers": ["FlattenObservation"]}, "wrappers"),
        ({"clock": "parallel"}, "clock"),
    ],
)
def test_settings_that_do_not_apply_to_tensor_envs_are_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(SpecError) as error:
        EnvConfig.parse({"tensors": "rlrun.toys:tensor_cartpole", **settings})
    assert named in str(error.value)


def test_settings_of_tensor_envs_appear_only_in_their_configs() -> None:
    data = EnvConfig.parse({"tensors": "rlrun.toys:tensor_cartpole"}).to_data()
    assert data["missing_final"] == "bootstrap"
    assert EnvConfig.parse(data).to_data() == data
    assert not {"tensors", "missing_final"} & EnvConfig.parse("CartPole-v1").to_data().keys()


def test_settings_that_need_experience_on_the_host_are_refused_with_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(
        "own:\n  algorithm: ppo\n  env: {tensors: 'rlrun.toys:tensor_cartpole'}\n"
        "  config: {num_workers: 2}\n  stop: {env_steps: 10}\n"
    )
    with pytest.raises(SpecError) as error:
        load_experiments([file])
    assert "own.yaml:3" in str(error.value)
    assert "num_workers" in str(error.value)


@pytest.mark.parametrize("toy", ["tensor_cartpole", "tensor_pendulum"])
def test_a_single_tensor_env_is_a_gymnasium_env_that_returns_final_observations(toy: str) -> None:
    env = make_env(EnvConfig.parse({"tensors": f"rlrun.toys:{toy}", "kwargs": {"max_episode_steps": 2}}))
    first, _ = env.reset(seed=3)
    action = env.action_space.sample()
    second, _, terminated, truncated, _ = env.step(action)
    third, _, terminated, truncated, _ = env.step(action)
    assert (terminated, truncated) == (False, True)
    assert env.observation_space.contains(third)
    assert not np.array_equal(second, third)
    assert np.array_equal(env.reset(seed=3)[0], first)


def test_recording_a_tensor_env_that_renders_no_images_is_refused() -> None:
    config = EnvConfig.parse({"tensors": "tests.unit.engine.rollout.test_tensor_worker:Counter"})
    with pytest.raises(EnvironmentUnusable):
        make_env(config, render_mode="rgb_array")
