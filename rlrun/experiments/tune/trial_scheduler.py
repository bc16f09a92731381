"""Ray Tune scheduler that carries out the decisions of a scheduling rule: stops, pauses and continues trials.

A trial that has to wait keeps its actor until another trial needs the resources. The waiting trial is then saved, and
the other trial takes over the actor. Tune itself saves and restores nothing; a trial resumes from its own directory.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.tune.execution.placement_groups import PlacementGroupFactory
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from typing_extensions import override

from rlrun.experiments.cluster.ray_internals import (
    actor_of,
    draining_nodes,
    fail,
    full_controller,
    nodes_of,
    pause_and_end_actor,
    train_on,
)
from rlrun.experiments.runs.active_run import ActiveRun
from rlrun.experiments.runs.events import TrialEvent
from rlrun.experiments.search.decisions import StopDecision, append_stop
from rlrun.experiments.search.rules.population import Populations
from rlrun.experiments.search.rules.rule import Decision, ExploitOrders, Rule
from rlrun.experiments.search.suggestions import Suggestions
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.spec.settings import with_settings
from rlrun.experiments.trial.exploit import Exploit
from rlrun.experiments.trial.trial_directory import TrialStatus
from rlrun.experiments.tune.trainable import DIVERGED, ROW

DRAINING_EVERY_S = 1.0
"""Seconds between two queries to Ray about nodes that are about to leave the cluster."""

PATIENCE_S = 5.0
"""Seconds after which a waiting trial is paused for a runnable one without an actor, whatever resources Ray reports."""


class Departures:
    """Tracker of the trials that have a process on a node about to leave the cluster.

    A node announces its departure when it receives SIGTERM, when an autoscaler ends it, or when it is drained by `ray
    drain-node`. From then on, Ray places nothing new on the node.

    Args:
        draining: Function that returns the ids of the nodes that are about to leave.
        nodes_of: Function that returns the ids of a trial's nodes, given Ray Tune's controller and trial.

    Attributes:
        trials: Names of the trials that have a process on such a node.
    """

    def __init__(
        self,
        draining: Callable[[], set[str]] = draining_nodes,
        nodes_of: Callable[[Any, Trial], set[str]] = nodes_of,
    ) -> None:
        self.trials: set[str] = set()
        self._draining = draining
        self._nodes_of = nodes_of
        self._looked_at = -math.inf

    def look(self, controller: Any) -> None:
        """Updates `trials`, at most once per second.

        Args:
            controller: Ray Tune's full controller.
        """
        if time.monotonic() - self._looked_at < DRAINING_EVERY_S:
            return
        self._looked_at = time.monotonic()
        nodes = self._draining()
        running = [trial for trial in controller.get_live_trials() if trial.status == Trial.RUNNING] if nodes else []
        self.trials = {trial_name(trial) for trial in running if self._nodes_of(controller, trial) & nodes}


class RuleScheduler(TrialScheduler):  # type: ignore[misc]  # ray has no types
    """Ray Tune scheduler that follows a scheduling rule (ASHA, PBT, ...); without one, all trials run to their end.

    Args:
        run: The run.
        rule: Scheduling rule that decides on trials, or None.
        suggestions: Trials suggested by the run's searcher, or None.
        departures: Trials whose nodes are about to leave the cluster.
    """

    def __init__(
        self, run: ActiveRun, rule: Rule | None, suggestions: Suggestions | None, departures: Departures
    ) -> None:
        super().__init__()
        self._run = run
        self._rule = rule
        self._suggestions = suggestions
        self._known = set(run.directory.table.trials) if run.resumed else set()
        self._measured: dict[str, tuple[float, float | None]] = {}
        self._held: dict[str, Trial] = {}
        self._just_held: list[str] = []
        self._leaving: dict[str, ray.ObjectRef] = {}
        self._paused: dict[str, Trial] = {}
        self._ready: dict[str, Trial] = {}
        self._departures = departures
        self._departing: set[str] = set()
        self._interrupted: set[str] = set()
        self._is_stopping = False
        self._crowded_since = math.inf

    @override
    def __reduce__(self) -> tuple[type[TrialScheduler], tuple[()]]:
        """Pickles as an empty `FIFOScheduler`: Tune saves its schedulers, but this saved state is never loaded."""
        return (FIFOScheduler, ())

    # Tune's callbacks.

    @override
    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        name = trial_name(trial)
        if self._rule is not None and (name not in self._known or isinstance(self._rule, Populations)):
            self._rule.add(name)

    @override
    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        name = trial_name(trial)
        if self._is_stopping:
            return str(TrialScheduler.CONTINUE)
        if self._rule is None:
            return self._continue(trial)
        with self._run.stopping_when_full():
            if DIVERGED in result:
                assert isinstance(self._rule, Populations)
                self._run.note(name, str(result[DIVERGED]))
                return self._act(trial, self._rule.diverged(name))
            decision = self._decision_on(trial, result)
            return self._continue(trial) if decision is None else self._act(trial, decision)
        self._held[name] = trial  # the disk is full: the trial waits until all trials are interrupted
        return str(TrialScheduler.NOOP)

    @override
    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        if not self._is_stopping and trial_name(trial) not in self._run.stopped:
            with self._run.stopping_when_full():
                self._decision_on(trial, result)
        self._remove(trial)

    @override
    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        if trial.status == Trial.ERROR:  # Tune will restart it; a trial that will not be restarted is still RUNNING
            self._forget(trial)
            if isinstance(self._rule, Populations):
                self._rule.record_restart(trial_name(trial))
        else:
            self._remove(trial)

    @override
    def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
        self._remove(trial)

    @override
    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Carries out new decisions of the rule, and returns a trial that may run next, or None if there is none."""
        controller = full_controller(tune_controller)
        if self._run.interrupts.received:
            self._stop_all(controller)
            return None
        if self._rule is not None:
            with self._run.stopping_when_full():
                for name, decision in self._rule.released().items():
                    self._release(controller, name, decision)
        self._report_waiting()
        self._take_paused(controller)
        self._departures.look(controller)
        for name in self._departures.trials & (self._held.keys() - self._leaving.keys()):
            self._depart(name)
        self._make_room(controller)
        waiting = [trial for trial in self._ready.values() if trial.status == Trial.PAUSED]
        return next(iter([*waiting, *self._ready.values()]), None)

    @override
    def debug_string(self) -> str:
        return ""

    # Decisions and how they are carried out.

    def _decision_on(self, trial: Trial, result: dict[str, Any]) -> Decision | None:
        """Passes a result to the rule and the searcher; returns the rule's decision, None without a rule or a row."""
        scheduler = self._run.experiment.scheduler
        if self._rule is None or scheduler is None:
            return None
        row = json.loads(result.get(ROW, "{}"))
        moment = row.get(scheduler.time_attr)
        if moment is None:
            return None
        name, value = trial_name(trial), row.get(scheduler.settings.metric)
        value = None if value is None else float(value)
        score = -value if value is not None and scheduler.settings.mode == "min" else value
        self._measured[name] = (float(moment), value)
        if isinstance(self._rule, Populations) and result.get("done"):
            return None  # the trial will not reach another generation
        decision = self._rule.on_result(name, float(moment), score)
        if self._suggestions is not None and decision.rung is not None and value is not None:
            self._suggestions.observe(name, decision.rung, value)
        return decision

    def _act(self, trial: Trial, decision: Decision) -> str:
        name = trial_name(trial)
        if decision.verdict == "wait":
            self._held[name] = trial
            if self._suggestions is not None:
                self._suggestions.waits(name)
            self._just_held.append(name)
            return str(TrialScheduler.NOOP)
        if decision.verdict == "stop":
            self._write_stop(name, decision)
            actor_of(trial).finish.remote(decision.reason)
            return str(TrialScheduler.STOP)
        if decision.orders is not None:
            actor_of(trial).apply_exploit.remote(self._exploit(trial, decision.orders, "RUNNING").to_data())
        return self._continue(trial)

    def _continue(self, trial: Trial) -> str:
        """Makes a trial continue: in its process, or elsewhere if a node of the trial is about to leave."""
        name = trial_name(trial)
        if name not in self._departures.trials:
            return str(TrialScheduler.CONTINUE)
        self._held[name] = trial
        self._departing.add(name)
        self._depart(name)
        return str(TrialScheduler.NOOP)

    def _depart(self, name: str) -> None:
        self._run.note(name, "its node is about to leave the cluster: saving, to continue on another node")
        self._leaving[name] = actor_of(self._held[name]).pause.remote()

    def _release(self, controller: Any, name: str, decision: Decision) -> None:
        """Continues or stops a waiting trial, by a decision of the rule.

        A trial that was waiting when the run was interrupted runs an iteration before it waits again. A decision about
        it in between takes effect at its next result.
        """
        if name not in self._held and name not in self._paused:
            return
        if decision.verdict == "stop":
            self._write_stop(name, decision)
        held = self._held.pop(name, None)
        self._leaving.pop(name, None)
        trial = held or self._paused.pop(name)
        if self._suggestions is not None:
            self._suggestions.goes_on(name)
        if decision.verdict == "stop":
            if held is not None:
                actor_of(trial).finish.remote(decision.reason)
            controller.stop_trial(trial)
            return
        if decision.orders is not None:
            exploit = self._exploit(trial, decision.orders, "PAUSED")
            if held is not None:
                actor_of(trial).apply_exploit.remote(exploit.to_data())
        if held is None:
            self._ready[name] = trial
        else:
            self._run.tell(TrialEvent(name, "RUNNING"))
            train_on(controller, trial)

    def _report_waiting(self) -> None:
        """Reports newly waiting trials as PAUSED, after their last results."""
        for name in self._just_held:
            if name in self._held:
                self._run.tell(TrialEvent(name, "PAUSED"))
        self._just_held.clear()

    def _exploit(self, trial: Trial, orders: ExploitOrders, status: TrialStatus) -> Exploit:
        """Stores an exploit in a trial's config, so that a lost actor can repeat it, and reports the new settings."""
        spec = TrialSpec.from_data(trial.config["trial"])
        changed = exploit_of(spec, orders)
        if orders.parent is not None:
            before = trial.config["exploit"]
            old = spec.params if before is None else before["trial"]["params"]
            self._run.note(spec.name, copied(orders, old, changed.trial.params))
        self._run.tell(TrialEvent(spec.name, status, params=changed.trial.params))
        trial.set_config({**trial.config, "exploit": changed.to_data()})
        return changed

    def _write_stop(self, name: str, decision: Decision) -> None:
        moment, value = self._measured.get(name, (0.0, None))
        append_stop(self._run.directory.path, StopDecision(name, moment, value, decision.reason))
        self._run.stopped[name] = decision.reason

    def _make_room(self, controller: Any) -> None:
        """Pauses a waiting trial that occupies an actor, if another trial needs the resources."""
        for name, trial in list(self._ready.items()):
            if trial.status == Trial.RUNNING:  # Tune has found resources for it
                del self._ready[name]
        wanting = [trial for trial in controller.get_live_trials() if trial.status == Trial.PENDING]
        wanting += [trial for trial in self._ready.values() if trial.status == Trial.PAUSED]
        staying = [name for name in self._held if name not in self._leaving]
        if not wanting or not staying:
            self._crowded_since = math.inf
            return
        self._crowded_since = min(self._crowded_since, time.monotonic())
        running = [trial for trial in controller.get_live_trials() if trial.status == Trial.RUNNING]
        running = [trial for trial in running if trial_name(trial) not in self._leaving]
        needed = _resources([*running, *wanting])
        fits = all(amount <= self._run.capacity.get(name, 0.0) for name, amount in needed.items())
        staged = any(trial.status == Trial.PENDING for trial in wanting)  # otherwise, Tune would end the actor
        if staged and (not fits or time.monotonic() - self._crowded_since > PATIENCE_S):
            self._leaving[staying[-1]] = actor_of(self._held[staying[-1]]).pause.remote()
            self._crowded_since = math.inf

    def _take_paused(self, controller: Any) -> None:
        """Frees the actors of trials whose `pause` call has returned; a lost actor is left to Tune's error handling."""
        for name, left in list(self._leaving.items()):
            if not ray.wait([left], timeout=0)[0]:
                continue
            trial = self._held.pop(name)
            del self._leaving[name]
            try:
                ray.get(left)
            except RayTaskError as error:
                fail(controller, trial, error)
            except RayError:
                train_on(controller, trial)  # this call fails, so Tune handles the lost process
            else:
                self._keep_paused(controller, trial)

    def _keep_paused(self, controller: Any, trial: Trial) -> None:
        """Takes a saved trial out of its process; a trial whose node is leaving continues as soon as it has a place."""
        name = trial_name(trial)
        if name in self._departing | self._departures.trials:
            pause_and_end_actor(controller, trial)
            self._run.tell(TrialEvent(name, "PAUSED"))
        else:
            controller.pause_trial(trial, should_checkpoint=False)
        if name in self._departing:
            self._departing.remove(name)
            self._ready[name] = trial
        else:
            self._paused[name] = trial

    def _stop_all(self, controller: Any) -> None:
        """Makes running trials save and stop after an iteration, and cancels trials that have not started."""
        if not self._is_stopping:
            self._is_stopping = True
            self._run.stopping()
        for trial in list(controller.get_live_trials()):
            name = trial_name(trial)
            if trial.status == Trial.RUNNING:
                if name not in self._interrupted and actor_of(trial) is not None:
                    self._interrupted.add(name)
                    actor_of(trial).interrupt.remote()
                    if self._held.pop(name, None) is not None:
                        train_on(controller, trial)  # its step returns `done`
            elif trial.status in (Trial.PENDING, Trial.PAUSED):
                controller.stop_trial(trial)

    def _remove(self, trial: Trial) -> None:
        self._forget(trial)
        if self._rule is not None and not self._is_stopping:  # a trial that the user stops is resumed later
            with self._run.stopping_when_full():
                self._rule.remove(trial_name(trial))

    def _forget(self, trial: Trial) -> None:
        self._departing.discard(trial_name(trial))
        for known in (self._held, self._leaving, self._paused, self._ready):
            known.pop(trial_name(trial), None)


def trial_name(trial: Trial) -> str:
    """Converts a Ray Tune trial object to the name of the trial in rlrun's run."""
    name: str = trial.config["trial"]["name"]
    return name


def exploit_of(spec: TrialSpec, orders: ExploitOrders) -> Exploit:
    """Creates the exploit-and-explore step (PBT) that carries out a scheduling rule's orders for a trial."""
    parent = None if orders.checkpoint is None else Path(orders.checkpoint)
    return Exploit(orders.generation, with_settings(spec, orders.params), parent)


def copied(orders: ExploitOrders, before: dict[str, Any], after: dict[str, Any]) -> str:
    """Message that a population member has copied another member's weights, with the parent and the changed settings.

    Examples:
        >>> copied(ExploitOrders(3, "001-a", "x", {}), {"lr": 0.001}, {"lr": 0.0012})
        'generation 3: continuing from 001-a; lr 0.001 -> 0.0012'
    """
    changes = [f"{name} {_short(before.get(name))} -> {_short(after[name])}" for name in after if name in before]
    return f"generation {orders.generation}: continuing from {orders.parent}; {', '.join(changes)}"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _resources(trials: Iterable[Trial]) -> dict[str, float]:
    """Total resources of several trials, by kind."""
    total: dict[str, float] = {}
    for trial in trials:
        factory: PlacementGroupFactory = trial.placement_group_factory
        for name, amount in factory.required_resources.items():
            total[name] = total.get(name, 0.0) + amount
    return total
