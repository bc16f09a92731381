"""What regression runs say: a case for each seed, a verdict for each experiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlrun.regression.judgement import Comparison
from rlrun.report.statistics import interquartile_mean

ROOM = 0.1
"""Part of the distance between the floor and what is expected by which seeds may stay below the floor without a word.

Where all published seeds reach the most that there is, their interval has no width and the floor is that ceiling: with
few seeds any slip of one would be warned of.
"""


@dataclass(frozen=True)
class Case:
    """How one seed of one configuration did.

    Attributes:
        trial: Name of the trial.
        seed: Its root seed.
        configuration: What varies between the experiment's configurations, as a text; "" where nothing does.
        directory: The trial's directory.
        env_steps: Env steps that its training took.
        seconds: Seconds that its training took: the trial's own ``time_total_s``.
        values: Metric -> the value reached, None where there is none.
        expected: Metric -> the least value.
        error: Why there is nothing to judge, "" where there is.
    """

    trial: str
    seed: int
    configuration: str
    directory: Path
    env_steps: int
    seconds: float
    values: dict[str, float | None]
    expected: dict[str, float]
    error: str = ""

    @property
    def reached(self) -> bool:
        """Whether every metric has a value and it is high enough."""
        values = [(self.values.get(metric), least) for metric, least in self.expected.items()]
        return not self.error and all(value is not None and value >= least for value, least in values)

    @property
    def outcome(self) -> str:
        """One word: reached, missed or failed."""
        return "failed" if self.error else "reached" if self.reached else "missed"

    @property
    def message(self) -> str:
        """What was reached and expected in one sentence, or the error."""
        if self.error:
            return self.error
        found = [
            f"{metric} is {'without a value' if value is None else f'{value:g}'}, expected at least {least:g}"
            for metric, least in self.expected.items()
            for value in (self.values.get(metric),)
        ]
        return f"{'; '.join(found)} (seed {self.seed}, {self.env_steps:,} env steps, {self.seconds:.1f} s of training)"


@dataclass(frozen=True)
class Verdict:
    """Whether an experiment holds what its spec expects; of a control, whether its gate keeps a frozen policy out.

    Attributes:
        experiment: Name of the experiment.
        cases: A case for each seed of each configuration.
        needed: How many seeds of each configuration must reach what is expected.
        control: Whether the policies were kept from learning, so that reaching it is a mistake of the gate.
        area: How the learning curve's area compares with the baseline's, None without a baseline.
        speed: How the env steps per second compare with the baseline's, None without a baseline.
        holds_speed: Whether a speed that is worse fails the experiment.
        floor: Well below which (`ROOM`) the seeds' interquartile mean is worth a warning, None for no warning.
    """

    experiment: str
    cases: tuple[Case, ...]
    needed: int
    control: bool = False
    area: Comparison | None = None
    speed: Comparison | None = None
    holds_speed: bool = False
    floor: float | None = None

    @property
    def warning(self) -> str:
        """What is worth a look although nothing fails for it, in one sentence; "" where there is nothing."""
        if self.floor is None or self.control:
            return ""
        means = [iqm_of(cases) for cases in self._by_configuration()]
        least = max((value for case in self.cases for value in case.expected.values()), default=self.floor)
        bound = self.floor - ROOM * max(0.0, self.floor - least)
        low = [mean for mean in means if mean is not None and mean < bound]
        if not low:
            return ""
        room = f" by more than {ROOM:.0%} of its distance to {least:g}" if bound < self.floor else ""
        return f"the seeds' interquartile mean is {min(low):g}, below the regression floor {self.floor:g}{room}"

    @property
    def reached(self) -> bool:
        """Whether enough seeds of every configuration reached what is expected."""
        return all(self._enough(cases) for cases in self._by_configuration())

    @property
    def is_too_weak(self) -> bool:
        """Whether policies that do not learn satisfy the gate, with any of the configurations."""
        return self.control and any(self._enough(cases) for cases in self._by_configuration())

    @property
    def failed_cases(self) -> int:
        """Number of cases that could not be judged."""
        return sum(bool(case.error) for case in self.cases)

    @property
    def passed(self) -> bool:
        """Whether all is well.

        A seed that misses is bad luck, and `needed` allows for it. One that fails is a fault, and nothing excuses it.
        """
        return not self.message

    @property
    def message(self) -> str:
        """Why the experiment does not pass, in one sentence; "" where it does."""
        if self.failed_cases:
            return f"{self.failed_cases} of {len(self.cases)} trials failed"
        if self.is_too_weak:
            return f"the gate is too weak: policies that do not learn pass it ({self.summary})"
        if not self.control and not self.reached:
            return f"below what the spec expects ({self.summary})"
        if self.area is not None and self.area.judgement == "worse":
            return f"learns worse than the baseline ({self.area})"
        if self.holds_speed and self.speed is not None and self.speed.judgement == "worse":
            return f"slower than the baseline ({self.speed})"
        return ""

    @property
    def summary(self) -> str:
        """How many seeds reached what is expected and how many must, for each configuration."""
        parts = []
        for cases in self._by_configuration():
            seeds = f"{len(cases)} {'frozen ' if self.control else ''}seed{'s' if len(cases) != 1 else ''}"
            of = f" with {cases[0].configuration}" if cases[0].configuration else ""
            enough = f"{self.needed} {'would do' if self.control else 'must'}"
            parts.append(f"{sum(case.reached for case in cases)} of {seeds}{of} reached it, {enough}")
        return "; ".join(parts)

    def _by_configuration(self) -> list[list[Case]]:
        names = dict.fromkeys(case.configuration for case in self.cases)
        return [[case for case in self.cases if case.configuration == name] for name in names]

    def _enough(self, cases: list[Case]) -> bool:
        return sum(case.reached for case in cases) >= self.needed


def iqm_of(cases: Sequence[Case]) -> float | None:
    """Returns the interquartile mean of what seeds reached of the one metric; None where one has no value."""
    values = [value for case in cases for value in case.values.values()]
    known = [value for value in values if value is not None]
    return float(interquartile_mean(known)) if known and len(known) == len(values) else None


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """Returns a verdict as JSON-able data."""
    return {
        "experiment": verdict.experiment,
        "passed": verdict.passed,
        "control": verdict.control,
        "message": verdict.message,
        "warning": verdict.warning,
        "cases": [
            {
                "trial": case.trial,
                "seed": case.seed,
                "configuration": case.configuration,
                "directory": str(case.directory),
                "outcome": case.outcome,
                "env_steps": case.env_steps,
                "seconds": case.seconds,
                "values": case.values,
                "expected": case.expected,
                "error": case.error,
            }
            for case in verdict.cases
        ],
        "area": None if verdict.area is None else verdict.area.to_data(),
        "speed": None if verdict.speed is None else verdict.speed.to_data(),
    }
