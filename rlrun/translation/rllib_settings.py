"""Conversions of RLlib's settings, by the names in the table of foreign names.

RLlib counts otherwise in places: rows and env steps, sums and means over a batch, env steps and minibatches between
updates of a target network. Each function names what it relies on.
"""

from __future__ import annotations

from typing import Any

from rlrun.translation.remarks import Harm
from rlrun.translation.settings import Conversion
from rlrun.translation.theirs import OMIT, Theirs

SUMMED_LOSSES = ("A2C", "A3C", "IMPALA")
"""Algorithms whose loss is a sum over the rows of a batch."""
Q_LEARNERS = ("DQN", "SimpleQ", "APEX")
DISTRIBUTED = ("APEX", "APEX_DDPG")

CONVERSIONS: dict[str, Conversion] = {}
"""Conversions by name."""


def conversion(function: Conversion) -> Conversion:
    """Decorator: adds a function to `CONVERSIONS`."""
    CONVERSIONS[function.__name__] = function
    return function


def fragment_steps(theirs: Theirs) -> int | None:
    """Steps of each env in a fragment; None if RLlib derives them from the batch."""
    steps = theirs.first("rollout_fragment_length", "sample_batch_size")
    if steps != "auto":
        return int(steps)
    return int(theirs.get("n_step")) if theirs.get("n_step") is not None else None


def steps_of_round(theirs: Theirs) -> int:
    """Env steps of one fragment of every env of every worker."""
    return (fragment_steps(theirs) or 1) * max(_workers(theirs), 1) * int(theirs.get("num_envs_per_worker"))


def _workers(theirs: Theirs) -> int:
    return int(theirs.first("num_workers", "num_rollout_workers", "num_env_runners"))


def _rows(theirs: Theirs) -> int:
    """Rows of a batch whose loss is summed."""
    if theirs.algorithm == "IMPALA":
        return int(theirs.get("train_batch_size"))
    envs = int(theirs.get("num_envs_per_worker"))
    return (fragment_steps(theirs) or 1) * envs if theirs.algorithm == "A3C" else _whole_rounds(theirs)


def _whole_rounds(theirs: Theirs) -> int:
    """Env steps of a batch of A2C and PG: rounds of fragments until `train_batch_size` is reached."""
    wanted, each = int(theirs.get("train_batch_size")), steps_of_round(theirs)
    return wanted if fragment_steps(theirs) is None else -(-wanted // each) * each


def minibatches_per_step(theirs: Theirs) -> float:
    """Minibatches per env step of an algorithm with a replay buffer.

    Without `training_intensity` a minibatch follows each round of fragments; with it, it is the rows learned from per
    sampled row (`calculate_rr_weights`).
    """
    if theirs.get("training_intensity") is not None:
        return float(theirs.get("training_intensity")) / int(theirs.get("train_batch_size"))
    return 1000.0 if theirs.algorithm in DISTRIBUTED else tidy(1 / steps_of_round(theirs))


def points(value: Any) -> Any:
    """Schedule as points with whole env steps; other values unchanged."""
    return [[int(step), number] for step, number in value] if isinstance(value, list) else value


@conversion
def learning_rate(theirs: Theirs, key: str, value: Any) -> Any:
    """`lr`, unless a schedule takes its place."""
    return OMIT if theirs.get("lr_schedule") is not None else value


@conversion
def schedule(theirs: Theirs, key: str, value: Any) -> Any:
    """Points of a schedule, linear between them and constant after the last one; null for none."""
    return OMIT if value is None else points(value)


@conversion
def entropy_weight(theirs: Theirs, key: str, value: Any) -> Any:
    """Weight of the entropy, which A3C, A2C and IMPALA added to the loss with its sign until 0.6.

    With learners of the new API IMPALA adds the mean entropy to losses that are sums.
    """
    if theirs.get("entropy_coeff_schedule") is not None:
        return OMIT
    if isinstance(value, int | float) and value < 0:
        if theirs.algorithm not in SUMMED_LOSSES:
            theirs.tell(key, "a negative weight would punish entropy", Harm.LEARNING)
            return OMIT
        return -value
    is_mean = theirs.algorithm == "IMPALA" and theirs.get("_enable_learner_api")
    return tidy(value / _rows(theirs)) if is_mean else value


@conversion
def halved_value_weight(theirs: Theirs, key: str, value: Any) -> float:
    """Weight of the squared error, which these algorithms of RLlib halve."""
    return float(value) / 2


@conversion
def value_clip(theirs: Theirs, key: str, value: Any) -> Any:
    """Bound of the value's change until 1.11, later of the squared error itself."""
    if theirs.source.version >= (1, 13):
        text = "bounds the value's change here; there, squared errors above it taught the value nothing"
        theirs.tell(key, text)
    return value


@conversion
def gradient_norm(theirs: Theirs, key: str, value: Any) -> Any:
    """Bound of the gradient's norm, which is one of a sum over the batch's rows for A2C, A3C and IMPALA."""
    if value is None or value is False:
        return None
    return tidy(value / _rows(theirs)) if theirs.algorithm in SUMMED_LOSSES else value


@conversion
def penalty(theirs: Theirs, key: str, value: Any) -> Any:
    """Weight of PPO's KL penalty, which is added to the clipped objective."""
    if value:
        theirs.tell(key, f"no penalty of the divergence (weight {value:g}) here; clipping alone bounds an update")
    return OMIT


@conversion
def penalty_of_appo(theirs: Theirs, key: str, value: Any) -> float:
    """Weight of APPO's KL penalty, unused without `use_kl_loss`."""
    if theirs.get("use_kl_loss") and theirs.has("kl_coeff"):
        theirs.tell(key, "constant here; there it follows kl_target")
        return float(value)
    return 0.0


@conversion
def trace_decay(theirs: Theirs, key: str, value: Any) -> float:
    """Lambda of APPO, which V-trace leaves out there."""
    if value != 1:
        theirs.tell(key, "V-trace had no lambda there, which is 1 here", Harm.NONE)
    return 1.0


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
    return _whole_rounds(theirs) if theirs.algorithm in ("A2C", "PG") else value


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
def minibatch_size(theirs: Theirs, key: str, value: Any) -> int:
    """Steps of a minibatch, at most a batch; those of DD-PPO are of one worker there, of all workers here."""
    if theirs.algorithm == "DDPPO":
        return int(value) * max(_workers(theirs), 1)
    return min(int(value), int(theirs.get("train_batch_size")))


@conversion
def intensity(theirs: Theirs, key: str, value: Any) -> float:
    """Minibatches per env step."""
    return minibatches_per_step(theirs)


@conversion
def target_updates(theirs: Theirs, key: str, value: Any) -> int:
    """Minibatches between two updates of the target network: env steps there, trained rows in Ape-X."""
    if theirs.algorithm in DISTRIBUTED:
        return max(round(float(value) / int(theirs.get("train_batch_size"))), 1)
    return max(round(float(value) * minibatches_per_step(theirs)), 1)


@conversion
def is_prioritized(theirs: Theirs, key: str, value: Any) -> Any:
    """Whether a buffer's type, or the older switch, is that of prioritized replay."""
    if key.endswith("prioritized_replay"):
        return OMIT if key != "prioritized_replay" else bool(value)
    if "prioritized_replay" in theirs.written:
        return OMIT
    return "Prioritized" in str(value)


@conversion
def atoms(theirs: Theirs, key: str, value: Any) -> Any:
    """Number of atoms; more than 1 learn a distribution of returns."""
    if value == 1:
        return OMIT
    theirs.put("config.distribution", "c51", key)
    return value


@conversion
def critics(theirs: Theirs, key: str, value: Any) -> int:
    """Number of critics."""
    return 2 if value else 1


@conversion
def target_entropy(theirs: Theirs, key: str, value: Any) -> Any:
    """Target entropy, null for `auto`."""
    return None if value in ("auto", None) else value


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
def epsilon(theirs: Theirs, key: str, value: Any) -> Any:
    """Exploration of Q-learning: epsilon over env steps, by the present section or the keys of 0.5."""
    config = theirs.section("exploration_config")
    kind = str(config.get("type", "EpsilonGreedy")).rpartition(".")[2]
    if kind == "PerWorkerEpsilonGreedy":
        return OMIT if theirs.has("epsilon_exponent") else _unknown_exploration(theirs, key, kind)
    if kind == "SoftQ":
        theirs.put("config.exploration", "soft_q", key)
        theirs.put("config.temperature", config.get("temperature", 1.0), key)
        return OMIT
    if kind == "ParameterNoise":
        theirs.put("config.exploration", "parameter_noise", key)
    elif kind != "EpsilonGreedy" or config.get("epsilon_schedule") is not None:
        return _unknown_exploration(theirs, key, kind)
    steps = int(theirs.get("schedule_max_timesteps", 100_000) * theirs.get("exploration_fraction", 0.1))
    steps = max(int(config.get("epsilon_timesteps", steps)) if not _is_old(theirs) else steps, 1)
    last = theirs.get("exploration_final_eps", config.get("final_epsilon", 0.02))
    return [[0, float(config.get("initial_epsilon", 1.0))], [steps, float(last)]]


def _is_old(theirs: Theirs) -> bool:
    return "exploration_config" not in theirs.written and theirs.source.version < (1, 0)


def _unknown_exploration(theirs: Theirs, key: str, kind: str) -> Any:
    theirs.tell(key, f"{theirs.algorithm} does not explore by {kind} here", Harm.LEARNING)
    return OMIT


@conversion
def action_noise(theirs: Theirs, key: str, value: Any) -> Any:
    """Noise of actions, in units of half the range; RLlib's Ornstein-Uhlenbeck noise is in units of the whole range."""
    config = theirs.section("exploration_config")
    kind = str(config.get("type")).rpartition(".")[2]
    is_ou = kind.endswith("OrnsteinUhlenbeckNoise")
    if kind not in ("GaussianNoise", "PerWorkerGaussianNoise") and not is_ou:
        return _unknown_exploration(theirs, key, kind)
    if kind.startswith("PerWorker"):
        theirs.tell(key, "all workers explore by the same noise here; there each had its own scale")
    if is_ou:
        base = theirs.get("noise_scale", config["ou_base_scale"])
        sigma = 2 * base * theirs.get("exploration_sigma", config["ou_sigma"])
        theirs.put("config.exploration", "ornstein_uhlenbeck", key)
        theirs.put("config.ou_theta", theirs.get("exploration_theta", config["ou_theta"]), key)
    else:
        sigma = config["stddev"]
        theirs.put("config.exploration", "gaussian", key)
        theirs.tell(key, "stddev is in units of half the action range here, in the env's units there")
    start = int(config.get("random_timesteps", 0))
    if _is_old(theirs):
        steps = int(theirs.get("schedule_max_timesteps", 100_000) * theirs.get("exploration_fraction", 0.1))
        first, last, start = 1.0, theirs.get("exploration_final_eps", 0.02), 0
    else:
        first, last, steps = (config.get(name, 1.0) for name in ("initial_scale", "final_scale", "scale_timesteps"))
    if start and "exploration_config" in theirs.written and start != theirs.first(*_STARTS):
        theirs.tell(key, "the random steps are the first learning_starts here, not random_timesteps")
    if first == last or kind.startswith("PerWorker"):
        return tidy(sigma * first)
    return [[start, tidy(sigma * first)], [start + max(int(steps), 1), tidy(sigma * last)]]


_STARTS = ("learning_starts", "replay_buffer_config.learning_starts", "num_steps_sampled_before_learning_starts")


def tidy(number: float) -> float:
    """A number without the last digits, in which it may differ from what is meant."""
    return float(f"{number:.10g}")


@conversion
def sampled_actions(theirs: Theirs, key: str, value: Any) -> Any:
    """Exploration of stochastic policies, which draw their actions."""
    kind = str((value or {}).get("type", "StochasticSampling")).rpartition(".")[2]
    return OMIT if kind == "StochasticSampling" else _unknown_exploration(theirs, key, kind)


@conversion
def on_if_huber(theirs: Theirs, key: str, value: Any) -> Any:
    """Loss of the critics, a squared error here."""
    if value and theirs.algorithm not in Q_LEARNERS and (key == "use_huber" or theirs.get("use_huber")):
        theirs.tell(key, "the critics' loss is the squared error here")
    return OMIT


@conversion
def told_if_positive(theirs: Theirs, key: str, value: Any) -> Any:
    """Weight decay, for which there is no setting."""
    if value and key in theirs.written:
        theirs.tell(key, "networks learn without weight decay here")
    return OMIT


@conversion
def pairs(theirs: Theirs, key: str, value: Any) -> int:
    """Pairs of perturbations: half the episodes, as each is tried with both signs."""
    return max(round(float(value) / 2), 1)


@conversion
def top_pairs(theirs: Theirs, key: str, value: Any) -> Any:
    """Pairs used in an update of ARS, the share `rollouts_used / num_rollouts` of all."""
    used = min(value / theirs.get("num_rollouts"), 1.0)
    return None if used == 1.0 else max(round(used * pairs(theirs, key, theirs.get("num_rollouts"))), 1)


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


def _only(allowed: tuple[Any, ...], text: str, harm: Harm) -> Conversion:
    def check(theirs: Theirs, key: str, value: Any) -> Any:
        if value not in allowed:
            theirs.tell(key, text, harm)
        return OMIT

    return check


CONVERSIONS["only_sampler"] = _only(
    ("sampler", None),
    "recorded experience of RLlib is not read; `rlrun dataset convert` makes a data set",
    Harm.LEARNING,
)
CONVERSIONS["only_true"] = _only((True, 1), "values are always corrected by V-trace here", Harm.LEARNING)
CONVERSIONS["only_false"] = _only((False, None), "there is nothing like it here", Harm.LEARNING)
CONVERSIONS["only_empty_offset"] = _only((0, None), "perturbations are drawn from seeds here", Harm.NONE)
CONVERSIONS["only_gae"] = _only(
    (True, 1), "advantages are always GAE's; with gae_lambda 1 returns minus values", Harm.SLIGHT
)
CONVERSIONS["only_exploring"] = _only((True, None), "training explores", Harm.LEARNING)
CONVERSIONS["only_adam"] = _only(("adam", None), "the optimizer is Adam here", Harm.SLIGHT)
CONVERSIONS["only_truncated"] = _only(
    ("truncate_episodes",), "fragments end within episodes too, with bootstrapped values", Harm.SLIGHT
)
CONVERSIONS["only_100"] = _only((100,), "returns are means over the last 100 episodes here", Harm.SLIGHT)
CONVERSIONS["nothing"] = lambda theirs, key, value: OMIT


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
