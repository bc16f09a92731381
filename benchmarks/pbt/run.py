"""Compares population-based training with random search, on the same ranges and env steps, with several seeds of each.

    python -m benchmarks.pbt.run [--spec FILE ...] [--seeds N] [--json FILE]

For each seed, one side trains a population, and the other as many independent trials, with settings drawn once from the
ranges that the population may explore. The score is the evaluation of the final policy. The best trial of a side is the
one with the highest training return at the end, so the choice does not depend on the reported score.
"""

from __future__ import annotations

import copy
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.peers import ROOT, parser_of, print_row, spread, surroundings, write_json
from rlrun.experiments.launch.run import run
from rlrun.experiments.runs.events import RunEvent, TrialEvent
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.trial.trial_directory import TrialDirectory

SPECS = tuple(sorted((ROOT / "configs" / "pbt").glob("*.yaml")))
FINAL, TRAINING = "evaluation/episode_return_mean", "episode_return_mean"

Groups = list[list[dict[str, Any]]]
"""The last rows of the trials of each seed."""


def main() -> None:
    """Compares the specs one after another."""
    parser = parser_of(str(__doc__))
    parser.add_argument("--spec", type=Path, nargs="+", default=SPECS, help="specs with a scheduler pbt or pb2")
    parser.add_argument("--seeds", type=int, default=5, help="populations, and random searches of the same size")
    options = parser.parse_args()
    surroundings(("torch", "ray", "gymnasium"))
    found = {str(spec): compared(spec, options.seeds) for spec in options.spec}
    write_json(options.json, found)


def compared(spec: Path, seeds: int) -> dict[str, Groups]:
    """Runs both sides of a spec, prints their scores, and returns the last rows."""
    ((name, entry),) = yaml.safe_load(spec.read_text()).items()
    found: dict[str, Groups] = {}
    print(f"\n{spec.stem}: final evaluation, median over {seeds} seeds (range)", flush=True)
    print_row("", "best of each", "median of each", "worst of each", "env steps", "minutes", width=26, name_width=14)
    sides = {"population": [{name: {**entry, "seeds": seeds}}], "random search": random_searches(name, entry, seeds)}
    for side, experiments in sides.items():
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            trials = run(experiments, runs_dir=directory, executor="ray", watch=Failures())
            found[side] = grouped(trials)
        minutes = (time.monotonic() - began) / 60
        steps = sum(row["env_steps"] for group in found[side] for row in group)
        values = [[statistic(group) for group in found[side]] for statistic in (best, middle, worst)]
        cells = [f"{statistics.median(own):.1f} {spread(own)}" for own in values]
        print_row(side, *cells, f"{steps:,}", f"{minutes:.1f}", width=26, name_width=14)
    print_verdict(found)
    return found


def random_searches(name: str, entry: dict[str, Any], seeds: int) -> list[dict[str, Any]]:
    """Returns an experiment for each seed that draws the population's settings once, with as many trials."""
    searches = []
    for seed in range(seeds):
        search = copy.deepcopy(entry)
        (settings,) = search.pop("scheduler").values()
        ranges = settings.get("mutations") or {
            path: {"loguniform" if path in settings.get("log_scale", ()) else "uniform": bounds}
            for path, bounds in settings["bounds"].items()
        }
        for path, space in ranges.items():
            *outer, last = path.split(".")
            place = search.setdefault("config", {})
            for key in outer:
                place = place.setdefault(key, {})
            place[last] = space
        searches.append({f"{name}-random-{seed}": {**search, "seeds": [seed]}})
    return searches


def grouped(trials: Sequence[TrialResult]) -> Groups:
    """Returns the last rows by seed: the seed of the population, or the seed that all trials of a random search share.

    Raises:
        SystemExit: A trial failed.
    """
    groups: dict[int, list[dict[str, Any]]] = {}
    for trial in trials:
        if trial.status != "TERMINATED":
            raise SystemExit(f"{trial.name} ended as {trial.status}: {trial.error}")
        spec = RunDirectory.open(trial.directory.parent).trial(trial.name)
        seed = spec.seed if spec.population is None else spec.population
        record = TrialDirectory(trial.directory).read_record()
        params = {} if record is None else record.params
        groups.setdefault(seed, []).append({**trial.last_result, "trial": trial.name, "params": params})
    return list(groups.values())


def best(group: Sequence[dict[str, Any]]) -> float:
    """Returns the final evaluation of the trial with the highest training return."""
    chosen = max(group, key=lambda row: row[TRAINING] if row[TRAINING] is not None else float("-inf"))
    return float(chosen[FINAL])


def middle(group: Sequence[dict[str, Any]]) -> float:
    """Returns the median of the final evaluations."""
    return float(statistics.median(row[FINAL] for row in group))


def worst(group: Sequence[dict[str, Any]]) -> float:
    """Returns the minimum of the final evaluations."""
    return float(min(row[FINAL] for row in group))


def print_verdict(found: dict[str, Groups]) -> None:
    """Prints the number of seeds in which the population beats random search, by increasingly strict criteria."""
    population, search = found["population"], found["random search"]
    trials = [row[FINAL] for group in search for row in group]
    members = [row[FINAL] for group in population for row in group]
    usual = statistics.median(trials)
    passed = {
        f"its best member is above {usual:.1f}, the median of all random trials": [
            best(group) > usual for group in population
        ],
        "its median member is, too": [middle(group) > usual for group in population],
        "its best member is no worse than the best of the random search with its seed": [
            best(group) >= best(other) for group, other in zip(population, search, strict=True)
        ],
    }
    print(f"of {len(population)} populations:")
    for words, verdicts in passed.items():
        print(f"  {sum(verdicts)}: {words}")
    wins = sum(member > trial for member in members for trial in trials)
    draws = sum(member == trial for member in members for trial in trials)
    share = (wins + draws / 2) / (len(members) * len(trials))
    print(f"any of their members beats any random trial with probability {share:.2f}", flush=True)


class Failures:
    """Reports failed trials immediately."""

    def __call__(self, event: RunEvent) -> None:
        """Prints the error."""
        if isinstance(event, TrialEvent) and event.status == "ERROR":
            print(f"{event.trial}: {event.error}", flush=True)


if __name__ == "__main__":
    main()
