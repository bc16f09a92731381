"""Sample Factory's side of the IMPALA benchmark: asynchronous PPO on Pong; `run.py` starts it in a separate venv.

It does not import rlrun, so it can run in a venv without it. Each env is a single game with Gymnasium's Atari
preprocessing, which reads two of four frames and gets them in gray from ALE; Sample Factory's own example shrinks every
frame in color. Frames are uint8 in shared memory. Each worker splits its envs into two halves: one half acts while the
other waits for actions, as Sample Factory's documentation recommends.

Advantages are computed with GAE, as in its Atari example: with V-trace, Sample Factory 2.1.1 fails when it writes its
summaries ("'AttrDict' object has no attribute 'advantages'").
"""

from __future__ import annotations

import logging
import tempfile
import time
from typing import Any

import gymnasium
from ale_py.env import AtariEnv
from sample_factory.algo.runners.runner import AlgoObserver, Runner  # type: ignore[import-not-found]
from sample_factory.algo.utils.misc import ExperimentStatus  # type: ignore[import-not-found]
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args  # type: ignore[import-not-found]
from sample_factory.envs.env_utils import register_env  # type: ignore[import-not-found]
from sample_factory.envs.env_wrappers import ClipRewardEnv, FireResetEnv, NumpyObsWrapper  # type: ignore[import-not-found]
from sample_factory.train import make_runner  # type: ignore[import-not-found]

from benchmarks.peers import Measurement, answer, between, cpu_seconds_of_tree, mark

FOREVER = 10**12


def make_pong(name: str, config: Any, env_config: Any, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """Creates a game whose observations are four stacked gray frames [4, 84, 84]."""
    game = AtariEnv("pong", frameskip=1, repeat_action_probability=0.25, render_mode=render_mode)
    frames = gymnasium.wrappers.AtariPreprocessing(game, frame_skip=4, screen_size=84)
    counted = gymnasium.wrappers.RecordEpisodeStatistics(FireResetEnv(frames))
    return NumpyObsWrapper(gymnasium.wrappers.FrameStack(ClipRewardEnv(counted), 4))


class Clock(AlgoObserver):  # type: ignore[misc]  # sample_factory has no types
    """Records the clock, the CPU time and the number of env steps learned from, after every batch in the window."""

    def __init__(self, warm_up_s: float, window_s: float) -> None:
        self.warm_up_s, self.window_s = warm_up_s, window_s
        self.began: float | None = None
        self.marks: list[Measurement] = []

    def on_training_step(self, runner: Runner, training_iteration_since_resume: int) -> None:
        """Records them, and ends the run after the window."""
        now = time.perf_counter()
        if self.began is None:
            self.began = now
        elif now - self.began >= self.warm_up_s:
            self.marks.append(mark(cpu_seconds_of_tree, env_steps=sum(runner.env_steps.values())))
            if now - self.marks[0]["seconds"] >= self.window_s:
                runner.cfg.train_for_env_steps = 0


def arguments(work: Measurement, directory: str) -> list[str]:
    """Returns Sample Factory's command line for the given work."""
    settings = {
        "env": "pong",
        "experiment": "bench",
        "train_dir": directory,
        "restart_behavior": "overwrite",
        "device": "cpu",
        "seed": work["seed"],
        "train_for_env_steps": FOREVER,
        "async_rl": True,
        "serial_mode": False,
        "num_workers": work["workers"],
        "num_envs_per_worker": work["num_envs"],
        "worker_num_splits": 2,
        "policy_workers_per_policy": 1,
        "rollout": work["fragment"],
        "recurrence": 1,
        "batch_size": work["batch"],
        "num_batches_per_epoch": 1,
        "num_epochs": 1,
        "with_vtrace": False,
        "gamma": work["gamma"],
        "learning_rate": work["lr"],
        "max_grad_norm": 40.0,
        "value_loss_coeff": 0.5,
        "exploration_loss": "entropy",
        "exploration_loss_coeff": 0.01,
        "ppo_clip_ratio": 0.2,
        "kl_loss_coeff": 0.0,
        "encoder_conv_architecture": "convnet_atari",
        "encoder_conv_mlp_layers": 512,
        "nonlinearity": "relu",
        "use_rnn": False,
        "actor_critic_share_weights": True,
        "obs_scale": 255.0,
        "normalize_input": False,
        "normalize_returns": False,
        "env_frameskip": 4,
        "summaries_use_frameskip": False,
        "decorrelate_experience_max_seconds": 0,
        "set_workers_cpu_affinity": False,
        "log_to_file": False,
        "save_every_sec": 3600,
        "save_best_every_sec": 3600,
    }
    return [f"--{name}={value}" for name, value in settings.items()]


def measured(work: Measurement) -> Measurement:
    """Trains through the warm-up and the window, and returns the measurements of the window."""
    logging.disable(logging.WARNING)
    register_env("pong", make_pong)
    clock = Clock(work["warm_up_s"], work["window_s"])
    with tempfile.TemporaryDirectory() as directory:
        parser, _ = parse_sf_args(argv=arguments(work, directory))
        _, runner = make_runner(parse_full_cfg(parser, arguments(work, directory)))
        runner.register_observer(clock)
        if runner.init() != ExperimentStatus.SUCCESS or runner.run() != ExperimentStatus.SUCCESS:
            raise SystemExit("Sample Factory failed")
    return between(clock.marks[0], clock.marks[-1])


if __name__ == "__main__":
    answer(measured)
