"""Trainings in envs that are passed as Python objects: classes, instances, functions, vector envs and worlds."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from typing_extensions import override

from rlrun import PPO, Training
from rlrun.engine.checkpoint.format import read_checkpoint
from rlrun.engine.envs.vector_env import EnvError
from rlrun.engine.messages.errors import CheckpointError, CheckpointRefused, EnvironmentUnusable, SpecError, UsageError
from rlrun.toys.foraging import Foraging
from tests.results import all_numbers

SMALL: dict[str, Any] = {
    "train_batch_size": 16,
    "minibatch_size": 16,
    "num_epochs": 1,
    "min_env_steps_per_iteration": 0,
    "model": {"hiddens": [4]},
    "compile": False,
}
IN_HERE = f"{__name__}:Walk"


class Walk(gymnasium.Env[Any, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Ten steps; the observation is the number of steps times `size`, and the reward the action."""

    made: ClassVar[int] = 0
    closed: ClassVar[int] = 0
    seeds: ClassVar[list[int | None]] = []
    sizes: ClassVar[list[float]] = []

    def __init__(self, size: float = 1.0) -> None:
        self.observation_space = gymnasium.spaces.Box(-100, 100, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.size = size
        self.steps = 0
        Walk.made += 1
        Walk.sizes.append(size)

    @override
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        Walk.seeds.append(seed)
        self.steps = 0
        return self._seen(), {}

    @override
    def step(self, action: Any) -> Any:
        self.steps += 1
        return self._seen(), float(action), self.steps == 10, False, {}

    def _seen(self) -> Any:
        return np.full(1, self.steps * self.size, np.float32)

    @override
    def close(self) -> None:
        Walk.closed += 1


@pytest.fixture(autouse=True)
def _counts_from_zero() -> None:
    Walk.made = Walk.closed = 0
    Walk.seeds = []
    Walk.sizes = []


def nameless() -> type[Walk]:
    """A class that only this process knows, like a class in a notebook."""

    class Nameless(Walk):
        pass

    return Nameless


def iterations(env: Any, number: int = 2, **settings: Any) -> list[dict[str, Any]]:
    with Training(env, PPO(**SMALL, **settings)) as training:
        return all_numbers([training.step() for _ in range(number)])


@pytest.mark.parametrize(
    "env",
    [Walk, nameless(), lambda: Walk(), functools.partial(Walk, 1.0), {"id": Walk}],
    ids=["class", "nameless", "lambda", "partial", "mapping"],
)
def test_training_in_an_env_class_or_function_equals_training_in_its_import_path(env: Any) -> None:
    assert iterations(env, num_envs_per_worker=4) == iterations(IN_HERE, num_envs_per_worker=4)


def test_an_env_instance_is_trained_in_as_one_env_slot_and_is_not_closed() -> None:
    env = Walk()
    assert iterations(env) == iterations(IN_HERE, num_envs_per_worker=1)
    assert Walk.closed == Walk.made - 1  # all envs are closed except the user's own


def test_an_env_class_is_instantiated_once_for_each_env_slot_and_once_for_its_spaces() -> None:
    iterations(Walk, 1, num_envs_per_worker=4)
    assert (Walk.made, Walk.closed) == (5, 5)


@pytest.mark.parametrize("env", [nameless(), lambda: Walk(), Walk()], ids=["class", "lambda", "instance"])
def test_every_episode_has_a_different_seed(env: Any) -> None:
    iterations(env, 3)
    assert None not in Walk.seeds
    assert len(set(Walk.seeds)) == len(Walk.seeds) > 3


def test_kwargs_are_passed_to_the_env_and_stored_in_the_checkpoint(tmp_path: Path) -> None:
    with Training(nameless(), PPO(**SMALL), kwargs={"size": 7.0}) as training:
        saved = training.save(tmp_path / "saved")
    assert set(Walk.sizes) == {7.0}
    assert read_checkpoint(saved).spec["env"]["kwargs"] == {"size": 7.0}
    with Training.restore(saved, env=nameless()) as again:
        assert again.description.env.kwargs == {"size": 7.0}
    with Training.restore(saved, env={"id": nameless(), "kwargs": {"size": 2.0}}) as other:
        assert other.description.env.kwargs == {"size": 2.0}


def test_kwargs_take_precedence_over_the_kwargs_in_an_env_mapping() -> None:
    training = Training({"id": Walk, "kwargs": {"size": 2.0}, "max_episode_steps": 5}, PPO(), kwargs={"size": 3.0})
    assert training.description.env.to_data()["kwargs"] == {"size": 3.0}
    assert training.description.env.max_episode_steps == 5


def test_a_checkpoint_contains_the_import_path_of_an_env_class_that_has_one(tmp_path: Path, wording) -> None:
    with Training(Walk, PPO(**SMALL)) as training:
        saved = training.save(tmp_path / "saved")
    assert read_checkpoint(saved).spec["env"]["id"] == IN_HERE
    with wording.raised(CheckpointRefused, IN_HERE):
        Training.restore(saved)
    for way in ({"trust": True}, {"env": Walk}):
        with Training.restore(saved, **way) as again:
            assert again.description.env.id == IN_HERE


def test_an_env_without_an_import_path_must_be_passed_to_restore_and_continues_exactly(tmp_path: Path, wording) -> None:
    env = nameless()
    with Training(env, PPO(**SMALL)) as training:
        training.step()
        saved = training.save(tmp_path / "saved")
        straight_on = all_numbers([training.step()])
    assert read_checkpoint(saved).spec["env"]["id"] == "<Nameless>"
    with wording.raised(CheckpointError, "Training.restore"):
        Training.restore(saved, trust=True)
    with Training.restore(saved, env=env) as again:
        assert all_numbers([again.step()]) == straight_on


def test_passing_an_env_to_restore_does_not_trust_the_checkpoints_wrappers(tmp_path: Path, wording) -> None:
    written = {"id": Walk, "wrappers": [{"id": f"{__name__}:Harmless"}]}
    with Training(written, PPO(**SMALL)) as training:
        saved = training.save(tmp_path / "saved")
    with wording.raised(CheckpointRefused, "env.wrappers"):
        Training.restore(saved, env=Walk)
    with Training.restore(saved, env={"id": Walk}):
        pass


class Harmless(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """A wrapper that does nothing."""


def test_an_evaluation_during_a_training_episode_of_an_env_instance_requires_another_env(wording) -> None:
    env = Walk()
    with Training(env, PPO(**SMALL)) as training:
        assert training.evaluate(episodes=3).lengths == [10, 10, 10]  # no training episode has begun
        training.step()
        for again in (None, env):
            with wording.raised(UsageError, "eval_env"):
                training.evaluate(episodes=3, env=again)
        assert training.evaluate(episodes=3, env=Walk).lengths == [10, 10, 10]
        training.step()


def test_evaluations_take_place_in_eval_env_even_after_a_restore(tmp_path: Path) -> None:
    with Training(Walk(), PPO(**SMALL), eval_env={"id": Walk, "max_episode_steps": 4}) as training:
        training.step()
        assert training.evaluate(episodes=2).lengths == [4, 4]
        saved = training.save(tmp_path / "saved")
    with Training.restore(saved, env=Walk, trust=True, for_training=False) as again:
        assert again.evaluate(episodes=2).lengths == [4, 4]
    with Training.restore(saved, env=Walk, eval_env=Walk, for_training=False) as again:
        assert again.evaluate(episodes=2).lengths == [10, 10]


@pytest.mark.parametrize(
    ("env", "settings", "message"),
    [
        (Walk(), {"num_envs_per_worker": 2}, "<Walk> is an instance with 1 env slot, but 2.* num_envs_per_worker=1"),
        (Walk(), {"num_workers": 2}, r"<Walk> is an instance in this process, but num_workers is 2: pass a class"),
    ],
)
def test_an_env_instance_allows_only_one_env_slot_in_one_process(
    env: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        Training(env, PPO(**SMALL, **settings)).step()


def test_keyword_arguments_for_an_env_instance_are_refused(wording) -> None:
    with wording.raised(UsageError):
        Training(Walk(), PPO(), kwargs={"size": 2.0})


def test_a_function_that_returns_the_same_env_twice_is_refused(wording) -> None:
    env, world = Walk(), Foraging()
    for make in (lambda: env, lambda: world):
        with wording.raised(EnvironmentUnusable):
            Training(make, PPO(**SMALL)).step()


def _fails() -> Any:
    raise ValueError("no water")


@pytest.mark.parametrize(
    ("env", "error", "message"),
    [
        (3, SpecError, "^env: must be an env id, a mapping, or an env class, instance or function, not an object"),
        (dict, SpecError, r"^env: the class dict is not an env: derive it from gymnasium\.Env"),
        (_fails, EnvError, r"raised an exception in its factory \(to inspect its env\):"),
        ({"id": Walk, "kwargs": {"size": object()}}, SpecError, "^env: must be plain data that checkpoints can store"),
    ],
)
def test_an_invalid_env_is_refused_with_one_message(env: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Training(env, PPO())


def test_an_algorithm_class_instead_of_an_instance_is_refused(wording) -> None:
    with wording.raised(UsageError):
        Training(Walk, PPO)


@pytest.mark.parametrize("make", [lambda num_envs: SyncVectorEnv([Walk] * num_envs), SyncVectorEnv([Walk] * 3)])
def test_training_in_a_vector_env_uses_as_many_env_slots_as_it_has_envs(make: Any) -> None:
    with Training(make, PPO(**SMALL, **({} if isinstance(make, SyncVectorEnv) else {"num_envs_per_worker": 3}))) as own:
        assert own.evaluate(episodes=2).lengths == [10, 10]
        own.step()
        assert own.description.policies.sampling.num_envs_per_worker == 3
        # A batch of 16 rows takes 6 steps in each of three slots.
        assert own.running.workers.counts.env_steps == 18


def test_a_vector_env_that_resets_in_the_step_that_ends_an_episode_is_refused(wording) -> None:
    env = SyncVectorEnv([Walk] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    with wording.raised(EnvironmentUnusable, "AutoresetMode.NEXT_STEP"):
        Training(env, PPO(**SMALL)).step()


@pytest.mark.parametrize(
    ("env", "name"),
    [(Foraging, "rlrun.toys:Foraging"), (lambda: Foraging(), "<lambda>"), (Foraging(), "<Foraging>")],
    ids=["class", "function", "instance"],
)
def test_a_world_is_recognized_whether_it_is_a_class_a_function_or_an_instance(env: Any, name: str) -> None:
    training = Training(env, PPO(**SMALL))
    assert training.description.env.world == name
    assert training.description.policies.sampling.num_envs_per_worker == (1 if name == "<Foraging>" else 8)


@pytest.mark.skipif(importlib.util.find_spec("mpe2") is None, reason="needs mpe2")
@pytest.mark.parametrize("kind", ["function", "instance"])
def test_a_pettingzoo_env_can_be_passed_to_training_as_a_function_or_an_instance(kind: str) -> None:
    from mpe2 import simple_spread_v3

    make: Callable[[], Any] = simple_spread_v3.parallel_env
    with Training(make if kind == "function" else make(), PPO(**SMALL)) as training:
        training.step()
        if kind == "instance":
            assert training.description.env.world == "<simple_spread_v3>"
            with pytest.raises(UsageError, match=r"eval_env="):
                training.evaluate(episodes=1)
            with pytest.raises(UsageError, match=r"games between policies"):
                training.description.matches()
        else:
            assert training.evaluate(episodes=1).lengths == [25]


def test_repr_of_a_training_shows_algorithm_env_seed_and_progress(wording) -> None:
    with Training(Walk, PPO(**SMALL, lr=1e-3), seed=3) as training:
        settings = "lr=0.001, model=ModelConfig(hiddens=(4,)), compile=False, min_env_steps_per_iteration=0, "
        own = "train_batch_size=16, num_epochs=1, minibatch_size=16"
        start = f"<Training of PPO({settings}{own}) in {IN_HERE}, seed 3: "
        assert repr(training) == wording(start)
        training.step()
        assert repr(training) == wording(start, "16")


def test_training_results_convert_to_a_pandas_data_frame() -> None:
    pandas = pytest.importorskip("pandas")
    with Training(Walk, PPO(**SMALL)) as training:
        results = training.train(env_steps=32)
        frame, episodes = results.to_pandas(), training.evaluate(episodes=3).to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["env_steps"].tolist() == [row["env_steps"] for row in results] == [16, 32]
    assert episodes["episode_len"].tolist() == [10, 10, 10]


def test_requesting_a_data_frame_without_pandas_raises_an_error_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with Training(Walk, PPO(**SMALL)) as training, pytest.raises(UsageError, match="pip install pandas"):
        training.train(env_steps=16).to_pandas()
