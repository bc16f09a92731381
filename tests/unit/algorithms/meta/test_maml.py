"""MAML: what a fragment contains, what is learned from it, that it helps, and bit-exact resumes."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

import rlrun
from rlrun.algorithms.meta.adaptation import AdaptablePolicy, adapted_flat
from rlrun.algorithms.meta.adapting_worker import AdaptingWorker, after_first_end
from rlrun.algorithms.meta.maml import MAML
from rlrun.algorithms.meta.tasks import task_rows
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.rewards import RewardSettings
from rlrun.engine.rollout.rollout import DEFAULT_POLICY
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_config import WorkerConfig
from tests.policies import plain_policy
from tests.rounding import rounding_error

GOALS = {"id": "rlrun.toys:PointGoals", "kwargs": {"episode_len": 8}}
SMALL: dict[str, Any] = {
    "min_env_steps_per_iteration": 0,
    "num_envs_per_worker": 3,
    "rollout_fragment_length": 8,
    "tasks_per_update": 2,
    "inner_lr": 0.3,
    "num_epochs": 2,
    "model": {"hiddens": [8], "log_std_init": -0.7},
}


def maml_training(**settings: Any) -> rlrun.Training:
    return rlrun.Training(GOALS, rlrun.MAML(**{**SMALL, **settings}), seed=100)


def worker_of(algorithm: MAML, policy: AdaptablePolicy, worker_index: int = 1) -> AdaptingWorker:
    config = WorkerConfig(
        env=EnvConfig.parse(GOALS),
        num_envs=3,
        fragment_length=8,
        seed=4,
        behaviors={DEFAULT_POLICY: policy.behavior()},
        rewards={DEFAULT_POLICY: RewardSettings(0.99)},
        worker_index=worker_index,
    )
    return AdaptingWorker(pickle.loads(pickle.dumps(algorithm.worker_config(config))))


def test_a_fragment_is_one_task_and_the_adapted_policy_acts_in_its_second_half() -> None:
    with maml_training() as training:
        meta, spaces = training.description.policies.first, training.running.trainee.spaces
    assert isinstance(meta, MAML)
    policy = meta.policy(spaces, 1)
    assert isinstance(policy, AdaptablePolicy)
    worker = worker_of(meta, policy)
    flat = policy.parameters.gather(policy.module)
    worker.follow(Orders({DEFAULT_POLICY: Weights(7, flat.numpy())}))
    goals = []
    for fragment in range(2):
        rollout = worker.sample()
        batch = rollout.batches[DEFAULT_POLICY]
        assert (rollout.fragment, rollout.weights_versions) == (fragment, {DEFAULT_POLICY: 7})
        assert batch["valid"].shape == (8, 6)
        assert batch["valid"].all()
        assert not batch["obs"][0].any()
        assert len(rollout.episodes) == 3
        goals.append(the_goal(batch))
        before, after = (
            SampleBatch({name: column[:, part] for name, column in batch.steps().items()})
            for part in (slice(0, 3), slice(3, 6))
        )
        returns = sorted(episode.episode_return for episode in rollout.episodes)
        np.testing.assert_allclose(returns, sorted(after["rewards"].sum(0)), rtol=rounding_error(8))
        moved = adapted_flat(policy, flat, before.rows(1).map(torch.from_numpy), 0.3)
        for part, acted in ((before, flat), (after, moved)):
            rows = part.rows(1).map(torch.from_numpy)
            outputs = policy.outputs(policy.parameters.views(acted), rows)
            logp = outputs.run(outputs.views, rows).distribution.log_prob(rows["actions"])
            near = rounding_error(2 + 8)
            torch.testing.assert_close(logp, rows["logp"], rtol=near, atol=near)
    assert np.abs(goals[0] - goals[1]).max() > 0.01
    again = worker_of(meta, policy)
    again.follow(Orders({DEFAULT_POLICY: Weights(7, flat.numpy())}))
    assert again.load_state(pickle.loads(pickle.dumps(worker.state()))) == 0
    expected, found = worker.sample().batches[DEFAULT_POLICY], again.sample().batches[DEFAULT_POLICY]
    for name, column in expected.items():
        np.testing.assert_array_equal(found[name], column, err_msg=name)


def the_goal(batch: SampleBatch) -> np.ndarray:
    """Returns the goal that explains all rewards of a batch: -r = |p|^2 - 2 p g + |g|^2."""
    places, costs = batch["obs"][1:].reshape(-1, 2).astype(np.float64), -batch["rewards"].reshape(-1)
    features = np.concatenate([-2 * places, np.ones((len(places), 1))], 1)
    found, *_ = np.linalg.lstsq(features, costs - (places**2).sum(1), rcond=None)
    goal: np.ndarray = found[:2]
    np.testing.assert_allclose(((places - goal) ** 2).sum(1), costs, atol=rounding_error(4))
    return goal


def test_steps_after_the_first_end_of_an_episode_in_a_column_are_marked() -> None:
    ends = np.array([[0, 1], [1, 0], [0, 0], [1, 1]], np.bool_)
    assert after_first_end(ends).tolist() == [[False, False], [False, True], [True, True], [True, True]]


def test_a_row_holds_one_task_with_phases_episodes_and_steps_in_order() -> None:
    """2 tasks with 2 phases of 3 episodes of 4 steps; the number in a cell encodes task, phase, episode and step."""
    numbers = np.arange(48).reshape(2, 2, 3, 4).transpose(3, 0, 1, 2).reshape(4, 12)
    columns = {name: numbers.astype(np.float32) for name in ("actions", "logp", "advantages")}
    closed = np.concatenate([numbers, numbers[:1]])[..., None]
    rows = task_rows(SampleBatch(obs=closed, valid=numbers >= 0, rewards=numbers, **columns), 6)
    assert "rewards" not in rows
    np.testing.assert_array_equal(rows["logp"], np.arange(48).reshape(2, 24))
    np.testing.assert_array_equal(rows["obs"][..., 0], rows["logp"])


@pytest.mark.parametrize("settings", [{}, {"inner_steps": 2}])
def test_the_learner_recomputes_the_same_adapted_policies_as_the_worker(settings: dict[str, Any]) -> None:
    with maml_training(num_epochs=1, **settings) as training:
        result = training.step()
    assert abs(result["learner/kl"]) < 1e-6
    assert result["learner/clip_fraction"] == 0
    assert result["env_steps"] == 8 * 3 * 2 * (settings.get("inner_steps", 1) + 1)


@pytest.mark.parametrize("first_order", [False, True])
def test_the_meta_gradient_passes_through_the_adaptation_unless_it_is_first_order(first_order: bool) -> None:
    policy = plain_policy(AdaptablePolicy, Box(-1, 1, (2,)), Discrete(3), ModelConfig(hiddens=(4,)), seed=1)
    generator = torch.Generator().manual_seed(0)
    batch = SampleBatch(
        obs=torch.randn(2, 10, 2, generator=generator),
        actions=torch.randint(3, (2, 10), generator=generator),
        logp=torch.full((2, 10), -1.0),
        advantages=torch.randn(2, 10, generator=generator),
        valid=torch.rand(2, 10, generator=generator) < 0.8,
    )
    flat = policy.parameters.gather(policy.module).requires_grad_()

    def surrogate(theta: torch.Tensor, task: int, steps: slice) -> torch.Tensor:
        rows = batch.map(lambda column: column[task : task + 1, steps])
        outputs = ActorCriticPolicy.outputs(policy, policy.parameters.views(theta), rows)
        gains = (outputs.distribution.log_prob(rows["actions"]) - rows["logp"]).exp() * rows["advantages"]
        mean: torch.Tensor = gains[rows["valid"]].mean()
        return -mean

    losses = []
    for task in range(2):
        (gradient,) = torch.autograd.grad(surrogate(flat, task, slice(5)), flat, create_graph=True)
        moved = flat - 0.3 * (gradient.detach() if first_order else gradient)
        losses.append(surrogate(moved, task, slice(5, 10)))
    (expected,) = torch.autograd.grad(torch.stack(losses).mean(), flat)
    outputs = policy.outputs(policy.parameters.views(flat), batch)
    algorithm = MAML(MAML.Config.parse({**SMALL, "first_order": first_order}))
    loss = algorithm.loss(outputs, batch, {"clip_param": torch.tensor(100.0)})
    (found,) = torch.autograd.grad(loss.total, flat)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_after_a_little_meta_learning_a_single_adaptation_step_leads_to_the_goal() -> None:
    """Without knowing the goal, it is best to stay, which costs 1/6 per step, or 1.33 in eight steps."""
    learns = {"num_envs_per_worker": 8, "tasks_per_update": 6, "lr": 1e-2, "num_epochs": 3, "max_grad_norm": None}
    with maml_training(**learns) as training:
        results = [training.step() for _ in range(12)][-6:]
    after = np.mean([result["adaptation/return_after"] for result in results])
    assert after > -0.9
    assert after > np.mean([result["adaptation/return_before"] for result in results]) + 0.3


def test_a_resumed_run_continues_bit_for_bit(tmp_path: Path) -> None:
    with maml_training() as one:
        one.step()
        checkpoint = one.save(tmp_path / "checkpoint")
        expected = one.step()["adaptation/return_after"]
        weights = one.running.trainee.learner.flat()
    with rlrun.Training.restore(checkpoint) as other:
        assert other.step()["adaptation/return_after"] == expected
        np.testing.assert_array_equal(other.running.trainee.learner.flat(), weights)


@pytest.mark.parametrize("length", [8, 21])
def test_only_steps_of_used_episodes_count_as_env_steps_even_after_a_resume(tmp_path: Path, length: int) -> None:
    env = {"id": "CartPole-v1", "max_episode_steps": 8}
    with rlrun.Training(env, rlrun.MAML(**{**SMALL, "rollout_fragment_length": length}), seed=100) as one:
        one.step()
        checkpoint = one.save(tmp_path / "checkpoint")
        expected = one.step()
    with rlrun.Training.restore(checkpoint) as other:
        found = other.step()
    assert found["env_steps"] == expected["env_steps"] == 2 * 2 * 2 * 3 * 8  # iterations, tasks, phases, slots, steps


def test_step_info_columns_are_recorded() -> None:
    lanes = {"id": "rlrun.toys:TwoLanes", "columns": ["cost"]}
    with rlrun.Training(lanes, rlrun.MAML(**{**SMALL, "rollout_fragment_length": 40}), seed=100) as training:
        result = training.step()
    assert np.isfinite(result["adaptation/return_after"])
    assert result["episode_columns/cost_mean"] > 0.0


def test_maml_supports_nested_observations_masks_and_nested_actions() -> None:
    with rlrun.Training("rlrun.toys:MaskedConsole", rlrun.MAML(**SMALL), seed=100) as training:
        assert np.isfinite(training.step()["adaptation/return_after"])


def test_a_multi_agent_world_is_refused() -> None:
    algorithm = MAML(MAML.Config.parse({}))
    with pytest.raises(UsageError, match="single-agent"):
        algorithm.policy_in_world(None, None, 0)  # type: ignore[arg-type]
