"""Acts with a checkpoint of PPO with dense layers: `python with_numpy.py CHECKPOINT`. Needs NumPy and Gymnasium.

It holds for `normalize_observations: false`, Discrete actions and `activation: tanh`; an export holds for all.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import gymnasium
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def tensors(file: Path) -> dict[str, Floats]:
    """Reads a safetensors file: the length of a header, the header in JSON, and numbers."""
    data = file.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    entries = json.loads(data[8:end])
    return {
        name: np.frombuffer(data[end + first : end + last], np.float32).reshape(entry["shape"])
        for name, entry in entries.items()
        if name != "__metadata__"
        for first, last in [entry["data_offsets"]]
    }


def logits(weights: dict[str, Floats], observation: Floats) -> Floats:
    """Logits of the actions [A]: the trunk's layers have even numbers."""
    x, layer = observation, 0
    while f"policy_trunk.{layer}.weight" in weights:
        x = np.tanh(weights[f"policy_trunk.{layer}.weight"] @ x + weights[f"policy_trunk.{layer}.bias"])
        layer += 2
    scores: Floats = weights["policy_head.weight"] @ x + weights["policy_head.bias"]
    return scores


def episode_return(checkpoint: Path, env_id: str) -> float:
    """Return of an episode of the likeliest actions."""
    weights = tensors(checkpoint / "policies" / "default.safetensors")
    env = gymnasium.make(env_id)
    observation, _ = env.reset(seed=0)
    total, ended = 0.0, False
    while not ended:
        action = int(logits(weights, observation).argmax())
        observation, reward, terminated, truncated, _ = env.step(action)
        total, ended = total + float(reward), terminated or truncated
    return total


if __name__ == "__main__":
    print(episode_return(Path(sys.argv[1]), "CartPole-v1"))
