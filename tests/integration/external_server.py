"""Serves episodes of clients on a port and answers each request by action 1, until it is killed."""

from __future__ import annotations

import sys

import numpy as np

from rlrun.worlds.make import make_vector_world
from rlrun.worlds.mapping import PolicyMapping
from tests.external_recording import SEEDS, external

if __name__ == "__main__":
    worlds = make_vector_world(external(port=int(sys.argv[1])), 1, SEEDS, PolicyMapping(["default"]), {})
    worlds.reset()
    while True:
        worlds.step({"default": np.ones(1, np.int64)})
