"""Translation of the envs and worlds in RLlib experiments, with arguments and step limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlrun.bridges.translation.entry import TranslatedEntry, Untranslatable
from rlrun.bridges.translation.foreign_settings import ForeignSettings
from rlrun.bridges.translation.meanings import Impact
from rlrun.bridges.translation.old_envs import PresentEnv, has_continuous_actions, present_env
from rlrun.bridges.translation.rllib_policies import translate_policies
from rlrun.bridges.translation.rllib_settings.units import OFFLINE, TEAMS
from rlrun.engine.messages.explain import Location, shown


def translate_env(result: TranslatedEntry, entry: Mapping[str, Any], foreign: ForeignSettings) -> None:
    """Translates the env or world of an experiment.

    Raises:
        Untranslatable: The env does not exist in rlrun, or the experiment names no env.
    """
    config = entry.get("config") or {}
    place: Location = ("env",) if "env" in entry else ("config", "env")
    name = entry.get("env", config.get("env"))
    if name is None and foreign.algorithm in OFFLINE:
        return  # no env is needed, because the data determines the spaces
    if name is None:
        raise Untranslatable((), "has no env, because RLlib set it in code; pass yours with `rlrun translate --env`")
    if not isinstance(name, str):
        raise Untranslatable(place, f"must be the name of an env, not {shown(name)}")
    present = present_env(name)
    if name.startswith("ray.rllib.") and present.id == name:
        raise Untranslatable(
            place, f"{name} is an env of RLlib that rlrun does not have; name your own env as package.module:Class"
        )
    foreign.is_atari, foreign.is_continuous = present.is_atari, has_continuous_actions(present.id)
    foreign.horizon = config.get("horizon") or present.max_episode_steps or present.episode_steps
    _translate_env_id(result, name, present, place, config, foreign)
    if present.difference:
        result.tell(place, "env", f"{name} becomes {present.id}: {present.difference}")
    _translate_env_arguments(result, present, place, config)
    _translate_limit(result, present, place, config)


def _translate_env_id(
    result: TranslatedEntry,
    name: str,
    present: PresentEnv,
    place: Location,
    config: Mapping[str, Any],
    foreign: ForeignSettings,
) -> None:
    """Translates the name of an env, a class or a world."""
    module, _, made = name.rpartition(".")
    found = f"{module}:{made}" if present.id == name and module and ":" not in name else present.id
    is_unknown = present.id == name and ":" not in name and not module
    if foreign.algorithm == "AlphaZero":
        result.put("env.world", "rlrun.plugin:SearchedEnv", place)
        result.put("env.kwargs.env", found, place)
        result.tell(
            place, "env", "rlrun needs an env with get_state, set_state and state_of (docs/algorithms/alphazero.md)"
        )
    elif present.is_world or "multiagent" in config or foreign.algorithm in TEAMS:
        if is_unknown:
            raise Untranslatable(
                place,
                f"{name!r} has a single agent or was registered in code; name the multi-agent world as module:factory",
            )
        result.put("env.world", found, place)
        if not present.is_world:
            result.tell(place, "env", "rlrun needs a World or a PettingZoo class (docs/multi_agent.md)")
        translate_policies(result, config, foreign)
    elif is_unknown and "-v" not in name:
        raise Untranslatable(
            place,
            f"{name!r} was registered in code; name the env as package.module:Class, or pass it with `rlrun "
            "translate --env`",
        )
    else:
        result.put("env.id", found, place)


def _translate_env_arguments(
    result: TranslatedEntry, present: PresentEnv, place: Location, config: Mapping[str, Any]
) -> None:
    """Translates the arguments of an env.

    RLlib's own env classes take a dict of arguments, whose names differ from those in rlrun.
    """
    of_config: Location = ("config", "env_config")
    kwargs = dict(config.get("env_config") or {})
    if present.is_atari:
        result.put("env.preset", "atari", place)
        kwargs.pop("frameskip", None)  # RLlib's wrappers hold each action for 4 frames
    if present.argument_names is not None:
        kwargs = dict(next((own for own in kwargs.values() if isinstance(own, Mapping)), kwargs))
        for key in kwargs.keys() - present.argument_names.keys():
            result.tell(of_config, f"env_config.{key}", "the env has no such argument in rlrun", Impact.SLIGHT)
        names = {key: own for key, own in present.argument_names.items() if own and key in kwargs}
        kwargs = {own: kwargs[key] for key, own in names.items()}
    for key, value in {**present.kwargs, **kwargs}.items():
        result.put(f"env.kwargs.{key}", value, of_config if key in kwargs else place)
    if present.wrappers:
        result.put("env.wrappers", list(present.wrappers), place)


def _translate_limit(result: TranslatedEntry, present: PresentEnv, place: Location, config: Mapping[str, Any]) -> None:
    """Translates the step limit of episodes."""
    limit = config.get("horizon")
    if limit is not None:
        result.put("env.max_episode_steps", limit, ("config", "horizon"), "horizon")
        if not config.get("no_done_at_end"):
            text = "rlrun truncates an episode at its limit and bootstraps; RLlib terminated it"
            result.tell(("config", "horizon"), "horizon", text)
    elif present.max_episode_steps is not None:
        result.put("env.max_episode_steps", present.max_episode_steps, place)
    for key in ("soft_horizon", "no_done_at_end"):
        if key in config:
            is_soft = key == "soft_horizon" and config[key]
            text = (
                "rlrun resets the env when an episode reaches its limit"
                if is_soft
                else "rlrun truncates episodes at their limit"
            )
            result.tell(("config", key), key, text, Impact.SLIGHT if is_soft else Impact.NONE)
