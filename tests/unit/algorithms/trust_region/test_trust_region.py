"""TRPO and NPG: Fisher products, conjugate gradients, the direction and the length of a step, what they refuse."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray
from torch import Tensor

import rlrun
from rlrun.algorithms.trust_region.natural_gradient import (
    NaturalGradientStep,
    conjugate_gradient,
    fisher_product,
    scaled_to,
)
from rlrun.algorithms.trust_region.trpo import TRPO
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.policy.action_spaces.action_space import Distribution
from rlrun.engine.policy.action_spaces.box import DiagonalGaussian
from rlrun.engine.policy.action_spaces.discrete import Categorical
from rlrun.engine.policy.policy import Policy
from rlrun.engine.training.training import Training
from tests.results import numbers

STATES = torch.tensor([[1.0, 0.5], [-1.0, 2.0]], dtype=torch.float64)
SEEN = Box(-1, 1, (1,), np.float32)
SMALL = {
    "num_envs_per_worker": 4,
    "train_batch_size": 128,
    "min_env_steps_per_iteration": 0,
    "value_epochs": 1,
    "compile": False,
}


def fisher_matrix(distribution_at: Any, point: Tensor, actions: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Mean of E[grad log pi grad log pi^T] over the states, from actions [state] with their probabilities."""
    found = torch.zeros(len(point), len(point), dtype=point.dtype)
    for action, weights in actions:
        for state in range(len(STATES)):
            moved = point.clone().requires_grad_()
            logp = distribution_at(moved).log_prob(action)[state]
            (score,) = torch.autograd.grad(logp, moved)
            found += weights[state] * torch.outer(score, score) / len(STATES)
    return found


def products(distribution_at: Any, point: Tensor, damping: float) -> Tensor:
    """The matrix of Fisher products with the columns of the identity."""
    moved = point.clone().requires_grad_()
    kl = distribution_at(point).kl(distribution_at(moved)).mean()
    product = fisher_product(kl, moved, damping)
    return torch.stack([product(column) for column in torch.eye(len(point), dtype=point.dtype)])


def test_fisher_vector_products_match_the_exact_fisher_matrix_of_a_categorical_policy() -> None:
    point = torch.linspace(-1, 1, 6, dtype=torch.float64)

    def at(flat: Tensor) -> Categorical:
        return Categorical(STATES @ flat.view(2, 3))

    actions = [(torch.full((2,), action), at(point).log_prob(torch.full((2,), action)).exp()) for action in range(3)]
    expected = fisher_matrix(at, point, actions)
    torch.testing.assert_close(products(at, point, 0.0), expected)
    torch.testing.assert_close(products(at, point, 0.5), expected + 0.5 * torch.eye(6, dtype=torch.float64))


def test_fisher_vector_products_match_the_exact_fisher_matrix_of_a_gaussian_policy() -> None:
    point = torch.tensor([0.3, -0.2, 0.7], dtype=torch.float64)  # two weights of the mean, log standard deviation

    def at(flat: Tensor) -> DiagonalGaussian:
        return DiagonalGaussian(torch.cat([STATES @ flat[:2, None], flat[2:].expand(2, 1)], -1))

    # Gauss-Hermite quadrature: exact for these polynomials of the action.
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    means, std = STATES @ point[:2], point[2].exp()
    actions = [
        ((means + std * node)[:, None], torch.full((2,), weight / np.sqrt(2 * np.pi), dtype=torch.float64))
        for node, weight in zip(nodes, weights, strict=True)
    ]
    torch.testing.assert_close(products(at, point, 0.0), fisher_matrix(at, point, actions))


def test_conjugate_gradients_solve_a_system_in_one_step_per_unknown() -> None:
    root = torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    matrix = root @ root.T + torch.eye(6, dtype=torch.float64)
    target = torch.arange(6, dtype=torch.float64)
    for steps in (6, 9):  # more steps change nothing
        torch.testing.assert_close(matrix @ conjugate_gradient(lambda v: matrix @ v, target, steps), target)
    assert not conjugate_gradient(lambda v: matrix @ v, torch.zeros_like(target), 3).any()


@pytest.mark.parametrize("sign", [0.0, -1.0])
def test_the_step_is_zero_if_the_curvature_is_not_positive(sign: float) -> None:
    target = torch.tensor([1.0, -2.0])
    assert not conjugate_gradient(lambda vector: sign * vector, target, 3).any()
    assert not scaled_to(0.01, target, sign * target).any()


def step_of(policy: Policy, algorithm: TRPO) -> NaturalGradientStep:
    """The loss of the algorithm's first objective."""
    step = algorithm.objectives(policy)[0].loss
    assert isinstance(step, NaturalGradientStep)
    return step


def single_steps(actions: list[Any], advantages: list[float]) -> SampleBatch:
    """Single steps from an observation of 0, so that only biases matter."""
    number = len(actions)
    return SampleBatch(
        obs=torch.zeros(number, 1, 1),
        actions=torch.tensor(actions)[:, None],
        advantages=torch.tensor(advantages)[:, None],
        valid=torch.ones(number, 1, dtype=torch.bool),
    )


def linear(algorithm: TRPO, action: gymnasium.Space[Any]) -> tuple[Policy, dict[str, Tensor]]:
    """A policy without hidden layers, and its parameters."""
    policy = algorithm.policy(Spaces(SEEN, action), seed=0)
    return policy, policy.parameters.views(policy.parameters.gather(policy.module))


def test_the_step_on_a_softmax_bandit_follows_the_closed_form_natural_gradient() -> None:
    algorithm = rlrun.NPG(max_kl=0.002, damping=1e-6, cg_steps=4, model={"hiddens": []})
    policy, parameters = linear(algorithm, Discrete(3))
    probabilities = torch.tensor([0.5, 0.25, 0.25])
    parameters["policy_head.bias"].copy_(probabilities.log())
    advantages = torch.tensor([1.0, -2.0, 0.5])
    # Each action occurs as often as the policy draws it, so the sampled gradient equals the expected one.
    loss = step_of(policy, algorithm)(parameters, single_steps([0, 0, 1, 2], [1.0, 1.0, -2.0, 0.5]), {})
    step = loss.assign["policy_head.bias"] - probabilities.log()
    # F = diag(p) - p p^T maps the advantages to the gradient p (A - p^T A). As F 1 = 0, any constant can be added.
    natural = advantages - advantages.mean()
    variance = (probabilities * natural.square()).sum() - (probabilities @ natural).square()
    torch.testing.assert_close(step, natural * (2 * 0.002 / variance).sqrt(), rtol=1e-3, atol=1e-6)
    assert torch.equal(loss.assign["policy_head.weight"], parameters["policy_head.weight"])


@pytest.mark.parametrize("tried", [1, 10])
def test_the_line_search_keeps_the_divergence_within_its_bound_or_restores_the_weights(tried: int) -> None:
    """Small actions are rewarded, so the Gaussian shrinks, and its divergence outgrows the quadratic model."""
    algorithm = rlrun.TRPO(max_kl=0.5, line_search_steps=tried, model={"hiddens": []})
    policy, parameters = linear(algorithm, Box(-1, 1, (1,), np.float32))
    loss = step_of(policy, algorithm)(
        parameters, single_steps([[-0.1], [0.1], [-1.5], [1.5]], [1.0, 1.0, -1.0, -1.0]), {}
    )
    length, kl = loss.statistics["step_length"].item(), loss.statistics["kl"].item()
    if tried == 1:
        assert (length, kl, loss.statistics["improvement"].item()) == (0.0, 0.0, 0.0)
        assert all(torch.equal(loss.assign[name], parameters[name]) for name in loss.assign)
    else:
        assert length == pytest.approx(algorithm.config.shrink ** round(np.log(length) / np.log(0.8)))
        assert 0 < length < 1
        assert 0.1 < kl <= 0.5
        assert loss.statistics["improvement"].item() > 0


def test_a_non_finite_step_is_not_taken() -> None:
    algorithm = rlrun.TRPO(model={"hiddens": []})
    policy, parameters = linear(algorithm, Discrete(3))
    loss = step_of(policy, algorithm)(parameters, single_steps([0, 1], [float("inf"), 1.0]), {})
    assert all(torch.equal(loss.assign[name], parameters[name]) for name in loss.assign)


SHAPES: dict[str, tuple[str, Mapping[str, Any]]] = {
    "masked": ("rlrun.toys:MaskedGrid", {}),
    "tuple": ("rlrun.toys:NestedTuple", {}),
    "autoregressive": ("rlrun.toys:MultiDiscreteMatch", {"model": {"autoregressive": True}}),
    "gsde": ("Pendulum-v1", {"model": {"use_sde": True}}),
    "recurrent": ("CartPole-v1", {"model": {"core": "gru", "core_width": 8}, "minibatch_size": 32}),
    "normalized": ("CartPole-v1", {"normalize_observations": True, "normalize_rewards": True}),
}


@pytest.mark.parametrize(("env", "config"), SHAPES.values(), ids=SHAPES)
def test_a_step_improves_the_surrogate_and_keeps_the_divergence_within_its_bound(
    env: str, config: Mapping[str, Any]
) -> None:
    model = {"hiddens": [8], **config.get("model", {})}
    training = Training(EnvConfig(id=env), rlrun.TRPO(**{**SMALL, **config, "model": model}), seed=5)
    learner = training.running.trainee.learner
    before = learner.flat()
    training.step()
    policy, rows_of_batch = learner.policy, learner.last_batch
    batch = SampleBatch(rows_of_batch).map(torch.from_numpy)

    def distribution(flat: NDArray[np.float32]) -> Distribution:
        found: Distribution = policy.outputs(policy.parameters.views(torch.from_numpy(flat)), batch).distribution
        return found

    old, new, valid = distribution(before), distribution(learner.flat()), batch["valid"].float()
    ratio = (new.log_prob(batch["actions"]) - old.log_prob(batch["actions"])).exp()
    surrogate = (ratio * batch["advantages"] * valid).sum() / valid.sum()  # the standardized advantages have mean 0
    kl = (old.kl(new) * valid).sum().item() / valid.sum().item()
    training.close()
    assert surrogate.item() > 1e-4
    assert 0.001 < kl <= 0.01001


def test_the_policy_lag_is_zero_although_each_batch_is_used_for_two_objectives() -> None:
    training = Training(EnvConfig(id="CartPole-v1"), rlrun.NPG(**SMALL, model={"hiddens": [8]}), seed=0)
    results = [training.step() for _ in range(2)]
    training.close()
    assert [result["policy_lag_max"] for result in results] == [0, 0]


def test_a_resumed_run_matches_an_uninterrupted_run(tmp_path: Path) -> None:
    with Training("CartPole-v1", rlrun.TRPO(**SMALL, model={"hiddens": [8]}), seed=3) as one:
        one.step()
        checkpoint = one.save(tmp_path / "checkpoint")
        expected = numbers(one.step())
    with Training.restore(checkpoint) as other:
        assert numbers(other.step()) == expected
    assert 0 < expected["learner/kl"] <= 0.01


@pytest.mark.parametrize("name", ["TRPO", "NPG"])
def test_trust_region_algorithms_refuse_several_learners_and_curiosity(name: str, wording) -> None:
    with wording.raised(SpecError, "num_learners"):
        getattr(rlrun, name)(num_learners=2)
    with wording.raised(SpecError):
        getattr(rlrun, name)(curiosity={"kind": "rnd"})


def test_npg_refuses_line_search_settings(wording) -> None:
    with wording.raised(SpecError, "line_search_steps"):
        rlrun.NPG(line_search_steps=3)
