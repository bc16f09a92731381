"""Data on one run for a report page: spec, machine, best trial, sweep, and recordings."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rlrun.engine.settings.commented_yaml import flow_yaml
from rlrun.engine.settings.metric import Mode
from rlrun.experiments.runs.trial_status import is_over
from rlrun.experiments.spec.search_space import find_spaces
from rlrun.experiments.spec.seats import SEAT_KEYS
from rlrun.experiments.spec.trial_names import short_names
from rlrun.experiments.spec.tuning import kind_of, kind_settings
from rlrun.experiments.trial.trial_directory import EPISODES_FILE, PICTURES
from rlrun.report.action_kinds import differing_line
from rlrun.report.configurations import Group, groups_of, is_number, value_text
from rlrun.report.expectation import expectation_of, expectation_text, reached_by
from rlrun.report.families import Family, families
from rlrun.report.importance import importance
from rlrun.report.metric_grid import phases
from rlrun.report.page_curves import rounded
from rlrun.report.plain_json import fields_of
from rlrun.report.reading import RunView
from rlrun.report.step_axis import ENV_STEPS
from rlrun.report.summary import best_trial, shape_text, status_text, summarise, varied_text
from rlrun.report.switch import switches
from rlrun.report.timeline import history, timeline

LOGARITHMIC_FROM = 10.0
"""Ratio of a parameter's largest to smallest value from which its axis is logarithmic, unless a search space
decides."""

MOST_TICKS = 6
"""Maximum number of distinct values of a numeric parameter at which its axis has one tick per value, as for a grid."""

VIDEOS = {".mp4": "video/mp4", ".gif": "image/gif"}
"""Suffixes of the videos that are looked for in a run's directory and in those of its trials."""

LARGEST_VIDEO_BYTES = 1_500_000
"""Largest size of an embedded video in bytes; for a larger one, the page only names the file."""


def run_data(run: RunView, metric: str, mode: Mode) -> dict[str, Any]:
    """Data on one run for a report page.

    Args:
        run: The run, with the columns of the metric and of its timings.
        metric: Metric that ranks the trials.
        mode: Whether higher or lower values of this metric are better.
    """
    groups = groups_of(run)
    best, damaged = best_trial(run, metric, mode)
    logarithmic = logarithmic_parameters(run.spec)
    judged = next((trial for trial in run.trials if best is not None and trial.name == best.trial), None)
    return {
        **fields_of(run, "name", "path", "algorithm", "env"),
        "opponent": (run.spec.get("evaluation") or {}).get("against"),
        **fields_of(run.table, "created", "command", "versions", "machine", "commits", "after"),
        "shape": shape_text(run),
        "labels": asdict(run.labels),
        "status": status_text(run.trials) or "no trials yet",
        "is_done": all(is_over(trial.status) for trial in run.trials),
        "spec": readable_spec(run.table.experiment, run.spec) if run.spec else "",
        "varied": varied_text(run),
        "problems": [*run.problems, *damaged],
        "kinds": differing_line({trial.name: trial.final for trial in run.trials}),
        "best": best and asdict(best),
        "phases": phases(judged) if judged is not None else [],
        "speed": judged.last_result.get("env_steps_per_s") if judged is not None else None,
        "pictures": pictures_of(run, None if best is None else best.trial),
        "videos": videos_of(run),
        "episodes": episodes_of(run, None if best is None else best.trial),
        "expect": _expect_data(run, groups),
        "sweep": sweep_data(groups, metric, mode, logarithmic),
        "timeline": [asdict(span) for span in timeline(run)],
        "families": [family_data(family, logarithmic) for family in families(run, metric, mode)],
        "stops": [asdict(stop) for stop in run.stops],
        "switches": [{**asdict(one), "drop": one.drop} for one in switches(run)],
        "scheduler": kind_of(run.spec.get("scheduler")),
        "time_attr": str(kind_settings(run.spec.get("scheduler")).get("time_attr") or ENV_STEPS),
    }


def pictures_of(run: RunView, best: str | None) -> list[dict[str, str]]:
    """Pictures of the policies of the best trial, or else of the first trial with pictures, as data URLs.

    Args:
        run: The run.
        best: Name of the best trial; None if there is none yet.
    """
    for trial in sorted(run.trials, key=lambda trial: trial.name != best):
        found = sorted(trial.directory.glob(PICTURES))
        if found:
            return [{"trial": trial.name, "address": _data_url(path, "image/svg+xml")} for path in found]
    return []


def videos_of(run: RunView) -> list[dict[str, str | None]]:
    """Videos in the directories of a run and its trials; large ones have no data URL, since they are not embedded."""
    places = [run.path, *(trial.directory for trial in run.trials)]
    found = sorted(path for place in places for path in place.glob("*") if path.suffix in VIDEOS)
    return [
        {
            "file": str(path.relative_to(run.path)),
            "kind": VIDEOS[path.suffix].partition("/")[0],
            "address": _data_url(path, VIDEOS[path.suffix]) if path.stat().st_size <= LARGEST_VIDEO_BYTES else None,
        }
        for path in found
    ]


def episodes_of(run: RunView, best: str | None) -> dict[str, str] | None:
    """Sample episodes, as text, of the best trial, or else of the first trial that has any; None if there are none."""
    for trial in sorted(run.trials, key=lambda trial: trial.name != best):
        path = trial.directory / EPISODES_FILE
        if path.exists():
            return {"trial": trial.name, "text": path.read_text(errors="replace")}
    return None


def _data_url(path: Path, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def _expect_data(run: RunView, groups: Sequence[Group]) -> dict[str, Any] | None:
    expect = expectation_of(run.spec)
    if expect is None:
        return None
    found = reached_by(run, groups)
    return {
        "text": expectation_text(expect),
        "rows": [{**asdict(reached), **fields_of(reached, "passed", "missed")} for reached in found],
    }


LONGEST_LINE = 90
UNDERSCORES_FROM = 10_000


def readable_spec(name: str, spec: Mapping[str, Any]) -> str:
    """Formats an experiment's spec as YAML: lists and short mappings on one line, without null settings.

    Examples:
        >>> print(readable_spec("pole", {"lr": [[0, 1e-05], [4000, 0.0]], "stop": {"env_steps": 40000.0}, "env": None}))
        pole:
          lr: [[0, 1.0e-5], [4000, 0.0]]
          stop: {env_steps: 40_000}
    """
    return "\n".join([f"{flow_yaml(name)}:", *_lines(spec, "  ")])


def _lines(settings: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in settings.items():
        if value is None:
            continue
        line = f"{indent}{flow_yaml(key)}: {_flow(value)}"
        if isinstance(value, Mapping) and value and (len(line) > LONGEST_LINE or key == "config"):
            yield f"{indent}{flow_yaml(key)}:"
            yield from _lines(value, indent + "  ")
        else:
            yield line


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow_yaml(k)}: {_flow(item)}" for k, item in value.items() if item is not None) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, float) and value.is_integer() and abs(value) >= UNDERSCORES_FROM:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:_}" if abs(value) >= UNDERSCORES_FROM else str(value)
    if isinstance(value, float):  # YAML 1.1 would read 1e-05 as a string
        return re.sub(r"^(-?\d+)(\.\d+)?e([-+])0?", lambda m: f"{m[1]}{m[2] or '.0'}e{m[3]}", repr(value))
    return flow_yaml(value)


def sweep_data(
    groups: Sequence[Group], metric: str, mode: Mode, logarithmic: Mapping[str, bool]
) -> dict[str, Any] | None:
    """Data on a sweep: axes, scores, parameter importance and history of the best score; None if no parameter varies.

    Args:
        groups: The configurations, in the order of the run.
        metric: Metric that ranks the trials.
        mode: Whether higher or lower values of this metric are better.
        logarithmic: Whether the axis of a parameter is logarithmic, by name.
    """
    scored = [
        (summary.params, summary.mean.value, summary.label)
        for summary in summarise(groups, metric, mode)
        if summary.mean is not None and summary.params
    ]
    names = list(dict.fromkeys(name for params, _, _ in scored for name in params))
    found = [axis_data(name, [params.get(name) for params, _, _ in scored], logarithmic) for name in names]
    axes = [axis for axis in found if axis is not None]
    if len(scored) < 2 or not axes:
        return None
    scores = {label: score for _, score, label in scored}
    return {
        "axes": axes,
        "scores": rounded([score for _, score, _ in scored]),
        "labels": [label for _, _, label in scored],
        "importance": asdict(importance([params for params, _, _ in scored], [score for _, score, _ in scored])),
        "history": [asdict(step) for step in history(groups, scores, mode)],
    }


def axis_data(name: str, values: Sequence[Any], logarithmic: Mapping[str, bool]) -> dict[str, Any] | None:
    """Chart axis for a parameter: a linear or logarithmic range, or a list of choices; None if it is constant."""
    texts = [value_text(value) for value in values]
    if len(set(texts)) < 2:
        return None
    numbers = [float(value) for value in values if is_number(value)]
    if len(numbers) == len(values):
        is_log = min(numbers) > 0 and logarithmic.get(name, max(numbers) / min(numbers) >= LOGARITHMIC_FROM)
        distinct = sorted(set(numbers))
        ticks = {"ticks": distinct} if len(distinct) <= MOST_TICKS else {}
        axis = {"name": name, "kind": "log" if is_log else "linear", "values": [float(f"{n:.6g}") for n in numbers]}
        return axis | ticks
    choices = sorted(set(texts))
    return {"name": name, "kind": "choice", "choices": choices, "values": [choices.index(text) for text in texts]}


def logarithmic_parameters(spec: Mapping[str, Any]) -> dict[str, bool]:
    """Whether the search space or mutation of each numeric parameter is logarithmic, by parameter name."""
    found, _ = find_spaces({key: spec.get(key) for key in ("env", "config", "policies", *SEAT_KEYS)})
    known = {name: found[location].kind.name for location, name in short_names(found).items()}
    mutations = kind_settings(spec.get("scheduler")).get("mutations")
    if isinstance(mutations, dict):
        known |= {str(path): next(iter(space), "") for path, space in mutations.items() if isinstance(space, dict)}
    return {name: "log" in kind for name, kind in known.items() if kind not in ("choice", "grid_search")}


def family_data(family: Family, logarithmic: Mapping[str, bool]) -> dict[str, Any]:
    """Data on a population's lineage, and on its members' settings over time."""
    names = list(dict.fromkeys(name for stretch in family.stretches for name in stretch.params))
    axes = [axis_data(name, [s.params.get(name) for s in family.stretches], logarithmic) for name in names]
    stretches = [
        {**asdict(stretch), "params": {name: value_text(value) for name, value in stretch.params.items()}}
        for stretch in family.stretches
    ]
    return {**asdict(family), "settings": [axis for axis in axes if axis is not None], "stretches": stretches}
