"""Third-party vector envs: what their infos say about an env slot, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from gymnasium.vector import AutoresetMode

from rlrun.engine.envs.action_masks import MaskedVectorEnv
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.gymnasium_vector_env import slot_info
from rlrun.engine.envs.make import make_vector_env, spaces_of
from rlrun.engine.envs.vector_env import EnvError, VectorEnv
from rlrun.engine.messages.errors import EnvironmentUnusable

SEEDS = EpisodeSeeds(0, worker_index=1)
ENV_ID = "rlrun-tests/Native-v0"


class Native(gymnasium.vector.VectorEnv[Any, Any, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Ends env slot 1 at every third step and breaks the rule in the next row: it has a reward and infos there."""

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012
    shape = (2,)
    choice: float = 0
    shown_envs = rewarded = 2

    def __init__(self, num_envs: int, max_episode_steps: int = 0) -> None:
        self.num_envs = num_envs
        self.single_observation_space = Dict(a=Box(-1.0, 1.0, (2,)), b=Discrete(3))
        self.single_action_space = Discrete(2)
        self.seeds: list[int] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.elapsed = 0
        self.seeds.append(seed or 0)
        return self.observations(), {}

    def step(self, actions: Any) -> Any:
        self.elapsed += 1
        ended = np.array([False, self.elapsed % 3 == 0])
        infos = {
            "score": np.array([5.0, 6.0]),
            "_score": np.array([False, True]),
            "episode": {"r": np.array([1.0, 2.0]), "_r": np.array([False, True])},
            "_episode": np.array([False, True]),
        }
        return self.observations(), np.ones(self.rewarded, np.float32), ended, np.zeros(2, bool), infos

    def observations(self) -> Any:
        return {"a": np.zeros((self.shown_envs, *self.shape)), "b": [self.choice] * self.num_envs}


class SameStep(Native):
    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012


class Undeclared(Native):
    metadata: dict[str, Any] = {}  # noqa: RUF012


class WrongShape(Native):
    shape = (3,)


class NoNumber(Native):
    """Gives env slot 1 a reward that is not a number in its second step."""

    def step(self, actions: Any) -> Any:
        observations, rewards, *others = super().step(actions)
        rewards[1] = float("nan") if self.elapsed == 2 else 1.0
        return observations, rewards, *others


class Other(Native):
    """Replaces one part of its second step by something else."""

    def __init__(self, num_envs: int, part: int, value: Any) -> None:
        super().__init__(num_envs)
        self.part, self.value = part, value

    def step(self, actions: Any) -> Any:
        result = list(super().step(actions))
        if self.elapsed == 2:
            result[self.part] = self.value
        return tuple(result)


class Masked(Native):
    """Forbids one action at a time in each env slot, in turn."""

    def action_masks(self) -> list[list[bool]]:
        return [[(self.elapsed + slot) % 2 == action for action in range(2)] for slot in range(self.num_envs)]


class Raising(Native):
    def step(self, actions: Any) -> Any:
        raise RuntimeError("the simulator is gone")


@pytest.fixture
def registered(request: pytest.FixtureRequest) -> Iterator[VectorEnv]:
    """Makes the vector env that a test names, with two env slots."""
    gymnasium.register(ENV_ID, vector_entry_point=request.param)
    try:
        yield make_vector_env(EnvConfig(id=ENV_ID), 2, SEEDS)
    finally:
        del gymnasium.registry[ENV_ID]


@pytest.mark.parametrize("registered", [Native], indirect=True)
def test_next_step_autoreset_is_followed_and_only_the_infos_of_last_steps_are_returned(registered: VectorEnv) -> None:
    observations = registered.reset()
    assert (observations["a"].dtype, observations["b"].dtype) == (np.float32, np.int64)
    steps = [registered.step(np.array([0, 1])) for _ in range(5)]
    assert [step[1].tolist() for step in steps] == [[1.0, 1.0]] * 3 + [[1.0, 0.0], [1.0, 1.0]]
    assert [step[2].tolist() for step in steps] == [[False, step == 2] for step in range(5)]
    last = {1: {"score": 6.0, "episode": {"r": 2.0}}}
    assert [step[4] for step in steps] == [{}, {}, last, {}, {}]
    assert [place.length for place in registered.places()] == [5, 1]


@pytest.mark.parametrize("made", [SameStep, Undeclared])
def test_autoreset_modes_other_than_next_step_are_refused(made: type[Native], wording) -> None:
    gymnasium.register(ENV_ID, vector_entry_point=made)
    with wording.raised(EnvironmentUnusable):
        make_vector_env(EnvConfig(id=ENV_ID), 2, SEEDS)
    del gymnasium.registry[ENV_ID]


@pytest.mark.parametrize("registered", [Masked], indirect=True)
def test_masks_from_the_action_masks_method_are_added_to_the_observations(registered: VectorEnv) -> None:
    assert isinstance(registered, MaskedVectorEnv)
    assert registered.observation_space["action_mask"] == MultiBinary(2)
    assert spaces_of(EnvConfig(id=ENV_ID)).observation == registered.observation_space
    shown = [registered.reset(), registered.step(np.array([0, 1]))[0]]
    assert [seen["action_mask"].tolist() for seen in shown] == [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    assert shown[0]["observation"].keys() == {"a", "b"}


@pytest.mark.parametrize("registered", [WrongShape], indirect=True)
def test_observations_whose_shape_differs_from_their_space_are_refused(registered: VectorEnv, wording) -> None:
    with wording.raised(EnvError):
        registered.reset()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"shape": (1,)}, r"observations at 'a' have shape \(2, 1\), but their space has \(2, 2\)"),
        ({"shown_envs": 1}, r"observations at 'a' have shape \(1, 2\), but their space has \(2, 2\)"),
        ({"choice": 0.5}, "observations at 'b' have dtype float64, but their space has int64"),
        ({"observations": dict}, "the observations must be a dict of arrays: a, b"),
        ({"rewarded": 1}, r"rewards must have shape \(2,\), not \(1,\)"),
    ],
)
@pytest.mark.parametrize("registered", [Native], indirect=True)
def test_results_whose_structure_changes_at_a_later_step_are_refused(
    registered: VectorEnv, change: dict[str, Any], said: str
) -> None:
    registered.reset()
    registered.step(np.array([0, 1]))
    vars(registered._env).update(change)  # type: ignore[attr-defined]
    with pytest.raises(
        EnvError, match=r"returned an invalid result from step\(\) \(worker 1, env 0, .*, step \d\): .*" + said
    ):
        registered.step(np.array([0, 1]))


@pytest.mark.parametrize("registered", [NoNumber], indirect=True)
def test_a_nan_reward_is_refused_with_its_slot_episode_and_step(registered: VectorEnv) -> None:
    registered.reset()
    registered.step(np.array([0, 1]))
    seed = SEEDS.seed(1, 0)
    told = rf"\(worker 1, env 1, episode 0 with seed {seed}, step 2\): the reward must be a finite number, not nan"
    with pytest.raises(EnvError, match=told):
        registered.step(np.array([0, 1]))


@pytest.mark.parametrize("registered", [Raising], indirect=True)
def test_an_error_in_the_native_vector_env_is_shown_with_its_traceback(registered: VectorEnv) -> None:
    registered.reset()
    places = "; ".join(f"env {slot}, episode 0 with seed {SEEDS.seed(slot, 0)}, step 1" for slot in range(2))
    with pytest.raises(
        EnvError, match=rf"raised an exception in step\(\) \(worker 1, {places}\):\n(.|\n)*simulator is gone"
    ):
        registered.step(np.array([0, 1]))


@pytest.mark.parametrize("registered", [Native], indirect=True)
def test_actions_outside_the_space_are_refused(registered: VectorEnv, wording) -> None:
    registered.reset()
    with wording.raised(EnvError):
        registered.step(np.array([0, 2]))


def test_an_info_without_a_mask_applies_to_every_slot() -> None:
    infos = {
        "lives": np.array([3, 4]),
        "env_id": np.array([0, 1]),
        "deep": {"x": np.array([1, 2]), "_x": [True, False]},
    }
    assert slot_info(infos, 0) == {"lives": 3, "deep": {"x": 1}}
    assert slot_info(infos, 1) == {"lives": 4}


def test_the_keys_of_an_info_need_not_be_strings() -> None:
    assert slot_info({3: np.array([1.0, 2.0])}, 1) == {3: 2.0}


def other(part: int, value: Any) -> VectorEnv:
    gymnasium.register(ENV_ID, vector_entry_point=Other)
    try:
        env = make_vector_env(EnvConfig(id=ENV_ID, kwargs={"part": part, "value": value}), 2, SEEDS)
    finally:
        del gymnasium.registry[ENV_ID]
    env.reset()
    env.step(np.array([0, 1]))
    return env


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        (1, ["1", "2"], "rewards must be numbers, not <U1"),
        (1, [None, 1.0], "rewards must be numbers, not object"),
        (2, ["yes", "no"], "terminateds must be True or False, not <U3"),
        (3, np.array([np.nan, 0.0]), "truncateds must be True or False, not float64"),
    ],
)
def test_rewards_and_end_flags_of_the_wrong_type_are_refused(part: int, value: Any, said: str, wording) -> None:
    with wording.raised(EnvError, said):
        other(part, value).step(np.array([0, 1]))


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_finite_rewards_whose_sum_overflows_are_accepted() -> None:
    assert other(1, [1e308, 1e308]).step(np.array([0, 1]))[1].tolist() == [1e308, 1e308]
