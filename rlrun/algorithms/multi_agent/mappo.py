"""MAPPO: PPO in worlds of many agents, with a value of the whole world's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import model_validator

from rlrun.algorithms.ppo import PPO, PPOConfig
from rlrun.algorithms.settings.on_policy import WHO_HAS_CONSTRAINTS, WHO_HAS_CURIOSITY
from rlrun.config import PositiveFloat, defaults, fixed
from rlrun.data.sample_batch import SampleBatch
from rlrun.errors import UsageError
from rlrun.learner.objective import Loss, Objective
from rlrun.learner.optimizers import SGD
from rlrun.nn.model_config import StateValueModelConfig

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.envs.spaces import Spaces
    from rlrun.policy.policy import Policy
    from rlrun.worlds.world_view import WorldView


@fixed(WHO_HAS_CURIOSITY, curiosity=None)
@fixed(WHO_HAS_CONSTRAINTS, constraint=None)
@defaults(lr=5e-4, max_grad_norm=10.0, minibatch_size=1024, entropy_coeff=0.01, vf_loss_coeff=1.0, vf_clip_param=0.2)
class MAPPOConfig(PPOConfig):
    """Settings of MAPPO; the defaults are those of the paper where they are the same in all its worlds.

    Errors and bounds of values count in units of the running standard deviation of their targets.
    """

    model: StateValueModelConfig = StateValueModelConfig(activation="relu")
    """The networks of the policy and of the value; a `core` is the policy's alone, since the state tells the value what
    there is to know."""
    centralised_value: bool = True
    """Whether the value sees the whole world's state, while each agent acts on its own observation."""
    value_sees_observation: bool = True
    """Whether the value sees the agent's own observation, beside the state; agents of one world have the same state."""
    huber_delta: PositiveFloat = 10.0
    """Error of a value from which its loss grows linearly."""

    @model_validator(mode="after")
    def _value_sees_something(self) -> MAPPOConfig:
        if not (self.centralised_value or self.value_sees_observation):
            raise ValueError("the value needs something to see: set centralised_value or value_sees_observation")
        return self

    @model_validator(mode="after")
    def _memory_beside_a_state(self) -> MAPPOConfig:
        if self.model.core is not None and not self.centralised_value:
            raise ValueError(
                "model.core: the value has no memory, and without the world's state it would see less than the policy; "
                "use ppo, whose value has a core too, or set centralised_value"
            )
        return self

    @classmethod
    def shapes_parameters(cls, path: str) -> bool:
        """Whether a setting decides which parameters and statistics there are."""
        return path in ("centralised_value", "value_sees_observation") or super().shapes_parameters(path)


class MAPPO(PPO):
    """PPO whose value sees the world's state and is normalised by running moments (Yu et al., arXiv:2103.01955)."""

    Config: ClassVar[type[MAPPOConfig]] = MAPPOConfig
    policy_family = "rlrun.algorithms.multi_agent.state_value_policy:StateValuePolicy"
    config: MAPPOConfig

    def policy(self, spaces: Spaces, seed: int) -> Policy:
        """Returns a policy whose value sees what the policy does.

        Raises:
            UsageError: The value is to see the state of a world, and there is one agent in an env.
        """
        if self.config.centralised_value:
            raise UsageError(
                "mappo learns a value of the state of a world of many agents, and an env of one agent has none: use "
                "ppo, or set centralised_value: false"
            )
        return self.family_policy(spaces, seed)

    def policy_in_world(self, spaces: Spaces, world: WorldView, seed: int) -> Policy:
        """Returns a policy whose value sees the world's state.

        Raises:
            UsageError: The world has no state.
        """
        if not self.config.centralised_value:
            return self.family_policy(spaces, seed)
        if world.state_space is None:
            raise UsageError(
                "mappo's value sees the state of the whole world, and this world has none: give it a state_space and "
                "a state(), use ippo, or set centralised_value: false"
            )
        return self.family_policy(spaces, seed, world)

    def objectives(self, policy: Policy) -> list[Objective]:
        """Returns what normalises values, and PPO's loss of values that are normalised by moments up to its rows."""
        from rlrun.algorithms.multi_agent.value_norm import MOMENTS, NETWORKS

        bound = self.config.max_grad_norm
        return [
            Objective("moments", self.moments, parameters=None, optimizer=SGD(), assigns=(MOMENTS,)),
            Objective("loss", self.loss, parameters=NETWORKS, max_grad_norm=bound, is_main=True),
        ]

    def moments(self, parameters: Mapping[str, Tensor], batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Assigns the running moments of targets, those of the rows [S, L] among them; nothing is minimised."""
        from rlrun.algorithms.multi_agent.value_norm import MOMENTS, updated

        moments = updated(parameters[MOMENTS], batch["value_targets"], batch["valid"].float())
        return Loss(moments.new_zeros(()), {}, assign={MOMENTS: moments})

    def value_errors(self, outputs: Any, batch: SampleBatch) -> Tensor:
        """Huber loss of the normalised values' errors, bounded as the policy's change is if asked for, [S, L]."""
        from rlrun.algorithms.multi_agent.value_norm import normalized

        bound, delta = self.config.vf_clip_param, self.config.huber_delta
        targets = normalized(batch["value_targets"], outputs.moments)
        errors = huber(outputs.values - targets, delta)
        if bound is not None:
            before = normalized(batch["values"], outputs.moments)
            moved = (outputs.values - before).clamp(-bound, bound)
            errors = errors.maximum(huber(before + moved - targets, delta))
        return errors


def huber(errors: Tensor, delta: float) -> Tensor:
    """Returns half the square of errors up to delta, and what goes on linearly beyond (Huber 1964), [...]."""
    within = errors.abs().clamp(max=delta)
    return within * (errors.abs() - 0.5 * within)
