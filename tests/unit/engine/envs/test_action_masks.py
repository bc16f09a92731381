"""Action masks: from an env's info to the observation, and messages about masks that allow nothing."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from rlrun.engine.envs.action_masks import ActionMaskObservation, MaskedVectorEnv, with_action_masks
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import make_env, make_vector_env, spaces_of
from rlrun.engine.envs.vector_env import EnvError, observation_hash
from rlrun.engine.messages.errors import UsageError
from rlrun.toys.known_optimum import AsymmetricBox, ConstantReward
from rlrun.toys.masked_envs import MaskedGrid

GRID = EnvConfig(id="rlrun.toys:MaskedGrid", kwargs={"size": 2})
MATCH = EnvConfig(id="rlrun.toys:MaskedMatch", kwargs={"num_actions": 6, "num_allowed": 2})
FORGETFUL = EnvConfig(id=f"{__name__}:Forgetful")


class Forgetful(gymnasium.Env):
    """Allows nothing from some step on, in one env, or in the second of its two choices."""

    def __init__(
        self, from_step: int, env_index: int, in_env: int = 1, ends: str = "", second_only: bool = False
    ) -> None:
        self.action_space = MultiDiscrete([2, 3]) if second_only else Discrete(5)
        self.observation_space = Dict({"step": Box(0, 99, (1,)), "action_mask": MultiBinary(5)})
        self.from_step = from_step if env_index == in_env else 99
        self.allows = [1, 1, 0, 0, 0] if second_only else [0, 0, 0, 0, 0]
        self.ends = ends
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self.show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        over = self.steps >= self.from_step
        return self.show(), 0.0, over and self.ends == "terminated", over and self.ends == "truncated", {}

    def show(self) -> dict[str, Any]:
        mask = self.allows if self.steps >= self.from_step else [1] * 5
        return {"step": np.array([self.steps], np.float32), "action_mask": np.array(mask, np.int8)}


class TakesNumbers(AsymmetricBox):
    """Offers masks although there is nothing to choose from."""

    def action_masks(self) -> list[bool]:
        return [True, True]


def forgetful(num_envs: int = 3, **kwargs: Any) -> Any:
    config = FORGETFUL.model_copy(update={"kwargs": kwargs})
    return make_vector_env(config, num_envs, EpisodeSeeds(7, worker_index=2))


def test_the_mask_returned_by_action_masks_is_added_to_the_observation() -> None:
    world = make_env(MATCH)
    assert isinstance(world, ActionMaskObservation)
    assert world.observation_space == Dict({"observation": Discrete(6), "action_mask": MultiBinary(6)})
    assert spaces_of(MATCH) == (world.observation_space, Discrete(6))
    seen, _ = world.reset(seed=3)
    for _ in range(9):
        assert world.observation_space.contains(seen)
        np.testing.assert_array_equal(seen["action_mask"], world.get_wrapper_attr("action_masks")())
        assert seen["action_mask"].sum() == 2
        assert seen["action_mask"][seen["observation"]] == 1
        seen, reward, *_ = world.step(seen["observation"])
        assert reward == 1.0


def test_the_action_masks_method_is_found_through_wrappers_and_its_mask_is_added_outermost() -> None:
    wrapper = {"id": "TransformReward", "kwargs": {"func": abs}}
    world = make_env(EnvConfig.model_validate({**MATCH.to_data(), "wrappers": [wrapper]}))
    assert isinstance(world, ActionMaskObservation)
    assert isinstance(world.env, gymnasium.wrappers.TransformReward)
    assert world.reset(seed=0)[0]["action_mask"].sum() == 2


def test_envs_that_have_no_mask_or_already_include_it_in_observations_are_not_wrapped() -> None:
    for env in (MaskedGrid(), ConstantReward()):
        assert with_action_masks(env) is env
    plain = make_vector_env(EnvConfig(id="rlrun.toys:ConstantReward"), 2, EpisodeSeeds(0, 0))
    assert not isinstance(plain, MaskedVectorEnv)
    assert isinstance(make_vector_env(GRID, 2, EpisodeSeeds(0, 0)), MaskedVectorEnv)


def test_action_masks_for_actions_that_are_not_discrete_are_refused(wording) -> None:
    with wording.raised(UsageError, "MultiDiscrete"):
        make_env(EnvConfig(id=f"{__name__}:TakesNumbers"))


def test_a_mask_that_allows_no_action_raises_an_error_that_says_where_it_occurred(wording) -> None:
    world = forgetful(from_step=2)
    world.reset()
    world.step(np.zeros(3, np.int64))
    with pytest.raises(EnvError) as failure:
        world.step(np.zeros(3, np.int64))
    seed = EpisodeSeeds(7, 2).seed(1, 0)
    assert str(failure.value) == wording(__name__, "action_mask")
    assert str(failure.value) == wording(seed)
    assert str(failure.value) == wording()


def test_an_error_is_raised_if_the_first_mask_allows_no_action_or_none_for_one_choice() -> None:
    with pytest.raises(EnvError, match="step 0"):
        forgetful(from_step=0).reset()
    with pytest.raises(EnvError, match="env 1"):
        forgetful(from_step=0, second_only=True).reset()


@pytest.mark.parametrize("ends", ["terminated", "truncated"])
def test_the_mask_of_a_final_observation_may_allow_no_action(ends: str) -> None:
    world = forgetful(from_step=2, ends=ends)
    world.reset()
    masks = [world.step(np.zeros(3, np.int64))[0]["action_mask"][1].copy() for _ in range(5)]
    np.testing.assert_array_equal([mask.any() for mask in masks], [True, False, True, True, False])


def test_masked_envs_can_begin_chosen_episodes_and_restore_their_positions() -> None:
    world, again = (make_vector_env(GRID, 3, EpisodeSeeds(5, 0)) for _ in range(2))
    world.reset()
    observations = {key: part.copy() for key, part in world.begin([0, 2], [4, 4]).items()}
    np.testing.assert_array_equal(observations["position"][0], observations["position"][2])
    places = world.places()
    hashes = [observation_hash({key: part[slot] for key, part in observations.items()}) for slot in range(3)]
    returned, exact = again.restore(places, [np.zeros(0, np.int64)] * 3, hashes, 10.0)
    assert exact == [True] * 3
    np.testing.assert_array_equal(returned["action_mask"], observations["action_mask"])
    world.close()
    again.close()
