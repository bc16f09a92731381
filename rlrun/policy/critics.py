"""Policies that are nothing but critics: the best action is looked for where it is needed (torch)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import map_tree
from rlrun.functional.cross_entropy_method import best_actions
from rlrun.nn.actor_q_nets import EncodedNet
from rlrun.nn.critics_net import CriticsNet
from rlrun.nn.dense_net import DenseNet
from rlrun.nn.model_config import ModelConfig
from rlrun.nn.observation_leaves import observation_leaves
from rlrun.policy.action_space import bounded_box
from rlrun.policy.actor_q_networks import CRITICS, run
from rlrun.policy.critic_forward import CriticForward, DenseCritic
from rlrun.policy.critics_behavior import BestActions, ChosenActions
from rlrun.policy.deterministic_behavior import DeterministicBehavior
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.policy import Policy

NOISE = "action_noise"
"""Column of a minibatch with the noise of the samples, [S, 1, iterations, samples, D]."""


@dataclass(frozen=True)
class CriticsNetworks:
    """What losses of critics are functions of: networks, to be run on what the loss chooses.

    Attributes:
        module: The critics, templates.
        views: Their parameters by name.
        target_views: Those of the target critics.
        num_elites: How many samples give the next mean and deviation when an action is looked for.
    """

    module: CriticsNet
    views: Mapping[str, Tensor]
    target_views: Mapping[str, Tensor]
    num_elites: int

    def values(self, observations: Any, actions: Tensor) -> Tensor:
        """Returns what the critics say of actions [S, L, D] in observations [S, L, ...], [C, S, L]."""
        return self._values(self.views, observations, actions)

    def target_values(self, observations: Any, actions: Tensor) -> Tensor:
        """Returns what the target critics say of them, [C, S, L]."""
        return self._values(self.target_views, observations, actions)

    def target_best_actions(self, observations: Any, noise: Tensor) -> Tensor:
        """Returns the actions that the first target critic values most.

        Args:
            observations: A tree of [S, 1, ...].
            noise: Standard normal, [S, 1, iterations, samples, D].

        Returns:
            Actions between -1 and 1, [S, 1, D].
        """
        samples = noise.shape[3]
        repeated = map_tree(lambda leaf: leaf.expand(-1, samples, *leaf.shape[2:]), observations)

        def values_of(actions: Tensor) -> Tensor:
            return run(self.module.critics[0], f"{CRITICS}0.", self.target_views, repeated, actions).squeeze(-1)

        with torch.no_grad():
            found: Tensor = best_actions(values_of, noise[:, 0], self.num_elites)
        return found[:, None]

    def _values(self, views: Mapping[str, Tensor], observations: Any, actions: Tensor) -> Tensor:
        critics = enumerate(self.module.critics)
        values = [run(critic, f"{CRITICS}{i}.", views, observations, actions) for i, critic in critics]
        return torch.stack(values).squeeze(-1)


class CriticsPolicy(Policy):
    """Critics that say what an action is worth; acting is looking for the best one."""

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        model: ModelConfig,
        *,
        normalize_observations: bool,
        seed: int,
        num_critics: int,
        iterations: int,
        samples: int,
        elites: int,
        uniform_steps: int,
    ) -> None:
        """Builds the networks for the spaces.

        Args:
            observation_space: What the env shows.
            action_space: What it takes.
            model: The critics' layers.
            normalize_observations: Whether observations are shifted and scaled.
            seed: Seed of the first weights.
            num_critics: How many critics there are.
            iterations: Times that samples are drawn when an action is looked for.
            samples: How many.
            elites: How many of them give the next mean and deviation.
            uniform_steps: Env steps until which actions are drawn uniformly.

        Raises:
            UsageError: If actions are no Box with finite bounds.
        """
        self.leaves = observation_leaves(observation_space)
        self.box = bounded_box(action_space, "a policy of critics")
        self.normalize_observations = normalize_observations
        self.iterations = iterations
        self.samples = samples
        self.elites = elites
        self.uniform_steps = uniform_steps
        self.net = CriticsNet(self.leaves, self.box.size, num_critics, model, seed)
        self.module = self.net
        self.parameters = FlatParameters(self.net)

    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> CriticsNetworks:
        """Returns the networks."""
        return CriticsNetworks(self.net, views, views if target_views is None else target_views, self.elites)

    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Returns the noise of the samples among which the next actions are looked for."""
        shape = (rows, length, self.iterations, self.samples, self.box.size)
        return {NOISE: generator.standard_normal(shape, np.float32)}

    def behavior(self) -> DeterministicBehavior:
        """Returns the acting side, without weights."""
        return DeterministicBehavior(
            BestActions(
                judging_side(self.net.critics, self.parameters, self.leaves),
                self.box.size,
                iterations=self.iterations,
                samples=self.samples,
                elites=self.elites,
            ),
            ChosenActions(self.box),
            self.leaves,
            normalize_observations=self.normalize_observations,
            uniform_steps=self.uniform_steps,
            kind="gaussian",
            theta=0.0,
        )


def judging_side(critics: nn.ModuleList, table: FlatParameters, leaves: Any) -> CriticForward:
    """Returns the first of several critics alone, for acting: a NumPy mirror if it is dense, a copy in torch otherwise.

    Args:
        critics: The critics, `critics` in their module.
        table: Where their parameters lie.
        leaves: The tree of `ObservationLeaf`.
    """
    critic, name = critics[0], f"{CRITICS}0."
    assert isinstance(critic, EncodedNet)
    if critic.is_dense:
        trunk, head = table.dense_layers(critic.trunk, f"{name}trunk"), table.dense_layers(critic.head, f"{name}head")
        return DenseCritic(leaves, DenseNet([*trunk, *head]))
    from rlrun.policy.torch_behavior import TorchCritic

    own = [slot for slot in table.slots if slot.name.startswith(name)]
    return TorchCritic(copy.deepcopy(critic), own[0].offset, sum(slot.size for slot in own))
