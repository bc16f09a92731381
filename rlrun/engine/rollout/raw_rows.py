"""Raw rows of experience, before normalization, clipping and stacking of past steps; used for data sets and hooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import EPISODE, TAKEN_LOGP, SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.datasets.layout import LOGP
from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds
from rlrun.engine.rollout.recorder import AgentRows, Recorded
from rlrun.engine.rollout.worker_behavior import WorkerBehavior
from rlrun.engine.rollout.worker_config import WorkerConfig

Flags = NDArray[np.bool_]


class Stream(NamedTuple):
    """Consecutive raw rows of one env slot (not normalized, in the env's units), as arguments for a data set writer."""

    slot: int
    rows: Mapping[str, Any]
    agent: str
    begins: bool


@dataclass(frozen=True)
class RawRows:
    """Experience of one policy in a fragment of T steps in B slots, in the env's units: not normalized or clipped.

    Attributes:
        columns: `obs` [T + 1, B, ...], and the other columns [T, B, ...]; actions are env actions.
        begins: Mask [B] of slots whose first row is the start of an episode.
        agent_rows: Rows of each agent's episode, in order for each slot; None for single-agent envs.
        closes: Mask [B] of the slots for which an observation after the last step is recorded; None for all.
    """

    columns: SampleBatch
    begins: Flags
    agent_rows: Sequence[AgentRows] | None = None
    closes: Flags | None = None

    def streams(self) -> Iterator[Stream]:
        """Yields the rows of each slot; in a multi-agent env, separately for each agent's episode."""
        if self.agent_rows is None:
            for slot, begins in enumerate(self.begins.tolist()):
                yield Stream(slot, self.columns.map(lambda leaf, slot=slot: leaf[:, slot]), "", begins)
            return
        assert self.closes is not None
        begun = set()
        for slot, rows, agent, seed in self.agent_rows:
            last = -1 if self.closes[slot] else rows[-1]
            own = self.columns.map(lambda leaf, rows=rows, slot=slot: leaf[rows, slot])
            seen = np.append(rows, last)
            own["obs"] = map_tree(lambda leaf, seen=seen, slot=slot: leaf[seen, slot], self.columns["obs"])
            own["seed"] = np.full(len(rows), seed)
            yield Stream(slot, own, agent, bool(self.begins[slot]) and slot not in begun)
            begun.add(slot)


def raw_rows(config: WorkerConfig, behavior: WorkerBehavior, policy: str, recorded: Recorded) -> RawRows:
    """Copies the rows of a recorded fragment in the env's units, before they are normalized or clipped.

    Args:
        config: Settings of the worker.
        behavior: The policy that acted.
        policy: Name of the policy.
        recorded: The fragment.
    """
    batch = recorded.batches[policy]
    columns = raw_columns(behavior, batch, config.env.columns, has_log_probs=config.records)
    if policy in recorded.agent_rows:
        return RawRows(columns, recorded.begins[policy], recorded.agent_rows[policy], recorded.closes[policy])
    if EPISODE in batch:
        columns["seed"] = config.seeds.seeds(np.arange(batch[EPISODE].shape[1]), batch[EPISODE])
    else:
        columns["seed"] = episode_seeds(config.seeds, recorded.began, batch["valid"])
    return RawRows(columns, recorded.begins[policy])


def raw_columns(
    behavior: WorkerBehavior, batch: SampleBatch, further: Sequence[str], *, has_log_probs: bool = True
) -> SampleBatch:
    """Returns a fragment's columns in the env's units; removes columns that only data sets need from the fragment.

    Args:
        behavior: The policy that acted.
        batch: The fragment as recorded.
        further: Names of additional columns to keep.
        has_log_probs: Whether the log-probabilities of the actions are included, if they are known.
    """
    own, valid = batch["actions"], batch["valid"]
    with np.errstate(all="ignore"):  # rows without a step are undefined
        taken = behavior.action_space.to_env(own.reshape(valid.size, *own.shape[2:]))
        actions = map_tree(lambda leaf: leaf.reshape(*valid.shape, *leaf.shape[1:]), taken)
        log_probs = _log_probs(behavior, batch) if has_log_probs else None
    names = ("obs", "rewards", "terminateds", "truncateds", "valid", *further)
    columns = SampleBatch({name: batch[name] for name in names}, actions=actions)
    columns["weights_version"] = batch.get("weights_version", np.full(valid.shape, behavior.weights_version, np.int32))
    if log_probs is not None:
        columns[LOGP] = log_probs
    return columns


def _log_probs(behavior: WorkerBehavior, batch: SampleBatch) -> NDArray[np.float32] | None:
    """Returns log-probabilities of the recorded actions in the env's units; None if they are unknown."""
    from rlrun.engine.policy.behavior import BehaviorPolicy
    from rlrun.engine.policy.log_probs_in_env import behavior_log_probs

    if TAKEN_LOGP in batch:
        found: NDArray[np.float32] = batch.pop(TAKEN_LOGP)
        return found
    if "outputs" not in batch or not isinstance(behavior, BehaviorPolicy):
        return None
    return behavior_log_probs(behavior, batch["outputs"], batch["actions"])


def record_log_probs(behavior: WorkerBehavior) -> None:
    """Makes a policy record its actions' log-probabilities, unless they are unknown or its outputs determine them."""
    from rlrun.engine.policy.behavior import BehaviorPolicy
    from rlrun.engine.policy.log_probs_in_env import taken_log_probs

    if isinstance(behavior, BehaviorPolicy) and "outputs" not in behavior.collector.allocate(1, 1):
        log_probs = taken_log_probs(behavior)
        if log_probs is not None:
            behavior.collector.record_log_probs(log_probs)


def episode_seeds(seeds: EpisodeSeeds, began: Sequence[EpisodePosition], valid: Flags) -> NDArray[np.int64]:
    """Returns the reset seed of the episode to which each row belongs, [T, B]; single-agent envs only.

    Args:
        seeds: Seeds of the env slots' episodes.
        began: Episode number and step of each env slot before the fragment, [B].
        valid: Mask [T, B] of the rows with a step. A row without a step holds a final observation; the next episode
            begins in the following row.
    """
    resets = np.zeros(valid.shape, np.int64)
    resets[1:] = ~valid[:-1]
    later = resets.cumsum(axis=0)
    most = int(later[-1].max())
    first = np.array([place.episode for place in began])
    found = np.empty((most + 1, len(began)), np.int64)
    found[0] = [place.seed for place in began]
    if most:
        found[1:] = seeds.seeds(np.arange(len(began)), first + np.arange(1, most + 1)[:, None])
    return np.take_along_axis(found, later, axis=0)
