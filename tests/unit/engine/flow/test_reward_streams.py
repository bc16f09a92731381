"""Advantages of further streams of rewards, intrinsic rewards, and the Lagrangian of costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlrun.algorithms.pg.complete_episodes import CompleteEpisodes
from rlrun.algorithms.ppo import PPO, PPOConfig
from rlrun.engine.checkpoint.state_codec import decode, encode
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import StatefulOperator
from rlrun.engine.flow.operators.advantages import ComputeAdvantages, with_advantages
from rlrun.engine.flow.operators.reward_streams import IntrinsicRewards, LagrangianAdvantages
from rlrun.engine.reward_streams.settings import ConstraintConfig, CuriosityConfig
from rlrun.engine.reward_streams.streams import RewardStream, RewardStreams, weighted_advantages
from tests.rounding import rounding_error

GAMMA = 0.5


def two_episodes(stream: str, rewards: str, *, terminated: bool = True) -> SampleBatch:
    """Returns five rows of one env slot: two steps of an episode, its final observation, two of the next episode.

    The row of the final observation holds garbage in all columns, except that streams of the env have no reward there.
    """
    flags = np.array([[False], [True], [False], [False], [False]])
    return SampleBatch(
        {
            rewards: np.array([[1.0], [2.0], [np.nan if stream == "intrinsic" else 0.0], [4.0], [8.0]], np.float32),
            f"{stream}_values": np.array([[10.0], [20.0], [1e6], [40.0], [50.0], [60.0]], np.float32),
        },
        terminateds=flags if terminated else np.zeros_like(flags),
        truncateds=np.zeros_like(flags) if terminated else flags,
        valid=np.array([[True], [True], [False], [True], [True]]),
    )


def one_step(stream: RewardStream, batch: SampleBatch) -> list[float]:
    """Returns the one-step advantages of the steps."""
    found = with_advantages(batch, stream)[stream.column("advantages")][:, 0]
    return [float(number) for number in found[batch["valid"][:, 0]]]


@pytest.mark.parametrize("terminated", [True, False])
def test_a_non_episodic_stream_continues_with_the_first_step_of_the_next_episode(terminated: bool) -> None:
    stream = RewardStream("intrinsic", "intrinsic_rewards", GAMMA, 0.0, is_episodic=False)
    found = one_step(stream, two_episodes("intrinsic", "intrinsic_rewards", terminated=terminated))
    assert found == [1 + 10 - 10, 2 + 20 - 20, 4 + 25 - 40, 8 + 30 - 50]


def test_an_episodic_stream_does_not_bootstrap_after_a_termination() -> None:
    stream = RewardStream("cost", "cost", GAMMA, 0.0)
    assert one_step(stream, two_episodes("cost", "cost")) == [1 + 10 - 10, 2 + 0 - 20, 4 + 25 - 40, 8 + 30 - 50]


def test_advantages_of_a_non_episodic_stream_cross_episode_ends() -> None:
    going_on = RewardStream("intrinsic", "intrinsic_rewards", GAMMA, 1.0, is_episodic=False)
    found = one_step(going_on, two_episodes("intrinsic", "intrinsic_rewards"))
    assert found[1] == pytest.approx(2 + 0.5 * (4 + 0.5 * (8 + 0.5 * 60)) - 20)


def test_a_non_episodic_stream_bootstraps_from_the_final_observation_at_a_fragments_end() -> None:
    stream = RewardStream("intrinsic", "intrinsic_rewards", GAMMA, 1.0, is_episodic=False)
    batch = SampleBatch(
        intrinsic_rewards=np.array([[1.0], [2.0], [0.0], [np.nan]], np.float32),
        intrinsic_values=np.array([[10.0], [20.0], [30.0], [1e6], [1e7]], np.float32),
        terminateds=np.array([[False], [True], [False], [False]]),
        truncateds=np.zeros((4, 1), np.bool_),
        valid=np.array([[True], [True], [False], [False]]),  # the slot stays empty, so its closing row is empty, too
    )
    found = with_advantages(batch, stream)["intrinsic_advantages"][:, 0]
    assert found[1] == 2 + 0.5 * 30 - 20
    assert found[0] == 1 + 0.5 * (2 + 0.5 * 30) - 10


def test_a_non_episodic_stream_skips_empty_rows_to_the_next_agent_in_the_slot() -> None:
    stream = RewardStream("intrinsic", "intrinsic_rewards", GAMMA, 1.0, is_episodic=False)
    nobody = np.nan
    batch = SampleBatch(
        intrinsic_rewards=np.array([[nobody], [1.0], [nobody], [2.0], [nobody], [nobody], [4.0]], np.float32),
        intrinsic_values=np.array([[1e6], [10.0], [1e6], [20.0], [1e6], [1e6], [40.0], [50.0]], np.float32),
        terminateds=np.array([[False], [False], [False], [True], [False], [False], [False]]),
        truncateds=np.zeros((7, 1), np.bool_),
        valid=np.array([[False], [True], [False], [True], [False], [False], [True]]),
    )
    found = with_advantages(batch, stream)["intrinsic_advantages"][:, 0]
    last = 4 + 0.5 * 50
    middle = 2 + 0.5 * last
    assert found[[1, 3, 6]].tolist() == [1 + 0.5 * middle - 10, middle - 20, last - 40]


def test_the_column_names_of_a_stream_are_prefixed_with_its_name() -> None:
    batch = with_advantages(two_episodes("cost", "tears"), RewardStream("cost", "tears", GAMMA, 0.5))
    advantages, targets = batch["cost_advantages"], batch["cost_value_targets"]
    valid = batch["valid"]
    np.testing.assert_allclose(targets[valid], advantages[valid] + batch["cost_values"][:-1][valid])
    assert "advantages" not in batch


def test_the_advantages_of_weighted_streams_are_summed_with_their_weights() -> None:
    batch = SampleBatch(advantages=np.ones((2, 1), np.float32), intrinsic_advantages=np.full((2, 1), 3, np.float32))
    weights = {"": 2.0, "cost": None, "intrinsic": 0.5}
    streams = [RewardStream(name, "", GAMMA, 1.0, weight=weight) for name, weight in weights.items()]
    found = weighted_advantages(streams, batch)
    assert found.tolist() == [[3.5], [3.5]]
    assert found.dtype == np.float32


def test_a_fragment_gets_advantages_for_each_stream_and_their_weighted_sum() -> None:
    batch = SampleBatch(
        {**two_episodes("intrinsic", "intrinsic_rewards"), **two_episodes("cost", "tears")},
        rewards=np.arange(5, dtype=np.float32)[:, None],
        values=np.arange(6, dtype=np.float32)[:, None],
    )
    streams = RewardStreams(
        CuriosityConfig(gamma=0.9, gae_lambda=0.8, extrinsic_coeff=3.0, intrinsic_coeff=0.5),
        ConstraintConfig(column="tears", limit=1.0),
    )
    found = ComputeAdvantages(GAMMA, 0.7, streams)(batch)
    alone = ComputeAdvantages(GAMMA, 0.7)(batch)
    intrinsic, cost = (with_advantages(batch, stream) for stream in streams.further)
    np.testing.assert_array_equal(found["value_targets"], alone["value_targets"])
    np.testing.assert_array_equal(found["cost_advantages"], cost["cost_advantages"])
    np.testing.assert_array_equal(
        found["advantages"],
        np.float32(3) * alone["advantages"] + np.float32(0.5) * intrinsic["intrinsic_advantages"],
    )


@pytest.mark.parametrize("use_baseline", [True, False])
def test_cost_targets_of_whole_episodes_are_the_discounted_sums_of_costs(use_baseline: bool) -> None:
    costs = two_episodes("cost", "tears", terminated=False)  # the first episode is cut off, the second goes on
    batch = SampleBatch(
        costs, rewards=np.zeros((5, 1), np.float32), values=np.zeros((6, 1), np.float32), obs=np.zeros((6, 1, 1))
    )
    constraint = ConstraintConfig(column="tears", limit=1.0, gamma=0.25, gae_lambda=0.0)
    found = CompleteEpisodes(GAMMA, use_baseline, RewardStreams(constraint=constraint))(batch)
    last = 2 + 0.25 * 1e6 if use_baseline else 2.0  # a truncated episode bootstraps from its final observation
    returns = np.array([[1 + 0.25 * last, last]])
    np.testing.assert_array_equal(found["cost_value_targets"], returns.astype(np.float32))
    values = np.array([[10.0, 20.0]]) if use_baseline else 0.0
    np.testing.assert_array_equal(found["cost_advantages"], (returns - values).astype(np.float32))
    assert not {"final_values", "cost_final_values", "ends"} & set(found)


def saved(operator: StatefulOperator) -> Any:
    """Returns an operator's state after a round trip through a checkpoint."""
    arrays: list[Any] = []
    return decode(encode(operator.state(), arrays), arrays)


def costly(cost: float, *, ends: int = 1) -> SampleBatch:
    """Returns a batch of 3 steps with a number of ends, and a row of garbage without a step."""
    flags = np.zeros((4, 1), np.bool_)
    flags[:ends] = True
    flags[3] = True
    return SampleBatch(
        advantages=np.array([[3.0], [0.0], [1.0], [0.0]], np.float32),
        cost_advantages=np.array([[1.0], [2.0], [0.0], [0.0]], np.float32),
        cost=np.array([[cost], [0.0], [0.0], [np.nan]], np.float32),
        terminateds=flags,
        truncateds=np.zeros_like(flags),
        valid=np.array([[True], [True], [True], [False]]),
    )


def test_the_multiplier_climbs_while_an_episode_costs_more_than_the_limit() -> None:
    operator = LagrangianAdvantages("cost", limit=1.0, rate=0.25)
    first = operator(costly(5.0))["advantages"]  # the multiplier is 0.25 * (5 - 1) = 1
    assert first[:, 0].tolist() == [1.0, -1.0, 0.5, 0.0]
    assert operator.metrics() == {"lagrange_multiplier": 1.0}
    operator(costly(4.0, ends=2))  # two episodes with a mean cost of 2
    assert operator.multiplier == 1.25
    for _ in range(6):
        found = operator(costly(0.0))["advantages"]
    assert operator.multiplier == 0.0
    np.testing.assert_array_equal(found, costly(0.0)["advantages"])


def test_costs_of_a_batch_without_an_episode_end_carry_over_to_the_next_batch() -> None:
    operator = LagrangianAdvantages("cost", limit=1.0, rate=1.0)
    operator(costly(3.0, ends=0))
    assert operator.multiplier == 0.0
    resumed = LagrangianAdvantages("cost", limit=1.0, rate=1.0)
    resumed.load_state(saved(operator))
    resumed(costly(2.0))
    assert resumed.multiplier == 4.0


MakeTrainee = Callable[..., Any]


def intrinsic(make_trainee: MakeTrainee, **settings: Any) -> IntrinsicRewards:
    curiosity = {"kind": "rnd", "hiddens": [8], "features": 4, "gamma": GAMMA, **settings}
    config = PPOConfig.parse({"curiosity": curiosity, "model": {"hiddens": [8]}})
    trainee, _ = make_trainee(PPO(config))
    assert config.curiosity is not None
    return IntrinsicRewards(trainee, config.curiosity)


def random_fragment(seed: int, *, time: int = 20, slots: int = 2) -> SampleBatch:
    """Returns random observations; rows 4 and 11 hold final observations, and garbage."""
    draws = np.random.default_rng(seed)
    valid = np.ones((time, slots), np.bool_)
    valid[[4, 11]] = False
    obs = draws.normal(3.0, 2.0, (time + 1, slots, 4)).astype(np.float32)
    ends = np.zeros_like(valid)
    ends[[3, 10]] = True
    return SampleBatch(
        obs=obs,
        actions=draws.integers(0, 2, (time, slots)),
        terminateds=ends,
        truncateds=np.zeros_like(ends),
        valid=valid,
    )


def test_intrinsic_rewards_are_divided_by_the_deviation_of_their_non_episodic_returns(
    make_trainee: MakeTrainee,
) -> None:
    operator = intrinsic(make_trainee)
    raw, scaled = [], []
    for seed in (0, 1):
        batch = random_fragment(seed)
        found = operator((0, batch))
        scaled.append(found["intrinsic_rewards"])
        plain = intrinsic(make_trainee)
        plain._moments = dict(operator._moments)  # the networks' inputs are normalized by the moments so far
        filtered = found["curiosity_next_obs"]
        rows = SampleBatch(curiosity_next_obs=filtered, valid=batch["valid"], actions=batch["actions"])
        raw.append(errors(operator, rows))
    returns, running = [], np.zeros(2)
    for rewards, batch in zip(raw, (random_fragment(0), random_fragment(1)), strict=True):
        for t in range(20):
            running = np.where(batch["valid"][t], rewards[t] + GAMMA * running, running)
            returns += list(running[batch["valid"][t]])
        last = np.std(returns)
    np.testing.assert_allclose(
        scaled[1], np.where(batch["valid"], raw[1] / last, 0.0), rtol=rounding_error(len(returns))
    )
    mean = np.concatenate([part[random_fragment(0)["valid"]] for part in scaled]).mean()
    assert operator.metrics() == {"intrinsic_reward_mean": pytest.approx(mean, rel=rounding_error(len(returns)))}
    assert operator.metrics() == {}


def errors(operator: IntrinsicRewards, rows: SampleBatch) -> np.ndarray[Any, Any]:
    """Returns the networks' unscaled errors for steps, [T, B]."""
    from rlrun.engine.reward_streams.curiosity import intrinsic_rewards

    found = operator.trainee.learner.evaluate(intrinsic_rewards, rows.zero_invalid().rows(1))
    return np.where(rows["valid"], found.reshape(rows["valid"].shape), 0.0)


def test_rows_without_a_step_affect_neither_rewards_nor_statistics(make_trainee: MakeTrainee) -> None:
    batch, other = random_fragment(0), random_fragment(0)
    other["obs"][5] = 1e9  # no step leads to the first observation after an end
    other["obs"][12] = 1e9
    first, second = intrinsic(make_trainee), intrinsic(make_trainee)
    found, again = first((0, batch)), second((0, other))
    np.testing.assert_array_equal(found["intrinsic_rewards"], again["intrinsic_rewards"])
    np.testing.assert_equal(first.state(), second.state())
    assert not found["intrinsic_rewards"][[4, 11]].any()


def test_the_next_observation_of_a_step_is_the_next_one_its_agent_sees(make_trainee: MakeTrainee) -> None:
    batch, other = random_fragment(0), random_fragment(0)
    batch["valid"][7, 0] = other["valid"][7, 0] = False  # the agent makes no decision in this row
    other["obs"][7, 0] = 1e9
    found, again = (intrinsic(make_trainee, kind="icm")((0, own)) for own in (batch, other))
    for name in ("curiosity_next_obs", "intrinsic_rewards"):
        np.testing.assert_array_equal(found[name][batch["valid"]], again[name][batch["valid"]])
    np.testing.assert_array_equal(found["curiosity_next_obs"][6, 0], found["curiosity_obs"][8, 0])
    np.testing.assert_array_equal(found["curiosity_next_obs"][6, 1], found["curiosity_obs"][7, 1])


def test_observations_are_normalized_by_running_moments_and_clipped(make_trainee: MakeTrainee) -> None:
    batch = random_fragment(0, time=400)
    batch["obs"][7, 0, 2] = 1e4
    seen = intrinsic(make_trainee)((0, batch))["curiosity_next_obs"]
    assert np.abs(seen).max() == 5.0
    reached = seen[batch["valid"]]
    np.testing.assert_allclose(reached[:, [0, 1, 3]].mean(0), 0.0, atol=rounding_error(reached.size))
    np.testing.assert_allclose(reached[:, [0, 1, 3]].std(0), 1.0, atol=rounding_error(reached.size))


def test_running_returns_are_kept_separately_for_each_worker(make_trainee: MakeTrainee) -> None:
    one, other = intrinsic(make_trainee), intrinsic(make_trainee)
    for worker in (1, 2):
        one((worker, random_fragment(worker)))
    other((2, random_fragment(2)))
    assert sorted(one._running) == [1, 2]
    assert not np.array_equal(one._running[1], one._running[2])


def test_a_resume_restores_the_moments_of_rewards_and_observations(make_trainee: MakeTrainee) -> None:
    operator = intrinsic(make_trainee)
    operator((None, random_fragment(0)))
    resumed = intrinsic(make_trainee)
    resumed.load_state(saved(operator))
    expected, found = operator((None, random_fragment(1))), resumed((None, random_fragment(1)))
    for name in ("intrinsic_rewards", "curiosity_next_obs"):
        np.testing.assert_array_equal(found[name], expected[name])
