"""A sharded parameter server: actors that each hold a slice of the parameters and the optimizer (torch).

Updates are synchronous. Learners send each shard their gradient for its slice; the shard averages them in the learners'
order, updates its slice when all have arrived, and answers with it. Clipping needs the norm of the whole gradient: the
first learner computes it from the shards' averages and sends it to all of them.

Source:
    Liang et al., arXiv:1712.09381, section 5.1, which compares such a server, written on Ray, with Distributed
    TensorFlow's; the idea is that of Li et al., "Scaling Distributed Machine Learning with the Parameter Server",
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

from rlrun.learner.all_reduce import PeerLost
from rlrun.learner.objective import Objective
from rlrun.learner.optimizers import STEPS, Optimizer, OptimizerState
from rlrun.learner.staging import over_memory
from rlrun.learner.update import assign, clipped, fresh_state, num_assigned, present_values
from rlrun.policy.policy import Policy

ALIGNED_TO = 64
"""Slices begin at multiples of this, so that vector instructions group the numbers of a slice as in the whole vector,
and round alike."""

Floats = NDArray[np.float32]
Ask = Callable[[str, Mapping[int, tuple[Any, ...]]], dict[int, Any]]
"""Calls a method of several shards at once, with arguments by shard, and returns the answers by shard."""


@dataclass(frozen=True)
class ObjectivePart:
    """The part of an objective that is in a shard's slice.

    Attributes:
        name: The objective's name.
        start: Start of the objective's parameters within the slice, in the flat vector.
        stop: Their end; `start` if there are none.
        offset: Their start among the objective's parameters.
        max_grad_norm: Bound of the whole gradient's norm, or None.
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
    """Config of a shard.

    Attributes:
        start: Start of its slice of the flat vector.
        stop: End of the slice.
        objectives: Its part of each objective.
        num_learners: Number of learners.
        timeout_s: Seconds to wait for a learner's gradient.
    """

    start: int
    stop: int
    objectives: tuple[ObjectivePart, ...]
    num_learners: int
    timeout_s: float


def shard_configs(
    policy: Policy, objectives: Sequence[Objective], num_shards: int, num_learners: int, timeout_s: float
) -> tuple[ShardConfig, ...]:
    """Configs of shards with adjacent slices of about equal length."""
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
    """One slice of the parameters, initially 0, with its part of the optimizers; learners call it in threads."""

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
        """Delivers a learner's gradient and waits for the update.

        Args:
            rank: The learner's number.
            gradient: Its mean gradient for the slice, then its mean statistics.
            steps: The number of valid steps that they are means over.

        Returns:
            The result of the first learner's `move`.

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
        """Delivers the first learner's gradient and waits for the mean over all learners, weighted by steps.

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
        """Updates the slice by the mean gradient.

        Args:
            objective: Number of the objective.
            norm: The norm of the whole gradient.
            lr: The learning rate.

        Returns:
            The objective's parameters in the slice, and the mean statistics followed by the norm.
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
            raise PeerLost(f"a parameter server waited {self._config.timeout_s:g} s for a learner")

    def load_flat(self, flat: Floats) -> None:
        """Loads its slice of all parameters [P]."""
        self._flat.copy_(over_memory(flat)[self._config.start : self._config.stop])

    def optimizer_state(self) -> dict[str, Floats]:
        """Its slices of the optimizer's tensors by name; every shard has the counts of steps."""
        return {
            f"{part.name}/{name}": tensor.numpy().copy()
            for part, state in zip(self._config.objectives, self._states, strict=True)
            for name, tensor in state.items()
        }

    def load_optimizer_state(self, named: Mapping[str, Floats]) -> None:
        """Loads its slices of the whole optimizer's tensors."""
        for part, state in zip(self._config.objectives, self._states, strict=True):
            own = slice(part.offset, part.offset + part.stop - part.start)
            for name, tensor in state.items():
                whole = named[f"{part.name}/{name}"]
                tensor.copy_(over_memory(whole if name == STEPS else whole[own]).reshape(tensor.shape))

    def ping(self) -> None:
        """Returns if the process is alive."""

    def close(self) -> None:
        """Does nothing: the actor ends."""


class ParameterServers:
    """A reducer that updates the parameters on the shards; see `rlrun.learner.reducer`.

    Args:
        shards: Configs of the shards.
        rank: The learner's number.
        ask: Calls methods of the shards.
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
        """Sends this learner's gradient, and loads the parameters that the shards updated by all learners' gradients.

        Args:
            policy: The policy.
            objective: Whose gradient it is.
            flat: All parameters [P]; changed in place.
            state: Unused: the optimizer is in the shards.
            total: Mean gradient, assigned values and statistics over this learner's share, then its valid steps.
            scheduled: Settings that change over a run, each [].

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


def whole_optimizer_state(shards: Sequence[Mapping[str, Floats]]) -> dict[str, Floats]:
    """The optimizer's tensors by name, joined from the slices of the shards in order.

    Shards without parameters of an objective do not count its steps, so the largest count is taken.
    """
    slices = {name: [shard[name] for shard in shards] for name in shards[0]}
    return {name: np.concatenate(each) if each[0].ndim else max(each) for name, each in slices.items()}
