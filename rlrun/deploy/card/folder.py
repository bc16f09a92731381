"""Writing of a card (folder for sharing a policy), in a temporary folder that is searched for private strings."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlrun.deploy.card.readme import CHECKPOINT, CURVE, FORMAT, README, RESULTS, SPEC
from rlrun.engine.checkpoint.durable import commit_directory, partial_name, write_file
from rlrun.engine.checkpoint.format import Content, read_checkpoint, write_checkpoint
from rlrun.engine.checkpoint.plain_json import load_json
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.training.save.checkpointing import sections_of
from rlrun.engine.training.save.sections import section, section_state
from rlrun.experiments.runs.provenance import LEFT_OUT, is_secret_name
from rlrun.experiments.spec.expansion import filled
from rlrun.experiments.spec.experiment import Experiment

_PLACES_IN_SPEC = ("storage", "output", "loggers", "begins")
"""Keys of a spec that name places and services of the machine that trained."""

_SEARCH = ("scheduler", "searcher", "num_samples")
"""Keys of an experiment that select configurations; a card contains only one configuration."""

_SHORTEST_SECRET = 8
_SHORTEST_FOLDER = 4
"""Minimum length of a path or secret to search for; shorter ones, such as /w, would be found by chance."""

_OWN = (README, SPEC, RESULTS, CURVE, CHECKPOINT)
_OWN_KINDS = ("*.onnx", "replay.*")
"""Names and patterns of a card's files; others, such as those of git, are left alone."""


@contextmanager
def card_folder(output: Path) -> Iterator[Path]:
    """Context manager that yields a temporary folder for the files of a card, and moves them to `output` at the end.

    Files of an earlier card are replaced; other existing files are kept.

    Args:
        output: The card's folder, which need not exist yet.

    Raises:
        UsageError: Existing files have the names of card files but do not belong to a card, or a file would contain
            private strings.
    """
    refuse_other_files(output)
    partial = partial_name(output.absolute())
    partial.mkdir()
    try:
        yield partial
        refuse_private_texts(partial)
        _remove_own_files(output)
        output.mkdir(exist_ok=True)
        for path in sorted(partial.iterdir()):
            if path.is_dir():
                commit_directory(path, output / path.name)
            else:
                write_file(output / path.name, path.read_bytes())
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def refuse_other_files(output: Path) -> None:
    """Raises an error if a folder that is not a card contains files with the names of card files.

    Raises:
        UsageError: There are such files.
    """
    own = _own_files(output)
    if own and not _is_card(output):
        raise UsageError(
            f"{output} contains {own[0].name} and is not a card, so it is not overwritten; choose another folder"
        )


def write_policy(checkpoint: Path, folder: Path) -> None:
    """Writes the policy of a checkpoint to a card (folder for sharing), without state that only training needs.

    Raises:
        CheckpointError: The checkpoint cannot be read.
    """
    content = read_checkpoint(checkpoint)
    write_checkpoint(folder / CHECKPOINT, policy_alone(content, _of_acting(content.spec)))


def _of_acting(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Spec of a checkpoint without hooks, which only training runs."""
    return {name: value for name, value in without_places(spec).items() if name != "hooks"}


def _is_card(folder: Path) -> bool:
    try:
        found = load_json((folder / RESULTS).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("format") == FORMAT


def _own_files(folder: Path) -> list[Path]:
    named = [folder / name for name in _OWN]
    return [path for path in (*named, *(path for kind in _OWN_KINDS for path in folder.glob(kind))) if path.exists()]


def _remove_own_files(folder: Path) -> None:
    for path in _own_files(folder):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


_LEARNED = ("policies/", "targets/")
"""Prefixes of the tensor files needed for acting and for a warm start; optimizer files are left out."""

_PLACES = ("workers", "unsaved", "next_fragments", "episodes", "filter_deltas")
"""Entries of the workers' state that concern envs and fragments; the others are counts."""


def policy_alone(content: Content, spec: Mapping[str, Any]) -> Content:
    """Content of a checkpoint reduced to policies, filters and counters, without optimizers, replay and env states.

    The opponent pool of a league is kept, since the opponents must still be able to act.

    Args:
        content: A checkpoint of a training run.
        spec: Spec to store with the policy.

    Raises:
        CheckpointError: The checkpoint's state is malformed.
    """
    saved = sections_of(content)
    workers = section_state(saved, "workers")
    kept: dict[str, Any] = {
        "training": saved["training"],
        "workers": section("workers", {name: value for name, value in workers.items() if name not in _PLACES}),
        "trainees": {
            name: {part: sections[part] for part in ("learner", "filters")}
            for name, sections in saved["trainees"].items()
        },
    }
    if "league" in saved:
        kept["league"] = saved["league"]
    tensors = {stem: named for stem, named in content.tensors.items() if stem.startswith(_LEARNED)}
    return replace(content, spec=dict(spec), tensors=tensors, state=kept)


def entry_of(experiment: Experiment, params: Mapping[str, Any], seeds: Iterable[int]) -> dict[str, Any]:
    """Builds the spec entry that trains one configuration of an experiment, without search and private settings.

    Args:
        experiment: The experiment.
        params: Values of the settings that vary, by short name.
        seeds: Seeds of the entry.
    """
    names = experiment.param_names()
    data = filled(experiment.to_data(), {location: params[name] for location, name in names.items() if name in params})
    return {**without_places({name: value for name, value in data.items() if name not in _SEARCH}), "seeds": [*seeds]}


def without_places(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Copy of a spec without secrets, services and local paths; paths of files are reduced to the file names."""
    return {name: _shown(name, value) for name, value in spec.items() if name not in _PLACES_IN_SPEC}


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
    """Raises an error if a file in a folder contains a path on this machine, or a secret from an environment variable.

    Raises:
        UsageError: A file contains such a string; the message names the file and the kind of string, but not the secret
            itself.
    """
    private = _private_texts()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = file.read_bytes()
        for text, what in private.items():
            if text.encode() in content:
                raise UsageError(
                    f"no card was written, because its {file.relative_to(folder)} would contain {what}; "
                    "remove it from the spec, from the names of runs and files, or from whatever the env and the "
                    "algorithm save"
                )


def _private_texts() -> dict[str, str]:
    """Private texts (paths and secrets) that no file of a card may contain, each with a description for messages."""
    folders = {str(Path.home()): "the path of your home folder", str(Path.cwd()): "the path of the current folder"}
    secrets = {
        value: f"the value of ${name}"
        for name, value in os.environ.items()
        if is_secret_name(name) and len(value) >= _SHORTEST_SECRET
    }
    return {text: what for text, what in folders.items() if len(text) > _SHORTEST_FOLDER} | secrets
