"""Goal-conditioned envs: rewards and terminations as functions of achieved and desired goals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.single_env import make_single_env
from rlrun.engine.envs.vector_env import env_error
from rlrun.engine.messages.errors import UsageError

Array = NDArray[Any]

PROBED_ROWS = 16
"""Number of rows of the first call that are computed again one by one, to check the results."""


class GoalEnv:
    """Reward and termination functions of a goal-conditioned env, called on an instance that is never stepped.

    The env must have `compute_reward(achieved_goal, desired_goal, info)` for goals [N, ...], as Gymnasium-Robotics'
    envs do, and may have `compute_terminated` with the same arguments. `info` is always empty, since replay buffers do
    not store infos.

    Args:
        config: Config of the env.

    Raises:
        UsageError: The env has no `compute_reward`, or is a multi-task env, whose tasks may change the function.
        EnvError: The env cannot be created.
    """

    def __init__(self, config: EnvConfig) -> None:
        if config.varies:
            raise UsageError(
                "replay.hindsight cannot be combined with tasks or a curriculum, because rewards then depend on "
                "more than goals; leave it out"
            )
        self._id = config.id
        env = make_single_env(config)
        self._compute_reward = _attribute(env, "compute_reward")
        self._compute_terminated = _attribute(env, "compute_terminated")
        self._is_checked = False
        if self._compute_reward is None:
            raise UsageError(
                f"replay.hindsight: env {config.id} has no compute_reward(achieved_goal, desired_goal, info); "
                "add it to the env, or leave out hindsight"
            )

    def rewards(self, achieved: Array, desired: Array) -> NDArray[np.float32]:
        """Returns the rewards [N] of N steps, computed from the achieved and the desired goals [N, ...].

        Raises:
            UsageError: A goal function does not treat each row separately.
            EnvError: A goal function raised.
        """
        if not self._is_checked and len(achieved):
            self._check(achieved[:PROBED_ROWS], desired[:PROBED_ROWS])
            self._is_checked = True
        return self._call("compute_reward", self._compute_reward, achieved, desired).astype(np.float32)

    def terminateds(self, achieved: Array, desired: Array) -> NDArray[np.bool_] | None:
        """Returns whether each of N pairs of goals ends the episode, [N].

        None if the env has no `compute_terminated`.
        """
        if self._compute_terminated is None:
            return None
        return self._call("compute_terminated", self._compute_terminated, achieved, desired).astype(np.bool_)

    def _check(self, achieved: Array, desired: Array) -> None:
        """Compares a call on many rows with calls on single rows, and with a second call on the same memory."""
        functions = {"compute_reward": self._compute_reward, "compute_terminated": self._compute_terminated}
        for name, function in functions.items():
            if function is None:
                continue
            together = self._call(name, function, achieved, desired)
            alone = [
                self._call(name, function, achieved[i : i + 1], desired[i : i + 1])[0] for i in range(len(achieved))
            ]
            again = self._call(name, function, achieved, desired)
            if not np.allclose(together, alone) or not np.array_equal(together, again):
                raise UsageError(
                    f"replay.hindsight: {name} of env {self._id} must be a pure function of each row of goals; for "
                    f"{len(achieved)} rows together it returned {together.tolist()}, but for each row alone "
                    f"{np.array(alone).tolist()}"
                )

    def _call(self, name: str, function: Callable[..., Any] | None, achieved: Array, desired: Array) -> Array:
        assert function is not None
        try:
            found = np.asarray(function(achieved.copy(), desired.copy(), {}))
        except Exception as error:
            raise env_error(self._id, f"{name}()", "goals of a replay", error) from error
        if found.shape not in ((), (len(achieved),)):
            raise UsageError(
                f"replay.hindsight: {name} of env {self._id} must return one number for each row; for goals "
                f"{achieved.shape} it returned {found.shape}"
            )
        return np.broadcast_to(found, (len(achieved),))


def _attribute(env: Any, name: str) -> Callable[..., Any] | None:
    """Returns an attribute of the env or of its outermost wrapper that has it; None if none has."""
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None
