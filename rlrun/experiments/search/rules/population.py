"""Population-based training: in each generation, the worst members copy the best ones and change hyperparameters.

In a synchronous population, decisions depend only on the members' scores and the population's seed, not on the order in
which results arrive. They are recorded in the lineage before they are carried out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlrun.engine.functional.seeding import generator
from rlrun.engine.messages.errors import SpecError
from rlrun.experiments.search.lineage import (
    Generation,
    How,
    Lineage,
    MemberRecord,
    newest_checkpoint_of,
    newest_records,
    read_generations,
)
from rlrun.experiments.search.rules.pb2_explore import modelled
from rlrun.experiments.search.rules.rule import CONTINUE, Decision, ExploitOrders
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.spec.search_space import SearchSpace
from rlrun.experiments.spec.tuning import Pb2Config, PbtConfig

if TYPE_CHECKING:
    import numpy as np


MAX_DRAWS = 20
"""Maximum number of resampled settings that the config may reject; after that, the parent's settings are kept."""

WAIT = Decision("wait")


@dataclass
class _Member:
    """State of a population member; `generation` is the last one for which it has orders."""

    trial: str
    population: int
    index: int
    params: dict[str, Any]
    generation: int = 0
    score: float | None = None
    steps: int = 0
    arrived: bool = False
    has_diverged: bool = False
    orders: ExploitOrders | None = None


class Populations:
    """Scheduling rule of PBT and PB2, for all populations of a run.

    After a kill, decisions are restored from the lineage (the log of past generations). Members that were already
    waiting at the next generation train up to that point again.

    Args:
        settings: Settings of the scheduler.
        trials: All trials of the run, in order.
        lineage: The run's lineage.
        initial: Initial settings of each member, by trial and path below `config`.
        check: Function that raises SpecError for settings that are invalid in a trial's config.
    """

    def __init__(
        self,
        settings: PbtConfig | Pb2Config,
        trials: Sequence[TrialSpec],
        lineage: Lineage,
        initial: Mapping[str, Mapping[str, Any]],
        check: Callable[[str, Mapping[str, Any]], object],
    ) -> None:
        self._settings = settings
        self._sign = 1.0 if settings.mode == "max" else -1.0
        self._lineage = lineage
        self._check = check
        self._populations: dict[int, list[_Member]] = {}
        self._history: list[Generation] = read_generations(lineage.run)
        self._released: dict[str, Decision] = {}
        known = newest_records(self._history)
        for trial in trials:
            assert trial.population is not None, "a trial of a population must have a population number"
            members = self._populations.setdefault(trial.population, [])
            member = _Member(trial.name, trial.population, len(members), dict(initial[trial.name]))
            if trial.name in known:
                member.generation, record = known[trial.name]
                member.params = dict(record.params)
                member.score = None if record.score is None else self._sign * record.score
                member.orders = self._orders(member.generation, record)
            members.append(member)
        self._by_trial = {member.trial: member for members in self._populations.values() for member in members}
        self._checkpoints = {trial.name: lineage.run / trial.name / "checkpoints" for trial in trials}
        for population, members in self._populations.items():
            if not any(member.trial in known for member in members):
                self._append(population, 0, [(member, "initial", None) for member in members])
        self._present: set[str] = set()

    def orders(self, trial: str) -> ExploitOrders | None:
        """Latest exploit-and-explore step decided for a population member; None before its first generation."""
        return self._by_trial[trial].orders

    def add(self, trial: str) -> None:
        """Adds a trial to its population, unless the trial has ended."""
        self._present.add(trial)

    def on_result(self, trial: str, time: float, score: float | None) -> Decision:
        """Records a result; a member that has reached its next generation waits, or receives `ExploitOrders` at once.

        Args:
            trial: Name of the trial.
            time: Steps of the trial, in the unit of the settings' interval.
            score: Score of the trial, where higher is better; None counts as the worst.
        """
        member = self._by_trial[trial]
        if member.arrived:
            return WAIT
        generation = int(time // self._settings.interval)
        if generation <= member.generation:
            return CONTINUE
        member.steps, member.score, member.has_diverged = int(time), _number(score), False
        checkpoint = newest_checkpoint_of(self._checkpoints[trial])
        self._lineage.keep_checkpoint(trial, member.generation + 1, checkpoint)
        return self._arrive(member)

    def diverged(self, trial: str) -> Decision:
        """Records that a population member has diverged; at the next generation it copies another member."""
        member = self._by_trial[trial]
        member.score, member.has_diverged = None, True
        return self._arrive(member)

    def record_restart(self, trial: str) -> None:
        """Records that a failed population member restarts.

        If the member was waiting at the end of a generation, it will have to reach that point again.
        """
        self._by_trial[trial].arrived = False

    def remove(self, trial: str) -> None:
        """Records the end of a population member; the others then neither wait for it nor copy it."""
        self._present.discard(trial)
        if self._settings.synchronous:
            self._decide_if_complete(self._by_trial[trial].population)

    def released(self) -> dict[str, Decision]:
        """Returns the decisions about waiting members that were made since the last call, and clears them."""
        released, self._released = self._released, {}
        return released

    def close(self) -> None:
        """Removes the checkpoints preserved for copying, once all population members have ended."""
        self._lineage.close()

    def _arrive(self, member: _Member) -> Decision:
        member.arrived = True
        if self._settings.synchronous:
            self._decide_if_complete(member.population)
        else:
            self._decide(member.population, member.generation + 1, [member], self._live(member.population))
        return self._released.pop(member.trial, WAIT)

    def _live(self, population: int) -> list[_Member]:
        return [member for member in self._populations[population] if member.trial in self._present]

    def _decide_if_complete(self, population: int) -> None:
        members = self._live(population)
        if members and all(member.arrived for member in members):
            generation = 1 + max(member.generation for member in members)
            self._decide(population, generation, members, members)

    def _decide(self, population: int, generation: int, judged: list[_Member], live: list[_Member]) -> None:
        """Decides on members at a generation: exploit and explore, recorded in the lineage.

        Args:
            population: The population's seed.
            generation: Generation that the members have reached.
            judged: The members that wait for a decision.
            live: All members with which the waiting members are compared.
        """
        best, worst = self._ends(live)
        taken: list[dict[str, Any]] = []
        decided: list[tuple[_Member, How, _Member | None]] = []
        for member in judged:
            draws = generator(population, "generation", generation, member.index)
            parent = best[int(draws.integers(len(best)))] if best else None
            must_copy = member.has_diverged
            if parent is None and must_copy:
                self._released[member.trial] = Decision("stop", "it diverged, and no other member can be copied")
                continue
            pays = parent is not None and member in worst and _rank(parent) > _rank(member)
            if parent is None or parent is member or not (pays or must_copy):
                decided.append((member, "kept", None))
                continue
            params, how = self._explored(population, generation, member, parent, taken, draws)
            taken.append(params)
            decided.append((member, how, parent))
            member.params = params
        if not decided:
            return
        line = self._append(population, generation, decided)
        for (member, _, _), record in zip(decided, line.members, strict=True):
            member.generation, member.arrived, member.has_diverged = generation, False, False
            member.orders = self._orders(generation, record)
            self._released[member.trial] = Decision("continue", orders=member.orders)
        self._forget_checkpoints()

    def _ends(self, live: Sequence[_Member]) -> tuple[list[_Member], list[_Member]]:
        """Ranks members: those that may be copied, best first, and those that may be replaced."""
        here = [member for member in live if member.arrived or member.score is not None]
        ranked = sorted(here, key=lambda member: (_rank(member), -member.index), reverse=True)
        size = min(math.ceil(len(ranked) * self._settings.quantile_fraction), len(ranked) // 2)
        best = [member for member in ranked[:size] if member.score is not None and self._checkpoint_of(member)]
        return best, ranked[len(ranked) - size :]

    def _checkpoint_of(self, member: _Member) -> int | None:
        """Newest generation at which a member's checkpoint is preserved."""
        for generation in (member.generation + 1, member.generation):
            if self._lineage.checkpoint(member.trial, generation).is_dir():
                return generation
        return None

    def _explored(
        self,
        population: int,
        generation: int,
        member: _Member,
        parent: _Member,
        taken: list[dict[str, Any]],
        draws: np.random.Generator,
    ) -> tuple[dict[str, Any], How]:
        for _ in range(MAX_DRAWS):
            if isinstance(self._settings, PbtConfig):
                params, how = explore(self._settings, parent.params, draws)
            else:
                assert parent.score is not None, "a member without a score cannot be a parent"
                score = self._sign * parent.score
                history = [line for line in self._history if line.population == population]
                params = dict(modelled(self._settings, history, generation, score, taken, draws))
                how = "modelled"
            try:
                self._check(member.trial, params)
            except SpecError:
                continue
            return params, how
        return dict(parent.params), "kept"

    def _append(
        self, population: int, generation: int, decided: Sequence[tuple[_Member, How, _Member | None]]
    ) -> Generation:
        is_offline = self._settings.time_attr == "sgd_steps"
        members = tuple(
            MemberRecord(
                trial=member.trial,
                score=None if member.score is None else self._sign * member.score,
                env_steps=0 if is_offline else member.steps,
                how=how,
                parent=None if parent is None else parent.trial,
                parent_generation=None if parent is None else self._checkpoint_of(parent),
                params=dict(member.params),
                sgd_steps=member.steps if is_offline else None,
            )
            for member, how, parent in decided
        )
        line = Generation(population, generation, members)
        self._lineage.append(line)
        self._history.append(line)
        return line

    def _orders(self, generation: int, record: MemberRecord) -> ExploitOrders | None:
        if generation == 0:
            return None
        parent = None
        if record.parent is not None and record.parent_generation is not None:
            parent = str(self._lineage.checkpoint(record.parent, record.parent_generation))
        return ExploitOrders(generation, record.parent, parent, dict(record.params))

    def _forget_checkpoints(self) -> None:
        """Removes preserved checkpoints, except those in members' latest orders and of latest and next generations."""
        needed: set[tuple[str, int]] = set()
        for trial, (generation, record) in newest_records(self._history).items():
            needed |= {(trial, generation), (trial, generation + 1)}
            if record.parent is not None and record.parent_generation is not None:
                needed.add((record.parent, record.parent_generation))
        self._lineage.forget_checkpoints(needed)


def _rank(member: _Member) -> float:
    return -math.inf if member.score is None else member.score


def _number(score: float | None) -> float | None:
    return None if score is None or not math.isfinite(score) else float(score)


def explore(settings: PbtConfig, params: Mapping[str, Any], draws: np.random.Generator) -> tuple[dict[str, Any], How]:
    """Perturbs or resamples the hyperparameters of a parent (explore step of PBT).

    Each hyperparameter is resampled with `resample_probability`. Otherwise a number is multiplied by one of
    `perturbation_factors` and clipped to its range, and a choice is replaced by the one listed before or after it.
    Hyperparameters are processed in alphabetical order of their paths, so that their order in the spec has no effect.

    Args:
        settings: Settings of the scheduler.
        params: The parent's settings, by path.
        draws: Generator of random draws.

    Returns:
        The new settings, and how they changed.
    """
    found: dict[str, Any] = {}
    ways: set[How] = set()
    for path, space in sorted(settings.spaces.items()):
        resamples = draws.random() < settings.resample_probability or not _can_move(space, params[path])
        found[path] = (
            space.draw(draws) if resamples else _moved(space, params[path], settings.perturbation_factors, draws)
        )
        ways.add("resampled" if resamples else "perturbed")
    return found, "mixed" if len(ways) > 1 else next(iter(ways))


def _can_move(space: SearchSpace, value: Any) -> bool:
    if not space.kind.parameters:
        return value in space.arguments
    return isinstance(value, int | float) and not isinstance(value, bool)


def _moved(space: SearchSpace, value: Any, factors: tuple[float, float], draws: np.random.Generator) -> Any:
    if not space.kind.parameters:
        place = space.arguments.index(value) + (1 if draws.random() < 0.5 else -1)
        return space.arguments[min(max(place, 0), len(space.arguments) - 1)]
    return space.fitted(value * factors[int(draws.integers(2))])
