import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlrun.algorithms.dqn.return_distributions import cross_entropy, entropy, projected, quantile_huber
from tests.rounding import rounding_error

NUMBERS = st.floats(-30, 30, width=32)


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
def test_projection_equals_the_paper_s_algorithm(reward, gamma, n_step, terminated, weights):
    support = np.linspace(-10, 5, 7)
    discount = 0.0 if terminated else gamma**n_step
    probabilities, atoms = np.array(weights) / sum(weights), reward + discount * support
    found = projected(torch.from_numpy(probabilities), torch.from_numpy(atoms), torch.from_numpy(support)).numpy()
    np.testing.assert_allclose(found, projection_by_hand(probabilities, atoms, support), atol=1e-9)
    assert found.sum() == pytest.approx(1.0)


def test_behind_an_end_all_probability_lies_at_the_reward():
    support = torch.linspace(-2, 2, 5)
    found = projected(torch.full((5,), 0.2), 1.0 + 0.0 * support, support)
    torch.testing.assert_close(found, torch.tensor([0.0, 0.0, 0.0, 1.0, 0.0]))
    beyond = projected(torch.full((5,), 0.2), 7.0 + 0.0 * support, support)
    torch.testing.assert_close(beyond, torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0]))


def test_cross_entropy_less_entropy_is_the_kl_divergence():
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
def test_quantile_huber_equals_the_sum_over_all_pairs(quantiles, targets):
    found = quantile_huber(torch.tensor([quantiles]), torch.tensor([targets]))
    assert found.shape == (1,)
    near = rounding_error(len(quantiles) * len(targets), size=60.0)  # an error is 60 at most
    assert found.item() == pytest.approx(quantile_loss_by_hand(quantiles, targets), abs=near)


def test_quantiles_that_minimise_their_loss_are_those_of_the_targets():
    targets = torch.arange(100.0)
    quantiles = torch.full((4,), 50.0, requires_grad=True)
    optimizer = torch.optim.Adam([quantiles], lr=1.0)
    for step in range(600):
        optimizer.param_groups[0]["lr"] = 1.0 - step / 600
        optimizer.zero_grad()
        quantile_huber(quantiles, targets).backward()
        optimizer.step()
    np.testing.assert_allclose(quantiles.detach(), [12, 37, 62, 87], atol=1.0)
