"""MBMPO: tasks that a model imagines, MAML's loss on them, which policies collect, and bit-exact resumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import rlrun
from rlrun.algorithms.meta.adaptation import AdaptablePolicy, adapted_acting
from rlrun.algorithms.meta.maml import MAML
from rlrun.algorithms.meta.tasks import task_rows
from rlrun.algorithms.model_based.fit_model import FitModel
from rlrun.algorithms.model_based.imagined_tasks import AfterFits, ImagineTasks, SendAdapted
from rlrun.algorithms.model_based.mbmpo import MBMPO
from rlrun.algorithms.model_based.policy import AGENT, ModelBasedPolicy
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.flow.nodes import Delivered, Pending
from rlrun.engine.functional.reward_scale import RewardScale
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from rlrun.engine.training.assemble.learner_factory import AlgorithmLearnerFactory
from tests.rounding import rounding_error

DYNAMICS = {
    "num_members": 3,
    "num_elites": 3,
    "hiddens": [8],
    "minibatch_size": 32,
    "max_epochs": 3,
    "fit_interval": 40,
    "reward": "one_per_step",
}
SMALL: dict[str, Any] = {
    "compile": False,
    "rollout_fragment_length": 20,
    "min_env_steps_per_iteration": 40,
    "num_epochs": 2,
    "meta_updates": 2,
    "imagined_episodes": 4,
    "imagined_length": 6,
    "model": {"hiddens": [8]},
    "dynamics": DYNAMICS,
}
NEAR = rounding_error(3 + 8)  # inputs of both layers


def mbmpo_training(**settings: Any) -> rlrun.Training:
    return rlrun.Training("CartPole-v1", rlrun.MBMPO(**{**SMALL, **settings}), seed=100)


def half_end(obs: Any, actions: Any, next_obs: Any) -> Any:
    return np.arange(len(obs)) % 2 == 0


def replay_of(training: rlrun.Training) -> ReplayBuffer:
    rng = np.random.default_rng(1)
    replay = ReplayBuffer(training.description.algorithm.config.replay, num_workers=1, n_step=1, gamma=0.9, seed=0)
    replay.add(
        0,
        SampleBatch(
            obs=rng.uniform(-0.1, 0.1, (31, 1, 4)).astype(np.float32),
            actions=rng.integers(0, 2, (30, 1)),
            rewards=np.ones((30, 1), np.float32),
            terminateds=np.zeros((30, 1), np.bool_),
            truncateds=np.zeros((30, 1), np.bool_),
            valid=np.ones((30, 1), np.bool_),
        ),
    )
    return replay


def imagination_of(training: rlrun.Training) -> ImagineTasks:
    trainee, config = training.running.trainee, training.description.algorithm.config
    return ImagineTasks(
        trainee,
        FitModel(trainee, replay_of(training), config.dynamics, learning_starts=0),
        inner_steps=1,
        inner_lr=0.5,
        episodes=4,
        length=6,
        gamma=0.9,
        scale=RewardScale(config.reward_scale, config.clip_rewards),
    )


def log_probs(policy: AdaptablePolicy, acting: np.ndarray[Any, Any], batch: SampleBatch) -> np.ndarray[Any, Any]:
    network = policy.behavior().network
    network.load(acting)
    rows = batch["obs"].reshape(-1, 4)
    actions = batch["actions"].reshape(-1)
    found = policy.action_space.log_prob(network({"obs": rows})[0]["outputs"], actions)
    return cast("np.ndarray[Any, Any]", found).reshape(batch["actions"].shape)


def test_a_batch_holds_both_phases_of_each_task_with_adapted_policies_acting_in_the_second() -> None:
    with mbmpo_training() as training:
        trainee = training.running.trainee
        agent = cast("AdaptablePolicy", cast("ModelBasedPolicy", trainee.policy).agent)
        batch = imagination_of(training)(0)
        assert batch["valid"].shape == (6, 3 * 2 * 4)
        acting = trainee.learner.acting_flat()
        for task in range(3):
            before, after = (
                batch.map(lambda leaf, start=start: leaf[:, start : start + 4]) for start in (8 * task, 8 * task + 4)
            )
            np.testing.assert_allclose(before["logp"], log_probs(agent, acting, before), atol=NEAR)
            adapted = adapted_acting(agent, acting, before, 0.5)
            np.testing.assert_allclose(after["logp"], log_probs(agent, adapted, after), atol=NEAR)
            assert not np.allclose(after["logp"], log_probs(agent, acting, after), atol=1e-5)


def test_steps_after_an_imagined_termination_are_invalid() -> None:
    with mbmpo_training(dynamics={**DYNAMICS, "terminated": f"{__name__}:half_end"}) as training:
        valid = imagination_of(training)(0)["valid"]
    np.testing.assert_array_equal(valid[0], True)
    assert not (valid[1:] & ~valid[:-1]).any()
    # Each of the two phases has 12 episodes, from 3 tasks. Every second episode ends after one step; the others never
    # end.
    assert np.count_nonzero(valid) == 12 * 1 + 12 * 6


def test_rule_based_imagined_rewards_are_scaled_and_clipped_like_collected_rewards() -> None:
    with mbmpo_training(
        dynamics={**DYNAMICS, "reward": "one_per_step"}, reward_scale=4.0, clip_rewards=3.0
    ) as training:
        np.testing.assert_array_equal(imagination_of(training)(0)["rewards"], 3.0)


def test_a_batch_of_tasks_updates_the_agent_as_maml_does_and_leaves_the_model_unchanged() -> None:
    env = EnvConfig(id="CartPole-v1")
    shared = {name: SMALL[name] for name in ("model", "num_epochs", "compile")}
    with mbmpo_training() as training:
        rows = task_rows(imagination_of(training)(0), 8)
    ours = AlgorithmLearnerFactory(MBMPO(MBMPO.Config.parse(SMALL)), env, 1, "eager")()
    theirs = AlgorithmLearnerFactory(MAML(MAML.Config.parse(shared)), env, 1, "eager")()
    before, scheduled = ours.flat(), {"lr": 1e-2, "clip_param": 0.2, "dynamics_lr": 1e-3}
    size = rows["valid"].size
    ours.learn(rows, num_epochs=2, minibatch_size=size, scheduled=scheduled, objectives=("loss",))
    theirs.learn(rows, num_epochs=2, minibatch_size=size, scheduled=scheduled)
    start, size = ours.policy.parameters.range_under(AGENT)
    np.testing.assert_array_equal(ours.flat()[start : start + size], theirs.flat())
    np.testing.assert_array_equal(ours.flat()[start + size :], before[start + size :])
    assert not np.array_equal(ours.flat()[start : start + size], before[start : start + size])


def test_each_fit_is_followed_by_a_fixed_number_of_updates() -> None:
    with mbmpo_training() as training:
        fit = FitModel(
            training.running.trainee,
            replay_of(training),
            training.description.algorithm.config.dynamics,
            learning_starts=0,
        )
        updates = AfterFits(fit, 2)
        assert isinstance(updates.next_item(), Pending)
        fit.num_fits = 2
        assert [updates.next_item() for _ in range(4)] == [Delivered(number) for number in range(4)]
        assert isinstance(updates.next_item(), Pending)


def test_workers_collect_with_policies_adapted_to_each_task_in_turn() -> None:
    with mbmpo_training() as training:
        trainee = training.running.trainee
        agent = cast("AdaptablePolicy", cast("ModelBasedPolicy", trainee.policy).agent)
        batch = imagination_of(training)(0)
        send = SendAdapted(trainee, every=2, inner_steps=1, inner_lr=0.5, episodes=4)
        sent = []
        for _ in range(8):
            send(batch)
            sent.append(send.state()["sent"])
        assert sent[0] == []
        acting = trainee.learner.acting_flat()
        for round_, task in enumerate((0, 1, 2, 0)):
            ((worker, found),) = sent[2 * round_ + 1]
            own = batch.map(lambda leaf, start=8 * task: leaf[:, start : start + 4])
            assert worker == 0
            np.testing.assert_array_equal(found, adapted_acting(agent, acting, own, 0.5))


def test_env_steps_count_collected_steps_and_model_steps_count_imagined_ones() -> None:
    with mbmpo_training() as training:
        result = training.step()
        assert result["env_steps"] < 60
        assert result["model_steps"] > 100
        assert result["learner/dynamics/loss"] != 0


def test_a_resumed_run_continues_bit_for_bit(tmp_path: Path) -> None:
    with mbmpo_training() as one:
        one.step()
        checkpoint = one.save(tmp_path / "checkpoint")
        expected = one.step()
        weights = one.running.trainee.learner.flat()
    with rlrun.Training.restore(checkpoint) as other:
        result = other.step()
        for name in ("adaptation/return_after", "episode_return_mean", "model_steps", "dynamics/holdout_error"):
            assert result[name] == expected[name]
        np.testing.assert_array_equal(other.running.trainee.learner.flat(), weights)


def test_policies_with_continuous_actions_can_also_be_adapted() -> None:
    with rlrun.Training(
        "Pendulum-v1", rlrun.MBMPO(**{**SMALL, "dynamics": {**DYNAMICS, "reward": None}}), seed=100
    ) as training:
        assert np.isfinite(training.step()["adaptation/return_after"])


def test_the_setting_tasks_per_update_is_refused_because_each_network_is_one_task(wording) -> None:
    with wording.raised(SpecError):
        MBMPO.Config.parse({"tasks_per_update": 4})


def test_a_fit_interval_too_short_to_collect_enough_transitions_is_refused(wording) -> None:
    with wording.raised(SpecError, "dynamics.fit_interval", "20"):
        MBMPO.Config.parse({"dynamics": {"fit_interval": 5}})


def test_a_multi_agent_world_is_refused() -> None:
    with pytest.raises(UsageError, match="single-agent"):
        MBMPO(MBMPO.Config.parse({})).policy_in_world(None, None, 0)  # type: ignore[arg-type]
