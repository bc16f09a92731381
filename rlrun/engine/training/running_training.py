"""Training in progress: policies, workers and dataflow, and the loop of iterations."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlrun.engine.data.action_kind import ActionKind
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.rollout.endless_episodes import EndlessEpisodes
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_set import WorkerSet
from rlrun.engine.training.act.acting_policy import ActingPolicy
from rlrun.engine.training.assemble.training_warnings import TrainingWarnings
from rlrun.engine.training.results.iteration_results import IterationResults

if TYPE_CHECKING:
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.flow.flow import Flow
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.league.league import League
    from rlrun.engine.policy.fragment_collector import Execution
    from rlrun.engine.training.assemble.curriculum import Curriculum
    from rlrun.engine.training.assemble.trial_hooks import TrialHooks
    from rlrun.engine.training.branch import Branch
    from rlrun.engine.training.results.run_output import RunOutput


class RunningTraining:
    """Training that has started: rollout workers, policies with their learners, dataflow and counters.

    Args:
        workers: The rollout workers.
        branches: Policies in training with their dataflows, by name.
        flow: Joint dataflow of all policies.
        announce: Callback for warnings about probable mistakes.
        env_slots: Number of envs of all workers together.
        actions: Whether policies act greedily or sample their actions in evaluations.
        execution: Function that converts networks to another implementation for evaluations; None for NumPy.
        agents: Ids of the possible agents of a multi-agent env; empty for single-agent envs.
        league: Frozen opponents in a multi-agent world; None if there are none.
        curriculum: User's function that changes the envs' keyword arguments; None if there is none.
        output: Data sets of the collected steps; None if there are none.
        hooks: Hooks of the trial; None if there are none.

    Attributes:
        workers: The rollout workers.
        branches: Policies in training with their dataflows, by name.
        flow: Joint dataflow of all policies.
        env_slots: Number of envs of all workers together.
        league: Frozen opponents in a multi-agent world; None if there are none.
        curriculum: User's function that changes the envs' keyword arguments; None if there is none.
        output: Data sets of the collected steps; None if there are none.
        hooks: Hooks of the trial; None if there are none.
        results: Collects the metrics of each iteration.
        acting: Policies that act in this process with the current weights, by name.
        iteration: Number of iterations so far.
        time_total_s: Total seconds of all iterations.
        is_for_training: Whether the training can continue; if False, only policies were restored, for acting.
        env_slots_restarted: Number of env slots that could not be restored exactly.
        unsaved: Reasons why this training, resumed from a checkpoint, differs from an uninterrupted one.
    """

    def __init__(
        self,
        workers: WorkerSet,
        branches: Mapping[str, Branch],
        flow: Flow[Any],
        *,
        announce: Callable[[str], None],
        env_slots: int,
        actions: ActionKind,
        execution: Execution | None = None,
        agents: Sequence[str] = (),
        league: League | None = None,
        curriculum: Curriculum | None = None,
        output: RunOutput | None = None,
        hooks: TrialHooks | None = None,
    ) -> None:
        self.workers = workers
        self.branches = dict(branches)
        self.flow = flow
        self.env_slots = env_slots
        self.league = league
        self.curriculum = curriculum
        self.output = output
        self.hooks = hooks
        workers.counts.hooks = None if hooks is None else hooks.answers
        workers.counts.record = None if output is None else output.record
        self.results = IterationResults(workers, self.branches, flow, announce=announce, agents=agents, league=league)
        self.acting = {policy: ActingPolicy(branch.trainee, actions, execution) for policy, branch in branches.items()}
        self.iteration = 0
        self.time_total_s = 0.0
        self.is_for_training = True
        self.env_slots_restarted = 0
        self.unsaved: tuple[str, ...] = ()
        self._warnings = {
            policy: TrainingWarnings(announce, branch.trainee.workers)
            for policy, branch in branches.items()
            if branch.flow is not None
        }
        self._endless = workers.counts.endless = EndlessEpisodes(announce, env_slots)

    @property
    def trainee(self) -> Trainee:
        """First policy in training, which is the only one in single-agent envs."""
        return next(iter(self.branches.values())).trainee

    @property
    def trainees(self) -> list[Trainee]:
        """All policies in training, in their order in the settings."""
        return [branch.trainee for branch in self.branches.values()]

    @property
    def shared_flows(self) -> tuple[Flow[Any], ...]:
        """Part of the dataflow from which several policies take their items; empty for a single policy."""
        return next(branch.shared for branch in self.branches.values() if branch.flow is not None)[:1]

    @property
    def has_episodes(self) -> bool:
        """Whether training has stepped envs, so that episodes may be in progress."""
        return self.is_for_training and self.workers.counts.env_steps > 0

    def spaces(self) -> dict[str, Spaces]:
        """Returns the observation and action space of each policy, by the policy's name."""
        return {policy: branch.trainee.spaces for policy, branch in self.branches.items()}

    def flows(self) -> dict[str, Flow[Any]]:
        """Returns the dataflow of each policy that learns, by the policy's name."""
        return {policy: branch.flow for policy, branch in self.branches.items() if branch.flow is not None}

    def step(self, min_steps: int, since_last_s: float) -> dict[str, Any]:
        """Runs one iteration and returns its result; a curriculum may then change the keyword arguments of envs.

        Args:
            min_steps: Minimum number of steps of the iteration: env steps, or SGD steps when learning only from data.
            since_last_s: Seconds between the previous iteration and this one, added to the duration in the result.

        Raises:
            UsageError: The training was restored for acting only.
        """
        self.require_complete()
        result = self._iterate(min_steps, since_last_s)
        if self.curriculum is not None and self.curriculum.advance(result):
            self.workers.started.order(Orders(env_kwargs=self.curriculum.kwargs))
        if self.hooks is not None:
            result |= self.hooks.on_result(self.iteration, result)
        return result

    def _iterate(self, min_steps: int, since_last_s: float) -> dict[str, Any]:
        """Runs one iteration and returns its result."""
        clock = next(branch.trainee.clock for branch in self.branches.values() if branch.flow is not None)
        self.results.begin()
        began = time.perf_counter()
        next(self.flow)
        while clock.steps_this_iteration < min_steps:
            next(self.flow)
        self.iteration += 1
        if self.league is not None:
            self.league.advance(self.iteration)
            self.workers.started.order(Orders(self.league.lineups()))
        seconds = time.perf_counter() - began
        self.time_total_s += since_last_s + seconds
        self.results.take_episodes()
        for policy, warnings in self._warnings.items():
            warnings.look(self.branches[policy].trainee.learner.sgd_steps)
        return self.results.result(self.iteration, seconds, since_last_s=since_last_s, time_total_s=self.time_total_s)

    def broadcast(self) -> None:
        """Sends the current weights to all workers, with the optimizer state if workers learn."""
        self._endless.begin(has_episodes=self.results.episodes.episodes > 0)
        for policy, branch in self.branches.items():
            trainee = branch.trainee
            trainee.workers.send(trainee.weights(optimizer=True))
            if policy in self._warnings:
                self._warnings[policy].begin(
                    trainee.workers.sendings, trainee.learner.sgd_steps, is_resumed=self.iteration > 0
                )
        self.act_with_current_weights()
        if self.league is not None:
            self.workers.started.order(Orders(self.league.lineups()))

    def act_with_current_weights(self) -> None:
        """Makes the policies that act in this process, including frozen opponents, use the latest weights."""
        for acting in self.acting.values():
            acting.refresh()
        if self.league is not None:
            self.league.begin()

    def require_complete(self) -> None:
        """Raises an error if only the policies were restored, without workers and dataflow.

        Raises:
            UsageError: Only the policies were restored.
        """
        if not self.is_for_training:
            raise UsageError("this was restored only for acting; to train or save it, restore it with for_training")

    def close(self) -> None:
        """Closes the dataflow, the workers, the learners and the data sets."""
        self.flow.close()
        self.workers.close()
        if self.output is not None:
            self.output.close()
        for trainee in reversed(self.trainees):  # the first one may have started Ray, and then ends it
            trainee.learner.close()
