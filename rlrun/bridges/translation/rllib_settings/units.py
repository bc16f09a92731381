"""Sizes of RLlib's units: env steps per round (a rollout fragment of each env), rows per batch, and so on."""

from __future__ import annotations

from typing import Any

from rlrun.bridges.translation.foreign_settings import ForeignSettings

SUMMED_LOSSES = ("A2C", "A3C", "IMPALA")
"""Algorithms whose loss is a sum over the rows of a batch."""
Q_LEARNERS = ("DQN", "SimpleQ", "APEX")
DISTRIBUTED = ("APEX", "APEX_DDPG")
OFFLINE = ("BC", "MARWIL", "CQL", "CRR", "DT")
"""Algorithms that learn from recorded data alone."""
TEAMS = ("QMIX", "MADDPG")
"""Algorithms whose policy acts for all agents of a world."""


def fragment_steps(foreign: ForeignSettings) -> int | None:
    """Number of steps of each env in a rollout fragment; None if RLlib derives it from the batch size."""
    steps = foreign.first("rollout_fragment_length", "sample_batch_size")
    if steps != "auto":
        return int(steps)
    return int(foreign.get("n_step")) if foreign.get("n_step") is not None else None


def steps_of_round(foreign: ForeignSettings) -> int:
    """Number of env steps in one round of sampling: one rollout fragment of every env of every worker."""
    return (fragment_steps(foreign) or 1) * max(workers(foreign), 1) * int(foreign.get("num_envs_per_worker"))


def longest_episode(foreign: ForeignSettings) -> int:
    """Step limit of episodes, for algorithms whose rollout fragments are whole episodes.

    If the file has no limit, the fragment length is returned.
    """
    return int(foreign.horizon or fragment_steps(foreign) or 1)


def steps_of_update(foreign: ForeignSettings) -> int:
    """Number of env steps that RLlib takes for one update.

    This is the length of an iteration if the file sets no minimum of env steps or seconds.
    """
    envs = int(foreign.get("num_envs_per_worker"))
    if foreign.algorithm == "MBMPO":  # its workers step imagined envs
        return envs * longest_episode(foreign)
    if foreign.algorithm == "MAML":
        phases = int(foreign.get("inner_adaptation_steps")) + 1
        return phases * max(workers(foreign), 1) * envs * longest_episode(foreign)
    if foreign.algorithm == "DREAMER":
        return longest_episode(foreign)
    rows = 0 if foreign.algorithm == "AlphaZero" else int(foreign.get("train_batch_size") or 0)
    return max(rows, steps_of_round(foreign))


def workers(foreign: ForeignSettings) -> int:
    """Number of rollout workers, under any of the names that RLlib has used."""
    return int(foreign.first("num_workers", "num_rollout_workers", "num_env_runners"))


def rows_of_sum(foreign: ForeignSettings) -> int:
    """Number of batch rows over which RLlib sums the loss, instead of taking the mean."""
    if foreign.algorithm == "IMPALA":
        return int(foreign.get("train_batch_size"))
    envs = int(foreign.get("num_envs_per_worker"))
    return (fragment_steps(foreign) or 1) * envs if foreign.algorithm == "A3C" else whole_rounds(foreign)


def whole_rounds(foreign: ForeignSettings) -> int:
    """Number of env steps in a batch of A2C and PG: `train_batch_size`, rounded up to whole rounds of sampling."""
    wanted, each = int(foreign.get("train_batch_size")), steps_of_round(foreign)
    return wanted if fragment_steps(foreign) is None else -(-wanted // each) * each


def minibatches_per_step(foreign: ForeignSettings) -> float:
    """Minibatches per env step of an algorithm with a replay buffer.

    Without `training_intensity`, RLlib learns from one minibatch after each round of sampling, in which every env takes
    the steps of one rollout fragment. Otherwise `training_intensity` is the number of rows learned from per sampled row
    (`calculate_rr_weights`).
    """
    if foreign.get("training_intensity") is not None:
        return float(foreign.get("training_intensity")) / int(foreign.get("train_batch_size"))
    return 1000.0 if foreign.algorithm in DISTRIBUTED else round_off(1 / steps_of_round(foreign))


def minibatch_rows(foreign: ForeignSettings) -> int:
    """Size of a minibatch of recorded data in rows (steps); for Decision Transformer in windows of several steps.

    RLlib's `train_batch_size` is not always this size: since 2.0, BC, MARWIL and CRR learn from as many rows as the
    workers read at once, unless `input` is `dataset`.
    """
    size = int(foreign.get("train_batch_size"))
    if foreign.algorithm == "DT":
        return -(-size // int(foreign.get("model.max_seq_len")))
    reads_rounds = foreign.source.version >= (2, 0) and foreign.algorithm in ("BC", "MARWIL", "CRR")
    return steps_of_round(foreign) if reads_rounds and foreign.get("input") != "dataset" else size


def rows_per_sgd_step(foreign: ForeignSettings) -> int:
    """Number of rows of recorded data that RLlib adds to its step count for each SGD step.

    In general this is the size of a minibatch. Until 2.0, BC and MARWIL counted the rows that all workers read into a
    buffer before each SGD step. CQL and CRR did not count rows; for these two, the size of a minibatch is returned.
    """
    reads_fragments = foreign.source.version < (2, 0) and foreign.algorithm in ("BC", "MARWIL")
    if reads_fragments:
        return steps_of_round(foreign)
    return int(foreign.get("train_batch_size")) if foreign.algorithm == "DT" else minibatch_rows(foreign)


def seconds_of_iteration(foreign: ForeignSettings) -> float:
    """Minimum duration of an iteration in seconds; 0 if there is none."""
    seconds: float = foreign.first("min_time_s_per_reporting", "min_time_s_per_iteration", "min_iter_time_s") or 0
    return seconds


def points(foreign: ForeignSettings, value: Any) -> Any:
    """Converts a schedule to pairs of integer step and value, in rlrun's steps; other values are returned unchanged."""
    if not isinstance(value, list):
        return value
    if foreign.algorithm not in OFFLINE:
        return [[int(step), number] for step, number in value]
    each = minibatch_rows(foreign) if foreign.algorithm == "DT" else rows_per_sgd_step(foreign)
    return [[-(-int(step) // each), number] for step, number in value]


def round_off(number: float) -> float:
    """Rounds a converted number to remove floating-point noise in the last digits."""
    return float(f"{number:.10g}")
