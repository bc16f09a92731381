"""Model-based policies: a model-free agent and a dynamics ensemble in one flat parameter vector (torch)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from rlrun.algorithms.model_based.ensemble import MEMBERS, Ensemble, EnsembleOutputs
from rlrun.algorithms.model_based.settings import OBJECTIVE, DynamicsConfig
from rlrun.algorithms.model_based.transitions import AgentActions, transition_form
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.learner.objective import Loss, LossFunction, Objective
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.flat_parameters import FlatParameters
from rlrun.engine.policy.policy import Policy

AGENT = "agent."
"""Name prefix of the agent's parameters."""

DYNAMICS = "dynamics."
"""Name prefix of the ensemble's parameters."""

LEARNED_DYNAMICS = f"{DYNAMICS}{MEMBERS}"
"""Name prefix of the ensemble's parameters that are trained by gradients."""


@dataclass(frozen=True)
class ModelBasedOutputs:
    """Agent outputs and dynamics ensemble, both evaluated at the parameters of an update.

    Attributes:
        agent: Outputs of the agent, in the form that its losses expect.
        dynamics: Ensemble of dynamics models, evaluated with these parameters.
    """

    agent: Any
    dynamics: EnsembleOutputs


class ModelBasedPolicy(Policy):
    """Policy of a model-free agent, trained together with an ensemble of dynamics models.

    Args:
        agent: Policy of the model-free algorithm.
        action_space: Conversion between the agent's actions and env actions.
        ensemble: Ensemble of dynamics models.
    """

    def __init__(self, agent: Policy, action_space: AgentActions, ensemble: Ensemble) -> None:
        self.agent = agent
        self.action_space = action_space
        self.ensemble = ensemble
        self.leaves = agent.leaves
        self.module: nn.Module = _Networks(agent.module, ensemble)
        self.parameters = FlatParameters(self.module)

    @property
    @override
    def acting_range(self) -> tuple[int, int]:
        """Slice, as (start, size), of the flat parameters that the model-free agent needs for acting."""
        start, size = self.agent.acting_range
        return self.parameters.range_under(AGENT)[0] + start, size

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> ModelBasedOutputs:
        """Outputs of the model-free agent on a minibatch, and the ensemble for use in losses."""
        targets = None if target_views is None else select_by_prefix(AGENT, target_views)
        agent = self.agent.outputs(select_by_prefix(AGENT, views), batch, targets)
        return ModelBasedOutputs(agent, EnsembleOutputs(self.ensemble, select_by_prefix(DYNAMICS, views)))

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Samples the random numbers that the model-free agent's losses use, as columns of a minibatch."""
        return self.agent.draws(generator, rows, length)

    @override
    def behavior(self) -> BehaviorPolicy:
        return self.agent.behavior()


class _Networks(nn.Module):
    def __init__(self, agent: nn.Module, dynamics: nn.Module) -> None:
        super().__init__()
        self.agent = agent
        self.dynamics = dynamics


def select_by_prefix(prefix: str, views: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Selects parameters by name prefix, and strips the prefix."""
    return {name.removeprefix(prefix): view for name, view in views.items() if name.startswith(prefix)}


def with_dynamics_objective(of_agent: Sequence[Objective]) -> list[Objective]:
    """Objectives of a model-based policy: the agent's objectives, followed by the loss of the dynamics ensemble."""
    moved = [
        replace(
            each,
            loss=None if each.loss is None else _of_agent(each.loss),
            parameters=f"{AGENT}{each.parameters}",
            assigns=tuple(f"{AGENT}{name}" for name in each.assigns),
        )
        for each in of_agent
    ]
    return [*moved, Objective(OBJECTIVE, dynamics_loss, lr="dynamics_lr", parameters=LEARNED_DYNAMICS)]


def _of_agent(loss: LossFunction) -> LossFunction:
    def loss_of_agent(outputs: ModelBasedOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        return loss(outputs.agent, batch, scheduled)

    return loss_of_agent


def dynamics_loss(outputs: ModelBasedOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
    """Negative log-likelihood of the dynamics ensemble; see `EnsembleOutputs.losses`."""
    found = outputs.dynamics.losses(batch)
    return Loss(found["loss"], found)


def holdout_errors(outputs: ModelBasedOutputs, batch: SampleBatch) -> Tensor:
    """Function for `Learner.evaluate`: errors [N] of the ensemble members on held-out transitions."""
    return outputs.dynamics.errors(batch)


def drawn_transitions(outputs: ModelBasedOutputs, batch: SampleBatch) -> dict[str, Tensor]:
    """Function for `Learner.evaluate`: samples predictions of the ensemble members; see `EnsembleOutputs.draw`."""
    return outputs.dynamics.draw(batch)


def model_based(
    agent: Policy, action_space: AgentActions, spaces: Spaces, config: DynamicsConfig, seed: int
) -> ModelBasedPolicy:
    """Creates a model-based policy: the policy of a model-free agent, and a dynamics ensemble for the env's spaces.

    Args:
        agent: Policy of the model-free agent.
        action_space: Conversion between the agent's actions and env actions.
        spaces: Observation and action space.
        config: Settings of the ensemble.
        seed: Seed of the ensemble's initial weights.

    Raises:
        UsageError: The ensemble does not support the env's spaces, or a termination or reward rule is not found.
    """
    form = transition_form(spaces, config)
    ensemble = Ensemble(
        form.num_inputs,
        form.num_targets,
        predicts_ends=form.terminated is None,
        num_members=config.num_members,
        num_elites=config.num_elites,
        hiddens=config.hiddens,
        seed=child_seed(seed, "dynamics"),
    )
    return ModelBasedPolicy(agent, action_space, ensemble)
