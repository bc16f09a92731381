"""Vectorized Atari games on ALE's native vector env, with frame skip, resizing and frame stacking in C++."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from ale_py.vector_env import AtariVectorEnv
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_ledger import EpisodeLedger
from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds
from rlrun.engine.envs.lockstep_restore import restore_in_lockstep
from rlrun.engine.envs.spaces import action_mismatch
from rlrun.engine.envs.vector_env import NO_COLUMNS, EnvError, Infos, Tree, begin_unsupported
from rlrun.engine.settings.config import ConfigModel, Fraction, NonNegativeInt, PositiveInt

_FRAMES_PER_S = 60


class AtariSettings(ConfigModel):
    """Keyword arguments (`kwargs`) of an Atari env; by default, DeepMind's preprocessing with sticky actions."""

    repeat_action_probability: Fraction = 0.25
    """Probability that the previous action is repeated instead of the chosen one (sticky actions); 0 for none."""

    frameskip: PositiveInt = 4
    """Number of frames for which each action is repeated."""

    stack_num: PositiveInt = 4
    """Number of latest frames stacked in an observation."""

    img_height: PositiveInt = 84
    """Height of a resized frame in pixels."""

    img_width: PositiveInt = 84
    """Width of a resized frame in pixels."""

    grayscale: bool = True
    """Whether frames are grayscale; otherwise their last axis holds three color channels."""

    maxpool: bool = True
    """Whether a frame is the pixelwise maximum of the last two; some games draw objects only in every other frame."""

    noop_max: NonNegativeInt = 30
    """Maximum number of no-op frames at the start of an episode; the actual number is random."""

    use_fire_reset: bool = True
    """Whether episodes begin with the fire action in games that wait for it."""

    episodic_life: bool = False
    """Whether the loss of a life ends an episode; the game then continues in the next episode. Such episodes cannot be
    replayed, so a resumed run starts new games."""

    full_action_space: bool = False
    """Whether the action space has all 18 actions instead of only those that the game uses."""

    continuous: bool = False
    """Whether actions are continuous (radius and angle of the joystick, and fire) instead of discrete."""

    continuous_action_threshold: Fraction = 0.5
    """Threshold above which a continuous joystick position counts as a movement."""

    max_num_frames_per_episode: PositiveInt = 108_000
    """Number of frames after which an episode is truncated; the default is half an hour of play."""

    num_threads: PositiveInt = 1
    """Number of threads that step the env slots; results do not depend on this number."""


def atari_settings(config: EnvConfig, spec: EnvSpec) -> AtariSettings:
    """Returns a registered game's settings, overridden by the keyword arguments in the config.

    Raises:
        SpecError: A keyword argument does not exist, or its value is out of range.
    """
    registered = {name: value for name, value in spec.kwargs.items() if name != "game"}
    settings = AtariSettings.parse({**registered, **config.kwargs}, path="kwargs")
    if config.max_episode_steps is not None:
        return settings.replace(max_num_frames_per_episode=config.max_episode_steps * settings.frameskip)
    return settings


def _open(game: str, num_envs: int, settings: AtariSettings) -> AtariVectorEnv:
    """Creates a game's vector env in ALE, with unclipped rewards; reward clipping is left to the learner."""
    own = settings.model_dump(exclude={"episodic_life"})
    # ALE's own episodic_life starts a new game after every lost life; with its life_loss_info the game continues.
    return AtariVectorEnv(game, num_envs, reward_clipping=False, life_loss_info=settings.episodic_life, **own)


class SeededAtari:
    """Vector env of B Atari games in which each episode has its own seed.

    ALE's autoreset seeds the next game from an internal generator. The slot is therefore reset a second time, with
    the new episode's seed. ALE reloads the ROM for each seeded reset, which takes as long as 300 steps.
    """

    name = "atari"

    def __init__(
        self,
        game: str,
        num_envs: int,
        settings: AtariSettings,
        seeds: EpisodeSeeds,
        first_episodes: Sequence[int] | None = None,
    ) -> None:
        """Creates ALE's vector env for a game, given its ROM name, such as "ms_pacman"."""
        self.num_envs = num_envs
        self.seeds_episodes = not settings.episodic_life
        self.columns = NO_COLUMNS
        self._game = game
        self._env = _open(game, num_envs, settings)
        self.observation_space = self._env.single_observation_space
        self.action_space = self._env.single_action_space
        self._ledger = EpisodeLedger(seeds, num_envs, first_episodes)
        self._games_go_on = settings.episodic_life
        self._goes_on = np.zeros(num_envs, dtype=bool)
        self._awaiting = np.zeros(num_envs, dtype=bool)
        self._lengths = np.zeros(num_envs, dtype=np.int64)
        self._unchecked = True

    def reset(self) -> Tree:
        """Starts the first episode of every env slot with its own seed."""
        observations, _ = self._env.reset(seed=np.array(self._ledger.start_over()))
        self._awaiting[:] = False
        self._lengths[:] = 0
        self._unchecked = True
        return observations

    def step(self, actions: Tree) -> tuple[Tree, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Infos]:
        """Steps all env slots; a slot whose episode ended is reset instead (NEXT_STEP autoreset).

        Infos hold the remaining lives if `episodic_life` is set, else nothing: ALE's other infos (an episode's return
        and length) are dropped.
        """
        if self._unchecked:
            self._check(actions)
        began = np.flatnonzero(self._awaiting)
        if began.size:
            actions = actions.copy()
            actions[began] = 0  # a no-op, for games that continue after a lost life
        observations, rewards, terminateds, truncateds, infos = self._env.step(actions)
        rewards = rewards.astype(np.float64)
        self._lengths += 1
        if began.size:
            goes_on = self._goes_on & (infos["lives"] > 0) & ~truncateds
            rewards[began] = 0.0
            terminateds[began] = truncateds[began] = False
            for slot in began.tolist():
                self._ledger.begin_next(slot)
            observations = self._restart(began[~goes_on[began]].tolist(), observations)
            self._lengths[began] = 0
        self._awaiting = terminateds | truncateds
        said: Infos = {}
        if self._games_go_on:
            self._goes_on = terminateds & ~truncateds & (infos["lives"] > 0)
            for slot in np.flatnonzero(self._awaiting).tolist():
                said[slot] = {"lives": int(infos["lives"][slot])}
        return observations, rewards, terminateds, truncateds, said

    def begin(self, slots: Sequence[int], seeds: Sequence[int]) -> Tree:
        """Starts new episodes with given seeds in some env slots; see `VectorEnv.begin`."""
        if not self.seeds_episodes:
            raise begin_unsupported(self._game, "with episodic_life, a game continues across episodes")
        chosen = zip(slots, seeds, strict=True)
        return self.start_at({slot: self._ledger.chosen(slot, seed) for slot, seed in chosen})

    def places(self) -> list[EpisodePosition]:
        """Returns the current position of each env slot: episode number, seed and episode length so far."""
        return self._ledger.places(self._lengths.tolist())

    def restore(
        self, places: Sequence[EpisodePosition], actions: Sequence[Tree], hashes: Sequence[str], max_replay_s: float
    ) -> tuple[Tree, list[bool]]:
        """Returns all env slots to saved steps of their episodes by replaying actions in lockstep.

        See `VectorEnv.restore`.
        """
        self._env.reset()  # ALE cannot reset single env slots before it has reset all of them
        self._unchecked = True
        if self.seeds_episodes:
            return restore_in_lockstep(self, places, actions, hashes, max_replay_s)
        return self.start_after(dict(enumerate(places))), [False] * self.num_envs

    def start_at(self, places: dict[int, EpisodePosition]) -> Tree:
        """Resets some env slots, each to the start of a saved episode; returns the observations of all env slots.

        Args:
            places: Saved position (episode, seed, step) by index of the env slot to reset; the step is ignored.
        """
        for slot, place in places.items():
            self._ledger.return_to(slot, place)
        return self._restart(list(places), None)

    def start_after(self, places: dict[int, EpisodePosition]) -> Tree:
        """Resets some env slots, each to the episode after a saved one; returns the observations of all env slots.

        Args:
            places: Saved position (episode, seed, step) by index of the env slot to reset.
        """
        for slot, place in places.items():
            self._ledger.return_to(slot, place)
            self._ledger.begin_next(slot)
        return self._restart(list(places), None)

    def close(self) -> None:
        """Closes the games."""
        self._env.close()

    def _restart(self, slots: list[int], observations: Tree) -> Tree:
        """Resets env slots with the seeds of their current episodes in the ledger; returns all observations.

        If no env slots are given, returns the given observations unchanged.
        """
        if slots:
            mask = np.zeros(self.num_envs, dtype=bool)
            mask[slots] = True
            seeds = [self._ledger.place(slot, 0).seed for slot in sorted(slots)]
            observations, _ = self._env.reset(seed=np.array(seeds), options={"reset_mask": mask})
            self._lengths[slots] = 0
            self._awaiting[slots] = False
        return observations

    def _check(self, actions: Tree) -> None:
        """Validates the first batch of actions after a reset; later batches come from the same policy."""
        reason = action_mismatch(self.action_space, actions, self.num_envs)
        if reason:
            raise EnvError(f"{self._game}: invalid actions: {reason}")
        self._unchecked = False


class AtariEnv(gymnasium.Env[NDArray[np.uint8], Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Single Gymnasium env that wraps one env slot of `SeededAtari` and adds rendering.

    Observations are preprocessed (resized, grayscale, stacked). Rendered frames have the game's full size and colors:
    they come from a second copy of the game with the same seeds and actions.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012  # Gymnasium reads it on the class

    def __init__(self, game: str, settings: AtariSettings, render_mode: str | None = None) -> None:
        """Creates the env for a game, given its ROM name, such as "ms_pacman"; render_mode is "rgb_array" or None."""
        self.render_mode = render_mode
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": max(1, _FRAMES_PER_S // settings.frameskip)}
        drawn = settings.replace(stack_num=1, img_height=210, img_width=160, grayscale=False)
        self._games = [_open(game, 1, settings)] + ([] if render_mode is None else [_open(game, 1, drawn)])
        self._pictures: list[NDArray[np.uint8]] = []
        self.observation_space = self._games[0].single_observation_space
        self.action_space = self._games[0].single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Resets the game and the rendering copy to the start of an episode."""
        super().reset(seed=seed)
        seeds = np.array([int(self.np_random.integers(2**31)) if seed is None else seed])
        frames = [game.reset(seed=seeds)[0][0] for game in self._games]
        self._pictures = [frame[-1] for frame in frames[1:]]
        return frames[0], {}

    def step(self, action: Any) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Steps the game, and its copy used for rendering."""
        results = [game.step(np.asarray(action)[None]) for game in self._games]
        self._pictures = [result[0][0, -1] for result in results[1:]]
        observations, rewards, terminateds, truncateds, _ = results[0]
        return observations[0], float(rewards[0]), bool(terminateds[0]), bool(truncateds[0]), {}

    def render(self) -> NDArray[np.uint8]:
        """Returns the screen [210, 160, 3]."""
        return self._pictures[0]

    def close(self) -> None:
        """Closes the game and the copy used for rendering."""
        for game in self._games:
            game.close()
