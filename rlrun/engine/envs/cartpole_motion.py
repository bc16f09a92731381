"""Vectorized CartPole dynamics: the arithmetic of Gymnasium's single env in batched NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from numpy.typing import NDArray

_FIRST = 0.05
"""Bound of the uniform initial state distribution: each of the four numbers is in [-0.05, 0.05]."""


class CartPoleMotion:
    """Batched states and transition function of N CartPoles.

    Each state equals the state of Gymnasium's single CartPole bit for bit, since the same operations run in the same
    order, on preallocated arrays. Constants are 0-dimensional arrays, because converting a Python float takes as long
    as the operation.

    Args:
        num_poles: Number of CartPoles, N.

    Attributes:
        state: Position x, velocity of x, angle theta and angular velocity, [4, N] in m, m/s, rad and rad/s.
    """

    def __init__(self, num_poles: int) -> None:
        numbers = CartPoleEnv()
        self._numbers = tuple(
            np.array(number)
            for number in (
                numbers.polemass_length,
                numbers.total_mass,
                numbers.masspole,
                numbers.length,
                numbers.gravity,
            )
        )
        self._four_thirds, self._tau = np.array(4.0 / 3.0), np.array(numbers.tau)
        self._push, self._pushes = np.array(numbers.force_mag), np.array(2 * numbers.force_mag)
        constants = (*self._numbers, self._four_thirds, self._tau, self._push, self._pushes)
        self._floats = tuple(constant.item() for constant in constants)
        self.state = np.zeros((4, num_poles))
        self._change = np.zeros((4, num_poles))
        self._positions, self._velocities = self.state[0::2], self.state[1::2]
        self._theta, self._theta_dot = self.state[2], self.state[3]
        self._position_change, self._x_acc, self._theta_acc = self._change[0::2], self._change[1], self._change[3]
        self._scratch = tuple(np.zeros((5, num_poles)))
        self._distances = np.zeros((2, num_poles))
        self._bounds = float(numbers.x_threshold), float(numbers.theta_threshold_radians)
        self._limits = np.repeat(np.array(self._bounds)[:, None], num_poles, axis=1)
        self._sample_unbounded = np.zeros((2, num_poles), dtype=bool)
        self._x_beyond, self._theta_beyond = self._sample_unbounded

    def start(self, pole: int, generator: np.random.Generator) -> None:
        """Samples the initial state of one CartPole at the start of an episode."""
        self.state[:, pole] = generator.uniform(-_FIRST, _FIRST, 4)

    def start_several(self, poles: slice, generator: np.random.Generator) -> None:
        """Samples initial states of several CartPoles, with the same results as successive calls of `start`."""
        first = self.state[:, poles]
        first[:] = generator.uniform(-_FIRST, _FIRST, first.T.shape).T

    def move(self, actions: NDArray[Any], fallen: NDArray[np.bool_]) -> None:
        """Advances all CartPoles by an Euler step of 0.02 s (https://coneural.org/florian/papers/05_cart_pole.pdf).

        The order of operations is the same as in Gymnasium's single CartPole; a different order changes the last bits.

        Args:
            actions: 0 pushes a cart to the left, 1 to the right, [N].
            fallen: Output mask, true where the pole has fallen or the cart has left the track, [N].
        """
        if self._theta.size == 1:
            fallen[0] = self._moves_single(int(actions[0]))
            return
        polemass_length, total_mass, masspole, length, gravity = self._numbers
        force, cos, sin, temp, other = self._scratch
        np.multiply(actions, self._pushes, force)
        force -= self._push
        np.cos(self._theta, cos)
        np.sin(self._theta, sin)
        # temp = (force + polemass_length * theta_dot**2 * sin) / total_mass
        np.square(self._theta_dot, temp)
        temp *= polemass_length
        temp *= sin
        temp += force
        temp /= total_mass
        # theta_acc = (gravity * sin - cos * temp) / (length * (4/3 - masspole * cos**2 / total_mass))
        np.square(cos, other)
        other *= masspole
        other /= total_mass
        np.subtract(self._four_thirds, other, other)
        other *= length
        sin *= gravity
        sin -= np.multiply(cos, temp, force)
        np.divide(sin, other, self._theta_acc)
        # x_acc = temp - polemass_length * theta_acc * cos / total_mass
        np.multiply(self._theta_acc, polemass_length, other)
        other *= cos
        other /= total_mass
        np.subtract(temp, other, self._x_acc)
        # Euler's method: every coordinate changes by tau times its rate of change before this step.
        self._position_change[:] = self._velocities
        self._change *= self._tau
        self.state += self._change
        np.abs(self._positions, self._distances)
        np.greater(self._distances, self._limits, self._sample_unbounded)
        np.logical_or(self._x_beyond, self._theta_beyond, fallen)

    def _moves_single(self, action: int) -> bool:
        """Advances a single CartPole by the same operations on scalars, which are faster than on arrays of size 1.

        Returns whether the pole has fallen or the cart has left the track.
        """
        polemass_length, total_mass, masspole, length, gravity, four_thirds, tau, push, pushes = self._floats
        x, x_dot, theta, theta_dot = self.state[:, 0].tolist()
        cos, sin = float(np.cos(theta)), float(np.sin(theta))
        temp = (theta_dot * theta_dot * polemass_length * sin + (action * pushes - push)) / total_mass
        theta_acc = (sin * gravity - cos * temp) / ((four_thirds - cos * cos * masspole / total_mass) * length)
        x_acc = temp - theta_acc * polemass_length * cos / total_mass
        x, theta = x + x_dot * tau, theta + theta_dot * tau
        self.state[:, 0] = x, x_dot + x_acc * tau, theta, theta_dot + theta_acc * tau
        farthest, steepest = self._bounds
        return bool(x < -farthest or x > farthest or theta < -steepest or theta > steepest)
