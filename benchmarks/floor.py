"""Measures the floor of a piece of work: how long its env steps and matrix products alone take on this core.

    python -m benchmarks.floor '{"env": "CartPole-v1", ...}'

It is a side of the benchmarks like any other, and returns env steps per second. It counts the steps of the bare env
that rlrun steps, and the matrix products of updates and acting: forward passes, gradients of weights, and, where
needed, gradients of inputs. Each product runs at the speed of the fastest library on this machine: NumPy's BLAS,
torch's BLAS, or oneDNN. Activations, losses, optimizers, replay and Python take no time in this model. No framework can
reach this speed, and the distance to it is an upper bound on what can still be gained.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import ale_py
import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete

from benchmarks.peers import Measurement, answer
from rlrun.engine.envs.backend import backend_of
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import make_vector_env

STRETCHES, STRETCH_S = 5, 0.02
ENV_STEPS = 1000
"""Env steps in a stretch; the env gets the same actions in each stretch."""

POLICY_DELAY = 2
"""Updates of TD3's critics per update of its actor."""


def fastest_s(call: Callable[[], object], calls: int = 0) -> float:
    """Returns the seconds per call in the fastest stretch; with `calls` 0, as many calls as fill a stretch."""
    call()
    began = time.perf_counter()
    call()
    calls = calls or max(1, round(STRETCH_S / max(time.perf_counter() - began, 1e-7)))
    found = float("inf")
    for _ in range(STRETCHES):
        began = time.perf_counter()
        for _ in range(calls):
            call()
        found = min(found, (time.perf_counter() - began) / calls)
    return found


# --- Products


@cache
def product_s(rows: int, inner: int, columns: int) -> float:
    """Returns the seconds of a product [rows, inner] x [inner, columns] in the fastest library."""
    left, right = np.ones((rows, inner), np.float32), np.ones((inner, columns), np.float32)
    out = np.empty((rows, columns), np.float32)
    tensors = [torch.from_numpy(array) for array in (left, right, out)]
    transposed = tensors[1].t().contiguous()
    with torch.no_grad():
        return min(
            fastest_s(lambda: np.matmul(left, right, out=out)),
            fastest_s(lambda: torch.mm(tensors[0], tensors[1], out=tensors[2])),
            fastest_s(lambda: torch.ops.mkldnn._linear_pointwise(tensors[0], transposed, None, "none", [], "")),
        )


def forward_s(rows: int, widths: Sequence[int]) -> float:
    """Returns the seconds of a forward pass through dense layers."""
    return sum(product_s(rows, *pair) for pair in pairwise(widths))


def backward_s(rows: int, widths: Sequence[int], *, weights: bool = True, inputs: bool = False) -> float:
    """Returns the seconds of a backward pass through dense layers.

    Args:
        rows: Rows of the minibatch.
        widths: Width of the input and of each layer.
        weights: Whether the weights' gradients are computed.
        inputs: Whether the gradient of the network's input is computed.
    """
    layers = list(pairwise(widths))
    of_weights = sum(product_s(before, rows, after) for before, after in layers) if weights else 0.0
    return of_weights + sum(product_s(rows, after, before) for before, after in layers[0 if inputs else 1 :])


def learned_s(rows: int, widths: Sequence[int]) -> float:
    """Returns the seconds of a forward pass and a backward pass with the gradients of weights."""
    return forward_s(rows, widths) + backward_s(rows, widths)


def lstm_s(sequences: int, length: int, inputs: int, width: int) -> float:
    """Returns the seconds of both passes through an LSTM: its inputs all at once, its state step by step."""
    rows, gates = sequences * length, 4 * width
    at_once = product_s(rows, inputs, gates) + product_s(rows, gates, inputs)
    of_weights = product_s(inputs, rows, gates) + product_s(width, rows, gates)
    by_steps = length * (product_s(sequences, width, gates) + product_s(sequences, gates, width))
    return at_once + of_weights + by_steps


def pictures_s(rows: int, outputs: int, *, learns: bool) -> float:
    """Returns the seconds of the DQN paper's network for images [rows, 4, 84, 84], with or without gradients."""
    return min(convolutions_s(rows, outputs, learns, order) for order in (torch.contiguous_format, torch.channels_last))


def convolutions_s(rows: int, outputs: int, learns: bool, memory_format: torch.memory_format) -> float:
    """Returns the same as `pictures_s`, for a given memory format."""
    layers = [torch.nn.Conv2d(4, 32, 8, 4), torch.nn.Conv2d(32, 64, 4, 2), torch.nn.Conv2d(64, 64, 3)]
    rectified = [module for layer in layers for module in (layer, torch.nn.ReLU())]
    dense = [torch.nn.Flatten(), torch.nn.Linear(3136, 512), torch.nn.ReLU(), torch.nn.Linear(512, outputs)]
    net: Any = torch.nn.Sequential(*rectified, *dense).to(memory_format=memory_format)
    images = torch.rand(rows, 4, 84, 84).contiguous(memory_format=memory_format)
    with torch.set_grad_enabled(learns):
        return fastest_s((lambda: net(images).sum().backward()) if learns else (lambda: net(images)), 1)


# --- Env steps


def env_step_s(env: str, num_envs: int) -> float:
    """Returns the seconds per env step of a bare env: the vector env that rlrun uses, MuJoCo, or a single env."""
    if env.startswith("ALE/"):
        game = env.removeprefix("ALE/").partition("-")[0].lower()
        return vector_step_s(ale_py.AtariVectorEnv(game=game, num_envs=num_envs, num_threads=1))
    if backend_of(EnvConfig(id=env)) != "loop":
        return vector_step_s(make_vector_env(EnvConfig(id=env), num_envs, EpisodeSeeds(0, 0)))
    bare: Any = gymnasium.make(env).unwrapped
    bare.reset(seed=0)
    if bare.spec.entry_point.startswith("gymnasium.envs.mujoco"):
        import mujoco

        return fastest_s(lambda: mujoco.mj_step(bare.model, bare.data, bare.frame_skip))
    actions = [bare.action_space.sample() for _ in range(ENV_STEPS)]

    def step_all() -> None:
        for action in actions:
            if bare.step(action)[2]:
                bare.reset()

    return fastest_s(step_all, 1) / ENV_STEPS


def vector_step_s(envs: Any) -> float:
    """Returns the seconds per env step of a vector env with Discrete actions."""
    envs.reset()
    num_envs: int = envs.num_envs
    actions = np.zeros(num_envs, np.int64)
    return fastest_s(lambda: envs.step(actions)) / num_envs


# --- Algorithms: seconds of updates and of acting per env step


def ppo_s(order: Measurement, inputs: int, actions: int) -> tuple[float, float]:
    """Returns the seconds of PPO's products: two networks learn, one acts, and the other one values fragments."""
    rows, num_envs, epochs = order["minibatch"], order["num_envs"], order["epochs"]
    epochs = 0 if order["kind"] == "sampling" else epochs
    if order["env"].startswith("ALE/"):  # policy and value share an encoder
        update = pictures_s(rows, actions + 1, learns=True)
        return update / rows * epochs, pictures_s(num_envs, actions + 1, learns=False) / num_envs
    nets = [[inputs, *order["hiddens"], outputs] for outputs in (actions, 1)]
    if "core_width" in order:
        return recurrent_ppo_s(order, inputs, actions)
    update = sum(learned_s(rows, net) for net in nets)
    fragment = num_envs * order["fragment"]
    return update / rows * epochs, forward_s(num_envs, nets[0]) / num_envs + forward_s(fragment, nets[1]) / fragment


def recurrent_ppo_s(order: Measurement, inputs: int, actions: int) -> tuple[float, float]:
    """Returns the seconds of the products of PPO with an LSTM: policy and value each have a dense layer before it."""
    rows, num_envs, width = order["minibatch"], order["num_envs"], order["core_width"]
    before = [inputs, *order["hiddens"]]
    update, acting = 0.0, 0.0
    for outputs in (actions, 1):
        core = lstm_s(rows // order["sequence"], order["sequence"], before[-1], width)
        to_core = forward_s(rows, before) + backward_s(rows, before)
        update += to_core + core + learned_s(rows, [width, outputs]) + product_s(rows, outputs, width)
        gates = product_s(num_envs, before[-1], 4 * width) + product_s(num_envs, width, 4 * width)
        acting += forward_s(num_envs, before) + gates + forward_s(num_envs, [width, outputs])
    return update / rows * order["epochs"], acting / num_envs


def dqn_s(order: Measurement, inputs: int, actions: int) -> tuple[float, float]:
    """Returns the seconds of double DQN's products: three forward passes, a backward pass, and acting."""
    net, rows, num_envs = [inputs, *order["hiddens"], actions], order["batch"], order["num_envs"]
    update = 2 * forward_s(rows, net) + learned_s(rows, net)
    return update * order["training_intensity"], forward_s(num_envs, net) / num_envs


def actor_critic_s(order: Measurement, inputs: int, actions: int) -> tuple[float, float]:
    """Returns the seconds of the products of SAC or TD3, with two critics and, in TD3, less frequent actor updates."""
    rows, is_td3 = order["batch"], order["algorithm"] == "td3"
    actor = [inputs, *order["hiddens"], actions if is_td3 else 2 * actions]
    critic = [inputs + actions, *order["hiddens"], 1]
    critics = 2 * forward_s(rows, critic) + 2 * learned_s(rows, critic)
    through = forward_s(rows, critic) + backward_s(rows, critic, weights=False, inputs=True)
    actors = learned_s(rows, actor) + (1 if is_td3 else 2) * through
    update = forward_s(rows, actor) + critics + actors / (POLICY_DELAY if is_td3 else 1)
    return update * order["training_intensity"], forward_s(order["num_envs"], actor) / order["num_envs"]


def offline_s(order: Measurement, inputs: int, actions: int) -> float:
    """Returns the seconds of the products per minibatch of BC, IQL or CQL; the last two have Box actions."""
    rows, kind, hiddens = order["batch"], order["algorithm"], order["hiddens"]
    if kind == "bc":
        return learned_s(rows, [inputs, *hiddens, actions])
    critic, value = [inputs + actions, *hiddens, 1], [inputs, *hiddens, 1]
    if kind == "iql":
        values = learned_s(rows, value) + forward_s(rows, value)
        critics = 2 * (learned_s(rows, critic) + forward_s(rows, critic))
        return values + critics + learned_s(rows, [inputs, *hiddens, actions])
    actor, sampled = [inputs, *hiddens, 2 * actions], order["sampled"]
    critics = 2 * (learned_s((1 + 3 * sampled) * rows, critic) + forward_s(rows, critic))
    through = forward_s(rows, critic) + backward_s(rows, critic, weights=False, inputs=True)
    return critics + forward_s(rows, actor) + learned_s(rows, actor) + 2 * through


def measured(order: Measurement) -> Measurement:
    """Measures the floor of the given work, scaled to a million env steps or minibatches of data."""
    torch.set_num_threads(1)
    gymnasium.register_envs(ale_py)
    shown = gymnasium.make(order["env"])
    space: Any = shown.action_space
    actions = int(space.n) if isinstance(space, Discrete) else int(np.prod(space.shape))
    inputs = int(np.prod(shown.observation_space.shape)) if isinstance(shown.observation_space, Box) else 0
    if "data" in order:
        seconds = 1e6 * offline_s(order, inputs, actions)
        return {"env_steps": 1e6, "updates": 1e6, "seconds": seconds, "cpu_seconds": seconds}
    of = {"dqn": dqn_s, "sac": actor_critic_s, "td3": actor_critic_s}.get(order.get("algorithm", "ppo"), ppo_s)
    update_s, acting_s = of(order, order.get("observed", inputs), actions)
    step_s = env_step_s(order["env"], order["num_envs"])
    parts = {"env": step_s, "products of updates": update_s, "products of acting": acting_s}
    seconds = sum(parts.values())
    shares = {name: part / seconds for name, part in parts.items()}
    return {"env_steps": 1e6, "seconds": 1e6 * seconds, "cpu_seconds": 1e6 * seconds, "shares": shares}


if __name__ == "__main__":
    answer(measured)
