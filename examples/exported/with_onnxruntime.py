"""Plays episodes with an exported policy: `python with_onnxruntime.py policy.onnx`. Needs onnxruntime and Gymnasium."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np
import onnxruntime


def leaves(tree: Any, name: str) -> dict[str, Any]:
    """The parts of an observation, by the names of the file's inputs."""
    if isinstance(tree, dict | tuple):
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        return {path: leaf for key, part in items for path, leaf in leaves(part, f"{name}/{key}").items()}
    return {name: np.asarray(tree)[None]}


def returns(file: str, episodes: int) -> list[float]:
    """Return of each episode; actions are no Dict or Tuple."""
    session = onnxruntime.InferenceSession(file)
    env = gymnasium.make(session.get_modelmeta().custom_metadata_map["env"])
    inputs = {each.name: each for each in session.get_inputs()}
    types = {"tensor(float)": np.float32, "tensor(double)": np.float64}
    memory = {
        name: np.zeros((1, *each.shape[1:]), types.get(each.type, np.int64))
        for name, each in inputs.items()
        if name.endswith("_in")
    }
    found = []
    for episode in range(episodes):
        observation, _ = env.reset(seed=episode)
        total, reward, starts, ended = 0.0, 0.0, True, False
        while not ended:
            given = leaves(observation, "obs") | memory
            given |= {"episode_start": np.array([starts]), "prev_reward": np.array([reward], np.float32)}
            names = ["action", *(f"{name.removesuffix('_in')}_out" for name in memory)]
            action, *after = session.run(names, {name: each for name, each in given.items() if name in inputs})
            memory = dict(zip(memory, after, strict=True))
            observation, reward, terminated, truncated, _ = env.step(action[0])
            total, starts, ended = total + float(reward), False, terminated or truncated
        found.append(total)
    return found


if __name__ == "__main__":
    print(returns(sys.argv[1], episodes=5))
