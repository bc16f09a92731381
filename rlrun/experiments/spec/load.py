"""Loading of experiments from spec files, command-line overrides or plain data."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rlrun.engine.messages.errors import EnvironmentUnusable, Problem, SpecError
from rlrun.engine.messages.explain import Mistake, dotted, shown
from rlrun.engine.settings.config import ConfigModel
from rlrun.engine.settings.registry import UserCodeError, known_algorithm, load_internal
from rlrun.engine.worlds.user_objects import import_name
from rlrun.experiments.spec.entry import check_entry
from rlrun.experiments.spec.experiment import MAX_TRIALS, Experiment
from rlrun.experiments.spec.foreign_keys import names_runs
from rlrun.experiments.spec.keys import ENTRY_KEYS
from rlrun.experiments.spec.overrides import apply_overrides
from rlrun.experiments.spec.search_space import find_spaces
from rlrun.experiments.spec.section import UnusableEnv
from rlrun.experiments.spec.stages import STAGES, stages_of
from rlrun.experiments.spec.titles import env_title
from rlrun.experiments.spec.yaml_source import Document, read_document

TRANSLATION = "rlrun.bridges.files_of_others:with_rlrun_keys"
"""Import path of the translation of spec files of other libraries."""

DEFAULT_ENV_STEPS = 100_000
"""Stop criterion, in env steps, of experiments that consist of an algorithm's defaults."""

NOT_FOR_AN_ENV = ("pbt", "regression", "search")
"""Folders of configs/ that are named by purpose; the specs in all other folders are tuned for one env."""


def load_experiments(
    files: Sequence[Path | str],
    overrides: Sequence[str] = (),
    *,
    max_trials: int = MAX_TRIALS,
    makes_envs: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Experiment]:
    """Loads the experiments of spec files.

    The folder of each file and the current folder become importable, so that a spec may name ``my_lab:Thing`` in a
    ``my_lab.py`` next to it.

    Args:
        files: The files; a folder stands for all YAML files directly in it.
        overrides: Strings ``path=value`` that override values in the files; the last one for a path wins.
        max_trials: Maximum number of trials of an experiment.
        makes_envs: Whether to create each env once, to check that the algorithms support its actions.
        tell: Called with one line for each translated file of another library, and for each warning.

    Raises:
        SpecError: The files or overrides contain mistakes; the error lists all of them.
        EnvironmentUnusable: The files are valid, but a package that an env needs is missing.
        UserCodeError: A user's module raises an exception while it is imported.
    """
    documents: list[Document] = []
    problems: list[Problem] = []
    for path in spec_files(files):
        try:
            document = read_document(path)
            if names_runs(document.data) and not document.problems:
                document = load_internal(TRANSLATION)(document, tell)
            documents.append(_experiments_of(document))
        except SpecError as error:
            problems += error.problems
        except FileNotFoundError:
            problems.append(Problem("", f"file not found{_nearest(path)}", str(path)))
        make_importable(path.parent)
    experiments = _check(documents, overrides, problems, max_trials=max_trials, makes_envs=makes_envs)
    for experiment in experiments:
        for warning in experiment.warnings:
            tell(f"warning: {warning}")
    return experiments


def parse_experiments(
    data: Mapping[str, Any],
    overrides: Sequence[str] = (),
    *,
    max_trials: int = MAX_TRIALS,
    makes_envs: bool = False,
) -> list[Experiment]:
    """Validates experiments from plain Python data instead of files.

    Args:
        data: Entries by name, as in a spec file; tuples and config objects are accepted in place of lists and mappings.
        overrides: Strings ``path=value`` that override the data.
        max_trials: Maximum number of trials of an experiment.
        makes_envs: Whether to create each env once, to check that the algorithms support its actions.

    Raises:
        SpecError: The data contain mistakes; the error lists all of them.
        EnvironmentUnusable: The data are valid, but a package that an env needs is missing.
        UserCodeError: A user's module raises an exception while it is imported.
    """
    document = _experiments_of(Document(_plain(data)))
    return _check([document], overrides, [], max_trials=max_trials, makes_envs=makes_envs)


def shipped_experiment(
    algorithm: str,
    env: Any,
    overrides: Sequence[str] = (),
    *,
    max_trials: int = MAX_TRIALS,
    makes_envs: bool = False,
) -> Experiment:
    """Loads rlrun's tuned experiment for an algorithm and an env, or an experiment with the algorithm's defaults.

    The experiment's attribute ``origin`` distinguishes the two cases.

    Args:
        algorithm: The algorithm's name, in upper or lower case.
        env: The env as in a spec: an id, or a mapping, for example for a multi-agent world.
        overrides: Strings ``path=value`` that override the experiment.
        max_trials: Maximum number of trials.
        makes_envs: Whether to create the env once, to check that the algorithm supports its actions.

    Raises:
        SpecError: The algorithm or env does not exist, or an override is invalid.
        EnvironmentUnusable: A package that the env needs is missing.
    """
    algorithm = known_algorithm(algorithm)
    tuned = tuned_spec(algorithm, env)
    if tuned is not None:
        document = _experiments_of(read_document(tuned))
        entries = [(name, entry) for name, entry in document.data.items() if _is_tuned_for(entry, algorithm, env)]
        document.data = dict(entries[:1])
        (experiment,) = _check([document], overrides, [], max_trials=max_trials, makes_envs=makes_envs)
        return experiment
    title = env_title(env)
    name = default_name(title, algorithm)
    entry = {"algorithm": algorithm, "env": env, "stop": {"env_steps": DEFAULT_ENV_STEPS}, "evaluation": {}}
    origin = (
        f"rlrun ships no spec for {algorithm} on {title}: using the algorithm's defaults with evaluations, and "
        f"{DEFAULT_ENV_STEPS:,} env steps unless `stop` is set"
    )
    document = Document({name: entry}, "--algorithm/--env")
    (experiment,) = _check([document], overrides, [], origin, max_trials, makes_envs=makes_envs)
    return experiment


def default_name(env: str, algorithm: str) -> str:
    """Default name of an experiment that comes from no file: names of the env (without module) and the algorithm.

    Examples:
        >>> default_name("tank:Tank", "ppo"), default_name("ALE/Pong-v5", "dqn"), default_name("lab:Arm", "lab:AWR")
        ('tank-ppo', 'pong-v5-dqn', 'arm-awr')
    """
    own = (re.split(r"[:/]", name)[-1] for name in (env, algorithm))
    return re.sub(r"[^a-z0-9.]+", "-", "-".join(own).lower()).strip("-.")


def shipped_configs() -> list[Path]:
    """Folder of the spec files shipped with rlrun: next to the package in a git checkout, else inside the package."""
    package = Path(__file__).resolve().parents[2]
    checkout = package.parent / "configs"
    is_checkout = checkout.is_dir() and (package.parent / "pyproject.toml").is_file()
    return sorted((checkout if is_checkout else package / "configs").glob("*/*.yaml"))


def _shipped_config(name: Path) -> Path | None:
    """Path of the shipped spec with a name: ``cartpole/ppo``, or ``configs/cartpole/ppo.yaml``."""
    wanted = name.parts[1:] if name.parts[:1] == ("configs",) else name.parts
    return next(
        (path for path in shipped_configs() if wanted in (path.parts[-2:], (path.parent.name, path.stem))), None
    )


def tuned_spec(algorithm: str, env: Any) -> Path | None:
    """Path of the shipped spec file that is tuned for an algorithm on an env; None if there is none."""
    for path in [path for path in shipped_configs() if path.parent.name not in NOT_FOR_AN_ENV]:
        if any(_is_tuned_for(entry, algorithm, env) for entry in _experiments_of(read_document(path)).data.values()):
            return path
    return None


def spec_files(paths: Sequence[Path | str]) -> list[Path]:
    """Resolves paths to spec files; a folder expands to the YAML files directly in it, in sorted order.

    A path that does not exist, such as ``cartpole/ppo``, may name a shipped spec. A folder without YAML files is
    returned unexpanded, so that a later attempt to read it as a file raises an error.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        if not os.path.exists(path) and (shipped := _shipped_config(path)) is not None:
            found.append(shipped)
            continue
        is_folder = os.path.isdir(path)  # unlike Path.is_dir, it does not raise for long names
        inside = [file for pattern in ("*.yaml", "*.yml") for file in path.glob(pattern)] if is_folder else []
        found += sorted(inside) or [path]
    return found


def _nearest(path: Path) -> str:
    """Hint at the most similar file in the folder, the shipped specs of that name, or the most similar shipped spec.

    File suffixes are ignored in the comparison.
    """
    try:
        siblings = {found.stem: str(found) for found in path.parent.iterdir() if found.suffix in (".yaml", ".yml")}
    except OSError:
        siblings = {}
    if near := get_close_matches(path.stem, siblings, n=1):
        return f"; did you mean '{siblings[near[0]]}'?"
    shipped = [f"{known.parent.name}/{known.stem}" for known in shipped_configs()]
    namesakes = [name for name in shipped if name.endswith(f"/{path.stem}")]
    if len(path.parts) == 1 and namesakes:
        return f"; rlrun ships {', '.join(namesakes)}"
    if near := get_close_matches("/".join(path.with_suffix("").parts[-2:]), shipped, n=1):
        return f"; did you mean '{near[0]}'?"
    return ""


def make_importable(directory: Path) -> None:
    """Appends a directory and the current directory to Python's import path, after installed packages."""
    for wanted in (str(directory.resolve()), str(Path.cwd())):
        if wanted not in sys.path:
            sys.path.append(wanted)


def _experiments_of(document: Document) -> Document:
    """Validates that a document maps experiment names to entries, and returns these.

    Keys that begin with a dot (``.common``) are removed, since they hold only YAML anchors.
    """
    place = document.place(())
    if not isinstance(document.data, Mapping):
        found = "a list" if isinstance(document.data, list) else shown(document.data)
        what = f"must be a mapping of experiment names to experiments, not {found}"
        raise SpecError([*document.problems, place.problem("", what)])
    document.data = {key: entry for key, entry in document.data.items() if not re.match(r"\.\w", str(key))}
    nameless = [key for key, entry in document.data.items() if key in ENTRY_KEYS and not isinstance(entry, Mapping)]
    if nameless:
        what = (
            "an experiment needs a name: add a first line with the name (my-experiment:), and indent the rest below it"
        )
        raise SpecError([*document.problems, document.place((nameless[0],), at_key=True).problem("", what)])
    if not document.data:
        raise SpecError([*document.problems, place.problem("", "contains no experiment")])
    return document


def _check(
    documents: Sequence[Document],
    overrides: Sequence[str],
    problems: Sequence[Problem],
    origin: str = "",
    max_trials: int = MAX_TRIALS,
    *,
    makes_envs: bool = False,
) -> list[Experiment]:
    """Validates all entries of all documents, and returns the experiments.

    Raises:
        SpecError: There are problems; the error lists the given and all further ones by file and line.
        UserCodeError: All else is valid, but users' modules raise while they are imported.
    """
    make_importable(Path.cwd())
    problems = list(problems)
    in_overrides = apply_overrides(documents, overrides, ENTRY_KEYS) if overrides else []
    problems += [] if problems else in_overrides  # an override may be meant for a file that could not be read
    unusable: list[Problem] = []
    experiments: dict[str, Experiment] = {}
    seen: dict[str, Document] = {}
    raised: dict[str, Problem] = {}
    for document in documents:
        problems += document.problems
        spoilt = {(problem.line, problem.column) for problem in document.problems}
        for name, entry in document.data.items():
            if name in seen:
                first = seen[name].place((name,), at_key=True)
                message = f"the experiment '{name}' appears twice, first in {first.file}:{first.line}"
                problems.append(document.place((name,), at_key=True).problem(name, message))
            seen.setdefault(name, document)
            try:
                found, mistakes = _check_stages(name, entry, origin or document.file, max_trials, makes_envs=makes_envs)
            except UserCodeError as error:
                raised[str(error)] = document.place((name,), at_key=True).problem(name, str(error))
                continue
            experiments |= found
            for mistake in mistakes:
                place = document.place((name, *mistake.location), at_key=mistake.at_key)
                problem = place.problem(dotted(mistake.location, name), mistake.message)
                if not problem.line or (problem.line, problem.column) not in spoilt:
                    (unusable if isinstance(mistake, UnusableEnv) else problems).append(problem)
    if problems:
        raise SpecError(_in_order([*problems, *unusable, *raised.values()], documents))
    if raised:
        raise UserCodeError("\n".join(raised))
    if unusable:
        raise EnvironmentUnusable("\n".join(str(problem) for problem in unusable))
    return list(experiments.values())


def _check_stages(
    name: str, entry: Any, origin: str, max_trials: int, *, makes_envs: bool
) -> tuple[dict[str, Experiment], list[Mistake]]:
    """Validates an entry with its stages, if any; returns the experiments by name, and mistakes in the entry."""
    if not isinstance(entry, Mapping) or STAGES not in entry:
        experiment, mistakes = check_entry(name, entry, origin, max_trials, makes_envs=makes_envs)
        return {} if experiment is None else {name: experiment}, mistakes
    stages, mistakes = stages_of(name, entry)
    experiments: dict[str, Experiment] = {}
    for stage in stages:
        experiment, wrong = check_entry(stage.name, stage.data, origin, max_trials, makes_envs=makes_envs)
        mistakes += [replace(mistake, location=stage.location(mistake.location)) for mistake in wrong]
        if experiment is not None:
            experiments[stage.name] = experiment
    return experiments, list(dict.fromkeys(mistakes))  # each stage repeats mistakes that are outside the stages


def _in_order(problems: Sequence[Problem], documents: Sequence[Document]) -> list[Problem]:
    files = {document.file: index for index, document in enumerate(documents)}
    placed = sorted(problems, key=lambda problem: (files.get(problem.file, -1), problem.line, problem.column))
    return list(dict.fromkeys(placed))


def _is_tuned_for(entry: Any, algorithm: str, env: Any) -> bool:
    if not isinstance(entry, Mapping) or find_spaces(entry)[0] or entry.get("scheduler"):  # a sweep
        return False
    written = entry.get("env")
    env_id = written.get("id") if isinstance(written, Mapping) else written
    return entry.get("algorithm") == algorithm and env_id == env


def _plain(value: Any, path: str = "") -> Any:
    """Converts Python data to plain data: tuples to lists, configs to mappings, classes and functions to import paths.

    Raises:
        SpecError: A class or function has no import path, by which a run could find it again.
    """
    if isinstance(value, ConfigModel):
        return value.to_data()
    if isinstance(value, Mapping):
        return {str(key): _plain(item, f"{path}.{key}" if path else str(key)) for key, item in value.items()}
    if isinstance(value, type) or inspect.isroutine(value):
        if name := import_name(value):
            return name
        reason = (
            f"{value.__qualname__} has no import path, which a run needs to save its spec: define it in a "
            "module, or train with rlrun.Training"
        )
        raise SpecError([Problem(path, reason)])
    return [_plain(item, path) for item in value] if isinstance(value, list | tuple) else value
