"""Generates the data set of the stitching maze for the shipped offline specs, from a seed.

python -m scripts.stitching_maze_set configs/stitching_maze/data
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np

from rlrun.engine.datasets.writer import SetWriter
from rlrun.toys.stitching_maze import StitchingMaze, recorded_episodes

EPISODES, SEED = 60, 0


def write(folder: Path, episodes: int = EPISODES, seed: int = SEED) -> None:
    """Writes recorded episodes in the maze as a data set."""
    env = StitchingMaze()
    shutil.rmtree(folder, ignore_errors=True)
    about = {"env": {"id": "rlrun.toys:StitchingMaze"}}
    with SetWriter(folder, env.observation_space, env.action_space, about=about) as writer:
        for episode in recorded_episodes(episodes, seed):
            writer.add_episode({**episode._asdict(), "truncateds": np.zeros(len(episode.actions), np.bool_)})


def main() -> None:
    """Writes the data set to the folder named on the command line."""
    parser = argparse.ArgumentParser(description="Write the data set of the stitching maze.")
    parser.add_argument("folder", type=Path)
    write(parser.parse_args().folder)


if __name__ == "__main__":
    main()
