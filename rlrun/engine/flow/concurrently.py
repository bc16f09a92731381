"""Combination of several dataflows in one thread, by weighted round-robin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, overload

from typing_extensions import override

from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.nodes import ENDED, Delivered, Ended, Node, Pending, Polled
from rlrun.engine.messages.errors import UsageError

T = TypeVar("T")


@overload
def concurrently(*flows: Flow[Any], weights: Sequence[int] | None = None) -> Flow[Any]: ...


@overload
def concurrently(
    *flows: Flow[Any], weights: Sequence[int] | None = None, output: Flow[T] | Sequence[Flow[T]]
) -> Flow[T]: ...


def concurrently(
    *flows: Flow[Any],
    weights: Sequence[int] | None = None,
    output: Flow[Any] | Sequence[Flow[Any]] | None = None,
) -> Flow[Any]:
    """Combines several flows (branches) into one by weighted round-robin, in one thread.

    A branch without a ready item loses the rest of its turn, so that no branch blocks another. A branch with a barrier,
    such as synchronous rollouts, blocks the others until it has an item, so that the order of turns does not depend on
    the speed of workers.

    Args:
        flows: The branches, in the order of their turns.
        weights: Items pulled from each branch in its turn, 1 by default.
        output: The branch or branches whose items the joined flow delivers, all by default; items of the others are
            dropped.

    Raises:
        UsageError: The weights or the output do not fit the flows.

    Examples:
        >>> from rlrun.engine.flow.sources.items import from_items
        >>> concurrently(from_items("abc"), from_items("xyz"), weights=(2, 1)).take(6)
        ['a', 'b', 'x', 'c', 'y', 'z']
    """
    if len(flows) < 2:
        raise UsageError(f"concurrently needs at least two flows, not {len(flows)}")
    turns = tuple(weights) if weights is not None else (1,) * len(flows)
    if len(turns) != len(flows) or any(type(weight) is not int or weight < 1 for weight in turns):
        raise UsageError(
            f"concurrently() needs one positive integer weight for each of its {len(flows)} flows, not {weights}"
        )
    chosen = flows if output is None else (output,) if isinstance(output, Flow) else tuple(output)
    if not chosen or any(flow not in flows for flow in chosen):
        raise UsageError("the output of concurrently must be one or more of its flows")
    return Flow(Concurrently([flow.node for flow in flows], turns, [flow in chosen for flow in flows]))


class Concurrently(Node):
    """Graph node that pulls items from several flows in turn, by weighted round-robin."""

    kind = "concurrently"

    def __init__(self, branches: Sequence[Node], weights: Sequence[int], is_output: Sequence[bool]) -> None:
        output = tuple(index for index, chosen in enumerate(is_output) if chosen)
        super().__init__("concurrently", {"weights": list(weights), "output": list(output)}, branches)
        self.weights = tuple(weights)
        self.output = output
        self._ended = [False] * len(branches)
        self._branch = 0
        self._taken = 0

    @override
    def poll(self) -> Polled:
        """Pulls from the flows in turn, and returns the next item of a flow whose items are delivered.

        Returns `Pending` after a round of turns without such an item, so that the caller can poll other parts of the
        dataflow. Otherwise, a flow that always has items could be polled forever while the delivered flow waits for
        another part.
        """
        missing: list[Pending] = []
        progressed, turns = False, 0
        while not all(self._ended[index] for index in self.output):
            if turns == len(self.inputs):
                if progressed:
                    return Pending(progressed=True)
                return _joined(missing) if missing else ENDED
            polled = ENDED if self._ended[self._branch] else self.inputs[self._branch].poll()
            if isinstance(polled, Delivered):
                self.items += 1
                is_output = self._branch in self.output
                self._taken += 1
                if self._taken == self.weights[self._branch]:
                    self._next_turn()
                    turns += 1
                if is_output:
                    return polled
                progressed = True
                continue
            if isinstance(polled, Ended):
                self._ended[self._branch] = True
            elif polled.barrier:
                return polled
            else:
                missing.append(polled)
            self._next_turn()
            turns += 1
        return ENDED

    def _next_turn(self) -> None:
        self._branch, self._taken = (self._branch + 1) % len(self.inputs), 0

    @property
    @override
    def stateful(self) -> bool:
        """Always true: checkpoints save which flow has its turn."""
        return True

    @override
    def state(self) -> dict[str, Any]:
        """Returns the index of the flow whose turn it is, and the number of items already pulled in this turn."""
        return {"branch": self._branch, "taken": self._taken}

    @override
    def load_state(self, state: Mapping[str, Any]) -> None:
        self._branch, self._taken = int(state["branch"]), int(state["taken"])


def _joined(missing: Sequence[Pending]) -> Pending:
    joined, *others = missing
    for other in others:
        joined = joined.joined(other)
    return joined
