"""Fitted Q evaluation (FQE): Q functions of the evaluated policy, learned from recorded steps (torch).

Source:
    Le, Voloshin and Yue, arXiv:1903.08738, algorithm 3, with a target network that follows the learned one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from rlrun.engine.functional.returns import Doubles
from rlrun.engine.functional.seeding import child_seed, generator
from rlrun.engine.nn.network_module import NetworkModule, initialize, seeded
from rlrun.exact.off_policy_evaluation.action_value_inputs import ActionValueInputs, AnnealedAdam, RunNetworks
from rlrun.exact.off_policy_evaluation.recorded_episodes import RecordedEpisodes, Rows, blocks

TARGET_RATE = 0.1
"""Update rate of the target networks: their step towards the learned parameters after each minibatch."""

HORIZONS = 3
"""Number of horizons over which rewards are propagated by the default number of minibatches."""

SGD_STEPS_BOUNDS = 2_000, 20_000
"""Bounds of the default number of minibatches."""


@dataclass(frozen=True)
class FitSettings:
    """Settings for fitted Q evaluation.

    Attributes:
        sgd_steps: Number of minibatches; None for a number that grows with the horizon.
        hiddens: Widths of the hidden layers of a Q function.
        minibatch_size: Steps per minibatch.
        lr: Initial learning rate of Adam, which decays linearly to 0.
    """

    sgd_steps: int | None = None
    hiddens: tuple[int, ...] = (64, 64)
    minibatch_size: int = 256
    lr: float = 1e-3

    def sgd_steps_within(self, horizon: float) -> int:
        """Number of minibatches: `sgd_steps` if set, else proportional to the horizon (in env steps), within bounds."""
        low, high = SGD_STEPS_BOUNDS
        return self.sgd_steps or int(min(max(HORIZONS * horizon / TARGET_RATE, low), high))


class FittedQ:
    """M Q functions of one policy, fitted simultaneously to M weighted samples of the same episodes.

    Targets are clipped to the range of returns that the recorded rewards allow, so that no fit diverges.

    Args:
        inputs: Inputs of the Q functions.
        episodes: The recorded episodes.
        weights: Weight of each episode in each fit, [M, E].
        gamma: Discount factor.
        settings: Settings for the fit.
        seed: Seed of the initial parameters and minibatches.
    """

    def __init__(
        self,
        inputs: ActionValueInputs,
        episodes: RecordedEpisodes,
        weights: Doubles,
        gamma: float,
        settings: FitSettings,
        seed: int,
    ) -> None:
        self._inputs = inputs
        self._episodes = episodes
        self._targets = _Targets(episodes, gamma)
        self._module, self._parameters = _networks(inputs, len(weights), seed)
        self._weights = torch.as_tensor(weights, dtype=torch.float32)
        self._fit(settings, generator(seed, "fitted q"))

    def q(self) -> Doubles:
        """Values of the actions recorded in N rows, by each of M Q functions, [M, N]; 0 for final observations."""
        return self._on_rows(np.flatnonzero(self._episodes.valid), self._inputs.q)

    def v(self) -> Doubles:
        """Value of the evaluated policy in each of N rows, by each of M Q functions, [M, N]; 0 after termination."""
        continues = np.ones(self._episodes.num_rows, np.bool_)
        continues[self._episodes.final_rows[self._episodes.terminated]] = False
        return self._on_rows(np.flatnonzero(continues), self._inputs.v)

    def _on_rows(self, rows: Rows, values: Callable[[RunNetworks, Rows], Tensor]) -> Doubles:
        found = np.zeros((len(self._weights), self._episodes.num_rows))
        with torch.inference_mode():
            for part in blocks(rows):
                found[:, part] = self._targets.in_rewards(values(self._running(self._parameters), part).numpy())
        return found

    def _fit(self, settings: FitSettings, draws: np.random.Generator) -> None:
        """Minimizes the squared TD error; afterwards, the networks have the target networks' parameters."""
        learned = {name: value.detach().clone().requires_grad_() for name, value in self._parameters.items()}
        target = {name: value.detach().clone() for name, value in self._parameters.items()}
        sgd_steps = settings.sgd_steps_within(self._targets.horizon)
        optimizer = AnnealedAdam(learned.values(), settings.lr, sgd_steps)
        steps = np.flatnonzero(self._episodes.valid)
        for step in range(sgd_steps):
            rows = steps[draws.integers(len(steps), size=settings.minibatch_size)]
            with torch.no_grad():
                following = self._inputs.v(self._running(target), rows + 1, sample=step)
            errors = self._inputs.q(self._running(learned), rows) - self._targets.of(rows, following)
            counts = self._weights[:, self._episodes.episode_of_row[rows]]
            optimizer.descend((counts * errors.square()).mean(-1).sum())
            with torch.no_grad():
                for name, value in target.items():
                    value.lerp_(learned[name], TARGET_RATE)
        self._parameters = target

    def _running(self, parameters: Mapping[str, Tensor]) -> RunNetworks:
        """Forward pass of all networks with the given parameters."""

        def run_one(own: Mapping[str, Tensor], inputs: Any) -> Tensor:
            heads, _ = functional_call(self._module, dict(own), ({"obs": inputs},))
            outputs: Tensor = heads["outputs"].squeeze(1)
            return outputs

        run_all: Callable[[Mapping[str, Tensor], Any], Tensor] = vmap(run_one, in_dims=(0, None))
        return lambda inputs: run_all(parameters, inputs)


class _Targets:
    """TD targets in units of the recorded returns, which networks fit best.

    Attributes:
        horizon: Effective horizon in env steps: 1 / (1 - gamma), or the longest episode without a discount.
    """

    def __init__(self, episodes: RecordedEpisodes, gamma: float) -> None:
        returns = episodes.returns_to_go(gamma)[episodes.valid]
        self._offset, self._scale = float(returns.mean()), float(returns.std()) or 1.0
        self._rewards = episodes.rewards
        # Without discounting, a truncation counts as an end, because the fit would have no fixed point otherwise.
        ends = episodes.terminateds | (np.append(~episodes.valid[1:], True) if gamma == 1.0 else False)
        self._discounts = np.where(ends, 0.0, gamma)
        self.horizon = float(episodes.lengths.max()) if gamma == 1.0 else 1 / (1 - gamma)
        rewards = episodes.rewards[episodes.valid]
        self._low, self._high = min(rewards.min(), 0.0) * self.horizon, max(rewards.max(), 0.0) * self.horizon

    def of(self, rows: Rows, following: Tensor) -> Tensor:
        """Scaled targets r + gamma v' of steps, from the scaled values v' of the next observations, [M, B]."""
        discounts = torch.as_tensor(self._discounts[rows])
        targets = torch.as_tensor(self._rewards[rows]) + discounts * self.in_rewards(following.double())
        scaled: Tensor = (targets.clamp(self._low, self._high) - self._offset) / self._scale
        return scaled.float()

    def in_rewards(self, scaled: Any) -> Any:
        """Values in the units of rewards."""
        return scaled * self._scale + self._offset


def _networks(inputs: ActionValueInputs, number: int, seed: int) -> tuple[NetworkModule, dict[str, Tensor]]:
    """A template module, and the initial parameters of several networks, stacked along the first axis."""
    modules = []
    for i in range(number):
        own = child_seed(seed, "fitted q network", i)
        with seeded(own):
            module = NetworkModule(inputs.spec)
        initialize([module], module, orthogonal=True, seed=own)
        modules.append(module)
    parameters, _ = stack_module_state(modules)
    return modules[0], parameters
