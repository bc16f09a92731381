"""Rollout worker for tensor envs, and trainings with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor

from rlrun import A2C, APPO, DQN, GRPO, IPPO, PG, PPO, RLOO, TRPO, Training
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.envs.tensor_vector_env import FinalObservations, TensorStep
from rlrun.engine.envs.vector_env import BadReturn
from rlrun.engine.flow.operators.recomputation import state_values
from rlrun.engine.flow.sources.items import from_items
from rlrun.engine.functional.moments import Moments
from rlrun.engine.functional.reward_scale import UNSCALED, RewardScale
from rlrun.engine.learner.learner import last_batch_of
from rlrun.engine.learner.local_learner import LocalLearner
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.policy import Policy
from rlrun.engine.rollout.rewards import RewardSettings, RewardTransform
from rlrun.engine.rollout.tensor_rewards import TensorRewards
from rlrun.engine.rollout.tensor_worker import TensorRolloutWorker
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.training.assemble.description import Description
from rlrun.engine.training.assemble.policies import Policies

HERE = "tests.unit.engine.rollout.test_tensor_worker"

ACTIONS: dict[str, gymnasium.Space[Any]] = {
    "discrete": gymnasium.spaces.Discrete(2, start=1),
    "multi_discrete": gymnasium.spaces.MultiDiscrete([[2, 3], [4, 2]], start=[[0, 1], [2, 0]]),
    "multi_binary": gymnasium.spaces.MultiBinary([2, 3]),
}


class Counter:
    """Env whose observation is the number of the step in the episode; slot b's episodes end after b + 2 steps."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def __init__(
        self,
        num_envs: int,
        device: torch.device,
        ends: Literal["terminated", "truncated"] = "truncated",
        fault: str = "",
        *,
        finals: bool = True,
        saves: bool = True,
        masked: bool = False,
        seeds_episodes: bool = True,
        is_only_one: bool = False,
        actions: str = "discrete",
    ) -> None:
        self.action_space = ACTIONS[actions]
        self.seeds_episodes, self.is_only_one = seeds_episodes, is_only_one
        self.num_envs, self.device = num_envs, device
        self.ends, self.finals, self.saves, self.fault = ends, finals, saves, fault
        self.steps = torch.zeros(num_envs)
        if masked:
            mask = gymnasium.spaces.MultiBinary(2)
            self.observation_space = gymnasium.spaces.Dict({"count": type(self).observation_space, ACTION_MASK: mask})
        self.masked = masked

    def observed(self) -> Any:
        count = self.steps.clone()[:, None]
        if not self.masked:
            return count
        return {"count": count, ACTION_MASK: torch.tensor([[0, 1]] * self.num_envs, dtype=torch.int8)}

    def reset(self, *, seeds: Tensor | None = None, mask: Tensor | None = None) -> Any:
        self.steps = torch.zeros(self.num_envs) if mask is None else torch.where(mask, 0.0, self.steps)
        return self.observed()

    def step(self, actions: Tensor) -> Any:
        assert all(map(self.action_space.contains, actions.numpy()))
        assert not self.masked or (actions == 2).all()
        self.steps = self.steps + 1
        ended = self.steps >= torch.arange(self.num_envs) + 2
        finals = FinalObservations(ended, self.observed()) if self.finals else None
        rewards = 10 * self.steps
        self.steps = torch.where(ended, 0.0, self.steps)
        no = torch.zeros_like(ended)
        flags = (ended, no) if self.ends == "terminated" else (no, ended)
        step = TensorStep(self.observed(), rewards, *flags, finals)
        return FAULTS[self.fault](step) if self.fault else step

    def state(self) -> Mapping[str, Any] | None:
        return {"steps": self.steps.clone()} if self.saves else None

    def load_state(self, state: Mapping[str, Any]) -> Any:
        self.steps = torch.from_numpy(np.array(state["steps"]))
        return self.observed()

    def close(self) -> None:
        pass


FAULTS: dict[str, Any] = {
    "numpy": lambda step: step._replace(observations=step.observations.numpy()),
    "shape": lambda step: step._replace(rewards=step.rewards[:, None]),
    "dtype": lambda step: step._replace(terminateds=step.terminateds.float()),
    "double": lambda step: step._replace(observations=step.observations.double()),
    "device": lambda step: step._replace(rewards=step.rewards.to("meta")),
    "nan": lambda step: step._replace(rewards=step.rewards / 0 * 0),
    "tuple": lambda step: tuple(step),
}


def training(algorithm: Algorithm[Any], **env: Any) -> Training:
    missing = {"missing_final": env.pop("missing_final")} if "missing_final" in env else {}
    return Training({"tensors": f"{HERE}:Counter", "kwargs": env, **missing}, algorithm)


def small(kind: Any = PPO, **settings: Any) -> Algorithm[Any]:
    passes = {"num_epochs": 2, "minibatch_size": 4} if kind is PPO else {}
    sizes = {"num_envs_per_worker": 2, "train_batch_size": 10, "min_env_steps_per_iteration": 0}
    made: Algorithm[Any] = kind(**{**sizes, "model": {"hiddens": [8]}, **passes, **settings})
    return made


def worker_of(algorithm: Algorithm[Any], **env: Any) -> TensorRolloutWorker:
    """A worker with the initial weights of a training."""
    running = training(algorithm, **env).running
    worker = TensorRolloutWorker(running.workers.config)
    worker.follow(Orders({"default": running.trainee.weights()}))
    return worker


def test_a_fragment_continues_the_episodes_of_all_slots() -> None:
    worker = worker_of(small(), ends="terminated")
    rollout = worker.sample()
    batch = rollout.batches["default"]
    assert batch["obs"][:, :, 0].T.tolist() == [[0, 1, 0, 1, 0, 1], [0, 1, 2, 0, 1, 2]]
    assert batch["rewards"].T.tolist() == [[10, 20, 10, 20, 10], [10, 20, 30, 10, 20]]
    assert batch["terminateds"].T.tolist() == [[False, True] * 2 + [False], [False, False, True, False, False]]
    assert [(each.episode_return, each.length) for each in rollout.episodes] == [(30, 2), (60, 3), (30, 2)]
    assert rollout.env_steps == 10
    following = worker.sample()
    assert following.batches["default"]["obs"][:, :, 0].T.tolist() == [[1, 0, 1, 0, 1, 0], [2, 0, 1, 2, 0, 1]]
    assert [each.length for each in following.episodes] == [2, 3, 2, 3, 2]


def test_log_probabilities_and_values_match_the_numpy_policy() -> None:
    for model in ({"hiddens": [8]}, {"hiddens": [8], "shared_value": True}):
        algorithm = small(model=model, normalize_observations=True)
        running = training(algorithm).running
        worker = TensorRolloutWorker(running.workers.config)
        weights = running.trainee.weights()
        weights.filters["observations/"] = Moments(10.0, np.array([0.5]), np.array([4.0]))
        worker.follow(Orders({"default": weights}))
        batch = worker.sample().batches["default"]
        behavior = running.trainee.policy.behavior()
        behavior.load(weights)
        raw = np.array([[0, 1, 0, 1, 0, 1], [0, 1, 2, 0, 1, 2]], np.float32).T[..., None]
        expected = SampleBatch(obs=raw, actions=batch["actions"].numpy(), valid=np.ones((5, 2), bool))
        outputs = [behavior.outputs(row) for row in raw[:-1]]
        expected.update(outputs=np.stack(outputs), values=np.full((6, 2), np.nan, np.float32))
        behavior.collector.postprocess(expected)
        for name in ("obs", "logp", "values"):
            np.testing.assert_allclose(batch[name], expected[name], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("actions", ["multi_discrete", "multi_binary"])
def test_multi_discrete_and_multi_binary_actions_are_sampled_and_learned_from(actions: str) -> None:
    algorithm = small(num_envs_per_worker=64, train_batch_size=1280, minibatch_size=1280, compile=False)
    made = training(algorithm, actions=actions)
    worker = TensorRolloutWorker(made.running.workers.config)
    worker.follow(Orders({"default": made.running.trainee.weights()}))
    batch = worker.sample().batches["default"]
    found, behavior = batch["actions"].flatten(0, 1), made.running.trainee.policy.behavior()
    behavior.load(made.running.trainee.weights())
    outputs = np.concatenate([behavior.outputs(row) for row in batch["obs"][:-1].numpy()])
    space: Any = behavior.action_space
    expected = space.log_prob(outputs, found.numpy())
    np.testing.assert_allclose(batch["logp"].flatten(), expected, rtol=1e-5, atol=1e-6)
    kinds = found.unique(dim=0)
    assert len(kinds) == (2 * 3 * 4 * 2 if actions == "multi_discrete" else 2**6)  # each possible action occurs
    before = made.running.trainee.learner.flat()
    assert np.isfinite(made.step()["learner/policy_loss"])
    assert not np.array_equal(before, made.running.trainee.learner.flat())
    assert made.evaluate(2).lengths == [2, 3]


@pytest.mark.parametrize("core", ["lstm", "gru"])
def test_a_recurrent_policy_keeps_its_state_across_fragments_and_resets_it_for_each_episode(core: str) -> None:
    worker = worker_of(small(model={"hiddens": [8], "core": core, "core_width": 4}, seq_len=2))
    first, second = (
        map_tree(torch.clone, dict(worker.sample().batches["default"], weights_version=torch.zeros(()))) for _ in "ab"
    )
    policy, views = worker.config.policy, worker._actor._views
    obs = torch.cat([first["obs"][:-1], second["obs"]]).transpose(0, 1)
    starts = torch.cat([first["episode_starts"][:-1], second["episode_starts"]]).transpose(0, 1)
    assert starts[0].tolist() == [True, False] * 5 + [True]
    heads, _ = policy.network(views, {"obs": obs}, torch.zeros((2, first["state"].shape[-1])), starts)
    values = torch.cat([first["values"][:-1], second["values"]]).T
    np.testing.assert_allclose(values, heads["value"][..., 0].detach(), rtol=1e-5, atol=1e-6)


def test_a_truncated_step_bootstraps_from_its_final_observation() -> None:
    worker = worker_of(small())
    batch = worker.sample().batches["default"]
    assert batch["valid"].all()
    assert batch["finals"]["obs"][:, 0].tolist() == [2, 3, 2]
    values = worker._actor.values(torch.tensor([[2.0], [3.0]]), None, torch.zeros(2, dtype=torch.bool))["values"]
    assert batch["final_values"][1, 0] == batch["final_values"][3, 0] == values[0]
    assert batch["final_values"][2, 1] == values[1]


def test_without_a_final_observation_the_value_before_the_step_takes_its_place() -> None:
    batch = worker_of(small(), finals=False).sample().batches["default"]
    assert batch["valid"].all()
    assert torch.equal(batch["final_values"], batch["values"][:-1])


def test_truncated_steps_without_a_final_observation_can_be_left_out() -> None:
    batch = worker_of(small(), finals=False, missing_final="drop").sample().batches["default"]
    assert batch["valid"].T.tolist() == [[True, False] * 2 + [True], [True, True, False, True, True]]
    assert batch["truncateds"].T.tolist() == [[True, True] * 2 + [False], [False, True, True, False, False]]
    assert batch["final_values"][0, 0] == batch["values"][1, 0]
    assert batch["final_values"][1, 1] == batch["values"][2, 1]


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("numpy", "observations as a numpy ndarray"),
        ("shape", "rewards of shape (2, 1), not (2,)"),
        ("dtype", "terminateds of dtype torch.float32, not torch.bool"),
        ("double", "observations of dtype torch.float64, not torch.float32"),
        ("device", "rewards on meta, but the env is on cpu"),
        ("nan", "rewards with NaN"),
        ("tuple", "must return a TensorStep, not a tuple"),
    ],
)
def test_invalid_return_values_of_an_env_are_described(fault: str, found: str) -> None:
    with pytest.raises(BadReturn) as error:
        worker_of(small(), fault=fault).sample()
    assert found in str(error.value)


@pytest.mark.parametrize("scale", [True, False])
def test_rewards_are_scaled_as_by_the_numpy_implementation(scale: bool) -> None:
    draws, settings = (
        np.random.default_rng(0),
        RewardSettings(0.9, UNSCALED if scale else RewardScale(3.0, clip=0.5), scale),
    )
    numpy_form, tensor_form = RewardTransform(3, settings), TensorRewards(3, settings, torch.device("cpu"))
    for moments in (Moments.empty(()), Moments(5.0, np.array(0.3), np.array(2.0))):
        rewards, ends = draws.normal(size=(6, 3)), draws.random((6, 3)) < 0.3
        numpy_form.moments = moments
        tensor_form.load(moments)
        before, delta = numpy_form.measured(rewards, ends, np.ones_like(ends))
        expected = numpy_form.normalized(before, delta)
        found, seen = tensor_form(torch.from_numpy(rewards), torch.from_numpy(ends))
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        if scale:
            assert seen is not None
            np.testing.assert_allclose(seen, [delta["returns"].mean, delta["returns"].squares], rtol=1e-12)
        np.testing.assert_allclose(tensor_form.state()["returns"], numpy_form.state()["returns"], rtol=1e-12)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (PPO, {"normalize_observations": True, "normalize_rewards": True, "vf_clip_param": 0.2}),
        (PPO, {"recompute_advantages": True, "kl_penalty": {"target": 0.01}, "early_stop_kl": 0.5}),
        (
            PPO,
            {
                "lr": {"adaptive_kl": 0.01},
                "separate_grad_norms": True,
                "model": {"hiddens": [8], "shared_value": False},
            },
        ),
        (PPO, {"model": {"hiddens": [8], "core": "gru", "core_width": 4}, "seq_len": 2, "recompute_advantages": True}),
        (A2C, {"standardize_advantages": True}),
    ],
)
def test_ppo_and_a2c_learn_with_their_settings(kind: Any, settings: dict[str, Any]) -> None:
    made = training(small(kind, **settings), masked="seq_len" not in settings)
    before = made.running.trainee.learner.flat()
    first, second = made.step(), made.step()
    assert second["env_steps"] == 2 * first["env_steps"] == 20
    assert np.isfinite([value for name, value in second.items() if name.startswith("learner/")]).all()
    assert not np.array_equal(before, made.running.trainee.learner.flat())


def test_weights_and_recomputed_values_stay_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    made = training(small(recompute_advantages=True))
    made.step()
    learner = made.running.trainee.learner
    batch = learner.last_batch
    assert isinstance(batch, SampleBatch)
    rows = SampleBatch(obs=batch["obs"], valid=batch["valid"])
    values = learner.evaluate(state_values, rows)["values"]
    assert isinstance(values, Tensor)
    assert np.array_equal(learner.evaluate(state_values, rows.map(Tensor.numpy))["values"], values)
    monkeypatch.setattr(LocalLearner, "acting_flat", pytest.fail)
    made.step()


def test_an_update_from_tensors_matches_an_update_from_the_same_steps_in_numpy_arrays() -> None:
    algorithm = small(num_envs_per_worker=3, train_batch_size=24, minibatch_size=6, compile=False)
    tensors = Training({"tensors": "rlrun.toys:tensor_pendulum"}, algorithm)
    arrays = Training("Pendulum-v1", algorithm).running  # has the same seed and therefore the same initial weights
    worker = TensorRolloutWorker(tensors.running.workers.config)
    worker.follow(Orders({"default": tensors.running.trainee.weights()}))
    batch = worker.sample().batches["default"]
    tensors.step()
    columns = {name: batch[name].numpy() for name in COLUMNS}
    fragments = from_items([SampleBatch(columns, weights_version=np.zeros((8, 3), np.int32))])
    next(algorithm.learn(fragments, arrays.trainee))
    np.testing.assert_allclose(arrays.trainee.learner.flat(), tensors.running.trainee.learner.flat(), atol=2e-6)


COLUMNS = ("obs", "actions", "logp", "values", "rewards", "terminateds", "truncateds", "valid")


def test_a_resumed_training_continues_exactly_if_the_tensor_env_saves_its_state(tmp_path: Path) -> None:
    settings = {"normalize_rewards": True, "model": {"hiddens": [8], "core": "lstm", "core_width": 4}, "seq_len": 4}
    made = training(small(**settings))
    made.step()
    made.save(tmp_path / "saved")
    resumed = Training.restore(tmp_path / "saved", trust=True)
    for _ in range(2):
        expected, found = made.step(), resumed.step()
        assert {k: v for k, v in expected.items() if "time" not in k and "per_s" not in k} == {
            k: v for k, v in found.items() if "time" not in k and "per_s" not in k
        }
    assert np.array_equal(made.running.trainee.learner.flat(), resumed.running.trainee.learner.flat())


def test_if_a_tensor_env_saves_no_state_a_resumed_training_reports_the_episodes_it_starts_anew(tmp_path: Path) -> None:
    made = training(small(), saves=False)
    made.step()
    made.save(tmp_path / "saved")
    resumed = Training.restore(tmp_path / "saved", trust=True)
    assert resumed.running.env_slots_restarted == 2
    assert resumed.step()["env_steps"] == 20


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"num_workers": 1}, "config.num_workers"),
        ({"curiosity": {}}, "config.curiosity"),
        ({"model": {"views": {"stack": 2}}}, "config.model.views"),
        ({"model": {"autoregressive": True}}, "config.model.autoregressive"),
        ({"rollout_fragment_length": 2}, "train_batch_size (10)"),
    ],
)
def test_the_refusal_of_settings_that_need_experience_on_the_host_names_them(
    settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(UsageError) as error:
        training(small(**settings)).step()
    assert named in str(error.value)


@pytest.mark.parametrize("kind", [DQN, IPPO, PG, APPO, TRPO], ids=lambda kind: str(kind.__name__))
def test_planning_an_algorithm_whose_operators_or_policies_run_on_the_host_is_refused(kind: Any) -> None:
    env = EnvConfig.parse({"tensors": f"{HERE}:Counter"})
    with pytest.raises(UsageError, match=f"^{kind.name()} .*use ppo"):
        Description(env, Policies.alone(kind())).plan()
    for accepted in (PPO, A2C, GRPO, RLOO):
        Description(env, Policies.alone(accepted())).plan()


class ActorOnTheHost(ActorCriticPolicy):
    acts_on_device = False


class PPOOnTheHost(PPO):
    def policy(self, spaces: Spaces, seed: int) -> Policy:
        made = super().policy(spaces, seed)
        made.__class__ = ActorOnTheHost
        return made


def test_a_policy_that_acts_on_the_host_is_refused_even_if_its_policy_family_is_allowed() -> None:
    with pytest.raises(UsageError, match=r"^a ActorOnTheHost "):
        training(small(PPOOnTheHost, minibatch_size=4)).step()


@pytest.mark.parametrize("kind", [GRPO, RLOO])
def test_episodes_of_a_group_start_alike_and_their_advantages_compare_their_returns(kind: type[GRPO]) -> None:
    sizes: Any = {"num_envs_per_worker": 4, "group_size": 2, "rollout_fragment_length": 4, "train_batch_size": 16}
    algorithm = kind(**sizes, minibatch_size=16, min_env_steps_per_iteration=0, model={"hiddens": [8]})
    made = training(algorithm)
    with pytest.warns(UserWarning, match="truncated"):
        result = made.step()
    batch = last_batch_of(made.running.trainee.learner)
    assert batch is not None
    valid = batch["valid"].reshape(4, 4).T
    assert valid.sum(1).tolist() == [2, 3, 4, 4]  # the last slot's episode of five steps is truncated
    returns = np.array([[30.0, 60.0], [100.0, 100.0]])
    expected = returns - returns.mean(1, keepdims=True)
    expected = 2 * expected if kind.leave_one_out else expected / (returns.std(1, keepdims=True) + 1e-6)
    assert batch["advantages"].reshape(4, 4)[0] == pytest.approx(expected.ravel(), rel=1e-6)
    assert result["equal_groups"] == 0.5
    with pytest.raises(UsageError):
        training(algorithm, seeds_episodes=False).step()


def test_an_evaluation_does_not_use_the_env_slots_of_training() -> None:
    made = training(small())
    made.step()
    found = made.evaluate(4)
    assert found.returns == [30.0, 60.0, 100.0, 150.0]
    assert found.lengths == [2, 3, 4, 5]
    assert made.step()["env_steps"] == 20
