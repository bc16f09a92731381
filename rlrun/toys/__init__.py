"""Toy envs, multi-agent envs, games and scripted players, for tests, examples and specs.

Specs refer to them by names such as `rlrun.toys:DeepSea`. Names are imported at first use.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    # Envs with an exactly known optimum.
    "known_optimum": (
        "ConstantReward DictCartPole TwoStepCredit ObservationReward ActionReward CueRecall RepeatAfterMe "
        "MultiDiscreteMatch MultiBinaryMatch AsymmetricBox NestedTuple DoubleIntegrator Crashing Hanging"
    ),
    # Single-agent envs.
    "bandits": "BernoulliBandit two_arms LinearBandit WheelBandit",
    "goal_envs": "BitFlip Reach PointGoals goal",
    "interest_evolution": "InterestEvolution clicked_slate exact_slate",
    "masked_envs": "MaskedGrid MaskedMatch MaskedConsole",
    "rich_observations": "HighestEntity TwoCameras PendulumImages",
    "sparse_rewards": "SparseCartPole SparseMountainCar",
    "stitching_maze": "StitchingMaze",
    "tabular_mdps": "DeepSea TwoLanes RandomMDP random_mdp",
    "tensor_envs": "tensor_cartpole tensor_pendulum",
    "telltale_envs": "Apprenticeship RareJackpot ForcedMoves Cadence DistantSigns",
    "twenty_questions": "TwentyQuestions RandomQuestioner",
    # Multi-agent worlds and games.
    "board_games": "TicTacToe ConnectFour Hex",
    "cartpoles": "CartPoleArrays CartPoles",
    "foraging": "Foraging",
    "matrix_games": "MatrixGame TwoStepGame",
    "poker": "Kuhn Leduc",
    "tribes": "Tribes",
    # Scripted players.
    "scripted_players": "OnePly Minimax TreeSearch RandomLegal balance_pole GreedyForager TribeForager",
}
"""Public names, by the module that defines them."""

_PLACES = {name: f"rlrun.toys.{module}" for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Imports a name at its first use."""
    if name not in _PLACES:
        raise AttributeError(f"module 'rlrun.toys' has no attribute '{name}'")
    found = getattr(importlib.import_module(_PLACES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Lists the public names."""
    return sorted(_PLACES)
