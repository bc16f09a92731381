"""Conversions of the settings of sampling and of the program: workers, fragments, batches, filters, GPUs."""

from __future__ import annotations

from typing import Any

from rlrun.bridges.translation.remarks import Harm
from rlrun.bridges.translation.rllib_settings.units import fragment_steps, steps_of_round, whole_rounds
from rlrun.bridges.translation.settings import Conversions, only
from rlrun.bridges.translation.theirs import OMIT, Theirs

conversion = Conversions()
"""Conversions by name, and the decorator that adds one."""


@conversion
def batch_size(theirs: Theirs, key: str, value: Any) -> Any:
    """Env steps of a batch; rows of a minibatch for algorithms with a replay buffer."""
    if theirs.has("replay"):
        theirs.put("config.minibatch_size", value, key)
        return OMIT
    if theirs.algorithm == "A3C":
        return OMIT
    if theirs.algorithm == "DDPPO":
        return steps_of_round(theirs)
    return whole_rounds(theirs) if theirs.algorithm in ("A2C", "PG") else value


@conversion
def fragment(theirs: Theirs, key: str, value: Any) -> Any:
    """Steps of each env in a fragment; PPO takes them from the batch where they do not divide it."""
    steps = fragment_steps(theirs)
    if theirs.algorithm in ("PPO", "DDPPO", "PG") or not theirs.has("rollout_fragment_length"):
        fits = theirs.algorithm == "PPO" and steps is not None
        fits = fits and int(theirs.get("train_batch_size")) % steps_of_round(theirs) == 0
        return steps if fits else OMIT
    return steps


@conversion
def clipped_rewards(theirs: Theirs, key: str, value: Any) -> Any:
    """Bound of rewards; true takes their sign, and null means true for Atari alone."""
    if value is None or (theirs.is_atari and value is True):
        return OMIT  # the preset of Atari clips
    if value is True:
        theirs.tell(key, "rewards are clipped to -1..1 here; their sign was taken there")
        return 1.0
    return float(value) if value else None


@conversion
def observation_filter(theirs: Theirs, key: str, value: Any) -> Any:
    """Normalisation of observations."""
    if value in ("MeanStdFilter", "ConcurrentMeanStdFilter"):
        return True
    if value not in ("NoFilter", None):
        theirs.tell(key, f"there is no filter {value}", Harm.LEARNING)
    return False


@conversion
def gpus(theirs: Theirs, key: str, value: Any) -> Any:
    """GPUs of the learner; of several, each has a learner. RLlib's own tests only pretend to have them."""
    if value == "gpu" or value is True:
        value = 1
    if not value or theirs.get("_fake_gpus"):
        return OMIT
    if not theirs.has("num_gpus"):
        theirs.tell(key, f"{theirs.algorithm} learns on CPUs here", Harm.NONE)
        return OMIT
    if value >= 2 and theirs.has("num_learners"):
        theirs.put("config.num_learners", int(value), key)
    return value


@conversion
def episodes_per_iteration(theirs: Theirs, key: str, value: Any) -> Any:
    """Env steps of an iteration: an update for PPO and the like, `timesteps_per_iteration` of the rest."""
    return int(value) if value else OMIT


@conversion
def optimizer_settings(theirs: Theirs, key: str, value: Any) -> Any:
    """Settings of RLlib's optimizers; of those only the replay shards of Ape-X are known here."""
    left = dict(value or {})
    shards = left.pop("num_replay_buffer_shards", None)
    if shards and theirs.has("asynchrony.replay_shards"):
        theirs.put("config.asynchrony.replay_shards", shards, key)
    for name in ("debug", "max_weight_sync_delay", "grads_per_step"):
        left.pop(name, None)
    if left:
        theirs.tell(key, f"there is nothing like {', '.join(left)} here", Harm.LEARNING)
    return OMIT


@conversion
def restarts(theirs: Theirs, key: str, value: Any) -> Any:
    """Whether workers that failed are replaced, as they are by default."""
    return OMIT if value else 0


conversion["only_true"] = only((True, 1), "it is always so here", Harm.LEARNING)
conversion["only_false"] = only((False, None), "there is nothing like it here", Harm.LEARNING)
conversion["only_exploring"] = only((True, None), "training explores", Harm.LEARNING)
conversion["only_truncated"] = only(
    ("truncate_episodes",), "fragments end within episodes too, with bootstrapped values", Harm.SLIGHT
)
conversion["only_100"] = only((100,), "returns are means over the last 100 episodes here", Harm.SLIGHT)
conversion["nothing"] = lambda theirs, key, value: OMIT
