"""Curiosity: actor-critic policies with intrinsic rewards from RND, ICM or RE3 (torch).

Novelty networks compute the intrinsic rewards, from observations normalized by separate running moments. The policy's
module contains the novelty networks and the actor-critic. Novelty networks that are trained have a separate objective;
random ones are frozen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium
import torch
from torch import Tensor, nn
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import ModelConfig, ViewsConfig
from rlrun.engine.nn.network_module import NetworkModule, initialize, seeded
from rlrun.engine.nn.network_spec import Head, Tower, network_spec
from rlrun.engine.nn.observation_leaf import ObservationLeaf
from rlrun.engine.nn.observation_leaves import encoded_leaves
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.policy.action_spaces.box import GaussianBoxActions
from rlrun.engine.policy.action_spaces.discrete import Categorical, DiscreteActions, one_hot
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.flat_parameters import FlatParameters
from rlrun.engine.reward_streams.rewarding_policy import RewardingOutputs, RewardingPolicy, Views
from rlrun.engine.reward_streams.settings import CuriosityConfig
from rlrun.engine.reward_streams.streams import CURIOSITY_NEXT_OBS, CURIOSITY_OBS

if TYPE_CHECKING:
    from rlrun.engine.policy.action_spaces.make import AnyActions

MOST_NEIGHBOURS = 1024
"""Size of the chunks of consecutive steps for nearest-neighbor search, whose time and memory are quadratic."""

LEARNED = "learned."
"""Prefix of the parameter names of the trained novelty networks."""

FIXED = "fixed."
"""Prefix of the parameter names of the frozen random networks."""


class Novelty(ABC):
    """Novelty estimator: uses trained or frozen networks to compute the intrinsic rewards of steps.

    Attributes:
        columns: Columns of the batch that the estimator reads in addition to the actions.
        learns: Whether the estimator has trained networks.
        networks: The estimator's networks, by their names in the policy.
    """

    columns: ClassVar[tuple[str, ...]] = (CURIOSITY_NEXT_OBS,)
    learns: ClassVar[bool] = True
    networks: dict[str, NetworkModule]

    @abstractmethod
    def __init__(self, leaves: Any, actions: AnyActions, config: CuriosityConfig, model: ModelConfig) -> None:
        """Creates the novelty networks.

        Args:
            leaves: The tree of `ObservationLeaf` of the networks' inputs.
            actions: The action space.
            config: The settings.
            model: Layers of each network.
        """

    @abstractmethod
    def rewards(self, views: Views, batch: SampleBatch) -> Tensor:
        """Computes the unnormalized intrinsic rewards of S sequences of L steps, [S, L]."""

    def losses(self, views: Views, batch: SampleBatch) -> Tensor:
        """Computes the losses of the trained networks for each of L steps in S sequences, [S, L]."""
        raise TypeError(f"{type(self).__name__} has no loss to minimize")

    def run(self, name: str, views: Views, inputs: Mapping[str, Any]) -> Tensor:
        """Computes the K output features of the network with a given name, for S sequences of L steps, [S, L, K]."""
        heads, _ = TorchNetwork(self.networks[name], prefix=f"{name}.")(views, inputs)
        return heads["features"]


class RandomNetworkDistillation(Novelty):
    """Random network distillation (RND): rewards are errors in predicting random features of the next observation.

    Source:
        Burda et al., "Exploration by random network distillation", arXiv:1810.12894, section 2.2.
    """

    def __init__(self, leaves: Any, actions: AnyActions, config: CuriosityConfig, model: ModelConfig) -> None:
        self.networks = {
            f"{LEARNED}predictor": _network(leaves, config.features, model),
            f"{FIXED}target": _network(leaves, config.features, model),
        }

    @override
    def rewards(self, views: Views, batch: SampleBatch) -> Tensor:
        """Computes the mean squared error of the predicted features of the next observation, at each step, [S, L]."""
        seen = {"obs": batch[CURIOSITY_NEXT_OBS]}
        target = self.run(f"{FIXED}target", views, seen).detach()
        return (self.run(f"{LEARNED}predictor", views, seen) - target).square().mean(-1)

    @override
    def losses(self, views: Views, batch: SampleBatch) -> Tensor:
        """Computes the predictor's distillation losses, equal to the intrinsic rewards, for each step, [S, L]."""
        return self.rewards(views, batch)


class IntrinsicCuriosityModule(Novelty):
    """Intrinsic curiosity module (ICM): rewards are errors of a forward dynamics model in a learned feature space.

    The features are trained by an inverse model, which predicts the action between two consecutive observations.

    Source:
        Pathak et al., "Curiosity-driven exploration by self-supervised prediction", arXiv:1705.05363, eqs. 2 to 7.
    """

    columns = (CURIOSITY_OBS, CURIOSITY_NEXT_OBS)

    def __init__(self, leaves: Any, actions: AnyActions, config: CuriosityConfig, model: ModelConfig) -> None:
        if not isinstance(actions, DiscreteActions | GaussianBoxActions):
            raise UsageError("curiosity.kind: icm supports only Discrete and Box actions; use rnd")
        self.actions = actions
        self.forward_weight = config.forward_weight
        width = config.features
        features = ObservationLeaf("vector", (width,))
        self.num_actions = actions.num_outputs if isinstance(actions, DiscreteActions) else actions.size
        acted = (("actions", self.num_actions),)
        self.networks = {
            f"{LEARNED}features": _network(leaves, width, model),
            f"{LEARNED}forward_model": _network(features, width, model, acted),
            f"{LEARNED}inverse_model": _network({"now": features, "next": features}, self.num_actions, model),
        }

    @override
    def rewards(self, views: Views, batch: SampleBatch) -> Tensor:
        """Computes half the forward model's mean squared error at each step, [S, L] (arXiv:1705.05363, eq. 6)."""
        return self._forward_errors(views, batch, *self._features(views, batch))

    @override
    def losses(self, views: Views, batch: SampleBatch) -> Tensor:
        """Computes the weighted losses of the inverse and forward models per step, [S, L] (arXiv:1705.05363, eq. 7)."""
        now, behind = self._features(views, batch)
        forward = self._forward_errors(views, batch, now, behind)
        told = self.run(f"{LEARNED}inverse_model", views, {"obs": {"now": now, "next": behind}})
        if isinstance(self.actions, DiscreteActions):
            inverse = -Categorical(told).log_prob(batch["actions"])
        else:
            inverse = 0.5 * (told - batch["actions"]).square().mean(-1)
        return (1 - self.forward_weight) * inverse + self.forward_weight * forward

    def _features(self, views: Views, batch: SampleBatch) -> tuple[Tensor, Tensor]:
        seen = map_tree(lambda now, behind: torch.cat([now, behind]), *(batch[column] for column in self.columns))
        now, behind = self.run(f"{LEARNED}features", views, {"obs": seen}).chunk(2)
        return now, behind

    def _forward_errors(self, views: Views, batch: SampleBatch, now: Tensor, behind: Tensor) -> Tensor:
        acted = batch["actions"]
        if isinstance(self.actions, DiscreteActions):
            acted = one_hot(acted, self.num_actions)
        foreseen = self.run(f"{LEARNED}forward_model", views, {"obs": now, "actions": acted})
        return 0.5 * (foreseen - behind).square().mean(-1)


class StateEntropy(Novelty):
    """State entropy (RE3): rewards from k-nearest-neighbor distances between random features of observations.

    Neighbors are searched for within one fragment (rollout). Fragments of more than 1,024 steps are split along time
    into chunks of 1,024 steps, which are searched separately.

    Source:
        Seo et al., "State entropy maximization with random encoders", arXiv:2102.09430.
    """

    learns = False

    def __init__(self, leaves: Any, actions: AnyActions, config: CuriosityConfig, model: ModelConfig) -> None:
        self.num_neighbours = config.num_neighbours
        self.networks = {f"{FIXED}encoder": _network(leaves, config.features, model)}

    @override
    def rewards(self, views: Views, batch: SampleBatch) -> Tensor:
        """Computes the rewards log(1 + distance to the k-th nearest neighbor) for S sequences of L steps, [S, L].

        Padding rows do not count as neighbors.
        """
        features = self.run(f"{FIXED}encoder", views, {"obs": batch[CURIOSITY_NEXT_OBS]}).flatten(0, 1)
        parts = zip(
            torch.split(features, MOST_NEIGHBOURS), torch.split(batch["valid"].flatten(), MOST_NEIGHBOURS), strict=True
        )
        nearest = [self._distances(part, valid) for part, valid in parts]
        return torch.cat(nearest).log1p().view(batch["valid"].shape)

    def _distances(self, features: Tensor, valid: Tensor) -> Tensor:
        """Returns distances to the k-th nearest neighbor, [N]; 0 if there are fewer than k neighbors.

        Squared distances are compared, without the row's own squared norm, which is common to all its neighbors.
        Features are centered first: float32 loses all precision in differences of large squares.
        """
        count = valid.sum().clamp(min=1)
        features = features - features.masked_fill(~valid.unsqueeze(-1), 0.0).sum(0) / count
        squares = features.square().sum(-1)
        lengths = squares.masked_fill(~valid, torch.inf)
        compared = torch.addmm(lengths.expand(len(features), -1), features, features.T, alpha=-2)
        number = min(self.num_neighbours + 1, len(features))  # each row is its own nearest neighbor
        nearest = compared.topk(number, largest=False).values[:, -1] + squares
        return nearest.masked_fill(nearest.isinf(), 0.0).clamp(min=0.0).sqrt()


KINDS: dict[str, type[RandomNetworkDistillation | IntrinsicCuriosityModule | StateEntropy]] = {
    "rnd": RandomNetworkDistillation,
    "icm": IntrinsicCuriosityModule,
    "re3": StateEntropy,
}
"""Novelty estimators by the value of the setting `curiosity.kind`."""


def _network(leaves: Any, outputs: int, model: ModelConfig, vectors: tuple[tuple[str, int], ...] = ()) -> NetworkModule:
    return NetworkModule(network_spec(leaves, model, Tower((Head("features", "features", outputs),)), vectors=vectors))


class CuriousOutputs(RewardingOutputs):
    """Outputs of a policy with curiosity, as input of losses: the actor-critic's outputs, and intrinsic rewards.

    Args:
        policy: The policy.
        views: The policy's parameters by name.
        batch: Columns of S sequences with L steps, [S, L, ...].
    """

    def __init__(self, policy: CuriousPolicy, views: Views, batch: SampleBatch) -> None:
        super().__init__(policy.actor_critic, views, batch)
        self._novelty = policy.novelty

    def intrinsic_rewards(self) -> Tensor:
        """Computes the unnormalized intrinsic rewards of S sequences of L steps, [S, L]."""
        return self._novelty.rewards(self._views, self._batch)

    def novelty_losses(self) -> Tensor:
        """Computes the losses of the trained novelty networks for S sequences of L steps, [S, L]."""
        return self._novelty.losses(self._views, self._batch)


def intrinsic_rewards(outputs: CuriousOutputs, batch: SampleBatch) -> Tensor:
    """Computes the unnormalized intrinsic reward of each step in a batch; `Learner.evaluate` can run it."""
    return outputs.intrinsic_rewards()


class CuriousPolicy(RewardingPolicy):
    """Actor-critic policy with networks for intrinsic rewards (curiosity); acting does not need these networks.

    Args:
        actor_critic: The actor-critic policy, with a value head for intrinsic rewards.
        observation_space: The env's observation space.
        action_space: The env's action space.
        config: Settings of the intrinsic rewards.
        seed: Seed of the initial parameters of the networks for intrinsic rewards.

    Attributes:
        novelty_leaves: Encoding of each observation entry as an input of the networks for intrinsic rewards.
    """

    def __init__(
        self,
        actor_critic: ActorCriticPolicy,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: CuriosityConfig,
        seed: int,
    ) -> None:
        super().__init__(actor_critic)
        model = actor_critic.model
        # Novelty networks see no earlier steps, even if the policy does.
        present = model.replace(views=ViewsConfig())
        self.novelty_leaves = encoded_leaves(
            policy_leaves(observation_space, action_space, present, normalize_observations=True)
        )
        own = ModelConfig(hiddens=config.hiddens, activation="relu")
        with seeded(seed):
            self.novelty = KINDS[config.kind](self.novelty_leaves, actor_critic.action_space, config, own)
        for network in self.novelty.networks.values():
            seed += 1
            initialize([network], network, orthogonal=True, seed=seed)
        self.module: nn.Module = _CuriousNets(actor_critic.module, self.novelty.networks)
        self.parameters = FlatParameters(self.module)

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> CuriousOutputs:
        """Returns outputs of the actor-critic and the novelty networks for a batch, each computed when accessed."""
        return CuriousOutputs(self, views, batch)


class _CuriousNets(nn.Module):
    """Torch module that contains an actor-critic and its novelty networks, by their names in the policy."""

    def __init__(self, actor_critic: nn.Module, novelty: Mapping[str, nn.Module]) -> None:
        super().__init__()
        learned = {n.removeprefix(LEARNED): network for n, network in novelty.items() if n.startswith(LEARNED)}
        fixed = {n.removeprefix(FIXED): network for n, network in novelty.items() if n.startswith(FIXED)}
        self.actor_critic = actor_critic
        self.learned = nn.ModuleDict(learned)
        self.fixed = nn.ModuleDict(fixed)
