"""Conversions of Stable-Baselines3's settings as rl-zoo3 writes them, by the names in the table of foreign names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlrun.bridges.translation.python_text import python_value
from rlrun.bridges.translation.remarks import Harm
from rlrun.bridges.translation.settings import Conversion
from rlrun.bridges.translation.theirs import OMIT, Theirs

CONVERSIONS: dict[str, Conversion] = {}
"""Conversions by name."""


def conversion(function: Conversion) -> Conversion:
    """Decorator: adds a function to `CONVERSIONS`."""
    CONVERSIONS[function.__name__] = function
    return function


def _steps(theirs: Theirs) -> int:
    return int(theirs.get("n_timesteps"))


def _envs(theirs: Theirs) -> int:
    return int(theirs.get("n_envs"))


def minibatches_per_step(theirs: Theirs) -> float:
    """Minibatches per env step: `gradient_steps` after `train_freq` steps of each env; -1 is one per step."""
    each, steps = theirs.get("train_freq"), int(theirs.get("gradient_steps"))
    if steps < 0 or isinstance(each, list):
        return 1.0
    return steps / (int(each) * _envs(theirs))


@conversion
def whole_number(theirs: Theirs, key: str, value: Any) -> int:
    """A number without a fraction, such as 1e6."""
    return int(value)


@conversion
def rate(theirs: Theirs, key: str, value: Any) -> Any:
    """A number, or `lin_X` for a line from X to 0 over the run."""
    if isinstance(value, str) and value.startswith("lin_"):
        return [[0, float(value.removeprefix("lin_"))], [_steps(theirs), 0.0]]
    return float(value)


@conversion
def rate_of_both(theirs: Theirs, key: str, value: Any) -> Any:
    """Learning rate, which is one for the actor, the critics and the temperature there."""
    for name in ("critic_lr", "alpha_lr"):
        if theirs.has(name):
            theirs.put(f"config.{name}", rate(theirs, key, value), key)
    return rate(theirs, key, value)


@conversion
def unchanged(theirs: Theirs, key: str, value: Any) -> Any:
    """The value itself."""
    return value


@conversion
def steps_of_each_env(theirs: Theirs, key: str, value: Any) -> int:
    """Steps of each env in a batch, which has those of all envs."""
    theirs.put("config.train_batch_size", int(value) * _envs(theirs), key)
    return int(value)


@conversion
def batch(theirs: Theirs, key: str, value: Any) -> int:
    """Rows of a minibatch, at most a batch."""
    steps = theirs.get("n_steps")
    return int(value) if steps is None else min(int(value), int(steps) * _envs(theirs))


@conversion
def temperature(theirs: Theirs, key: str, value: Any) -> Any:
    """Temperature of SAC: `auto` is learned, from the number after `auto_`."""
    if not isinstance(value, str):
        theirs.put("config.learn_alpha", False, key)
        return float(value)
    first = value.removeprefix("auto").removeprefix("_")
    return float(first) if first else OMIT


@conversion
def training(theirs: Theirs, key: str, value: Any) -> float:
    """Minibatches per env step, after fragments of `train_freq` steps of each env."""
    each = theirs.get("train_freq")
    if isinstance(each, list):
        theirs.tell("train_freq", "a minibatch follows each step here, none waits for the end of an episode")
    elif theirs.has("rollout_fragment_length"):
        theirs.put("config.rollout_fragment_length", int(each), "train_freq")
    return minibatches_per_step(theirs)


@conversion
def target_interval(theirs: Theirs, key: str, value: Any) -> int:
    """Minibatches between updates of a target network; DQN counts env steps there, and has a Huber loss."""
    if theirs.algorithm == "dqn":
        theirs.put("config.huber", 1.0, key)
    if theirs.algorithm in ("dqn", "qrdqn"):
        return max(round(int(value) * minibatches_per_step(theirs)), 1)
    return int(value)


@conversion
def epsilon(theirs: Theirs, key: str, value: Any) -> Any:
    """Epsilon, which falls within a part of the run."""
    end = max(int(theirs.get("exploration_fraction") * _steps(theirs)), 1)
    first = float(theirs.get("exploration_initial_eps", 1.0))
    return [[0, first], [end, float(theirs.get("exploration_final_eps"))]]


@conversion
def noise(theirs: Theirs, key: str, value: Any) -> Any:
    """Noise of actions in units of half their range; Ornstein-Uhlenbeck noise moves by dt = 0.01 there."""
    kind, deviation = theirs.get("noise_type"), float(theirs.get("noise_std", 0.0))
    if kind in (None, "none"):
        theirs.put("config.exploration", "gaussian", key)
        return 0.0
    if kind == "normal":
        theirs.put("config.exploration", "gaussian", key)
        return deviation
    if kind != "ornstein-uhlenbeck":
        theirs.tell(key, f"there is no noise {kind}", Harm.LEARNING)
        return OMIT
    theirs.put("config.exploration", "ornstein_uhlenbeck", key)
    theirs.put("config.ou_theta", 0.15 * 0.01, key)
    return deviation * 0.1


@conversion
def noise_of_sampled(theirs: Theirs, key: str, value: Any) -> Any:
    """Noise on top of the actions that a stochastic policy draws."""
    if key == "noise_type":
        theirs.tell(key, "drawn actions have no further noise here")
    return OMIT


@conversion
def normalize(theirs: Theirs, key: str, value: Any) -> Any:
    """Normalisation of observations and rewards (`VecNormalize`)."""
    wanted = (
        python_value(value)
        if isinstance(value, str)
        else {}
        if value is True
        else {"norm_obs": False, "norm_reward": False}
    )
    if wanted.get("norm_reward", True):
        if theirs.has("normalize_rewards"):
            theirs.put("config.normalize_rewards", True, key)
        elif theirs.algorithm != "ars":
            theirs.tell(key, "rewards in a replay buffer are not normalised here", Harm.LEARNING)
    return bool(wanted.get("norm_obs", True))


@conversion
def policy(theirs: Theirs, key: str, value: Any) -> Any:
    """Kind of network, which follows from the observation here; the core and ARS' linear policy do not."""
    if value == "LinearPolicy":
        theirs.put("config.model.hiddens", [], key)
    elif value == "MlpPolicy" and theirs.algorithm == "ars":
        theirs.put("config.model.hiddens", [64, 64], key)
    elif "Lstm" in str(value):
        kwargs = _policy_kwargs(theirs)
        theirs.put("config.model.core", "lstm", key)
        theirs.put("config.model.core_width", kwargs.get("lstm_hidden_size", 256), key)
        minibatch, steps = batch(theirs, "batch_size", theirs.get("batch_size")), int(theirs.get("n_steps"))
        length = max(each for each in range(1, min(minibatch, steps) + 1) if not minibatch % each)
        theirs.put("config.seq_len", length, key)
        theirs.tell(key, "dense layers are before the core here, after it there")
        if not kwargs.get("enable_critic_lstm", True):
            theirs.tell(key, "the value network has a core of its own here")
    elif value not in ("MlpPolicy", "CnnPolicy", "MultiInputPolicy"):
        theirs.tell(key, f"there is no policy {value}", Harm.LEARNING)
    return OMIT


def _policy_kwargs(theirs: Theirs) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for known in (theirs.defaults, theirs.written):
        written = known.get("policy_kwargs")
        value = (python_value(written) if isinstance(written, str) else written) or {}
        if not isinstance(value, dict):
            raise ValueError("policy_kwargs is no dict")
        merged |= value
    return merged


ACTIVATIONS = {"ReLU": "relu", "Tanh": "tanh", "ELU": "elu", "SiLU": "silu"}
"""Activations by their names in torch.nn."""

_OF_POLICY_KWARGS = {
    "log_std_init": "model.log_std_init", "ortho_init": "model.orthogonal_init", "n_critics": "num_critics",
}  # fmt: skip
_QUANTILES = {"qrdqn": "num_atoms", "tqc": "num_quantiles"}
_OF_LSTM = ("lstm_hidden_size", "enable_critic_lstm")


@conversion
def policy_settings(theirs: Theirs, key: str, value: Any) -> Any:
    """Settings of the network, written as Python text."""
    names = _OF_POLICY_KWARGS | {"n_quantiles": _QUANTILES.get(theirs.algorithm, "")}
    for name, own in _policy_kwargs(theirs).items():
        if name == "net_arch":
            theirs.put("config.model.hiddens", _widths(theirs, key, own), key)
        elif name == "activation_fn":
            kind = str(own).rpartition(".")[2]
            if kind in ACTIVATIONS:
                theirs.put("config.model.activation", ACTIVATIONS[kind], key)
            else:
                theirs.tell(key, f"there is no activation {own}", Harm.LEARNING)
        elif name in names and theirs.has(names[name]):
            theirs.put(f"config.{names[name]}", own, key)
            if name == "log_std_init" and theirs.algorithm in ("ppo", "a2c", "ppo_lstm"):
                theirs.tell(key, "log_std_init is in units of half the action range here; the same for ranges -1..1")
        elif name in ("optimizer_class", "optimizer_kwargs", "use_expln"):
            theirs.tell(key, f"there is no {name} here; the optimizer is Adam, and gSDE's deviations are exponentials")
        elif name not in _OF_LSTM:
            theirs.tell(key, f"there is no {name} here", Harm.LEARNING)
    return OMIT


def _widths(theirs: Theirs, key: str, own: Any) -> list[int]:
    """Widths of the layers: the policy's, which all networks share here, except where critics have their own."""
    is_one = isinstance(own, list) and not any(isinstance(width, Mapping) for width in own)
    parts = {"pi": own, "qf": own} if is_one else own if isinstance(own, Mapping) else own[-1]
    first: list[int] = parts["pi"]
    if theirs.has("model.critic_hiddens"):
        theirs.put("config.model.critic_hiddens", parts["qf"], key)
    elif any(part != first for part in parts.values()):
        theirs.tell(key, "all networks have layers of the same widths here: those of pi")
    return first


GYMNASIUM = "gymnasium.wrappers."
ATARI_WRAPPER = "stable_baselines3.common.atari_wrappers.AtariWrapper"


@conversion
def wrappers(theirs: Theirs, key: str, value: Any) -> Any:
    """Wrappers of the env: AtariWrapper is the preset, those of Gymnasium and MiniGrid are taken over."""
    listed = value if isinstance(value, list) else [value]
    found = []
    for written in listed:
        name, kwargs = next(iter(written.items())) if isinstance(written, Mapping) else (written, {})
        if name == ATARI_WRAPPER:
            _put_atari(theirs, key, kwargs)
        elif name.startswith(GYMNASIUM) and name.endswith(".TimeLimit"):
            theirs.put("env.max_episode_steps", kwargs["max_episode_steps"], key)
        elif name.startswith(GYMNASIUM):
            found.append({"id": name.rpartition(".")[2], "kwargs": dict(kwargs)})
        elif name.startswith("minigrid.wrappers."):
            found.append({"id": f"minigrid.wrappers:{name.rpartition('.')[2]}", "kwargs": dict(kwargs)})
        elif name == "sb3_contrib.common.wrappers.TimeFeatureWrapper":
            found.append({"id": "TimeAwareObservation", "kwargs": {}})
            theirs.tell(key, "the time is counted up by TimeAwareObservation, down to 0 by TimeFeatureWrapper")
        else:
            theirs.tell(key, f"{name} is code that is not here", Harm.LEARNING)
    if found:
        theirs.put("env.wrappers", [each if each["kwargs"] else each["id"] for each in found], key)
    return OMIT


def _put_atari(theirs: Theirs, key: str, kwargs: Mapping[str, Any]) -> None:
    theirs.put("env.preset", "atari", key)
    theirs.put("env.kwargs.repeat_action_probability", 0.0, key)
    theirs.put("env.kwargs.episodic_life", bool(kwargs.get("terminal_on_life_loss", True)), key)


@conversion
def stacked(theirs: Theirs, key: str, value: Any) -> Any:
    """Number of stacked frames, which an Atari env stacks itself."""
    if theirs.is_atari:
        if value != 4:
            theirs.put("env.kwargs.stack_num", value, key)
        return OMIT
    return value


@conversion
def sde_interval(theirs: Theirs, key: str, value: Any) -> Any:
    """Steps between two noise matrices, null for -1."""
    return None if value < 0 else value


@conversion
def told_if_true(theirs: Theirs, key: str, value: Any) -> Any:
    """RMSProp, in whose place Adam is."""
    if value:
        theirs.tell(key, "the optimizer is Adam here")
    return OMIT


@conversion
def standardized(theirs: Theirs, key: str, value: Any) -> Any:
    """Standardised advantages, which PPO always has here."""
    if theirs.has("standardize_advantages"):
        theirs.put("config.standardize_advantages", bool(value), key)
    elif not value:
        theirs.tell(key, "advantages are always standardised here")
    return OMIT


@conversion
def hindsight(theirs: Theirs, key: str, value: Any) -> Any:
    """Hindsight experience replay: with n goals for each transition, n of n + 1 rows of a minibatch are relabelled."""
    if key == "replay_buffer_class" and value != "HerReplayBuffer":
        theirs.tell(key, f"{value} is code that is not here", Harm.LEARNING)
        return OMIT
    own = {**theirs.written, **python_value(theirs.get("replay_buffer_kwargs", "{}"))}
    goals = int(own.get("n_sampled_goal", 4))
    return {"strategy": own.get("goal_selection_strategy", "future"), "share": goals / (goals + 1)}


@conversion
def target_entropy(theirs: Theirs, key: str, value: Any) -> Any:
    """Target entropy, null for `auto`."""
    return None if value == "auto" else value


@conversion
def of_hindsight(theirs: Theirs, key: str, value: Any) -> Any:
    """Settings of hindsight, which its own conversion reads where there is hindsight."""
    if not theirs.has("replay.hindsight") or not {"replay_buffer_class", "n_sampled_goal"} & theirs.written.keys():
        theirs.tell(key, "there is no hindsight that it belongs to", Harm.NONE)
    return OMIT


@conversion
def only_whole_batches(theirs: Theirs, key: str, value: Any) -> Any:
    """Part of a batch from which TRPO computes its step."""
    if value != 1:
        theirs.tell(key, f"a step is computed from all steps of a batch here, from one of {value} there")
    return OMIT


@conversion
def only_zero(theirs: Theirs, key: str, value: Any) -> Any:
    """Offset of rewards, which is not here."""
    if value:
        theirs.tell(key, "rewards have no offset here; a wrapper of the env may take it away", Harm.LEARNING)
    return OMIT
