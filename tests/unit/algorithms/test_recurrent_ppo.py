"""PPO with a recurrent network: rows of sequences, exact resumes, and a task that needs memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rlrun
from rlrun.algorithms.ppo import PPO, PPOConfig
from rlrun.engine.data.learning_rows import sequence_rows
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.learner.local_learner import LocalLearner
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.training.assemble.learner_factory import AlgorithmLearnerFactory
from tests.rounding import rounding_error

MODEL = {"hiddens": [8], "core": "lstm", "core_width": 6}
SMALL = {
    "model": MODEL,
    "num_envs_per_worker": 4,
    "train_batch_size": 160,
    "min_env_steps_per_iteration": 0,
    "minibatch_size": 48,
    "seq_len": 12,
    "num_epochs": 2,
    "compile": False,
}
SCHEDULED = {"lr": 1e-2, "clip_param": 0.2, "entropy_coeff": 0.01}


def learner_of(**config: Any) -> LocalLearner:
    algorithm = PPO(PPOConfig.parse({**SMALL, **config}))
    return AlgorithmLearnerFactory(algorithm, EnvConfig.parse("CartPole-v1"), seed=3, update_executor="eager")()


def batch_with_a_start(length: int, valid: np.ndarray | None = None, state_size: int = 24) -> SampleBatch:
    """A batch [length, 3] of steps, with the start of an episode in the middle of the second slot."""
    rng, shape = np.random.default_rng(0), (length, 3)
    starts = np.zeros(shape, np.bool_)
    starts[length // 2, 1] = True
    numbers = {name: rng.normal(size=shape).astype(np.float32) for name in ("values", "advantages", "value_targets")}
    return SampleBatch(
        obs=rng.normal(size=(*shape, 4)).astype(np.float32),
        actions=rng.integers(0, 2, shape),
        logp=np.log(rng.uniform(0.3, 0.7, shape)).astype(np.float32),
        episode_starts=starts,
        state=rng.normal(size=(*shape, state_size)).astype(np.float32),
        valid=np.ones(shape, np.bool_) if valid is None else valid,
        **numbers,
    )


def parameters_after(rows: SampleBatch, **config: Any) -> np.ndarray:
    learner, length = learner_of(**config), rows["valid"].shape[1]
    learner.learn(rows, num_epochs=2, minibatch_size=2 * length, scheduled=SCHEDULED)
    flat: np.ndarray = learner.flat()
    assert not np.array_equal(flat, learner_of(**config).flat())
    return flat


def test_garbage_in_cells_without_a_step_does_not_affect_the_update() -> None:
    valid = np.ones((10, 3), np.bool_)
    valid[4, 0] = valid[7:, 2] = False
    batch, other = batch_with_a_start(10, valid), batch_with_a_start(10, valid)
    for column in other.values():
        if column.dtype == np.float32:
            column[~valid] = np.nan
    other["episode_starts"][~valid] = True
    np.testing.assert_array_equal(parameters_after(sequence_rows(other, 4)), parameters_after(sequence_rows(batch, 4)))


def test_padding_the_ends_of_rows_does_not_change_the_update() -> None:
    batch = batch_with_a_start(5)
    alone = learner_of()
    padded = learner_of()
    for learner, length in ((alone, 5), (padded, 8)):
        learner.learn(sequence_rows(batch, length), num_epochs=1, minibatch_size=3 * length, scheduled=SCHEDULED)
    assert (alone.last_batch["valid"].shape, padded.last_batch["valid"].shape) == ((3, 5), (3, 8))
    np.testing.assert_allclose(padded.flat(), alone.flat(), atol=rounding_error(3 * 8))
    assert padded.take_statistics() == pytest.approx(alone.take_statistics(), abs=rounding_error(3 * 8))


def test_gradients_of_microbatches_of_rows_add_up_to_the_gradient_of_the_minibatch() -> None:
    rows = sequence_rows(batch_with_a_start(8), 4)
    np.testing.assert_allclose(
        parameters_after(rows, microbatch_size=4), parameters_after(rows), atol=rounding_error(2 * 4 + 4)
    )


def test_gradients_flow_back_to_the_start_of_the_row_or_of_the_episode() -> None:
    policy = learner_of().policy
    rows = sequence_rows(batch_with_a_start(6), 6).map(torch.from_numpy)
    rows["obs"].requires_grad_()
    outputs = policy.outputs(policy.parameters.views(policy.parameters.gather(policy.module)), rows)
    last = outputs.values[:, -1].sum() + outputs.distribution.outputs[:, -1].sum()
    (gradient,) = torch.autograd.grad(last, rows["obs"])
    assert gradient[[0, 2]].abs().amax(-1).min() > 0
    assert not gradient[1, :3].any()
    assert gradient[1, 3:].abs().amax(-1).min() > 0


@pytest.mark.usefixtures("traced_updates")
@pytest.mark.parametrize("core", ["gru", "gtrxl"])
def test_the_traced_graph_matches_the_eager_update(core: str) -> None:
    flats = []
    for is_compiled in (False, True):
        model = {"hiddens": [4], "core": core, "core_width": 4, "shared_value": True}
        short = {"model": model, "seq_len": 2, "minibatch_size": 16, "train_batch_size": 32, "num_epochs": 1}
        with rlrun.Training("CartPole-v1", rlrun.PPO(**{**SMALL, **short, "compile": is_compiled}), seed=2) as training:
            training.step()
            assert training.running.trainee.learner.update_executor == ("compiled" if is_compiled else "eager")
            flats.append(training.running.trainee.learner.flat())
    np.testing.assert_allclose(flats[1], flats[0], atol=rounding_error(32))


@pytest.mark.parametrize("shared", [False, True])
def test_recorded_values_match_those_of_whole_episodes_unrolled_however_they_end_or_continue(shared: bool) -> None:
    env = {"id": "CartPole-v1", "max_episode_steps": 15}
    model = {**MODEL, "shared_value": shared}
    with rlrun.Training(
        env, rlrun.PPO(**{**SMALL, "model": model, "normalize_observations": True}), seed=1
    ) as training:
        training.step()  # then the filter has statistics, and some episodes continue in the next fragment
        workers = training.running.workers
        workers.started.request(0)
        (rollout,) = workers.started.arrived()
        batch = rollout.batches["default"]
        policy = training.running.trainee.learner.policy
        views = policy.parameters.views(torch.from_numpy(training.running.trainee.learner.flat()))
        length = len(batch["valid"])
        starts = np.concatenate([batch["episode_starts"], np.zeros((1, 4), np.bool_)])
        rows = [torch.from_numpy(np.ascontiguousarray(np.moveaxis(leaf, 0, 1))) for leaf in (batch["obs"], starts)]
        heads, _ = policy.network(views, {"obs": rows[0]}, torch.from_numpy(batch["state"][0]), rows[1])
        counts = np.ones((length + 1, 4), np.bool_)
        counts[-1] = batch["valid"][-1]  # nothing after a final observation counts
        expected = heads["value"][..., 0].detach().numpy().T
        np.testing.assert_allclose(batch["values"][counts], expected[counts], atol=rounding_error(4 + 8 + 6))
        finals = ~batch["valid"]
        assert finals[1:].sum() > 4
        assert batch["truncateds"].any()
        assert batch["terminateds"].any()


@pytest.mark.parametrize("core", ["lstm", "gtrxl"])
def test_a_resumed_run_learns_and_acts_exactly_like_an_uninterrupted_one(core: str, tmp_path: Path) -> None:
    model = {**MODEL, "core": core, "gtrxl": {"heads": 2, "memory_len": 4}}
    with rlrun.Training(
        "CartPole-v1", rlrun.PPO(**{**SMALL, "model": model, "normalize_observations": True}), seed=3
    ) as one:
        for _ in range(2):
            one.step()
        checkpoint = one.save(tmp_path / "checkpoint")
        expected = [one.step() for _ in range(3)]
        weights = one.running.trainee.learner.flat()
    with rlrun.Training.restore(checkpoint) as other:
        found = [other.step() for _ in range(3)]
        np.testing.assert_array_equal(other.running.trainee.learner.flat(), weights)
    names = ("env_steps", "sgd_steps", "episode_return_mean", "learner/policy_loss", "learner/value_loss")
    assert [[row[name] for name in names] for row in found] == [[row[name] for name in names] for row in expected]
    # 40 steps of each env make 4 rows of 12, the last one padded, and 16 rows make 4 minibatches of 4.
    assert expected[0]["sgd_steps"] == 3 * 2 * 4


def test_only_recurrent_policies_recall_a_cue_even_when_asked_for_one_action_at_a_time() -> None:
    cue = {"id": "rlrun.toys:CueRecall", "kwargs": {"delay": 3}}
    config = {
        "num_envs_per_worker": 16,
        "train_batch_size": 512,
        "minibatch_size": 128,
        "seq_len": 8,
        "num_epochs": 4,
        "lr": [[0, 1e-2], [4000, 1e-3]],
        "compile": False,
    }
    for core, low, high in ((None, 0.35, 0.65), ("gru", 0.95, 1.0), ("gtrxl", 0.95, 1.0)):
        model = {"hiddens": [16], "core": core, "core_width": 16, "shared_value": True}
        with rlrun.Training(cue, rlrun.PPO(**{**config, "model": model}), seed=100) as training:
            while training.step()["env_steps"] < 4000:
                pass
            assert low <= training.evaluate(200).mean <= high
            if core is not None:
                for _ in range(3):
                    for shown in (1.0, -1.0):
                        asked = [shown, 0.0, 0.0, 0.0]
                        actions = [training.act(np.float32([x]), episode_start=i == 0) for i, x in enumerate(asked)]
                        assert actions[-1] == int(shown == 1.0)


def test_minibatches_that_split_a_sequence_are_refused(wording) -> None:
    with wording.raised(SpecError, "minibatch_size", "seq_len", "64"):
        PPOConfig(model={"core": "gru"}, seq_len=20)
    assert PPOConfig(seq_len=20).minibatch_size == 64  # without a core, there are no sequences


def test_a_custom_network_with_a_core_is_refused(wording) -> None:
    with wording.raised(SpecError):
        PPOConfig(model={"core": "gru", "module": "my_lab.nets:Net"})


def test_the_plan_of_a_recurrent_policy_gives_its_sequence_length() -> None:
    def settings_of_training(**config: Any) -> dict[str, Any]:
        plan = rlrun.Training("CartPole-v1", rlrun.PPO(**config)).description.plan().describe()
        (found,) = [info.settings for info in plan if info.name == "TrainOnBatch"]
        return dict(found)

    assert settings_of_training(model={"core": "lstm"})["seq_len"] == 16
    assert "seq_len" not in settings_of_training()
