"""The loss of scalar TD errors: its values and gradients, and what its fixed point is."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from rlrun import BCQ, DQN, IQN, PQN, Gorila, SlateQ, Training
from rlrun.algorithms.td_loss import huber, huber_excess

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


def test_a_squared_error_learns_the_mean_return_and_a_bound_of_1_a_larger_one() -> None:
    mean = 1 / (1 - GAMMA * (1 - ENDED))
    # Errors of the last steps are beyond the bound: (1 - p) (1 - (1 - gamma) V) = p.
    of_huber = (1 - ENDED / (1 - ENDED)) / (1 - GAMMA)
    assert (mean, of_huber) == pytest.approx((3.571, 7.5), abs=1e-3)
    assert learned_value(huber=None) == pytest.approx(mean, abs=0.15)
    assert learned_value(huber=1.0) == pytest.approx(of_huber, abs=0.15)


@pytest.mark.parametrize("bound", [0.3, 1.0, 2.5])
def test_a_bound_gives_torch_s_huber_loss_and_gradients_up_to_the_bound_and_never_beyond(bound: float) -> None:
    errors = torch.cat([torch.linspace(-4, 4, 81), torch.tensor([bound, -bound])]).requires_grad_()
    loss = huber(errors, bound)
    torch.testing.assert_close(loss, torch.nn.functional.huber_loss(errors, 0 * errors, reduction="none", delta=bound))
    (gradient,) = torch.autograd.grad(loss.sum(), errors)
    torch.testing.assert_close(gradient, errors.detach().clamp(-bound, bound))


def test_without_a_bound_it_is_half_the_square() -> None:
    errors = torch.linspace(-4, 4, 9)
    torch.testing.assert_close(huber(errors, None), errors**2 / 2)


def test_the_part_of_valid_errors_beyond_the_bound_is_a_statistic() -> None:
    distances, valid = torch.tensor([[0.5], [1.0], [1.5], [9.0]]), torch.tensor([[1.0], [1.0], [1.0], [0.0]])
    found = [float(huber_excess(distances, valid, bound)["huber_excess"]) for bound in (1.0, 0.1, None)]
    assert found == pytest.approx([1 / 3, 1.0, 0.0])


def test_values_that_need_no_bound_have_none_by_default() -> None:
    bounds = {each.name(): each().config.huber for each in (DQN, Gorila, IQN, BCQ, SlateQ, PQN)}
    assert bounds == {"dqn": None, "gorila": None, "iqn": None, "bcq": 1.0, "slateq": None, "pqn": None}


def test_quantiles_keep_a_bound_of_their_own() -> None:
    def step(**settings: Any) -> list[float]:
        config = {"distribution": "quantile", "num_atoms": 3, "model": {"hiddens": []}, "learning_starts": 4}
        with Training(f"{__name__}:OneState", DQN(**config, **settings, min_env_steps_per_iteration=20), seed=1) as run:
            return [run.step()[f"learner/{name}"] for name in ("loss", "huber_excess")]

    assert step(huber=0.01) == step(huber=None)
