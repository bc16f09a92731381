"""The example REPPO: its targets, bins and losses match the paper."""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.policy.action_spaces.squashed_box import SquashedGaussian
from rlrun.engine.training.training import Training

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
GAMMA, LAMBDA = 0.9, 0.7


@pytest.fixture
def reppo(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return import_module("my_lab.reppo")


def test_targets_are_the_weighted_means_of_all_soft_n_step_returns(reppo: Any) -> None:
    rng = np.random.default_rng(0)
    rewards, values, costs = rng.normal(size=6), rng.normal(size=7), rng.normal(size=7)
    valid = np.array([1, 1, 0, 1, 1, 1], np.bool_)  # row 2 holds the final observation of a truncated episode
    truncateds, terminateds = np.arange(6) == 1, np.arange(6) == 4

    def target(t: int) -> float:
        """The oracle: soft TD(lambda), recursively."""
        if terminateds[t]:
            return float(rewards[t])
        ends = t + 1 == 6 or truncateds[t]
        later = values[t + 1] if ends else (1 - LAMBDA) * values[t + 1] + LAMBDA * target(t + 1)
        return float(rewards[t] - GAMMA * costs[t + 1] + GAMMA * later)

    valid[5] = True
    batch = SampleBatch(
        rewards=rewards[:, None], valid=valid[:, None], truncateds=truncateds[:, None], terminateds=terminateds[:, None]
    )
    found = reppo.lambda_targets(batch, values[:, None], costs[:, None], GAMMA, LAMBDA)[:, 0]
    assert found[valid] == pytest.approx([target(t) for t in np.flatnonzero(valid)], abs=1e-12)


def test_target_bins_hold_the_mass_of_a_normal_distribution_around_the_value(reppo: Any) -> None:
    config = reppo.REPPOConfig(num_bins=21, v_min=-1.0, v_max=1.0)
    logits = torch.zeros(3, 21, dtype=torch.float64)
    values = torch.tensor([0.0, 0.33, 7.0], dtype=torch.float64)
    found = reppo.smoothed(values, logits, config)

    def cdf(x: float) -> float:
        return 0.5 * (1 + math.erf(x / math.sqrt(2)))

    for row, value in zip(found.tolist(), (0.0, 0.33, 1.0), strict=True):
        mass = [cdf((-0.95 + 0.1 * k - value) / 0.075) - cdf((-1.05 + 0.1 * k - value) / 0.075) for k in range(21)]
        assert row == pytest.approx([each / sum(mass) for each in mass], abs=1e-9)
    assert reppo.expected(found.log(), config)[:2].tolist() == pytest.approx([0.0, 0.33], abs=1e-3)


def test_one_iteration_changes_all_parameters_and_a_resumed_run_continues_exactly(reppo: Any, tmp_path: Path) -> None:
    settings = {"train_batch_size": 64, "rollout_fragment_length": 16, "num_envs_per_worker": 4, "num_epochs": 2}
    own = {"minibatch_size": 32, "min_env_steps_per_iteration": 0, "model": {"hiddens": [8]}, "num_bins": 11}
    training = Training(EnvConfig(id="Pendulum-v1"), reppo.REPPO(**settings, **own), seed=1)
    before = training.running.trainee.learner.flat()
    result = training.step()
    after = training.running.trainee.learner.flat()
    assert np.isfinite(after).all()
    assert (before[-2:] != after[-2:]).all()  # the two learned scalars, alpha and beta
    assert 0.0 <= result["learner/actor/bounded"] <= 1.0
    training.save(tmp_path / "checkpoint")
    training.step()
    expected = training.running.trainee.learner.flat()
    training.close()
    resumed = Training.restore(tmp_path / "checkpoint", trust=True)
    resumed.step()
    assert resumed.running.trainee.learner.flat().tobytes() == expected.tobytes()
    resumed.close()


@pytest.mark.parametrize(("shift", "is_beyond"), [(0.0, False), (0.5, True)])
def test_rows_beyond_the_kl_bound_only_pull_the_policy_back_toward_the_old_one(
    reppo: Any, shift: float, is_beyond: bool
) -> None:
    algorithm = reppo.REPPO(num_bins=11, kl_target=1e-3, model={"hiddens": [8]})
    spaces = Spaces(gymnasium.spaces.Box(-1, 1, (3,)), gymnasium.spaces.Box(-2, 2, (1,)))
    policy = algorithm.policy(spaces, 0)
    before = {name: parameter.detach() for name, parameter in policy.module.named_parameters()}
    moved = {**before, "actor.head.bias": before["actor.head.bias"] + torch.tensor([shift, 0.0])}
    batch = SampleBatch(obs=torch.ones(1, 1, 3), noise=torch.ones(1, 1, 1), valid=torch.ones(1, 1))
    outputs = policy.outputs(moved, batch, before)
    found = {name: float(value) for name, value in algorithm.actor_loss(outputs, batch, {}).statistics.items()}

    present = SquashedGaussian(outputs.networks.actor_outputs(batch["obs"]))
    actions, log_probs = present.sample_and_log_prob(batch["noise"])
    value = reppo.expected(outputs.networks.critic_outputs(batch["obs"], actions)[0], algorithm.config)
    std = float(present.log_stds.exp())
    assert found["kl"] == pytest.approx(0.5 * (shift / std) ** 2, rel=1e-5, abs=1e-9)
    assert found["bounded"] == is_beyond
    expected = 0.01 * found["kl"] if is_beyond else float(0.01 * log_probs - value)
    assert found["loss"] == pytest.approx(expected, rel=1e-5)
