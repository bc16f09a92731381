"""Operators on batches of tensors, which stay on the device; each is the counterpart of a NumPy operator.

A dataflow is built from the NumPy operators. `put_on_device` then replaces each with its counterpart for tensors, so
that plans, names and saved states are the same for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.flow.flow import Flow, Operator
from rlrun.engine.flow.nodes import Combine, Node, OperatorNode, Source
from rlrun.engine.flow.operators.advantages import ComputeAdvantages, Standardize
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.flow.operators.recomputation import state_values
from rlrun.engine.flow.operators.training import TrainOnBatch
from rlrun.engine.flow.operators.value_estimates import NO_VALUES, MeasureValues, value_metrics
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.sources.rollouts import RolloutSource
from rlrun.engine.functional.moments import Moments
from rlrun.engine.functional.tensor_returns import final_values, tensor_gae, tensor_standardized
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.learner.learner import EvaluatedFunction

T = TypeVar("T")

LEARNED = ("obs", "actions", "logp", "values", "valid", "advantages", "value_targets", "episode_starts")
"""Columns of a fragment that losses may read, besides columns that other operators add and `state`."""

LEARN_ON_DEVICE = "ppo, a2c, grpo or rloo"
"""Algorithms that a message suggests for an env of tensors."""

_COLLECTED = (*LEARNED, "state", "rewards", "terminateds", "truncateds", "finals", "final_values", "weights_version")


def put_on_device(flow: Flow[Any], algorithm: str, shown: Mapping[str, Any]) -> None:
    """Replaces all operators of a dataflow, in place, with their counterparts for batches of tensors.

    Args:
        flow: The dataflow.
        algorithm: Name of the algorithm, for messages.
        shown: Settings of the env that the printed dataflow shows at its source.

    Raises:
        UsageError: An operator has no counterpart.
    """
    for node in _nodes(flow.node):
        if isinstance(node, RolloutSource) and node.on_workers:
            raise UsageError(
                f"{algorithm} does not work with an env of tensors, because its operator {node.on_workers[0][0]} "
                f"computes in the worker, on the host: use {LEARN_ON_DEVICE}"
            )
        if not isinstance(node, OperatorNode):
            node.settings |= shown if isinstance(node, Source) else {}
            continue
        operator = on_device(node.operator, node.name, algorithm)
        if operator is node.operator:
            continue
        node.operator = operator
        node.apply = operator
        if isinstance(node, Combine):
            node.apply = partial(_listed, operator)


def on_device(operator: Any, name: str, algorithm: str) -> Any:
    """Returns an operator's counterpart for batches of tensors.

    Raises:
        UsageError: The operator has no counterpart.
    """
    place = f"{type(operator).__module__}:{type(operator).__qualname__}"
    if isinstance(operator, MergeFilters) or place in UNCHANGED:
        return operator
    make: Callable[[Any], Any] | None = _FORMS.get(type(operator))
    if isinstance(operator, TrainOnBatch) and (operator.whole_fragments or operator.objectives is not None):
        make = None
    if make is None and place in ELSEWHERE:
        make = load_internal(ELSEWHERE[place])
    if make is None:
        raise UsageError(
            f"{algorithm} does not work with an env of tensors, because its operator {name} computes on the host: use "
            f"{LEARN_ON_DEVICE}"
        )
    return make(operator)


ELSEWHERE = {
    "rlrun.algorithms.groups.episode_groups:EpisodeGroups": "rlrun.algorithms.groups.groups_on_device:GroupsOnDevice",
    "rlrun.algorithms.kl_penalty:KLPenalty": "rlrun.algorithms.kl_penalty_on_device:KLPenaltyOnDevice",
    "rlrun.algorithms.pg.complete_episodes:JoinEpisodes": "rlrun.algorithms.groups.groups_on_device:EpisodesInSlots",
}
"""Import paths of the counterparts that algorithms define, by the import path of the NumPy operator."""

UNCHANGED = ("rlrun.algorithms.kl_penalty:AdaptKLPenalty",)
"""Import paths of operators that read no columns of a batch."""


def _nodes(node: Node) -> list[Node]:
    """Returns the nodes of a dataflow, from its sources to `node`."""
    return [*(found for each in node.inputs for found in _nodes(each)), node]


def _listed(operator: Callable[[Any], Any], item: Any) -> list[Any]:
    return list(operator(item))


class AdvantagesOnDevice(Operator):
    """GAE on a device; see `ComputeAdvantages`."""

    def __init__(self, sibling: ComputeAdvantages) -> None:
        (self.stream,) = sibling.streams

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the fragment with advantages and value targets."""
        advantages, targets = tensor_gae(
            item["rewards"],
            item["values"],
            item["final_values"],
            item["terminateds"],
            item["truncateds"],
            self.stream.gamma,
            self.stream.gae_lambda,
        )
        return SampleBatch(item, advantages=advantages, value_targets=targets)


class StandardizeOnDevice(Operator):
    """Standardizes a column on a device; see `Standardize`."""

    def __init__(self, sibling: Standardize) -> None:
        self.column = sibling.column

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the batch with the standardized column."""
        return SampleBatch(item, **{self.column: tensor_standardized(item[self.column], item["valid"])})


class WholeFragments(Operator):
    """Passes on fragments, each of which must fill a batch; replaces `ConcatBatches`.

    The buffers of a fragment are overwritten by the next one, so a batch cannot collect several fragments.
    """

    def __init__(self, sibling: ConcatBatches) -> None:
        self.train_batch_size = sibling.train_batch_size

    @override
    def __call__(self, item: SampleBatch) -> Sequence[SampleBatch]:
        """Returns the fragment.

        Raises:
            UsageError: The fragment does not fill a batch.
        """
        if item.num_rows < self.train_batch_size:
            raise UsageError(
                f"train_batch_size ({self.train_batch_size}) must not exceed the {item.num_rows} steps of a fragment "
                "in an env of tensors: leave out rollout_fragment_length"
            )
        return [item]


class ValuesOnDevice(Operator):
    """Measures value estimates on a device, and reads the results once per iteration; see `MeasureValues`."""

    declared_metrics = MeasureValues.declared_metrics

    def __init__(self, sibling: MeasureValues) -> None:
        self._measured: list[Tensor] = []

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        valid = item["valid"].double()
        values = item["values"][:-1].double()
        targets = item["value_targets"].double()
        numbers = torch.stack((values, targets, targets - values)).flatten(1) * valid.flatten()
        count = valid.sum()
        mean = numbers.sum(1) / count.clamp(min=1)
        squares = ((numbers - mean[:, None]).square() * valid.flatten()).sum(1)
        self._measured.append(torch.cat((count[None], mean, squares)))
        return item

    @override
    def metrics(self) -> dict[str, float]:
        """Returns mean value and explained variance over the batches since the last call."""
        moments = NO_VALUES
        for numbers in (each.cpu().numpy() for each in self._measured):
            moments = moments.merged(Moments(float(numbers[0]), numbers[1:4], numbers[4:]))
        self._measured.clear()
        return value_metrics(moments)


class BroadcastOnDevice(Operator):
    """Sends statistics to the worker, which acts with the learner's own parameters; see `BroadcastWeights`."""

    def __init__(self, sibling: BroadcastWeights) -> None:
        self.trainee = sibling.trainee

    @override
    def __call__(self, item: T) -> T:
        self.trainee.workers.send(self.trainee.weights(acting=False))
        return item


class TrainOnDevice(Operator):
    """Runs epochs of minibatch SGD on a batch on the learner's device; see `TrainOnBatch`."""

    learns = True

    def __init__(self, sibling: TrainOnBatch) -> None:
        self.sibling = sibling
        self._recompute = [on_device(each, type(each).__name__, "the algorithm") for each in sibling.recompute]

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Runs the minibatch SGD epochs on a batch [T, B]; returns the batch unchanged."""
        own, trainee = self.sibling, self.sibling.trainee
        trainee.lag.add(trainee.learner.weights_version, item["weights_version"])
        further = [name for name in item if name not in _COLLECTED]
        columns = {name: item[name] for name in (*LEARNED, *further) if name in item}
        trainee.learner.learn(
            device_rows(columns, own.seq_len, item.get("state")),
            num_epochs=own.num_epochs,
            minibatch_size=own.minibatch_size or item.num_rows,
            scheduled=trainee.clock.scheduled(),
            stop=own.stop,
            recompute=partial(self._recomputed, item) if self._recompute else None,
        )
        return item

    def _recomputed(self, item: SampleBatch, evaluate: Callable[[EvaluatedFunction, SampleBatch], Any]) -> SampleBatch:
        """Recomputes the advantages and value targets with the current network's values, as rows [S, L].

        A recurrent network runs over the whole fragment from its first state, and over final observations from the
        states that were recorded before them.
        """
        state, device = item.get("state"), item["rewards"].device

        def run(rows: SampleBatch) -> Tensor:
            values: Tensor = evaluate(state_values, rows)["values"]
            return values

        def of_finals(obs: Any, before: Tensor | None, starts: Tensor) -> Mapping[str, Tensor]:
            rows = SampleBatch(obs=map_tree(lambda leaf: leaf[:, None], obs), valid=starts[:, None])
            if before is not None:
                rows.update(state=before, episode_starts=starts[:, None])
            return {"values": run(rows)[:, 0]}

        slots_first = {"obs": item["obs"], **({} if state is None else {"episode_starts": item["episode_starts"]})}
        rows = SampleBatch(slots_first).map(lambda leaf: leaf.transpose(0, 1).contiguous())
        rows["valid"] = torch.ones((leaves(rows["obs"])[0].shape[:2]), dtype=torch.bool, device=device)
        if state is None:
            rows = rows.map(lambda leaf: leaf.flatten(0, 1)[:, None])
        else:
            rows["state"] = state[0]
        slots = item["rewards"].shape[1]
        item = SampleBatch(item, values=run(rows).reshape(slots, -1).T.contiguous())
        item["final_values"] = final_values(item, of_finals)
        for operator in self._recompute:
            item = operator(item)
        found = {name: item[name] for name in ("advantages", "value_targets")}
        arranged = device_rows({**found, "valid": item["valid"]}, self.sibling.seq_len, None)
        return SampleBatch({name: arranged[name] for name in found})


def device_rows(columns: Mapping[str, Any], seq_len: int | None, state: Tensor | None) -> SampleBatch:
    """Arranges tensor columns of T steps in B env slots as S rows of L steps, as `learning_rows` does for arrays.

    Args:
        columns: Columns [T, B, ...] or, with a row after the last step, [T + 1, B, ...].
        seq_len: Steps in a row for a recurrent policy; None for rows of single steps, which share the columns' memory.
        state: Recurrent states before the steps, [T + 1, B, S]; None without a core.

    Raises:
        UsageError: The policy is recurrent, but `seq_len` is None.
    """
    time = len(columns["valid"])
    batch = SampleBatch({name: map_tree(lambda leaf: leaf[:time], tree) for name, tree in columns.items()})
    if seq_len is None:
        if state is not None:
            raise UsageError("a recurrent network learns from sequences: leave out model.core")
        return batch.map(lambda leaf: leaf.flatten(0, 1)[:, None])
    length = min(seq_len, time)
    spare = -time % length

    def cut(leaf: Tensor) -> Tensor:
        if spare:
            leaf = torch.cat([leaf, leaf.new_zeros((spare, *leaf.shape[1:]))])
        return leaf.reshape(-1, length, *leaf.shape[1:]).transpose(1, 2).flatten(0, 1)

    rows = batch.map(cut)
    if state is not None:
        rows["state"] = state[:time:length].flatten(0, 1)
    return rows


_FORMS: dict[type, Callable[[Any], Operator]] = {
    BroadcastWeights: BroadcastOnDevice,
    ComputeAdvantages: AdvantagesOnDevice,
    ConcatBatches: WholeFragments,
    MeasureValues: ValuesOnDevice,
    Standardize: StandardizeOnDevice,
    TrainOnBatch: TrainOnDevice,
}
