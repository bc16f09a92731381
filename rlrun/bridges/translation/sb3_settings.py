"""Functions that convert Stable-Baselines3 settings in rl-zoo3 files; `foreign_names.yaml` refers to them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from rlrun.bridges.translation.foreign_settings import OMIT, Conversion, ForeignSettings
from rlrun.bridges.translation.meanings import Impact

MAX_CHARACTERS = 10_000

CONVERSIONS: dict[str, Conversion] = {}
"""Conversions by name."""


def conversion(function: Conversion) -> Conversion:
    """Decorator that adds a function to `CONVERSIONS`."""
    CONVERSIONS[function.__name__] = function
    return function


def _steps(foreign: ForeignSettings) -> int:
    return int(foreign.get("n_timesteps"))


def _envs(foreign: ForeignSettings) -> int:
    return int(foreign.get("n_envs"))


def minibatches_per_step(foreign: ForeignSettings) -> float:
    """Minibatches per env step, from `gradient_steps` after every `train_freq` steps of each env.

    A `gradient_steps` of -1 means one minibatch per env step.
    """
    each, steps = foreign.get("train_freq"), int(foreign.get("gradient_steps"))
    if steps < 0 or isinstance(each, list):
        return 1.0
    return steps / (int(each) * _envs(foreign))


@conversion
def integer_value(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Converts a number without a fraction, such as 1e6, to an integer."""
    return int(value)


@conversion
def rate(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts a rate that is a number, or `lin_X` for a linear decay from X to 0 over the run, to a schedule."""
    if isinstance(value, str) and value.startswith("lin_"):
        return [[0, float(value.removeprefix("lin_"))], [_steps(foreign), 0.0]]
    return float(value)


@conversion
def shared_learning_rate(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts SB3's learning rate, shared by actor, critics and temperature, to rlrun's separate rates."""
    for name in ("critic_lr", "alpha_lr"):
        if foreign.has(name):
            foreign.put(f"config.{name}", rate(foreign, key, value), key)
    return rate(foreign, key, value)


@conversion
def unchanged(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Returns the value unchanged, for a setting that means the same in rlrun."""
    return value


@conversion
def steps_of_each_env(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Converts `n_steps`, the steps of each env in a batch, and sets the batch size to the steps of all envs."""
    foreign.put("config.train_batch_size", int(value) * _envs(foreign), key)
    return int(value)


@conversion
def batch(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Converts `batch_size` to the number of rows in a minibatch, at most the number in a batch."""
    steps = foreign.get("n_steps")
    return int(value) if steps is None else min(int(value), int(steps) * _envs(foreign))


@conversion
def temperature(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts SAC's entropy temperature: a fixed number, or a learned one (`auto_X` starts at X)."""
    if not isinstance(value, str):
        foreign.put("config.learn_alpha", False, key)
        return float(value)
    first = value.removeprefix("auto").removeprefix("_")
    return float(first) if first else OMIT


@conversion
def training(foreign: ForeignSettings, key: str, value: Any) -> float:
    """Converts `gradient_steps` to minibatches per env step, and `train_freq` to the length of fragments."""
    each = foreign.get("train_freq")
    if isinstance(each, list):
        foreign.tell("train_freq", "rlrun trains one minibatch after each step instead of at the end of an episode")
    elif foreign.has("rollout_fragment_length"):
        foreign.put("config.rollout_fragment_length", int(each), "train_freq")
    return minibatches_per_step(foreign)


@conversion
def target_interval(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Converts the interval of target network updates to minibatches; for DQN, also sets Huber loss and Adam's epsilon.

    SB3 has no settings for the last two. QR-DQN's epsilon depends on the number of transitions in a minibatch.
    """
    if foreign.algorithm not in ("dqn", "qrdqn"):
        return int(value)
    if foreign.algorithm == "dqn":
        foreign.put("config.huber", 1.0, key)
    epsilon = 1e-8 if foreign.algorithm == "dqn" else 0.01 / int(foreign.get("batch_size"))
    foreign.put("config.adam_epsilon", epsilon, key)
    return max(round(int(value) * minibatches_per_step(foreign)), 1)


@conversion
def epsilon(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts `exploration_fraction` and the first and last epsilon to an epsilon schedule over env steps."""
    end = max(int(foreign.get("exploration_fraction") * _steps(foreign)), 1)
    first = float(foreign.get("exploration_initial_eps", 1.0))
    return [[0, first], [end, float(foreign.get("exploration_final_eps"))]]


@conversion
def noise(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts action noise to units of half the action range; SB3's Ornstein-Uhlenbeck noise has dt = 0.01."""
    kind, deviation = foreign.get("noise_type"), float(foreign.get("noise_std", 0.0))
    if kind in (None, "none"):
        foreign.put("config.exploration", "gaussian", key)
        return 0.0
    if kind == "normal":
        foreign.put("config.exploration", "gaussian", key)
        return deviation
    if kind != "ornstein-uhlenbeck":
        foreign.tell(key, f"rlrun has no noise {kind}", Impact.LEARNING)
        return OMIT
    foreign.put("config.exploration", "ornstein_uhlenbeck", key)
    foreign.put("config.ou_theta", 0.15 * 0.01, key)
    return deviation * 0.1


@conversion
def noise_of_sampled(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Omits noise on a stochastic policy's actions, which rlrun does not support, and adds a remark."""
    if key == "noise_type":
        foreign.tell(key, "rlrun adds no noise to sampled actions")
    return OMIT


@conversion
def normalize(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts rl-zoo3's `normalize` (SB3's `VecNormalize`) to the normalization of observations and of rewards."""
    wanted = (
        python_value(value)
        if isinstance(value, str)
        else {}
        if value is True
        else {"norm_obs": False, "norm_reward": False}
    )
    if wanted.get("norm_reward", True):
        if foreign.has("normalize_rewards"):
            foreign.put("config.normalize_rewards", True, key)
        elif foreign.algorithm != "ars":
            foreign.tell(key, "rlrun does not normalize rewards in a replay buffer", Impact.LEARNING)
    return bool(wanted.get("norm_obs", True))


@conversion
def policy(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts SB3's policy class, such as `MlpPolicy`, if it determines more than the encoder of observations.

    An LSTM policy sets a recurrent core, and ARS's policies set their layers. `MlpPolicy`, `CnnPolicy` and
    `MultiInputPolicy` need no setting, since rlrun chooses the encoder by the observation.
    """
    if value == "LinearPolicy":
        foreign.put("config.model.hiddens", [], key)
    elif value == "MlpPolicy" and foreign.algorithm == "ars":
        foreign.put("config.model.hiddens", [64, 64], key)
    elif "Lstm" in str(value):
        kwargs = _policy_kwargs(foreign)
        foreign.put("config.model.core", "lstm", key)
        foreign.put("config.model.core_width", kwargs.get("lstm_hidden_size", 256), key)
        minibatch, steps = batch(foreign, "batch_size", foreign.get("batch_size")), int(foreign.get("n_steps"))
        length = max(each for each in range(1, min(minibatch, steps) + 1) if not minibatch % each)
        foreign.put("config.seq_len", length, key)
        foreign.tell(key, "rlrun puts dense layers before the recurrent core; SB3 puts them after it")
        if not kwargs.get("enable_critic_lstm", True):
            foreign.tell(key, "rlrun's value network has a separate recurrent core")
    elif value not in ("MlpPolicy", "CnnPolicy", "MultiInputPolicy"):
        foreign.tell(key, f"rlrun has no policy {value}", Impact.LEARNING)
    return OMIT


def _policy_kwargs(foreign: ForeignSettings) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for known in (foreign.defaults, foreign.written):
        written = known.get("policy_kwargs")
        value = (python_value(written) if isinstance(written, str) else written) or {}
        if not isinstance(value, dict):
            raise ValueError("policy_kwargs is not a dict")
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
def policy_settings(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts `policy_kwargs`, a Python expression with layer widths, activation and other network settings."""
    names = _OF_POLICY_KWARGS | {"n_quantiles": _QUANTILES.get(foreign.algorithm, "")}
    for name, own in _policy_kwargs(foreign).items():
        if name == "net_arch":
            foreign.put("config.model.hiddens", _widths(foreign, key, own), key)
        elif name == "activation_fn":
            kind = str(own).rpartition(".")[2]
            if kind in ACTIVATIONS:
                foreign.put("config.model.activation", ACTIVATIONS[kind], key)
            else:
                foreign.tell(key, f"rlrun has no activation {own}", Impact.LEARNING)
        elif name in names and foreign.has(names[name]):
            foreign.put(f"config.{names[name]}", own, key)
            if name == "log_std_init" and foreign.algorithm in ("ppo", "a2c", "ppo_lstm"):
                foreign.tell(
                    key, "rlrun's log_std_init is in units of half the action range; the same for ranges -1..1"
                )
        elif name in ("optimizer_class", "optimizer_kwargs", "use_expln"):
            foreign.tell(
                key, f"rlrun has no {name}; the optimizer is Adam, and gSDE's standard deviations are exponentials"
            )
        elif name not in _OF_LSTM:
            foreign.tell(key, f"rlrun has no {name}", Impact.LEARNING)
    return OMIT


def _widths(foreign: ForeignSettings, key: str, own: Any) -> list[int]:
    """Widths of the policy's layers, which rlrun uses for all networks except critics with `critic_hiddens`."""
    is_one = isinstance(own, list) and not any(isinstance(width, Mapping) for width in own)
    parts = {"pi": own, "qf": own} if is_one else own if isinstance(own, Mapping) else own[-1]
    first: list[int] = parts["pi"]
    if foreign.has("model.critic_hiddens"):
        foreign.put("config.model.critic_hiddens", parts["qf"], key)
    elif any(part != first for part in parts.values()):
        foreign.tell(key, "rlrun uses the layer widths of pi for all networks")
    return first


GYMNASIUM = "gymnasium.wrappers."
ATARI_WRAPPER = "stable_baselines3.common.atari_wrappers.AtariWrapper"


@conversion
def wrappers(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts env wrappers: AtariWrapper to the Atari preset; wrappers of Gymnasium and MiniGrid are kept."""
    listed = value if isinstance(value, list) else [value]
    found = []
    for written in listed:
        name, kwargs = next(iter(written.items())) if isinstance(written, Mapping) else (written, {})
        if name == ATARI_WRAPPER:
            _translate_atari(foreign, key, kwargs)
        elif name.startswith(GYMNASIUM) and name.endswith(".TimeLimit"):
            foreign.put("env.max_episode_steps", kwargs["max_episode_steps"], key)
        elif name.startswith(GYMNASIUM):
            found.append({"id": name.rpartition(".")[2], "kwargs": dict(kwargs)})
        elif name.startswith("minigrid.wrappers."):
            found.append({"id": f"minigrid.wrappers:{name.rpartition('.')[2]}", "kwargs": dict(kwargs)})
        elif name == "sb3_contrib.common.wrappers.TimeFeatureWrapper":
            found.append({"id": "TimeAwareObservation", "kwargs": {}})
            foreign.tell(key, "TimeAwareObservation counts time up; TimeFeatureWrapper counts it down to 0")
        else:
            foreign.tell(key, f"{name} is custom code", Impact.LEARNING)
    if found:
        foreign.put("env.wrappers", [each if each["kwargs"] else each["id"] for each in found], key)
    return OMIT


def _translate_atari(foreign: ForeignSettings, key: str, kwargs: Mapping[str, Any]) -> None:
    foreign.put("env.preset", "atari", key)
    foreign.put("env.kwargs.repeat_action_probability", 0.0, key)
    foreign.put("env.kwargs.episodic_life", bool(kwargs.get("terminal_on_life_loss", True)), key)


@conversion
def stacked(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the number of stacked frames to a setting of the algorithm, or for Atari to an argument of the env."""
    if foreign.is_atari:
        if value != 4:
            foreign.put("env.kwargs.stack_num", value, key)
        return OMIT
    return value


@conversion
def sde_interval(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the number of steps between two samples of gSDE's noise matrix: -1 becomes null."""
    return None if value < 0 else value


@conversion
def note_if_true(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Adds a remark if RMSProp is set, which rlrun replaces with Adam."""
    if value:
        foreign.tell(key, "rlrun uses Adam")
    return OMIT


@conversion
def standardized(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the switch for standardized advantages; adds a remark if SB3's is off and rlrun always standardizes."""
    if foreign.has("standardize_advantages"):
        foreign.put("config.standardize_advantages", bool(value), key)
    elif not value:
        foreign.tell(key, "rlrun always standardizes advantages")
    return OMIT


@conversion
def hindsight(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts hindsight experience replay: with n goals per transition, n of n + 1 minibatch rows are relabeled."""
    if key == "replay_buffer_class" and value != "HerReplayBuffer":
        foreign.tell(key, f"{value} is custom code", Impact.LEARNING)
        return OMIT
    own = {**foreign.written, **python_value(foreign.get("replay_buffer_kwargs", "{}"))}
    goals = int(own.get("n_sampled_goal", 4))
    return {"strategy": own.get("goal_selection_strategy", "future"), "share": goals / (goals + 1)}


@conversion
def target_entropy(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the target entropy: `auto` becomes null."""
    return None if value == "auto" else value


@conversion
def hindsight_settings(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Omits a hindsight replay setting, which `hindsight` has converted; adds a remark if hindsight replay is off."""
    if not foreign.has("replay.hindsight") or not {"replay_buffer_class", "n_sampled_goal"} & foreign.written.keys():
        foreign.tell(key, "it belongs to hindsight, which is not used", Impact.NONE)
    return OMIT


@conversion
def only_whole_batches(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Omits TRPO's subsampling of a batch, since rlrun computes a step from the whole batch; adds a remark."""
    if value != 1:
        foreign.tell(key, f"rlrun computes an update from all steps of a batch, SB3 from one of {value}")
    return OMIT


@conversion
def only_zero(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Omits an offset of rewards, which rlrun does not support; adds a remark if it is not 0."""
    if value:
        foreign.tell(key, "rlrun has no reward offset; subtract it in a wrapper of the env", Impact.LEARNING)
    return OMIT


class Symbol(str):
    """Dotted name in a Python expression, such as `nn.ReLU`, kept as a string."""


def python_value(text: str) -> Any:
    """Parses a Python literal, in which `dict(a=1)` is allowed and names are kept as symbols.

    Raises:
        ValueError: The text contains anything else, such as a call to another function.

    Examples:
        >>> python_value("dict(net_arch=[64, 64], activation_fn=nn.ReLU, log_std_init=-2)")
        {'net_arch': [64, 64], 'activation_fn': 'nn.ReLU', 'log_std_init': -2}
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"more than {MAX_CHARACTERS:,} characters")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError("not a Python expression") from None


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=None | bool() | int() | float() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item) for item in items]
        case ast.Dict(keys=keys, values=values) if all(isinstance(key, ast.Constant) for key in keys):
            return {str(_value(key)): _value(value) for key, value in zip(keys, values, strict=True) if key is not None}
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords) if all(each.arg for each in keywords):
            return {str(each.arg): _value(each.value) for each in keywords}
        case ast.Name(id=name):
            return Symbol(name)
        case ast.Attribute(value=value, attr=name):
            below = _value(value)
            if isinstance(below, Symbol):
                return Symbol(f"{below}.{name}")
    raise ValueError(f"{ast.unparse(node)[:60]!r} is neither a literal nor dict(...)")
