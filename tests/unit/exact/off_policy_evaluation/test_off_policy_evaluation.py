"""Evaluations of policies on recorded episodes: available estimators, refusals, and rankings."""

from __future__ import annotations

from dataclasses import replace

import gymnasium
import numpy as np
import pytest

from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.nn.acting import Floats
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.exact.off_policy_evaluation import estimated_behavior
from rlrun.exact.off_policy_evaluation.action_value_inputs import plain_model
from rlrun.exact.off_policy_evaluation.estimated_behavior import EstimatedBehavior
from rlrun.exact.off_policy_evaluation.estimators import ValueEstimate
from rlrun.exact.off_policy_evaluation.evaluation import OffPolicyEvaluator, PolicyEstimate, PolicyEvaluation, ranked
from rlrun.exact.off_policy_evaluation.fitted_q import FitSettings
from rlrun.exact.off_policy_evaluation.recorded_episodes import RecordedEpisodes
from rlrun.exact.off_policy_evaluation.target_policy import TargetActions, TargetPolicy
from tests.tabular_episodes import BEHAVIOR, GAMMA, JUDGED, recorded, sampled, small_mdp

SPACES = Spaces(gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2))
MDP = small_mdp()
QUICK = FitSettings(sgd_steps=10)


class TabularPolicy(TargetPolicy):
    """A judged policy, given by its probabilities [S, A]."""

    def __init__(self, probabilities: Floats, *, title: str = "stochastic") -> None:
        self.title = title
        self._probabilities = probabilities.astype(np.float32)

    @property
    def has_memory(self) -> bool:
        return False

    def on(self, episodes: RecordedEpisodes) -> TargetActions:
        probabilities = self._probabilities[episodes.observations(np.arange(episodes.num_rows))]
        logs = np.log(np.take_along_axis(probabilities, episodes.actions[:, None], 1)[:, 0].astype(np.float64))
        return TargetActions(None if self.title == "deterministic" else logs, probabilities)


def evaluated(policy: TargetPolicy, episodes: RecordedEpisodes, gamma: float = GAMMA) -> PolicyEvaluation:
    return OffPolicyEvaluator(episodes, SPACES, ModelConfig(), gamma, settings=QUICK, seed=0).evaluate(policy)


def episodes_of_behavior(number: int = 200, log_probs: bool = True) -> RecordedEpisodes:
    return recorded(sampled(MDP, BEHAVIOR, number, np.random.default_rng(0)), log_probs)


def test_importance_weighted_estimators_come_first_and_agree_with_the_exact_value(wording) -> None:
    found = evaluated(TabularPolicy(JUDGED), episodes_of_behavior(2000))
    value = MDP.at_start((JUDGED * MDP.q_of(JUDGED, GAMMA)).sum(-1))
    names = ["importance sampling", "per-decision importance sampling", "doubly robust"]
    assert [row.estimator for row in found.judgements] == [
        *names,
        *(f"weighted {name}" for name in names),
        "direct method",
        "fitted Q evaluation",
    ]
    assert found.mean_weight is not None
    assert found.mean_weight.value == pytest.approx(1.0, abs=0.1)
    for row in found.judgements[:6]:
        assert row.estimate is not None
        assert row.effective_size is not None
        assert row.effective_size > 100
        # A fifth of the episodes end at the time limit, where their value comes from a model with a poor fit.
        assert row.estimate.value == pytest.approx(value, abs=0.6)
    (remark,) = found.remarks
    assert remark == wording()


def test_weighted_estimates_are_withheld_below_ten_effective_episodes(wording) -> None:
    opposite = np.array([[0.98, 0.02], [0.02, 0.98], [0.98, 0.02]])
    found = evaluated(TabularPolicy(opposite), episodes_of_behavior(12))
    plain, weighted = found.judged_by("importance sampling"), found.judged_by("weighted importance sampling")
    assert plain is not None
    assert weighted is not None
    assert weighted.effective_size is not None
    assert weighted.effective_size < 10
    assert weighted.estimate is None
    assert weighted.remarks == wording("10")
    assert plain.estimate is not None
    assert plain.remarks == wording("10")


def test_a_mean_importance_weight_far_from_1_causes_a_remark(wording) -> None:
    """The behavior policy never takes an action that the judged policy takes half the time: weights are too small."""
    episodes = episodes_of_behavior()
    episodes.actions[:] = 0
    found = evaluated(
        TabularPolicy(np.full((3, 2), 0.5)), replace(episodes, log_probs=np.log(np.full(episodes.num_rows, 0.9)))
    )
    assert found.mean_weight is not None
    assert found.mean_weight.value < 0.6
    assert found.remarks[0] == wording()


def test_a_deterministic_policy_is_judged_only_by_the_direct_method_and_fitted_q_evaluation(wording) -> None:
    found = evaluated(TabularPolicy(JUDGED, title="deterministic"), episodes_of_behavior())
    assert [row.estimator for row in found.judgements] == ["direct method", "fitted Q evaluation"]
    assert found.mean_weight is None
    assert found.remarks[0] == wording()


def test_truncated_episodes_without_a_discount_count_as_ended_and_cause_a_remark(wording) -> None:
    found = evaluated(TabularPolicy(BEHAVIOR), episodes_of_behavior(), gamma=1.0)
    assert found.remarks[0] == wording()
    row = found.judged_by("importance sampling")
    assert row is not None
    assert row.estimate is not None
    drawn = sampled(MDP, BEHAVIOR, 200, np.random.default_rng(0))
    assert row.estimate.value == pytest.approx(drawn.rewards.sum(0).mean())


@pytest.mark.parametrize("stored", [None, np.nan])
def test_without_log_probabilities_the_behavior_policy_is_estimated_as_affected_rows_remark(
    stored: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimated_behavior, "SGD_STEPS", 60)
    episodes = episodes_of_behavior(log_probs=False)
    if stored is not None:
        episodes = replace(episodes, log_probs=np.full(episodes.num_rows, stored))
    found = evaluated(TabularPolicy(JUDGED), episodes)
    assert all("behavior policy estimated by cloning" in row.remarks for row in found.judgements[:6])
    assert not any("behavior policy estimated by cloning" in row.remarks for row in found.judgements[6:])
    assert found.mean_weight is not None
    assert found.mean_weight.value == pytest.approx(1.0, abs=0.2)


def test_the_estimated_behavior_policy_matches_the_recorded_action_frequencies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimated_behavior, "SGD_STEPS", 300)
    episodes = episodes_of_behavior()
    model = plain_model(ModelConfig(), (64, 64))
    found = EstimatedBehavior(SPACES, model, episodes, seed=0).log_probs()
    steps = np.flatnonzero(episodes.valid)
    states = episodes.observations(steps)
    for state in range(3):
        actions = episodes.actions[steps][states == state]
        for action in range(2):
            own = np.exp(found[steps][(states == state) & (episodes.actions[steps] == action)])
            assert own == pytest.approx(np.mean(actions == action), abs=0.03)
    assert (found[~episodes.valid] == 0).all()


def test_the_estimated_behavior_policy_gives_forbidden_actions_no_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimated_behavior, "SGD_STEPS", 1)
    observed = {"action_mask": np.tile(np.array([1, 0, 1], np.int8), (4, 1)), "seen": np.zeros((4, 1), np.float32)}
    valid = np.array([True, True, True, False])
    episodes = RecordedEpisodes(
        lambda rows: {name: leaf[rows] for name, leaf in observed.items()},
        np.array([0, 2, 0, 0]),
        np.zeros(4),
        np.zeros(4, np.bool_),
        valid,
    )
    space = gymnasium.spaces.Dict(action_mask=gymnasium.spaces.MultiBinary(3), seen=gymnasium.spaces.Box(-1, 1, (1,)))
    spaces = Spaces(space, gymnasium.spaces.Discrete(3))
    found = EstimatedBehavior(spaces, plain_model(ModelConfig(), (8,)), episodes, seed=0).log_probs()
    np.testing.assert_allclose(np.exp(found[:3]), 0.5, atol=0.01)


def test_the_density_of_an_estimated_behavior_policy_is_in_the_units_of_the_actions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(estimated_behavior, "SGD_STEPS", 300)
    monkeypatch.setattr(estimated_behavior, "LEARNING_RATE", 0.02)
    actions = np.random.default_rng(0).normal(20.0, 5.0, (2000, 1)).astype(np.float32)
    valid = np.arange(2000) < 1999
    observations = np.zeros((2000, 1), np.float32)
    episodes = RecordedEpisodes(lambda rows: observations[rows], actions, np.zeros(2000), np.zeros(2000, bool), valid)
    spaces = Spaces(gymnasium.spaces.Box(-1, 1, (1,)), gymnasium.spaces.Box(-50, 50, (1,)))
    found = EstimatedBehavior(spaces, plain_model(ModelConfig(), (8,)), episodes, seed=0).log_probs()[valid]
    expected = -0.5 * ((actions[valid, 0] - 20) / 5) ** 2 - np.log(5) - 0.5 * np.log(2 * np.pi)
    assert found.mean() == pytest.approx(expected.mean(), abs=0.05)


def evaluation_of(**estimates: ValueEstimate | None) -> PolicyEvaluation:
    names = {"wdr": "weighted doubly robust", "fqe": "fitted Q evaluation"}
    rows = [PolicyEstimate(names[name], estimate, None, ()) for name, estimate in estimates.items()]
    return PolicyEvaluation("stochastic", 0.9, None, tuple(rows), ())


def test_a_ranking_orders_policies_by_estimate_and_marks_pairs_whose_difference_is_resolved() -> None:
    noise = np.array([-1.0, 0.0, 1.0])
    found = ranked(
        [
            evaluation_of(wdr=ValueEstimate(1.0, noise)),
            evaluation_of(wdr=ValueEstimate(3.0, -noise)),
            evaluation_of(wdr=ValueEstimate(1.5, noise + 0.01 * np.array([1.0, -1.0, 0.0]))),
        ]
    )
    assert found.estimator == "weighted doubly robust"
    assert found.order == (1, 2, 0)
    assert [(pair.better, pair.worse, pair.is_resolved) for pair in found.pairs] == [
        (1, 2, False),
        (1, 0, False),
        (2, 0, True),  # their intervals overlap most, but their estimates rise and fall together
    ]
    assert found.num_resolved == 1


def test_policies_are_ranked_by_fitted_q_evaluation_if_a_weighted_estimate_is_withheld() -> None:
    first, second = (ValueEstimate(value, np.array([0.0, 0.1])) for value in (1.0, 2.0))
    found = ranked([evaluation_of(wdr=first, fqe=first), evaluation_of(wdr=None, fqe=second)])
    assert found.estimator == "fitted Q evaluation"
    assert found.order == (1, 0)
