"""The learner: a policy's parameters under its objectives, on one device (torch)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlrun.config import Schedule
from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import map_tree
from rlrun.errors import UsageError
from rlrun.functional.moments import Moments
from rlrun.functional.schedules import value_at
from rlrun.learner.compilation import CompiledUpdate, compiled, own_code_digest
from rlrun.learner.objective import Objective
from rlrun.learner.update import OptimizerState, Update, flattened_arguments, parameter_range, traceable
from rlrun.policy.policy import Policy
from rlrun.policy.weights import Weights


class Learner:
    """Holds the flat parameter vector of one policy and moves it by minibatch SGD.

    Attributes:
        policy: The policy it learns.
        schedules: Settings that change with the env steps, by name; they may be replaced between two batches.
        sgd_steps: Minibatches learned from.
        weights_version: Broadcasts made.
        filters: Running statistics that go out with the weights.
        is_compiled: Whether updates run compiled; fixed for the whole run, since the bits differ.
        last_batch: What it learned from last, for a look at what went wrong; None before the first batch.
    """

    def __init__(
        self,
        policy: Policy,
        objectives: Sequence[Objective],
        *,
        schedules: Mapping[str, Schedule],
        device: str,
        compile_updates: bool,
        identity: str | None,
        seed: int,
        announce: Callable[[str], None] = lambda message: None,
    ) -> None:
        """Takes the policy's present parameters as the first ones.

        Args:
            policy: The policy to learn.
            objectives: What to minimise, in order.
            schedules: Settings that change with the env steps, by name; learning rates among them.
            device: Torch's name of the device, `cpu` or `cuda`.
            compile_updates: Whether updates run compiled.
            identity: What determines the updates besides their shapes, or None if code outside of rlrun takes part.
            seed: Seed of the order of minibatches.
            announce: Called with a sentence when something is about to take long.
        """
        self.policy = policy
        self.objectives = tuple(objectives)
        self.schedules = dict(schedules)
        self.device = torch.device(device)
        self.is_compiled = compile_updates
        self.sgd_steps = 0
        self.weights_version = 0
        self.filters: dict[str, Moments] = {}
        self.last_batch: SampleBatch | None = None
        self._identity = identity
        self._announce = announce
        self._generator = np.random.Generator(np.random.Philox(seed))
        self._flat = policy.parameters.gather(policy.module).to(self.device)
        policy.module.to(self.device)
        self._states = [self._fresh_state(objective) for objective in self.objectives]
        self._updates: dict[tuple[str, ...], Update] = {}
        self._compiled: dict[tuple[object, ...], CompiledUpdate] = {}
        self._totals: dict[tuple[str, ...], tuple[Tensor, int]] = {}

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
        env_steps: int,
        stop: tuple[str, float] | None = None,
    ) -> None:
        """Runs epochs of minibatch SGD on a batch.

        All minibatches have one shape: the last of an epoch is filled up with empty rows, which weigh nothing.

        Args:
            batch: Rows of experience [S, L, ...].
            num_epochs: Passes over the batch.
            minibatch_size: Steps (rows times L) in a minibatch.
            env_steps: Env steps so far, for the schedules.
            stop: (name of a statistic, bound): no further epoch begins once its mean over an epoch lies above the
                bound.
        """
        self.last_batch = batch
        scheduled = self.scheduled(env_steps)
        settings = {name: torch.tensor(value, device=self.device) for name, value in scheduled.items()}
        rows, length = batch["valid"].shape
        size = min(minibatch_size // length, rows)
        per_epoch = -(-rows // size)
        columns = self._to_device(batch, spare=per_epoch * size - rows)
        for _ in range(num_epochs):
            order = self._order(rows, per_epoch * size)
            shuffled = columns.map(lambda leaf, order=order: leaf.index_select(0, order))
            parts = {name: map_tree(lambda leaf: leaf.split(size), tree) for name, tree in shuffled.items()}
            before = self._total_of(stop[0]) if stop else None
            for i in range(per_epoch):
                self._step(SampleBatch({name: nth(tree, i) for name, tree in parts.items()}), settings)
            if stop is not None and before is not None:
                total, count = self._total_of(stop[0])
                if (total - before[0]) / (count - before[1]) > stop[1]:
                    break

    def scheduled(self, env_steps: int) -> dict[str, float]:
        """Returns the scheduled settings after so many env steps, by name."""
        return {name: value_at(schedule, env_steps) for name, schedule in self.schedules.items()}

    def _to_device(self, batch: SampleBatch, spare: int) -> SampleBatch:
        """Puts a batch on the device, with an empty row behind it if minibatches need filling up."""

        def move(leaf: NDArray[Any]) -> Tensor:
            # What came from an actor is a read-only view into the object store, which torch takes for a mistake.
            tensor = torch.from_numpy(np.require(leaf, requirements=["C", "W"])).to(self.device)
            if spare:
                tensor = torch.cat([tensor, torch.zeros_like(tensor[:1])])
            return tensor

        return batch.map(move)

    def _order(self, rows: int, padded: int) -> Tensor:
        order = np.full(padded, rows, np.int64)
        order[:rows] = self._generator.permutation(rows)
        return torch.from_numpy(order).to(self.device)

    def _step(self, batch: SampleBatch, settings: Mapping[str, Tensor]) -> None:
        """Moves the parameters by one minibatch; nothing waits for the device."""
        due = [i for i, objective in enumerate(self.objectives) if self.sgd_steps % objective.every == 0]
        self.sgd_steps += 1
        names = tuple(self.objectives[i].name for i in due)
        states = [self._states[i] for i in due]
        update = self._updates.setdefault(names, Update(self.policy, [self.objectives[i] for i in due]))
        if not self.is_compiled:
            measured = update(self._flat, states, batch, settings)
        else:
            arguments = flattened_arguments(self._flat, states, batch, settings)
            key = (names, batch["valid"].shape)
            if key not in self._compiled:
                function = traceable(update, len(states), batch, settings)
                self._compiled[key] = compiled(
                    update, function, arguments, identity=self._identity_of(names), announce=self._announce
                )
            (measured,) = self._compiled[key](arguments)
        if names not in self._totals:
            self._totals[names] = (torch.zeros_like(measured), 0)
        total, count = self._totals[names]
        total.add_(measured)
        self._totals[names] = (total, count + 1)

    def _identity_of(self, due: tuple[str, ...]) -> str | None:
        return None if self._identity is None else f"{own_code_digest()}\n{self._identity}\n{due}"

    def _total_of(self, statistic: str) -> tuple[float, int]:
        """Returns a statistic's sum and count since they were last taken; waits for the device."""
        for names, (total, count) in self._totals.items():
            if statistic in self._updates[names].statistics:
                return float(total[self._updates[names].statistics.index(statistic)]), count
        return 0.0, 0

    def take_statistics(self) -> dict[str, float]:
        """Returns the means of all statistics since the last call, and starts them afresh."""
        taken: dict[str, float] = {}
        for names, (total, count) in self._totals.items():
            means = (total / count).tolist()
            taken.update(zip(self._updates[names].statistics, means, strict=True))
        self._totals.clear()
        return taken

    def is_finite(self) -> bool:
        """Whether all parameters are finite numbers."""
        return bool(torch.isfinite(self._flat).all())

    def weights(self, env_steps: int) -> Weights:
        """Returns the parameters and statistics as they are now."""
        return Weights(self.weights_version, self.flat(), dict(self.filters), env_steps)

    def flat(self) -> NDArray[np.float32]:
        """Returns a copy of all parameters, [P]."""
        return self._flat.cpu().numpy().copy()

    def load_flat(self, flat: NDArray[np.float32]) -> None:
        """Takes over parameters [P]."""
        self._flat.copy_(torch.from_numpy(flat))

    def merge_filters(self, deltas: Mapping[str, Moments]) -> None:
        """Adds what workers have seen to the running statistics."""
        for name, delta in deltas.items():
            self.filters[name] = self.filters[name].merged(delta) if name in self.filters else delta

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
        """Returns counters, filter statistics and the state of the minibatch order."""
        return {
            "sgd_steps": self.sgd_steps,
            "weights_version": self.weights_version,
            "filters": {name: moments.state() for name, moments in self.filters.items()},
            "generator": generator_state(self._generator),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Takes over what `state` returned."""
        self.sgd_steps = int(state["sgd_steps"])
        self.weights_version = int(state["weights_version"])
        self.filters = {name: Moments.from_state(moments) for name, moments in state["filters"].items()}
        load_generator_state(self._generator, state["generator"])

    def adopt_state(self, state: Mapping[str, Any]) -> None:
        """Takes over the counter and the filter statistics of another learner's `state`; its own draws go on."""
        self.sgd_steps = int(state["sgd_steps"])
        self.filters = {name: Moments.from_state(moments) for name, moments in state["filters"].items()}


def available_device(num_gpus: float, threads: int) -> str:
    """Returns torch's name of the learner's device, and sets torch's threads.

    Raises:
        UsageError: A GPU is asked for and torch finds none.
    """
    torch.set_num_threads(threads)
    if num_gpus == 0:
        return "cpu"
    if not torch.cuda.is_available():
        raise UsageError(
            f"config.num_gpus is {num_gpus:g}, and torch {torch.__version__} finds no GPU here; set it to 0"
        )
    return "cuda"


def nth(tree: Any, index: int) -> Tensor | Any:
    """Returns a tree of the index-th minibatches from a tree of sequences of them.

    A split leaf is itself a tuple of tensors, which tells it from a nested column.
    """
    if isinstance(tree, dict):
        return {key: nth(value, index) for key, value in tree.items()}
    if isinstance(tree[0], Tensor):
        return tree[index]
    return tuple(nth(value, index) for value in tree)


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    """Returns a Philox generator's state as JSON numbers and arrays."""
    return dict(generator.bit_generator.state)


def load_generator_state(generator: np.random.Generator, state: Mapping[str, Any]) -> None:
    """Takes over what `generator_state` returned."""
    generator.bit_generator.state = dict(state)
