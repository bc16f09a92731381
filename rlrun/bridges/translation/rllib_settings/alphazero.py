"""Conversions of AlphaZero's settings: search and training data."""

from __future__ import annotations

from typing import Any

from rlrun.bridges.translation.foreign_settings import OMIT, ForeignSettings
from rlrun.bridges.translation.remarks import Impact
from rlrun.bridges.translation.rllib_settings.units import round_off, steps_of_round
from rlrun.bridges.translation.settings import Conversions

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
