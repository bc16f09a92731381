"""What RLlib counts: env steps of a round of fragments, rows of a batch, minibatches per env step."""

from __future__ import annotations

from typing import Any

from rlrun.translation.theirs import Theirs

SUMMED_LOSSES = ("A2C", "A3C", "IMPALA")
"""Algorithms whose loss is a sum over the rows of a batch."""
Q_LEARNERS = ("DQN", "SimpleQ", "APEX")
DISTRIBUTED = ("APEX", "APEX_DDPG")


def fragment_steps(theirs: Theirs) -> int | None:
    """Steps of each env in a fragment; None if RLlib derives them from the batch."""
    steps = theirs.first("rollout_fragment_length", "sample_batch_size")
    if steps != "auto":
        return int(steps)
    return int(theirs.get("n_step")) if theirs.get("n_step") is not None else None


def steps_of_round(theirs: Theirs) -> int:
    """Env steps of one fragment of every env of every worker."""
    return (fragment_steps(theirs) or 1) * max(workers(theirs), 1) * int(theirs.get("num_envs_per_worker"))


def workers(theirs: Theirs) -> int:
    """Number of rollout workers, by its names through the years."""
    return int(theirs.first("num_workers", "num_rollout_workers", "num_env_runners"))


def rows_of_sum(theirs: Theirs) -> int:
    """Rows of a batch whose loss is summed."""
    if theirs.algorithm == "IMPALA":
        return int(theirs.get("train_batch_size"))
    envs = int(theirs.get("num_envs_per_worker"))
    return (fragment_steps(theirs) or 1) * envs if theirs.algorithm == "A3C" else whole_rounds(theirs)


def whole_rounds(theirs: Theirs) -> int:
    """Env steps of a batch of A2C and PG: rounds of fragments until `train_batch_size` is reached."""
    wanted, each = int(theirs.get("train_batch_size")), steps_of_round(theirs)
    return wanted if fragment_steps(theirs) is None else -(-wanted // each) * each


def minibatches_per_step(theirs: Theirs) -> float:
    """Minibatches per env step of an algorithm with a replay buffer.

    Without `training_intensity` a minibatch follows each round of fragments; with it, it is the rows learned from per
    sampled row (`calculate_rr_weights`).
    """
    if theirs.get("training_intensity") is not None:
        return float(theirs.get("training_intensity")) / int(theirs.get("train_batch_size"))
    return 1000.0 if theirs.algorithm in DISTRIBUTED else tidy(1 / steps_of_round(theirs))


def points(value: Any) -> Any:
    """Schedule as points with whole env steps; other values unchanged."""
    return [[int(step), number] for step, number in value] if isinstance(value, list) else value


def tidy(number: float) -> float:
    """A number without the last digits, in which it may differ from what is meant."""
    return float(f"{number:.10g}")
