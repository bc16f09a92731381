"""Journal of a search: all suggestions and results, in search.jsonl, from which the search can be resumed.

Since searchers are stateless, the journal is the only state. An interrupted search is restored line by line, without
suggesting anything again, and continues with the same configuration as if it had not been interrupted.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rlrun.engine.checkpoint.durable import append_line
from rlrun.engine.checkpoint.plain_json import load_json
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.experiments.search.searchers.dimension import Dimension
from rlrun.experiments.search.searchers.optuna import OptunaStudyFile
from rlrun.experiments.search.searchers.searcher import Configuration, History, Searcher

JOURNAL_FILE = "search.jsonl"
"""File name of the journal in the run's directory."""
ATTEMPTS = 100
"""Maximum number of attempts if suggestions are invalid for the config; the second half of them is random."""

Check = Callable[[Configuration], object]
"""Type of a function that raises SpecError for an invalid configuration."""


class JournaledSearcher:
    """Searcher that writes its suggestions and results to a journal before it uses them.

    Configurations are numbered from 0.

    Attributes:
        history: Configurations and scores of the search so far.
    """

    def __init__(
        self,
        searcher: Searcher,
        path: Path,
        head: Mapping[str, Any],
        dimensions: tuple[Dimension, ...],
        check: Check,
        study_file: OptunaStudyFile | None = None,
    ) -> None:
        """Restores the search from its journal, or starts a journal.

        Args:
            searcher: The searcher.
            path: The journal.
            head: Description of the search in the journal's first line, with `mode`, `seed` and `startup_trials`; a
                resume requires the same description.
            dimensions: The search spaces.
            check: Function that raises an error for an invalid suggestion.
            study_file: Optuna study that is kept up to date for other programs; None to write no study.

        Raises:
            UsageError: The journal belongs to another search, or is damaged.
            OutOfResources: The disk is full.
        """
        self.history = History(tuple(each for each in dimensions if not each.is_constant), head["mode"])
        self._searcher = searcher
        self._path = path
        self._head = json.loads(json.dumps(head))
        self._dimensions = dimensions
        self._check = check
        self._study_file = study_file
        self._notes: list[str] = []
        self._refused = False
        lines = self._read()
        if lines:
            self._replay(lines)
        else:
            self._append(self._head)
        if study_file is not None:
            study_file.write(self.history)

    @property
    def suggested(self) -> dict[int, Configuration]:
        """Configurations suggested so far, by number."""
        return {number: dict(values) for number, values in self.history.configurations.items()}

    def suggest(self, number: int) -> Configuration:
        """Suggests the configuration with a given number; repeated calls with a number return the same configuration.

        Raises:
            UsageError: No suggestion is a valid configuration.
            OutOfResources: The disk is full.
        """
        known = self.history.configurations
        if number not in known:
            (attempt, values), moment = self._accepted(number), time.time()
            by_name = {each.name: values[each.location] for each in self._dimensions}
            self._append({"suggest": number, "attempt": attempt, "at": moment, "values": by_name})
            known[number], self.history.began[number] = values, moment
            if self._study_file is not None:
                self._study_file.add(self.history, number)
        return dict(known[number])

    def observe(self, number: int, budget: float, score: float) -> None:
        """Records a configuration's intermediate score at a budget; only BOHB uses such scores.

        Args:
            number: Number of the configuration.
            budget: Training progress, such as env steps, at which the score was reached; only scores at equal budgets
                are compared with each other.
            score: Score at this budget; ignored if not finite.
        """
        if not self._searcher.uses_intermediate_results or not math.isfinite(score):
            return
        seen = self.history.observations.get(number, {})
        if seen.get(budget) != score:
            self._append({"observe": number, "budget": budget, "score": score})
            self._observed(number, budget, score)

    def complete(self, number: int, score: float | None) -> None:
        """Records the final score of a configuration; a later call replaces it.

        Args:
            number: Number of the configuration.
            score: Final score, which is the mean over seeds; None or a non-finite number means a failure.
        """
        if score is not None and not math.isfinite(score):
            score = None
        scores = self.history.scores
        if number not in scores or scores[number] != score:
            moment = time.time()
            self._append({"complete": number, "at": moment, "score": score})
            scores[number], self.history.ended[number] = score, moment
            if self._study_file is not None:
                self._study_file.finish(self.history, number)

    def notes(self) -> list[str]:
        """Returns the messages for the user that were added since the last call, and clears them."""
        notes, self._notes = self._notes, []
        return notes

    def _accepted(self, number: int) -> tuple[int, Configuration]:
        """Suggests a new valid configuration; returns the number of attempts as well."""
        for attempt in range(ATTEMPTS):
            values = self._propose(number, attempt)
            try:
                self._check(values)
            except SpecError as error:
                refusal = error
            else:
                return attempt, values
            if not self._refused:
                self._refused = True
                self._notes.append(f"replaced an invalid suggestion of the searcher: {refusal}")
        raise UsageError(f"{ATTEMPTS} suggestions in a row were invalid; the last one: {refusal}")

    def _propose(self, number: int, attempt: int) -> Configuration:
        """Suggests a configuration as a function of the history, the seed, the number and the attempt."""
        seed = child_seed(self._head["seed"], "search", number, attempt)
        if attempt >= ATTEMPTS // 2 or self.history.scored() < self._head["startup_trials"]:
            generator = np.random.default_rng(seed)
            return {each.location: each.space.draw(generator) for each in self._dimensions}
        chosen = self._searcher.propose(self.history, seed % 2**32) if self.history.dimensions else {}
        return {
            each.location: chosen[each.location] if each.location in chosen else each.value(each.first)
            for each in self._dimensions
        }

    def _observed(self, number: int, budget: float, score: float) -> None:
        self.history.observations.setdefault(number, {})[budget] = score

    def _replay(self, lines: list[dict[str, Any]]) -> None:
        """Restores the search from the journal, and checks that the searcher would repeat the last suggestion."""
        head, *events = lines
        if differing := [name for name in {**head, **self._head} if head.get(name) != self._head.get(name)]:
            raise UsageError(
                f"{self._path}: was recorded by a search with a different {' and '.join(differing)}; start a new run"
            )
        last = max((place for place, event in enumerate(events) if "suggest" in event), default=-1)
        history = self.history
        for place, event in enumerate(events):
            match event:
                case {"suggest": int(number), "attempt": int(attempt), "at": moment, "values": values}:
                    recorded = {each.location: each.read(values[each.name]) for each in self._dimensions}
                    if place == last and self._propose(number, attempt) != recorded:
                        self._notes.append(
                            "the searcher's suggestions differ from the recorded ones, perhaps because its "
                            "version changed; keeping the recorded suggestion"
                        )
                    history.configurations[number], history.began[number] = recorded, moment
                case {"observe": int(number), "budget": budget, "score": score}:
                    self._observed(number, budget, score)
                case {"complete": int(number), "score": score, "at": moment}:
                    history.scores[number], history.ended[number] = score, moment
                case _:
                    raise UsageError(f"{self._path}:{place + 2}: cannot parse: {event}")

    def _read(self) -> list[dict[str, Any]]:
        """Loads the journal; a last line truncated by a kill is removed."""
        try:
            *whole, torn = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        if torn:
            os.truncate(self._path, sum(len(line) + 1 for line in whole))
        lines = []
        for number, line in enumerate(whole, start=1):
            try:
                lines.append(load_json(line))
            except ValueError as error:
                raise UsageError(f"{self._path}:{number}: cannot parse: {error}") from None
        return lines

    def _append(self, event: Mapping[str, Any]) -> None:
        """Appends a line to the journal, synced to disk."""
        append_line(self._path, json.dumps(event).encode())
