from __future__ import annotations

import numpy as np

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_model import finite_mdp
from rlrun.toys.stitching_maze import MAP, StitchingMaze, recorded_episodes

CROSSING = 3  # the cell in the first row from which the maze goes on
GOAL = 2 * 7 + 6


def test_the_best_return_in_the_maze_is_2_and_requires_the_path_below_the_crossing() -> None:
    mdp = finite_mdp(EnvConfig(id="rlrun.toys:StitchingMaze", max_episode_steps=50))
    assert mdp.at_start(mdp.optimal_q(1.0).max(-1)) == 2.0
    env = StitchingMaze()
    env.reset(seed=0)
    steps = [env.step(action) for action in [1, 1, 1, 2, 2, 1, 1, 1]]
    assert sum(reward for _, reward, *_ in steps) == 2.0
    assert [terminated for _, _, terminated, *_ in steps] == [False] * 7 + [True]


def test_no_recorded_episode_that_passes_the_crossing_reaches_the_goal() -> None:
    episodes = recorded_episodes(300, seed=0)
    crossed = [episode for episode in episodes if CROSSING in episode.obs]
    assert 200 < len(crossed) < 280
    assert not any(GOAL in episode.obs for episode in crossed)
    moves = [episode.actions[np.flatnonzero(episode.obs[:-1] == CROSSING)] for episode in crossed]
    counts = np.bincount(np.concatenate(moves), minlength=4)
    assert counts.argmax() == 1  # so imitation would go past the crossing
    assert counts[2] > 30  # the data shows that the maze continues there


def test_recorded_episodes_of_the_maze_can_be_replayed_in_it() -> None:
    for episode in recorded_episodes(20, seed=1):
        env = StitchingMaze()
        env.reset(seed=0)
        env._cell = int(episode.obs[0])
        steps = [env.step(int(action)) for action in episode.actions]
        assert [cell for cell, *_ in steps] == episode.obs[1:].tolist()
        assert [reward for _, reward, *_ in steps] == episode.rewards.tolist()
        assert [terminated for _, _, terminated, *_ in steps] == episode.terminateds.tolist()
        assert episode.terminateds.tolist() == [False] * (len(steps) - 1) + [True]


def test_the_maze_is_5_by_7() -> None:
    assert (len(MAP), {len(row) for row in MAP}) == (5, {7})
