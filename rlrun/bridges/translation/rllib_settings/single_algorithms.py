"""Conversions for settings of just one or two algorithms: AlphaZero, bandits, Dreamer, ES and ARS, MAML, QMIX, MADDPG.

In RLlib, each worker of MAML is one task, and MBMPO's workers imagine episodes while the trial's own process samples
real ones. RLlib's Dreamer is the first version, rlrun's is DreamerV3.
"""

from __future__ import annotations

from typing import Any

from rlrun.bridges.translation.foreign_settings import OMIT, Conversions, ForeignSettings, only
from rlrun.bridges.translation.meanings import Impact
from rlrun.bridges.translation.rllib_settings.units import longest_episode, round_off, steps_of_round

conversion = Conversions()
"""Conversions by name, and the decorator that adds one."""

ALL_MOVES = 1_000_000
"""Upper bound of the number of moves in any game."""


@conversion
def search(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts AlphaZero's `mcts_config`; inverts the temperature, which RLlib uses as an exponent of visit counts."""
    own = foreign.section("mcts_config")
    simulations, temperature = own["num_simulations"], own["temperature"]
    settings = {
        "simulations": simulations, "evaluation_simulations": simulations, "exploration": own["puct_coefficient"],
        "root_noise": own["dirichlet_epsilon"] if own["add_dirichlet_noise"] else 0.0,
        "root_noise_alpha": own["dirichlet_noise"], "temperature": round_off(1 / temperature),
        "exploring_moves": 0 if own["argmax_tree_policy"] else ALL_MOVES, "weight_decay": 0.0,
    }  # fmt: skip
    for name, setting in settings.items():
        foreign.put(f"config.{name}", setting, key)
    foreign.tell(key, "rlrun adds noise only at the root of a search; RLlib added it at all positions")
    return OMIT


@conversion
def ranked_returns(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts AlphaZero's ranked rewards: a game is won if its return reaches a percentile of recent returns."""
    own = foreign.section("ranked_rewards")
    if not own["enable"]:
        return None
    return {"percentile": float(own["percentile"]), "newest": int(own["buffer_max_length"])}


@conversion
def minibatches_of_games(foreign: ForeignSettings, key: str, value: Any) -> float:
    """Converts AlphaZero's passes over a batch to minibatches per env step.

    In RLlib, these passes follow each round of sampling, in which every env of every worker takes the steps of one
    fragment.
    """
    passes, size = int(foreign.get("num_sgd_iter")), int(foreign.get("sgd_minibatch_size"))
    return round_off(passes * int(value) / min(size, int(value)) / steps_of_round(foreign))


@conversion
def network_of_games(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts AlphaZero's `DenseModel`, one linear map, to no hidden layers; adds a remark on other networks."""
    if str(value).rpartition(".")[2] != "DenseModel":
        foreign.tell(key, "set model.module to the custom network", Impact.LEARNING)
        return OMIT
    foreign.tell(
        key,
        "the layers of DenseModel, which have no activation, are left out, because together they are one linear map",
    )
    return []


@conversion
def posterior_scale(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the bandits' Thompson sampling to a posterior scale of 1; adds a remark on other exploration."""
    kind = str((value or {}).get("type")).rpartition(".")[2]
    if kind != "ThompsonSampling":
        foreign.tell(key, f"rlrun's {foreign.algorithm} does not explore with {kind}", Impact.LEARNING)
        return OMIT
    return 1.0


conversion["only_whole_covariance"] = only((1, None), "rlrun does not scale the covariances", Impact.LEARNING)


EPISODES = 1000
"""Number of newest episodes that RLlib's Dreamer keeps, a constant in its code."""


@conversion
def world_model_rate(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the learning rate of Dreamer's world model, with a remark on the different Dreamer version."""
    foreign.tell(
        key,
        "rlrun implements DreamerV3, RLlib the first Dreamer: latent states are categorical, and returns are scaled",
    )
    return value


@conversion
def minibatches_of_episode(foreign: ForeignSettings, key: str, value: Any) -> float:
    """Converts Dreamer's number of minibatches after each episode to minibatches per env step."""
    steps = longest_episode(foreign)
    foreign.put("config.replay.capacity", EPISODES * steps, key)
    foreign.tell(
        key,
        f"rlrun trains after env steps; RLlib trained {value} minibatches after each episode, assumed to have "
        f"{steps:,} steps",
    )
    return round_off(int(value) / steps)


@conversion
def sizes(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the network sizes in RLlib's `dreamer_model`."""
    own = foreign.section("dreamer_model")
    foreign.put("config.model.recurrent_width", own["deter_size"], key)
    foreign.put("config.model.conv_depth", own["depth_size"], key)
    foreign.put("config.model.hiddens", [own["hidden_size"]] * 3, key)
    return OMIT


@conversion
def noise_of_actor(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Omits noise on the actions of Dreamer's actor, which rlrun does not support, and adds a remark."""
    if key in foreign.written and value:
        foreign.tell(key, "rlrun samples actions from the actor, without additional noise")
    return OMIT


@conversion
def pairs(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Converts the episodes per update of ES and ARS to pairs of perturbations with opposite signs: half as many."""
    return max(round(float(value) / 2), 1)


@conversion
def top_pairs(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts ARS's `rollouts_used` to the number of best pairs that enter an update; null for all."""
    used = min(value / foreign.get("num_rollouts"), 1.0)
    return None if used == 1.0 else max(round(used * pairs(foreign, key, foreign.get("num_rollouts"))), 1)


conversion["only_empty_offset"] = only((0, None), "rlrun generates perturbations from seeds", Impact.NONE)


KEPT = 10_000
"""Number of newest real transitions to which RLlib fits MBMPO's ensemble, a constant in its code."""


@conversion
def tasks(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Converts the number of workers to the number of tasks in a MAML update, since RLlib has one task per worker."""
    foreign.put("config.num_workers", int(value), key)
    return max(int(value), 1)


@conversion
def whole_episodes(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Converts the fragment length of MAML and MBMPO, whose fragments are whole episodes, to an episode limit."""
    steps = longest_episode(foreign)
    if foreign.algorithm == "MAML" and foreign.horizon is None:
        foreign.tell(key, f"rlrun truncates episodes after {steps} steps; RLlib had no limit")
    return steps


@conversion
def workers_on_models(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Omits MBMPO's number of workers: RLlib has a task per worker, rlrun one per network of the ensemble."""
    members = int(foreign.section("dynamics_model")["ensemble_size"])
    if value != members:
        foreign.tell(
            key, f"in rlrun, each of the {members} networks is one task; RLlib distributed them over {value} workers"
        )
    return OMIT


@conversion
def imagined_episodes(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Converts MBMPO's envs per worker, which also give the imagined episodes per task and the steps between fits."""
    foreign.put("config.num_envs_per_worker", int(value), key)
    foreign.put("config.dynamics.fit_interval", max(int(value) * longest_episode(foreign), 20), key)
    foreign.put("config.imagined_length", longest_episode(foreign), key)
    return int(value)


@conversion
def ensemble(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts RLlib's `dynamics_model`: networks and training of MBMPO's ensemble."""
    own = foreign.section("dynamics_model")
    settings = {
        "dynamics.num_members": own["ensemble_size"], "dynamics.num_elites": own["ensemble_size"],
        "dynamics.hiddens": own["fcnet_hiddens"], "dynamics.max_epochs": own["train_epochs"],
        "dynamics.minibatch_size": own["batch_size"], "dynamics.holdout_ratio": own["valid_split_ratio"],
        "dynamics_lr": own["lr"], "replay.capacity": KEPT,
    }  # fmt: skip
    for name, setting in settings.items():
        foreign.put(f"config.{name}", setting, key)
    foreign.tell(key, "rlrun predicts rewards; RLlib used the env's reward(): name it as dynamics.reward")
    return OMIT


@conversion
def value_network_settings(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Omits settings of MAML's and MBMPO's value network: rlrun fits a linear baseline instead."""
    if key in foreign.written:
        foreign.tell(key, "rlrun's baseline is linear and fitted in each phase; RLlib's was a value network")
    return OMIT


@conversion
def mixer(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Omits QMIX's `mixer`, which `mixing` has converted to an algorithm; adds a remark if it is not qmix or vdn."""
    if value not in ("qmix", "vdn"):
        text = "without a mixer, each agent learns alone; use dqn with one policy for all agents"
        foreign.tell(key, text, Impact.LEARNING)
    return OMIT


def mixing(ours: str, mixer_name: Any) -> str:
    """Chooses rlrun's algorithm for RLlib's QMIX by its setting `mixer`: vdn for `vdn`, else the given name `ours`.

    Examples:
        >>> mixing("qmix", "vdn"), mixing("qmix", "qmix"), mixing("ppo", None)
        ('vdn', 'qmix', 'ppo')
    """
    return "vdn" if ours == "qmix" and mixer_name == "vdn" else ours


@conversion
def gru_of_team(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Converts the width of QMIX's agent networks: a dense layer with relu, followed by a GRU of the same width."""
    foreign.put("config.model.hiddens", [int(value)], key)
    foreign.put("config.model.core", "gru", key)
    return int(value)


@conversion
def norm_of_each(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts MADDPG's gradient clipping threshold, with a remark that RLlib clips each parameter separately."""
    if key in foreign.written:
        foreign.tell(
            key, "rlrun clips the norm of the whole gradient; RLlib clipped each weight matrix and bias separately"
        )
    return value


conversion["only_own_value"] = only(
    ("maddpg",), "rlrun's critics see the observations and actions of all agents", Impact.LEARNING
)
conversion["only_rmsprop_decay"] = only((0.99,), "rlrun uses 0.99 as RMSProp's decay", Impact.SLIGHT)
conversion["only_rmsprop_epsilon"] = only((1e-5,), "rlrun uses 1e-5 as RMSProp's epsilon", Impact.SLIGHT)
