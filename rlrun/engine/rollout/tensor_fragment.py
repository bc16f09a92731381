"""Memory of a fragment of tensors, and the two functions that write a step into it (torch).

`decide` and `record` read and change only the tensors that they are given, and never wait for the device. On a GPU,
each is captured as a CUDA graph, so the step's index is a tensor; elsewhere, they run eagerly.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from rlrun.engine.data.space_kinds import space_tree
from rlrun.engine.data.tree import leaves, map_tree, named_leaves
from rlrun.engine.envs.env_config import MissingFinal
from rlrun.engine.envs.tensor_backend import tensor_form
from rlrun.engine.envs.tensor_vector_env import TensorStep, TensorTree, TensorVectorEnv
from rlrun.engine.envs.vector_env import BadReturn
from rlrun.engine.policy.tensor_actor import TensorActor
from rlrun.engine.rollout.rollout import Episode

Memory = Mapping[str, Any]
"""Trees of tensors by name."""


class TensorFragment:
    """Memory of a fragment of T steps in B env slots, allocated once and overwritten by the next fragment.

    Args:
        length: T, steps in the fragment.
        env: The env.
        actor: The policy's acting side.

    Attributes:
        length: Number of steps, T.
        row: Index of the current step, [1].
        obs: Raw observations, a tree of [T + 1, B, ...].
        starts: Whether an episode begins at the row, [T + 1, B].
        states: Recurrent state before each step and after the last, [T + 1, B, S]; it is not reset at episode starts,
            since the network resets it.
        noise: Random numbers for sampling the actions, [T, B, num_noise].
        actions: Actions in the policy's own representation, [T, B, ...].
        log_probs: Log-probabilities of the actions, [T, B].
        values: State values, [T + 1, B]; None without a critic.
        rewards: Raw rewards, [T, B].
        terminateds: Whether the step terminated its episode, [T, B].
        truncateds: Whether the step truncated its episode, [T, B].
        ends: Whether the step ended its episode, [T, B].
        slots: State of the env slots, which continues in the next fragment: `starts`, whether an episode begins with
            the next step, [B]; `state`, the recurrent state, [B, S]; `sums` and `lengths`, return and steps of the
            episode so far, [B].
    """

    def __init__(self, length: int, env: TensorVectorEnv, actor: TensorActor) -> None:
        slots, device = env.num_envs, env.device
        zeros = partial(torch.zeros, device=device)

        def rows(space: Any) -> Tensor:
            shape, dtype = tensor_form(space)
            return zeros((length + 1, slots, *shape), dtype=dtype)

        self.length = length
        self.row = zeros(1, dtype=torch.int64)
        self.obs = map_tree(rows, space_tree(env.observation_space))
        self.starts = zeros((length + 1, slots), dtype=torch.bool)
        self.states = zeros((length + 1, slots, actor.state_size))
        self.noise = zeros((length, slots, actor.num_noise))
        self.actions = zeros((length, slots, *actor.policy.action_space.action_shape), dtype=actor.space.dtype)
        self.log_probs, self.rewards = zeros((2, length, slots))
        self.values = zeros((length + 1, slots)) if actor.policy.estimates == "state_values" else None
        self.terminateds, self.truncateds, self.ends, self._has_final = zeros((4, length, slots), dtype=torch.bool)
        self._final_obs: TensorTree = None
        self._returns = zeros((length, slots), dtype=torch.float64)
        self._lengths = zeros((length, slots), dtype=torch.int64)
        self.slots = {
            "starts": torch.ones(slots, dtype=torch.bool, device=device),
            "state": zeros((slots, actor.state_size)),
            "sums": zeros(slots, dtype=torch.float64),
            "lengths": zeros(slots, dtype=torch.int64),
        }

    def of_decisions(self) -> Memory:
        """Returns the tensors that `decide` reads and writes."""
        memory = {
            "row": self.row,
            "obs": self.obs,
            "starts": self.starts,
            "states": self.states,
            "noise": self.noise,
            "actions": self.actions,
            "log_probs": self.log_probs,
            "slots": {name: self.slots[name] for name in ("starts", "state")},
        }
        return memory if self.values is None else {**memory, "values": self.values}

    def of_results(self, step: TensorStep) -> tuple[Memory, Memory]:
        """Returns the tensors that `record` reads and writes, and the results of a step to pass to `record`."""
        memory = {
            "row": self.row,
            "rewards": self.rewards,
            "terminateds": self.terminateds,
            "truncateds": self.truncateds,
            "ends": self.ends,
            "has_final": self._has_final,
            "returns": self._returns,
            "lengths": self._lengths,
            "slots": {name: self.slots[name] for name in ("starts", "sums", "lengths")},
        }
        given = {"rewards": step.rewards, "terminateds": step.terminateds, "truncateds": step.truncateds}
        if step.finals is None:
            return memory, given
        if self._final_obs is None:
            self._final_obs = map_tree(lambda leaf: torch.zeros_like(leaf[1:]), self.obs)
        found = {"has_final": step.finals.mask, "final_obs": self.seen(step.finals.observations)}
        return {**memory, "final_obs": self._final_obs}, {**given, **found}

    def seen(self, observations: TensorTree) -> TensorTree:
        """Returns observations with the parts of each Dict in the order of the observation space."""
        return map_tree(lambda _, leaf: leaf, self.obs, observations)

    def restart(self) -> None:
        """Begins an episode in all env slots; the recurrent state is reset by the network."""
        self.slots["starts"].fill_(True)
        self.slots["sums"].zero_()
        self.slots["lengths"].zero_()

    def close(self, observations: TensorTree) -> None:
        """Writes the closing row, which follows the last step."""
        map_tree(lambda rows, leaf: rows[-1].copy_(leaf), self.obs, observations)
        self.starts[-1], self.states[-1] = self.slots["starts"], self.slots["state"]

    def finals(self, actor: TensorActor, missing_final: MissingFinal) -> tuple[dict[str, Any], Tensor, Tensor]:
        """Returns the final observations of truncated episodes, the column `valid`, and the column `truncateds`.

        With `missing_final: drop`, a truncated step whose final observation is missing is not valid, and the step
        before it counts as truncated instead, with the observation in between as its final one. The host waits
        until the device has counted the final observations.

        Returns:
            A dict for `final_values`, and two columns [T, B].
        """
        cut_off = self.truncateds & ~self.terminateds
        found: dict[str, Any] = {"index": (cut_off & self._has_final).flatten().nonzero()[:, 0]}
        if len(found["index"]):
            rows = map_tree(lambda leaf: leaf.flatten(0, 1)[found["index"]], self._final_obs)
            if not all(leaf.isfinite().all() for leaf in leaves(rows) if leaf.is_floating_point()):
                raise BadReturn("an env of tensors returned a final observation with NaN or an infinite number")
            found |= {"obs": actor.filtered(rows), "state": self.states[1:].flatten(0, 1)[found["index"]]}
        if missing_final == "bootstrap":
            return found, torch.ones_like(cut_off), self.truncateds
        missing = cut_off & ~self._has_final
        before = torch.zeros_like(missing)
        before[:-1] = missing[1:] & ~self.ends[:-1]
        found["before"] = before
        return found, ~missing, self.truncateds | before

    def only_first_episodes(self) -> Tensor:
        """Truncates each slot's first episode if it has not ended; returns the mask [T, B] of first episodes' steps."""
        before = self.ends.cumsum(0) - self.ends.long()
        first: Tensor = before == 0
        cut_off = first[-1] & ~self.ends[-1]
        self.truncateds[-1] |= cut_off
        self.ends[-1] |= cut_off
        return first

    def episodes(self) -> list[Episode]:
        """Returns the episodes that ended in the fragment, in the order in which they ended."""
        rows, slots = self.ends.cpu().numpy().nonzero()
        returns, lengths = self._returns.cpu().numpy()[rows, slots], self._lengths.cpu().numpy()[rows, slots]
        return [*map(Episode, returns.tolist(), lengths.tolist())]

    def first_not_finite(self) -> str:
        """Describes where the fragment's first NaN or infinite number is; waits for the device."""
        parts = {
            "rewards": self.rewards,
            **{f"observations {name}".strip(): own for name, own in named_leaves(self.obs)},
        }
        for name, column in parts.items():
            if column.is_floating_point() and not column.isfinite().all():
                t, slot, *_ = (~column.isfinite()).nonzero()[0].tolist()
                return f"{name} with NaN or an infinite number: row {t} of the fragment, env {slot}"
        return "numbers that are not finite"


def decide(actor: TensorActor, memory: Memory, observations: TensorTree) -> list[Tensor]:
    """Samples the actions of the current step, and records in its row what the policy saw and did.

    Args:
        actor: The policy's acting side.
        memory: Tensors of a fragment, changed in place: `TensorFragment.of_decisions`.
        observations: Raw observations, a tree of [B, ...].

    Returns:
        A list whose only entry is the actions for the env, [B, ...].
    """
    row, slots = memory["row"], memory["slots"]
    seen = {"obs": observations, "starts": slots["starts"], "states": slots["state"]}
    noise = memory["noise"].index_select(0, row)[0]
    state = slots["state"] if actor.state_size else None
    acted = actor.act(actor.filtered(observations), noise, state, slots["starts"])
    _write(memory, row, {**seen, "actions": acted.actions, "log_probs": acted.log_probs, **acted.values})
    if acted.state is not None:
        slots["state"].copy_(acted.state)
    return [actor.space.to_env(acted.actions)]


def record(memory: Memory, given: Memory) -> list[Tensor]:
    """Writes the current step's results to its row, updates the episodes' running sums, and advances to the next step.

    Args:
        memory: Tensors of a fragment, changed in place: `TensorFragment.of_results`.
        given: Results of the step, as `TensorFragment.of_results` returned them.

    Returns:
        An empty list.
    """
    row, slots = memory["row"], memory["slots"]
    ends = given["terminateds"] | given["truncateds"]
    slots["sums"].add_(given["rewards"])
    slots["lengths"].add_(1)
    has_final = {} if "has_final" in given else {"has_final": torch.zeros_like(ends)}
    _write(memory, row, {**given, **has_final, "ends": ends, "returns": slots["sums"], "lengths": slots["lengths"]})
    slots["sums"].masked_fill_(ends, 0.0)
    slots["lengths"].masked_fill_(ends, 0)
    slots["starts"].copy_(ends)
    row.add_(1)
    return []


def _write(memory: Memory, row: Tensor, found: Memory) -> None:
    """Copies trees of [B, ...] into a row of the fragment's trees with the same names."""

    def copy(rows: Tensor, leaf: Tensor) -> None:
        rows.index_copy_(0, row, leaf[None].to(rows.dtype))

    for name, tree in found.items():
        map_tree(copy, memory[name], tree)
