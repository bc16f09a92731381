"""Inference server: chooses the actions of all rollout workers of a trial, for many env slots in one forward pass.

The server holds the policies' networks and the recurrent states of the running episodes. Each group of envs of each
worker is a client, which has at most one request at a time. The server runs in a Ray actor; this module imports
neither ray nor, for dense networks, torch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.nn.acting import ActingNetwork, Heads, WrappedNetwork

if TYPE_CHECKING:
    from rlrun.engine.rollout.worker import Orders

Floats = NDArray[np.float32]


class EnvGroup(NamedTuple):
    """Group of a rollout worker's envs whose actions the server chooses.

    Attributes:
        worker: Index of the worker, from 1.
        group: Index of the group, from 0.
    """

    worker: int
    group: int


class NetworkKey(NamedTuple):
    """Identity of a network on the server.

    Attributes:
        policy: Name of the policy.
        number: Index of the network among the policy's networks; network 0 chooses actions.
    """

    policy: str
    number: int


@dataclass(slots=True)
class StateChange:
    """Entries of a client's recurrent states [B, state_size] that differ from the server's copy.

    Attributes:
        slots: Indices of the env slots with changes, [N].
        entries: Indices of the entries with changes, [K].
        values: New values of these entries in these slots, [N, K].
    """

    slots: NDArray[np.int64]
    entries: NDArray[np.int64]
    values: Floats


@dataclass(slots=True)
class Request:
    """Request of a client to run a network for its B env slots, or for B rows without a recurrent state.

    Attributes:
        client: The client.
        life: Random number of the client's process, which differs after a restart.
        turn: Number of the client's fragment, and of the request in that fragment.
        network: The network.
        version: Version of the policy's weights, as known to the client; -1 before the first.
        inputs: Inputs of the network: `obs`, a tree of [B, ...], and further inputs.
        noise: Random numbers that the network consumes, [B, ...]; None if there are none.
        state: The recurrent state before the step: None without recurrence, the complete state [B, state_size], or the
            changes since the server's last answer.
    """

    client: EnvGroup
    life: int
    turn: tuple[int, int]
    network: NetworkKey
    version: int
    inputs: Mapping[str, Any]
    noise: Floats | None
    state: Floats | StateChange | None

    @property
    def rows(self) -> int:
        """Number of rows of the inputs, B."""
        return len(leaves(self.inputs)[0])

    @property
    def kind(self) -> tuple[NetworkKey, bool]:
        """Property shared by all requests of a forward pass: the network, and whether it consumes noise."""
        return self.network, self.noise is not None


@dataclass(slots=True)
class Answer:
    """Answer to a request.

    Attributes:
        heads: Outputs of the network's heads, [B, K].
        state: Recurrent state after the step, [B, state_size]; None without recurrence.
        version: Version of the weights.
        rows: Number of rows of the forward pass, over all its requests.
        queue: Number of requests that were waiting when the forward pass began, including those that it serves.
        queue_s: Seconds for which the request waited for its forward pass.
        compute_s: Seconds of the forward pass.
        lost_steps: Steps of an unfinished fragment that was lost when an earlier process of the client died.
    """

    heads: Heads
    state: Floats | None
    version: int
    rows: int
    queue: int
    queue_s: float
    compute_s: float
    lost_steps: int = 0


class WaitingRequest:
    """Request that waits for its answer.

    Attributes:
        request: The request.
        since: Time of its arrival, in seconds of `time.perf_counter`.
        answer: The answer, or the exception that the network raised; None if the request was dropped.
        done: Event set with the answer.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.since = time.perf_counter()
        self.answer: Answer | Exception | None = None
        self.done = threading.Event()

    def finish(self, answer: Answer | Exception | None) -> None:
        """Sets the answer."""
        self.answer = answer
        self.done.set()


@dataclass
class ServedGroup:
    """State that the server keeps for a client.

    Attributes:
        life: Random number of the client's process.
        turn: Turn of the request in progress, or else of the next request, which may be the first of the next fragment.
        states: Recurrent states [B, state_size] by network.
        steps: Steps of the current fragment so far.
        lost_steps: Steps of lost fragments that no answer has reported yet.
        pending: The request in progress; None between two requests.
    """

    life: int
    turn: tuple[int, int]
    states: dict[NetworkKey, Floats]
    steps: int = 0
    lost_steps: int = 0
    pending: WaitingRequest | None = None


class InferenceServer:
    """Server that runs the policies' networks for the requests of all rollout workers.

    Asynchronous requests are served in the order of their arrival: the requests that wait form the next forward pass,
    which grows while the server is busy. No request waits for others.

    Synchronous requests are served in rounds: a request waits until all other clients with the same group index have
    requested the same or a later turn. A forward pass then always has the same number of rows, with each worker's rows
    at the same position, and zeros for absent workers. Neither the order of arrival nor a restart thus changes the
    outputs, not even in their last digits.

    Args:
        networks: Networks of each policy by the policy's name; the first one chooses actions.
        num_workers: Number of rollout workers.
        by_round: Whether requests are served in rounds.
        max_batch: Maximum number of rows in a forward pass, unless a single request has more; None for no limit.
        device: Device of networks that run in torch.
    """

    def __init__(
        self,
        networks: Mapping[str, Sequence[ActingNetwork]],
        num_workers: int,
        *,
        by_round: bool,
        max_batch: int | None,
        device: str,
    ) -> None:
        self._networks = {NetworkKey(name, i): own for name, each in networks.items() for i, own in enumerate(each)}
        if device != "cpu":
            for network in self._networks.values():
                innermost(network).to(device)
        self._num_workers, self._by_round, self._max_batch = num_workers, by_round, max_batch
        self._versions = dict.fromkeys(networks, -1)
        self._told: dict[tuple[str, ...], int] = {}
        self._news: list[Orders] = []
        self._seats: dict[EnvGroup, ServedGroup] = {}
        self._changed = threading.Condition()
        self._is_closed = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def follow(self, told: tuple[int, Orders]) -> None:
        """Receives new weights, which take effect between two forward passes.

        Args:
            told: Sequence number of the message, and the message itself; calls may arrive out of order.
        """
        number, orders = told
        about = tuple(orders.weights)
        with self._changed:
            if number > self._told.get(about, -1):
                self._told[about] = number
                self._news.append(orders)
                self._changed.notify()

    def answer(self, request: Request) -> Answer | None:
        """Waits for a forward pass with the request, and returns its answer.

        Returns:
            The answer; None if the server does not know the client's recurrent state, in which case the client must
            repeat the request with the complete state.
        """
        with self._changed:
            seat = self._seat(request)
            if isinstance(request.state, StateChange):
                if request.network not in seat.states:
                    return None
                change = request.state
                seat.states[request.network][np.ix_(change.slots, change.entries)] = change.values
            elif request.state is not None:
                seat.states[request.network] = request.state.copy()
            pending = seat.pending = WaitingRequest(request)
            self._changed.notify()
        pending.done.wait()
        if isinstance(pending.answer, Exception):
            raise pending.answer
        return pending.answer

    def leave(self, client: EnvGroup, life: int, fragment: int) -> None:
        """Records that a client has finished a fragment, so that other clients no longer wait for its requests."""
        with self._changed:
            seat = self._seats.get(client)
            if seat is not None and seat.life == life and seat.turn[0] == fragment:
                seat.turn, seat.steps = (fragment + 1, 0), 0
                self._changed.notify()

    def watch(self) -> None:
        """Blocks until the server is closed."""
        self._is_closed.wait()

    def close(self) -> None:
        """Stops serving: ends the forward passes and the requests that wait for one."""
        self._is_closed.set()
        with self._changed:
            self._changed.notify()
            for seat in self._seats.values():
                if seat.pending is not None:
                    seat.pending.finish(RuntimeError("the inference server is closed"))

    def _seat(self, request: Request) -> ServedGroup:
        """Returns the stored state of a request's client; a client's new process starts without recurrent states."""
        seat = self._seats.get(request.client)
        if seat is None or seat.life != request.life:
            lost = 0 if seat is None else seat.lost_steps + seat.steps
            if seat is not None and seat.pending is not None:
                seat.pending.finish(None)  # the client's old process has ended
            seat = self._seats[request.client] = ServedGroup(request.life, request.turn, {}, lost_steps=lost)
        if request.turn[0] != seat.turn[0]:
            seat.steps = 0
        seat.turn = request.turn
        return seat

    def _run(self) -> None:
        while not self._is_closed.is_set():
            with self._changed:
                self._load()
                batch = self._round() if self._by_round else self._waiting()
                if not batch:
                    self._changed.wait()
                    continue
                queue = sum(seat.pending is not None for seat in self._seats.values())
            try:
                self._serve(batch, queue)
            except Exception as error:  # a user's network may raise anything; the worker reports it
                for seat in batch:
                    self._finish(seat, error)

    def _load(self) -> None:
        """Loads the weights that have arrived."""
        for orders in self._news:
            for policy, weights in orders.weights.items():
                for key, network in self._networks.items():
                    if key.policy == policy:
                        network.load(weights.acting)
                self._versions[policy] = weights.version
        self._news.clear()

    def _is_ready(self, pending: WaitingRequest) -> bool:
        """Whether weights for a request have arrived: in rounds, the version that the client expects; else any."""
        request = pending.request
        version = self._versions[request.network.policy]
        return version == request.version if self._by_round else version >= 0 or request.version < 0

    def _waiting(self) -> list[ServedGroup]:
        """Returns the clients of the next forward pass in order of arrival, up to the maximum batch."""
        ready = [own for own in self._seats.values() if own.pending is not None and self._is_ready(own.pending)]
        ready.sort(key=_since)
        taken: list[ServedGroup] = []
        rows = 0
        for seat in ready:
            request = _request(seat)
            if request.kind != _request(ready[0]).kind:
                continue
            rows += request.rows
            if taken and self._max_batch is not None and rows > self._max_batch:
                break
            taken.append(seat)
        return taken

    def _round(self) -> list[ServedGroup]:
        """Returns the clients of the complete round that has waited longest; empty if no round is complete."""
        rounds: list[list[ServedGroup]] = []
        for group in {client.group for client in self._seats}:
            seats = [seat for client, seat in self._seats.items() if client.group == group]
            asking = [seat for seat in seats if seat.pending is not None]
            if not asking:
                continue
            turn, kind = min((_request(seat).turn, _request(seat).kind) for seat in asking)
            own = [seat for seat in asking if (_request(seat).turn, _request(seat).kind) == (turn, kind)]
            others = (seat for seat in seats if seat.pending is None)
            if all(seat.turn > turn for seat in others) and all(map(self._is_ready, map(_pending, own))):
                rounds.append(sorted(own, key=lambda seat: _request(seat).client))
        return min(rounds, key=lambda own: min(map(_since, own)), default=[])

    def _serve(self, batch: Sequence[ServedGroup], queue: int) -> None:
        """Runs one forward pass and answers its requests."""
        began = time.perf_counter()
        requests = [_request(seat) for seat in batch]
        key, size = requests[0].network, requests[0].rows
        if self._by_round:
            places = [(request.client.worker - 1) * size for request in requests]
            total = self._num_workers * size
        else:
            places = np.cumsum([0, *(request.rows for request in requests)]).tolist()
            total = places.pop()
        inputs = map_tree(lambda *parts: _placed(parts, places, total), *(request.inputs for request in requests))
        noise = _maybe_placed([request.noise for request in requests], places, total)
        states = [seat.states[key] for seat in batch if _request(seat).state is not None]
        heads, after = self._run_network(key, inputs, _maybe_placed(states, places, total), noise)
        compute_s = time.perf_counter() - began
        for seat, request, first in zip(batch, requests, places, strict=True):
            own = slice(first, first + request.rows)
            if after is not None:
                seat.states[key] = after[own].copy()
            if key.number == 0:
                seat.steps += request.rows
            lost, seat.lost_steps = seat.lost_steps, 0
            answer = Answer(
                heads={name: outputs[own].copy() for name, outputs in heads.items()},
                state=None if after is None else seat.states[key],
                version=self._versions[key.policy],
                rows=sum(request.rows for request in requests),
                queue=queue,
                queue_s=began - _since(seat),
                compute_s=compute_s,
                lost_steps=lost,
            )
            self._finish(seat, answer)

    def _run_network(
        self, key: NetworkKey, inputs: Any, state: Floats | None, noise: Floats | None
    ) -> tuple[Heads, Floats | None]:
        """Runs a network in parts of at most `max_batch` rows."""
        network, total = self._networks[key], len(leaves(inputs)[0])
        most = self._max_batch or total
        if total <= most:
            return network(inputs, state, None, noise)
        found: list[tuple[Heads, Floats | None]] = []
        for first in range(0, total, most):
            own = slice(first, first + most)
            part = network(
                map_tree(lambda leaf, own=own: leaf[own], inputs),
                None if state is None else state[own],
                None,
                None if noise is None else noise[own],
            )
            found.append(({name: outputs.copy() for name, outputs in part[0].items()}, part[1]))
        heads = {name: np.concatenate([part[name] for part, _ in found]) for name in found[0][0]}
        return heads, None if state is None else np.concatenate([after for _, after in found if after is not None])

    def _finish(self, seat: ServedGroup, answer: Answer | Exception) -> None:
        with self._changed:
            pending, seat.pending = _pending(seat), None
            fragment, number = pending.request.turn
            seat.turn = fragment, number + 1
        pending.finish(answer)


def innermost(network: ActingNetwork) -> Any:
    """Returns the network inside all wrappers, which holds the parameters."""
    while isinstance(network, WrappedNetwork):
        network = network.network
    return network


def _placed(parts: Sequence[NDArray[Any]], places: Sequence[int], total: int) -> NDArray[Any]:
    """Copies arrays [B, ...] to their positions in one array [total, ...], which is zero elsewhere."""
    if len(parts) == 1 and len(parts[0]) == total and parts[0].flags.writeable:  # torch warns about read-only arrays
        return parts[0]
    together = np.zeros((total, *parts[0].shape[1:]), parts[0].dtype)
    for part, first in zip(parts, places, strict=True):
        together[first : first + len(part)] = part
    return together


def _maybe_placed(parts: Sequence[Floats | None], places: Sequence[int], total: int) -> Floats | None:
    own = [part for part in parts if part is not None]
    return _placed(own, places, total) if own else None


def _pending(seat: ServedGroup) -> WaitingRequest:
    assert seat.pending is not None
    return seat.pending


def _request(seat: ServedGroup) -> Request:
    return _pending(seat).request


def _since(seat: ServedGroup) -> float:
    return _pending(seat).since
