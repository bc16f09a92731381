"""Single-agent envs whose state can be set are worlds that can be searched."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlrun.engine.messages.errors import EnvironmentUnusable
from rlrun.engine.worlds.games.searched_env import AGENT, SearchedEnv
from rlrun.toys.sparse_rewards import SparseCartPole

POLE = "rlrun.toys:SparseCartPole"


def test_the_world_of_a_searched_env_and_its_array_game_go_through_the_same_episode() -> None:
    world = SearchedEnv(POLE)
    game = pickle.loads(pickle.dumps(world.array_game()))  # pickled, as it is when sent to workers
    seen, states = world.reset(7)[AGENT], game.first(1, 7)
    generator = np.random.default_rng(0)
    while True:
        assert (game.observe(states)[0] == seen).all()
        action = int(generator.integers(2))
        step, states = world.step({AGENT: action}), game.play(states, np.array([action]))
        seen = step.observations[AGENT]
        ended, returned = game.results(states)
        assert bool(ended[0]) == step.ended
        if step.ended:
            assert returned[0] == step.rewards[AGENT] > 5
            return


class Gliding(SparseCartPole):
    """Goes wherever it wants after some steps."""

    def step(self, action: int) -> Any:
        if self._elapsed == 3:
            self.state = self.np_random.uniform(-0.1, 0.1, 4)
        return super().step(action)


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ("gymnasium.envs.classic_control.cartpole:CartPoleEnv", "it has no get_state, set_state, state_of"),
        (f"{__name__}:Gliding", "after 4 equal actions, a clone and its original differ:"),
    ],
)
def test_envs_that_do_not_support_tree_search_are_refused_with_the_reason(env: str, said: str) -> None:
    with pytest.raises(EnvironmentUnusable, match=f"env {env} does not support tree search: {said}"):
        SearchedEnv(env).array_game()


def test_an_env_without_discrete_actions_is_refused(wording) -> None:
    with wording.raised(EnvironmentUnusable):
        SearchedEnv(f"{__name__}:Pushes")


class Pushes(SparseCartPole):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
