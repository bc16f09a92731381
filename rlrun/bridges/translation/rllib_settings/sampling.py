"""Conversions of sampling and system settings: workers, fragments, batches, filters, GPUs."""

from __future__ import annotations

from typing import Any

from rlrun.bridges.translation.foreign_settings import OMIT, Conversions, ForeignSettings, only
from rlrun.bridges.translation.meanings import Impact
from rlrun.bridges.translation.rllib_settings.units import fragment_steps, steps_of_round, whole_rounds

conversion = Conversions()
"""Conversions by name, and the decorator that adds one."""


@conversion
def batch_size(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts `train_batch_size`: to env steps per batch, or to rows per minibatch for a replay buffer."""
    if foreign.has("replay"):
        foreign.put("config.minibatch_size", value, key)
        return OMIT
    if foreign.algorithm == "A3C":
        return OMIT
    if foreign.algorithm == "DDPPO":
        return steps_of_round(foreign)
    return whole_rounds(foreign) if foreign.algorithm in ("A2C", "PG") else value


@conversion
def fragment(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the fragment length in steps per env; omits it if rlrun derives it from the batch size instead."""
    steps = fragment_steps(foreign)
    if foreign.algorithm in ("PPO", "DDPPO", "PG") or not foreign.has("rollout_fragment_length"):
        fits = foreign.algorithm == "PPO" and steps is not None
        fits = fits and int(foreign.get("train_batch_size")) % steps_of_round(foreign) == 0
        return steps if fits else OMIT
    return steps


@conversion
def clipped_rewards(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts `clip_rewards` to a bound: true (in RLlib, the sign) becomes 1; null, Atari's default, is omitted."""
    if value is None or (foreign.is_atari and value is True):
        return OMIT  # rlrun's Atari preset already clips rewards
    if value is True:
        foreign.tell(key, "rlrun clips rewards to [-1, 1]; RLlib uses their sign")
        return 1.0
    return float(value) if value else None


@conversion
def observation_filter(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts RLlib's observation filter to a switch for normalization by running mean and deviation."""
    if value in ("MeanStdFilter", "ConcurrentMeanStdFilter"):
        return True
    if value not in ("NoFilter", None):
        foreign.tell(key, f"rlrun has no filter {value}", Impact.LEARNING)
    return False


@conversion
def gpus(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the number of GPUs; 2 or more also set as many learner processes. RLlib's fake GPUs are ignored."""
    if value == "gpu" or value is True:
        value = 1
    if not value or foreign.get("_fake_gpus"):
        return OMIT
    if not foreign.has("num_gpus"):
        foreign.tell(key, f"rlrun's {foreign.algorithm} learns on CPUs", Impact.NONE)
        return OMIT
    if value >= 2 and foreign.has("num_learners"):
        foreign.put("config.num_learners", int(value), key)
    return value


@conversion
def episodes_per_iteration(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the minimum number of env steps per iteration; omits 0 and null."""
    return int(value) if value else OMIT


@conversion
def optimizer_settings(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts RLlib's section `optimizer`: keeps the number of Ape-X's replay shards, adds a remark on the rest."""
    left = dict(value or {})
    shards = left.pop("num_replay_buffer_shards", None)
    if shards and foreign.has("asynchrony.replay_shards"):
        foreign.put("config.asynchrony.replay_shards", shards, key)
    for name in ("debug", "max_weight_sync_delay", "grads_per_step"):
        left.pop(name, None)
    if left:
        foreign.tell(key, f"rlrun has no counterpart of {', '.join(left)}", Impact.LEARNING)
    return OMIT


@conversion
def restarts(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the switch for restarts of failed workers: true is rlrun's default, false is 0 restarts."""
    return OMIT if value else 0


conversion["only_true"] = only((True, 1), "rlrun always does so", Impact.LEARNING)
conversion["only_false"] = only((False, None), "rlrun has no counterpart", Impact.LEARNING)
conversion["only_exploring"] = only((True, None), "rlrun always explores during training", Impact.LEARNING)
conversion["only_truncated"] = only(
    ("truncate_episodes",), "rlrun's fragments may end within an episode, with bootstrapped values", Impact.SLIGHT
)
conversion["only_100"] = only((100,), "rlrun's returns are means over the last 100 episodes", Impact.SLIGHT)
conversion["nothing"] = lambda foreign, key, value: OMIT
