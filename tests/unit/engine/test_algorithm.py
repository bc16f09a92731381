"""An algorithm is a value, made from named settings or from a parsed config."""

from __future__ import annotations

import inspect
import pickle
import pydoc
import re

import pytest

import rlrun
from rlrun.algorithms.ppo import PPO, PPOConfig
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.messages.errors import SpecError, UsageError


def test_keyword_settings_are_parsed_like_the_settings_of_a_spec() -> None:
    made = PPO(lr=[[0, 1e-3], [500, 0.0]], train_batch_size=1e3, model={"hiddens": [8]})
    written = {"lr": [[0, 1e-3], [500, 0.0]], "train_batch_size": 1e3, "model": {"hiddens": [8]}}
    assert made.config == PPOConfig.parse(written)
    assert made.config.train_batch_size == 1000


def test_a_parsed_config_can_be_passed_instead_of_keyword_settings() -> None:
    config = PPOConfig(lr=1e-3)
    assert PPO(config).config is config
    assert PPO().config == PPOConfig()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lrr": 1e-3}, "config.lrr: unknown key 'lrr'; did you mean 'lr'?"),
        ({"learning_rate": 1e-3}, "config.learning_rate: unknown setting 'learning_rate'; in rlrun this is 'lr'"),
        ({"gamma": 2}, "config.gamma: must be a number >= 0 and <= 1, not 2"),
        ({"config": {"lr": 1e-3}}, "config.config: unknown key 'config'"),
    ],
)
def test_a_wrong_setting_is_explained_as_it_is_in_a_spec(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=f"^{re.escape(message)}"):
        PPO(**settings)


@pytest.mark.parametrize(
    "given", [("MlpPolicy", "CartPole-v1"), ("CartPole-v1",), ({"lr": 1e-3},), (EnvConfig(id="CartPole-v1"),)]
)
def test_passing_an_env_to_an_algorithm_shows_the_correct_call(given: tuple[object, ...]) -> None:
    written = re.escape('rlrun.Training("CartPole-v1", PPO(lr=1e-3))')
    with pytest.raises(UsageError, match=written):
        PPO(*given)
    with pytest.raises(UsageError, match=written):
        PPO(*given, {"lr": 1e-3}, seed=1)


def test_help_and_notebooks_show_each_setting_as_a_named_argument_with_its_default() -> None:
    parameters = inspect.signature(PPO).parameters
    assert [*parameters] == ["config", *PPOConfig.model_fields]
    assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in PPOConfig.model_fields)
    assert {str(parameters[name]) for name in ("num_epochs", "early_stop_kl", "gamma")} == {
        "num_epochs: int = 10",
        "early_stop_kl: float | None = None",
        "gamma: float = 0.99",
    }
    assert "num_epochs: int = 10" in pydoc.plain(pydoc.render_doc(PPO))


@pytest.mark.parametrize("name", ["DQN", "QMIX", "BC", "ValueIteration"])
def test_a_signature_omits_the_settings_that_the_algorithm_fixes_and_shows_its_own_defaults(name: str) -> None:
    algorithm = getattr(rlrun, name)
    shown = {key: own.default for key, own in inspect.signature(algorithm).parameters.items() if key != "config"}
    config = algorithm.Config()
    assert shown == {key: getattr(config, key) for key in algorithm.Config.model_fields}


def test_a_plugin_with_its_own_constructor_shows_the_signature_of_that_constructor(wording) -> None:
    class Own(PPO):
        def __init__(self, speed: int = 2) -> None:
            super().__init__(lr=speed * 1e-3)

    assert str(inspect.signature(Own)) == wording("int")
    assert inspect.signature(rlrun.Algorithm) is not None  # the base class itself has no settings


def test_the_repr_of_an_algorithm_shows_the_settings_that_differ_from_its_defaults() -> None:
    assert repr(PPO()) == "PPO()"
    assert repr(PPO(lr=1e-3, num_epochs=10, model={"hiddens": [8]})) == "PPO(lr=0.001, model=ModelConfig(hiddens=(8,)))"


def test_an_algorithm_can_be_sent_to_other_processes_with_its_settings() -> None:
    sent = pickle.loads(pickle.dumps(PPO(lr=1e-3)))
    assert sent.config == PPOConfig(lr=1e-3)


def test_train_runs_until_the_given_total_of_env_steps(wording) -> None:
    algorithm = PPO(
        train_batch_size=64,
        min_env_steps_per_iteration=0,
        minibatch_size=32,
        num_epochs=1,
        model={"hiddens": [4]},
        compile=False,
    )
    with rlrun.Training("CartPole-v1", algorithm) as training:
        assert training.iteration == 0
        results = training.train(env_steps=150)
        assert [result["iteration"] for result in results] == [1, 2, 3]
        assert results[1]["env_steps"] < 150 <= results[2]["env_steps"]
        assert training.train(env_steps=150) == []
        assert [result["iteration"] for result in training.train(env_steps=results[2]["env_steps"] + 1)] == [4]
    planning = rlrun.Training("FrozenLake-v1", rlrun.ValueIteration())
    with wording.raised(UsageError, "value_iteration"):
        planning.train(env_steps=100)
