"""DAgger: the learner's states are labeled, the expert acts with the probability beta, experts of both kinds."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import rlrun
from rlrun.algorithms.dagger.dagger import labelled
from rlrun.algorithms.dagger.distilling import DAggerPolicy
from rlrun.algorithms.dagger.settings import EXPERT_ACTIONS, DAggerConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import SpecError, TrainingFailed, UsageError
from rlrun.engine.policy.action_spaces.discrete import Categorical
from rlrun.engine.policy.weights import Weights
from rlrun.engine.training.training import Training
from rlrun.toys.scripted_players import balance_pole
from tests.results import numbers

HERE = "tests.unit.algorithms.dagger.test_dagger"
BALANCE = "rlrun.toys:balance_pole"
SMALL = {
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 40,
    "minibatch_size": 16,
    "training_intensity": 0.25,
    "min_env_steps_per_iteration": 80,
    "model": {"hiddens": [8]},
}
PUSH = Spaces(gymnasium.spaces.Box(-9, 9, (2,), np.float32), gymnasium.spaces.Box(-2, 2, (1,), np.float32))


def push_back(observation: Any) -> Any:
    return np.array([-observation[0] / 9], np.float32)


def give_up(observation: Any) -> int:
    raise RuntimeError("no idea")


def always_seven(observation: Any) -> int:
    return 7


def collected(training: Training) -> SampleBatch:
    """Returns the next fragment of the training's worker."""
    workers = training.running.workers
    workers.started.request(workers.indices[0])
    (rollout,) = workers.started.arrived()
    fragment: SampleBatch = rollout.batches["default"]
    return fragment


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_the_expert_labels_every_state_and_acts_in_a_fraction_beta_of_states(beta: float) -> None:
    policy = DAggerPolicy(PUSH, DAggerConfig.parse({"expert": f"{HERE}:push_back", "model": {"hiddens": [8]}}), 0)
    behavior = policy.behavior()
    flat = policy.parameters.gather(policy.module).numpy()
    behavior.load(Weights(0, flat, filters={}, env_steps=0, schedules={"beta": beta}))
    generator, record = np.random.default_rng(0), behavior.collector.allocate(1, 1_000)
    observations = generator.uniform(-9, 9, (1_000, 2)).astype(np.float32)
    starts = np.ones(1_000, np.bool_)
    taken = behavior.act(observations, behavior.noise_source.noise(generator, 1, 1_000)[0], record, 0, starts)
    labels = -observations[:, :1] / 18  # the env's bound of 2 is 1 in the policy's units
    np.testing.assert_allclose(record[EXPERT_ACTIONS][0], labels, rtol=1e-6)
    is_experts = np.isclose(taken, 2 * labels).all(1)
    np.testing.assert_allclose(taken, (2 * record["actions"][0]).clip(-2, 2), rtol=1e-6)
    assert is_experts.mean() == pytest.approx(beta, abs=0.05)


def test_states_come_from_the_learner_and_labels_from_the_expert() -> None:
    with Training("CartPole-v1", rlrun.DAgger(**{**SMALL, "expert": BALANCE, "beta": 0.0}), seed=100) as training:
        fragment = collected(training)
    valid = fragment["valid"]
    asked = np.array([balance_pole(observation) for observation in fragment["obs"][:-1][valid]])
    np.testing.assert_array_equal(fragment[EXPERT_ACTIONS][valid], asked)
    moved = fragment["obs"][1:, :, 1] > fragment["obs"][:-1, :, 1]  # a push to the right raises the velocity
    steps = valid & ~fragment["terminateds"]
    np.testing.assert_array_equal(moved[steps], fragment["actions"][steps] == 1)
    assert 0.2 < (fragment["actions"][valid] != asked).mean() < 0.8  # an untrained learner often disagrees


def test_the_learner_is_trained_on_the_experts_labels() -> None:
    batch = labelled(SampleBatch(obs=np.zeros(3), actions=np.array([0, 0, 1]), expert_actions=np.array([1, 0, 0])))
    assert (batch["actions"] == [1, 0, 0]).all()
    assert batch.keys() == {"obs", "actions"}


def test_the_loss_is_the_negative_log_likelihood_of_valid_labels() -> None:
    outputs: Any = SimpleNamespace(distribution=Categorical(torch.tensor([[[0.0, math.log(3)]], [[5.0, 0.0]]])))
    batch = SampleBatch(actions=torch.tensor([[1], [1]]), valid=torch.tensor([[True], [False]]))
    assert rlrun.DAgger().loss(outputs, batch, {}).total.item() == pytest.approx(-math.log(3 / 4))


def test_a_checkpoint_can_serve_as_the_expert(tmp_path: Path) -> None:
    settings = {"train_batch_size": 64, "minibatch_size": 64, "min_env_steps_per_iteration": 0}
    with Training("CartPole-v1", rlrun.PPO(**settings, normalize_observations=True), seed=100) as teacher:
        teacher.step()
        saved = teacher.save(tmp_path / "teacher")
        with Training("CartPole-v1", rlrun.DAgger(**{**SMALL, "expert": str(saved)}), seed=1) as training:
            fragment = collected(training)
        valid = fragment["valid"]
        policy = teacher.acting.policy()
        asked = [policy.act(observation) for observation in fragment["obs"][:-1][valid]]
    np.testing.assert_array_equal(fragment[EXPERT_ACTIONS][valid], asked)
    np.testing.assert_array_equal(fragment["actions"][valid], asked)  # beta is 1 at first


def test_a_recurrent_expert_sees_executed_actions_and_keeps_its_memory_across_a_resume(tmp_path: Path) -> None:
    settings = {"train_batch_size": 64, "minibatch_size": 64, "min_env_steps_per_iteration": 0, "lr": 0.3}
    model = {"core": "gru", "core_width": 4, "hiddens": [4], "views": {"prev_actions": 1, "prev_rewards": 1}}
    with Training("CartPole-v1", rlrun.PPO(**settings, model=model), seed=100) as teacher:
        teacher.step()
        saved = teacher.save(tmp_path / "teacher")
        config = {**SMALL, "num_envs_per_worker": 1, "expert": str(saved), "beta": 0.0}
        with Training("CartPole-v1", rlrun.DAgger(**config), seed=1) as training:
            fragment = collected(training)
        policy, memory, before = teacher.acting.policy(), None, (0.0, None)
        for t in np.flatnonzero(fragment["valid"][:, 0]):
            if t and not fragment["valid"][t - 1, 0]:
                memory, before = None, (0.0, None)
            seen = fragment["obs"][t, 0]
            asked, memory = policy.act_with_memory(memory, seen, prev_reward=before[0], prev_action=before[1])
            assert fragment[EXPERT_ACTIONS][t, 0] == asked
            before = fragment["rewards"][t, 0], fragment["actions"][t, 0]
    with Training("CartPole-v1", rlrun.DAgger(**config), seed=1) as one:
        one.step()
        checkpoint = one.save(tmp_path / "checkpoint")
        expected = numbers(one.step())
    with Training.restore(checkpoint, trust=True) as other:
        assert numbers(other.step()) == expected


QUESTIONER = "rlrun.toys:RandomQuestioner"


def test_an_expert_class_makes_runs_and_mid_episode_resumes_reproducible(tmp_path: Path) -> None:
    config = {**SMALL, "expert": QUESTIONER, "beta": 1.0, "num_envs_per_worker": 3, "rollout_fragment_length": 17}
    env = "rlrun.toys:TwentyQuestions"

    def steps(training: Training, number: int) -> list[Any]:
        return [numbers(training.step()) for _ in range(number)]

    with Training(env, rlrun.DAgger(**config), seed=1) as training:
        expected = steps(training, 2)
        saved = training.save(tmp_path / "saved")  # in the middle of dialogues
        expected += steps(training, 2)
    with Training(env, rlrun.DAgger(**config), seed=1) as training:
        assert steps(training, 4) == expected
    with Training(env, rlrun.DAgger(**config), seed=2) as training:
        assert steps(training, 4) != expected
    with Training.restore(saved) as training:
        assert steps(training, 2) == expected[2:]


@pytest.mark.parametrize(
    ("expert", "error", "words"),
    [
        (
            None,
            UsageError,
            "config.expert is missing: set it to a function or a checkpoint that supplies the expert's actions",
        ),
        (f"{HERE}:push_bach", UsageError, r"the expert '.*' does not exist: .* has no 'push_bach'; .*push_back"),
        (f"{HERE}:give_up", TrainingFailed, "(?s)expert .*give_up raised:.*no idea"),
        (f"{HERE}:always_seven", TrainingFailed, r"must return an action in Discrete\(2\), got 7"),
    ],
)
def test_missing_or_unusable_experts_are_reported(expert: str | None, error: type[Exception], words: str) -> None:
    with (
        Training("CartPole-v1", rlrun.DAgger(**{**SMALL, "expert": expert}), seed=0) as training,
        pytest.raises(error, match=words),
    ):
        training.step()


def test_a_resumed_run_continues_bit_for_bit(tmp_path: Path) -> None:
    config = {**SMALL, "expert": BALANCE, "beta": [[0, 1.0], [150, 0.0]], "normalize_observations": True}
    with Training("CartPole-v1", rlrun.DAgger(**config), seed=100) as one:
        one.step()
        checkpoint = one.save(tmp_path / "checkpoint")
        expected = [numbers(one.step()) for _ in range(2)]
    with Training.restore(checkpoint, trust=True) as other:
        assert [numbers(other.step()) for _ in range(2)] == expected
    assert expected[1]["learner/log_prob"] > math.log(0.5)
    assert [result["learner/beta"] for result in expected] == [0.0, 0.0]


def test_prioritized_sampling_of_labels_is_refused(wording) -> None:
    with wording.raised(SpecError):
        DAggerConfig.parse({"replay": {"sampling": "prioritized"}})
