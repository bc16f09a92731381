"""CartPole and Pendulum in torch, for any number of env slots on any device: toy `TensorVectorEnv`s."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np
import torch
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.envs.classic_control.pendulum import PendulumEnv
from numpy.typing import NDArray
from torch import Tensor

from rlrun.engine.envs.tensor_vector_env import FinalObservations, TensorStep


class Moved(NamedTuple):
    """Result of a transition in all env slots.

    Attributes:
        state: State after the transition, [K, B].
        rewards: Rewards, [B].
        terminateds: Whether the state is terminal, bool [B].
    """

    state: Tensor
    rewards: Tensor
    terminateds: Tensor


class ToyDynamics(Protocol):
    """Dynamics of a toy env, as functions of the states [K, B] of B env slots.

    Attributes:
        observation_space: Space of one env slot's observation.
        action_space: Space of one env slot's action.
        bounds: Bound b of each of the K numbers in an initial state, which are sampled uniformly from [-b, b].
    """

    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    bounds: tuple[float, ...]

    def move(self, state: Tensor, actions: Tensor) -> Moved:
        """Computes the transitions from states [K, B] with actions [B, ...]."""
        ...

    def observe(self, state: Tensor) -> Tensor:
        """Returns the observations [B, ...] of states [K, B]."""
        ...

    def render(self, state: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Returns an image [height, width, 3] of one state [K]."""
        ...


class CartPoleDynamics:
    """Dynamics of Gymnasium's CartPole: x, its velocity, the angle theta and its velocity, [4, B].

    The operations and their order are the same as in `rlrun.engine.envs.cartpole_motion`.
    """

    def __init__(self) -> None:
        self._numbers = CartPoleEnv(render_mode="rgb_array")
        self.observation_space = self._numbers.observation_space
        self.action_space = self._numbers.action_space
        self.bounds: tuple[float, ...] = (0.05,) * 4

    def move(self, state: Tensor, actions: Tensor) -> Moved:
        """Advances all poles by an Euler step of 0.02 s (https://coneural.org/florian/papers/05_cart_pole.pdf)."""
        n = self._numbers
        _, x_dot, theta, theta_dot = state
        cos, sin = theta.cos(), theta.sin()
        force = actions * (2 * n.force_mag) - n.force_mag
        temp = (theta_dot.square() * n.polemass_length * sin + force) / n.total_mass
        inertia = (4.0 / 3.0 - cos.square() * n.masspole / n.total_mass) * n.length
        theta_acc = (sin * n.gravity - cos * temp) / inertia
        x_acc = temp - theta_acc * n.polemass_length * cos / n.total_mass
        moved = state + n.tau * torch.stack((x_dot, x_acc, theta_dot, theta_acc))
        fallen = (moved[0].abs() > n.x_threshold) | (moved[2].abs() > n.theta_threshold_radians)
        return Moved(moved, torch.ones_like(x_dot), fallen)

    def observe(self, state: Tensor) -> Tensor:
        """Returns the states as observations [B, 4]."""
        return state.T.float()

    def render(self, state: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Returns an image of one cart and pole."""
        return _image(self._numbers, state)


class PendulumDynamics:
    """Dynamics of Gymnasium's Pendulum: the angle, 0 at the top, and its velocity, [2, B]."""

    def __init__(self) -> None:
        self._numbers = PendulumEnv(render_mode="rgb_array")
        self.observation_space = self._numbers.observation_space
        self.action_space = self._numbers.action_space
        self.bounds: tuple[float, ...] = (math.pi, 1.0)

    def move(self, state: Tensor, actions: Tensor) -> Moved:
        """Advances all pendulums by an Euler step of 0.05 s."""
        n = self._numbers
        theta, speed = state
        torque = actions[:, 0].to(state.dtype).clamp(-n.max_torque, n.max_torque)
        angle = (theta + math.pi) % (2 * math.pi) - math.pi
        costs = angle.square() + 0.1 * speed.square() + 0.001 * torque.square()
        pull = 3 * n.g / (2 * n.l) * theta.sin() + 3.0 / (n.m * n.l**2) * torque
        moved_speed = (speed + pull * n.dt).clamp(-n.max_speed, n.max_speed)
        moved = torch.stack((theta + moved_speed * n.dt, moved_speed))
        return Moved(moved, -costs, torch.zeros_like(theta, dtype=torch.bool))

    def observe(self, state: Tensor) -> Tensor:
        """Returns cosine and sine of the angle, and the velocity, [B, 3]."""
        theta, speed = state
        return torch.stack((theta.cos(), theta.sin(), speed), dim=1).float()

    def render(self, state: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Returns an image of one pendulum."""
        self._numbers.last_u = None
        return _image(self._numbers, state)


class TensorToy:
    """Toy env on a device, a `TensorVectorEnv` with exact resume; it never waits for the device.

    Args:
        dynamics: Dynamics.
        num_envs: Number of env slots, B.
        device: Device of all tensors.
        max_episode_steps: Steps after which an episode is truncated.
        dtype: Floating-point type of states and rewards.
    """

    seeds_episodes = True
    is_only_one = False

    def __init__(
        self, dynamics: ToyDynamics, num_envs: int, device: torch.device, *, max_episode_steps: int, dtype: torch.dtype
    ) -> None:
        self.num_envs = num_envs
        self.device = device
        self.observation_space = dynamics.observation_space
        self.action_space = dynamics.action_space
        self._dynamics = dynamics
        self._max_episode_steps = max_episode_steps
        self._bounds = torch.tensor(dynamics.bounds, dtype=dtype, device=device)[:, None]
        self._state = torch.zeros((len(dynamics.bounds), num_envs), dtype=dtype, device=device)
        self._seeds, self._episodes, self._lengths = torch.zeros((3, num_envs), dtype=torch.int64, device=device)

    def reset(self, *, seeds: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Starts a new episode in some env slots; see `TensorVectorEnv.reset`."""
        chosen = torch.ones_like(self._seeds, dtype=torch.bool) if mask is None else mask
        if seeds is not None:
            self._seeds = torch.where(chosen, seeds, self._seeds)
            self._episodes = torch.where(chosen, -1, self._episodes)
        self._start(chosen)
        return self._dynamics.observe(self._state)

    def step(self, actions: Tensor) -> TensorStep:
        """Steps all env slots, and resets those whose episode ends."""
        self._state, rewards, terminateds = self._dynamics.move(self._state, actions)
        self._lengths = self._lengths + 1
        truncateds = self._lengths >= self._max_episode_steps
        ended = terminateds | truncateds
        finals = FinalObservations(ended, self._dynamics.observe(self._state))
        self._start(ended)
        return TensorStep(self._dynamics.observe(self._state), rewards, terminateds, truncateds, finals)

    def _start(self, chosen: Tensor) -> None:
        """Starts the next episode in the chosen env slots, [B]: its state is a function of seed and episode number."""
        self._episodes = self._episodes + chosen
        first = (2 * _uniform(self._seeds, self._episodes, self._bounds) - 1) * self._bounds
        self._state = torch.where(chosen, first, self._state)
        self._lengths = torch.where(chosen, 0, self._lengths)

    def state(self) -> Mapping[str, Any]:
        """Returns seeds, episode numbers, episode lengths and physical states of all env slots."""
        return {
            "seeds": self._seeds.clone(),
            "episodes": self._episodes.clone(),
            "lengths": self._lengths.clone(),
            "state": self._state.clone(),
        }

    def load_state(self, state: Mapping[str, Any]) -> Tensor:
        """Restores the result of `state()`; returns the observations [B, ...]."""
        self._seeds, self._episodes, self._lengths, self._state = (
            torch.as_tensor(np.array(state[name]), dtype=own.dtype, device=self.device)
            for name, own in (
                ("seeds", self._seeds),
                ("episodes", self._episodes),
                ("lengths", self._lengths),
                ("state", self._state),
            )
        )
        return self._dynamics.observe(self._state)

    def render(self) -> NDArray[np.uint8]:
        """Returns an image of the first env slot, [height, width, 3]."""
        return self._dynamics.render(self._state[:, 0].double().cpu().numpy())

    def close(self) -> None:
        """No-op: there are no resources to release."""


def tensor_cartpole(
    num_envs: int, device: torch.device, *, max_episode_steps: int = 500, dtype: torch.dtype = torch.float32
) -> TensorToy:
    """Creates Gymnasium's CartPole-v1 on a device; the best return is `max_episode_steps`."""
    return TensorToy(CartPoleDynamics(), num_envs, device, max_episode_steps=max_episode_steps, dtype=dtype)


def tensor_pendulum(
    num_envs: int, device: torch.device, *, max_episode_steps: int = 200, dtype: torch.dtype = torch.float32
) -> TensorToy:
    """Creates Gymnasium's Pendulum-v1 on a device."""
    return TensorToy(PendulumDynamics(), num_envs, device, max_episode_steps=max_episode_steps, dtype=dtype)


def _image(env: Any, state: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Returns the image that one of Gymnasium's envs draws of a state."""
    env.state = state
    image: NDArray[np.uint8] = env.render()
    return image


def _uniform(seeds: Tensor, episodes: Tensor, like: Tensor) -> Tensor:
    """Returns uniform numbers [K, B] in [0, 1), a hash of seed [B], episode number [B] and index, K rows as in `like`.

    The hash is the finalizer of splitmix64 (Steele et al., 2014, https://doi.org/10.1145/2660193.2660195), in int64
    that wraps around.
    """
    index = torch.arange(len(like), device=seeds.device)[:, None]
    bits = _mixed(_mixed(seeds * _GOLDEN + episodes) + (index + 1) * _GOLDEN)
    return ((bits >> 40) & (2**24 - 1)).to(like.dtype) / 2**24


def _mixed(bits: Tensor) -> Tensor:
    """Returns the bits of int64 numbers after splitmix64's finalizer."""
    bits = (bits ^ _shifted(bits, 30)) * _MIX_1
    bits = (bits ^ _shifted(bits, 27)) * _MIX_2
    return bits ^ _shifted(bits, 31)


def _shifted(bits: Tensor, by: int) -> Tensor:
    """Returns the bits of int64 numbers after a logical shift to the right."""
    shifted: Tensor = (bits >> by) & (2 ** (64 - by) - 1)
    return shifted


def _signed(bits: int) -> int:
    """Returns the int64 with the bits of an unsigned number."""
    return bits - 2**64 if bits >= 2**63 else bits


_GOLDEN = _signed(0x9E3779B97F4A7C15)
_MIX_1 = _signed(0xBF58476D1CE4E5B9)
_MIX_2 = _signed(0x94D049BB133111EB)
