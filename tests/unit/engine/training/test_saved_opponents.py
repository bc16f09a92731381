"""Policies from checkpoints as opponents in a world."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from rlrun.algorithms.ppo import PPO, PPOConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.training.assemble.learner_factory import made_policy
from rlrun.engine.training.save.saved_opponents import SavedOpponent
from rlrun.engine.worlds.world_view import WorldView


def test_a_saved_policy_with_curiosity_can_act_as_an_opponent() -> None:
    spaces, view = Spaces(Box(-1.0, 1.0, (3,), np.float32), Discrete(2)), WorldView(None, 2, "parallel")
    config = {"model": {"hiddens": [4]}, "curiosity": {"hiddens": [4], "features": 2}}
    policy = made_policy(PPO(PPOConfig.parse(config)), spaces, view, seed=3)
    flat = policy.parameters.gather(policy.module).numpy()
    saved = SavedOpponent("ppo", config, policy.parameters.named(flat), filters={}, env_steps=0)
    start, size = policy.acting_range
    np.testing.assert_array_equal(saved.in_world(spaces, view).weights.acting, flat[start : start + size])
