"""The policies of a training as values: plain data and back, and what may change while they learn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlrun.algorithms.dqn.dqn import DQN
from rlrun.algorithms.ppo import PPO
from rlrun.engine.algorithm_config import WorldSamplingSettings
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.league.league_settings import SeatSettings
from rlrun.engine.messages.errors import CheckpointError, UsageError
from rlrun.engine.training.assemble.description import Description
from rlrun.engine.training.assemble.policies import Policies
from rlrun.engine.training.save import saved_state
from rlrun.engine.training.training import Training

POLES = EnvConfig(world="rlrun.toys:CartPoles")
SMALL = {"model": {"hiddens": [8]}, "compile": False}


def both(lr: float = 1e-3, gamma: float = 0.9, train: tuple[str, ...] = ()) -> Policies:
    ppo = PPO(PPO.Config.parse({**SMALL, "train_batch_size": 32, "minibatch_size": 16, "num_epochs": 1, "lr": lr}))
    dqn = DQN(DQN.Config.parse({**SMALL, "learning_starts": 8, "minibatch_size": 8, "gamma": gamma}))
    sampling = WorldSamplingSettings(num_envs_per_worker=2, min_env_steps_per_iteration=32)
    return Policies({"a": ppo, "b": dqn}, sampling, {"b": 1}, {"pole_0": "a", "*": "b"}, train)


def test_policies_survive_a_round_trip_through_plain_data() -> None:
    for policies in (both(train=("a",)), Policies.alone(PPO(PPO.Config(lr=0.1)))):
        data = json.loads(json.dumps(policies.to_data()))
        again = Policies.from_data(data)
        assert again.to_data() == data
        assert (again.trained, again.is_alone, again.title) == (policies.trained, policies.is_alone, policies.title)


def test_sampling_settings_given_to_a_policy_in_python_survive_a_round_trip() -> None:
    own = Policies({"a": PPO(PPO.Config(rollout_fragment_length=7))}, WorldSamplingSettings())
    config = Policies.from_data(own.to_data()).algorithms["a"].config
    assert (config.rollout_fragment_length, "num_workers" in own.to_data()["policies"]["a"]["config"]) == (7, False)


def test_only_settings_with_a_schedule_change_while_policies_learn() -> None:
    assert both().differ_only_in_schedules(both(lr=0.1))
    assert not both().differ_only_in_schedules(both(gamma=0.8))
    assert not both().differ_only_in_schedules(both(train=("a",)))
    assert not both().differ_only_in_schedules(Policies.alone(both().first))


def test_schedules_of_each_policy_can_be_changed_during_training() -> None:
    with Training(POLES, both()) as training:
        training.step()
        assert training.reconfigure(both(lr=0.5))
        assert not training.reconfigure(both(gamma=0.5))
        assert training.step()["policies/a/learner/lr"] == 0.5


def test_training_two_policies_continues_exactly_from_a_checkpoint(tmp_path: Path, wording) -> None:
    with Training(POLES, both(), seed=3) as training:
        training.step()
        training.save(tmp_path / "saved")
        expected = training.step()
    with Training.restore(tmp_path / "saved") as restored:
        result = restored.step()
    timeless = [name for name in expected if "time" not in name and "per_s" not in name]
    assert {name: result[name] for name in timeless} == {name: expected[name] for name in timeless}
    with wording.raised(CheckpointError):
        Training.restore(tmp_path / "saved", trained_by=PPO)


def test_policies_can_be_evaluated_only_in_worlds_with_the_observations_they_were_trained_on() -> None:
    with Training(POLES, both()) as training:
        assert set(training.evaluate(1, env=POLES.replace(max_episode_steps=5)).policies) == {"a", "b"}
    game = Description(EnvConfig(world="rlrun.toys:TwoStepGame"), Policies.alone(both().first))
    with pytest.raises(UsageError, match="policy default: the observations are"):
        game.check_fits(POLES, game.spaces())


def test_adopting_weights_causes_no_warning_about_missing_weight_updates() -> None:
    told: list[str] = []
    policies = both()
    with Training(POLES, policies) as other:
        other.step()
        learned = other.content({})
    often = WorldSamplingSettings(num_envs_per_worker=2, min_env_steps_per_iteration=1)
    alike = Policies(policies.algorithms, often, policies.slots, policies.mapping)
    with Training(POLES, alike, announce=told.append) as training:
        training.start()
        saved_state.adopt(training.running, learned)
        for _ in range(20):
            training.step()
    assert told == []


def test_the_description_of_policies_says_which_agents_each_controls_and_who_plays_whom(wording) -> None:
    assert both(train=("a",)).described() == wording("pole_0")
    assert Policies.alone(both().first).described() == []
    scripted = {"rlrun.toys:RandomLegal": 0.2}
    seat = SeatSettings(plays_against="a", selves_of=("a", "b"), self_play_share=0.5, scripted=scripted)
    league = Policies(
        both().algorithms,
        both().sampling,
        mapping="rlrun.plugin:alternate",
        seats={"seat": seat, "mirror": SeatSettings(plays_against="b", self_play_share=1.0)},
    )
    assert league.described() == wording("rlrun.plugin:alternate", "rlrun.toys:RandomLegal", "50%")
