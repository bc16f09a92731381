"""Policy of a Decision Transformer (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call
from typing_extensions import override

from rlrun.algorithms.decision_transformer.episode_window import COUNT, TO_GO, Context, ContextNetwork
from rlrun.algorithms.decision_transformer.transformer import DecisionTransformer
from rlrun.algorithms.decision_transformer.windows import RETURNS, STEPS
from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import leaves
from rlrun.envs.spaces import Spaces
from rlrun.errors import UsageError
from rlrun.nn.network_module import seeded
from rlrun.policy.action_masks import policy_leaves
from rlrun.policy.action_spaces.discrete import DiscreteActions, one_hot
from rlrun.policy.action_spaces.gaussian_box import GaussianBoxActions
from rlrun.policy.action_spaces.make import make_action_space
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.exploration.sampling import SampleActions
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.policy import Policy
from rlrun.policy.stochastic_actor import StochasticActorOutputs

if TYPE_CHECKING:
    from rlrun.algorithms.decision_transformer.dt import DTConfig

OwnActions = DiscreteActions | GaussianBoxActions


class DTPolicy(Policy):
    """Policy whose action distributions follow from the last steps of an episode and the return still asked for.

    Args:
        spaces: Observation and action space.
        config: Settings.
        seed: Seed of the initial parameters.

    Raises:
        UsageError: Observations hold images, sets or action masks, or actions are neither Discrete nor in a Box.
    """

    def __init__(self, spaces: Spaces, config: DTConfig, seed: int) -> None:
        self.config = config
        self.leaves = policy_leaves(*spaces, config.model, normalize_observations=config.normalize_observations)
        space = make_action_space(spaces.action)
        if not isinstance(space, OwnActions):
            raise UsageError(f"dt acts in a Discrete or a Box space, not in {spaces.action}")
        if not all(leaf.is_dense for leaf in leaves(self.leaves)):
            raise UsageError(f"dt sees vectors and discrete numbers, without action masks, not {spaces.observation}")
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
        """Action distributions of windows [S, K], whose `obs` are features [S, K, D]."""
        inputs = (
            batch[RETURNS] / self.config.return_scale,
            batch["obs"],
            self.action_features(batch["actions"]),
            batch[STEPS],
        )
        return StochasticActorOutputs(self.action_space.distribution(functional_call(self.module, dict(views), inputs)))

    def action_features(self, actions: Tensor) -> Tensor:
        """Features of the policy's own actions, [S, K, A]: one-hot for Discrete actions."""
        if isinstance(self.action_space, DiscreteActions):
            return one_hot(actions, self.action_space.num_outputs)
        return actions

    @override
    def behavior(self) -> DTBehavior:
        network = ContextNetwork(
            self.transformer,
            self.context,
            self.leaves,
            return_scale=self.config.return_scale,
            target_return=self.config.target_return,
        )
        return DTBehavior(self, network)


class DTBehavior(BehaviorPolicy):
    """Behavior policy that asks for a return, and for less after each reward.

    Args:
        policy: The policy.
        network: Acting network with the context as its recurrent state.
    """

    def __init__(self, policy: DTPolicy, network: ContextNetwork) -> None:
        space = policy.action_space
        super().__init__(
            network,
            space,
            SampleActions(space),
            policy.leaves,
            normalize_observations=policy.config.normalize_observations,
        )
        self._asking = network

    def ask(self, target_return: float) -> None:
        """Asks for another return from the next episodes on."""
        self._asking.target_return = target_return

    @override
    def chosen(
        self, observations: Any, generator: np.random.Generator | None, acts: NDArray[np.bool_] | None = None
    ) -> Any:
        """Selects actions, and adds them to the context."""
        chosen = super().chosen(observations, generator, acts)
        if generator is None:  # else `sampled` has added them
            self._add(chosen, acts)
        return chosen

    @override
    def sampled(
        self, observations: Any, generator: np.random.Generator, acts: NDArray[np.bool_] | None = None
    ) -> tuple[Any, NDArray[np.float32]]:
        """Samples actions, and adds them to the context."""
        chosen, outputs = super().sampled(observations, generator, acts)
        self._add(chosen, acts)
        return chosen, outputs

    def _add(self, actions: NDArray[Any], acts: NDArray[np.bool_] | None) -> None:
        """Adds the policy's own actions [B, ...] to the context."""
        context = self._asking.context
        is_discrete = isinstance(self.action_space, DiscreteActions)
        features = np.eye(context.actions, dtype=np.float32)[actions] if is_discrete else actions
        told = context.with_actions(self._state, features)
        self._state = told if acts is None else np.where(acts[:, None], told, self._state)

    @override
    def take_actions(self, actions: Any) -> None:
        """Replaces the actions of the last step in the context by those of the env that were executed, [B, ...]."""
        super().take_actions(actions)
        self._add(self.action_space.from_env(actions), None)

    @override
    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Subtracts the rewards [B] of the last step from the returns still to come."""
        super().take_rewards(rewards)
        if len(self._state) == len(rewards):
            self._state[:, TO_GO] -= np.where(self._state[:, COUNT] > 0, rewards, 0.0).astype(np.float32)
