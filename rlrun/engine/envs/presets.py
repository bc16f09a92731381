"""Presets of env families: default settings that a spec's explicit settings override."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlrun.engine.settings.config import ConfigModel

ATARI_SETTINGS: Mapping[str, Any] = {"clip_rewards": 1, "model.conv": "nature", "replay.frame_stack": 4}
"""Algorithm settings for Atari games (Mnih et al. 2015) by dotted path; paths that an algorithm lacks are skipped."""

ATARI_EVALUATION: Mapping[str, Any] = {"episodic_life": False}
"""Keyword arguments of Atari envs in evaluation."""


def with_preset(env: Any, config: Any, config_class: type[ConfigModel]) -> tuple[Any, Any]:
    """Adds the default settings of an env's preset; explicit settings take precedence.

    Args:
        env: Env settings of a spec; without a preset, all settings are returned unchanged.
        config: Algorithm settings of a spec; values may be search spaces.
        config_class: Config class of the algorithm, which defines the available settings.

    Returns:
        Env and algorithm settings that include the preset's settings; adding the preset again changes nothing.

    Examples:
        >>> from rlrun.engine.algorithm_config import AlgorithmConfig
        >>> env, config = with_preset({"id": "ALE/Pong-v5", "preset": "atari"}, {"lr": 1e-4}, AlgorithmConfig)
        >>> env["evaluation_kwargs"], config
        ({'episodic_life': False}, {'clip_rewards': 1, 'model': {'conv': 'nature'}, 'lr': 0.0001})
    """
    if not (isinstance(env, Mapping) and env.get("preset") == "atari" and isinstance(config, Mapping)):
        return env, config
    settings: dict[str, Any] = {}
    for path, value in ATARI_SETTINGS.items():
        if config_class.has_setting(path):
            *sections, name = path.split(".")
            section = settings
            for key in sections:
                section = section.setdefault(key, {})
            section[name] = value
    return _under({"evaluation_kwargs": dict(ATARI_EVALUATION)}, env), _under(settings, config)


def preset_text(env: Any, config: Mapping[str, Any]) -> str:
    """Returns text for the user that lists an env's preset and the settings it implies; "" without a preset.

    Args:
        env: Env settings of a resolved spec.
        config: Algorithm settings of the spec; values may be search spaces.
    """
    if not isinstance(env, Mapping) or env.get("preset") is None:
        return ""
    found = {path: _value_at(config, path) for path in ATARI_SETTINGS}
    told = [f"{path} {value}" for path, value in found.items() if value is not _ABSENT]
    judged = [f"{name} {env['evaluation_kwargs'].get(name)}" for name in ATARI_EVALUATION]
    return f"{env['preset']}: {', '.join(told)}; in evaluations {', '.join(judged)}"


_ABSENT = object()


def _value_at(config: Mapping[str, Any], path: str) -> Any:
    value: Any = config
    for name in path.split("."):
        value = value.get(name, _ABSENT) if isinstance(value, Mapping) else _ABSENT
    return value


def _under(usual: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Recursively merges explicit settings over defaults."""
    merged = {**usual, **written}
    for key, value in usual.items():
        if isinstance(value, Mapping) and isinstance(merged[key], Mapping):
            merged[key] = _under(value, merged[key])
    return merged
