"""Toy envs, multi-agent worlds, games and scripted players, for tests, examples and specs.

Specs refer to them by names such as `rlrun.toys:DeepSea`. Names are imported at first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlrun.toys.bandits import BernoulliBandit as BernoulliBandit
    from rlrun.toys.bandits import LinearBandit as LinearBandit
    from rlrun.toys.bandits import WheelBandit as WheelBandit
    from rlrun.toys.bandits import two_arms as two_arms
    from rlrun.toys.board_games import ConnectFour as ConnectFour
    from rlrun.toys.board_games import Hex as Hex
    from rlrun.toys.board_games import TicTacToe as TicTacToe
    from rlrun.toys.cartpoles import CartPoleArrays as CartPoleArrays
    from rlrun.toys.cartpoles import CartPoles as CartPoles
    from rlrun.toys.foraging import Foraging as Foraging
    from rlrun.toys.goal_envs import BitFlip as BitFlip
    from rlrun.toys.goal_envs import PointGoals as PointGoals
    from rlrun.toys.goal_envs import Reach as Reach
    from rlrun.toys.goal_envs import goal as goal
    from rlrun.toys.interest_evolution import InterestEvolution as InterestEvolution
    from rlrun.toys.interest_evolution import clicked_slate as clicked_slate
    from rlrun.toys.interest_evolution import exact_slate as exact_slate
    from rlrun.toys.known_optimum import ActionReward as ActionReward
    from rlrun.toys.known_optimum import AsymmetricBox as AsymmetricBox
    from rlrun.toys.known_optimum import ConstantReward as ConstantReward
    from rlrun.toys.known_optimum import Crashing as Crashing
    from rlrun.toys.known_optimum import CueRecall as CueRecall
    from rlrun.toys.known_optimum import DictCartPole as DictCartPole
    from rlrun.toys.known_optimum import DoubleIntegrator as DoubleIntegrator
    from rlrun.toys.known_optimum import Hanging as Hanging
    from rlrun.toys.known_optimum import MultiBinaryMatch as MultiBinaryMatch
    from rlrun.toys.known_optimum import MultiDiscreteMatch as MultiDiscreteMatch
    from rlrun.toys.known_optimum import NestedTuple as NestedTuple
    from rlrun.toys.known_optimum import ObservationReward as ObservationReward
    from rlrun.toys.known_optimum import RepeatAfterMe as RepeatAfterMe
    from rlrun.toys.known_optimum import TwoStepCredit as TwoStepCredit
    from rlrun.toys.masked_envs import MaskedConsole as MaskedConsole
    from rlrun.toys.masked_envs import MaskedGrid as MaskedGrid
    from rlrun.toys.masked_envs import MaskedMatch as MaskedMatch
    from rlrun.toys.matrix_games import MatrixGame as MatrixGame
    from rlrun.toys.matrix_games import TwoStepGame as TwoStepGame
    from rlrun.toys.poker import Kuhn as Kuhn
    from rlrun.toys.poker import Leduc as Leduc
    from rlrun.toys.rich_observations import HighestEntity as HighestEntity
    from rlrun.toys.rich_observations import PendulumImages as PendulumImages
    from rlrun.toys.rich_observations import TwoCameras as TwoCameras
    from rlrun.toys.scripted_players import GreedyForager as GreedyForager
    from rlrun.toys.scripted_players import Minimax as Minimax
    from rlrun.toys.scripted_players import OnePly as OnePly
    from rlrun.toys.scripted_players import RandomLegal as RandomLegal
    from rlrun.toys.scripted_players import TreeSearch as TreeSearch
    from rlrun.toys.scripted_players import TribeForager as TribeForager
    from rlrun.toys.scripted_players import balance_pole as balance_pole
    from rlrun.toys.sparse_rewards import SparseCartPole as SparseCartPole
    from rlrun.toys.sparse_rewards import SparseMountainCar as SparseMountainCar
    from rlrun.toys.stitching_maze import StitchingMaze as StitchingMaze
    from rlrun.toys.tabular_mdps import DeepSea as DeepSea
    from rlrun.toys.tabular_mdps import RandomMDP as RandomMDP
    from rlrun.toys.tabular_mdps import TwoLanes as TwoLanes
    from rlrun.toys.tabular_mdps import random_mdp as random_mdp
    from rlrun.toys.tribes import Tribes as Tribes
    from rlrun.toys.twenty_questions import RandomQuestioner as RandomQuestioner
    from rlrun.toys.twenty_questions import TwentyQuestions as TwentyQuestions

_NAMES = {
    # Envs whose optimum is known exactly.
    "known_optimum": (
        "ConstantReward DictCartPole TwoStepCredit ObservationReward ActionReward CueRecall RepeatAfterMe "
        "MultiDiscreteMatch MultiBinaryMatch AsymmetricBox NestedTuple DoubleIntegrator Crashing Hanging"
    ),
    # Envs of one agent.
    "bandits": "BernoulliBandit two_arms LinearBandit WheelBandit",
    "goal_envs": "BitFlip Reach PointGoals goal",
    "interest_evolution": "InterestEvolution clicked_slate exact_slate",
    "masked_envs": "MaskedGrid MaskedMatch MaskedConsole",
    "rich_observations": "HighestEntity TwoCameras PendulumImages",
    "sparse_rewards": "SparseCartPole SparseMountainCar",
    "stitching_maze": "StitchingMaze",
    "tabular_mdps": "DeepSea TwoLanes RandomMDP random_mdp",
    "twenty_questions": "TwentyQuestions RandomQuestioner",
    # Worlds of many agents and games.
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

if not TYPE_CHECKING:  # so that a type checker reports a name that does not exist

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
