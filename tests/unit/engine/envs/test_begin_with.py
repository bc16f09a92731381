"""Options with which every episode begins."""

import gymnasium
import numpy as np
import pytest

from rlrun import PPO, Training
from rlrun.engine.envs.backend import backend_of
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import make_env, make_vector_env
from rlrun.engine.envs.vector_env import observation_hash

SEEDS = EpisodeSeeds(0, worker_index=1)
HIGH = EnvConfig(id="CartPole-v1", reset_options={"low": 0.1, "high": 0.1}, max_episode_steps=5)
START = np.full(4, 0.1, np.float32)


def is_at_start(observations):
    return np.isclose(observations, START).all(-1).tolist()


def test_the_auto_backend_is_the_loop_backend_if_there_are_reset_options():
    assert (backend_of(HIGH), backend_of(EnvConfig(id="CartPole-v1"))) == ("loop", "cartpole")


def test_every_episode_begins_with_the_given_reset_options():
    env = make_vector_env(HIGH, 2, SEEDS)
    assert is_at_start(env.reset()) == [True, True]
    starts = [is_at_start(env.step(np.array([0, 1]))[0]) for _ in range(12)]
    assert [t for t, found in enumerate(starts) if all(found)] == [5, 11]  # the rows after an episode's end (NEXT_STEP)
    assert is_at_start(env.begin([1], [7])) == [True, True]


def test_positions_inside_episodes_are_restored_by_replaying_with_the_reset_options():
    env = make_vector_env(HIGH, 1, SEEDS)
    env.reset()
    for _ in range(3):
        observations, *_ = env.step(np.array([1]))
    expected, place = observations.copy(), env.places()
    other = make_vector_env(HIGH, 1, SEEDS)
    found, exact = other.restore(place, [np.ones(3, np.int64)], [observation_hash(expected[0])], 60.0)
    assert exact == [True]
    np.testing.assert_array_equal(found, expected)


def test_a_resumed_run_with_reset_options_matches_an_uninterrupted_run_bit_for_bit(tmp_path):
    settings = {
        "num_envs_per_worker": 2,
        "train_batch_size": 16,
        "min_env_steps_per_iteration": 0,
        "minibatch_size": 8,
        "model": {"hiddens": [4]},
    }
    with Training(HIGH.to_data(), PPO(**settings), seed=1) as training:
        training.step()
        training.save(tmp_path / "checkpoint")
        expected = training.step()["episode_return_mean"]
        flat = training.running.trainee.learner.flat()
    with Training.restore(tmp_path / "checkpoint") as restored:
        assert restored.step()["episode_return_mean"] == expected
        np.testing.assert_array_equal(restored.running.trainee.learner.flat(), flat)


def test_an_env_that_modifies_its_reset_options_does_not_affect_later_episodes():
    class Greedy(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Box(0, 9, (1,)), gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return np.array([options.pop("first")], np.float32), {}

    from rlrun.engine.envs.single_env import WithResetOptions

    env = WithResetOptions(Greedy(), {"first": 3})
    assert [env.reset()[0].tolist(), env.reset()[0].tolist()] == [[3.0], [3.0]]


@pytest.mark.parametrize("wrappers", [[], ["TimeAwareObservation"]])
def test_a_single_env_starts_with_the_reset_options_with_and_without_a_wrapper(wrappers):
    env = make_env(HIGH.replace(wrappers=wrappers))
    assert env.reset(seed=3)[0][:4].tolist() == pytest.approx([0.1] * 4)
