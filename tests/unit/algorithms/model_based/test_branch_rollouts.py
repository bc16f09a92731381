"""Branched rollouts and the replay that they fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlrun
from rlrun.algorithms.model_based.branch_rollouts import AddImagined, BranchRollouts, ModelReplay
from rlrun.algorithms.model_based.fit_model import FitModel
from rlrun.algorithms.model_based.mbpo import actor_outputs
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.reward_scale import RewardScale
from rlrun.engine.messages.errors import CheckpointError
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from tests.rounding import rounding_error

Make = Callable[..., rlrun.Training]


def branch_of(training: rlrun.Training) -> BranchRollouts:
    config, trainee = training.description.algorithm.config, training.running.trainee
    replay = ReplayBuffer(config.replay, num_workers=1, n_step=1, gamma=0.9, seed=0)
    fit = FitModel(trainee, replay, config.dynamics, learning_starts=0)
    imagined, scale = ModelReplay(2, seed=1), RewardScale(config.reward_scale, config.clip_rewards)
    return BranchRollouts(trainee, fit, imagined, actor_outputs, number=6, gamma=0.9, scale=scale)


def right_half_ends(obs: Any, actions: Any, next_obs: Any) -> Any:
    return obs[:, 0] > 0


def all_end(obs: Any, actions: Any, next_obs: Any) -> Any:
    return np.ones(len(obs), np.bool_)


def reward_by_hand(obs: Any, actions: Any, next_obs: Any) -> Any:
    assert np.abs(actions).max() > 1  # in the env's scale, from -2 to 2
    return obs[:, 0] + 10 * actions[:, 0] + 100 * next_obs[:, 0]


def test_a_branch_stops_at_a_termination_with_discount_0(mbpo: Make) -> None:
    branch = branch_of(mbpo({"terminated": f"{__name__}:right_half_ends"}))
    starts = np.array([[1, 0, 0], [-1e6, 0, 0], [1, 0, 0], [-1e6, 0, 0], [-1e6, 0, 0]], np.float32)
    found = branch.roll_out(starts, 3)
    assert len(found["valid"]) == 5 + 3 + 3
    np.testing.assert_array_equal(np.sort(found["discounts"].flatten()), np.float32([0, 0, *[0.9] * 9]))
    np.testing.assert_array_equal(found["discounts"] == 0, found["obs"][..., 0] > 0)


def test_rollouts_stop_early_if_all_episodes_terminate(mbpo: Make) -> None:
    found = branch_of(mbpo({"terminated": f"{__name__}:all_end"})).roll_out(np.zeros((7, 3), np.float32), 3)
    assert len(found["valid"]) == 7


def test_each_imagined_step_starts_where_the_previous_one_ended(mbpo: Make) -> None:
    found = branch_of(mbpo({"terminated": "never"})).roll_out(np.eye(3, dtype=np.float32), 2)
    np.testing.assert_array_equal(np.sort(found["next_obs"][:3], axis=0), np.sort(found["obs"][3:], axis=0))
    np.testing.assert_array_equal(np.sort(found["obs"][:3], axis=0), np.sort(np.eye(3)[:, None], axis=0))


def test_reward_rules_receive_actions_scaled_as_in_the_env(mbpo: Make) -> None:
    found = branch_of(mbpo({"reward": f"{__name__}:reward_by_hand"})).roll_out(np.ones((64, 3), np.float32), 1)
    by_hand = found["obs"][..., 0] + 20 * found["actions"][..., 0] + 100 * found["next_obs"][..., 0]
    np.testing.assert_allclose(found["rewards"], by_hand, rtol=rounding_error(3))


def test_rule_based_rewards_are_scaled_and_clipped_like_collected_rewards(mbpo: Make) -> None:
    rule, starts = {"reward": f"{__name__}:reward_by_hand"}, np.ones((64, 3), np.float32)
    raw = branch_of(mbpo(rule)).roll_out(starts, 1)["rewards"]
    found = branch_of(mbpo(rule, reward_scale=0.5, clip_rewards=20.0)).roll_out(starts, 1)["rewards"]
    np.testing.assert_array_equal(found, (raw / 2).clip(-20, 20))
    assert raw.min() < -40 < 40 < raw.max()


def test_imagined_transitions_are_counted_separately_and_follow_the_length_schedule(mbpo: Make) -> None:
    training = mbpo({"terminated": "never"}, rollout_length=[[60, 1], [120, 3.9]], rollout_rounds=2)
    result = training.step()
    assert result["env_steps"] == 60
    assert result["model_steps"] == 2 * 40  # one round after 40 steps and one after 60
    assert result["minibatches_per_env_step"] == pytest.approx(0.5 * 20 / 60)
    result = training.step()
    assert result["env_steps"] == 120
    assert result["model_steps"] == 40 * (1 + 1 + 1 + 2 + 3)  # lengths 1.97, 2.93, 3.9 rounded down
    assert result["model_replay/steps"] == 40 * (2 + 3)
    assert result["minibatches_per_env_step"] == pytest.approx(0.5)


def numbered(first: int, number: int) -> SampleBatch:
    column = np.arange(first, first + number)[:, None]
    return SampleBatch(obs=column[..., None].astype(np.float64), rewards=column, valid=np.ones_like(column, np.bool_))


def test_a_model_replay_keeps_the_latest_rounds_whatever_their_size() -> None:
    replay = ModelReplay(2, seed=1)
    sizes = []
    for first, number in ((0, 4), (10, 2), (20, 3)):
        replay.add(numbered(first, number))
        sizes.append(len(replay))
    assert sizes == [4, 6, 5]
    assert set(replay.sample(200)["rewards"].flatten()) == {10, 11, 20, 21, 22}


def test_a_restored_model_replay_draws_the_same_transitions() -> None:
    one, other = ModelReplay(2, seed=1), ModelReplay(2, seed=2)
    one.add(numbered(0, 9))
    one.sample(3)
    other.load_state(one.state(whole=True))
    np.testing.assert_array_equal(one.sample(20)["rewards"], other.sample(20)["rewards"])


def test_restoring_a_model_replay_with_columns_of_the_wrong_length_is_refused() -> None:
    replay = ModelReplay(2, seed=1)
    replay.add(numbered(0, 9))
    with pytest.raises(ValueError, match="a different length"):
        ModelReplay(2, seed=1).load_state({**replay.state(whole=True), "sizes": [8]})


def test_in_a_minibatch_the_collected_transitions_come_before_the_imagined_ones() -> None:
    imagined = ModelReplay(1, seed=1)
    imagined.add(numbered(100, 5))
    collected = SampleBatch(numbered(0, 3), indices=np.array([4, 5, 6]))
    found = AddImagined(imagined, 7)(collected)
    assert found["rewards"].shape == (10, 1)
    assert found["rewards"][:3, 0].tolist() == [0, 1, 2]
    assert (found["rewards"][3:] >= 100).all()
    assert found["indices"].tolist() == [4, 5, 6]


def transitions(number: int, *, width: int = 2) -> SampleBatch:
    return SampleBatch(
        obs=np.zeros((number, 1, width), np.float32),
        rewards=np.arange(number, dtype=np.float32)[:, None],
        valid=np.ones((number, 1), np.bool_),
    )


def restored(held: SampleBatch) -> ModelReplay:
    before, after = ModelReplay(2, seed=0), ModelReplay(2, seed=0)
    before.add(held)
    after.load_state(before.state(whole=True))
    return after


def test_a_restored_model_replay_can_be_sampled_and_extended() -> None:
    replay = restored(transitions(5))
    minibatch = AddImagined(replay, 4)(SampleBatch(transitions(3), indices=np.arange(3)))
    assert minibatch["obs"].shape == (7, 1, 2)
    replay.add(transitions(6))
    assert len(replay) == 11


def test_restored_transitions_of_a_different_shape_cannot_be_combined_with_new_ones(wording) -> None:
    for put_together in (
        AddImagined(restored(transitions(5, width=3)), 4),
        restored(transitions(5, width=3)).add,
    ):
        with wording.raised(CheckpointError):
            put_together(transitions(3))
