"""Policy of a Decision Transformer (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.func import functional_call
from typing_extensions import override

from rlrun.algorithms.decision_transformer.episode_window import RETURNS, STEPS, Context, ContextInputs, ContextNetwork
from rlrun.algorithms.decision_transformer.transformer import DecisionTransformer
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import leaves
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.network_module import seeded
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.policy.action_spaces.box import GaussianBoxActions
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions, one_hot
from rlrun.engine.policy.action_spaces.make import make_action_space
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.exploration.sampling import SampleActions
from rlrun.engine.policy.flat_parameters import FlatParameters
from rlrun.engine.policy.policy import Policy
from rlrun.engine.policy.stochastic_actor import StochasticActorOutputs

if TYPE_CHECKING:
    from rlrun.algorithms.decision_transformer.dt import DTConfig

OwnActions = DiscreteActions | GaussianBoxActions


class DTPolicy(Policy):
    """Policy whose action distributions depend on an episode's last steps and the desired return-to-go.

    Args:
        spaces: Observation and action space.
        config: Settings.
        seed: Seed for the initial parameters.

    Raises:
        UsageError: Observations hold images, sets or action masks, or actions are neither Discrete nor in a Box.
    """

    def __init__(self, spaces: Spaces, config: DTConfig, seed: int) -> None:
        self.config = config
        self.leaves = policy_leaves(*spaces, config.model, normalize_observations=config.normalize_observations)
        space = make_action_space(spaces.action)
        if not isinstance(space, OwnActions):
            raise UsageError(f"dt needs a Discrete or Box action space, but this env has {spaces.action}")
        if not all(leaf.is_dense for leaf in leaves(self.leaves)):
            raise UsageError(
                "dt needs a vector or Discrete observation space, without action masks, but this env has "
                f"{spaces.observation}"
            )
        self.action_space: OwnActions = space
        width = sum(leaf.width for leaf in leaves(self.leaves))
        num_features = space.num_outputs if isinstance(space, DiscreteActions) else space.size
        self.context = Context(config.context_length, width, num_features)
        with seeded(seed):
            self.transformer = DecisionTransformer(
                width,
                num_features,
                space.num_outputs,
                width=config.embedding,
                layers=config.num_layers,
                heads=config.num_heads,
                max_steps=config.max_steps,
            )
        self.module: nn.Module = self.transformer
        self.parameters = FlatParameters(self.module)

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> StochasticActorOutputs:
        """Action distributions of windows [rows, K], whose `obs` are features [rows, K, num_features]."""
        inputs = (
            batch[RETURNS] / self.config.return_scale,
            batch["obs"],
            self.action_features(batch["actions"]),
            batch[STEPS],
        )
        return StochasticActorOutputs(self.action_space.distribution(functional_call(self.module, dict(views), inputs)))

    def action_features(self, actions: Tensor) -> Tensor:
        """Features of the policy's own actions, [rows, K, action_features]: one-hot for Discrete actions."""
        if isinstance(self.action_space, DiscreteActions):
            return one_hot(actions, self.action_space.num_outputs)
        return actions

    @override
    def behavior(self) -> BehaviorPolicy:
        network = ContextNetwork(
            self.transformer,
            self.context,
            self.leaves,
            return_scale=self.config.return_scale,
            target_return=self.config.target_return,
        )
        return BehaviorPolicy(
            network,
            self.action_space,
            SampleActions(self.action_space),
            self.leaves,
            normalize_observations=self.config.normalize_observations,
            state_inputs=ContextInputs(self.context, is_discrete=isinstance(self.action_space, DiscreteActions)),
        )
