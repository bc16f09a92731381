"""Old env ids of Gym, and their replacements in Gymnasium."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rlrun.engine.messages.foreign_names import env_package, table


@dataclass(frozen=True)
class PresentEnv:
    """Gymnasium replacement for an env known by an old Gym id.

    Attributes:
        id: Id in Gymnasium; begins with the package that registers the env, if one must be imported.
        max_episode_steps: Step limit of the old env if it differs from the replacement's; else None.
        difference: Description of differences between the envs; "" if there are none.
        kwargs: Keyword arguments of the replacement.
        wrappers: Wrappers of the replacement.
        is_atari: Whether the env is an Atari game.
        is_world: Whether the env is a multi-agent world.
        argument_names: New name of each argument, by old name; "" for arguments that are dropped; None if no name has
            changed.
        episode_steps: Number of steps of each episode, if it is constant.
    """

    id: str
    max_episode_steps: int | None = None
    difference: str = ""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    wrappers: tuple[str | Mapping[str, Any], ...] = ()
    is_atari: bool = False
    is_world: bool = False
    argument_names: Mapping[str, str] | None = None
    episode_steps: int | None = None


def present_env(env_id: str) -> PresentEnv:
    """Replacement for an old Gym env id; Atari games get DeepMind's wrappers in training.

    Examples:
        >>> present_env("CartPole-v0").max_episode_steps, present_env("Hopper-v2").id
        (200, 'Hopper-v4')
        >>> present_env("PongNoFrameskip-v4").kwargs
        {'repeat_action_probability': 0.0, 'episodic_life': True}
        >>> present_env("MiniGrid-Unlock-v0").id
        'minigrid:MiniGrid-Unlock-v0'
    """
    if env_id in table()["old_envs"]:
        return PresentEnv(**table()["old_envs"][env_id])
    robot = re.fullmatch(r"(\w+)-v[123]", env_id)
    if robot and robot[1] in table()["mujoco_robots"]:
        kwargs = {"use_contact_forces": True} if robot[1] == "Ant" else {}
        return PresentEnv(f"{robot[1]}-v4", difference="the simulator is newer", kwargs=kwargs)
    masked = re.fullmatch(r"(\w+)NoVel(-v\d)", env_id)
    if masked:
        shown = present_env(masked[1] + masked[2])
        return replace(shown, wrappers=(table()["hides_velocities"],))
    packages = table()["packages_by_ending"].items()
    package = next((package for ending, package in packages if env_id.endswith(ending)), "") or env_package(env_id)
    return _present_game(env_id) or PresentEnv(f"{package}:{env_id}" if package else env_id)


def has_continuous_actions(env_id: str) -> bool:
    """Whether a Gymnasium env is known to have continuous actions.

    Examples:
        >>> has_continuous_actions("Pendulum-v1"), has_continuous_actions("CartPole-v1")
        (True, False)
    """
    return env_id.partition("-v")[0] in (*table()["continuous_envs"], *table()["mujoco_robots"])


def _present_game(env_id: str) -> PresentEnv | None:
    game = re.fullmatch(r"(?:ALE/)?(\w+?)(NoFrameskip|Deterministic|)-v([045])", env_id)
    if game is None or game[1] not in table()["atari_games"]:
        return None
    name, kind, version = game.groups()
    kwargs = {"repeat_action_probability": 0.0 if version == "4" else 0.25, "episodic_life": True}
    if kind == "Deterministic":
        kwargs["maxpool"] = False
    difference = (
        "rlrun repeats each action for 4 frames; this env repeated it for 2 to 5" if not kind and version != "5" else ""
    )
    return PresentEnv(f"ALE/{name}-v5", difference=difference, kwargs=kwargs, is_atari=True)
