"""Data of one run on a report page: what it is, its machine, its best trial, what it recorded."""

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
from rlrun.experiments.spec.tuning import kind_of, kind_settings
from rlrun.experiments.trial.trial_directory import EPISODES_FILE, PICTURES
from rlrun.report.action_kinds import differing_line
from rlrun.report.configurations import Group, groups_of
from rlrun.report.expectation import expectation_of, expectation_text, reached_by
from rlrun.report.families import families
from rlrun.report.metric_grid import phases
from rlrun.report.page_sweep import family_data, logarithmic_parameters, sweep_data
from rlrun.report.plain_json import fields_of
from rlrun.report.reading import RunView
from rlrun.report.step_axis import ENV_STEPS
from rlrun.report.summary import best_trial, shape_text, status_text, varied_text
from rlrun.report.switch import switches
from rlrun.report.timeline import timeline

VIDEOS = {".mp4": "video/mp4", ".gif": "image/gif"}
"""Suffixes of the videos that are looked for in a run's directory and in those of its trials."""

LARGEST_VIDEO_BYTES = 1_500_000
"""Size up to which a video is embedded; of a larger one the page names the file."""


def run_data(run: RunView, metric: str, mode: Mode) -> dict[str, Any]:
    """Data of one run.

    Args:
        run: The run, with the columns of the metric and of its timings.
        metric: The metric by which trials are judged.
        mode: Whether higher or lower values of this metric are better.
    """
    groups = groups_of(run)
    best, damaged = best_trial(run, metric, mode)
    logarithmic = logarithmic_parameters(run.spec)
    judged = next((trial for trial in run.trials if best is not None and trial.name == best.trial), None)
    return {
        **fields_of(run, "name", "path", "algorithm", "env"),
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
    """Pictures of the best trial, or else of the first trial with pictures, as data URLs.

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
    """Videos in the directories of a run and of its trials; a large one has no address, as it is not embedded."""
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
    """Episodes kept as text of the best trial, or else of the first trial with some; None without any."""
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
    """Formats the spec of an experiment as YAML: lists and short mappings in one line, no settings that are null.

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
    if isinstance(value, float):  # YAML 1.1 takes 1e-05 for a text
        return re.sub(r"^(-?\d+)(\.\d+)?e([-+])0?", lambda m: f"{m[1]}{m[2] or '.0'}e{m[3]}", repr(value))
    return flow_yaml(value)
