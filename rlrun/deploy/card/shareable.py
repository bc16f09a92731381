"""Content that may leave this machine: specs without paths, services and secrets, and a search for what was missed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rlrun.engine.messages.errors import UsageError
from rlrun.experiments.runs.provenance import LEFT_OUT, is_secret_name
from rlrun.experiments.spec.expansion import filled
from rlrun.experiments.spec.experiment import Experiment

_PLACES = ("storage", "output", "loggers", "begins")
"""Keys of a spec that name places and services of the machine that trained."""

_SEARCH = ("scheduler", "searcher", "num_samples")
"""Keys of an experiment that choose configurations, of which a card holds one."""

_SHORTEST_SECRET = 8
_SHORTEST_FOLDER = 4
"""Minimum length of what is searched for; shorter texts, such as the folder /w, would be found by chance."""


def entry_of(experiment: Experiment, params: Mapping[str, Any], seeds: Iterable[int]) -> dict[str, Any]:
    """Entry of a spec file that trains one configuration of an experiment.

    Args:
        experiment: The experiment.
        params: Values of the settings that vary, by short name.
        seeds: Seeds of the entry.
    """
    names = experiment.param_names()
    data = filled(experiment.to_data(), {location: params[name] for location, name in names.items() if name in params})
    return {**without_places({name: value for name, value in data.items() if name not in _SEARCH}), "seeds": [*seeds]}


def without_places(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Copy of a spec without places and services of this machine, secrets, and folders of paths."""
    return {name: _shown(name, value) for name, value in spec.items() if name not in _PLACES}


def _shown(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _shown(str(key), item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(name, item) for item in value]
    if isinstance(value, str) and is_secret_name(name):
        return LEFT_OUT
    if isinstance(value, str) and value.startswith(("/", "~", "file:")):
        return Path(value).name or value
    return value


def refuse_private_texts(folder: Path) -> None:
    """Searches all files of a folder for this machine's folders, and for secrets in its environment variables.

    Raises:
        UsageError: A file holds one; the message names the file and what it holds, not the secret itself.
    """
    private = _private_texts()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = file.read_bytes()
        for text, what in private.items():
            if text.encode() in content:
                raise UsageError(
                    f"no card is written, since its {file.relative_to(folder)} would hold {what}; take it out of the "
                    "spec, of the names, or of what the env and the algorithm save"
                )


def _private_texts() -> dict[str, str]:
    """Texts that no card may hold, and what each is."""
    folders = {str(Path.home()): "the path of your home folder", str(Path.cwd()): "the path of the current folder"}
    secrets = {
        value: f"the value of ${name}"
        for name, value in os.environ.items()
        if is_secret_name(name) and len(value) >= _SHORTEST_SECRET
    }
    return {text: what for text, what in folders.items() if len(text) > _SHORTEST_FOLDER} | secrets
