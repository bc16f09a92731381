"""Factory of model-based policies: a model-free agent with a dynamics ensemble."""

from __future__ import annotations

from rlrun.algorithms.model_based.dynamics_config import DynamicsConfig
from rlrun.algorithms.model_based.ensemble import Ensemble
from rlrun.algorithms.model_based.policy import ModelBasedPolicy
from rlrun.algorithms.model_based.transitions import AgentActions, transition_form
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.policy.policy import Policy


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
        UsageError: The ensemble does not support the env's spaces, or a rule is not found.
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
