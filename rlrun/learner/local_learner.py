"""The learner in this process: a policy's parameters under its objectives, on one device (torch)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlrun.data.sample_batch import SampleBatch
from rlrun.learner.compilation import CompiledUpdate, compiled, own_code_digest
from rlrun.learner.minibatches import minibatches
from rlrun.learner.objective import Objective
from rlrun.learner.parameter_server import ParameterServers
from rlrun.learner.staging import Staging, over_memory
from rlrun.learner.statistic_totals import StatisticTotals
from rlrun.learner.update import (
    GradientSum,
    OptimizerState,
    Parameters,
    Precision,
    Update,
    apply_sum,
    computed_in,
    flattened_arguments,
    parameter_range,
    sum_as_means,
    traceable,
)
from rlrun.policy.policy import Policy

Reduce = Callable[[Tensor], Tensor]
"""Adds up one vector over all learners that learn together; each gets the sum."""


class LocalLearner:
    """Holds the flat parameter vector of one policy and moves it by minibatch SGD.

    Attributes:
        policy: The policy it learns.
        sgd_steps: Minibatches learned from.
        weights_version: Batches learned from.
        is_compiled: Whether updates run compiled; fixed for the whole run, since the bits differ.
        last_batch: What it learned from last, for a look at what went wrong; None before the first batch.
    """

    def __init__(
        self,
        policy: Policy,
        objectives: Sequence[Objective],
        *,
        device: str,
        compile_updates: bool,
        identity: str | None,
        seed: int,
        microbatch_size: int | None = None,
        reduce: Reduce | None = None,
        servers: ParameterServers | None = None,
        share: tuple[int, int] = (0, 1),
        precision: Precision = "float32",
        has_target: bool = False,
        announce: Callable[[str], None] = lambda message: None,
    ) -> None:
        """Takes the policy's present parameters as the first ones.

        Args:
            policy: The policy to learn.
            objectives: What to minimise, in order.
            device: Torch's name of the device, `cpu` or `cuda`.
            compile_updates: Whether updates run compiled.
            identity: What determines the updates besides their shapes, or None if code outside of rlrun takes part.
            seed: Seed of the order of minibatches.
            microbatch_size: Steps whose gradient is computed at a time, to save memory; None for a whole minibatch.
            reduce: Adds up gradients over the learners that learn together, None if it learns alone.
            servers: Hold the optimizer instead of this learner and move the parameters; None for none.
            share: (i, n): of every minibatch it takes the i-th of n equal parts, from 0.
            precision: What the network's passes are computed in.
            has_target: Whether it keeps a target network.
            announce: Called with a sentence when something is about to take long.
        """
        self.policy = policy
        self.objectives = tuple(objectives)
        self.device = torch.device(device)
        self.is_compiled = compile_updates
        self.sgd_steps = 0
        self.weights_version = 0
        self.last_batch: SampleBatch | None = None
        self._identity = identity
        self._microbatch_size = microbatch_size
        self._reduce = reduce
        self._servers = servers
        self._share = share
        self._precision = precision
        self._announce = announce
        self._generator = np.random.Generator(np.random.Philox(seed))
        self._flat = policy.parameters.gather(policy.module).to(self.device)
        self._target = self._flat.clone() if has_target else None
        policy.module.to(self.device)
        self._states = [self._fresh_state(objective) for objective in self.objectives] if servers is None else []
        self._updates: dict[tuple[str, ...], Update] = {}
        # Servers are sent means, with which one learner does to the last bit what it would do alone.
        weighed = servers is None or microbatch_size is not None
        self._sums = [GradientSum(policy, each, precision, weighed=weighed) for each in self.objectives]
        self._compiled: dict[tuple[object, ...], CompiledUpdate] = {}
        self._totals = StatisticTotals()
        self._staging = Staging(self.device)

    def _fresh_state(self, objective: Objective) -> OptimizerState:
        _, size = parameter_range(self.policy, objective)
        return OptimizerState(
            torch.zeros(size, device=self.device),
            torch.zeros(size, device=self.device),
            torch.zeros((), device=self.device),
        )

    def learn(
        self,
        batch: SampleBatch,
        *,
        num_epochs: int,
        minibatch_size: int,
        scheduled: Mapping[str, float],
        stop: tuple[str, float] | None = None,
    ) -> None:
        """Runs epochs of minibatch SGD on a batch.

        All minibatches have one shape: the last of an epoch is filled up with empty rows, which weigh nothing.

        Args:
            batch: Rows of experience [S, L, ...].
            num_epochs: Passes over the batch.
            minibatch_size: Steps (rows times L) in a minibatch.
            scheduled: Present values of the settings that change over a run, by name; learning rates among them.
            stop: (name of a statistic, bound): no further epoch begins once its mean over an epoch lies above the
                bound.
        """
        self.last_batch = batch
        settings = self._staging.settings(scheduled)
        rows, length = batch["valid"].shape
        part, parts = self._share
        own = -(-min(max(minibatch_size // length, 1), rows) // parts)
        size = own * parts
        per_epoch = -(-rows // size)
        columns = self._staging.batch(batch, spare=per_epoch * size - rows)
        for _ in range(num_epochs):
            order = self._order(rows, per_epoch * size)
            if parts > 1:
                order = order.view(per_epoch, parts, own)[:, part].flatten()
            before = self._totals.total_of(stop[0]) if stop else None
            for minibatch in minibatches(columns, order, own):
                self._step(minibatch, settings)
            if stop is not None and before is not None:
                total, count = self._totals.total_of(stop[0])
                if (total - before[0]) / (count - before[1]) > stop[1]:
                    break
        self.weights_version += 1

    def step(self, batch: SampleBatch, *, scheduled: Mapping[str, float]) -> NDArray[np.float32]:
        """Learns from one minibatch as it is.

        Args:
            batch: Rows of experience [S, L, ...].
            scheduled: Present values of the settings that change over a run, by name; learning rates among them.

        Returns:
            What the loss says of how much is to be learned from each row still, [S]; empty if it says nothing.
        """
        self.last_batch = batch
        draws = self.policy.draws(self._generator, *batch["valid"].shape)
        columns = self._staging.batch(SampleBatch(batch, **draws))
        priorities = self._step(columns, self._staging.settings(scheduled))
        self.weights_version += 1
        return priorities.cpu().numpy()

    def gradients(self, batch: SampleBatch, *, scheduled: Mapping[str, float]) -> NDArray[np.float32]:
        """Returns what `apply_gradients` of another learner moves its parameters by.

        Args:
            batch: Rows of experience [S, L, ...]; all of them make one minibatch.
            scheduled: Present values of the settings that change over a run, by name; learning rates among them.

        Returns:
            The objectives' gradient sums one after another, each as `GradientSum` makes it.
        """
        self.last_batch = batch
        draws = self.policy.draws(self._generator, *batch["valid"].shape)
        settings, columns = self._staging.settings(scheduled), self._staging.batch(SampleBatch(batch, **draws))
        return torch.cat([self._gradient_sum(i, columns, settings) for i in range(len(self._sums))]).cpu().numpy()

    def apply_gradients(
        self, gradients: NDArray[np.float32], statistics: Sequence[tuple[str, ...]], *, scheduled: Mapping[str, float]
    ) -> None:
        """Moves the parameters by what another learner's `gradients` returned.

        Args:
            gradients: The objectives' gradient sums one after another.
            statistics: What the other learner's `statistics_of_gradients` are.
            scheduled: Present values of the settings that change over a run, by name; learning rates among them.
        """
        settings = self._staging.settings(scheduled)
        sizes = [len(state.second) + len(names) + 1 for state, names in zip(self._states, statistics, strict=True)]
        self.sgd_steps += 1
        received = torch.split(torch.from_numpy(gradients.copy()).to(self.device), sizes)
        for i, total in enumerate(received):
            self._sums[i].statistics = statistics[i]
            self._apply(i, total, settings)
        self.weights_version += 1

    @property
    def statistics_of_gradients(self) -> list[tuple[str, ...]]:
        """Names of the statistics that travel with each objective's gradient, known after the first `gradients`."""
        return [gradient_sum.statistics for gradient_sum in self._sums]

    def _order(self, rows: int, padded: int) -> Tensor:
        order = np.full(padded, rows, np.int64)
        order[:rows] = self._generator.permutation(rows)
        return self._staging.order(order)

    def _step(self, batch: SampleBatch, settings: Mapping[str, Tensor]) -> Tensor:
        """Moves the parameters by one minibatch and returns its rows' priorities; nothing waits for the device."""
        due = [i for i, objective in enumerate(self.objectives) if self.sgd_steps % objective.every == 0]
        self.sgd_steps += 1
        if self._reduce is not None or self._servers is not None or self._microbatch_size is not None:
            for i in due:
                total = self._gradient_sum(i, batch, settings)
                self._apply(i, total if self._reduce is None else self._reduce(total), settings)
            return self._flat[:0]
        names = tuple(self.objectives[i].name for i in due)
        states = [self._states[i] for i in due]
        if names not in self._updates:
            several = len(self.objectives) > 1
            self._updates[names] = Update(
                self.policy, [self.objectives[i] for i in due], self._precision, names_objectives=several
            )
        update = self._updates[names]
        measured = self._run(update, names, states, batch, settings)
        number = len(update.statistics)
        self._totals.add(update.statistics, measured[:number])
        return measured[number:]

    def _gradient_sum(self, index: int, batch: SampleBatch, settings: Mapping[str, Tensor]) -> Tensor:
        """Returns an objective's gradient sum over a minibatch, one microbatch after another; means for servers."""
        rows, length = batch["valid"].shape
        size = rows if self._microbatch_size is None else max(self._microbatch_size // length, 1)
        total: Tensor | None = None
        for start in range(0, rows, size):
            part = batch.map(lambda leaf, start=start: leaf[start : start + size])
            addend = self._run(self._sums[index], ("gradient", self.objectives[index].name), [], part, settings)
            total = addend if total is None else total.add_(addend)
        assert total is not None
        return sum_as_means(total) if self._servers is not None and self._sums[index].weighed else total

    def _apply(self, index: int, total: Tensor, settings: Mapping[str, Tensor]) -> None:
        """Moves an objective's parameters by a gradient sum, and counts its statistics."""
        objective = self.objectives[index]
        if self._servers is None:
            measured = apply_sum(self.policy, objective, self._flat, self._states[index], total, settings)
        else:
            measured = self._servers.move(index, total, settings[objective.lr], self._flat)
        prefix = "" if len(self.objectives) == 1 else f"{objective.name}/"
        self._totals.add(tuple(f"{prefix}{name}" for name in (*self._sums[index].statistics, "grad_norm")), measured)

    def _run(
        self,
        update: Update | GradientSum,
        names: tuple[str, ...],
        states: Sequence[OptimizerState],
        batch: SampleBatch,
        settings: Mapping[str, Tensor],
    ) -> Tensor:
        """Runs an update, or its first half, as it is or compiled."""
        parameters = Parameters(self._flat, self._target)
        if not self.is_compiled:
            return update(parameters, states, batch, settings)
        arguments = flattened_arguments(parameters, states, batch, settings)
        key = (names, batch["valid"].shape)
        if key not in self._compiled:
            function = traceable(update, len(states), batch, settings, has_target=self._target is not None)
            self._compiled[key] = compiled(
                update, function, arguments, identity=self._identity_of(names), announce=self._announce
            )
        (result,) = self._compiled[key](arguments)
        return result

    def _identity_of(self, due: tuple[str, ...]) -> str | None:
        return None if self._identity is None else f"{own_code_digest()}\n{self._identity}\n{due}"

    def take_statistics(self) -> dict[str, float]:
        """Returns the means of all statistics since the last call, and starts them afresh."""
        return self._totals.take()

    def is_finite(self) -> bool:
        """Whether all parameters are finite numbers."""
        return bool(torch.isfinite(self._flat).all())

    def flat(self) -> NDArray[np.float32]:
        """Returns a copy of all parameters, [P]."""
        return self._flat.cpu().numpy().copy()

    def acting_flat(self) -> NDArray[np.float32]:
        """Returns a copy of the parameters that act, [A]: the slice that `Policy.acting_range` names."""
        start, size = self.policy.acting_range
        return self._flat[start : start + size].cpu().numpy().copy()

    def load_flat(self, flat: NDArray[np.float32]) -> None:
        """Takes over parameters [P], also from a view into the object store."""
        self._flat.copy_(over_memory(flat))

    def target_outputs(self, batch: SampleBatch) -> NDArray[np.float32]:
        """Returns what the target network puts out for steps [T, B], as [T, B, K]."""
        if self._target is None:
            raise RuntimeError("this learner keeps no target network")
        needed = self._staging.batch(SampleBatch(obs=batch["obs"], valid=batch["valid"]))
        with torch.no_grad(), computed_in(self._precision, self.device):
            outputs = self.policy.outputs(self.policy.parameters.views(self._target), needed)
        found: NDArray[np.float32] = outputs.distribution.outputs.cpu().numpy()
        return found

    def update_target(self, tau: float = 1.0) -> None:
        """Moves the target network's parameters by a fraction of their distance to the present ones; 1 copies them."""
        if self._target is not None:
            if tau == 1.0:
                self._target.copy_(self._flat)
            else:
                self._target.lerp_(self._flat, tau)

    def target(self) -> NDArray[np.float32] | None:
        """Returns a copy of the target network's parameters, [P], None if there is none."""
        return None if self._target is None else self._target.cpu().numpy().copy()

    def load_target(self, flat: NDArray[np.float32]) -> None:
        """Takes over the target network's parameters [P]."""
        if self._target is not None:
            self._target.copy_(over_memory(flat))

    def optimizer_state(self) -> dict[str, NDArray[np.float32]]:
        """Returns the optimizer's tensors by name, for a checkpoint."""
        named: dict[str, NDArray[np.float32]] = {}
        for objective, state in zip(self.objectives, self._states, strict=True):
            for part in ("first", "second", "steps"):
                named[f"{objective.name}/{part}"] = getattr(state, part).cpu().numpy().copy()
        return named

    def load_optimizer_state(self, named: Mapping[str, NDArray[np.float32]]) -> None:
        """Takes over what `optimizer_state` returned."""
        for objective, state in zip(self.objectives, self._states, strict=True):
            for part in ("first", "second", "steps"):
                getattr(state, part).copy_(torch.from_numpy(np.array(named[f"{objective.name}/{part}"])))

    def state(self) -> dict[str, Any]:
        """Returns counters and the state of the minibatch order."""
        return {
            "sgd_steps": self.sgd_steps,
            "weights_version": self.weights_version,
            "generator": dict(self._generator.bit_generator.state),  # JSON numbers and arrays
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Takes over what `state` returned."""
        self.sgd_steps = int(state["sgd_steps"])
        self.weights_version = int(state["weights_version"])
        self._generator.bit_generator.state = dict(state["generator"])

    def adopt_state(self, state: Mapping[str, Any]) -> None:
        """Takes over the counter of another learner's `state`; its own draws go on."""
        self.sgd_steps = int(state["sgd_steps"])

    def close(self) -> None:
        """Ends nothing: it lives in this process."""
