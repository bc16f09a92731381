from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from rlrun.engine.data.tree import named_leaves
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import make_env, make_vector_env, spaces_of
from rlrun.engine.envs.partial_view import Flicker, HideVelocities, PartialView, Parts

PATH = "rlrun.plugin:PartialView"


def test_only_the_selected_numbers_of_an_observation_are_shown() -> None:
    config = EnvConfig.parse({"id": "CartPole-v1", "wrappers": [{"id": PATH, "kwargs": {"numbers": [0, 2]}}]})
    env, whole = make_env(config), gymnasium.make("CartPole-v1")
    np.testing.assert_array_equal(env.reset(seed=3)[0], whole.reset(seed=3)[0][[0, 2]])
    for action in (0, 1, 1, 0):
        shown, seen = env.step(action), whole.step(action)
        np.testing.assert_array_equal(shown[0], seen[0][[0, 2]])
        assert shown[1:4] == seen[1:4]
    observations, actions = spaces_of(config)
    np.testing.assert_array_equal(observations.high, whole.observation_space.high[[0, 2]])
    assert actions == whole.action_space


@pytest.mark.parametrize(
    ("env_id", "shown"),
    [
        ("CartPole-v1", [0, 2]),
        ("Pendulum-v1", [0, 1]),
        ("Acrobot-v1", [0, 1, 2, 3]),
        ("LunarLander-v3", [0, 1, 4, 6, 7]),
        ("HalfCheetah-v5", list(range(8))),
        ("InvertedDoublePendulum-v5", [0, 1, 2, 3, 4, 8]),
    ],
)
def test_velocities_of_known_envs_are_hidden(env_id: str, shown: list[int]) -> None:
    hidden = "rlrun.plugin:HideVelocities"
    env, whole = (make_env(EnvConfig.parse({"id": env_id, "wrappers": own})) for own in ([hidden], []))
    first = whole.reset(seed=0)[0]
    np.testing.assert_array_equal(env.reset(seed=0)[0], first[shown])
    action = whole.action_space.sample()
    np.testing.assert_array_equal(env.step(action)[0], whole.step(action)[0][shown])


def test_numbers_can_be_selected_by_name(wording) -> None:
    whole = gymnasium.make("CartPole-v1").reset(seed=3)[0]
    by_name = PartialView(gymnasium.make("CartPole-v1"), ["angle", "position", 3])
    np.testing.assert_array_equal(by_name.reset(seed=3)[0], whole[[2, 0, 3]])
    cheetah = PartialView(make_env(EnvConfig(id="HalfCheetah-v5")), ["qpos"])
    assert cheetah.observation_space.shape == (8,)
    with wording.raised(ValueError, "angel"):
        PartialView(gymnasium.make("CartPole-v1"), ["angel"])


def test_hiding_velocities_of_an_unknown_env_is_refused(wording) -> None:
    with wording.raised(ValueError, "PartialView"):
        HideVelocities(gymnasium.make("FrozenLake-v1"))


@pytest.mark.parametrize(
    "wrappers",
    [
        [{"id": PATH, "kwargs": {"numbers": [2, 0]}}],
        ["rlrun.plugin:HideVelocities", {"id": PATH, "kwargs": {"numbers": [1]}}],
        [{"id": "rlrun.plugin:Parts", "kwargs": {"position": [0, 2], "velocity": [1, 3]}}],
    ],
    ids=["view", "view of a view", "parts"],
)
def test_partial_views_of_a_batch_equal_those_of_envs_stepped_one_by_one(wrappers: list[object]) -> None:
    settings = {"id": "CartPole-v1", "max_episode_steps": 30, "wrappers": wrappers}
    batched, one_by_one = (
        make_vector_env(EnvConfig.parse({**settings, "backend": name}), 8, EpisodeSeeds(run_seed=3, worker_index=0))
        for name in ("auto", "loop")
    )
    assert (batched.name, one_by_one.name) == ("cartpole", "loop")
    same(batched.reset(), one_by_one.reset())
    ends = np.zeros(2, np.int64)
    for actions in np.random.default_rng(0).integers(0, 2, (400, 8)):
        shown, *step, infos = batched.step(actions)
        expected, *expected_step, expected_infos = one_by_one.step(actions)
        same(shown, expected)
        np.testing.assert_array_equal(step, expected_step)
        assert (infos, batched.places()) == (expected_infos, one_by_one.places())
        ends += np.sum(step[1:], axis=1, dtype=np.int64)
    assert (ends > 20).all(), "too few episodes ended by a fall, or by the time limit"


def same(one: object, other: object) -> None:
    for (path, leaf), (expected_path, expected) in zip(named_leaves(one), named_leaves(other), strict=True):
        assert (path, leaf.dtype) == (expected_path, expected.dtype)
        np.testing.assert_array_equal(leaf, expected)


def test_observations_are_delayed_by_gymnasiums_wrapper() -> None:
    config = EnvConfig.parse({"id": "Pendulum-v1", "wrappers": [{"id": "DelayObservation", "kwargs": {"delay": 2}}]})
    env, whole = make_env(config), gymnasium.make("Pendulum-v1")
    for seed in range(2):
        shown = [env.reset(seed=seed)[0], *(env.step([0.5])[0] for _ in range(4))]
        true = [whole.reset(seed=seed)[0], *(whole.step([0.5])[0] for _ in range(4))]
        np.testing.assert_array_equal(shown, [np.zeros(3), np.zeros(3), *true[:3]])


@pytest.mark.parametrize("numbers", [[], [4], [-1]])
def test_out_of_range_indices_are_refused(numbers: list[int]) -> None:
    with pytest.raises(ValueError, match="0 to 3"):
        PartialView(gymnasium.make("CartPole-v1"), numbers)


def test_a_partial_view_of_observations_that_are_not_vectors_is_refused() -> None:
    with pytest.raises(ValueError, match="not Discrete"):
        PartialView(gymnasium.make("FrozenLake-v1"), [0])


def test_flicker_hides_the_given_share_of_observations_and_is_reproducible_by_seed() -> None:
    env, whole = Flicker(gymnasium.make("Pendulum-v1"), 0.25), gymnasium.make("Pendulum-v1")
    hidden = []
    for seed in range(20):
        episodes = []
        for _ in range(2):
            shown = [env.reset(seed=seed)[0], *(env.step([0.5])[0] for _ in range(50))]
            episodes.append(np.array(shown))
        np.testing.assert_array_equal(episodes[0], episodes[1])
        true = np.array([whole.reset(seed=seed)[0], *(whole.step([0.5])[0] for _ in range(50))])
        is_hidden = ~episodes[0].any(axis=1)
        np.testing.assert_array_equal(episodes[0][~is_hidden], true[~is_hidden])
        hidden.append(is_hidden)
    assert 0.2 < np.mean(hidden) < 0.3
    assert len({tuple(each) for each in hidden}) == 20


def test_the_space_of_a_flickering_env_includes_zeros(wording) -> None:
    class Far(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(3.0, 5.0, (2,))
        action_space = gymnasium.spaces.Discrete(2)

    assert Flicker(Far()).observation_space == gymnasium.spaces.Box(0.0, 5.0, (2,))
    with wording.raised(ValueError):
        Flicker(Far(), 1.5)
    with pytest.raises(ValueError, match="not Discrete"):
        Flicker(gymnasium.make("FrozenLake-v1"))


def test_each_part_contains_the_numbers_listed_for_it_by_name_or_index(wording) -> None:
    env = Parts(gymnasium.make("CartPole-v1"), position=["position", "angle"], velocity=[1, 3])
    shown, _ = env.reset(seed=0)
    whole, _ = gymnasium.make("CartPole-v1").reset(seed=0)
    np.testing.assert_array_equal(shown["position"], whole[[0, 2]])
    np.testing.assert_array_equal(shown["velocity"], whole[[1, 3]])
    assert shown in env.observation_space
    with wording.raised(ValueError, "angel"):
        Parts(gymnasium.make("CartPole-v1"), position=["angel"])
