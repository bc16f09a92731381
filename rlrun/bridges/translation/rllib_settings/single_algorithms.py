"""Conversions of settings that one algorithm or two have: AlphaZero, bandits, Dreamer, ES and ARS, MAML, QMIX, MADDPG.

A worker of RLlib is a task of MAML. MBMPO samples real steps in the trial's process there, and its workers imagine.
RLlib's Dreamer is the first one, and rlrun's DreamerV3.
"""

from __future__ import annotations

from typing import Any

from rlrun.bridges.translation.foreign_settings import OMIT, Conversions, ForeignSettings, only
from rlrun.bridges.translation.meanings import Impact
from rlrun.bridges.translation.rllib_settings.units import longest_episode, round_off, steps_of_round

conversion = Conversions()
"""Conversions by name, and the decorator that adds one."""

ALL_MOVES = 1_000_000
"""Number of moves of a game that none exceeds."""


@conversion
def search(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Tree search settings; RLlib raises visits to the power of the temperature, rlrun to its inverse."""
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
    foreign.tell(key, "noise is added at the root of a search here, at all of its positions there")
    return OMIT


@conversion
def ranked_returns(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Ranked rewards settings; the threshold is a percentile of the newest returns."""
    own = foreign.section("ranked_rewards")
    if not own["enable"]:
        return None
    return {"percentile": float(own["percentile"]), "newest": int(own["buffer_max_length"])}


@conversion
def minibatches_of_games(foreign: ForeignSettings, key: str, value: Any) -> float:
    """Minibatches per env step, from RLlib's number of passes over a batch after each round of fragments."""
    passes, size = int(foreign.get("num_sgd_iter")), int(foreign.get("sgd_minibatch_size"))
    return round_off(passes * int(value) / min(size, int(value)) / steps_of_round(foreign))


@conversion
def network_of_games(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Networks of RLlib for AlphaZero; `DenseModel` has no activation and so is a linear map."""
    if str(value).rpartition(".")[2] != "DenseModel":
        foreign.tell(key, "name a network of one's own as model.module", Impact.LEARNING)
        return OMIT
    foreign.tell(key, "the layers of DenseModel, which have no activation, are left out: they are one linear map")
    return []


@conversion
def posterior_scale(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Scale of the posterior in Thompson sampling, which equals that of RLlib's covariance."""
    kind = str((value or {}).get("type")).rpartition(".")[2]
    if kind != "ThompsonSampling":
        foreign.tell(key, f"{foreign.algorithm} does not explore by {kind} here", Impact.LEARNING)
        return OMIT
    return 1.0


conversion["only_whole_covariance"] = only((1, None), "covariances do not shrink further here", Impact.LEARNING)


EPISODES = 1000
"""Newest episodes that are kept there, without a setting."""


@conversion
def world_model_rate(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Learning rate of the world model, with a remark on the different Dreamer version."""
    foreign.tell(key, "DreamerV3 here, the first Dreamer there: latent states are categorical, and returns are scaled")
    return value


@conversion
def minibatches_of_episode(foreign: ForeignSettings, key: str, value: Any) -> float:
    """Minibatches per env step; RLlib runs the minibatches after each episode."""
    steps = longest_episode(foreign)
    foreign.put("config.replay.capacity", EPISODES * steps, key)
    foreign.tell(key, f"minibatches follow env steps here; there {value} follow each episode, taken as {steps:,} steps")
    return round_off(int(value) / steps)


@conversion
def sizes(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Sizes of the networks; the latent state of DreamerV3 has a different structure."""
    own = foreign.section("dreamer_model")
    foreign.put("config.model.recurrent_width", own["deter_size"], key)
    foreign.put("config.model.conv_depth", own["depth_size"], key)
    foreign.put("config.model.hiddens", [own["hidden_size"]] * 3, key)
    return OMIT


@conversion
def noise_of_actor(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Noise added to the actor's actions."""
    if key in foreign.written and value:
        foreign.tell(key, "actions are drawn from the actor here, without further noise")
    return OMIT


@conversion
def pairs(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Number of mirrored pairs of perturbations: half the episodes, as each perturbation is tried with both signs."""
    return max(round(float(value) / 2), 1)


@conversion
def top_pairs(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Number of pairs used in an ARS update: the share `rollouts_used / num_rollouts` of all pairs."""
    used = min(value / foreign.get("num_rollouts"), 1.0)
    return None if used == 1.0 else max(round(used * pairs(foreign, key, foreign.get("num_rollouts"))), 1)


conversion["only_empty_offset"] = only((0, None), "perturbations are drawn from seeds here", Impact.NONE)


KEPT = 10_000
"""Real transitions that MBMPO's ensemble is fitted to, the newest ones; it has no setting there."""


@conversion
def tasks(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Number of tasks in a MAML update: one per worker in RLlib."""
    foreign.put("config.num_workers", int(value), key)
    return max(int(value), 1)


@conversion
def whole_episodes(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Maximum episode length; RLlib's fragments are complete episodes."""
    steps = longest_episode(foreign)
    if foreign.algorithm == "MAML" and foreign.horizon is None:
        foreign.tell(key, f"episodes are cut off after {steps} steps here; there they end by themselves")
    return steps


@conversion
def workers_on_models(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Number of MBMPO's workers, which in RLlib imagine episodes in the ensemble's networks."""
    members = int(foreign.section("dynamics_model")["ensemble_size"])
    if value != members:
        foreign.tell(key, f"each of {members} networks is one task here; there {value} workers share them as tasks")
    return OMIT


@conversion
def imagined_episodes(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Number of MBMPO's envs: imagined episodes per task, and real envs, which are stepped between two fits."""
    foreign.put("config.num_envs_per_worker", int(value), key)
    foreign.put("config.dynamics.fit_interval", max(int(value) * longest_episode(foreign), 20), key)
    foreign.put("config.imagined_length", longest_episode(foreign), key)
    return int(value)


@conversion
def ensemble(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """MBMPO's ensemble: networks, number of fits, and the transitions to fit."""
    own = foreign.section("dynamics_model")
    settings = {
        "dynamics.num_members": own["ensemble_size"], "dynamics.num_elites": own["ensemble_size"],
        "dynamics.hiddens": own["fcnet_hiddens"], "dynamics.max_epochs": own["train_epochs"],
        "dynamics.minibatch_size": own["batch_size"], "dynamics.holdout_ratio": own["valid_split_ratio"],
        "dynamics_lr": own["lr"], "replay.capacity": KEPT,
    }  # fmt: skip
    for name, setting in settings.items():
        foreign.put(f"config.{name}", setting, key)
    foreign.tell(key, "rewards are predicted here; there the env's reward() gives them: name it as dynamics.reward")
    return OMIT


@conversion
def value_network_settings(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Settings of the value network, which rlrun replaces by a linear baseline fitted to each phase."""
    if key in foreign.written:
        foreign.tell(key, "the baseline is linear and fitted to each phase here; there it is a value network")
    return OMIT


@conversion
def mixer(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Mixer of RLlib's QMIX, which selects the algorithm in rlrun: qmix or vdn."""
    if value not in ("qmix", "vdn"):
        text = "without a mixer each agent learns alone: that is dqn with one policy for all agents here"
        foreign.tell(key, text, Impact.LEARNING)
    return OMIT


def mixing(ours: str, mixer_name: Any) -> str:
    """Algorithm in rlrun that corresponds to an algorithm and mixer of RLlib.

    Examples:
        >>> mixing("qmix", "vdn"), mixing("qmix", "qmix"), mixing("ppo", None)
        ('vdn', 'qmix', 'ppo')
    """
    return "vdn" if ours == "qmix" and mixer_name == "vdn" else ours


@conversion
def gru_of_team(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Network of QMIX agents: a dense layer with relu, followed by a GRU of the same width."""
    foreign.put("config.model.hiddens", [int(value)], key)
    foreign.put("config.model.core", "gru", key)
    return int(value)


@conversion
def norm_of_each(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Clipping threshold of the gradient norm; RLlib clips each parameter separately."""
    if key in foreign.written:
        foreign.tell(key, "bounds the gradient as a whole here; there that of each weight matrix and bias")
    return value


conversion["only_own_value"] = only(("maddpg",), "critics see what all agents see and do here", Impact.LEARNING)
conversion["only_rmsprop_decay"] = only((0.99,), "RMSProp's decay is 0.99 here", Impact.SLIGHT)
conversion["only_rmsprop_epsilon"] = only((1e-5,), "RMSProp's epsilon is 1e-5 here", Impact.SLIGHT)
