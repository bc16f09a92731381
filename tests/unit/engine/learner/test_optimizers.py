"""What each optimizer does with given gradients, by hand and compared with torch's optimizers."""

import numpy as np
import pytest
import torch

from rlrun.engine.learner.optimizers import SGD, Adam, AdamW, RMSProp
from rlrun.engine.learner.update import fresh_state
from tests.rounding import rounding_error

GRADIENTS = [[1.0, -2.0, 0.5], [0.5, 3.0, -1.0], [-2.0, 0.1, 0.0], [0.3, 0.3, 4.0]]
START = [0.5, -1.0, 2.0]


def optimized(optimizer, lr=0.1):
    parameters, state = torch.tensor(START), fresh_state(optimizer, 3)
    for gradient in GRADIENTS:
        optimizer.step(parameters, torch.tensor(gradient), state, torch.tensor(lr))
    return parameters.numpy(), state


@pytest.mark.parametrize(
    ("ours", "theirs", "settings"),
    [
        (Adam(1e-8), torch.optim.Adam, {"eps": 1e-8}),
        (Adam(1e-8, beta_1=0.5), torch.optim.Adam, {"eps": 1e-8, "betas": (0.5, 0.999)}),
        (AdamW(0.3, 1e-8), torch.optim.AdamW, {"eps": 1e-8, "weight_decay": 0.3}),
        (SGD(), torch.optim.SGD, {}),
        (SGD(0.9), torch.optim.SGD, {"momentum": 0.9}),
        # Torch adds eps to the root, rlrun to the number under it.
        (RMSProp(0.9, 1e-12), torch.optim.RMSprop, {"alpha": 0.9, "eps": 0.0}),
    ],
)
def test_optimizers_agree_with_torch(ours, theirs, settings):
    twin = torch.nn.Parameter(torch.tensor(START))
    optimizer = theirs([twin], lr=0.1, **settings)
    for gradient in GRADIENTS:
        twin.grad = torch.tensor(gradient)
        optimizer.step()
    np.testing.assert_allclose(optimized(ours)[0], twin.detach(), atol=rounding_error(4 * len(GRADIENTS), size=2.0))


@pytest.mark.parametrize("centered", [False, True])
def test_rmsprops_epsilon_is_added_under_the_square_root(centered):
    parameters, mean, square = np.array(START), 0.0, 0.0
    for gradient in np.array(GRADIENTS):
        mean, square = 0.8 * mean + 0.2 * gradient, 0.8 * square + 0.2 * gradient**2
        parameters = parameters - 0.1 * gradient / np.sqrt(square - centered * mean**2 + 0.5)
    found, state = optimized(RMSProp(decay=0.8, epsilon=0.5, centered=centered))
    np.testing.assert_allclose(found, parameters, rtol=rounding_error(4 * len(GRADIENTS)))
    np.testing.assert_allclose(state["second"], square, rtol=rounding_error(4 * len(GRADIENTS)))


def test_the_variance_of_a_constant_gradient_vanishes_but_never_becomes_negative():
    gradient, optimizer, moves = torch.linspace(1, 5, 64), RMSProp(decay=0.9, epsilon=1e-12, centered=True), []
    state = fresh_state(optimizer, 64)
    for _ in range(300):
        parameters = torch.zeros(64)
        optimizer.step(parameters, gradient, state, torch.tensor(0.1))
        moves.append(-parameters.numpy())
    # After n steps, the mean is (1 - 0.9^n) g and the mean square (1 - 0.9^n) g^2.
    for n, move in enumerate(moves[:10], start=1):
        np.testing.assert_allclose(move, 0.1 / np.sqrt(0.9**n * (1 - 0.9**n)), rtol=rounding_error(4 * n))
    is_negative = (state["second"] - state["first"] * state["first"] < 0).numpy()  # from rounding
    assert is_negative.any()
    np.testing.assert_allclose(moves[-1][is_negative], 1e5 * gradient.numpy()[is_negative], rtol=1e-6)


@pytest.mark.parametrize(
    ("optimizer", "shapes"),
    [
        (Adam(), {"first": (3,), "second": (3,), "steps": ()}),
        (AdamW(), {"first": (3,), "second": (3,), "steps": ()}),
        (RMSProp(), {"second": (3,)}),
        (RMSProp(centered=True), {"first": (3,), "second": (3,)}),
        (SGD(), {}),
        (SGD(0.5), {"velocity": (3,)}),
    ],
)
def test_an_optimizers_state_has_exactly_the_needed_parts_and_its_repr_recreates_it(optimizer, shapes):
    assert {name: tuple(tensor.shape) for name, tensor in fresh_state(optimizer, 3).items()} == shapes
    assert eval(repr(optimizer)) == optimizer
