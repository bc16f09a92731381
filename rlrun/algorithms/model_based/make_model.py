"""Construction of a model-based policy from an agent and an env's spaces."""

from __future__ import annotations

from rlrun.algorithms.model_based.dynamics_config import DynamicsConfig
from rlrun.algorithms.model_based.ensemble import Ensemble
from rlrun.algorithms.model_based.policy import ModelBasedPolicy
from rlrun.algorithms.model_based.transitions import AgentActions, transition_form
from rlrun.envs.spaces import Spaces
from rlrun.functional.seeding import child_seed
from rlrun.policy.policy import Policy


def model_based(
    agent: Policy, action_space: AgentActions, spaces: Spaces, config: DynamicsConfig, seed: int
) -> ModelBasedPolicy:
    """Returns the policy of an agent and a model of its env.

    Args:
        agent: The agent.
        action_space: The agent's own actions over the env's.
        spaces: Observation and action space.
        config: The model.
        seed: Seed of its first weights.

    Raises:
        UsageError: Such a model cannot predict what the env shows.
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
