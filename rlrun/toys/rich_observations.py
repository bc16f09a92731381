"""Test envs with rich observations: sets of entities, several images, and Pendulum from pixels."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlrun.toys.known_optimum import Step

LENGTH = 0.8
"""Length of the rod, in units of half the image's side."""

HALF_WIDTH = 0.1
"""Half the width of the rod, in units of half the image's side."""

KINDS = 3
"""Number of entity kinds."""

FRONT, REAR = (24, 20, 3), (36, 40, 1)
"""Image shapes [height, width, channels] of the two cameras."""


class HighestEntity(gymnasium.Env[dict[str, Any], int]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Entity-set task: classify the kind of the highest-valued entity, for a reward of 1 per step.

    Observation: a Dict. `entities`: a value between 0 and 1 and the kind as a one-hot vector, [K, 4]. `entity_mask`: 1
    for each row that holds an entity, else 0, [K]. There are one to K entities; the other rows hold masked entities,
    which are irrelevant. Actions: Discrete(3). Episodes have 10 steps. The best return is 10; a random policy gets 10 /
    3.
    """

    def __init__(self, num_entities: int = 8, episode_len: int = 10) -> None:
        """Creates the env, with at most `num_entities` (K) entities."""
        self.observation_space = spaces.Dict(
            entities=spaces.Box(0.0, 1.0, (num_entities, 1 + KINDS)), entity_mask=spaces.MultiBinary(num_entities)
        )
        self.action_space = spaces.Discrete(KINDS)
        self._num_entities = num_entities
        self._episode_len = episode_len
        self._elapsed = 0
        self._best = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; samples the entities of the first observation."""
        super().reset(seed=seed)
        self._elapsed = 0
        return self._show(), {}

    def step(self, action: int) -> Step:
        """Rewards an action that names the kind of the highest-valued entity; samples the next entities."""
        self._elapsed += 1
        reward = float(action == self._best)
        return self._show(), reward, self._elapsed >= self._episode_len, False, {}

    def _show(self) -> dict[str, NDArray[Any]]:
        number = self._num_entities
        values = self.np_random.random(number, np.float32)
        kinds = self.np_random.integers(KINDS, size=number)
        is_there = self.np_random.permutation(number) < 1 + self.np_random.integers(number)
        self._best = int(kinds[np.where(is_there, values, -1.0).argmax()])
        entities = np.concatenate([values[:, None], np.eye(KINDS, dtype=np.float32)[kinds]], -1)
        return {"entities": entities, "entity_mask": is_there.astype(np.int8)}


class TwoCameras(gymnasium.Env[dict[str, Any], int]):  # type: ignore[misc]
    """Two-image classification task: observations of two images of different sizes and a number.

    Observation: a Dict. `front`: uint8 image [24, 20, 3]. `rear`: uint8 image [36, 40, 1]. Each image is bright in the
    left or in the right half, and dark in the other half. `turned`: -1 or 1, [1]; 1 swaps left and right in the rear
    image. Actions: Discrete(4), 2 f + r, where f and r are 1 if the front and the rear image are bright on the right.
    Rewards: 1/2 for each correct part, in episodes of 10 steps. The best return is 10; a random policy gets 5.
    """

    def __init__(self, episode_len: int = 10) -> None:
        """Creates the env."""
        self.observation_space = spaces.Dict(
            front=spaces.Box(0, 255, FRONT, np.uint8),
            rear=spaces.Box(0, 255, REAR, np.uint8),
            turned=spaces.Box(-1.0, 1.0, (1,)),
        )
        self.action_space = spaces.Discrete(4)
        self._episode_len = episode_len
        self._elapsed = 0
        self._right = np.zeros(2, np.int64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; samples the images of the first observation."""
        super().reset(seed=seed)
        self._elapsed = 0
        return self._show(), {}

    def step(self, action: int) -> Step:
        """Rewards the correctly classified images with 1/2 each; samples the next images."""
        self._elapsed += 1
        said = np.array(divmod(int(action), 2))
        reward = float(np.mean(said == self._right))
        return self._show(), reward, self._elapsed >= self._episode_len, False, {}

    def _show(self) -> dict[str, NDArray[Any]]:
        front, rear, turned = self.np_random.integers(2, size=3).tolist()
        self._right = np.array([front, rear ^ turned])
        return {
            "front": self._image(FRONT, bool(front)),
            "rear": self._image(REAR, bool(rear)),
            "turned": np.array([2 * turned - 1], np.float32),
        }

    def _image(self, shape: tuple[int, int, int], on_the_right: bool) -> NDArray[np.uint8]:
        half = shape[1] // 2
        image: NDArray[np.uint8] = self.np_random.integers(0, 100, shape, np.uint8)
        bright = image[:, half:] if on_the_right else image[:, :half]
        bright += np.uint8(155)
        return image


class PendulumImages(gymnasium.ObservationWrapper[NDArray[np.uint8], Any, NDArray[np.float32]]):  # type: ignore[misc]
    """Observation wrapper: Pendulum as grayscale images [size, size, 1].

    Drawing an image takes 50 us and needs no window. The pendulum points up in the image when it is upright.

    Args:
        env: Pendulum env.
        size: Side length of the images in pixels.
    """

    def __init__(self, env: gymnasium.Env[NDArray[np.float32], Any], size: int = 64) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(0, 255, (size, size, 1), np.uint8)
        places = (np.arange(size, dtype=np.float32) + 0.5) * (2 / size) - 1
        self._right, self._up = places[None, :], -places[:, None]
        self._pixel = 2 / size

    def observation(self, observation: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Renders an observation (cosine, sine, angular velocity) as an image of the angle."""
        cosine, sine = float(observation[0]), float(observation[1])
        # Angles are counterclockwise from upright; distances are to the rod, a segment that starts in the middle.
        along = np.clip(self._up * cosine - self._right * sine, 0, LENGTH)
        distance = np.hypot(self._right + along * sine, self._up - along * cosine)
        shade = np.clip((HALF_WIDTH - distance) / self._pixel + 0.5, 0, 1)
        return (255 * shade).astype(np.uint8)[..., None]
