"""A wrapper that repeats some actions, so that policies cannot memorize episodes."""

from __future__ import annotations

from typing import Any

import gymnasium


class StickyActions(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]  # gymnasium is not typed here
    """Sometimes repeats the previous action (arXiv:1709.06009, section 5).

    Args:
        env: The env.
        probability: Of a repetition.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], probability: float = 0.25) -> None:
        super().__init__(env)
        self.probability = probability
        self.last: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> Any:
        """Begins an episode, in which no action was taken yet."""
        self.last = None
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        """Takes the action or the previous one, by the env's seeded generator."""
        if self.last is None or self.np_random.random() >= self.probability:
            self.last = action
        return super().step(self.last)
