"""Placeholder env for runs that learn only from recorded data: it has spaces, but no episodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import gymnasium
from typing_extensions import override

from rlrun.engine.data.space_json import space_from_json, space_to_json
from rlrun.engine.envs.env_config import WITHOUT_ENV, EnvConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError


class WithoutEnv(gymnasium.Env[Any, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Placeholder env that has the spaces of a data set, but cannot be reset.

    Args:
        observation_space: Space of observations in JSON form.
        action_space: Space of actions in JSON form.
    """

    def __init__(self, observation_space: Mapping[str, Any], action_space: Mapping[str, Any]) -> None:
        self.observation_space = space_from_json(observation_space)
        self.action_space = space_from_json(action_space)

    @override
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> NoReturn:
        """Refuses to start an episode.

        Raises:
            UsageError: Always.
        """
        raise UsageError("this run learned from data, without an env: name an env to act in")


def without_env(spaces: Spaces) -> EnvConfig:
    """Returns the config of the placeholder env for a run that learns only from recorded data.

    Args:
        spaces: Spaces of the run's data.
    """
    kwargs = {f"{name}_space": space_to_json(space) for name, space in spaces._asdict().items()}
    return EnvConfig(id=WITHOUT_ENV, kwargs=kwargs)
