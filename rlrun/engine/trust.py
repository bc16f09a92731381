"""Security policy for untrusted runs and checkpoints: ownership, and an allowlist of harmless contents.

A run in the user's folder of runs belongs to the user, and may import any code and write any file. A run from elsewhere
may name only harmless objects, which import no third-party code and access no other file. Installed algorithms, the
objects listed in `harmless.yaml`, envs registered by Gymnasium and ALE, PettingZoo's own envs, and settings that are
numbers, booleans or short plain texts are harmless. Everything else needs the user's permission: for example,
`RecordVideo` writes videos, Gymnasium's `make` imports any named module, and a text may name a file to read.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import yaml

from rlrun.engine.checkpoint.format import SPEC_FILE
from rlrun.engine.checkpoint.own_digest import read_verified
from rlrun.engine.checkpoint.plain_json import load_json
from rlrun.engine.checkpoint.plain_yaml import load_plain_yaml
from rlrun.engine.envs.env_config import EnvConfig, is_unnamed
from rlrun.engine.envs.env_ids import is_usable_kind, register_atari
from rlrun.engine.messages.errors import CheckpointRefused, RunDamaged, SpecError
from rlrun.engine.settings.registry import is_installed_algorithm

_PACKAGES = ("gymnasium.envs.", "ale_py.")
"""Packages whose registered envs count as harmless in untrusted specs."""

_PETTINGZOO = re.compile(r"(pettingzoo|mpe2)(\.[a-z_0-9]+)+")
"""Regular expression for modules of PettingZoo's built-in envs."""

_PLAIN = re.compile(r"[A-Za-z0-9_ +=,-]{0,40}")
_OPPONENT = re.compile(r"(?P<name>[^()]+)(\([A-Za-z0-9_=+., -]{0,80}\))?")
"""Regular expression for a scripted opponent whose settings are numbers and names."""

_SHOWN_CHARACTERS = 80
_SPECS = (f"*/{SPEC_FILE}", f"*/checkpoints/*/{SPEC_FILE}")
"""Glob patterns for the spec files of a run's trials and checkpoints."""

_RECORDS = ("run.json", "*/trial.json")
"""Glob patterns for record files that may name an initial checkpoint or an upload target."""

_SEARCH = ("searcher", "scheduler")
"""Sections of a spec that create trials during the run, whose files do not exist yet."""


def why_not_own(run: Path, runs_dir: Path) -> str:
    """Returns the reason why a run does not count as the user's own and is thus untrusted; "" if it does.

    Args:
        run: The run's directory.
        runs_dir: The user's folder of runs.
    """
    run, runs_dir = run.resolve(), runs_dir.resolve()
    if run.parent != runs_dir:
        return f"it is not in your runs folder, {runs_dir}"
    for folder in (run, runs_dir):
        owner = folder.stat().st_uid
        if owner not in (os.geteuid(), 0):
            return f"{folder} belongs to {_user(owner)}"
    return ""


@cache
def harmless() -> Mapping[str, frozenset[str]]:
    """Loads the names of harmless objects (an allowlist) by kind, such as envs, wrappers and opponents."""
    listed: Mapping[str, list[str]] = yaml.safe_load(Path(__file__).with_name("harmless.yaml").read_text("utf-8"))
    return {kind: frozenset(names) for kind, names in listed.items()}


def refuse_risks(risks: Sequence[str], what: str) -> None:
    """Refuses a run or checkpoint that has risks; the message explains how to permit them.

    Args:
        risks: Risks of the run or checkpoint, one clause each; empty if it is harmless.
        what: Subject of the error message, such as a path followed by `: the checkpoint`.

    Raises:
        CheckpointRefused: There are risks; the message names all of them.
    """
    if risks:
        raise CheckpointRefused(
            f"{what} may not be safe to load, because {', and '.join(dict.fromkeys(risks))}. If you trust its author, "
            "pass --trust (in Python: trust=True)"
        )


def refuse_risks_of_run(run: Path) -> None:
    """Refuses another user's run if it has risks, without importing code; the message explains how to permit them.

    Args:
        run: The run's directory.

    Raises:
        CheckpointRefused: There are risks; the message names all of them.
        RunDamaged: A file of the run cannot be parsed.
    """
    risks: list[str] = []
    try:
        for file in _files(run, _SPECS):
            risks += spec_risks(_mapping(file))
        for experiment in _mapping(run / SPEC_FILE).values():
            risks += spec_risks(experiment)
            risks += [
                f"`{part}` creates trials that cannot be checked in advance" for part in _SEARCH if experiment.get(part)
            ]
        for file in _files(run, _RECORDS):
            risks += _record_risks(_mapping(file))
    except SpecError as error:
        risks.append(f"its spec cannot be checked in advance ({error})")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunDamaged(f"{run}: cannot parse its spec: {error}") from error
    risks += [f"{link.relative_to(run)} is a link to another location" for link in _links(run)]
    refuse_risks(risks, f"{run}: the run")


def spec_risks(spec: Mapping[str, Any]) -> list[str]:
    """Returns the risks (imports, files) of an untrusted trial's spec, each as a clause for an error message.

    Args:
        spec: The spec as plain data, with `algorithm`, `env` and `config`.

    Raises:
        KeyError: A required key is missing.
        TypeError: An entry of `policies` has the wrong type.
        SpecError: An env is malformed.
    """
    if policies := spec.get("policies"):
        risks = _policies_risks(policies, spec.get("mapping")) + _seats_risks(spec.get("seats") or {})
    else:
        risks = _algorithm_risks(str(spec["algorithm"]))
    risks += env_risks(EnvConfig.parse(spec["env"]), "env")
    risks += _config_risks(spec["config"], "config")
    if isinstance(evaluation := spec.get("evaluation"), Mapping):
        risks += _evaluation_risks(evaluation)
    if spec.get("storage"):
        risks.append(f"`storage` writes to {spec['storage']!s:.80}")
    if spec.get("output"):
        risks.append(f"`output` writes to {spec['output']!s:.80}")
    if spec.get("hooks"):
        risks.append(f"`hooks` runs custom code ({spec['hooks']!s:.80})")
    if spec.get("loggers"):
        risks.append("`loggers` sends results to services")
    return risks


def policy_risks(policy: Mapping[str, Any], path: str) -> list[str]:
    """Returns the risks (imports, files) of one policy in an untrusted spec, each as a clause for an error message.

    Args:
        policy: Mapping with the policy's `algorithm` and `config`.
        path: Path of the policy's config in messages.
    """
    return _algorithm_risks(str(policy["algorithm"])) + _config_risks(policy.get("config"), path)


def env_risks(env: EnvConfig, path: str) -> list[str]:
    """Returns the risks (imports, files) of the env in an untrusted spec, each as a clause for an error message.

    Args:
        env: Config of the env, single-agent or multi-agent.
        path: Path of the env in the spec.
    """
    risks = []
    if env.external is not None:
        return [f"`{path}.external` opens port {env.external.port} on {env.external.host:.80}"]
    if env.has_many_agents:
        kwargs, evaluation_kwargs = _without_builtin_envs(env.kwargs), _without_builtin_envs(env.evaluation_kwargs)
        if not _is_known_world(env):
            risks.append(f"`{path}` runs custom code ({env.id:.80})")
    else:
        kwargs, evaluation_kwargs = env.kwargs, env.evaluation_kwargs
        if not _is_known_env(env):
            risks.append(f"`{path}` runs custom code ({env.id:.80})")
        risks += text_risks(env.reset_options, f"{path}.reset_options")
    risks += text_risks(kwargs, f"{path}.kwargs")
    risks += text_risks(evaluation_kwargs, f"{path}.evaluation_kwargs")
    risks += _task_risks(env, path)
    for wrapper in env.wrappers:
        if wrapper.id not in harmless()["wrappers"]:
            risks.append(f"`{path}.wrappers` contains {wrapper.id:.80}, which may run code or write files")
        risks += text_risks(wrapper.kwargs, f"{path}.wrappers.{wrapper.id:.80}")
    return risks


def text_risks(value: Any, path: str) -> list[str]:
    """Returns a message for each argument that may be risky, by its path in the settings.

    Numbers, booleans and short plain texts are harmless, as are lists and dicts of these.

    Examples:
        >>> text_risks({"map": "4x4", "sizes": [1, 2.5], "file": "../maps/a"}, "env.kwargs")
        ["`env.kwargs.file` is '../maps/a', which may refer to a file or code"]
    """
    if value is None or isinstance(value, bool | int | float) or (isinstance(value, str) and _PLAIN.fullmatch(value)):
        return []
    if isinstance(value, dict):
        code = [f"`{path}` runs custom code ({key:.80})" for key in map(str, value) if ":" in key]
        return code + [risk for key, item in value.items() for risk in text_risks(item, f"{path}.{key!s:.40}")]
    if isinstance(value, list | tuple):
        return [risk for number, item in enumerate(value) for risk in text_risks(item, f"{path}[{number}]")]
    return [f"`{path}` is {repr(value)[:_SHOWN_CHARACTERS]}, which may refer to a file or code"]


def _config_risks(config: Any, path: str) -> list[str]:
    """Collects the risks of an algorithm's settings: data sets are folders to read, and operators are code."""
    if not isinstance(config, dict):
        return text_risks(config, path)
    others = {key: value for key, value in config.items() if key != "before_learning"}
    if others.get("expert") in harmless()["experts"]:
        del others["expert"]
    reads = [f"`{path}.{key}` reads files" for key in ("input", "expert") if others.get(key)]
    if config.get("before_learning"):
        reads.append(f"`{path}.before_learning` runs custom code")
    return reads + text_risks(others, path)


def is_own_opponent(path: str) -> bool:
    """Whether a scripted opponent is built into rlrun and has plain settings, and so runs no third-party code.

    Examples:
        >>> is_own_opponent("minimax(depth=5)"), is_own_opponent("rlrun.toys:RandomLegal")
        (True, True)
        >>> is_own_opponent("my_lab.players:Greedy"), is_own_opponent("rlrun.toys:np.load")
        (False, False)
    """
    written = _OPPONENT.fullmatch(path)
    return written is not None and written["name"].strip() in harmless()["opponents"]


def _algorithm_risks(algorithm: str) -> list[str]:
    return [] if is_installed_algorithm(algorithm) else [f"`algorithm` runs custom code ({algorithm:.80})"]


def _policies_risks(policies: Mapping[str, Mapping[str, Any]], mapping: Any) -> list[str]:
    """Collects the risks of a multi-agent world's policies, and of the function that maps agents to policies."""
    risks = []
    for name, policy in policies.items():
        risks += policy_risks(policy, f"policies.{name!s:.40}.config")
    if isinstance(mapping, str) and mapping not in harmless()["mappings"]:
        risks.append(f"`mapping` runs custom code ({mapping:.80})")
    return risks


def _seats_risks(seats: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Collects the risks of a league's seats: code of scripted opponents, and checkpoint files of saved ones."""
    code = [
        f"`seats.{seat!s:.40}.scripted` runs custom code ({path!s:.80})"
        for seat, settings in seats.items()
        for path in settings.get("scripted") or {}
        if not is_own_opponent(str(path))
    ]
    files = [
        f"`seats.{seat!s:.40}.checkpoints` reads files in {path!s:.80}"
        for seat, settings in seats.items()
        for path in settings.get("checkpoints") or {}
    ]
    return code + files


def _evaluation_risks(evaluation: Mapping[str, Any]) -> list[str]:
    risks = []
    if evaluation.get("env"):
        risks += env_risks(EnvConfig.parse(evaluation["env"]), "evaluation.env")
    against = evaluation.get("against")
    if against and not is_own_opponent(str(against)):
        risks.append(f"`evaluation.against` runs custom code ({against!s:.80})")
    return risks


def _task_risks(env: EnvConfig, path: str) -> list[str]:
    """Collects the risks of an env's tasks and curriculum."""
    risks = []
    if isinstance(env.tasks, str) and env.tasks not in harmless()["tasks"]:
        risks.append(f"`{path}.tasks` runs custom code ({env.tasks:.80})")
    elif env.tasks is not None and not isinstance(env.tasks, str):
        risks += text_risks([task.model_dump() for task in env.tasks], f"{path}.tasks")
    if env.curriculum is not None:
        risks.append(f"`{path}.curriculum` runs custom code ({env.curriculum:.80})")
    return risks


def _without_builtin_envs(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Copy of a multi-agent world's arguments without names of harmless built-in envs, which `SearchedEnv` accepts."""
    own = harmless()["envs"]
    return {name: value for name, value in kwargs.items() if not (isinstance(value, str) and value in own)}


def _is_known_world(world: EnvConfig) -> bool:
    """Whether a multi-agent world is built into PettingZoo or rlrun."""
    if is_unnamed(world.id):  # only the object's owner can pass it
        return True
    if world.pettingzoo is not None:
        return _PETTINGZOO.fullmatch(world.pettingzoo) is not None
    return world.world in harmless()["worlds"]


def _is_known_env(env: EnvConfig) -> bool:
    """Whether an env id is built into rlrun, registered by Gymnasium or ALE, or unknown and so never instantiated."""
    if is_unnamed(env.id):  # only the object's owner can pass it
        return True
    if ":" in env.id:
        return env.id in harmless()["envs"]
    if env.backend == "envpool":  # envpool knows only its own ids
        return True
    if env.id not in gymnasium.registry:
        register_atari()
    spec = gymnasium.registry.get(env.id)
    if spec is None or not is_usable_kind(spec):
        return True
    points = (spec.entry_point, spec.vector_entry_point)
    return all(point is None or (isinstance(point, str) and point.startswith(_PACKAGES)) for point in points)


def _files(folder: Path, patterns: Sequence[str]) -> Iterator[Path]:
    for pattern in patterns:
        yield from sorted(folder.glob(pattern))


def _mapping(file: Path) -> dict[str, Any]:
    """Parses a file of a run as a mapping.

    Raises:
        RunDamaged: The file was altered, or is not a mapping.
    """
    load = load_json if file.suffix == ".json" else load_plain_yaml
    try:
        found = load(read_verified(file).decode())
    except OSError as error:
        raise RunDamaged(f"{file}: cannot read: {error.strerror}") from error
    except ValueError as error:
        raise RunDamaged(f"{file}: cannot parse: {error}") from error
    if not isinstance(found, dict):
        raise RunDamaged(f"{file}: not a mapping")
    return found


def _record_risks(record: Mapping[str, Any]) -> Iterator[str]:
    """Yields the risks of a run.json or trial.json."""
    if (start := record.get("from_checkpoint")) is not None:
        yield f"`from_checkpoint` reads files in {start!s:.80}"
    if (copy := record.get("copy")) is not None:
        yield f"`copy` writes to {copy!s:.80}"


def _links(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_symlink()]


def _user(number: int) -> str:
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"
