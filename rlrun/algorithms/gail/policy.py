"""Policy of GAIL: an actor-critic with a discriminator between expert and learner (torch)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from typing_extensions import override

from rlrun.algorithms.gail.settings import EXPERT_ACTIONS, EXPERT_OBS, OWN_ACTIONS, OWN_OBS, GAILConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import ModelConfig, ViewsConfig
from rlrun.engine.nn.network_module import NetworkModule, initialize, seeded
from rlrun.engine.nn.network_spec import Head, Tower, network_spec
from rlrun.engine.nn.observation_leaves import encoded_leaves
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.policy.action_spaces.box import GaussianBoxActions
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions, one_hot
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.flat_parameters import FlatParameters
from rlrun.engine.reward_streams.rewarding_policy import RewardingOutputs, RewardingPolicy, Views

if TYPE_CHECKING:
    from rlrun.engine.envs.spaces import Spaces

DISCRIMINATOR = "discriminator."
"""Prefix of the names of the discriminator's parameters."""


class GAILPolicy(RewardingPolicy):
    """Actor-critic with a discriminator network, which sees single steps: the current observation and the action.

    Args:
        spaces: Observation and action space.
        config: Settings.
        seed: Seed for the initial parameters.

    Attributes:
        discriminator_leaves: The tree of `ObservationLeaf` of the discriminator's inputs.

    Raises:
        UsageError: Actions are neither Discrete nor in a Box.
    """

    estimates = "state_values"

    def __init__(self, spaces: Spaces, config: GAILConfig, seed: int) -> None:
        super().__init__(ActorCriticPolicy(spaces, config, seed))
        actions = self.actor_critic.action_space
        if not isinstance(actions, DiscreteActions | GaussianBoxActions):
            raise UsageError(f"gail needs a Discrete or Box action space, but this env has {spaces.action}")
        self.num_categories = actions.num_outputs if isinstance(actions, DiscreteActions) else None
        present = config.model.replace(views=ViewsConfig())
        self.discriminator_leaves = encoded_leaves(
            policy_leaves(*spaces, present, normalize_observations=config.normalize_observations)
        )
        own = ModelConfig(hiddens=config.discriminator_hiddens)
        acted = (("actions", self.num_categories or actions.num_outputs // 2),)
        tower = Tower((Head("logit", "logit", 1),))
        with seeded(seed):
            network = NetworkModule(network_spec(self.discriminator_leaves, own, tower, vectors=acted))
        initialize([network], network, orthogonal=True, seed=child_seed(seed, "discriminator"))
        self.discriminator = TorchNetwork(network, prefix=DISCRIMINATOR)
        self.module: nn.Module = nn.ModuleDict({"actor_critic": self.actor_critic.module, "discriminator": network})
        self.parameters = FlatParameters(self.module)

    @override
    def outputs(self, views: Views, batch: SampleBatch, target_views: Views | None = None) -> GAILOutputs:
        """Outputs of actor-critic and discriminator for a batch [rows, steps, ...], computed on first access."""
        return GAILOutputs(self, views, batch)

    def logits(self, views: Views, observations: Any, actions: Tensor) -> Tensor:
        """Log-odds log D - log(1 - D) that steps are the expert's, [S, L], for S sequences of L steps.

        Actions are given as the policy outputs them, before conversion to the env's units.
        """
        if self.num_categories is not None:
            actions = one_hot(actions, self.num_categories)
        heads, _ = self.discriminator(views, {"obs": observations, "actions": actions})
        return heads["logit"].squeeze(-1)


class GAILOutputs(RewardingOutputs):
    """Network outputs for GAIL's losses: the outputs of the actor-critic and of the discriminator.

    Args:
        policy: The policy.
        views: The policy's parameters by name.
        batch: Columns [S, L, ...].
    """

    def __init__(self, policy: GAILPolicy, views: Views, batch: SampleBatch) -> None:
        super().__init__(policy.actor_critic, views, batch)
        self._policy = policy

    def own_logits(self) -> Tensor:
        """Discriminator output for the learner's steps: log-odds that they are the expert's, [rows, steps]."""
        return self._policy.logits(self._views, self._batch[OWN_OBS], self._batch[OWN_ACTIONS])

    def expert_logits(self) -> Tensor:
        """Discriminator output for the expert's steps: log-odds that they are the expert's, [rows, steps]."""
        return self._policy.logits(self._views, self._batch[EXPERT_OBS], self._batch[EXPERT_ACTIONS])


def own_logits(outputs: GAILOutputs, batch: SampleBatch) -> Tensor:
    """Function for `Learner.evaluate`: log-odds that the steps of a batch are the expert's, [rows, steps]."""
    return outputs.own_logits()
