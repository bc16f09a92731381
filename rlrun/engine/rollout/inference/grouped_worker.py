"""Rollout worker whose actions an inference server chooses; while one group of envs waits, another steps."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from rlrun.engine.data.sample_batch import concatenated_rows
from rlrun.engine.functional.moments import merge_named
from rlrun.engine.rollout.inference.network import RemoteServer, ServerConnection, connect
from rlrun.engine.rollout.inference.served import merged
from rlrun.engine.rollout.inference.server import EnvGroup
from rlrun.engine.rollout.phases import INFERENCE, POSTPROCESS, QUEUE, ROUND_TRIP, FragmentTimes
from rlrun.engine.rollout.rollout_worker import RolloutWorker

if TYPE_CHECKING:
    from rlrun.engine.functional.moments import Moments
    from rlrun.engine.policy.behavior import BehaviorPolicy
    from rlrun.engine.rollout.rollout import Rollout
    from rlrun.engine.rollout.worker import Orders
    from rlrun.engine.rollout.worker_config import WorkerConfig

T = TypeVar("T")


class GroupedWorker:
    """Steps groups of envs, each in its own thread, with policies on an inference server; returns joint fragments.

    The rows are the same as from one `RolloutWorker` with the envs of all groups: same seeds, random numbers and order
    of env slots.

    Args:
        config: Settings of the worker, with the number of groups and the name of the server.
    """

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        # Each group keeps its own thread, as some envs require; the first group uses the worker's thread.
        self._threads = [ThreadPoolExecutor(1) for _ in range(1, config.groups)]
        self._groups = list(self._each(self._group, range(config.groups)))

    def _group(self, group: int) -> tuple[RolloutWorker, ServerConnection]:
        config = self._config
        behaviors: dict[str, BehaviorPolicy] = copy.deepcopy(dict(config.behaviors))  # type: ignore[arg-type]
        connection = ServerConnection(RemoteServer(config.server), EnvGroup(config.worker_index, group), behaviors)
        for behavior in behaviors.values():
            connect(behavior, connection)
        own = dataclasses.replace(config, behaviors=behaviors, num_envs=config.num_envs // config.groups, group=group)
        return RolloutWorker(own), connection

    def _each(self, function: Callable[..., T], *arguments: Sequence[Any]) -> Iterator[T]:
        """Calls a function for each group in its thread, with the group's arguments; yields the results."""
        first, *others = zip(*arguments, strict=True)
        calls = [thread.submit(function, *own) for thread, own in zip(self._threads, others, strict=True)]
        yield function(*first)
        yield from (call.result() for call in calls)

    @property
    def _workers(self) -> list[RolloutWorker]:
        return [worker for worker, _ in self._groups]

    def follow(self, orders: Orders) -> None:
        """Loads the version, statistics and schedules of new weights; the server loads the parameters."""
        for worker in self._workers:
            worker.follow(orders)

    def sample(self) -> Rollout:
        """Collects the next fragment of all groups, and joins them along their env slots.

        Raises:
            EnvError: The env raised or returned something outside its spaces.
        """
        rollouts = list(self._each(_sampled, self._groups))
        if len(rollouts) == 1:
            return rollouts[0]
        rollout, first = _joined(rollouts), self._workers[0]
        for policy, batch in rollout.batches.items():
            batch["rewards"] = first.normalized(policy, batch["rewards"], rollout.filter_deltas[policy])
        return rollout

    def state(self) -> dict[str, Any]:
        """Returns the states of all groups, for a checkpoint."""
        return {"groups": [worker.state() for worker in self._workers]}

    def place(self) -> dict[str, Any]:
        """Returns a short form of `state()`, sent after each fragment: action logs hold only the newest actions."""
        return {"groups": [worker.place() for worker in self._workers]}

    def load_state(self, state: Mapping[str, Any]) -> int:
        """Restores all groups from the result of `state()`.

        Returns:
            The number of env slots that could not be restored exactly and began a new episode instead.

        Raises:
            ValueError: The state has a different number of groups.
        """
        groups = state["groups"]
        if len(groups) != len(self._groups):
            raise ValueError(f"the run has {len(self._groups)} groups of envs, but {len(groups)} were saved")
        return sum(self._each(RolloutWorker.load_state, self._workers, groups))

    def close(self) -> None:
        """Closes the envs, and ends the threads."""
        for _ in self._each(RolloutWorker.close, self._workers):
            continue
        for thread in self._threads:
            thread.shutdown()


def _sampled(group: tuple[RolloutWorker, ServerConnection]) -> Rollout:
    """Collects the next fragment of a group of envs."""
    worker, connection = group
    connection.begin(worker.next_fragment)
    rollout = worker.sample()
    connection.end()
    served, times = connection.served, rollout.times
    if times is not None:
        apart_s = served.queue_s + served.round_trip_s
        in_steps_s = min(apart_s, times.seconds[INFERENCE])  # the rest was spent on requests after the last step
        times.seconds[INFERENCE] -= in_steps_s
        times.seconds[POSTPROCESS] -= apart_s - in_steps_s
        times.seconds |= {QUEUE: served.queue_s, ROUND_TRIP: served.round_trip_s}
    return dataclasses.replace(rollout, served=served)


def _joined(rollouts: Sequence[Rollout]) -> Rollout:
    """Joins the rollouts of a worker's groups along the env slots of their batches."""
    first = rollouts[0]
    return dataclasses.replace(
        first,
        batches={name: concatenated_rows([own.batches[name] for own in rollouts], axis=1) for name in first.batches},
        env_steps=sum(own.env_steps for own in rollouts),
        episodes=[episode for own in rollouts for episode in own.episodes],
        agent_steps={name: sum(own.agent_steps[name] for own in rollouts) for name in first.agent_steps},
        agent_episodes={
            name: [episode for own in rollouts for episode in own.agent_episodes[name]] for name in first.agent_episodes
        },
        missing_finals=sum(own.missing_finals for own in rollouts),
        dropped_rewards=sum(own.dropped_rewards for own in rollouts),
        filter_deltas={name: _merged([own.filter_deltas[name] for own in rollouts]) for name in first.filter_deltas},
        sample_s=sum(own.sample_s for own in rollouts) / len(rollouts),
        times=_mean_times([own.times for own in rollouts if own.times is not None]),
        served=merged([own.served for own in rollouts if own.served is not None]),
    )


def _merged(deltas: Sequence[Mapping[str, Moments]]) -> dict[str, Moments]:
    merged: dict[str, Moments] = {}
    for delta in deltas:
        merge_named(merged, delta)
    return merged


def _mean_times(times: Sequence[FragmentTimes]) -> FragmentTimes:
    """Returns the joint time profile of groups that ran simultaneously, from the first start to the last end."""
    began, ended = min(own.began for own in times), max(own.ended for own in times)
    phases = dict.fromkeys(phase for own in times for phase in own.seconds)
    seconds = {phase: sum(own.seconds.get(phase, 0.0) for own in times) / len(times) for phase in phases}
    return FragmentTimes(times[0].clock, began, ended, seconds)
