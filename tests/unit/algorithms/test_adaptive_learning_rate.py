"""A learning rate that adapts to the KL divergence of updates: its rule, its mean over learners, and its refusals."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from typing_extensions import override

import rlrun
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.kernels.cuda_graphs import OnTheGpu
from rlrun.engine.learner.adaptive_rates import AdaptiveRates
from rlrun.engine.learner.local_learner import LocalLearner
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.learner.optimizers import SGD
from rlrun.engine.learner.statistic_totals import StatisticTotals
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.policy.flat_parameters import FlatParameters
from rlrun.engine.policy.policy import Policy
from rlrun.engine.settings.config import AdaptiveRate
from rlrun.engine.training.training import Training
from rlrun.experiments.spec.load import parse_experiments
from tests.sum_of_two import SumOfTwo

SMALL: dict[str, Any] = {
    "num_envs_per_worker": 4,
    "train_batch_size": 64,
    "minibatch_size": 16,
    "num_epochs": 3,
    "min_env_steps_per_iteration": 0,
    "model": {"hiddens": [8]},
}


def rates_of(rule: AdaptiveRate, divergences: list[float], period: int) -> list[float]:
    """The learning rate of each step, by the rule written as a loop over Python floats."""
    rate, seen, used = rule.initial, [], []
    for kl in divergences:
        used.append(rate)
        seen.append(kl)
        if len(seen) == period:
            mean, seen = sum(seen) / period, []
            rate *= 1 / 1.5 if mean > 2 * rule.adaptive_kl else 1.5 if mean < rule.adaptive_kl / 2 else 1
            rate = min(max(rate, rule.bounds[0]), rule.bounds[1])
    return used


@given(
    # No mean of up to four of these is exactly at a bound of the rule, where rounding would decide.
    st.lists(st.sampled_from([0.0, 0.0041, 0.0063, 0.0181, 0.0223, 0.0517]), min_size=1, max_size=12),
    st.sampled_from(["minibatch", "epoch"]),
    st.integers(1, 4),
)
def test_the_rate_is_adapted_to_the_kl_without_reading_values_from_the_gpu(
    divergences: list[float], every: Any, minibatches: int
) -> None:
    rule = AdaptiveRate(adaptive_kl=0.01, initial=1e-3, bounds=(4e-4, 3e-3), every=every)
    totals, found = StatisticTotals(), []
    totals.add(("kl", "entropy"), torch.tensor([7.0, 0.0]))  # from an earlier update
    objective = Objective("loss", None, optimizer=SGD(), adaptive_lr=rule)
    with OnTheGpu():  # type: ignore[no-untyped-call]  # refuses to read any value
        rates = AdaptiveRates([objective], totals, torch.device("cpu"))
        rates.begin_update()
        for number, kl in enumerate(divergences, 1):
            found.append(rates.applied({"lr": torch.tensor(5.0)})["lr"])
            totals.add(("kl", "entropy"), torch.tensor([kl, 1.0]))
            rates.adapt("minibatch")
            if number % minibatches == 0:
                rates.adapt("epoch")
    expected = rates_of(rule, divergences, 1 if every == "minibatch" else minibatches)
    np.testing.assert_allclose([float(rate) for rate in found], expected, rtol=1e-3)  # rates are a factor of 1.5 apart


class NumberPolicy(Policy):
    """Outputs its only parameter."""

    def __init__(self) -> None:
        self.module = nn.ParameterDict({"number": nn.Parameter(torch.tensor([1.0]))})
        self.parameters = FlatParameters(self.module)

    @override
    def outputs(self, views: Any, batch: SampleBatch, target_views: Any = None) -> Any:
        return views

    @override
    def behavior(self) -> Any:
        raise NotImplementedError


def loss(outputs: Any, batch: SampleBatch, scheduled: Any) -> Loss:
    """Its gradient is 1, and its divergence the mean of the rows' numbers."""
    return Loss(outputs["number"].sum(), {"kl": masked_mean(batch["x"], batch["valid"].float())})


def learner_of(every: str = "minibatch", **more: Any) -> LocalLearner:
    rule = AdaptiveRate.parse({"adaptive_kl": 0.01, "initial": 0.003, "every": every})
    given = Objective("loss", loss, optimizer=SGD(), adaptive_lr=rule)
    return LocalLearner(NumberPolicy(), [given], device="cpu", update_executor="eager", seed=0, **more)


def rows_of(*numbers: float) -> SampleBatch:
    return SampleBatch(x=np.array(numbers, np.float32)[:, None], valid=np.ones((len(numbers), 1), np.bool_))


@pytest.mark.parametrize("more", [{}, {"microbatch_size": 1}])
def test_each_step_uses_the_rate_adapted_to_the_kl_of_the_previous_step_and_the_last_is_reported(
    more: dict[str, Any],
) -> None:
    learner = learner_of(**more)
    moves = []
    for numbers in ((0.001, 0.002), (0.05, 0.0), (0.01, 0.01)):
        before = float(learner.flat()[0])
        learner.learn(rows_of(*numbers), num_epochs=1, minibatch_size=2, scheduled={"lr": 5.0})
        moves.append(before - float(learner.flat()[0]))
    assert moves == pytest.approx([0.003, 0.0045, 0.003], rel=1e-4)
    assert learner.take_statistics()["lr"] == pytest.approx(0.003)


def test_two_learners_adapt_the_rate_to_the_mean_of_their_kls() -> None:
    sums = SumOfTwo()
    pair = [learner_of(share=(rank, 2), all_reduce=sums.of(rank)) for rank in range(2)]

    def learned(learner: LocalLearner) -> float:
        learner.learn(rows_of(0.0, 0.03, 0.0, 0.03), num_epochs=3, minibatch_size=4, scheduled={"lr": 5.0})
        return float(learner.flat()[0])

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(learned, pair))
    assert found[0] == found[1] == pytest.approx(1 - 3 * 0.003)  # a KL of 0 or 0.03 alone would change the rate


@pytest.mark.parametrize("every", ["minibatch", "epoch"])
def test_a_resumed_run_keeps_its_adapted_rate_bit_for_bit(every: str, tmp_path: Path) -> None:
    config = {**SMALL, "lr": {"adaptive_kl": 0.01, "every": every}}
    with Training("CartPole-v1", rlrun.PPO(**config), seed=1) as training:
        training.step()
        training.save(tmp_path / "checkpoint")
        first = training.step()
    with Training.restore(tmp_path / "checkpoint") as training:
        second = training.step()
        rate = training.running.trainee.learner.optimizer_state()["loss/lr"]
    names = [name for name in first if name.startswith("learner/")]
    assert {name: first[name] for name in names} == {name: second[name] for name in names}
    assert rate == np.float32(first["learner/lr"]) != np.float32(3e-4)


@pytest.mark.parametrize(
    "config",
    [
        {"lr": {"grid_search": [1e-3, {"adaptive_kl": 0.01}]}},
        {"lr": {"adaptive_kl": {"uniform": [0.01, 0.02]}}},
        {"lr": {"adaptive_kl": 0.01}, "early_stop_kl": 0.01},
        {"lr": {"adaptive_kl": 0.01, "initial": 0.1}},
    ],
)
def test_adaptive_rates_cannot_be_searched_over_or_combined_with_rival_kl_rules(
    config: dict[str, Any], wording: Any
) -> None:
    with wording.raised(SpecError, "lr"):
        parse_experiments(
            {"try": {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"env_steps": 9}, "config": config}}
        )


@pytest.mark.parametrize("path", ["lr", "lr.adaptive_kl"])
def test_populations_cannot_mutate_an_adaptive_rate(path: str, wording: Any) -> None:
    scheduler = {"pbt": {"interval_env_steps": 4096, "mutations": {path: {"loguniform": [1e-4, 1e-2]}}}}
    entry = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"env_steps": 1e5}, "scheduler": scheduler}
    with wording.raised(SpecError, path):
        parse_experiments({"try": {**entry, "num_samples": 4, "config": {"lr": {"adaptive_kl": 0.01}}}})
