from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_watch import interrupt_requested
from rlrun.engine.envs.vector_env import EnvError
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.rollout import endless_episodes, evaluation
from rlrun.engine.rollout.evaluation import (
    EvaluationResult,
    EvaluationSeeds,
    evaluate,
    interval_gap,
    numbers_by_name,
)
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.toys import CartPoles


class RemembersNothing:
    def begin_episodes(self, starts: np.ndarray[Any, Any]) -> None:
        assert starts.dtype == np.bool_

    def take_rewards(self, rewards: np.ndarray[Any, Any]) -> None:
        assert rewards.dtype == np.float64


class LeansWithThePole(RemembersNothing):
    """A deterministic policy for CartPole."""

    def actions(self, observations: Any, generator: np.random.Generator | None, acts: Any = None) -> Any:
        return (observations[:, 2] + 0.1 * observations[:, 3] > 0.02).astype(np.int64)


class TossesACoin(RemembersNothing):
    def actions(self, observations: Any, generator: np.random.Generator | None, acts: Any = None) -> Any:
        if generator is None:
            return np.zeros(len(observations), np.int64)
        return generator.integers(2, size=len(observations))


class SitsStill(RemembersNothing):
    """Acts in a world."""

    def actions(self, observations: Any, generator: np.random.Generator | None, acts: Any = None) -> Any:
        return np.zeros(len(acts), np.int64)


class SeedLengths(gymnasium.Env[Any, Any]):
    """Episodes of (seed % 50) + 1 steps that pay seed % 7 each."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.seed = seed or 0
        self.left = self.seed % 50 + 1
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.left -= 1
        return np.zeros(1, np.float32), float(self.seed % 7), self.left == 0, False, {}


CARTPOLE = EnvConfig(id="CartPole-v1")
LOOP = EnvConfig(id="CartPole-v1", backend="loop")
LENGTHS = EnvConfig(id=f"{__name__}:SeedLengths")


@pytest.mark.parametrize("env", [CARTPOLE, LOOP])
@pytest.mark.parametrize("num_envs", [2, 8, None])
def test_a_deterministic_policy_plays_the_same_episodes_with_any_number_of_envs(
    env: EnvConfig, num_envs: int | None
) -> None:
    alone = evaluate({"default": LeansWithThePole()}, CARTPOLE, 11, seed=3, num_envs=1)
    assert len(alone.returns) == len(alone.lengths) == 11
    assert len(set(alone.returns)) > 3
    assert evaluate({"default": LeansWithThePole()}, env, 11, seed=3, num_envs=num_envs) == alone


@pytest.mark.parametrize("num_envs", [1, 3, 8, 40])
def test_the_seed_of_an_episode_depends_on_its_number_and_not_on_episode_lengths(num_envs: int) -> None:
    seeds = [EvaluationSeeds(5, 0, 1).seed(0, number) for number in range(20)]
    result = evaluate({"default": TossesACoin()}, LENGTHS, 20, seed=5, num_envs=num_envs)
    assert result.lengths == [seed % 50 + 1 for seed in seeds]
    assert result.returns == [float(seed % 7 * (seed % 50 + 1)) for seed in seeds]


def test_evaluation_episodes_use_different_seeds_from_training_episodes() -> None:
    assert EvaluationSeeds(5, 0, 1).seed(0, 0) != EvaluationSeeds(5, 0, 0).seed(0, 0)


def test_seeds_computed_for_many_episodes_equal_those_computed_one_by_one() -> None:
    seeds = EvaluationSeeds(5, 0, 1, num_envs=3)
    many = seeds.seeds(np.arange(3), np.arange(4)[:, None])
    assert many.tolist() == [[seeds.seed(column, episode) for column in range(3)] for episode in range(4)]
    assert many.ravel().tolist() == [EvaluationSeeds(5, 0, 1).seed(0, number) for number in range(12)]


def test_actions_of_an_exploring_policy_are_determined_by_the_evaluation_seed() -> None:
    first, again = (evaluate({"default": TossesACoin()}, CARTPOLE, 6, seed=1, actions="sampled") for _ in range(2))
    assert first == again
    assert first != evaluate({"default": TossesACoin()}, CARTPOLE, 6, seed=2, actions="sampled")
    assert first != evaluate({"default": TossesACoin()}, CARTPOLE, 6, seed=1)


def test_an_episode_that_does_not_end_is_an_error(monkeypatch: pytest.MonkeyPatch, wording) -> None:
    monkeypatch.setattr(endless_episodes, "LONGEST_EPISODE", 45)
    with wording.raised(EnvError, "SeedLengths", "env.max_episode_steps", "45"):
        evaluate({"default": TossesACoin()}, LENGTHS, 20, seed=5)
    own_limit = EnvConfig(id=f"{__name__}:SeedLengths", max_episode_steps=60)
    assert max(evaluate({"default": TossesACoin()}, own_limit, 20, seed=5).lengths) > 45


def test_a_warning_is_issued_while_a_long_episode_is_still_running(monkeypatch: pytest.MonkeyPatch, wording) -> None:
    monkeypatch.setattr(endless_episodes, "LONG_EPISODE", 40)
    with wording.warned(UserWarning, "env.max_episode_steps", "40", "200,000"):
        evaluate({"default": TossesACoin()}, LENGTHS, 20, seed=5)


@pytest.fixture
def wish_for_the_end() -> Iterator[None]:
    interrupt_requested.set()
    yield
    interrupt_requested.clear()


@pytest.mark.usefixtures("wish_for_the_end")
def test_a_requested_stop_interrupts_an_evaluation_after_a_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = EnvConfig(id="rlrun.toys:ConstantReward", kwargs={"episode_len": 10**9})
    world = EnvConfig(world="rlrun.toys:MatrixGame", kwargs={"game": "penalty"})
    monkeypatch.setattr(evaluation, "INTERRUPT_S", math.inf)
    assert len(evaluate({"default": TossesACoin()}, LENGTHS, 20, seed=5).returns) == 20
    monkeypatch.setattr(evaluation, "INTERRUPT_S", 0.0)
    with pytest.raises(KeyboardInterrupt):
        evaluate({"default": TossesACoin()}, endless, 20, seed=5)
    with pytest.raises(KeyboardInterrupt):
        evaluate({"p": SitsStill()}, world, 20, seed=5, slots={"p": 2})


@pytest.mark.usefixtures("wish_for_the_end")
def test_a_requested_stop_interrupts_a_long_episode_immediately(monkeypatch: pytest.MonkeyPatch, wording) -> None:
    monkeypatch.setattr(evaluation, "INTERRUPT_S", math.inf)
    monkeypatch.setattr(endless_episodes, "LONG_EPISODE", 40)
    with wording.warned(UserWarning, "40"), pytest.raises(KeyboardInterrupt):
        evaluate({"default": TossesACoin()}, LENGTHS, 20, seed=5)


class Blinks(SeedLengths):
    """Shows NaN after the third step of an episode."""

    def step(self, action: Any) -> Any:
        observation, *others = super().step(action)
        return observation + (np.float32("nan") if self.left == self.seed % 50 - 2 else 0), *others


def test_a_nan_observation_is_reported_with_env_episode_seed_and_step() -> None:
    told = r"evaluation, env \d, episode \d with seed \d+, step 3: the observation contains NaN"
    with pytest.raises(EnvError, match=told):
        evaluate({"default": TossesACoin()}, EnvConfig(id=f"{__name__}:Blinks"), episodes=6, seed=0)


def test_an_evaluation_of_zero_episodes_is_refused(wording) -> None:
    with wording.raised(UsageError):
        evaluate({"default": TossesACoin()}, CARTPOLE, 0, seed=1)


def test_the_confidence_interval_is_the_mean_plus_or_minus_1_96_standard_errors() -> None:
    draws = np.random.default_rng(0)
    returns = draws.normal(100.0, 20.0, size=400).tolist()
    result = EvaluationResult(returns, [1] * 400)
    low, high = result.ci95
    error = 20.0 / np.sqrt(400)
    assert low == pytest.approx(result.mean - 1.96 * error, abs=0.25)
    assert high == pytest.approx(result.mean + 1.96 * error, abs=0.25)
    assert EvaluationResult(returns, [1] * 400).ci95 == (low, high)


def test_the_confidence_interval_of_equal_returns_is_a_single_point() -> None:
    assert EvaluationResult([500.0] * 20, [500] * 20).ci95 == (500.0, 500.0)
    assert EvaluationResult([7.0], [3]).ci95 == (7.0, 7.0)


def test_an_evaluation_result_converts_to_plain_data() -> None:
    result = EvaluationResult([1.0, 3.0], [10, 20])
    assert result.to_dict() == {
        "episodes": 2,
        "mean": 2.0,
        "std": 1.0,
        "ci95": [1.0, 3.0],
        "min": 1.0,
        "max": 3.0,
        "len_mean": 15.0,
        "returns": [1.0, 3.0],
        "lengths": [10, 20],
    }


class AlwaysChanges(RemembersNothing):
    def actions(self, observations: Any, generator: np.random.Generator | None, acts: Any = None) -> Any:
        return np.ones(len(observations), np.int64)


def test_a_policy_none_of_whose_agents_appeared_has_no_statistics() -> None:
    world = EvaluationResult([1.0], [2], policies={"idle": EvaluationResult([], [])})
    statistics = dict.fromkeys(("mean", "std", "ci95", "min", "max", "len_mean"))
    assert world.to_dict()["policies"] == {"idle": {"episodes": 0, **statistics, "returns": [], "lengths": []}}


def test_an_evaluation_result_contains_the_sum_of_each_column_per_episode() -> None:
    two_lanes = EnvConfig(id="rlrun.toys:TwoLanes", kwargs={"episode_len": 3}, columns=("cost",))
    result = evaluate({"default": AlwaysChanges()}, two_lanes, 5, seed=0, num_envs=2)
    # The policy drives fast from cell 0, slowly from cell 2, and fast from cell 3, which is busy.
    assert result.columns == {"cost": [pytest.approx(1.2)] * 5}
    assert result.column_means == {"episode_columns/cost_mean": pytest.approx(1.2)}
    assert result.to_dict()["columns"] == result.columns
    assert "columns" not in EvaluationResult([0.0], [1]).to_dict()
    assert "rates_ci95" not in result.to_dict()


def test_a_column_that_sums_to_0_or_1_in_each_episode_is_reported_as_a_rate_with_an_exact_interval() -> None:
    columns = {"success": [0.0] * 10, "cost": [0.0, 2.0] * 5, "none": []}
    result = EvaluationResult([0.0] * 10, [1] * 10, columns=columns)
    assert result.rates == {"success": (0.0, pytest.approx(1 - 0.025**0.1))}
    assert result.to_dict()["rates_ci95"] == {"success": list(result.rates["success"])}


class Succeeds(SeedLengths):
    """Succeeds with even seeds, and reports this at the end of the episode; reports other numbers at other times."""

    def step(self, action: Any) -> Any:
        *step, _ = super().step(action)
        early = {"early": 1.0, "is_success": False}
        odd, name = {"odd": self.seed} if self.seed % 2 else {}, {"two\nlines": 1.0}
        return *step, ({"is_success": self.seed % 2 == 0, **odd, **name} if self.left == 0 else early)


def test_numbers_in_the_info_of_the_last_steps_are_collected_by_name() -> None:
    seeds = [EvaluationSeeds(5, 0, 1).seed(0, number) for number in range(9)]
    result = evaluate({"default": TossesACoin()}, EnvConfig(id=f"{__name__}:Succeeds"), 9, seed=5, num_envs=4)
    odd = [float(seed) for seed in seeds if seed % 2]
    assert result.infos == {"is_success": [float(seed % 2 == 0) for seed in seeds], "odd": odd}
    assert result.info_means == {"info/is_success": 1 - len(odd) / 9, "info/odd": pytest.approx(np.mean(odd))}
    assert result.rates.keys() == {"is_success"}
    assert result.to_dict()["infos"] == result.infos


def test_info_numbers_beyond_the_first_1000_names_are_left_out_with_a_warning(wording) -> None:
    infos = [{f"{episode}/{number}": 1.0 for number in range(600)} for episode in range(2)]
    with wording.warned(UserWarning, "1,000", "1/400"):
        found = numbers_by_name(infos)
    assert [*found] == [*infos[0], *[*infos[1]][:400]]


class CountsSteps(CartPoles):
    """Poles that report at their end for how many steps they have stood."""

    def reset(self, seed: int) -> Any:
        self.steps = 0
        return super().reset(seed)

    def step(self, actions: Any) -> Any:
        self.steps += 1
        step = super().step(actions)
        ended = [agent for agent, is_over in step.terminateds.items() if is_over]
        return step._replace(infos={agent: {"stood": self.steps} for agent in ended})


def test_numbers_in_a_worlds_infos_are_reported_for_the_policy_of_each_agent() -> None:
    world = EnvConfig(world=f"{__name__}:CountsSteps")
    mapping = PolicyMapping(("left", "right"), {"pole_0": "left", "*": "right"})
    result = evaluate({"left": SitsStill(), "right": SitsStill()}, world, 3, seed=1, mapping=mapping, num_envs=2)
    assert result.infos == {}
    for own in result.policies.values():
        assert own.infos == {"stood": own.lengths}


@pytest.mark.parametrize("value", [0.1, 0.7, 0.99, 17.3, 0.0])
def test_results_with_equal_returns_but_different_episode_counts_have_no_interval_gap(value: float) -> None:
    many, few = (EvaluationResult([value] * episodes, [1] * episodes) for episodes in (20, 5))
    assert interval_gap(many, few) == interval_gap(few, many) == 0.0
