"""The loss of scalar TD errors: its values, its gradients, and its fixed point."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlrun import BCQ, DQN, IQN, PQN, Gorila, SlateQ, Training
from rlrun.algorithms.td_loss import cross_entropy, entropy, huber, huber_excess, projected, quantile_huber
from tests.rounding import rounding_error

NUMBERS = st.floats(-30, 30, width=32)

GAMMA, ENDED = 0.9, 0.2
SEEN = np.ones(1, np.float32)


class OneState(gymnasium.Env[NDArray[np.float32], int]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Pays 1 for each step in a state that never changes; every fifth step is the last one."""

    observation_space = Box(0.0, 1.0, (1,), np.float32)
    action_space = Discrete(1)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begins an episode."""
        self.steps = 0
        return SEEN, {}

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Pays 1."""
        self.steps += 1
        return SEEN, 1.0, self.steps == 5, False, {}


def learned_value(**settings: Any) -> float:
    """Value that DQN learns for the only state and action."""
    config = {
        "gamma": GAMMA,
        "model": {"hiddens": []},
        "lr": [[0, 0.05], [4000, 0.0]],
        "minibatch_size": 250,
        "training_intensity": 0.1,
        "rollout_fragment_length": 50,
        "learning_starts": 50,
        "target_update_interval": 5,
        "double": False,
        "min_env_steps_per_iteration": 4000,
        **settings,
    }
    with Training(f"{__name__}:OneState", DQN(**config), seed=1) as training:
        training.step()
        return float(training.acting.policy().behavior().outputs(SEEN[None])[0, 0])


def test_the_squared_loss_learns_the_mean_return_and_a_huber_bound_of_1_overestimates_it() -> None:
    mean = 1 / (1 - GAMMA * (1 - ENDED))
    # The error of an episode's last step is beyond the bound, so (1 - p) (1 - (1 - gamma) V) = p for p = ENDED.
    of_huber = (1 - ENDED / (1 - ENDED)) / (1 - GAMMA)
    assert (mean, of_huber) == pytest.approx((3.571, 7.5), abs=1e-3)
    assert learned_value(huber=None) == pytest.approx(mean, abs=0.15)
    assert learned_value(huber=1.0) == pytest.approx(of_huber, abs=0.15)


@pytest.mark.parametrize("bound", [0.3, 1.0, 2.5])
def test_a_huber_bound_gives_the_huber_loss_of_torch_with_gradients_clipped_to_the_bound(bound: float) -> None:
    errors = torch.cat([torch.linspace(-4, 4, 81), torch.tensor([bound, -bound])]).requires_grad_()
    loss = huber(errors, bound)
    torch.testing.assert_close(loss, torch.nn.functional.huber_loss(errors, 0 * errors, reduction="none", delta=bound))
    (gradient,) = torch.autograd.grad(loss.sum(), errors)
    torch.testing.assert_close(gradient, errors.detach().clamp(-bound, bound))


def test_the_loss_without_a_huber_bound_is_half_the_squared_error() -> None:
    errors = torch.linspace(-4, 4, 9)
    torch.testing.assert_close(huber(errors, None), errors**2 / 2)


def test_huber_excess_is_the_fraction_of_valid_errors_beyond_the_bound() -> None:
    distances, valid = torch.tensor([[0.5], [1.0], [1.5], [9.0]]), torch.tensor([[1.0], [1.0], [1.0], [0.0]])
    found = [float(huber_excess(distances, valid, bound)["huber_excess"]) for bound in (1.0, 0.1, None)]
    assert found == pytest.approx([1 / 3, 1.0, 0.0])


def test_only_bcq_has_a_huber_bound_by_default() -> None:
    bounds = {each.name(): each().config.huber for each in (DQN, Gorila, IQN, BCQ, SlateQ, PQN)}
    assert bounds == {"dqn": None, "gorila": None, "iqn": None, "bcq": 1.0, "slateq": None, "pqn": None}


def test_the_huber_setting_does_not_affect_quantile_losses() -> None:
    def step(**settings: Any) -> list[float]:
        config = {"distribution": "quantile", "num_atoms": 3, "model": {"hiddens": []}, "learning_starts": 4}
        with Training(f"{__name__}:OneState", DQN(**config, **settings, min_env_steps_per_iteration=20), seed=1) as run:
            return [run.step()[f"learner/{name}"] for name in ("loss", "huber_excess")]

    assert step(huber=0.01) == step(huber=None)


def projection_by_hand(probabilities, atoms, support):
    """Algorithm 1 of arXiv:1707.06887, atom by atom."""
    found = np.zeros(len(support))
    spacing = (support[-1] - support[0]) / (len(support) - 1)
    for probability, atom in zip(probabilities, atoms, strict=True):
        place = (min(max(atom, support[0]), support[-1]) - support[0]) / spacing
        below, above = int(np.floor(place)), int(np.ceil(place))
        found[below] += probability * (above - place if above > below else 1.0)
        found[above] += probability * (place - below)
    return found


@settings(deadline=None)
@given(
    reward=NUMBERS,
    gamma=st.floats(0, 1),
    n_step=st.integers(1, 5),
    terminated=st.booleans(),
    weights=st.lists(st.floats(0.0, 1.0), min_size=7, max_size=7).filter(lambda weights: sum(weights) > 0.1),
)
def test_the_projection_matches_the_algorithm_of_the_paper(reward, gamma, n_step, terminated, weights):
    support = np.linspace(-10, 5, 7)
    discount = 0.0 if terminated else gamma**n_step
    probabilities, atoms = np.array(weights) / sum(weights), reward + discount * support
    found = projected(torch.from_numpy(probabilities), torch.from_numpy(atoms), torch.from_numpy(support)).numpy()
    np.testing.assert_allclose(found, projection_by_hand(probabilities, atoms, support), atol=1e-9)
    assert found.sum() == pytest.approx(1.0)


def test_the_projection_after_termination_puts_all_probability_on_the_atom_at_the_reward():
    support = torch.linspace(-2, 2, 5)
    found = projected(torch.full((5,), 0.2), 1.0 + 0.0 * support, support)
    torch.testing.assert_close(found, torch.tensor([0.0, 0.0, 0.0, 1.0, 0.0]))
    beyond = projected(torch.full((5,), 0.2), 7.0 + 0.0 * support, support)
    torch.testing.assert_close(beyond, torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0]))


def test_cross_entropy_minus_entropy_is_the_kl_divergence():
    generator = torch.Generator().manual_seed(0)
    logits, other = torch.randn(2, 6, 9, generator=generator)
    targets = other.softmax(-1)
    expected = torch.distributions.kl_divergence(
        torch.distributions.Categorical(probs=targets), torch.distributions.Categorical(logits=logits)
    )
    torch.testing.assert_close(cross_entropy(logits, targets) - entropy(targets), expected)
    certain = torch.tensor([0.0, 1.0, 0.0])
    assert entropy(certain).item() == 0.0


def quantile_loss_by_hand(quantiles, targets):
    """Eq. 10 of arXiv:1710.10044, pair by pair."""
    total = 0.0
    for i, quantile in enumerate(quantiles):
        middle = (2 * i + 1) / (2 * len(quantiles))
        for target in targets:
            error = target - quantile
            loss = 0.5 * error**2 if abs(error) <= 1 else abs(error) - 0.5
            total += abs(middle - (error < 0)) * loss / len(targets)
    return total


@settings(deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=6), st.lists(NUMBERS, min_size=1, max_size=6))
def test_the_quantile_huber_loss_equals_the_sum_over_all_pairs(quantiles, targets):
    found = quantile_huber(torch.tensor([quantiles]), torch.tensor([targets]))
    assert found.shape == (1,)
    near = rounding_error(len(quantiles) * len(targets), size=60.0)  # an error is at most 60
    assert found.item() == pytest.approx(quantile_loss_by_hand(quantiles, targets), abs=near)


def test_minimizing_the_quantile_loss_finds_the_quantiles_of_the_targets():
    targets = torch.arange(100.0)
    quantiles = torch.full((4,), 50.0, requires_grad=True)
    optimizer = torch.optim.Adam([quantiles], lr=1.0)
    for step in range(600):
        optimizer.param_groups[0]["lr"] = 1.0 - step / 600
        optimizer.zero_grad()
        quantile_huber(quantiles, targets).backward()
        optimizer.step()
    np.testing.assert_allclose(quantiles.detach(), [12, 37, 62, 87], atol=1.0)
