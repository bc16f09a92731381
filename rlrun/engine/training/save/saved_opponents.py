"""Frozen opponents loaded from other runs' checkpoints, and saved in the checkpoints of the current run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.checkpoint.format import read_checkpoint
from rlrun.engine.checkpoint.manifest import read_manifest
from rlrun.engine.envs.spaces import Spaces, empty_batch
from rlrun.engine.functional.moments import Moments
from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.league.frozen_policy import FrozenPolicy
from rlrun.engine.messages.errors import UsageError, did_you_mean
from rlrun.engine.policy.weights import Weights
from rlrun.engine.training.assemble.learner_factory import made_policy
from rlrun.engine.training.assemble.policies import schedules_of
from rlrun.engine.training.assemble.policy_spec import PolicySpec
from rlrun.engine.training.save import checkpointing
from rlrun.engine.training.save.sections import section_state
from rlrun.engine.trust import policy_risks, refuse_risks

if TYPE_CHECKING:
    from rlrun.engine.worlds.world_view import WorldView


@dataclass(frozen=True)
class SavedOpponent:
    """Frozen opponent read from a checkpoint, as plain data and arrays: algorithm, settings, weights and statistics.

    Attributes:
        algorithm: Name of the opponent's algorithm, which must be installed.
        config: The algorithm's settings.
        tensors: Parameters of the policy by name.
        filters: Running statistics of observations by name.
        env_steps: Env steps of the opponent's training, at which its scheduled settings are evaluated.
    """

    algorithm: str
    config: Mapping[str, Any]
    tensors: Mapping[str, NDArray[np.float32]]
    filters: Mapping[str, Any]
    env_steps: int

    def to_data(self) -> dict[str, Any]:
        """Converts the opponent to plain data, for checkpoints."""
        return {
            "algorithm": self.algorithm,
            "config": dict(self.config),
            "tensors": dict(self.tensors),
            "filters": dict(self.filters),
            "env_steps": self.env_steps,
        }

    def in_world(self, spaces: Spaces, view: WorldView | None) -> FrozenPolicy:
        """Creates the opponent as a policy that acts for agents of a multi-agent env, or in a single-agent env.

        Only code of installed algorithms is run; settings that name other code are refused.

        Args:
            spaces: Observation and action space of the agents.
            view: Properties of the multi-agent env (state space, number of agents, ...); None for a single-agent env.

        Raises:
            CheckpointError: The settings contain absurdly large numbers.
            CheckpointRefused: The algorithm or the network is custom code.
            UsageError: The policy does not fit these agents.
        """
        checkpointing.refuse_huge_numbers(dict(self.config))
        refuse_risks(policy_risks({"algorithm": self.algorithm, "config": self.config}, "its config"), "it")
        try:
            algorithm = PolicySpec.from_data({"algorithm": self.algorithm, "config": self.config}).learns_by()
            policy = made_policy(algorithm, spaces, view, seed=0)
            flat = policy.parameters.from_named(self.tensors)
            start, size = policy.acting_range
            weights = Weights(
                version=0,
                acting=flat[start : start + size],
                filters={name: Moments.from_state(state) for name, state in self.filters.items()},
                env_steps=self.env_steps,
                schedules={**algorithm.config.fixed_schedules(), **schedules_of(algorithm.config)},
            )
            behavior = policy.behavior()
            behavior.load(weights)
            if weights.filters:
                behavior.filter(empty_batch(spaces.observation, 1))
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            raise UsageError(f"does not match agents with {spaces}: {error}") from error
        return FrozenPolicy(policy.behavior, weights, self.to_data())


def read_opponent(named: str) -> SavedOpponent:
    """Loads a frozen opponent from the path of a checkpoint; `PATH:policy` selects one of several policies.

    Raises:
        CheckpointError: The checkpoint does not exist or cannot be used.
        CheckpointRefused: The algorithm or the network is custom code.
        UsageError: The checkpoint lacks the named policy, or has several and none is named.
    """
    path, asked = _path_and_policy(named)
    content = read_checkpoint(path)
    with checkpointing.refusing("spec"):
        specs = content.spec.get("policies") or {"default": content.spec}
        name = _chosen(path, asked, list(specs))
        chosen = {key: specs[name][key] for key in ("algorithm", "config")}
        refuse_risks(policy_risks(chosen, "its config"), f"{path}: the checkpoint")
        PolicySpec.from_data(chosen)
    own = checkpointing.trainee_sections_of(content.state, name)
    workers = section_state(content.state, "workers")
    with checkpointing.refusing(f"policy {name}"):
        return SavedOpponent(
            **chosen,
            tensors=checkpointing.finite_tensors(content, f"policies/{name}"),
            filters=section_state(own, "filters"),
            env_steps=as_count(workers["env_steps"]),
        )


def saved_spaces(named: str) -> tuple[str, str] | None:
    """Returns, as text, the spaces of a policy in a checkpoint, without loading the policy.

    The result is None if the checkpoint has no policy of the given name.

    Raises:
        CheckpointError: There is no such checkpoint.
    """
    path, asked = _path_and_policy(named)
    about = read_manifest(path).about
    said = about.get("policies", {"default": about})
    found = said.get(asked) if asked else next(iter(said.values()))
    return None if found is None else (str(found["observation_space"]), str(found["action_space"]))


def copied_opponents(sections: Mapping[str, Any]) -> dict[str, SavedOpponent]:
    """Returns the frozen opponents whose copies a checkpoint contains.

    Raises:
        CheckpointError: The section is malformed.
    """
    state = section_state(sections, "league")
    with checkpointing.refusing("league section"):
        return {
            str(path): SavedOpponent(
                algorithm=str(own["algorithm"]),
                config=dict(own["config"]),
                tensors={name: checkpointing.finite(tensor, name) for name, tensor in own["tensors"].items()},
                filters=dict(own["filters"]),
                env_steps=as_count(own["env_steps"]),
            )
            for path, own in state["checkpoints"].items()
        }


def _path_and_policy(named: str) -> tuple[Path, str]:
    path, _, policy = named.rpartition(":")
    return (Path(path), policy) if path and not Path(named).exists() else (Path(named), "")


def _chosen(path: Path, asked: str, names: list[str]) -> str:
    """Returns the named policy of a checkpoint, or the only one.

    Raises:
        UsageError: There is no policy with this name, or there are several and none is named.
    """
    if asked and asked not in names:
        raise UsageError(f"{path} has no policy '{asked}', only {', '.join(names)}{did_you_mean(asked, names)}")
    if not asked and len(names) > 1:
        raise UsageError(f"{path} contains {len(names)} policies: name one, such as {path}:{names[0]}")
    return asked or names[0]
