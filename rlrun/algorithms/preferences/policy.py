"""Policies with a frozen reference policy, and a reward model combined with an actor-critic (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from typing_extensions import override

from rlrun.algorithms.preferences.comparisons import EPISODE_ENDS, PREFERENCE
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.nn.network_module import NetworkModule, initialize, seeded
from rlrun.engine.nn.network_spec import Core, Head, Tower, network_spec
from rlrun.engine.nn.observation_leaves import encoded_leaves
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.action_spaces.action_space import Distribution
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.flat_parameters import FlatParameters
from rlrun.engine.policy.stochastic_actor import StochasticActorOutputs, StochasticActorPolicy
from rlrun.engine.reward_streams.rewarding_policy import RewardingOutputs, RewardingPolicy, Views

if TYPE_CHECKING:
    from rlrun.algorithms.preferences.settings import DPOConfig, RewardModelConfig, RLHFConfig
    from rlrun.engine.envs.spaces import Spaces

REWARD_MODEL = "reward_model."
"""Prefix of the names of the reward model's parameters."""


@dataclass(frozen=True)
class ReferencedOutputs(StochasticActorOutputs):
    """Outputs of a stochastic actor and its reference policy, for DPO.

    Attributes:
        reference: Action distributions of the reference policy, [S, L].
    """

    reference: Distribution


class ReferencedActorPolicy(StochasticActorPolicy):
    """Stochastic actor with a reference policy: a target network that keeps the actor's initial parameters."""

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> ReferencedOutputs:
        assert target_views is not None
        own, reference = (super(ReferencedActorPolicy, self).outputs(each, batch) for each in (views, target_views))
        return ReferencedOutputs(own.distribution, reference.distribution)


class RewardModelPolicy(RewardingPolicy):
    """Actor-critic with a reward model: a recurrent network that scores an episode at its last step.

    The reward model reads the observations of all steps, but not the one after the last step. If the learner keeps a
    target network, there is a reference policy: the actor-critic with its initial parameters.

    Args:
        spaces: Observation and action space.
        config: Settings.
        seed: Seed for the initial parameters.
    """

    estimates = "state_values"

    def __init__(self, spaces: Spaces, config: RewardModelConfig | RLHFConfig | DPOConfig, seed: int) -> None:
        super().__init__(ActorCriticPolicy(spaces, config, seed))
        own = config.reward_model
        model = ModelConfig(hiddens=own.hiddens)
        tower = Tower((Head("score", "score", 1),))
        core = Core("gru", own.core_width)
        with seeded(seed):
            network = NetworkModule(network_spec(encoded_leaves(self.leaves), model, tower, core=core))
        initialize([network], network, orthogonal=True, seed=child_seed(seed, "reward model"))
        self.core_width = own.core_width
        self.reward_model = TorchNetwork(network, prefix=REWARD_MODEL)
        self.module: nn.Module = nn.ModuleDict({"actor_critic": self.actor_critic.module, "reward_model": network})
        self.parameters = FlatParameters(self.module)

    @override
    def outputs(self, views: Views, batch: SampleBatch, target_views: Views | None = None) -> RewardModelOutputs:
        """Outputs of actor-critic, reference policy and reward model for a batch, computed on first access."""
        return RewardModelOutputs(self, views, batch, target_views)


class RewardModelOutputs(RewardingOutputs):
    """Outputs of actor-critic, reference policy and reward model, for the losses of preference learning.

    Args:
        policy: The policy.
        views: The policy's parameters by name.
        batch: Columns [S, L, ...].
        target_views: The reference policy's parameters by name; None if there is no reference policy.
    """

    def __init__(self, policy: RewardModelPolicy, views: Views, batch: SampleBatch, target_views: Views | None) -> None:
        super().__init__(policy.actor_critic, views, batch)
        self._policy = policy
        self._target_views = target_views

    @property
    def reference(self) -> Distribution:
        """Action distributions of the reference policy, [rows, steps]."""
        assert self._target_views is not None
        return RewardingOutputs(self._own, self._target_views, self._batch).distribution

    def scores(self) -> Tensor:
        """Scores of episodes up to each step, [S, L]; at an episode's last step, the score of the complete episode."""
        starts = self._batch["episode_starts"]
        state = torch.zeros(len(starts), self._policy.core_width, device=starts.device)
        heads, _ = self._policy.reward_model(self._views, {"obs": self._batch["obs"]}, state, starts)
        return heads["score"].squeeze(-1)

    def score_margins(self) -> Tensor:
        """Score of the preferred episode minus the score of the other episode, for each comparison [rows]."""
        signs: Tensor = self._batch[PREFERENCE] * self._batch[EPISODE_ENDS].float()
        return (self.scores() * signs).sum(1)


def scores_and_reference(outputs: RewardModelOutputs, batch: SampleBatch) -> dict[str, Tensor]:
    """Function for `Learner.evaluate`: episode scores, and log-probabilities under the reference policy, [S, L]."""
    return {"scores": outputs.scores(), "reference_logp": outputs.reference.log_prob(batch["actions"])}


def score_margins(outputs: RewardModelOutputs, batch: SampleBatch) -> Tensor:
    """Function for `Learner.evaluate`: the `score_margins` [rows] of the outputs."""
    return outputs.score_margins()


def scores(outputs: RewardModelOutputs, batch: SampleBatch) -> Tensor:
    """Function for `Learner.evaluate`: scores of episodes up to each step, [rows, steps]."""
    return outputs.scores()
