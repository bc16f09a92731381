"""GAIL: rewards by the discriminator, the absorbing state, what the discriminator learns from, exact resumes."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import rlrun
from rlrun.algorithms.gail.imitation_rewards import (
    ImitationRewards,
    absorbing_log_odds,
    absorbing_share,
    imitation_rewards,
)
from rlrun.algorithms.gail.policy import GAILPolicy
from rlrun.algorithms.gail.settings import EXPERT_ACTIONS, EXPERT_OBS, OWN_ACTIONS, GAILConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.flow.trainee import Filters
from rlrun.engine.functional.moments import Moments
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.training.training import Training
from tests.results import numbers

SMALL = {
    "num_envs_per_worker": 4,
    "train_batch_size": 64,
    "minibatch_size": 32,
    "num_epochs": 2,
    "model": {"hiddens": [8]},
    "discriminator_hiddens": [8],
    "min_env_steps_per_iteration": 128,
}
POLE = Spaces(gymnasium.spaces.Box(-9, 9, (2,), np.float32), gymnasium.spaces.Discrete(2))
PUSH = Spaces(gymnasium.spaces.Box(-9, 9, (2,), np.float32), gymnasium.spaces.Box(-2, 2, (1,), np.float32))


def written(folder: Path, spaces: Spaces, actions: Any, *, lengths: list[int], terminated: bool) -> str:
    """Writes a set of episodes with the number of the step and 1 as observations."""
    with SetWriter(folder, *spaces) as writer:
        for length in lengths:
            obs = np.stack([np.arange(length + 1), np.ones(length + 1)], -1).astype(np.float32)
            ends = np.arange(1, length + 1) == length
            columns = {"obs": obs, "actions": np.resize(actions, (length, *spaces.action.shape)), "rewards": ends * 0.0}
            writer.add_episode({**columns, "terminateds": ends & terminated, "truncateds": ends & (not terminated)})
    return str(folder)


def rewarding(config: dict[str, Any], spaces: Spaces, logit: float, filters: Filters | None = None) -> ImitationRewards:
    """Returns the operator with a discriminator whose output is constant."""
    settings = GAILConfig.parse({**SMALL, **config})
    learner = SimpleNamespace(evaluate=lambda function, rows: np.full(rows["valid"].shape, logit, np.float32))
    trainee = SimpleNamespace(
        seed=0, learner=learner, policy=GAILPolicy(spaces, settings, 0), filters=filters or Filters()
    )
    return ImitationRewards(trainee, settings)  # type: ignore[arg-type]


def fragment_of_zeros(spaces: Spaces, steps: int, *, ends_at: int | None = None, actions: Any = None) -> SampleBatch:
    """Returns a fragment of one env slot."""
    ends = np.zeros((steps, 1), np.bool_)
    if ends_at is not None:
        ends[ends_at] = True
    shape = (steps, 1) if isinstance(spaces.action, gymnasium.spaces.Discrete) else (steps, 1, 1)
    return SampleBatch(
        obs=np.zeros((steps + 1, 1, 2), np.float32),
        actions=np.zeros(shape, np.int64) if actions is None else np.broadcast_to(actions, shape),
        rewards=np.ones((steps, 1), np.float32),
        terminateds=ends,
        truncateds=np.zeros_like(ends),
        valid=np.ones_like(ends),
    )


@pytest.mark.parametrize(
    ("sign", "expected"),
    [("signed", math.log(0.2 / 0.8)), ("positive", -math.log(0.8)), ("negative", math.log(0.2))],
)
def test_rewards_have_the_configured_sign(sign: Any, expected: float) -> None:
    logit = math.log(0.2 / 0.8)  # D = 0.2
    assert imitation_rewards(logit, sign) == pytest.approx(expected)


@given(st.floats(1, 1e4), st.floats(0, 1e3), st.floats(0.5, 0.999))
def test_equal_termination_rates_give_even_odds_for_the_absorbing_state(
    steps: float, ends: float, gamma: float
) -> None:
    share = absorbing_share(steps, ends, gamma)
    assert absorbing_log_odds(share, share) == (0, 0)
    assert absorbing_share(steps, ends + 1, gamma) > share


def test_terminations_are_rewarded_if_the_learner_outlives_its_expert_and_otherwise_punished() -> None:
    expert = absorbing_share(steps=6_000, terminations=100, gamma=0.99)  # falls after 60 steps on average
    outlives = absorbing_log_odds(expert, absorbing_share(steps=5_000, terminations=10, gamma=0.99))
    falls_early = absorbing_log_odds(expert, absorbing_share(steps=2_000, terminations=100, gamma=0.99))
    assert outlives.absorbing > 0 > outlives.others
    assert falls_early.absorbing < 0 < falls_early.others


def test_log_odds_of_the_absorbing_state_follow_bayes_rule() -> None:
    expert, own = absorbing_share(100, 0.5, 0.99), absorbing_share(300, 0.5, 0.99)
    assert (expert, own) == (pytest.approx(0.5), pytest.approx(0.25))
    odds = absorbing_log_odds(expert, own)
    assert odds.absorbing == pytest.approx(math.log(2))
    assert odds.others == pytest.approx(math.log(0.5 / 0.75))


def test_a_termination_earns_the_discounted_rewards_of_the_absorbing_state(tmp_path: Path) -> None:
    expert = written(tmp_path / "set", POLE, 1, lengths=[50], terminated=True)
    gamma, logit = 0.9, 0.25
    operator = rewarding({"expert": expert, "gamma": gamma}, POLE, logit)
    rewards = operator(fragment_of_zeros(POLE, 10, ends_at=4))["rewards"][:, 0]
    expert_share, own_share = absorbing_share(50, 1, gamma), absorbing_share(10, 1, gamma)
    step = (1 - gamma) * (logit + math.log((1 - expert_share) / (1 - own_share)))
    end = gamma * math.log(expert_share / own_share)
    np.testing.assert_allclose(rewards, [step] * 4 + [step + end] + [step] * 5, rtol=1e-6)


def test_an_experts_truncated_episodes_do_not_count_as_absorbing(tmp_path: Path) -> None:
    falls = written(tmp_path / "falls", POLE, 1, lengths=[20] * 5, terminated=True)
    lasts = written(tmp_path / "lasts", POLE, 1, lengths=[20] * 5, terminated=False)
    rewards = [
        rewarding({"expert": path}, POLE, 0.0)(fragment_of_zeros(POLE, 20, ends_at=19))["rewards"]
        for path in (falls, lasts)
    ]
    assert rewards[0][19, 0] > rewards[1][19, 0]
    assert rewards[0][0, 0] < rewards[1][0, 0]


def test_invalid_entries_get_no_reward_and_are_not_counted_as_steps(tmp_path: Path) -> None:
    expert = written(tmp_path / "set", POLE, 1, lengths=[9], terminated=False)
    batch = fragment_of_zeros(POLE, 6)
    batch["valid"][2] = False
    operator = rewarding({"expert": expert}, POLE, 1.0)
    assert operator(batch)["rewards"][2, 0] == 0
    assert operator.state()["own_steps"] == 5


def test_expert_observations_are_normalized_with_the_learners_statistics(tmp_path: Path) -> None:
    expert = written(tmp_path / "set", POLE, [0, 1], lengths=[6], terminated=False)
    seen = np.stack([np.arange(100.0), np.arange(100.0)], -1)
    filters = Filters()
    filters.moments = {"observations/": Moments.of(seen, 1)}
    operator = rewarding({"expert": expert, "normalize_observations": True}, POLE, 0.0, filters)
    batch = operator(fragment_of_zeros(POLE, 200))
    number = batch[EXPERT_OBS][..., 0] * seen[:, 0].std() + seen[:, 0].mean()
    assert set(number.round(3).ravel()) == {0, 1, 2, 3, 4, 5}  # the final observation has no action
    np.testing.assert_array_equal(number.round() % 2, batch[EXPERT_ACTIONS])


def test_the_discriminator_sees_actions_clipped_as_in_the_env(tmp_path: Path) -> None:
    expert = written(tmp_path / "set", PUSH, 1.0, lengths=[5], terminated=False)
    batch = rewarding({"expert": expert}, PUSH, 0.0)(fragment_of_zeros(PUSH, 3, actions=np.float32(7)))
    assert (batch[OWN_ACTIONS] == 1).all()  # the bound 2, in the policy's units
    assert (batch[EXPERT_ACTIONS] == 0.5).all()
    assert (batch["actions"] == 7).all()  # the probability ratio needs the unclipped actions


def test_the_discriminator_loss_is_the_cross_entropy_over_valid_steps() -> None:
    own, expert = torch.tensor([[0.5], [9.0]]), torch.tensor([[-1.0], [9.0]])
    outputs: Any = SimpleNamespace(own_logits=lambda: own, expert_logits=lambda: expert)
    batch = SampleBatch(valid=torch.tensor([[True], [False]]))
    loss = rlrun.GAIL().discriminator_loss(outputs, batch, {})
    discriminated = 1 / (1 + math.exp(1.0)), 1 / (1 + math.exp(-0.5))
    assert loss.total.item() == pytest.approx(-math.log(discriminated[0]) - math.log(1 - discriminated[1]))
    assert (loss.statistics["own_accuracy"], loss.statistics["expert_accuracy"]) == (0, 0)


@pytest.mark.parametrize("more", [{}, {"normalize_observations": True, "model": {"hiddens": [8], "views": {"obs": 2}}}])
def test_a_resumed_run_continues_bit_for_bit(more: dict[str, Any], tmp_path: Path) -> None:
    expert = "configs/cartpole/data/expert"
    with Training("CartPole-v1", rlrun.GAIL(**{**SMALL, "expert": expert, **more}), seed=100) as one:
        one.step()
        checkpoint = one.save(tmp_path / "checkpoint")
        expected = numbers(one.step())
    with Training.restore(checkpoint, trust=True) as other:
        assert numbers(other.step()) == expected
    assert 0 < expected["learner/discriminator/loss"] < 2
    assert expected["episode_len_mean"] == expected["episode_return_mean"]  # these are still the env's returns


def test_with_continuous_actions_only_the_ppo_loss_moves_the_actor_critic(tmp_path: Path) -> None:
    space = gymnasium.make("Pendulum-v1")
    spaces = Spaces(space.observation_space, space.action_space)
    with SetWriter(tmp_path / "set", *spaces) as writer:
        columns = {"obs": np.ones((6, 3), np.float32), "actions": np.ones((5, 1), np.float32), "rewards": np.zeros(5)}
        writer.add_episode({**columns, "terminateds": np.zeros(5, bool), "truncateds": np.arange(5) == 4})
    config = {**SMALL, "expert": str(tmp_path / "set"), "discriminator_lr": 0.0}
    with Training("Pendulum-v1", rlrun.GAIL(**config), seed=100) as training:
        learner = training.running.trainee.learner
        before, table = learner.flat(), learner.policy.parameters
        training.step()
        moved = learner.flat() != before
    for prefix, moves in (("discriminator.", False), ("actor_critic.", True)):
        start, size = table.range_under(prefix)
        assert moved[start : start + size].any() == moves


def test_unsupported_settings_missing_experts_and_multi_part_actions_are_refused(wording) -> None:
    with wording.raised(SpecError):
        GAILConfig.parse({"gamma": 1})
    with wording.raised(SpecError, "curiosity"):
        GAILConfig.parse({"curiosity": {}})
    with (
        Training("CartPole-v1", rlrun.GAIL(**SMALL), seed=0) as training,
        wording.raised(UsageError, "config.expert"),
    ):
        training.step()
    parts = gymnasium.spaces.MultiDiscrete([2, 2])
    with wording.raised(UsageError):
        GAILPolicy(Spaces(POLE.observation, parts), GAILConfig(), 0)
