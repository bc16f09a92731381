"""A training that has started: trainees, workers and dataflow, from iteration to iteration."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlrun.envs.spaces import empty_batch
from rlrun.errors import CheckpointError, UsageError
from rlrun.flow.flow import Flow
from rlrun.flow.trainee import Trainee
from rlrun.functional.saved_numbers import as_count
from rlrun.metric import of_policy
from rlrun.rollout.endless_episodes import EndlessEpisodes
from rlrun.rollout.worker_set import WorkerSet
from rlrun.training import checkpointing
from rlrun.training.acting import ActingPolicy
from rlrun.training.curriculum import Curriculum
from rlrun.training.episode_metrics import AgentMetrics, EpisodeMetrics
from rlrun.training.training_warnings import TrainingWarnings

if TYPE_CHECKING:
    from rlrun.checkpoint.format import Content
    from rlrun.envs.spaces import Spaces
    from rlrun.league.league import League
    from rlrun.league.seat_behavior import SeatBehavior


@dataclass(frozen=True)
class Branch:
    """A trainee and the dataflow that it learns by.

    Attributes:
        trainee: What is trained.
        flow: How it learns; None if it does not, and acts with the weights that it began with.
        shared: The flows upstream of its own that other trainees share.
    """

    trainee: Trainee
    flow: Flow[Any] | None
    shared: tuple[Flow[Any], ...] = ()


class RunningTraining:
    """What a training has started, and what is counted of it.

    Args:
        workers: The rollout workers.
        branches: What is trained, by policy.
        flow: The dataflow of all of them.
        announce: Called with a sentence on what nobody will have meant.
        env_slots: Envs, or worlds, of all workers together.
        agents: The possible agents of a world of many; none where every env has one.
        league: The frozen opponents of a world with seats; None where there are no seats.

    Attributes:
        workers: The rollout workers.
        branches: What is trained, by policy.
        flow: The dataflow of all of them.
        acting: What acts and is evaluated in this process, by policy.
        iteration: Iterations so far.
        time_total_s: Seconds that they took.
        unsaved: What the checkpoint lacked that it goes on from.
    """

    def __init__(
        self,
        workers: WorkerSet,
        branches: Mapping[str, Branch],
        flow: Flow[Any],
        *,
        announce: Callable[[str], None],
        env_slots: int,
        agents: Sequence[str] = (),
        league: League | None = None,
        curriculum: Curriculum | None = None,
    ) -> None:
        self.workers = workers
        self.branches = dict(branches)
        self.flow = flow
        self.acting = {policy: ActingPolicy(branch.trainee) for policy, branch in branches.items()}
        self._env_slots = env_slots
        self.iteration = 0
        self.time_total_s = 0.0
        self.unsaved: tuple[str, ...] = ()
        self._is_for_training = True
        self._clock = self.trainee.clock
        self._episodes = EpisodeMetrics(announce)
        self._league = league
        self._curriculum = curriculum
        self._seats = () if league is None else tuple(league.seats)
        self._agents = AgentMetrics((*branches, *self._seats), agents, announce) if agents else None
        self._warnings = {
            policy: TrainingWarnings(announce, branch.trainee.workers)
            for policy, branch in branches.items()
            if branch.flow is not None
        }
        self._seconds: dict[str, float] = {}
        self._endless = workers.counts.endless = EndlessEpisodes(announce, env_slots)

    @property
    def trainee(self) -> Trainee:
        """The first trainee: the only one where an env has one agent."""
        return next(iter(self.branches.values())).trainee

    @property
    def trainees(self) -> list[Trainee]:
        """What is trained, in the order of the policies."""
        return [branch.trainee for branch in self.branches.values()]

    def step(self, min_env_steps: int, since_last_s: float) -> dict[str, Any]:
        """Runs one iteration and returns its result; a curriculum then says what the next episodes are about.

        Args:
            min_env_steps: Env steps that it takes at least.
            since_last_s: Seconds since the last iteration that count into this one.

        Raises:
            UsageError: It was restored for acting alone.
        """
        self._demand_whole()
        result = self._iterate(min_env_steps, since_last_s)
        if self._curriculum is not None and self._curriculum.advance(result):
            self.workers.set_env_kwargs(self._curriculum.kwargs)
        return result

    def _iterate(self, min_env_steps: int, since_last_s: float) -> dict[str, Any]:
        """Runs one iteration and returns its result."""
        flow, counts = self.flow, self.workers.counts
        for trainee in self.trainees:
            trainee.clock.begin_iteration()
        began, waited_before = time.perf_counter(), flow.waited_s
        next(flow)
        while self._clock.steps_this_iteration < min_env_steps:
            next(flow)
        self.iteration += 1
        if self._league is not None:
            self._league.advance(self.iteration)
            self.workers.set_weights(self._league.lineups())
        seconds = time.perf_counter() - began
        self.time_total_s += since_last_s + seconds
        self._take_episodes()
        for policy, warnings in self._warnings.items():
            sgd_steps = self.branches[policy].trainee.learner.sgd_steps
            warnings.look(sgd_steps)
        times = {"time_this_iter_s": since_last_s + seconds, "time_total_s": self.time_total_s}
        counted = {
            "iteration": self.iteration,
            "env_steps": counts.env_steps,
            "agent_steps": counts.env_steps if self._agents is None else counts.agent_steps.total(),
            "sgd_steps": sum(trainee.learner.sgd_steps for trainee in self.trainees),
            **self._episodes.result(),
            **self._returns_in_place_of_the_worlds(),
            "env_steps_per_s": self._clock.env_steps_this_iteration / seconds,
        }
        ending = {
            **self._take_operator_seconds(),
            "time/learner_wait_share": (flow.waited_s - waited_before) / seconds,
        }
        restarts = {"worker_restarts": self.workers.worker_restarts}
        if self._agents is None:
            (branch,) = self.branches.values()
            lag, learned = self._learned(branch)
            version = {"weights_version": branch.trainee.learner.weights_version}
            return {**counted, **lag, **times, **version, **restarts, **learned, **ending}
        return {**counted, **times, **restarts, **self._of_policies(self._agents), **ending}

    def _take_episodes(self) -> None:
        """Takes the episodes that have ended since the last call, of worlds those of their agents too."""
        self._episodes.add(self.workers.counts.take_episodes())
        if self._agents is not None:
            for policy in (*self.branches, *self._seats):
                self._agents.add(policy, self.workers.counts.take_agent_episodes(policy))

    def _returns_in_place_of_the_worlds(self) -> dict[str, float | None]:
        """Returns the returns of agents where the world's own episodes do not end; {} where they do, or still may."""
        if self._agents is None or self._episodes.episodes or not self._endless.is_told:
            return {}
        return self._agents.of_policies(self.branches)

    def _learned(self, branch: Branch) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns a trainee's lag, and what its learner and its operators report."""
        trainee = branch.trainee
        return dict(trainee.lag.take()), {
            **{f"learner/{name}": value for name, value in trainee.learner.take_statistics().items()},
            **{f"learner/{name}": trainee.clock.value(name) for name in trainee.clock.schedules},
            **({} if branch.flow is None else branch.flow.metrics()),
        }

    def _of_policies(self, agents: AgentMetrics) -> dict[str, Any]:
        """Returns what a world's result says of each policy and each agent."""
        counts = self.workers.counts
        result: dict[str, Any] = {
            "missing_final_observations": counts.missing_finals,
            "dropped_rewards": counts.dropped_rewards,
        }
        for policy, branch in self.branches.items():
            lag, learned = self._learned(branch)
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

    def spaces(self) -> dict[str, Spaces]:
        """Returns each policy's spaces."""
        return {policy: branch.trainee.spaces for policy, branch in self.branches.items()}

    def flows(self) -> dict[str, Flow[Any]]:
        """Returns the dataflow of each policy that learns."""
        return {policy: branch.flow for policy, branch in self.branches.items() if branch.flow is not None}

    def seats(self) -> dict[str, SeatBehavior]:
        """Returns what acts in the seats now, for evaluations."""
        return {} if self._league is None else self._league.acting()

    def broadcast(self) -> None:
        """Has all workers go on from the present weights, and those that learn from the present optimizer."""
        self._endless.begin(has_episodes=self._episodes.episodes > 0)
        for policy, branch in self.branches.items():
            trainee = branch.trainee
            trainee.workers.send(trainee.weights(optimizer=True))
            if policy in self._warnings:
                self._warnings[policy].begin(
                    trainee.workers.sendings, trainee.learner.sgd_steps, is_resumed=self.iteration > 0
                )
        self._act_with_present_weights()
        if self._league is not None:
            self.workers.set_weights(self._league.lineups())

    def _act_with_present_weights(self) -> None:
        """Has what acts in this process go on from the present weights, in seats too."""
        for acting in self.acting.values():
            acting.refresh()
        if self._league is not None:
            self._league.begin()

    def _demand_whole(self) -> None:
        """Makes sure that workers and dataflow are where the checkpoint left them, if it was restored.

        Raises:
            UsageError: They are not.
        """
        if not self._is_for_training:
            raise UsageError("this was restored for acting alone; to train or save it, restore it with for_training")

    def sections(self) -> dict[str, Any]:
        """Returns a checkpoint's sections.

        Raises:
            UsageError: It was restored for acting alone.
        """
        self._demand_whole()
        workers = self.workers.state()
        own = {
            "iteration": self.iteration,
            "time_total_s": self.time_total_s,
            "episodes": self._episodes.state(),
            "unsaved": list(dict.fromkeys([*self.flow.unsaved(), *workers["unsaved"]])),
        }
        if self._curriculum is not None:
            own["curriculum"] = self._curriculum.kwargs
        if self._agents is not None:
            own["agents"] = self._agents.state()
            own["flow"] = self.flow.state(without=tuple(self.flows().values()))  # of what joins the branches
            own["shared"] = [flow.state() for flow in self._shared()]
        return {
            "training": checkpointing.section("training", own),
            "workers": checkpointing.section("workers", workers),
            **({} if self._league is None else {"league": checkpointing.section("league", self._league.state())}),
            "trainees": {
                policy: checkpointing.trainee_sections(branch.trainee, self._flow_state(branch))
                for policy, branch in self.branches.items()
            },
        }

    def _shared(self) -> tuple[Flow[Any], ...]:
        """Returns the flow upstream of all trainees, where there are several."""
        return next(branch.shared for branch in self.branches.values() if branch.flow is not None)[:1]

    def _flow_state(self, branch: Branch) -> dict[str, Any]:
        return {} if branch.flow is None else branch.flow.state(without=branch.shared)

    def load(self, content: Content, new: frozenset[str] | None = None, *, for_training: bool = True) -> int:
        """Goes on where a checkpoint left off.

        Of a checkpoint in version 1 of the format the places of the envs, the replay and the dataflow are left out.
        Where policies have changed since, new ones begin as they are, all worlds begin new episodes, and a dataflow is
        continued if it is still the same.

        Args:
            content: The checkpoint.
            new: The policies that it lacks, or that learned by another algorithm; empty where policies act for other
                agents than they did. None where nothing differs.
            for_training: Whether it is to be trained on; else workers and dataflow are left out, and no worker starts.

        Returns:
            Env slots that could not be brought back exactly.
        """
        sections = checkpointing.sections_of(content)
        state = checkpointing.section_state(sections, "training")
        owned = {
            policy: self._load_what_was_learned(content, sections, policy)
            for policy in self.branches
            if new is None or policy not in new
        }
        for policy, own in owned.items():
            learner = checkpointing.section_state(own, "learner")
            with checkpointing.refusing("section of its learner"):
                self.branches[policy].trainee.learner.load_state(learner)
        self._load_counts(sections, new or ())
        with checkpointing.refusing("section of its training"):
            self.iteration, self.time_total_s = as_count(state["iteration"]), float(state["time_total_s"])
            self.unsaved = tuple(state.get("unsaved", ()))  # earlier checkpoints did not say
        self._count_anew()
        if self._league is not None:
            self._load_league(self._league, sections, is_new=new is not None and "league" not in sections)
        self._is_for_training = for_training
        if not for_training:
            self._act_with_present_weights()
            return 0
        if self._curriculum is not None:
            self._curriculum.kwargs = dict(state.get("curriculum", {}))  # none where there was no curriculum before
            self.workers.set_env_kwargs(self._curriculum.kwargs)
        self.broadcast()
        if content.format_version == 1:
            return 0
        if new is not None:
            self._begin_worlds_anew(owned, new)
            return self._env_slots
        workers = checkpointing.section_state(sections, "workers")
        flows = {policy: checkpointing.section_state(own, "flow") for policy, own in owned.items()}
        with checkpointing.refusing("section of its workers"):
            restarted = self.workers.load_state(workers)
        with checkpointing.refusing("section of its flow"):
            for policy, branch in self.branches.items():
                if branch.flow is not None:
                    branch.flow.load_state(flows[policy], without=branch.shared)
            if self._agents is not None:
                self.flow.load_state(state["flow"], without=tuple(self.flows().values()))
                for flow, saved in zip(self._shared(), state["shared"], strict=True):
                    flow.load_state(saved)
        return restarted

    def _begin_worlds_anew(self, owned: Mapping[str, Mapping[str, Any]], new: Collection[str]) -> None:
        """Goes on with other policies than before: with the dataflow of those whose dataflow is the same."""
        told = [f"policy {policy} begins anew" for policy in new]
        for policy, own in owned.items():
            flow, shared = self.branches[policy].flow, self.branches[policy].shared
            if flow is None:
                continue
            try:
                flow.load_state(checkpointing.section_state(own, "flow"), without=shared)
            except CheckpointError:  # it was saved by another plan
                told.append(f"the dataflow of policy {policy} begins anew")
        self.unsaved = (*self.unsaved, *sorted(told))

    def _load_league(self, league: League, sections: Mapping[str, Any], *, is_new: bool) -> None:
        """Goes on with a league, or begins one with the weights that were just loaded."""
        league.clear()
        if is_new:
            return
        state = checkpointing.section_state(sections, "league")
        with checkpointing.refusing("section of its league"):
            league.load_state(state)

    def load_weights(self, content: Content) -> None:
        """Loads only the policies and their filters."""
        sections = checkpointing.sections_of(content)
        for policy, branch in self.branches.items():
            own = checkpointing.trainee_sections_of(sections, policy)
            checkpointing.load_policy(branch.trainee, content)
            self._load_filters(own, policy)
        if self._league is not None:
            self._league.clear()
        self.broadcast()

    def adopt(self, content: Content) -> None:
        """Adopts what another run has learned, and goes on with its own envs and draws."""
        sections = checkpointing.sections_of(content)
        for policy, branch in self.branches.items():
            own = self._load_what_was_learned(content, sections, policy)
            with checkpointing.refusing("section of its learner"):
                branch.trainee.learner.adopt_state(checkpointing.section_state(own, "learner"))
        self._load_counts(sections)
        self._count_anew()
        self.broadcast()

    def close(self) -> None:
        """Ends what the dataflow has started, the workers and the learners."""
        self.flow.close()
        self.workers.close()
        for trainee in reversed(self.trainees):  # the first one may have started Ray, and then ends it
            trainee.learner.close()

    def _load_what_was_learned(self, content: Content, sections: Mapping[str, Any], policy: str) -> Mapping[str, Any]:
        """Loads what a restored trainee and one that adopts another have in common; returns its sections."""
        trainee = self.branches[policy].trainee
        own = checkpointing.trainee_sections_of(sections, policy)
        checkpointing.load_policy(trainee, content)
        checkpointing.load_optimizer(trainee, content)
        self._load_filters(own, policy)
        return own

    def _load_counts(self, sections: Mapping[str, Any], new: Collection[str] = ()) -> None:
        """Loads what was counted of envs and episodes, but of policies that are new."""
        workers, training = (checkpointing.section_state(sections, owner) for owner in ("workers", "training"))
        with checkpointing.refusing("section of its workers"):
            self.workers.counts.env_steps = as_count(workers["env_steps"])
            if self._agents is not None:
                self.workers.counts.load_agent_steps(workers)
                for policy in new:
                    self.workers.counts.agent_steps.pop(policy, None)
        with checkpointing.refusing("section of its training"):
            self._episodes.load_state(training["episodes"])
            if self._agents is not None:
                self._agents.load_state(training["agents"], new)

    def _load_filters(self, own: Mapping[str, Any], policy: str) -> None:
        trainee = self.branches[policy].trainee
        with checkpointing.refusing("section of its filters"):
            trainee.filters.load_state(checkpointing.section_state(own, "filters"))
            self.acting[policy].refresh()
            if trainee.filters.moments:  # raises where they are of other observations
                self.acting[policy].behavior().filtered(empty_batch(trainee.spaces.observation, 1))

    def _count_anew(self) -> None:
        """Has the next result count minibatches and env steps from here, as the counters have just been set."""
        self.flow.metrics()

    def _take_operator_seconds(self) -> dict[str, float]:
        """Returns the seconds of each operator since the last call, and of waiting for workers."""
        before, now = self._seconds, {timing.path: timing.seconds for timing in self.flow.timings()}
        now["waiting"] = self.flow.waited_s
        self._seconds = now
        return {f"time/{path}_s": seconds - before.get(path, 0.0) for path, seconds in now.items()}
