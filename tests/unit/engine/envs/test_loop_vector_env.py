"""How the loop backend handles envs that go wrong, and what it does for envs that do not."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Tuple

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.loop_vector_env import LoopVectorEnv
from rlrun.engine.envs.make import make_vector_env
from rlrun.engine.envs.vector_env import EnvError, observation_hash
from rlrun.engine.messages.errors import TrainingFailed

SEEDS = EpisodeSeeds(0, worker_index=4)


class Scripted(gymnasium.Env[Any, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Returns what it is told: one value per step, its own defaults elsewhere."""

    observation_space: gymnasium.Space[Any] = Box(-1.0, 1.0, (2,))
    action_space: gymnasium.Space[Any] = Discrete(2)

    def __init__(self, *, on_reset: Any = None, on_step: Any = None, from_step: int = 1, **spaces: Any) -> None:
        self.on_reset = on_reset
        self.on_step = on_step
        self.from_step = from_step
        self.elapsed = 0
        self.actions: list[Any] = []
        self.observation_space = spaces.get("observation_space", self.observation_space)
        self.action_space = spaces.get("action_space", self.action_space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.elapsed = 0
        return (np.zeros(2, np.float32), {}) if self.on_reset is None else self.on_reset

    def step(self, action: Any) -> Any:
        self.elapsed += 1
        self.actions.append(action)
        if self.on_step is None or self.elapsed < self.from_step:
            return np.zeros(2, np.float32), 0.0, False, False, {}
        return self.on_step


def looped(*envs: gymnasium.Env[Any, Any]) -> LoopVectorEnv:
    return LoopVectorEnv("my_lab:make", envs, SEEDS)


def refusal(env: gymnasium.Env[Any, Any], actions: Any = (1, 1), steps: int = 1) -> str:
    """Returns the message about an env in the second of two env slots."""
    vector = looped(Scripted(observation_space=env.observation_space, on_reset=env.reset()), env)
    vector.reset()
    for _ in range(steps - 1):
        vector.step(np.array(actions))
    with pytest.raises(EnvError) as raised:
        vector.step(np.array(actions))
    assert "worker 4, env 1, episode 0 with seed " + str(SEEDS.seed(1, 0)) in str(raised.value)
    return str(raised.value)


GOOD = np.zeros(2, np.float32)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ((GOOD, 0.0, False, {}), "it must return (observation, reward, terminated, truncated, info), not a tuple of 4"),
        ("abcde", "it must return (observation, reward, terminated, truncated, info), not a str"),
        ((np.zeros(3), 0.0, False, False, {}), "the observation has shape (3,), but its space has (2,)"),
        ((np.array([np.nan, 0.0]), 0.0, False, False, {}), "the observation contains NaN"),
        ((None, 0.0, False, False, {}), "the observation must be an array of shape (2,), not NoneType None"),
        ((GOOD, None, False, False, {}), "the reward must be a number, not None"),
        ((GOOD, np.zeros(1), False, False, {}), "the reward must be a number, not array([0.])"),
        ((GOOD, "1", False, False, {}), "the reward must be a number, not '1'"),
        ((GOOD, float("nan"), False, False, {}), "the reward must be a finite number, not nan"),
        ((GOOD, float("inf"), False, False, {}), "the reward must be a finite number, not inf"),
        ((GOOD, 0.0, None, False, {}), "terminated must be True or False, not None"),
        ((GOOD, 0.0, False, 0, {}), "truncated must be True or False, not 0"),
        ((GOOD, 0.0, False, False, None), "the info must be a dict, not NoneType"),
    ],
)
def test_the_first_step_refuses_every_kind_of_invalid_result(returned: Any, said: str) -> None:
    assert said in refusal(Scripted(on_step=returned))


@pytest.mark.parametrize("reward", [float("nan"), float("-inf")])
def test_later_rewards_that_are_not_finite_are_refused(reward: float, wording) -> None:
    said = refusal(Scripted(on_step=(GOOD, reward, False, False, {}), from_step=5), steps=5)
    assert said == wording(reward)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ((GOOD, "1.5", False, False, {}), "the reward must be a number, not '1.5'"),
        ((GOOD, None, False, False, {}), "the reward must be a number, not None"),
        ((GOOD, 0.0, "yes", False, {}), "terminated must be True or False, not 'yes'"),
        ((GOOD, 0.0, float("nan"), False, {}), "terminated must be True or False, not nan"),
        ((GOOD, 0.0, True, "no", {}), "truncated must be True or False, not 'no'"),
        ((GOOD, 0.0, np.array([True, False]), False, {}), "terminated must be True or False, not array"),
        ((GOOD, 0.0, False, {}), "it must return (observation, reward, terminated, truncated, info), not a tuple of 4"),
    ],
)
def test_rewards_and_end_flags_of_the_wrong_type_are_refused_in_later_steps(returned: Any, said: str) -> None:
    assert f"step 5): {said}" in refusal(Scripted(on_step=returned, from_step=5), steps=5)


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_finite_rewards_whose_sum_overflows_are_accepted() -> None:
    vector = looped(*(Scripted(on_step=(GOOD, 1e308, False, False, {})) for _ in range(2)))
    vector.reset()
    for _ in range(2):
        assert vector.step(np.array([0, 0]))[1].tolist() == [1e308, 1e308]


@pytest.mark.parametrize(
    ("space", "observation", "said"),
    [
        (Discrete(4), 4, "the observation contains 4, which is outside Discrete(4)"),
        (Discrete(4), 1.0, "the observation has dtype float64, but Discrete(4) needs whole numbers"),
        (Box(0, 255, (2,), np.uint8), np.zeros(2), "has dtype float64, but its space has uint8"),
        (
            Box(0, 255, (2,), np.uint8),
            np.array([0, 256]),
            "the observation contains 256, which is outside Box(0, 255, (2,), uint8)",
        ),
        (Dict(a=Discrete(2)), {"b": 0}, "the observation lacks the key ['a'] of its space"),
        (Dict(a=Discrete(2)), {"a": 0, "b": 0}, "the observation has the key ['b'], which its space lacks"),
        (Dict(a=Discrete(2)), 0, "the observation must be a dict with keys ['a'], not int 0"),
        (Dict(a=Tuple((Discrete(2), Discrete(3)))), {"a": (0, 3)}, "the observation at 'a/1' contains 3"),
        (Tuple((Discrete(2),)), (0, 1), "the observation must be a tuple of length 1, not tuple (0, 1)"),
        (Box(-1.0, 1.0, (2, 2)), [[0.0], [0.0, 0.0]], "the observation is ragged"),
    ],
)
def test_reset_refuses_observations_outside_their_space(space: Any, observation: Any, said: str, wording) -> None:
    vector = looped(Scripted(observation_space=space, on_reset=(observation, {})))
    with wording.raised(EnvError) as raised:
        vector.reset()
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("space", "first", "observation", "said"),
    [
        (Box(-1.0, 1.0, (2,)), GOOD, np.zeros(1), "the observation has shape (1,), but its space has (2,)"),
        (Box(-1.0, 1.0, (2,)), GOOD, 0.5, "the observation has shape (), but its space has (2,)"),
        (Box(0, 9, (2,), np.uint8), np.zeros(2, np.uint8), np.full(2, 0.5), "has dtype float64, but its space has"),
        (Box(0, 9, (2,), np.uint8), np.zeros(2, np.uint8), np.array([0, 300]), "the observation contains 300"),
        (Discrete(4), 0, 1.5, "the observation has dtype float64, but Discrete(4) needs whole numbers"),
    ],
)
def test_later_observations_of_the_wrong_shape_or_type_are_refused_instead_of_broadcast(
    space: Any, first: Any, observation: Any, said: str
) -> None:
    returned = {"on_reset": (first, {}), "on_step": (first, 0.0, False, False, {})}
    env = Scripted(observation_space=space, **returned)
    vector = looped(env)
    vector.reset()
    for _ in range(3):
        vector.step(np.array([0]))
    env.on_step = (observation, 0.0, False, False, {})
    with pytest.raises(EnvError, match=r"step 4\)") as raised:
        vector.step(np.array([0]))
    assert said in str(raised.value)


@pytest.mark.parametrize("observation", [np.array([0.0, 1.5]), [0.25, 0.5], np.array([1, 0])])
def test_observations_that_can_be_cast_or_exceed_their_bounds_are_accepted_unchanged(observation: Any) -> None:
    env = Scripted(on_step=(observation, 0.0, False, False, {}), on_reset=(observation, {}))
    vector = looped(env)
    np.testing.assert_array_equal(vector.reset(), [observation])
    for _ in range(3):
        np.testing.assert_array_equal(vector.step(np.array([0]))[0], [observation])


@pytest.mark.parametrize("where", ["reset", "step"])
def test_a_system_exit_in_an_env_is_reported_as_an_error_of_that_env(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(*arguments: Any, **keywords: Any) -> Any:
        raise SystemExit(0)

    env = Scripted()
    monkeypatch.setattr(env, where, leave)
    vector = looped(env)

    def run() -> None:
        vector.reset()
        vector.step(np.array([0]))

    with pytest.raises(EnvError, match=rf"exception in {where}\(\)") as raised:
        run()
    assert "SystemExit: 0" in str(raised.value)
    assert "raise SystemExit(0)" in str(raised.value)


PARTS: Any = Dict(a=Box(-1.0, 1.0, (2,)), b=Discrete(3))
PAIR: Any = Tuple((Box(-1.0, 1.0, (2,)), Discrete(3)))
OF_PARTS = {"a": np.zeros(2, np.float32), "b": 1}


@pytest.mark.parametrize(
    ("space", "first", "later", "said"),
    [
        (PARTS, OF_PARTS, {"a": OF_PARTS["a"]}, "the observation lacks the key ['b'] of its space"),
        (PARTS, OF_PARTS, {**OF_PARTS, "c": 1}, "the observation has the key ['c'], which its space lacks"),
        (PARTS, OF_PARTS, OF_PARTS["a"], "the observation must be a dict with keys ['a', 'b']"),
        (PARTS, OF_PARTS, {**OF_PARTS, "a": np.zeros(3, np.float32)}, "the observation at 'a' has shape (3,)"),
        (PAIR, (OF_PARTS["a"], 1), (OF_PARTS["a"],), "the observation must be a tuple of length 2"),
        (PAIR, (OF_PARTS["a"], 1), (OF_PARTS["a"], 1, 1), "the observation must be a tuple of length 2"),
        (
            PAIR,
            (OF_PARTS["a"], 1),
            (OF_PARTS["a"], 7),
            "the observation at '1' contains 7, which is outside Discrete(3)",
        ),
    ],
)
def test_a_change_in_the_structure_of_observations_is_reported_with_its_part_and_step(
    space: gymnasium.Space[Any], first: Any, later: Any, said: str, wording
) -> None:
    class Parted(Scripted):
        observation_space = space

        def step(self, action: Any) -> Any:
            self.elapsed += 1
            return (later if self.elapsed == 3 else first), 0.0, False, False, {}

    vector = looped(Parted(on_reset=(first, {})))
    vector.reset()
    for _ in range(2):
        vector.step(np.array([0]))
    with pytest.raises(EnvError) as raised:
        vector.step(np.array([0]))
    place = f"(worker 4, env 0, episode 0 with seed {SEEDS.seed(0, 0)}, step 3)"
    assert str(raised.value) == wording(place, said, "my_lab:make")


def test_an_error_in_one_envs_close_becomes_a_warning_and_the_other_envs_are_still_closed() -> None:
    class Sticky(Scripted):
        closed = 0

        def close(self) -> None:
            Sticky.closed += 1
            raise ValueError("the door is stuck")

    with pytest.warns(UserWarning, match="the door is stuck"):
        looped(Sticky(), Sticky()).close()
    assert Sticky.closed == 2


def test_reset_refuses_an_info_that_is_not_a_dict(wording) -> None:
    with wording.raised(EnvError, "NoneType"):
        looped(Scripted(on_reset=(GOOD, None))).reset()


def test_a_reset_that_returns_no_info_is_refused_as_the_old_interface() -> None:
    with pytest.raises(EnvError, match=r"reset\(\) must return two values: observation, info"):
        looped(Scripted(on_reset=np.zeros(4))).reset()


def test_a_reset_that_takes_no_seed_and_options_is_refused_as_the_old_interface() -> None:
    class Old(Scripted):
        def reset(self) -> Any:  # type: ignore[override]
            return GOOD

    with pytest.raises(EnvError, match=r"reset\(\) must accept the keyword arguments seed and options"):
        looped(Old()).reset()


def test_a_step_of_the_old_interface_is_recognized_even_when_a_wrapper_fails_on_its_result() -> None:
    wrapped = gymnasium.wrappers.TimeLimit(Scripted(on_step=(GOOD, 0.0, False, {})), 10)
    vector = looped(wrapped)
    vector.reset()
    with pytest.raises(EnvError, match=r"step\(\) must return five values: observation, reward, terminated"):
        vector.step(np.array([0]))


def test_floats_of_any_width_are_cast_to_the_dtype_of_the_space() -> None:
    vector = looped(Scripted(on_reset=(np.array([0.1, 0.2]), {}), on_step=([0.3, 0.4], 1, False, False, {})))
    assert vector.reset().dtype == np.float32
    observations, rewards, *_ = vector.step(np.array([0]))
    np.testing.assert_array_equal(observations, np.array([[0.3, 0.4]], np.float32))
    assert rewards.tolist() == [1.0]


def test_an_error_in_a_users_env_is_shown_with_its_traceback_and_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    (tmp_path / "lab_with_a_bug.py").write_text(
        "import gymnasium\n"
        "class World(gymnasium.Env):\n"
        "    observation_space = gymnasium.spaces.Discrete(2)\n"
        "    action_space = gymnasium.spaces.Discrete(2)\n"
        "    def __init__(self, env_index): self.index, self.elapsed = env_index, 0\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        self.elapsed = 0\n"
        "        return 0, {}\n"
        "    def step(self, action):\n"
        "        self.elapsed += 1\n"
        "        return 0, self.pay(), self.elapsed == 3, False, {}\n"
        "    def pay(self):\n"
        "        return 1 / (2 - self.elapsed) if self.index == 1 else 0.0\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    vector = make_vector_env(EnvConfig(id="lab_with_a_bug:World"), 2, SEEDS)
    vector.reset()
    vector.step(np.array([0, 0]))
    with pytest.raises(EnvError) as raised:
        vector.step(np.array([0, 0]))
    message = str(raised.value)
    seed = SEEDS.seed(1, 0)
    assert message.splitlines()[0] == wording(seed, "lab_with_a_bug:World")
    assert "lab_with_a_bug.py" in message
    assert "return 1 / (2 - self.elapsed)" in message
    assert message.splitlines()[-1] == wording("ZeroDivisionError")
    assert "loop_vector_env" not in message
    assert isinstance(raised.value, TrainingFailed)
    assert str(pickle.loads(pickle.dumps(raised.value))) == message


@pytest.mark.parametrize(
    ("space", "actions", "said"),
    [
        (Discrete(2), [0, 2], "actions [0, 2] are outside Discrete(2)"),
        (Discrete(3, start=5), [0, 1], "actions [0, 1] are outside Discrete(3, start=5)"),
        (Discrete(2), [0.0, 1.0], "actions have dtype float64, but Discrete(2) needs whole numbers"),
        (Discrete(2), [[0], [1]], "actions have shape (2, 1), but 2 env slots with Discrete(2) need (2,)"),
        (Box(-1.0, 1.0, (3,)), [[0.0], [0.0]], "actions have shape (2, 1)"),
    ],
)
def test_first_actions_that_do_not_belong_to_the_action_space_are_refused(space: Any, actions: Any, said: str) -> None:
    vector = looped(Scripted(action_space=space), Scripted(action_space=space))
    vector.reset()
    with pytest.raises(EnvError) as raised:
        vector.step(np.array(actions))
    assert said in str(raised.value)


def test_discrete_actions_are_numpy_integers_that_begin_at_the_spaces_start() -> None:
    env = Scripted(action_space=Discrete(3, start=5))
    vector = looped(env)
    vector.reset()
    for action in (5, 7):
        vector.step(np.array([action]))
    assert env.actions == [5, 7]
    assert all(env.action_space.contains(action) for action in env.actions)


def test_an_action_that_an_env_keeps_is_unchanged_when_the_caller_reuses_its_array() -> None:
    env = Scripted(action_space=Box(-1.0, 1.0, (2,)))
    vector = looped(env)
    vector.reset()
    actions = np.zeros((1, 2), np.float32)
    for value in (0.1, 0.2):
        actions[:] = value
        vector.step(actions)
    np.testing.assert_array_equal(env.actions, np.array([[0.1, 0.1], [0.2, 0.2]], np.float32))


def test_each_slot_receives_its_own_part_of_dict_and_tuple_actions() -> None:
    envs = [Scripted(action_space=Dict(a=Discrete(3), b=Tuple((Box(-1.0, 1.0, (2,)),)))) for _ in range(2)]
    vector = looped(*envs)
    vector.reset()
    vector.step({"a": np.array([1, 2]), "b": (np.array([[0.1, 0.2], [0.3, 0.4]], np.float32),)})
    assert [env.actions[0]["a"] for env in envs] == [1, 2]
    np.testing.assert_array_equal(envs[1].actions[0]["b"][0], np.array([0.3, 0.4], np.float32))


def test_only_the_info_of_an_episodes_last_step_is_returned_and_it_is_returned_once() -> None:
    chatty = Scripted(on_step=(GOOD, 0.0, True, False, {"success": 1.0, "nested": {"deep": 2}}), from_step=3)
    silent = Scripted(on_step=(GOOD, 0.0, False, True, {}), from_step=3)
    vector = looped(chatty, silent)
    vector.reset()
    infos = [vector.step(np.array([0, 0]))[-1] for _ in range(8)]
    last = {0: {"success": 1.0, "nested": {"deep": 2}}}
    assert infos == [{}, {}, last, {}, {}, {}, last, {}]


def test_a_second_reset_starts_the_first_episodes_again() -> None:
    vector = make_vector_env(EnvConfig(id="CartPole-v1", backend="loop"), 2, SEEDS)
    first = observation_hash(vector.reset())
    for _ in range(50):
        vector.step(np.zeros(2, np.int64))
    assert observation_hash(vector.reset()) == first
    assert [place.episode for place in vector.places()] == [0, 0]


def test_an_error_while_replaying_actions_names_the_step() -> None:
    config = EnvConfig(id="rlrun.toys:Crashing", kwargs={"crash_at": 4})
    vector = make_vector_env(config, 1, SEEDS)
    observations = vector.reset()
    places, digest = vector.places(), observation_hash(observations[0])
    with pytest.raises(EnvError, match=r"step 4\):\n(.|\n)*RuntimeError: this world crashes at step 4"):
        vector.restore(places, [np.zeros(5, np.int64)], [digest], 60.0)


def test_close_closes_every_env() -> None:
    class Closing(Scripted):
        closed = 0

        def close(self) -> None:
            Closing.closed += 1

    looped(Closing(), Closing()).close()
    assert Closing.closed == 2


class PaysByStepsEver(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Rewards depend on the number of steps in all episodes so far."""

    steps = 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        observation, _, *ends = self.env.step(action)
        return observation, 1 / self.steps, *ends


@pytest.mark.parametrize(
    ("wrapper", "length", "exact"),
    [
        (gymnasium.wrappers.TimeAwareObservation, 2, True),
        (PaysByStepsEver, 2, False),
        (gymnasium.wrappers.NormalizeReward, 2, False),
        (gymnasium.wrappers.NormalizeReward, 0, False),
    ],
)
def test_an_env_that_keeps_state_across_episodes_is_not_reported_as_exactly_restored(
    wrapper: Any, length: int, exact: bool
) -> None:
    def made() -> LoopVectorEnv:
        return looped(wrapper(gymnasium.make("CartPole-v1", 3)), wrapper(gymnasium.make("CartPole-v1", 3)))

    vector, actions = made(), np.zeros(2, np.int64)
    observations, returns = vector.reset(), np.zeros(2)
    for _ in range(4 + length):  # the fourth step begins the second episodes
        observations, rewards, *_ = vector.step(actions)
        returns = returns + rewards if vector.places()[0].length else np.zeros(2)
    places = [replace(place, episode_return=own) for place, own in zip(vector.places(), returns, strict=True)]
    taken = [np.zeros(place.length, np.int64) for place in places]
    hashes = [observation_hash(row) for row in observations]
    assert made().restore(places, taken, hashes, 60.0)[1] == [exact, exact]


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("result", [None, (GOOD, float("nan"), False, False, {}), (None, 0.0, False, False, {})])
def test_steps_are_numbered_from_1_in_messages_about_exceptions_and_invalid_results(step: int, result: Any) -> None:
    class Raises(Scripted):
        def step(self, action: Any) -> Any:
            if self.elapsed == step - 1 and result is None:
                raise ArithmeticError
            return super().step(action)

    assert f", step {step})" in refusal(Raises(on_step=result, from_step=step), steps=step)
