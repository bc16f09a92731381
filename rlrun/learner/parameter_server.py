"""A sharded parameter server: processes that hold the parameters and the optimizer, a slice each (torch).

Learners send each shard their gradient for its slice; the shard averages them in the learners' order, moves its slice
when all have delivered, and answers with it. Nobody is ahead of anybody. The gradient's norm, which clipping needs, is
that of the whole: the first learner puts it together from the shards' averages and tells it to all of them.

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
"""Slices begin at multiples of this, so that a processor's vector instructions meet the same numbers side by side in a
slice as in the whole, and round alike."""

Floats = NDArray[np.float32]
Ask = Callable[[str, Mapping[int, tuple[Any, ...]]], dict[int, Any]]
"""Calls a method of several shards at once, with arguments by shard, and returns the answers by shard."""


@dataclass(frozen=True)
class ObjectivePart:
    """What a shard has to do with an objective.

    Attributes:
        name: The objective's name.
        start: Where the objective's parameters within the slice begin in the flat vector.
        stop: Where they end; at `start` if there are none.
        offset: Where they begin among the objective's parameters.
        max_grad_norm: Bound of the whole gradient's norm, or None.
        optimizer: How the gradient moves the parameters.
    """

    name: str
    start: int
    stop: int
    offset: int
    max_grad_norm: float | None
    optimizer: Optimizer


@dataclass(frozen=True)
class ShardConfig:
    """Configuration of a shard.

    Attributes:
        start: Where its slice of the flat vector begins.
        stop: Where it ends.
        objectives: Its part of each objective.
        num_learners: How many learners deliver.
        timeout_s: Seconds after which a learner that has not delivered is given up.
    """

    start: int
    stop: int
    objectives: tuple[ObjectivePart, ...]
    num_learners: int
    timeout_s: float


def shard_configs(
    policy: Policy, objectives: Sequence[Objective], num_shards: int, num_learners: int, timeout_s: float
) -> tuple[ShardConfig, ...]:
    """Returns slices of a policy's flat vector, side by side and about equally long."""
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
    """One slice of the parameters, at first 0, under its part of the optimizers; learners call it from own threads."""

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
        """Delivers a learner's gradient and waits for the move that it is part of.

        Args:
            rank: The learner's number.
            gradient: Its mean gradient for the slice, and its mean statistics behind that.
            steps: The valid steps that they are means over.

        Returns:
            What the first learner's `move` returns.

        Raises:
            PeerLost: The others did not deliver in time.
        """
        with self._changed:
            moves = self._moves
            self._delivered[rank] = (gradient, steps)
            self._changed.notify_all()
            self._wait_for(lambda: self._moves > moves)
            return self._result

    def mean(self, gradient: Floats, steps: float) -> Floats:
        """Delivers the first learner's gradient and returns the mean of all, weighed by steps, once they are there.

        Raises:
            PeerLost: The others did not deliver in time.
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
        """Moves the slice along the mean gradient.

        Args:
            objective: Which objective's gradient it is.
            norm: The norm of the whole gradient.
            lr: The learning rate.

        Returns:
            The objective's parameters in the slice, and the mean statistics with the norm behind them.
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
        """Returns its slices of the optimizer's tensors by name; the counts of steps are in every shard."""
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
        """Returns: it is alive."""

    def close(self) -> None:
        """Closes nothing; its actor ends."""


class ParameterServers:
    """A learner's view of the shards: a reducer, see `rlrun.learner.reducer`.

    Args:
        shards: Their configurations.
        rank: The learner's number.
        ask: Calls them.
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
        """Sends this learner's gradient and takes over the parameters that all learners' gradients have moved.

        Args:
            policy: The policy.
            objective: Whose gradient it is.
            flat: All parameters [P]; changed in place.
            state: Nothing: the optimizer is in the shards.
            total: Mean gradient, assigned values and statistics over this learner's share, and the number of valid
                steps in it.
            scheduled: Settings that change over a run, each [].

        Returns:
            The mean statistics over all learners, and the norm of the mean gradient last where parameters move.
        """
        number = self._indices[objective.name]
        parts = {
            index: shard.objectives[number]
            for index, shard in enumerate(self._shards)
            if shard.objectives[number].stop > shard.objectives[number].start
        } or {0: self._shards[0].objectives[number]}  # which averages what is assigned
        size = sum(part.stop - part.start for part in parts.values())
        own = total.cpu().numpy()
        behind, steps = own[size:-1], float(own[-1])
        assigned = num_assigned(policy, objective)
        if assigned and not steps:
            behind = np.concatenate([present_values(policy, objective, flat).cpu().numpy(), behind[assigned:]])
        sent = {
            index: np.concatenate([own[part.offset : part.offset + part.stop - part.start], behind])
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
            # The shards' own copies of these parameters are never read: no objective descends them.
            assign(policy, objective, flat, measured[:assigned])
        measured = measured[assigned:]
        return measured[:-1] if objective.parameters is None else measured


def whole_optimizer_state(shards: Sequence[Mapping[str, Floats]]) -> dict[str, Floats]:
    """Returns the optimizer's tensors by name from the shards' slices, in their order.

    A shard without parameters of an objective is never asked to move any, and counts none of its steps.
    """
    slices = {name: [shard[name] for shard in shards] for name in shards[0]}
    return {name: np.concatenate(each) if each[0].ndim else max(each) for name, each in slices.items()}
