"""Env wrapper for fixed reset options."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium


class BeginWith(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Env wrapper that passes fixed options to every `reset`.

    Args:
        env: The env.
        options: Reset options, copied for each episode, since the env may change them.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], options: Mapping[str, Any]) -> None:
        super().__init__(env)
        self.options = dict(options)
        self.step = env.step  # a wrapper's own would cost each step a call

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets the env with the fixed options, updated by the call's options."""
        return self.env.reset(seed=seed, options=copy.deepcopy(self.options) | (options or {}))  # type: ignore[no-any-return]
