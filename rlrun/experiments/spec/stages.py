"""Stages: a chain of experiments per seed, each of which starts from the final weights of the previous stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import model_validator

from rlrun.engine.messages.explain import Location, Mistake, shown
from rlrun.engine.settings.config import ConfigModel, NonEmptyText

STAGES = "stages"
"""Key of an entry that stands for several experiments, its stages."""


class BeginsConfig(ConfigModel):
    """Settings for starting from an earlier experiment: each seed continues from the final state of the same seed."""

    after: NonEmptyText
    """Earlier experiment of the same run whose final weights and filters each seed starts with."""
    weights: bool = True
    """Whether each seed starts with the earlier experiment's weights and filters; false for a stage that only runs
    afterwards, for example to learn from the data that the earlier experiment recorded."""
    optimizers: bool = False
    """Whether each seed also starts with the earlier experiment's optimizer state, if the algorithm is the same."""
    filters: Literal["frozen", "running"] = "frozen"
    """Observation filter: frozen, or running, which updates it with new observations."""
    recorded: tuple[NonEmptyText, ...] = ()
    """Data sets (`output`) of earlier stages; each seed reads its own data set as `input`. Set automatically in
    `stages`."""

    @model_validator(mode="after")
    def _optimizers_need_weights(self) -> Self:
        if self.optimizers and not self.weights:
            raise ValueError(
                "optimizers: optimizer state cannot be taken over without the weights; set weights: true, or "
                "optimizers: false"
            )
        return self


@dataclass(frozen=True)
class Stage:
    """One stage of a multi-stage spec entry, as a separate entry.

    Attributes:
        name: Name of the experiment, `entry.stage`.
        data: The stage's own entry, complete, for `check_entry`.
        within: Location of the stage in the outer entry.
        shared: Keys that the stage inherits from the outer entry.
    """

    name: str
    data: Any
    within: Location
    shared: frozenset[str]

    def location(self, inside: Location) -> Location:
        """Converts a location in the stage's `data` to a location in the entry as written."""
        return inside if inside and inside[0] in self.shared else (*self.within, *inside)


def stages_of(name: str, entry: Mapping[str, Any]) -> tuple[list[Stage], list[Mistake]]:
    """Expands a spec entry with stages to one entry per stage, in order.

    A stage inherits the keys of the outer entry that it does not set itself. Each stage except the first starts after
    the previous one.

    Args:
        name: Name of the entry.
        entry: The entry, with the key `stages`.

    Returns:
        The stages, and mistakes with locations in the entry.
    """
    written = entry[STAGES]
    if not isinstance(written, Mapping) or not written:
        what = f"must be a mapping of names to stages, in order, not {shown(written)}"
        return [], [Mistake((STAGES,), what)]
    if wrong := [
        Mistake((STAGES, key), "must be a mapping") for key in written if not isinstance(written[key], Mapping)
    ]:
        return [], wrong
    if "output" in entry:
        what = "stages cannot share one output: set output in the stage whose steps are to be recorded"
        return [], [Mistake(("output",), what)]
    return list(_chained(name, entry, written)), []


def _chained(name: str, entry: Mapping[str, Any], written: Mapping[str, Mapping[str, Any]]) -> Iterator[Stage]:
    before, outputs = None, []
    for key, own in written.items():
        shared = {outer: value for outer, value in entry.items() if outer != STAGES and outer not in own}
        data = {**shared, **own}
        if before is not None:
            begins = own.get("begins", {})
            recorded = {"recorded": outputs.copy()} if outputs else {}
            data["begins"] = {"after": before, **recorded, **begins} if isinstance(begins, Mapping) else begins
        outputs += [own["output"]] if "output" in own else []
        before = f"{name}.{key}"
        yield Stage(before, data, (STAGES, key), frozenset(shared))
