"""Synchronous parameter servers: Ray actors, each with a slice of the parameters and optimizer state (torch).

Each learner sends each server (shard) the gradients of the server's slice. Once all gradients have arrived, the server
averages them in the learners' order, updates its slice, and returns the new slice. Clipping requires the norm of the
whole gradient, which the first learner computes from the shards' averages and sends to all shards.

Source:
    Liang et al., arXiv:1712.09381, section 5.1, which compares a parameter server on Ray with that of Distributed
    TensorFlow; the idea is from Li et al., "Scaling Distributed Machine Learning with the Parameter Server",
    OSDI 2014.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlrun.engine.learner.data_parallel.all_reduce import PeerLost
from rlrun.engine.learner.objective import Objective
from rlrun.engine.learner.optimizers import STEPS, Optimizer, OptimizerState
from rlrun.engine.learner.staging import over_memory
from rlrun.engine.learner.update import assign, clipped, fresh_state, num_assigned, present_values
from rlrun.engine.policy.policy import Policy

ALIGNED_TO = 64
"""Alignment of slices in elements, so that vector instructions group (and round) a slice's elements as in the whole
vector."""

Floats = NDArray[np.float32]
Ask = Callable[[str, Mapping[int, tuple[Any, ...]]], dict[int, Any]]
"""Type of a function that calls a method on several shards in parallel, with arguments and results by shard."""


@dataclass(frozen=True)
class ObjectivePart:
    """The parameters of one loss that one parameter server holds: a range of the flat vector of all parameters.

    Attributes:
        name: Name of the loss's `Objective`.
        start: Index, in the flat vector of all parameters, of the loss's first parameter that this server holds.
        stop: Index after the last such parameter; equal to `start` if there is none.
        offset: Index of the first such parameter among those that the loss trains.
        max_grad_norm: Clipping threshold of the global gradient norm, or None.
        optimizer: The objective's optimizer.
    """

    name: str
    start: int
    stop: int
    offset: int
    max_grad_norm: float | None
    optimizer: Optimizer


@dataclass(frozen=True)
class ShardConfig:
    """Settings of one parameter server, which holds a slice (shard) of the parameters.

    Attributes:
        start: Start index of the slice in the flat vector of all parameters.
        stop: End index of the slice.
        objectives: For each loss, the part of its parameters that lies in the slice.
        num_learners: Number of learners.
        timeout_s: Timeout in seconds of waiting for a learner's gradient.
    """

    start: int
    stop: int
    objectives: tuple[ObjectivePart, ...]
    num_learners: int
    timeout_s: float


def shard_configs(
    policy: Policy, objectives: Sequence[Objective], num_shards: int, num_learners: int, timeout_s: float
) -> tuple[ShardConfig, ...]:
    """Divides the parameters among parameter servers, in adjacent slices of about equal length."""
    size = policy.parameters.size
    each = -(-size // (num_shards * ALIGNED_TO)) * ALIGNED_TO
    configs = []
    for number in range(num_shards):
        start, stop = min(number * each, size), min((number + 1) * each, size)
        parts = []
        for objective in objectives:
            first, length = objective.range_in(policy.parameters)
            low = max(start, first)
            high = max(low, min(stop, first + length))
            parts.append(
                ObjectivePart(objective.name, low, high, low - first, objective.max_grad_norm, objective.optimizer)
            )
        configs.append(ShardConfig(start, stop, tuple(parts), num_learners, timeout_s))
    return tuple(configs)


class ParameterShard:
    """Parameter server: holds one slice of the parameters (initially 0) and optimizer states.

    Its methods run concurrently, one call per learner.
    """

    def __init__(self, config: ShardConfig) -> None:
        self._config = config
        self._flat = torch.zeros(config.stop - config.start)
        self._states = [fresh_state(part.optimizer, part.stop - part.start) for part in config.objectives]
        self._changed = threading.Condition()
        self._delivered: dict[int, tuple[Floats, float]] = {}
        self._mean: Tensor = torch.zeros(0)
        self._moves = 0
        self._result: tuple[Floats, Floats] | None = None

    def deliver(self, rank: int, gradient: Floats, steps: float) -> tuple[Floats, Floats] | None:
        """Takes a learner's gradient, and blocks until the parameters have been updated.

        Args:
            rank: Rank of the learner.
            gradient: Mean gradient for this server's slice, followed by mean statistics.
            steps: Number of valid steps averaged over.

        Returns:
            New parameters and statistics, as returned by `move`, which the first learner calls.

        Raises:
            PeerLost: The gradients of other learners did not arrive in time.
        """
        with self._changed:
            moves = self._moves
            self._delivered[rank] = (gradient, steps)
            self._changed.notify_all()
            self._wait_for(lambda: self._moves > moves)
            return self._result

    def mean(self, gradient: Floats, steps: float) -> Floats:
        """Takes the first learner's gradient, waits for all others, and returns the mean weighted by their steps.

        Raises:
            PeerLost: The gradients of other learners did not arrive in time.
        """
        with self._changed:
            self._delivered[0] = (gradient, steps)
            self._wait_for(lambda: len(self._delivered) == self._config.num_learners)
            first, total = self._delivered[0]
            self._mean = torch.from_numpy(np.array(first))
            for rank in range(1, self._config.num_learners):
                addend, more = self._delivered[rank]
                total += more
                self._mean.lerp_(over_memory(addend), more / max(total, 1.0))
            self._delivered.clear()
            return self._mean.numpy()

    def move(self, objective: int, norm: float, lr: float) -> tuple[Floats, Floats]:
        """Clips the mean gradient, and applies an optimizer step to this server's slice of the parameters.

        Args:
            objective: Index of the loss among the learners' objectives.
            norm: Global norm of the mean gradient.
            lr: Learning rate.

        Returns:
            The loss's new parameters in the slice, and a vector of mean statistics followed by the gradient norm.
        """
        part = self._config.objectives[objective]
        own = self._flat[part.start - self._config.start : part.stop - self._config.start]
        gradient, statistics = self._mean[: len(own)], self._mean[len(own) :]
        if part.max_grad_norm is not None:
            gradient = clipped(gradient, torch.tensor(norm), part.max_grad_norm)
        with self._changed:
            part.optimizer.step(own, gradient, self._states[objective], torch.tensor(lr))
            self._result = own.numpy().copy(), np.append(statistics.numpy(), np.float32(norm))
            self._moves += 1
            self._changed.notify_all()
            return self._result

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        if not self._changed.wait_for(condition, self._config.timeout_s):
            raise PeerLost(f"a parameter server timed out after waiting {self._config.timeout_s:g} s for a learner")

    def load_flat(self, flat: Floats) -> None:
        """Copies this server's slice from the flat vector of all parameters."""
        self._flat.copy_(over_memory(flat)[self._config.start : self._config.stop])

    def optimizer_state(self) -> dict[str, Floats]:
        """Returns this server's slices of the optimizer state by name, which include the update counters."""
        return {
            f"{part.name}/{name}": tensor.numpy().copy()
            for part, state in zip(self._config.objectives, self._states, strict=True)
            for name, tensor in state.items()
        }

    def load_optimizer_state(self, named: Mapping[str, Floats]) -> None:
        """Copies this server's slices from the full optimizer state."""
        for part, state in zip(self._config.objectives, self._states, strict=True):
            own = slice(part.offset, part.offset + part.stop - part.start)
            for name, tensor in state.items():
                whole = named[f"{part.name}/{name}"]
                tensor.copy_(over_memory(whole if name == STEPS else whole[own]).reshape(tensor.shape))

    def ping(self) -> None:
        """Returns at once; a caller can check that the process still answers."""

    def close(self) -> None:
        """Does nothing: whoever started this process ends it."""


class ParameterServers:
    """Combines gradients by sending them to parameter servers, which average them and run the optimizer.

    Args:
        shards: Settings of the parameter servers.
        rank: Rank of the learner.
        ask: Function that calls a method of the parameter servers (Ray actors), with arguments by server index.
    """

    owns_optimizer = True

    def __init__(self, shards: Sequence[ShardConfig], rank: int, ask: Ask) -> None:
        self._shards = shards
        self._indices = {part.name: index for index, part in enumerate(shards[0].objectives)}
        self._rank = rank
        self._ask = ask

    def __call__(
        self,
        policy: Policy,
        objective: Objective,
        flat: Tensor,
        state: OptimizerState,
        total: Tensor,
        scheduled: Mapping[str, Tensor],
    ) -> Tensor:
        """Sends this learner's gradient to the shards, and loads the updated parameters.

        Args:
            policy: The policy.
            objective: Objective that the gradient belongs to.
            flat: All parameters; changed in place.
            state: Unused, since the shards hold the optimizer state.
            total: Mean gradient, assigned values and statistics over this learner's share, then its valid steps.
            scheduled: Current values of scheduled settings (learning rate, coefficients) by name, each a scalar.

        Returns:
            The mean statistics over all learners, then the norm of the mean gradient if parameters are updated.
        """
        number = self._indices[objective.name]
        parts = {
            index: shard.objectives[number]
            for index, shard in enumerate(self._shards)
            if shard.objectives[number].stop > shard.objectives[number].start
        } or {0: self._shards[0].objectives[number]}  # averages the assigned values
        size = sum(part.stop - part.start for part in parts.values())
        own = total.cpu().numpy()
        measured_here, steps = own[size:-1], float(own[-1])
        assigned = num_assigned(policy, objective)
        if assigned and not steps:
            present = present_values(policy, objective, flat).cpu().numpy()
            measured_here = np.concatenate([present, measured_here[assigned:]])
        sent = {
            index: np.concatenate([own[part.offset : part.offset + part.stop - part.start], measured_here])
            for index, part in parts.items()
        }
        if self._rank == 0:
            averaged = self._ask("mean", {index: (gradient, steps) for index, gradient in sent.items()})
            slices = [averaged[index][: part.stop - part.start] for index, part in parts.items()]
            norm = float(torch.from_numpy(np.concatenate(slices)).norm())
            moved = self._ask("move", dict.fromkeys(parts, (number, norm, float(scheduled[objective.lr]))))
        else:
            moved = self._ask("deliver", {index: (self._rank, gradient, steps) for index, gradient in sent.items()})
        for index, part in parts.items():
            flat[part.start : part.stop].copy_(over_memory(moved[index][0]))
        measured = over_memory(moved[next(iter(parts))][1]).to(flat.device)
        if assigned:
            # The shards' copies of these parameters are never read: no objective updates them by gradients.
            assign(policy, objective, flat, measured[:assigned])
        measured = measured[assigned:]
        return measured[:-1] if objective.parameters is None else measured


def full_optimizer_state(shards: Sequence[Mapping[str, Floats]]) -> dict[str, Floats]:
    """Joins the parameter servers' slices of the optimizer state to the full state by name.

    Update counters are the maximum over the shards, since shards without parameters of an objective do not count
    updates.
    """
    slices = {name: [shard[name] for shard in shards] for name in shards[0]}
    return {name: np.concatenate(each) if each[0].ndim else max(each) for name, each in slices.items()}
