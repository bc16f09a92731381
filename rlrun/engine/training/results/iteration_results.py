"""Results of iterations: step counts, episode metrics, times, and metrics of learners and operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlrun.engine.settings.metric import of_policy
from rlrun.engine.training.results.episode_metrics import AgentMetrics, EpisodeMetrics

if TYPE_CHECKING:
    from rlrun.engine.flow.flow import Flow
    from rlrun.engine.league.league import League
    from rlrun.engine.rollout.worker_set import WorkerSet
    from rlrun.engine.training.branch import Branch


class IterationResults:
    """Collects the metrics of an iteration into a flat dict, the iteration's result.

    Args:
        workers: The rollout workers.
        branches: Policies in training with their dataflows, by name.
        flow: Joint dataflow of all policies.
        announce: Callback for warnings about probably unintended settings.
        agents: Ids of the possible agents of a multi-agent env; empty for single-agent envs.
        league: Frozen opponents in a multi-agent env; None if there are none.

    Attributes:
        episodes: Metrics of the last episodes.
        agents: Metrics of the last episodes of each policy's agents; None for single-agent envs.
    """

    def __init__(
        self,
        workers: WorkerSet,
        branches: Mapping[str, Branch],
        flow: Flow[Any],
        *,
        announce: Callable[[str], None],
        agents: Sequence[str],
        league: League | None,
    ) -> None:
        self._workers = workers
        self._branches = branches
        self._flow = flow
        self._league = league
        self._seats = () if league is None else tuple(league.seats)
        self.episodes = EpisodeMetrics(announce)
        self.agents = AgentMetrics((*branches, *self._seats), agents, announce) if agents else None
        self._seconds: dict[str, float] = {}
        self._waited_s = 0.0

    def begin(self) -> None:
        """Resets the counters and timers at the start of an iteration."""
        for branch in self._branches.values():
            branch.trainee.clock.begin_iteration()
        self._waited_s = self._flow.waited_s

    def take_episodes(self) -> None:
        """Moves newly finished episodes from the workers' counters to the episode metrics."""
        counts = self._workers.counts
        self.episodes.add(counts.take_episodes())
        if self.agents is not None:
            for policy in (*self._branches, *self._seats):
                self.agents.add(policy, counts.take_agent_episodes(policy))

    def result(self, iteration: int, seconds: float, *, since_last_s: float, time_total_s: float) -> dict[str, Any]:
        """Returns the flat result dict of the finished iteration.

        Args:
            iteration: Number of the iteration.
            seconds: Duration of the iteration in seconds.
            since_last_s: Seconds between the previous iteration and this one, spent on an evaluation, for example; they
                are added to the duration in the result.
            time_total_s: Total seconds of all iterations.
        """
        counts = self._workers.counts
        first, *_ = (branch.trainee for branch in self._branches.values())
        times = {"time_this_iter_s": since_last_s + seconds, "time_total_s": time_total_s}
        counted = {
            "iteration": iteration,
            "env_steps": counts.env_steps,
            "agent_steps": counts.env_steps if self.agents is None else counts.agent_steps.total(),
            "sgd_steps": sum(branch.trainee.learner.sgd_steps for branch in self._branches.values()),
            **self.episodes.result(),
            **self._agent_returns(),
            "env_steps_per_s": _per_second(first.clock.env_steps_this_iteration, seconds),
        }
        ending = {
            **self._take_operator_seconds(),
            "time/learner_wait_share": _per_second(self._flow.waited_s - self._waited_s, seconds),
        }
        restarts = {"worker_restarts": self._workers.worker_restarts}
        if self._workers.served is not None:
            restarts["lost_steps"] = counts.lost_steps
        if self.agents is None:
            (branch,) = self._branches.values()
            lag, learned = _learned(branch)
            version = {"weights_version": branch.trainee.learner.weights_version}
            return {**counted, **lag, **times, **version, **restarts, **learned, **ending}
        return {**counted, **times, **restarts, **self._of_policies(self.agents), **ending}

    def reset_counts(self) -> None:
        """Discards the operators' metrics from before a restore, so that the next result covers only new steps."""
        self._flow.metrics()

    def _agent_returns(self) -> dict[str, float | None]:
        """Returns the metrics of agents' returns in worlds with endless episodes; {} if the world's episodes end."""
        endless = self._workers.counts.endless
        if self.agents is None or self.episodes.episodes or endless is None or not endless.has_warned:
            return {}
        return self.agents.of_policies(self._branches)

    def _of_policies(self, agents: AgentMetrics) -> dict[str, Any]:
        """Returns the metrics of a multi-agent world per policy and per agent."""
        counts = self._workers.counts
        result: dict[str, Any] = {
            "missing_final_observations": counts.missing_finals,
            "dropped_rewards": counts.dropped_rewards,
        }
        for policy, branch in self._branches.items():
            lag, learned = _learned(branch)
            own = {
                "agent_steps": counts.agent_steps[policy],
                "sgd_steps": branch.trainee.learner.sgd_steps,
                **agents.of_policy(policy),
                **lag,
                "weights_version": branch.trainee.learner.weights_version,
                **learned,
            }
            result.update({of_policy(policy, name): value for name, value in own.items()})
        league = {} if self._league is None else self._league.metrics()
        return {**result, **agents.of_agents(), **league}

    def _take_operator_seconds(self) -> dict[str, float]:
        """Returns the seconds spent in each operator, and in waiting for workers, since the last call."""
        before, now = self._seconds, {timing.path: timing.seconds for timing in self._flow.timings()}
        now["waiting"] = self._flow.waited_s
        self._seconds = now
        return {f"time/{path}_s": seconds - before.get(path, 0.0) for path, seconds in now.items()}


def _per_second(amount: float, seconds: float) -> float | None:
    """Returns an amount per second; None if the clock stood still, for example because the env's code stopped it."""
    return amount / seconds if seconds else None


def _learned(branch: Branch) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the metrics of a trainee's policy lag, learner and operators."""
    trainee = branch.trainee
    return dict(trainee.lag.take()), {
        **{f"learner/{name}": trainee.clock.value(name) for name in trainee.clock.schedules},
        **{f"learner/{name}": value for name, value in trainee.learner.take_statistics().items()},  # may adapt lr
        **({} if branch.flow is None else branch.flow.metrics()),
    }
