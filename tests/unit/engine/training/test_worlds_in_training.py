"""Several policies that learn in one world."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.spaces import Box, Discrete

from rlrun.algorithms.a3c import A3C
from rlrun.algorithms.actor_q.sac import SAC
from rlrun.algorithms.dqn.dqn import DQN
from rlrun.algorithms.impala.impala import Impala
from rlrun.algorithms.ppo import PPO
from rlrun.engine.algorithm_config import WorldSamplingSettings
from rlrun.engine.checkpoint.format import read_checkpoint
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.flow.operators.replay import StoreToReplay
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.training.assemble.policies import Policies
from rlrun.engine.training.save import saved_state
from rlrun.engine.training.training import Training
from rlrun.engine.worlds.world import World, WorldStep

POLES = EnvConfig(world="rlrun.toys:CartPoles")
BOTH = {"pole_0": "a", "pole_1": "b"}
SMALL_PPO = {"train_batch_size": 64, "minibatch_size": 32, "num_epochs": 2, "model": {"hiddens": [8]}, "compile": False}
SMALL_DQN = {"learning_starts": 20, "minibatch_size": 16, "model": {"hiddens": [8]}, "compile": False}


class OnePole(World):
    """Gymnasium's CartPole as a world of one agent."""

    def __init__(self, clock: str) -> None:
        self.clock = clock
        self.possible_agents = ["pole"]
        self.env = CartPoleEnv()

    def spaces(self, agent: str) -> Spaces:
        return Spaces(self.env.observation_space, self.env.action_space)

    def reset(self, seed: int) -> Mapping[str, Any]:
        self.taken = 0
        return {"pole": self.env.reset(seed=seed)[0]}

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        observation, reward, terminated, _, info = self.env.step(actions["pole"])
        self.taken += 1
        truncated = self.taken >= 500
        return WorldStep(
            {"pole": observation},
            {"pole": reward},
            {"pole": terminated},
            {"pole": truncated},
            {"pole": info},
            terminated or truncated,
        )


def small(algorithm: type, settings: Mapping[str, Any], **more: Any) -> Any:
    return algorithm(algorithm.Config.parse({**settings, **more}))


def small_ppo(**more: Any) -> PPO:
    return small(PPO, SMALL_PPO, **more)


def small_dqn(**more: Any) -> DQN:
    return small(DQN, SMALL_DQN, **more)


def sampling(**more: Any) -> WorldSamplingSettings:
    return WorldSamplingSettings.parse({"num_envs_per_worker": 2, "min_env_steps_per_iteration": 0, **more})


FILTERED = {"normalize_observations": True, "normalize_rewards": True}
MEMORY = {"model": {"core": "lstm"}, "seq_len": 4}


@pytest.mark.parametrize(
    ("settings", "clock"),
    [
        ({}, "parallel"),
        (FILTERED, "per_agent"),
        (MEMORY, "per_agent"),
        pytest.param({}, "per_agent", marks=pytest.mark.regress),
        pytest.param(FILTERED, "parallel", marks=pytest.mark.regress),
        pytest.param(MEMORY, "parallel", marks=pytest.mark.regress),
    ],
)
def test_training_in_a_single_agent_world_matches_the_single_agent_env_bit_for_bit(
    settings: dict[str, Any], clock: str
) -> None:
    settings = {**SMALL_PPO, "num_envs_per_worker": 2, **settings}
    world = EnvConfig(world=f"{__name__}:OnePole", kwargs={"clock": clock})
    with (
        Training(EnvConfig(id="CartPole-v1"), small(PPO, settings), seed=5) as single,
        Training(world, small(PPO, settings), seed=5) as many,
    ):
        for _ in range(3):
            expected, found = single.step(), many.step()
            for name in ("env_steps", "agent_steps", "sgd_steps", "episodes", "episode_return_mean"):
                assert found[name] == expected[name]
            for name in ("learner/policy_loss", "learner/value_loss", "learner/kl", "episode_return_mean", "info/x"):
                assert found.get(f"policies/default/{name}") == expected.get(name)
        np.testing.assert_array_equal(single.running.trainee.learner.flat(), many.running.trainee.learner.flat())


def test_two_policies_with_equal_settings_have_different_weights_and_noise() -> None:
    policies = Policies({"a": small_ppo(), "b": small_ppo()}, sampling(), mapping=BOTH)
    with Training(POLES, policies, seed=1) as training:
        training.start()
        running = training.start()
        first, second = (branch.trainee for branch in running.branches.values())
        assert (first.learner.flat() != second.learner.flat()).any()
        worker = running.workers.started.sampler.worker
        drawn = [draw(0) for draw in worker._noise.values()]
        assert drawn[0].shape == drawn[1].shape
        assert (drawn[0] != drawn[1]).mean() > 0.9


def test_a_dqn_policy_beside_a_ppo_policy_learns_from_the_fragment_just_collected() -> None:
    policies = Policies({"slow": small_ppo(), "fast": small_dqn()}, sampling(), mapping={"pole_0": "slow", "*": "fast"})
    with Training(POLES, policies, seed=1) as training:
        running = training.start()
        (store,) = [
            node.operator
            for node in running.branches["fast"].flow._places()
            if isinstance(getattr(node, "operator", None), StoreToReplay)
        ]
        assert running.branches["slow"].trainee.fragment_length == 32
        collected = []
        add = store.replay.add
        store.replay.add = lambda worker, fragment: (
            collected.append(running.workers.counts.env_steps),
            add(worker, fragment),
        )
        for _ in range(12):
            training.step()
        # When a fragment is stored, at most one more has been collected since, whatever the other policy waits for.
        ahead = [counted - 2 * 4 * (1 + stored) for stored, counted in enumerate(collected)]
        assert max(ahead) <= 2 * 4
        assert len(collected) >= 10


def test_each_algorithm_reports_its_metrics_under_the_name_of_its_policy() -> None:
    policies = Policies({"a": small_ppo(), "b": small_dqn()}, sampling(min_env_steps_per_iteration=200), mapping=BOTH)
    with Training(POLES, policies, seed=1) as training:
        declared = training.description.metrics()
        result = training.step()
        assert all(any(metric.matches(name) for metric in declared) for name in result)
        assert result["agent_steps"] == result["policies/a/agent_steps"] + result["policies/b/agent_steps"]
        assert result["policies/a/learner/kl"] is not None
        assert result["policies/b/learner/td_error"] is not None
        assert result["policies/b/minibatches_per_env_step"] > 0
        assert result["episode_return_mean"] == pytest.approx(
            result["agents/pole_0/episode_return_mean"] + result["agents/pole_1/episode_return_mean"], rel=0.5
        )


def test_a_policy_that_is_not_trained_keeps_its_initial_weights() -> None:
    policies = Policies({"a": small_ppo(), "b": small_ppo()}, sampling(), mapping=BOTH, train=("a",))
    with Training(POLES, policies, seed=1) as training:
        running = training.start()
        before = {policy: branch.trainee.learner.flat().copy() for policy, branch in running.branches.items()}
        for _ in range(2):
            training.step()
        moved = {
            policy: (branch.trainee.learner.flat() != before[policy]).any()
            for policy, branch in running.branches.items()
        }
        assert moved == {"a": True, "b": False}


def test_an_evaluation_reports_results_for_each_policy() -> None:
    policies = Policies({"a": small_ppo(), "b": small_dqn()}, sampling(), mapping=BOTH)
    with Training(POLES, policies, seed=1) as training:
        found = training.evaluate(11, seed=3)
        assert found.policies.keys() == {"a", "b"}
        totals = np.array(found.policies["a"].returns) + found.policies["b"].returns
        np.testing.assert_allclose(found.returns, totals)
        assert len(found.returns) == 11
        assert found.lengths == [
            max(pair) for pair in zip(*(own.lengths for own in found.policies.values()), strict=True)
        ]
        again = training.evaluate(11, seed=3)
        assert again == found


@pytest.mark.parametrize(
    ("policies", "said"),
    [
        (
            lambda: {"a": small(A3C, {"num_workers": 1}), "b": small_ppo()},
            "policy a: a3c computes gradients on the rollout",
        ),
        (lambda: {"a": small(Impala, {}), "b": small_ppo()}, r"policy a \(impala\) collects without waiting for all"),
        (
            lambda: {"a": small(Impala, {}), "b": small(Impala, {"rollouts_in_flight": 3})},
            r"policies\.b\.config\.rollouts_in_flight: the policies that learn in a world share one stream",
        ),
    ],
)
def test_algorithms_that_cannot_learn_side_by_side_are_refused(policies: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Training(POLES, Policies(policies(), sampling(), mapping=BOTH)).description.plan()


@pytest.mark.parametrize(
    "beside", [lambda: small(Impala, {"train_batch_size": 80, "compile": False}), lambda: small_ppo(asynchronous=True)]
)
def test_asynchronous_algorithms_learn_side_by_side(beside: Any) -> None:
    impala = small(Impala, {"train_batch_size": 80, "compile": False})
    policies = Policies({"a": impala, "b": beside()}, sampling(min_env_steps_per_iteration=300), mapping=BOTH)
    with Training(POLES, policies, seed=1) as training:
        result = training.step()
        assert result["policies/a/sgd_steps"] > 0
        assert result["policies/b/sgd_steps"] > 0


def test_sac_learns_beside_ppo() -> None:
    sac = small(SAC, {"learning_starts": 20, "minibatch_size": 16, "model": {"hiddens": [8]}, "compile": False})
    policies = Policies({"a": small_ppo(), "b": sac}, sampling(min_env_steps_per_iteration=100), mapping=BOTH)
    with Training(POLES, policies, seed=1) as training:
        assert training.step()["policies/b/sgd_steps"] > 0


def test_several_policies_for_a_single_agent_env_are_refused(wording) -> None:
    policies = Policies({"a": small_ppo(), "b": small_ppo()}, sampling())
    with wording.raised(UsageError):
        Training(EnvConfig(id="CartPole-v1"), policies).description.plan()


@pytest.mark.parametrize("wrong", [{"train": ("huntres",)}, {"slots": {"huntres": 3}}])
def test_settings_for_an_unknown_policy_are_refused(wrong: dict[str, Any], wording) -> None:
    with wording.raised(UsageError, "huntres", "hunters"):
        Policies({"hunters": small_ppo()}, sampling(), **wrong)


class Crowd(World):
    """Has many slots, most of which are empty most of the time."""

    def __init__(self) -> None:
        self.possible_agents = [f"agent_{i}" for i in range(12)]

    def spaces(self, agent: str) -> Spaces:
        return Spaces(Box(-1, 1, (3,), np.float32), Discrete(2))

    def reset(self, seed: int) -> Mapping[str, Any]:
        self.draws, self.taken = np.random.default_rng(seed), 0
        return {"agent_0": self.seen()}

    def seen(self) -> Any:
        return self.draws.random(3, np.float32)

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        self.taken += 1
        rewards = {agent: float(action) for agent, action in actions.items()}
        last = self.taken == 9
        return WorldStep({agent: self.seen() for agent in actions}, rewards, {}, dict.fromkeys(actions, last), {}, last)


def test_minibatches_contain_no_rows_of_slots_without_an_agent() -> None:
    world = EnvConfig(world=f"{__name__}:Crowd")
    algorithm = small_ppo(
        train_batch_size=12 * 2 * 20, min_env_steps_per_iteration=0, num_envs_per_worker=2, num_epochs=1
    )
    with Training(world, algorithm, seed=0) as training:
        result = training.step()
        steps = result["agent_steps"]
        assert steps == 2 * 18  # one of 12 agents acts; 2 of its 20 rows show a final observation
        assert result["sgd_steps"] == -(-steps // 32)
        assert np.isfinite(training.running.trainee.learner.flat()).all()


@pytest.mark.parametrize("clock", ["parallel", "per_agent"])
def test_training_with_births_and_deaths_continues_bit_for_bit_from_a_checkpoint(clock: str, tmp_path: Path) -> None:
    kwargs = {"size": 8, "foragers": 4, "max_foragers": 6, "hunters": 1, "max_hunters": 2, "max_steps": 30}
    world = EnvConfig.parse({"world": "rlrun.toys:Foraging", "kwargs": kwargs, "clock": clock})
    lstm = small_ppo(normalize_observations=True, model={"hiddens": [8], "core": "lstm"}, seq_len=4)
    policies = Policies(
        {"foragers": lstm, "hunters": small_dqn()},
        sampling(min_env_steps_per_iteration=100),
        mapping={"forager_*": "foragers", "*": "hunters"},
    )
    with Training(world, policies, seed=2) as training:
        training.step()
        training.save(tmp_path / "checkpoint")
        expected = [training.step() for _ in range(2)]
    assert expected[0]["policies/foragers/episodes"] > expected[0]["episodes"] > 0  # agents also die within episodes
    with Training.restore(tmp_path / "checkpoint") as restored:
        assert restored.running.env_slots_restarted == 0
        found = [restored.step() for _ in range(2)]
    timeless = [name for name in expected[0] if "time" not in name and "per_s" not in name]
    assert [[row[name] for name in timeless] for row in found] == [[row[name] for name in timeless] for row in expected]


def test_adopting_a_checkpoint_adopts_the_weights_of_all_policies() -> None:
    policies = Policies({"a": small_ppo(), "b": small_dqn()}, sampling(min_env_steps_per_iteration=100), mapping=BOTH)
    with Training(POLES, policies, seed=1) as better, Training(POLES, policies, seed=2) as worse:
        better.step()
        worse.step()
        saved_state.adopt(worse.running, better.content({}))
        for mine, other in zip(worse.running.trainees, better.running.trainees, strict=True):
            np.testing.assert_array_equal(mine.learner.flat(), other.learner.flat())
            assert mine.learner.sgd_steps == other.learner.sgd_steps > 0


def test_a_policy_added_on_resume_starts_fresh_while_the_others_continue(tmp_path: Path, wording) -> None:
    poles = POLES.replace(kwargs={"num_agents": 3})
    shared = sampling(min_env_steps_per_iteration=100)
    with Training(poles, Policies({"a": small_ppo()}, shared, mapping={"*": "a"}), seed=1) as training:
        before = training.step()["policies/a/sgd_steps"]
        training.save(tmp_path / "checkpoint")
        learned = training.running.trainee.learner.flat().copy()
    both = Policies({"a": small_ppo(), "b": small_dqn()}, shared, mapping={"pole_0": "b", "*": "a"})
    with Training(poles, both, seed=1) as training:
        training.load(read_checkpoint(tmp_path / "checkpoint"))
        assert training.running.unsaved == wording()
        np.testing.assert_array_equal(training.running.trainee.learner.flat(), learned)
        result = training.step()
    assert result["iteration"] == 2
    assert result["policies/a/sgd_steps"] > before
    assert 0 < result["policies/b/agent_steps"] < result["env_steps"]
