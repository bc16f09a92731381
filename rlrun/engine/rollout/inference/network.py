"""Networks on an inference server, as rollout workers use them, and recording of the weights' versions."""

from __future__ import annotations

import copy
import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.actors.actor_shell import Failure
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.policy.fragment_collector import Execution, FragmentCollector, Recording
from rlrun.engine.rollout.inference.served import Served
from rlrun.engine.rollout.inference.server import Answer, EnvGroup, NetworkKey, Request, StateChange

if TYPE_CHECKING:
    from rlrun.engine.nn.acting import Heads
    from rlrun.engine.policy.behavior import BehaviorPolicy

Floats = NDArray[np.float32]

RETRY_S = 0.2
"""Interval in seconds at which a client looks for the server while the server restarts."""


class Server(Protocol):
    """Interface of an inference server, in this process or another."""

    def answer(self, request: Request) -> Answer | None:
        """Returns the answer to a request; None if the request must be repeated with the complete recurrent state."""
        ...

    def leave(self, client: EnvGroup, life: int, fragment: int) -> None:
        """Records that a client has finished a fragment."""
        ...


class RemoteServer:
    """Inference server in a Ray actor; after a restart, the actor is found again by its name.

    Args:
        name: Name of the actor.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._actor: Any = None

    def answer(self, request: Request) -> Answer | None:
        """Returns the server's answer; None if the server died, since its successor needs the complete state.

        Raises:
            RlrunError: The network raised an exception on the server.
        """
        import ray
        from ray.exceptions import RayActorError

        try:
            if self._actor is None:
                self._actor = ray.get_actor(self._name)
            answer: Answer | Failure | None = ray.get(self._actor.ask.remote("answer", request))
        except (RayActorError, ValueError):  # the server has died, or its successor has not started yet
            self._actor = None
            time.sleep(RETRY_S)
            return None
        if isinstance(answer, Failure):
            raise answer.error("inference server")
        return answer

    def leave(self, client: EnvGroup, life: int, fragment: int) -> None:
        """Records that a client has finished a fragment, without waiting for an answer."""
        if self._actor is not None:
            self._actor.tell.options(num_returns=0).remote("leave", client, life, fragment)


class ServerConnection:
    """Connects a client (a group of a worker's envs) to the trial's inference server.

    Args:
        server: The server.
        client: The group of envs that is the client.
        behaviors: The client's policies by name, which know the versions of their weights.

    Attributes:
        served: Counts of the requests since `begin`.
    """

    def __init__(self, server: Server, client: EnvGroup, behaviors: Mapping[str, BehaviorPolicy]) -> None:
        self.served = Served()
        self._server, self._client, self._behaviors = server, client, behaviors
        self._life = secrets.randbits(63)
        self._turn = (0, 0)

    def begin(self, fragment: int) -> None:
        """Starts a fragment, given its number."""
        self._turn = (fragment, 0)
        self.served = Served()

    def end(self) -> None:
        """Ends a fragment, so that other clients do not wait for this one."""
        self._server.leave(self._client, self._life, self._turn[0])

    def ask(
        self,
        network: NetworkKey,
        inputs: Mapping[str, Any],
        noise: Floats | None,
        state: Floats | None,
        change: StateChange | None,
    ) -> Answer:
        """Runs a network on the server.

        Args:
            network: The network.
            inputs: Inputs of the network.
            noise: Random numbers that the network consumes; None if there are none.
            state: Recurrent state before the step, [B, state_size]; None without recurrence.
            change: Entries of the state that differ from the server's copy; None if the server has no copy.

        Raises:
            RlrunError: The network raised an exception on the server.
        """
        began = time.perf_counter()
        version = self._behaviors[network.policy].weights_version
        sent = state if change is None else change
        request = Request(self._client, self._life, self._turn, network, version, inputs, noise, sent)
        answer = self._server.answer(request)
        while answer is None:
            request.state = state
            answer = self._server.answer(request)
        self._turn = (self._turn[0], self._turn[1] + 1)
        self.served.add(
            rows=answer.rows,
            queue=answer.queue,
            queue_s=answer.queue_s,
            compute_s=answer.compute_s,
            waited_s=time.perf_counter() - began,
            lost_steps=answer.lost_steps,
        )
        return answer


class ServedNetwork:
    """Network on the inference server that replaces the acting network of a rollout worker's policy.

    The worker keeps a copy of the recurrent state for its rows and checkpoints, and for a new server after a crash. It
    sends only the entries that have changed since the server's last answer, such as the zeros of a new episode.

    Args:
        key: Identity of the network on the server.
        state_size: Size of the recurrent state per env slot.

    Attributes:
        key: Identity of the network on the server.
        state_size: Size of the recurrent state per env slot.
        version: Version of the weights used for the last answer; -1 before the first answer.
    """

    def __init__(self, key: NetworkKey, state_size: int) -> None:
        self.key = key
        self.state_size = state_size
        self.version = -1
        self._connection: ServerConnection | None = None
        self._at_server: Floats | None = None

    def connected(self, connection: ServerConnection) -> ServedNetwork:
        """Returns a copy of this network for one client."""
        own = copy.copy(self)
        own._connection = connection
        return own

    def load(self, flat: Floats) -> None:
        """Does nothing: the server loads the parameters."""

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[Heads, Floats | None]:
        """Runs the forward pass of one env step on the server; see `ActingNetwork`."""
        assert self._connection is not None
        assert episode_starts is None  # workers reset the state themselves
        change = None if state is None else self._change(state)
        answer = self._connection.ask(self.key, inputs, noise, state, change)
        self.version = answer.version
        if answer.state is None:
            return answer.heads, None
        self._at_server = answer.state
        return answer.heads, answer.state.copy()  # the worker's memory changes the state in place

    def _change(self, state: Floats) -> StateChange | None:
        """Returns the entries in which a state differs from the server's copy; None if the server has no copy."""
        if self._at_server is None or self._at_server.shape != state.shape:
            return None
        differs = state != self._at_server
        slots, entries = differs.any(1).nonzero()[0], differs.any(0).nonzero()[0]
        return StateChange(slots, entries, state[np.ix_(slots, entries)])


class RecordedVersions(Recording):
    """Records the version of the weights that chose each action, in the column `weights_version` [T, B].

    Args:
        recording: Another recorder of the policy; None if there is none.
        network: The policy's network on the server.
    """

    reads_heads = True

    def __init__(self, recording: Recording | None, network: ServedNetwork) -> None:
        self._recording = recording
        self._network = network
        self.replaces_actions = recording is not None and recording.replaces_actions

    @override
    def load(self, flat: Floats) -> None:
        return

    @override
    def collect_by(self, execution: Execution) -> None:
        if self._recording is not None:
            self._recording.collect_by(execution)

    @override
    def allocate(self, length: int, slots: int) -> dict[str, NDArray[Any]]:
        """Allocates the columns of both recorders."""
        own = {} if self._recording is None else self._recording.allocate(length, slots)
        return {**own, "weights_version": np.full((length, slots), self._network.version, np.int32)}

    @override
    def record(self, batch: SampleBatch, where: Any, heads: Heads, acts: NDArray[np.bool_] | None) -> None:
        batch["weights_version"][where] = self._network.version
        if self._recording is not None and self._recording.reads_heads:
            self._recording.record(batch, where, heads, acts)

    @override
    def postprocess(self, batch: SampleBatch, collector: FragmentCollector) -> None:
        if self._recording is not None:
            self._recording.postprocess(batch, collector)


def connect(behavior: BehaviorPolicy, connection: ServerConnection) -> None:
    """Makes a client's policy act with its networks on the server."""

    def connected(network: Any) -> Any:
        return network.connected(connection)

    collector = behavior.collector
    collector.collect_by(connected)
    behavior.network = collector.network = collector.collecting
    served: Any = collector.collecting
    collector.recording = RecordedVersions(collector.recording, served)
    collector.reads_heads = collector.runs_always = True
