"""Probe of a single-agent env: findings on its actions, observations, rewards and episode ends before any training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_findings import EnvFinding
from rlrun.engine.envs.probes.action_effects import ActionEffects, action_effects, effect_findings
from rlrun.engine.envs.probes.hidden_state import hidden_findings, shows_time
from rlrun.engine.envs.probes.random_steps import RandomSteps, random_steps_of

MOST_S = 20.0
"""Limit in seconds of each part of a probe, for slow envs."""
LONG_EPISODE = 20
"""Number of steps below which equal episode lengths count as part of the task, not as a time limit."""
LEAST_EPISODES = 3
"""Minimum number of terminated episodes with the same maximum length that indicate a time limit."""


@dataclass(frozen=True)
class Probe:
    """Result of probing an env.

    Attributes:
        findings: Findings on the env.
        effects: Effects of the env's actions.
        reward_gap: Mean number of steps between two events (unusual rewards or terminations), weighted by rewards;
            without any event, the largest number of steps observed.
        sees_rewards: Whether random actions led to different rewards, or to a termination.
    """

    findings: list[EnvFinding]
    effects: ActionEffects
    reward_gap: float
    sees_rewards: bool


def probe_of(config: EnvConfig, findings: Sequence[EnvFinding], *, steps: int, seed: int = 0) -> Probe | None:
    """Probes an env after its check; returns None for a multi-agent world, or if the check found an error."""
    if config.has_many_agents or any(
        one.topic in ("exception", "returns", "observations") and one.verdict == "wrong" for one in findings
    ):
        return None
    return probe(config, steps, seed)


def probe(config: EnvConfig, steps: int, seed: int) -> Probe:
    """Probes an env with random actions, and with action sequences that differ in a single step.

    Args:
        config: Config of the env.
        steps: Number of env steps of random actions.
        seed: Root seed of the episodes.

    Raises:
        EnvError: The env's own code raised.
    """
    effects = action_effects(config, seed, MOST_S)
    taken = random_steps_of(config, steps, seed, MOST_S)
    gap, sees_rewards = reward_gap(taken)
    found = [
        *effect_findings(effects),
        *hidden_findings(taken, effects),
        *time_limit_findings(taken, effects),
        *constant_reward_findings(taken),
    ]
    return Probe(found, effects, gap, sees_rewards)


def time_limit_findings(taken: RandomSteps, effects: ActionEffects) -> Iterator[EnvFinding]:
    """Yields a finding if the longest episodes all terminate at the same step, as they would at a time limit.

    There is no finding in two cases: if the observation includes the time, since value estimates can then account for
    the end; and if actions do not change observations, since they cannot affect the value of later states.
    """
    if (effects.is_known and not effects.changes_observations) or shows_time(taken):
        return
    lengths, terminated = taken.lengths, taken.terminated[taken.ends]
    if not len(lengths) or lengths.max() <= LONG_EPISODE:
        return
    longest = lengths == lengths.max()
    if longest.sum() >= max(LEAST_EPISODES, len(lengths) / 4) and terminated[longest].all():
        found = f"{longest.sum()} of {len(lengths)} episodes terminated after exactly {lengths.max()} steps"
        reason = "a termination means that no reward could follow, which is wrong at a time limit"
        advice = "return truncated=True, terminated=False at a time limit (or set env.max_episode_steps)"
        yield EnvFinding("time limit", "note", found, reason, advice, is_severe=True)


def constant_reward_findings(taken: RandomSteps) -> Iterator[EnvFinding]:
    """Yields a finding if rewards carry no signal: all are the same nonzero number, and no episode terminates."""
    rewards = taken.rewards
    if rewards[0] and (rewards == rewards[0]).all() and not taken.terminated.any():
        found = f"{rewards[0]:.4g} in each step"
        reason = "no episode terminated either, so random actions cannot tell good from bad"
        yield EnvFinding("rewards", "note", found, reason, "have the reward depend on the state or the action")


def reward_gap(taken: RandomSteps) -> tuple[float, bool]:
    """Mean number of steps from an event, or from the start of an episode, to the next event; see `Probe`."""
    values, counts = np.unique(taken.rewards, return_counts=True)
    weights = np.abs(taken.rewards - values[counts.argmax()])
    events = (weights > 0) | taken.terminated
    gaps, longest, since = [], 0, 0
    previous = -1
    for row in range(len(events)):
        is_next = row > 0 and taken.slots[row] == previous and taken.times[row] > 0
        since = since + 1 if is_next else 1
        previous = int(taken.slots[row])
        longest = max(longest, since)
        if events[row]:
            gaps.append(since)
            since = 0
    if not gaps:
        return float(longest), False
    sizes = np.maximum(weights[events], 1e-9)
    return float(np.average(gaps, weights=sizes)), True
