"""Atari games: settings, true rewards, lives, and the single env that can be drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlrun.engine.envs.atari_vector_env import AtariSettings, SeededAtari
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import check_env, make_env, spaces_of
from rlrun.engine.envs.vector_env import EnvError, observation_hash
from rlrun.engine.messages.errors import SpecError

SEEDS = EpisodeSeeds(run_seed=3, worker_index=0)
FAST = AtariSettings(frameskip=24, noop_max=5)


def test_an_atari_id_can_be_given_settings_and_sticky_actions_are_the_default() -> None:
    observation_space, action_space = spaces_of(
        EnvConfig(id="ALE/Pong-v5", kwargs={"img_height": 60, "stack_num": 2, "full_action_space": True})
    )
    assert observation_space.shape == (2, 60, 84)
    assert action_space.n == 18
    assert AtariSettings().repeat_action_probability == 0.25


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"frame_skip": 4}, "kwargs.frame_skip: unknown key 'frame_skip'; did you mean 'frameskip'?"),
        ({"reward_clipping": True}, "kwargs.reward_clipping: unknown key 'reward_clipping'"),
        ({"noop_max": -1}, "kwargs.noop_max: must be a whole number >= 0, not -1"),
        ({"repeat_action_probability": 2}, "kwargs.repeat_action_probability: must be a number >= 0 and <= 1, not"),
    ],
)
def test_the_error_for_an_invalid_setting_names_it(kwargs: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as raised:
        check_env(EnvConfig(id="ALE/Pong-v5", kwargs=kwargs))
    assert said in str(raised.value)


def test_positions_in_episodes_are_restored_exactly_across_game_overs() -> None:
    env = SeededAtari("breakout", 2, FAST, SEEDS)
    env.reset()
    actions = np.random.default_rng(0).integers(0, 4, (60, 2))
    ends = np.zeros((60, 2), dtype=bool)
    for step, action in enumerate(actions):
        observations, _, terminateds, _, _ = env.step(action)
        ends[step] = terminateds
    assert ends.any(axis=0).all()
    places, hashes = env.places(), [observation_hash(row) for row in observations]
    assert min(place.episode for place in places) >= 1
    env.close()

    again = SeededAtari("breakout", 2, FAST, SEEDS)
    taken = [actions[60 - place.length :, slot] for slot, place in enumerate(places)]
    restored, exact = again.restore(places, taken, hashes, 60.0)
    assert exact == [True, True]
    np.testing.assert_array_equal(restored, observations)
    again.close()


def test_the_atari_env_does_not_clip_rewards() -> None:
    env = SeededAtari("asterix", 1, FAST, SEEDS)  # Asterix pays rewards of 50
    env.reset()
    random = np.random.default_rng(0)
    rewards = {float(env.step(random.integers(0, env.action_space.n, 1))[1][0]) for _ in range(60)}
    assert max(rewards) >= 50
    env.close()


def test_with_episodic_life_a_lost_life_ends_the_episode_but_not_the_game() -> None:
    env = SeededAtari("breakout", 1, FAST.replace(episodic_life=True), SEEDS)
    env.reset()
    random = np.random.default_rng(0)
    lives, lengths, awaiting = [], [], False
    for _ in range(120):
        _, rewards, terminateds, truncateds, infos = env.step(random.integers(0, 4, 1))
        if awaiting:
            assert (rewards[0], terminateds[0], env.places()[0].length) == (0.0, False, 0)
        awaiting = bool(terminateds[0])
        assert not truncateds[0]
        assert (0 in infos) == awaiting
        if awaiting:
            lives.append(infos[0]["lives"])
            lengths.append(env.places()[0].length)
    assert lives[:7] == [4, 3, 2, 1, 0, 4, 3]
    assert min(lengths) > 0
    assert env.places()[0].episode == len(lives) - awaiting
    env.close()


def test_the_single_env_renders_the_game_that_its_observations_show() -> None:
    config = EnvConfig(id="ALE/Breakout-v5", kwargs={"frameskip": 24, "noop_max": 5})
    drawn, plain = make_env(config, render_mode="rgb_array"), make_env(config)
    assert drawn.observation_space == spaces_of(config)[0]
    assert drawn.metadata["render_fps"] == 2
    assert drawn.reset(seed=7)[0].tobytes() == plain.reset(seed=7)[0].tobytes()
    random = np.random.default_rng(0)
    for _ in range(70):
        action = random.integers(0, 4)
        observation, reward, terminated, truncated, _ = drawn.step(action)
        expected, *outcome, _ = plain.step(action)
        assert observation.tobytes() == expected.tobytes()
        assert [reward, terminated, truncated] == outcome
        picture = drawn.render()
        assert (picture.shape, picture.dtype) == ((210, 160, 3), np.uint8)
        # The picture, once it is gray and scaled down, equals the newest frame of the observation.
        gray = (picture @ np.array([0.299, 0.587, 0.114])).reshape(42, 5, 160)[:, :, ::2].mean(axis=1)
        small = observation[-1].reshape(42, 2, 84).mean(axis=1)
        columns = np.linspace(0, 79, 84).round().astype(int)
        assert np.abs(gray[:, columns] - small).mean() < 6
        if terminated:
            break
    assert terminated
    drawn.close()
    plain.close()


def test_actions_outside_the_action_space_are_refused(wording) -> None:
    env = SeededAtari("pong", 1, FAST, SEEDS)
    env.reset()
    with wording.raised(EnvError):
        env.step(np.array([6]))
    env.close()
