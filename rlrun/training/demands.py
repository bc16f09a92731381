"""What a stranger's spec asks for that only the user can allow: code from elsewhere, files to read or write.

What is known to be harmless needs no word: installed algorithms, known envs and wrappers, and settings that are
numbers, truth values and short plain texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlrun.envs.env_config import EnvConfig
from rlrun.envs.harmless import env_demands, text_demands
from rlrun.errors import CheckpointRefused
from rlrun.league.scripted_opponent import is_own_opponent
from rlrun.league.sides import OWN_MAPPINGS
from rlrun.registry import is_installed_algorithm
from rlrun.worlds.harmless_worlds import world_demands


def spec_demands(spec: Mapping[str, Any]) -> list[str]:
    """Returns what a spec asks for that is not known to be harmless, a clause each.

    Args:
        spec: Plain data with `algorithm`, `env` and `config`, and what else a trial's spec says.

    Raises:
        KeyError: If one of those is missing.
        TypeError: If policies are none.
        SpecError: If an env is none.
    """
    evaluation, policies = spec.get("evaluation"), spec.get("policies")
    if policies:
        demands = _policies_demands(policies, spec.get("mapping")) + _seats_demands(spec.get("seats") or {})
    else:
        demands = _algorithm_demands(str(spec["algorithm"]))
    demands += _env_demands(spec["env"], "env")
    demands += text_demands(spec["config"], "config")
    if isinstance(evaluation, Mapping) and evaluation.get("env"):
        demands += _env_demands(evaluation["env"], "evaluation.env")
    if (
        isinstance(evaluation, Mapping)
        and evaluation.get("against")
        and not is_own_opponent(str(evaluation["against"]))
    ):
        demands.append(f"evaluation.against {evaluation['against']!s:.80} is code that would be run")
    if spec.get("storage"):
        demands.append(f"storage {spec['storage']!s:.80} is a place to write to")
    if spec.get("loggers"):
        demands.append("loggers are services to send results to")
    return demands


def _algorithm_demands(algorithm: str) -> list[str]:
    return [] if is_installed_algorithm(algorithm) else [f"algorithm {algorithm:.80} is code that would be run"]


def _policies_demands(policies: Mapping[str, Mapping[str, Any]], mapping: Any) -> list[str]:
    """Returns what the policies of a world ask for, and the function that maps agents to them."""
    demands = []
    for name, policy in policies.items():
        demands += policy_demands(policy, f"policies.{name!s:.40}.config")
    if isinstance(mapping, str) and mapping not in OWN_MAPPINGS:
        demands.append(f"mapping {mapping:.80} is code that would be run")
    return demands


def policy_demands(policy: Mapping[str, Any], path: str) -> list[str]:
    """Returns what one policy asks for.

    Args:
        policy: Its `algorithm` and `config`.
        path: What messages call its config.
    """
    return _algorithm_demands(str(policy["algorithm"])) + text_demands(policy.get("config"), path)


def _seats_demands(seats: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns what the seats of a league ask for: the code of scripted opponents, and the files of saved ones."""
    code = [
        f"seats.{seat!s:.40}.scripted {path!s:.80} is code that would be run"
        for seat, settings in seats.items()
        for path in settings.get("scripted") or {}
        if not is_own_opponent(str(path))
    ]
    files = [
        f"seats.{seat!s:.40}.checkpoints {path!s:.80} is a place to read from"
        for seat, settings in seats.items()
        for path in settings.get("checkpoints") or {}
    ]
    return code + files


def _env_demands(data: Any, path: str) -> list[str]:
    env = EnvConfig.parse(data)
    return world_demands(env, path) if env.has_many_agents else env_demands(env, path)


def refuse_demands(demands: Sequence[str], what: str) -> None:
    """Refuses what asks for something that only the user can allow.

    Args:
        demands: What it asks for, a clause each; nothing is refused where there is none.
        what: What asks: a path and a noun.

    Raises:
        CheckpointRefused: With every demand.
    """
    if demands:
        raise CheckpointRefused(
            f"{what} asks for what is not known to be harmless: {'; '.join(dict.fromkeys(demands))}; "
            "if you trust who made it, say --trust (in Python: trust=True)"
        )
