"""Interface of vector envs on a device: B env slots, whose observations, rewards and flags are torch tensors.

Autoreset is Gymnasium's SAME_STEP, as in GPU simulators: the step that ends an episode also resets its env slot. It
returns the first observation of the slot's next episode and, separately, the final observation of the ended episode
(`FinalObservations`), if the simulator still has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    import gymnasium
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, device

TensorTree = Any
"""A tensor, or a dict or tuple of trees."""


class FinalObservations(NamedTuple):
    """Final observations of episodes that ended in a step.

    Attributes:
        mask: Env slots that have a final observation, bool [B]. Slots whose episode did not end are ignored.
        observations: Rows [B, ...] as in the observation space; undefined outside the mask.
    """

    mask: Tensor
    observations: TensorTree


class TensorStep(NamedTuple):
    """Result of a step in all env slots. The env owns the tensors, and may overwrite them in its next call.

    Attributes:
        observations: Observations for the choice of the next actions, [B, ...] in the observation space's dtypes. In a
            slot whose episode ended, this is the first observation of the next episode.
        rewards: Rewards, of a floating-point dtype, [B].
        terminateds: Whether each slot's episode ended in a terminal state, bool [B].
        truncateds: Whether each slot's episode was cut off, such as by a time limit, bool [B].
        finals: Final observations of episodes that ended; None if the env never has any.
    """

    observations: TensorTree
    rewards: Tensor
    terminateds: Tensor
    truncateds: Tensor
    finals: FinalObservations | None


class TensorVectorEnv(Protocol):
    """Interface of a vector env with B env slots on one device; the module's docstring explains autoreset.

    A factory creates it: `make(num_envs, device, **kwargs)`, with the number of env slots, a `torch.device`, and the
    keyword arguments of the spec.

    Attributes:
        num_envs: Number of env slots, B.
        device: Device of all input and output tensors.
        observation_space: Space of one env slot's observation. In a Dict space, the key `action_mask` has a special
            meaning, as in other envs.
        action_space: Space of one env slot's action.
        seeds_episodes: Whether slots that are reset with equal seeds start equal episodes, whatever their index.
        is_only_one: Whether the simulator allows only one instance in a process, so that no second one can be created
            for evaluations.
    """

    num_envs: int
    device: device
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    seeds_episodes: bool
    is_only_one: bool

    def reset(self, *, seeds: Tensor | None = None, mask: Tensor | None = None) -> TensorTree:
        """Starts a new episode in some env slots.

        Args:
            seeds: Seed of each slot's episode, int64 [B], below 2**31; entries outside the mask are ignored. A
                slot's seed also determines its later episodes, which `step` starts. An env without `seeds_episodes` may
                use the first seed for all. None starts each slot's next episode, as `step` does.
            mask: Env slots to reset, bool [B]; None for all. The first call resets all slots and passes seeds.

        Returns:
            Observations of all env slots, [B, ...].
        """
        ...

    def step(self, actions: TensorTree) -> TensorStep:
        """Steps all env slots, and resets those whose episode ends.

        Args:
            actions: Actions [B, ...] in the action space: int64 for discrete ones, which may start at a number other
                than 0, and the space's dtype otherwise. The caller owns them, and may overwrite them after the call.
        """
        ...

    def state(self) -> Mapping[str, Any] | None:
        """Returns copies of all state that later steps depend on, as a dict of tensors, arrays and plain data.

        None if the simulator's state cannot be saved; a resumed run then starts new episodes.
        """
        ...

    def load_state(self, state: Mapping[str, Any]) -> TensorTree:
        """Restores the result of `state()`, whose tensors may have become arrays; returns the current observations.

        Called only if `state()` does not return None, and before any reset.
        """
        ...

    def close(self) -> None:
        """Frees the simulator's resources."""
        ...


@runtime_checkable
class RendersTensorEnv(Protocol):
    """Optional interface of a `TensorVectorEnv` that `rlrun record` can render."""

    def render(self) -> NDArray[np.uint8]:
        """Returns an image of the first env slot, [height, width, 3]."""
        ...
