"""Minibatches, and networks of one layer whose outputs a test computes in NumPy."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.policy.policy import Policy

ROWS = 6
OBSERVATION = gymnasium.spaces.Box(-np.inf, np.inf, (3,))
BOX = Spaces(OBSERVATION, gymnasium.spaces.Box(-2.0, 2.0, (2,)))
CHOICE = Spaces(OBSERVATION, gymnasium.spaces.Discrete(3))
ONE_LAYER = {"hiddens": [], "activation": "relu", "orthogonal_init": False}


class Made(NamedTuple):
    """A policy's networks with random parameters, and a minibatch in the form that the learner gets.

    Attributes:
        policy: The policy.
        outputs: The outputs that losses get.
        named: Parameters by name.
        target: Parameters of the target networks by name.
        batch: Columns [S, 1] as tensors; row 0 is invalid.
        rows: Columns [S] in NumPy.
    """

    policy: Policy
    outputs: Any
    named: dict[str, NDArray[Any]]
    target: dict[str, NDArray[Any]]
    batch: SampleBatch
    rows: dict[str, Any]


def made(algorithm: Algorithm[Any], spaces: Spaces, seed: int = 0, rows: int = ROWS) -> Made:
    """Makes a policy with random parameters, and a random minibatch."""
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    policy = algorithm.policy(spaces, seed)
    table = policy.parameters
    flat, target = (torch.randn(table.size, generator=generator) for _ in range(2))
    action, shape = spaces.action, (rows, 1)
    is_box = isinstance(action, gymnasium.spaces.Box)
    numbers = SampleBatch(
        obs=rng.normal(size=(*shape, 3)).astype(np.float32),
        actions=rng.uniform(-1, 1, (*shape, 2)).astype(np.float32) if is_box else rng.integers(0, 3, shape),
        rewards=rng.normal(size=shape).astype(np.float32),
        discounts=np.where(rng.random(shape) < 0.3, 0, 0.9).astype(np.float32),
        next_obs=rng.normal(size=(*shape, 3)).astype(np.float32),
        valid=np.arange(rows)[:, None] > 0,
        weights=np.ones(shape, np.float32),
    )
    numbers = SampleBatch(numbers, **policy.draws(rng, rows, 1))
    batch = SampleBatch({name: map_tree(torch.as_tensor, column) for name, column in numbers.items()})
    outputs = policy.outputs(table.views(flat), batch, table.views(target))
    named, targets = table.named(flat.numpy()), table.named(target.numpy())
    return Made(policy, outputs, named, targets, batch, {name: column[:, 0] for name, column in numbers.items()})


def layer(named: dict[str, NDArray[Any]], part: str, x: NDArray[Any]) -> NDArray[Any]:
    """Outputs of a one-layer network."""
    result: NDArray[Any] = x @ named[f"{part}.head.weight"].T + named[f"{part}.head.bias"]
    return result


def critics(named: dict[str, NDArray[Any]], *inputs: NDArray[Any]) -> NDArray[Any]:
    """Outputs [C, ..., K] of the critics."""
    x = np.concatenate(inputs, -1)
    numbers = [i for i in range(9) if f"critics.{i}.head.bias" in named]
    return np.stack([layer(named, f"critics.{i}", x) for i in numbers])


def softmax(x: NDArray[Any]) -> NDArray[Any]:
    """Probabilities of logits [..., A]."""
    exponentials = np.exp(x)
    result: NDArray[Any] = exponentials / exponentials.sum(-1, keepdims=True)
    return result


def taken(values: NDArray[Any], actions: NDArray[Any]) -> NDArray[Any]:
    """Values [..., S] of the actions [S], from the values of all actions."""
    return values[..., np.arange(len(actions)), actions]


def valid_mean(x: NDArray[Any]) -> float:
    """Mean over the valid rows, of [..., S]."""
    return float(x[..., 1:].mean())
