"""Conversions of settings of algorithms with a replay buffer: the buffer, exploration, target networks, critics.

RLlib counts a minibatch's size in steps, rlrun in sequences. RLlib's QMIX replays whole episodes; rlrun's QMIX replays
sequences of at most `replay.length` steps.
"""

from __future__ import annotations

from typing import Any

from rlrun.bridges.translation.foreign_settings import OMIT, Conversions, ForeignSettings, only
from rlrun.bridges.translation.meanings import Impact
from rlrun.bridges.translation.rllib_settings.units import (
    DISTRIBUTED,
    Q_LEARNERS,
    fragment_steps,
    minibatches_per_step,
    round_off,
)

conversion = Conversions()
"""Conversions by name, and the decorator that adds one."""


@conversion
def intensity(foreign: ForeignSettings, key: str, value: Any) -> float:
    """Converts RLlib's `training_intensity` (learned rows per sampled row) to minibatches per env step."""
    return minibatches_per_step(foreign)


@conversion
def target_updates(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Converts the interval of target network updates from env steps (Ape-X: trained rows) to minibatches.

    For the DQN family, also sets the Huber loss that RLlib uses.
    """
    if foreign.algorithm in Q_LEARNERS:
        foreign.put("config.huber", 1.0, key)
    if foreign.algorithm in DISTRIBUTED:
        return max(round(float(value) / int(foreign.get("train_batch_size"))), 1)
    return max(round(float(value) * minibatches_per_step(foreign)), 1)


@conversion
def sampling(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts RLlib's replay buffer type, or `prioritized_replay`, to `uniform` or `prioritized` sampling."""
    if key.endswith("prioritized_replay"):
        return OMIT if key != "prioritized_replay" else _sampling(is_prioritized=bool(value))
    if "prioritized_replay" in foreign.written:
        return OMIT
    return _sampling(is_prioritized="Prioritized" in str(value))


def _sampling(*, is_prioritized: bool) -> str:
    return "prioritized" if is_prioritized else "uniform"


@conversion
def atoms(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the number of atoms of a C51 return distribution; omits 1, which means plain Q-learning."""
    if value == 1:
        return OMIT
    foreign.put("config.distribution", "c51", key)
    return value


@conversion
def critics(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Converts the switch `twin_q` to the number of critics: 2 or 1."""
    return 2 if value else 1


@conversion
def target_entropy(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the target entropy of SAC: `auto` becomes null."""
    return None if value in ("auto", None) else value


@conversion
def epsilon(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the exploration of Q-learning to an epsilon schedule over env steps, or to another exploration rule."""
    config = foreign.section("exploration_config")
    kind = str(config.get("type", "EpsilonGreedy")).rpartition(".")[2]
    if kind == "PerWorkerEpsilonGreedy":
        return OMIT if foreign.has("epsilon_exponent") else _unknown_exploration(foreign, key, kind)
    if kind == "SoftQ":
        foreign.put("config.exploration", "soft_q", key)
        foreign.put("config.temperature", config.get("temperature", 1.0), key)
        return OMIT
    if kind == "ParameterNoise":
        foreign.put("config.exploration", "parameter_noise", key)
    elif kind != "EpsilonGreedy" or config.get("epsilon_schedule") is not None:
        return _unknown_exploration(foreign, key, kind)
    steps = int(foreign.get("schedule_max_timesteps", 100_000) * foreign.get("exploration_fraction", 0.1))
    steps = max(int(config.get("epsilon_timesteps", steps)) if not _is_old(foreign) else steps, 1)
    last = foreign.get("exploration_final_eps", config.get("final_epsilon", 0.02))
    return [[0, float(config.get("initial_epsilon", 1.0))], [steps, float(last)]]


def _is_old(foreign: ForeignSettings) -> bool:
    return "exploration_config" not in foreign.written and foreign.source.version < (1, 0)


def _unknown_exploration(foreign: ForeignSettings, key: str, kind: str) -> Any:
    foreign.tell(key, f"rlrun's {foreign.algorithm} does not explore with {kind}", Impact.LEARNING)
    return OMIT


@conversion
def action_noise(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts action noise, Gaussian or Ornstein-Uhlenbeck, to units of half the action range.

    RLlib's Ornstein-Uhlenbeck noise is in units of the whole range.
    """
    config = foreign.section("exploration_config")
    kind = str(config.get("type")).rpartition(".")[2]
    is_ou = kind.endswith("OrnsteinUhlenbeckNoise")
    if kind not in ("GaussianNoise", "PerWorkerGaussianNoise") and not is_ou:
        return _unknown_exploration(foreign, key, kind)
    if kind.startswith("PerWorker"):
        foreign.tell(key, "rlrun uses the same noise scale for all workers; RLlib used a different one for each")
    if is_ou:
        base = foreign.get("noise_scale", config["ou_base_scale"])
        sigma = 2 * base * foreign.get("exploration_sigma", config["ou_sigma"])
        foreign.put("config.exploration", "ornstein_uhlenbeck", key)
        foreign.put("config.ou_theta", foreign.get("exploration_theta", config["ou_theta"]), key)
    else:
        sigma = config["stddev"]
        foreign.put("config.exploration", "gaussian", key)
        foreign.tell(key, "rlrun's stddev is in units of half the action range; RLlib's was in the env's units")
    start = int(config.get("random_timesteps", 0))
    if _is_old(foreign):
        steps = int(foreign.get("schedule_max_timesteps", 100_000) * foreign.get("exploration_fraction", 0.1))
        first, last, start = 1.0, foreign.get("exploration_final_eps", 0.02), 0
    else:
        first, last, steps = (config.get(name, 1.0) for name in ("initial_scale", "final_scale", "scale_timesteps"))
    if start and "exploration_config" in foreign.written and start != foreign.first(*_STARTS):
        foreign.tell(key, "rlrun's first learning_starts steps are random, not random_timesteps")
    if first == last or kind.startswith("PerWorker"):
        return round_off(sigma * first)
    return [[start, round_off(sigma * first)], [start + max(int(steps), 1), round_off(sigma * last)]]


_STARTS = (
    "learning_starts",
    "replay_buffer_config.learning_starts",
    "replay_buffer_config.min_size_for_sampling",
    "num_steps_sampled_before_learning_starts",
)


@conversion
def sampled_actions(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Omits `StochasticSampling`, as stochastic policies always sample; adds a remark on any other exploration."""
    kind = str((value or {}).get("type", "StochasticSampling")).rpartition(".")[2]
    return OMIT if kind == "StochasticSampling" else _unknown_exploration(foreign, key, kind)


@conversion
def on_if_huber(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Omits settings of a Huber loss; adds a remark if rlrun's critics use the squared error instead."""
    if value and foreign.algorithm not in Q_LEARNERS and (key == "use_huber" or foreign.get("use_huber")):
        foreign.tell(key, "rlrun's critics use a squared error")
    return OMIT


@conversion
def note_if_positive(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Omits the weight decay of RLlib's optimizer, which rlrun lacks; adds a remark if it is positive."""
    if value and key in foreign.written:
        foreign.tell(key, "rlrun trains networks without weight decay")
    return OMIT


LONGEST = 20
"""Length of replayed sequences, in steps, if RLlib replays whole episodes of unknown length."""


def _steps(foreign: ForeignSettings) -> int:
    longest = int(foreign.get("model.max_seq_len"))
    return longest if foreign.algorithm == "R2D2" else min(longest, foreign.horizon or LONGEST)


@conversion
def sequence_length(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Converts the length of replayed sequences in steps, and sets the stride so that they do not overlap."""
    steps = _steps(foreign)
    if steps < value and foreign.horizon is None:
        foreign.tell(
            key,
            f"RLlib replayed whole episodes, rlrun replays sequences of {steps} steps: set replay.length to the "
            "length of an episode",
        )
    foreign.put("config.replay.stride", steps, key)
    if foreign.algorithm == "QMIX":
        foreign.put("config.replay.burn_in", 0, key)
    return steps


@conversion
def sequences(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Converts a minibatch size from steps (burn-in included) to sequences."""
    steps = _steps(foreign) + int(foreign.get("replay_buffer_config.replay_burn_in", 0))
    return max(-(-int(value) // steps), 1)


@conversion
def rounds_kept(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Converts the capacity of the replay buffer to env steps; before 2.0, RLlib counted rollout fragments instead."""
    if foreign.source.version >= (2, 0):
        return int(value)
    foreign.tell(key, "rlrun counts env steps; RLlib counted fragments of a worker, which end with an episode")
    return int(value) * (fragment_steps(foreign) or 1) * int(foreign.get("num_envs_per_worker"))


@conversion
def layers_of_heads(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Omits layers between R2D2's recurrent core and its Q values, which rlrun lacks, and adds a remark."""
    if value:
        foreign.tell(key, f"rlrun computes values directly from the core; RLlib had layers of {value} in between")
    return OMIT


@conversion
def first_states(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Omits the switch for a zero recurrent state before replayed sequences: rlrun uses the stored state."""
    is_written = any(name.endswith("zero_init_states") for name in foreign.written)
    if value and (key in foreign.written or not is_written):
        foreign.tell(key, "rlrun's replayed sequences start from the recorded state; RLlib's started from zeros")
    return OMIT


conversion["only_rescaled"] = only((True, 1), "rlrun always rescales values with h", Impact.LEARNING)
conversion["only_epsilon_of_h"] = only((1e-3,), "rlrun uses 0.001 as the epsilon of h", Impact.SLIGHT)
conversion["only_epsilon_of_adam"] = only((), "rlrun uses 1e-5 as Adam's epsilon", Impact.SLIGHT)
