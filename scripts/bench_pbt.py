"""Compares population-based training with random search: as many env steps, the same ranges, several seeds of each.

    python scripts/bench_pbt.py [--spec FILE ...] [--seeds N] [--json FILE]

Each seed is a population on one side; on the other it is as many trials, each with settings drawn once from the ranges
in which the population may move. What counts is the evaluation of the final policy. The best of either is the one with
the best return in training at the end, so that nobody is chosen by what is then reported.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from bench_peers import ROOT, machine, spread

from rlrun.launch.run import run
from rlrun.runs.events import RunEvent, TrialEvent
from rlrun.runs.run_directory import RunDirectory
from rlrun.runs.trial_result import TrialResult
from rlrun.trial.trial_directory import TrialDirectory

SPECS = tuple(sorted((ROOT / "configs" / "pbt").glob("*.yaml")))
FINAL, TRAINING = "evaluation/episode_return_mean", "episode_return_mean"

Groups = list[list[dict[str, Any]]]
"""For each seed the last rows of its trials."""


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--spec", type=Path, nargs="+", default=SPECS, help="specs with a scheduler pbt or pb2")
    parser.add_argument("--seeds", type=int, default=5, help="populations, and random searches of the same size")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every trial's last row to this file")
    options = parser.parse_args()
    print(f"machine: {machine()}", flush=True)
    found = {str(spec): compared(spec, options.seeds) for spec in options.spec}
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


def compared(spec: Path, seeds: int) -> dict[str, Groups]:
    """Runs both sides of a spec, prints how they did and returns the last rows."""
    ((name, entry),) = yaml.safe_load(spec.read_text()).items()
    found: dict[str, Groups] = {}
    print(f"\n{spec.stem}: final evaluation, median over {seeds} seeds (range)", flush=True)
    print(f"{'':14}{'best of each':24}{'median of each':24}{'worst of each':24}{'env steps':>12}{'minutes':>9}")
    sides = {"population": [populations(name, entry, seeds)], "random search": random_searches(name, entry, seeds)}
    for side, experiments in sides.items():
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            trials = run(experiments, runs_dir=directory, executor="ray", watch=Failures())
            found[side] = grouped(trials)
        minutes = (time.monotonic() - began) / 60
        steps = sum(row["env_steps"] for group in found[side] for row in group)
        cells = [summary([statistic(group) for group in found[side]]) for statistic in (best, middle, worst)]
        print(f"{side:14}{''.join(f'{cell:24}' for cell in cells)}{steps:>12,}{minutes:>9.1f}", flush=True)
    print_verdict(found)
    return found


def populations(name: str, entry: dict[str, Any], seeds: int) -> dict[str, Any]:
    return {name: {**entry, "seeds": seeds}}


def random_searches(name: str, entry: dict[str, Any], seeds: int) -> list[dict[str, Any]]:
    """Returns for each seed an experiment that draws once what the population changes, for as many trials."""
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
    """Returns the last rows by seed: the population's, or the one that all trials of a random search have.

    Raises:
        SystemExit: If a trial has failed.
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
    """Returns the final evaluation of the trial that did best in training."""
    chosen = max(group, key=lambda row: row[TRAINING] if row[TRAINING] is not None else float("-inf"))
    return float(chosen[FINAL])


def middle(group: Sequence[dict[str, Any]]) -> float:
    return float(statistics.median(row[FINAL] for row in group))


def worst(group: Sequence[dict[str, Any]]) -> float:
    return float(min(row[FINAL] for row in group))


def summary(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f} {spread(values)}"


def print_verdict(found: dict[str, Groups]) -> None:
    """Prints in how many seeds the population beats random search, by measures of growing severity."""
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
    """Says at once when a trial fails."""

    def __call__(self, event: RunEvent) -> None:
        """Prints the error."""
        if isinstance(event, TrialEvent) and event.status == "ERROR":
            print(f"{event.trial}: {event.error}", flush=True)


if __name__ == "__main__":
    main()
