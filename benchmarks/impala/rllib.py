"""RLlib's side of the IMPALA benchmark; `run.py` starts it in a separate venv.

It does not import rlrun, so it can run in a venv without it. An order names a `variant`, a way to run RLlib. On
CartPole, there are the new API stack ("new"), the same with Gymnasium's own vector CartPole ("vector"), and the old
stack ("old"). On Pong, where frames stay uint8 until they reach a network, the variants are

- "connectors": one gray frame per step from Gymnasium's Atari preprocessing. RLlib's connectors stack frames before the
  network of a worker and again in the learner, so that only a single frame per step is transferred. RLlib's examples
  do the same, but with RLlib's own wrapper, which shrinks all four frames and converts them to floats in the worker.
- "vector": ALE's own vector env, which rlrun uses too, with stacked frames.
- "old": RLlib's old API stack with its own wrapper, which stacks frames.

The learner runs in a thread of the algorithm's own process or, with ", learner apart", in a separate actor.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_DEDUP_LOGS="0", PYTHONWARNINGS="ignore")

import ale_py
import gymnasium
import ray
from ale_py.vector_env import AtariVectorEnv
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.connectors.env_to_module.frame_stacking import FrameStackingEnvToModule
from ray.rllib.connectors.learner.frame_stacking import FrameStackingLearner
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.wrappers.atari_wrappers import FireResetEnv, FrameStack, MaxAndSkipEnv, NoopResetEnv, WarpFrame
from ray.rllib.models import ModelCatalog
from ray.rllib.models.torch.torch_modelv2 import TorchModelV2
from ray.tune.registry import register_env
from torch import Tensor, nn

from benchmarks.peers import Measurement, answer, between, cpu_seconds_of_tree, in_window

FRAMES = 4
PIXELS = 84
ITERATION_S = 1.0


class NatureNet(nn.Module):
    """The convolutions that rlrun calls `nature`, a dense layer of 512, and both heads."""

    def __init__(self, num_actions: int, channels_first: bool) -> None:
        super().__init__()
        self.channels_first = channels_first
        self.layers = nn.Sequential(
            nn.Conv2d(FRAMES, 32, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(3136, 512),
            nn.ReLU(),
        )
        self.policy_head = nn.Linear(512, num_actions)
        self.value_head = nn.Linear(512, 1)

    def features(self, frames: Tensor) -> Tensor:
        """Returns the inputs of both heads, [N, 512]."""
        pixels = frames if self.channels_first else frames.permute(0, 3, 1, 2)
        features: Tensor = self.layers(pixels.float() * (1 / 255))
        return features


class NatureModule(TorchRLModule, ValueFunctionAPI):  # type: ignore[misc]  # ray has no types
    """`NatureNet` for the new API stack."""

    def setup(self) -> None:
        """Creates the network."""
        self.net = NatureNet(int(self.action_space.n), self.observation_space.shape[0] == FRAMES)

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: self.net.policy_head(self.net.features(batch[Columns.OBS]))}

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        features = self.net.features(batch[Columns.OBS])
        return {Columns.ACTION_DIST_INPUTS: self.net.policy_head(features), Columns.EMBEDDINGS: features}

    def compute_values(self, batch: dict[str, Any], embeddings: Tensor | None = None) -> Tensor:
        """Returns values [N]."""
        features = self.net.features(batch[Columns.OBS]) if embeddings is None else embeddings
        values: Tensor = self.net.value_head(features).squeeze(-1)
        return values


class NatureModel(TorchModelV2, nn.Module):  # type: ignore[misc]
    """`NatureNet` for the old API stack."""

    def __init__(self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str) -> None:
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        nn.Module.__init__(self)
        self.net = NatureNet(num_outputs, channels_first=False)

    def forward(self, input_dict: Mapping[str, Any], state: Any, seq_lens: Any) -> tuple[Tensor, Any]:
        """Returns logits [N, K]."""
        self._features = self.net.features(input_dict["obs"])
        return self.net.policy_head(self._features), state

    def value_function(self) -> Tensor:
        """Returns the values [N] of the last observations."""
        values: Tensor = self.net.value_head(self._features).squeeze(-1)
        return values


def single_frames(settings: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    """Creates a game whose observations are single gray frames [84, 84, 1]."""
    gymnasium.register_envs(ale_py)
    game = gymnasium.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.25)
    return gymnasium.wrappers.AtariPreprocessing(game, frame_skip=4, screen_size=PIXELS, grayscale_newaxis=True)


def frames_of_old_stack(settings: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    """Creates a game as RLlib's `wrap_deepmind` does, without counting episodes and ending them when a life is lost."""
    gymnasium.register_envs(ale_py)
    game = gymnasium.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.25)
    return FrameStack(WarpFrame(FireResetEnv(NoopResetEnv(MaxAndSkipEnv(game, 4))), PIXELS), FRAMES)


def vector_frames(settings: Mapping[str, Any]) -> Any:
    """Creates ALE's vector env, with a single game if RLlib only needs its spaces."""
    return AtariVectorEnv("pong", num_envs=settings.get("num_envs", 1), num_threads=1, repeat_action_probability=0.25)


def config_of(work: Measurement) -> IMPALAConfig:
    """Returns RLlib's config for the given work."""
    is_old = work["variant"] == "old"
    config = IMPALAConfig().framework("torch").debugging(seed=work["seed"], log_level="ERROR")
    config.api_stack(enable_rl_module_and_learner=not is_old, enable_env_runner_and_connector_v2=not is_old)
    config.env_runners(
        num_env_runners=work["workers"],
        num_envs_per_env_runner=work["num_envs"],
        rollout_fragment_length=work["fragment"],
    )
    config.learners(num_learners=int("apart" in work["variant"])).resources(num_gpus=0)
    config.reporting(min_time_s_per_iteration=ITERATION_S)
    config.training(
        lr=work["lr"],
        gamma=work["gamma"],
        grad_clip=40.0,
        grad_clip_by="global_norm",
        vf_loss_coeff=0.5,
        entropy_coeff=0.01,
        broadcast_interval=1,
        **({"train_batch_size": work["batch"]} if is_old else {"train_batch_size_per_learner": work["batch"]}),
    )
    return cartpole(config, work) if work["env"] == "CartPole-v1" else pong(config, work)


def cartpole(config: IMPALAConfig, work: Measurement) -> IMPALAConfig:
    """Adds CartPole and two dense layers."""
    config.environment("CartPole-v1")
    net = {"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh", "vf_share_layers": False}
    if work["variant"] == "old":
        return config.training(model=net)
    config.rl_module(model_config=DefaultModelConfig(**net))
    vectorize = "vector_entry_point" if "vector" in work["variant"] else "sync"
    return config.env_runners(gym_env_vectorize_mode=vectorize)


def pong(config: IMPALAConfig, work: Measurement) -> IMPALAConfig:
    """Adds Pong and the convolutions."""
    if work["variant"] == "old":
        register_env("frames", frames_of_old_stack)
        ModelCatalog.register_custom_model("nature", NatureModel)
        config.environment("frames", clip_rewards=True).env_runners(preprocessor_pref=None)
        return config.training(model={"custom_model": "nature"})
    is_vector = "vector" in work["variant"]
    register_env("frames", vector_frames if is_vector else single_frames)
    config.environment("frames", clip_rewards=True)
    config.rl_module(rl_module_spec=RLModuleSpec(module_class=NatureModule))
    if is_vector:
        return config.env_runners(gym_env_vectorize_mode="vector_entry_point")
    config.env_runners(env_to_module_connector=lambda *made_for: FrameStackingEnvToModule(num_frames=FRAMES))
    return config.training(learner_connector=lambda *made_for: FrameStackingLearner(num_frames=FRAMES))


def counts(result: Mapping[str, Any], is_old: bool) -> Measurement:
    """Returns the numbers of env steps sampled and learned from so far."""
    if is_old:
        trained = result["counters"].get("num_env_steps_trained", 0)
    else:
        learners = result.get("learners", {})  # missing before the first update
        trained = learners.get("__all_modules__", {}).get("num_env_steps_trained_lifetime", 0)
    return {"env_steps": result["num_env_steps_sampled_lifetime"], "env_steps_trained": trained}


def measured(work: Measurement) -> Measurement:
    """Trains through the warm-up and the window, and returns the measurements of the window."""
    logging.disable(logging.WARNING)
    ray.init("local", num_cpus=work["workers"] + 3, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    algorithm, is_old = config_of(work).build_algo(), work["variant"] == "old"
    while counts(algorithm.train(), is_old)["env_steps_trained"] == 0:
        pass
    results, clocks = in_window(work, algorithm.train, cpu_seconds_of_tree)
    algorithm.stop()
    ray.shutdown()
    return {**between(counts(results[0], is_old), counts(results[-1], is_old)), **clocks}


if __name__ == "__main__":
    answer(measured)
