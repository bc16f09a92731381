"""Generates the CartPole data sets for the shipped offline specs, with scripted policies and fixed seeds.

    python -m scripts.offline_sets configs/cartpole/data

- `expert`: 5 episodes of a linear controller, which balances the pole for all 500 steps.
- `mixed`: 2 episodes of the same controller, with a fifth of the actions random, and 80 of a policy that sees only on
  which side the pole is, with a tenth of the actions random. The second policy, which falls early, takes most actions.
- `graded`: the same, but with 8 episodes of the controller, for a method that is conditioned on a return.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlrun.engine.datasets.writer import SetWriter

Observation = NDArray[np.float32]
Script = Callable[[Observation], bool]


def controller(seen: Observation) -> bool:
    """Pushes in the direction in which the pole is falling; balances it indefinitely."""
    return bool(seen @ np.array([0.05, 0.1, 1.0, 0.5]) > 0)


def one_sided(seen: Observation) -> bool:
    """Pushes toward the side on which the pole is; the pole falls after about 40 steps."""
    return bool(seen[2] > 0)


def episode(env: gymnasium.Env[Any, Any], script: Script, random_share: float, seed: int) -> dict[str, Any]:
    """Plays one episode and returns its columns; the seed determines the env and the random actions."""
    generator = np.random.default_rng(seed)
    seen, _ = env.reset(seed=seed)
    observations, steps, is_over = [seen], [], False
    while not is_over:
        is_random = generator.random() < random_share
        action = int(generator.integers(2)) if is_random else int(script(seen))
        seen, reward, terminated, truncated, _ = env.step(action)
        observations.append(seen)
        steps.append((action, reward, terminated, truncated))
        is_over = terminated or truncated
    actions, rewards, terminateds, truncateds = (np.array(column) for column in zip(*steps, strict=True))
    flags = {"terminateds": terminateds, "truncateds": truncateds}
    return {"obs": np.stack(observations), "actions": actions, "rewards": rewards, **flags}


def write(folder: Path, parts: list[tuple[Script, float, int]]) -> None:
    """Writes a data set with the given number of episodes of each script."""
    env = gymnasium.make("CartPole-v1")
    shutil.rmtree(folder, ignore_errors=True)
    with SetWriter(folder, env.observation_space, env.action_space, about={"env": {"id": "CartPole-v1"}}) as writer:
        seed = 0
        for script, random_share, number in parts:
            for _ in range(number):
                writer.add_episode(episode(env, script, random_share, seed), seed=seed)
                seed += 1


def main() -> None:
    """Writes the data sets."""
    parser = argparse.ArgumentParser(description="Write the data sets of the shipped offline specs.")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    write(folder / "expert", [(controller, 0.0, 5)])
    write(folder / "mixed", [(controller, 0.2, 2), (one_sided, 0.1, 80)])
    write(folder / "graded", [(controller, 0.2, 8), (one_sided, 0.1, 60)])


if __name__ == "__main__":
    main()
