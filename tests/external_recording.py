"""A recorder of episodes that clients run, with a server on a free port."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from rlrun.engine.data.space_json import space_to_json
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.functional.seeding import generator
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.client_weights import policy_in_json
from rlrun.engine.rollout.recorder import Recorded
from rlrun.engine.rollout.slot_recorder import SlotRecorder
from rlrun.engine.worlds.client_worlds import ClientWorlds
from rlrun.engine.worlds.make import make_vector_world
from rlrun.engine.worlds.mapping import PolicyMapping
from tests.policies import plain_policy

SPACES = Spaces(Box(-1000, 1000, (1,), np.float32), Discrete(3))
IN_JSON = {"observation": space_to_json(SPACES.observation), "action": space_to_json(SPACES.action)}
SEEDS = EpisodeSeeds(0, 0)


def external(**settings: Any) -> EnvConfig:
    return EnvConfig.parse({"external": {"port": 0, "spaces": IN_JSON, "gather_ms": 500.0, **settings}})


@contextmanager
def recording(
    num_worlds: int, length: int, *, model: dict[str, Any] | None = None, **settings: Any
) -> Iterator[tuple[SlotRecorder, str, Callable[[], Recorded]]]:
    """A recorder of clients' episodes, its server's address, and a function that records the next fragment."""
    config = external(**settings)
    worlds = make_vector_world(config, num_worlds, SEEDS, PolicyMapping(["default"]), {})
    assert isinstance(worlds, ClientWorlds)
    policy = plain_policy(ActorCriticPolicy, *SPACES, ModelConfig(hiddens=(4,), **(model or {})), seed=1)
    behavior = policy.behavior()
    weights = Weights(4, policy.parameters.gather(policy.module).numpy())
    behavior.load(weights)
    recorder = SlotRecorder(
        worlds,
        {"default": behavior},
        seeds=SEEDS,
        name="env external",
        length=length,
        max_replay_s=60.0,
        marks_logged=config.external is not None and config.external.logged_actions == "mask",
    )

    def record() -> Recorded:
        recorded = recorder.record({"default": behavior.noise_source.noise(generator(0, "noise"), length, num_worlds)})
        behavior.collector.postprocess(recorded.batches["default"])
        return recorded

    worlds.publish("default", 4, lambda: policy_in_json(behavior, weights))
    worlds._server.start()  # so that the server's address is known
    try:
        yield recorder, worlds._server.url, record
    finally:
        recorder.close()
