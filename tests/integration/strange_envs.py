"""Misbehaving envs, for tests that run them in separate processes."""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from numpy.typing import NDArray

from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.worlds.world import World, WorldStep
from rlrun.toys.foraging import Foraging

MISDEED_AT_STEP = 300


class StrangeEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    """Episodes of 20 steps with a reward of 1 each, and misbehavior at the env's 300th step."""

    observation_space: ClassVar[Any] = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space: ClassVar[Any] = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.steps = self.steps_of_life = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(3, np.float32), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.steps_of_life += 1
        if self.steps_of_life == MISDEED_AT_STEP:
            self.misbehave()
        return np.zeros(3, np.float32), 1.0, False, self.steps >= 20, {}

    def misbehave(self) -> None:
        """Nothing yet."""


class Exits(StrangeEnv):
    """Ends the process as if everything had gone well."""

    def misbehave(self) -> None:
        sys.exit(0)


class Interrupts(StrangeEnv):
    """Raises what Ctrl-C raises."""

    def misbehave(self) -> None:
        raise KeyboardInterrupt


class WithoutActions(StrangeEnv):
    """Declares no action space."""

    action_space: ClassVar[Any] = None


class Crashes(StrangeEnv):
    """Reads invalid memory in the third episode of env slot 1.

    Args:
        env_index: Filled in.
    """

    def __init__(self, env_index: int = 0) -> None:
        super().__init__()
        self.env_index = env_index
        self.episodes = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        self.episodes += 1
        return super().reset(seed=seed, options=options)

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        if (self.env_index, self.episodes, self.steps) == (1, 3, 10):
            ctypes.string_at(0)
        return super().step(action)


class Prints(StrangeEnv):
    """Writes to stdout from Python, from C, and when the process ends."""

    def misbehave(self) -> None:
        atexit.register(print, "a last word")
        print("a word from Python")
        sys.stdout.flush()
        os.write(1, b"a word from C\n")


class Hangs(StrangeEnv):
    """Never returns from a step."""

    def misbehave(self) -> None:
        time.sleep(10_000)


class HangsWhenClosed(StrangeEnv):
    """Never returns from `close`."""

    def close(self) -> None:
        time.sleep(10_000)


def hangs_when_made() -> StrangeEnv:
    """Never returns."""
    time.sleep(10_000)
    return StrangeEnv()


class HangsUntilStopped(StrangeEnv):
    """Hangs in a step in which the user's Ctrl-C arrives."""

    def misbehave(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10_000)


class DiesOnce(CartPoleEnv):  # type: ignore[misc]  # gymnasium is not type-checked
    """CartPole that kills worker 2's process in the middle of a fragment, but only once.

    Args:
        note: The file that records the kill.
        is_seeded: Whether seeds determine how episodes begin, so that they can be replayed.
        worker_index: Filled in.
        env_index: Filled in.
    """

    def __init__(self, note: str, is_seeded: bool = True, worker_index: int = 0, env_index: int = 0) -> None:
        super().__init__()
        self.note = Path(note)
        self.is_seeded = is_seeded
        self.is_deadly = (worker_index, env_index) == (2, 0)
        self.steps_of_life = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return super().reset(seed=seed if self.is_seeded else int.from_bytes(os.urandom(4), "big"), options=options)

    def step(self, action: Any) -> Any:
        self.steps_of_life += 1
        if self.is_deadly and self.steps_of_life == 37 and not self.note.exists():
            self.note.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


class DiesWithItsSpec(CartPoleEnv):  # type: ignore[misc]
    """CartPole that kills its process at its 100th step if a file exists.

    Args:
        spec: The file.
        removes: Whether the env removes the file first, so that the process dies only once.
        env_index: Filled in.
    """

    def __init__(self, spec: str, removes: bool = True, env_index: int = 0) -> None:
        super().__init__()
        self.spec = Path(spec)
        self.removes = removes
        self.is_deadly = env_index == 0
        self.steps_of_life = 0

    def step(self, action: Any) -> Any:
        self.steps_of_life += 1
        if self.is_deadly and self.steps_of_life == 100 and self.spec.exists():
            if self.removes:
                self.spec.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


class ForagingThatKillsOnce(Foraging):
    """Foragers and hunters with short lives; in its third episode, it ends its process, but only once.

    Args:
        note: The file that records the end; None for a harmless world.
    """

    def __init__(self, note: str | None = None) -> None:
        super().__init__(size=8, foragers=4, max_foragers=6, hunters=1, max_hunters=2, max_steps=30)
        self.note = None if note is None else Path(note)
        self.episodes = self.elapsed = 0

    def reset(self, seed: int) -> Mapping[str, Any]:
        self.episodes += 1
        self.elapsed = 0
        return super().reset(seed)

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        self.elapsed += 1
        if self.note is not None and (self.episodes, self.elapsed) == (3, 7):
            try:
                self.note.touch(exist_ok=False)
            except FileExistsError:
                return super().step(actions)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(actions)


class StrangeWorld(World):
    """Two agents in episodes of 20 steps, and misbehavior at the 10th step of the episode with a given seed.

    Args:
        misdeed: What it does: `crashes`, by reading invalid memory, or `hangs`.
        seed: Seed of the episode in which it misbehaves.
    """

    possible_agents = ("left", "right")

    def __init__(self, misdeed: str, seed: int) -> None:
        self.misdeed = misdeed
        self.in_seed = seed

    def spaces(self, agent: str) -> Spaces:
        return Spaces(gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32), gymnasium.spaces.Discrete(2))

    def reset(self, seed: int) -> Mapping[str, Any]:
        self.seed, self.steps = seed, 0
        return {agent: np.zeros(3, np.float32) for agent in self.possible_agents}

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        self.steps += 1
        if (self.seed, self.steps) == (self.in_seed, 10):
            if self.misdeed == "crashes":
                ctypes.string_at(0)
            time.sleep(10_000)
        ends = dict.fromkeys(actions, self.steps == 20)
        return WorldStep(
            {agent: np.zeros(3, np.float32) for agent in actions},
            dict.fromkeys(actions, 1.0),
            {},
            ends,
            {},
            ends["left"],
        )


class FailsToBegin(StrangeEnv):
    """Raises before its first step, or in a later reset.

    Args:
        at: "factory", or the number of the reset.
        exits: Whether it tries to end the process instead.
    """

    def __init__(self, at: str | int, *, exits: bool = False) -> None:
        super().__init__()
        self.at, self.exits, self.resets = at, exits, 0
        if at == "factory":
            self.misbehave()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        self.resets += 1
        if self.resets == self.at:
            self.misbehave()
        return super().reset(seed=seed, options=options)

    def misbehave(self) -> None:
        if self.exits:
            sys.exit(0)
        raise ValueError("not today")


class WorldWithoutBeginning(StrangeWorld):
    """Raises in its first reset."""

    def __init__(self) -> None:
        super().__init__("", -1)

    def reset(self, seed: int) -> Mapping[str, Any]:
        raise ValueError("not today")
