"""Saved policy, detached from its training: picklable, and usable without Ray or (for dense networks) torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlrun.engine.checkpoint.manifest import read_manifest
from rlrun.engine.data.action_kind import ActionKind
from rlrun.engine.data.space_json import space_to_json
from rlrun.engine.data.space_kinds import batched
from rlrun.engine.envs.json_values import batch_from_json, batch_to_json
from rlrun.engine.envs.spaces import Spaces, empty_batch
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.weights import Weights
from rlrun.engine.training.act.privileged_parts import PrivilegedParts

if TYPE_CHECKING:
    from rlrun.engine.training.training import Training


@dataclass(frozen=True)
class ServedPolicy:
    """Policy of a checkpoint, ready to act.

    Attributes:
        behavior: The acting side of the policy (NumPy or torch networks, action sampling).
        weights: The policy's weights and observation filters, which `behavior` omits when it is pickled.
        spaces: Observation and action space; observations lack the parts that only critics see.
        privileged: The parts of observations that only critics see.
        name: Name of the policy.
        policies: Names of all policies of the checkpoint.
        algorithm: Name of the policy's algorithm.
        env: Name of the env in which the policy was trained.
        estimates_actions: Whether the network's outputs are action values (Q values).
        actions: Whether the policy's actions are greedy or sampled.
        checkpoint: Name of the checkpoint.
        env_steps: Number of env steps taken in training up to the checkpoint.
        digest: Digest of the checkpoint.
    """

    behavior: BehaviorPolicy
    weights: Weights
    spaces: Spaces
    privileged: PrivilegedParts
    name: str
    policies: tuple[str, ...]
    algorithm: str
    env: str
    estimates_actions: bool
    actions: ActionKind
    checkpoint: str
    env_steps: int
    digest: str

    @classmethod
    def of(
        cls,
        training: Training,
        checkpoint: Path,
        name: str = "",
        simulations: int | None = None,
        actions: ActionKind | None = None,
    ) -> ServedPolicy:
        """Extracts a policy from a training run that was restored from a checkpoint.

        Args:
            training: The training run.
            checkpoint: Directory of the checkpoint.
            name: Name of the policy; "" for the first one.
            simulations: Number of tree search simulations before each action; None for the number in the settings.
            actions: Whether the policy's actions are greedy or sampled; None for the kind recorded in the checkpoint.

        Raises:
            UsageError: There is no such policy, or `simulations` is given for a policy without tree search.
        """
        acting, manifest = training.acting.policy(name), read_manifest(checkpoint)
        if simulations is not None:
            acting.search(simulations)
        policies = training.description.policies.algorithms
        observation, action = acting.trainee.spaces
        return cls(
            behavior=acting.behavior(),
            weights=acting.trainee.weights(),
            spaces=Spaces(acting.privileged.actor_space(observation), action),
            privileged=acting.privileged,
            name=acting.trainee.name,
            policies=tuple(policies),
            algorithm=policies[acting.trainee.name].name(),
            env=training.description.env.id,
            estimates_actions=acting.trainee.policy.estimates == "action_values",
            actions=actions or training.description.actions,
            checkpoint=checkpoint.name,
            env_steps=int(manifest.about["env_steps"]),
            digest=manifest.digest,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.behavior.load(self.weights)

    @property
    def has_memory(self) -> bool:
        """Whether actions depend on earlier steps of the episode, through a recurrent state or past inputs."""
        return self.behavior.memory.is_used

    def place(self) -> dict[str, Any]:
        """Number of env steps and digest that identify the served checkpoint in each answer."""
        return {"env_steps": self.env_steps, "digest": self.digest}

    def schema(self) -> dict[str, Any]:
        """Spaces and identity of the policy in JSON form, with an example observation."""
        return {
            "policy": self.name,
            "policies": list(self.policies),
            "algorithm": self.algorithm,
            "env": self.env,
            "has_memory": self.has_memory,
            "actions": self.actions,
            "observation_space": space_to_json(self.spaces.observation),
            "action_space": space_to_json(self.spaces.action),
            "example": self._example(),
            "checkpoint": self.checkpoint,
            **self.place(),
        }

    def _example(self) -> Any:
        """Example observation: zeros if the space contains them, otherwise a random one."""
        space = self.spaces.observation
        (zeros,) = batch_to_json(empty_batch(space, 1))
        try:
            batch_from_json(space, [zeros])
        except ValueError:
            space.seed(0)
            return batch_to_json(batched(space, space.sample()))[0]
        return zeros
