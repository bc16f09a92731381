"""Serves episodes of clients on a port and answers each request with action 1, until it is killed."""

from __future__ import annotations

import sys

import numpy as np

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.worlds.make import make_vector_world
from rlrun.engine.worlds.mapping import PolicyMapping

SPACES = {
    "observation": {"type": "Box", "shape": [1], "low": -1000, "high": 1000},
    "action": {"type": "Discrete", "n": 3},
}

if __name__ == "__main__":
    config = EnvConfig.parse({"external": {"port": int(sys.argv[1]), "spaces": SPACES}})
    worlds = make_vector_world(config, 1, EpisodeSeeds(0, 0), PolicyMapping(["default"]), {})
    worlds.reset()
    while True:
        worlds.step({"default": np.ones(1, np.int64)})
