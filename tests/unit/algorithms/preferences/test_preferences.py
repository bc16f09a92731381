"""Preferences: Bradley-Terry noise, whole episodes, reward model, the penalty of RLHF, DPO's loss."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rlrun
from rlrun.algorithms.preferences.comparisons import EPISODE_ENDS, PREFERENCE, Comparisons, compared, preferred
from rlrun.algorithms.preferences.dpo import DPO, Compare
from rlrun.algorithms.preferences.rlhf import ModelRewards
from rlrun.algorithms.preferences.whole_episodes import WholeEpisodes
from rlrun.engine.checkpoint.format import read_checkpoint
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.flow.operators.advantages import ComputeAdvantages
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.policy.action_spaces.discrete import Categorical
from rlrun.engine.rollout.demonstrating import demonstrate_to_set
from rlrun.engine.training.save import saved_state
from rlrun.engine.training.training import Training
from rlrun.toys.twenty_questions import RandomQuestioner

DIALOGUES = "rlrun.toys:TwentyQuestions"
MODEL = {"hiddens": [8], "core": "gru", "core_width": 8}
SMALL = {
    "num_envs_per_worker": 4,
    "seq_len": 28,
    "train_batch_size": 224,
    "minibatch_size": 112,
    "num_epochs": 1,
    "min_env_steps_per_iteration": 100,
    "model": MODEL,
    "compile": False,
}


def written(folder: Path, lengths: list[int]) -> DataSet:
    """Writes a set of episodes whose returns and observations are their length."""
    with SetWriter(folder, gymnasium.spaces.Box(0, 99, (1,), np.float32), gymnasium.spaces.Discrete(2)) as writer:
        for length in lengths:
            ends = np.arange(1, length + 1) == length
            columns = {"actions": ends * 1, "rewards": np.ones(length), "terminateds": ends, "truncateds": ends & False}
            writer.add_episode({"obs": np.full((length + 1, 1), length, np.float32), **columns})
    return DataSet(folder)


def test_preferences_follow_a_logistic_function_of_the_difference_in_returns() -> None:
    generator = np.random.default_rng(0)
    for difference, temperature in ((0.3, 0.1), (-0.5, 1.0), (0.0, 0.1)):
        drawn = preferred(np.full(20_000, difference), np.zeros(20_000), temperature, generator)
        assert drawn.mean() == pytest.approx(1 / (1 + math.exp(-difference / temperature)), abs=0.015)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_comparison_packs_two_episodes_into_a_row_with_starts_ends_and_preference_signs(axis: int) -> None:
    def rows(*lengths: int) -> SampleBatch:
        valid = np.arange(4) < np.array(lengths)[:, None]
        ends = np.arange(1, 5) == np.array(lengths)[:, None]
        columns = {"obs": valid * 1.0, "actions": valid * 1, "terminateds": ends, "truncateds": ends & False}
        batch = SampleBatch(valid=valid, **columns)
        return batch if axis == 1 else batch.map(np.transpose)

    found = compared(rows(2, 4), rows(3, 1), np.array([True, False]), axis)
    found = found if axis == 1 else found.map(np.transpose)
    assert found[PREFERENCE].tolist() == [[1, 1, 0, 0, -1, -1, -1, 0], [-1, -1, -1, -1, 1, 0, 0, 0]]
    assert found[EPISODE_ENDS].nonzero()[1].tolist() == [1, 6, 3, 4]
    assert found["episode_starts"].nonzero()[1].tolist() == [0, 4, 0, 4]


def test_with_enough_episodes_no_two_pairs_share_one_whether_for_training_or_held_out(tmp_path: Path) -> None:
    data = written(tmp_path / "set", [1, 2, 3, 4, 5, 6, 7, 8])
    kept, held_out = (
        Comparisons(data, pairs=3, held_out=1, length=8, temperature=1e-6, seed=0, is_held_out=is_held_out)
        for is_held_out in (False, True)
    )
    batches = [kept.gather(np.arange(3)), held_out.gather(np.arange(1))]
    seen = [batch["obs"][..., 0][batch["episode_starts"]].astype(int).tolist() for batch in batches]
    assert (len(kept), len(held_out)) == (3, 1)
    assert sorted(seen[0] + seen[1]) == list(range(1, 9))
    for batch in batches:
        steps = [[(row == sign).sum() for sign in (1, -1)] for row in batch[PREFERENCE]]
        assert all(better > worse for better, worse in steps)


def test_scarce_episodes_are_reused_across_training_pairs_but_held_out_episodes_are_not(tmp_path: Path) -> None:
    data = written(tmp_path / "set", [1, 2, 3, 4, 5, 6, 7, 8])
    kept, held_out = (
        Comparisons(data, pairs=8, held_out=1, length=8, temperature=1e-6, seed=0, is_held_out=is_held_out)
        for is_held_out in (False, True)
    )
    batches = [pairs.gather(np.arange(len(pairs))) for pairs in (kept, held_out)]
    seen = [batch["obs"][..., 0][batch["episode_starts"]].astype(int).reshape(-1, 2) for batch in batches]
    once = np.setdiff1d(np.arange(1, 9), seen[1])
    assert (len(kept), len(held_out)) == (8, 1)
    assert [sorted(seen[0][begin : begin + 3].ravel()) for begin in (0, 3)] == [once.tolist()] * 2
    assert set(seen[0][6:].ravel()) <= set(once)
    assert len({tuple(sorted(pair)) for pair in seen[0]}) > 3
    for batch in batches:
        steps = [[(row == sign).sum() for sign in (1, -1)] for row in batch[PREFERENCE]]
        assert all(better > worse for better, worse in steps)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"held_out": 2}, "has 4 episodes, but 2 held-out pairs and one training pair need 6"),
        ({"length": 3}, r"has 5 steps, more than .*seq_len \(3\)"),
    ],
)
def test_data_with_too_few_or_too_long_episodes_are_refused(
    wanted: dict[str, int], message: str, tmp_path: Path
) -> None:
    data = written(tmp_path / "set", [1, 2, 3, 5])
    with pytest.raises(UsageError, match=message):
        Comparisons(data, temperature=1.0, seed=0, **{"pairs": 1, "held_out": 1, "length": 8, **wanted})


def stream(lengths: list[int]) -> SampleBatch:
    """Rows of one env slot; a row with the final observation follows each episode's last step."""
    rows = [(episode, step, length) for episode, length in enumerate(lengths) for step in range(length + 1)]
    episode, step, length = (np.array(column) for column in zip(*rows, strict=True))
    return SampleBatch(
        obs=100.0 * episode + step, valid=step < length, terminateds=step == length - 1, truncateds=step < 0
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.lists(st.integers(1, 4), min_size=30, max_size=30))
def test_episodes_are_assembled_identically_wherever_fragments_cut_them(lengths: list[int], sizes: list[int]) -> None:
    rows, operator, found, begin = stream(lengths), WholeEpisodes(5), [], 0
    total = len(rows["valid"])
    for size in sizes:
        part = {name: column[begin : begin + size, None] for name, column in rows.items()}
        closing = rows["obs"][begin : begin + size + 1, None]
        if len(closing) <= len(part["valid"]):
            closing = np.concatenate([closing, [[-1.0]]])  # the first observation of the slot's next episode
        if begin < total:
            for batch in operator((0, SampleBatch({**part, "obs": closing}))):
                found += [batch.map(lambda leaf, n=n: leaf[:, n]) for n in range(batch["valid"].shape[1])]
            restored = WholeEpisodes(5)
            restored.load_state(operator.state())
            operator, begin = restored, begin + size
    ended = [length for number, length in enumerate(lengths) if sum(lengths[: number + 1]) + number < begin]
    assert [int(episode["valid"].sum()) for episode in found] == ended
    for number, episode in enumerate(found):
        length = lengths[number]
        assert episode["obs"][: length + 1].tolist() == [100.0 * number + step for step in range(length + 1)]
        assert episode["terminateds"].tolist() == [step == length - 1 for step in range(5)]


def test_an_episode_longer_than_seq_len_is_refused(wording) -> None:
    rows = stream([6]).map(lambda column: column[:, None])
    fragment = SampleBatch({name: column[:-1] for name, column in rows.items() if name != "obs"}, obs=rows["obs"])
    with wording.raised(UsageError, "config.seq_len"):
        WholeEpisodes(5)((None, fragment))


def test_rewards_are_the_final_score_minus_a_kl_penalty_at_each_step() -> None:
    valid = np.array([[1, 1], [1, 1], [0, 1]], np.bool_)
    batch = SampleBatch(
        obs=np.zeros((4, 2)),
        actions=np.zeros((3, 2), np.int64),
        valid=valid,
        terminateds=np.array([[0, 0], [1, 0], [0, 0]], np.bool_),
        truncateds=np.array([[0, 0], [0, 0], [0, 1]], np.bool_),
        rewards=np.ones((3, 2), np.float32),
        logp=np.full((3, 2), -1.0, np.float32),
    )
    found = {"scores": np.full((2, 3), 4.0), "reference_logp": np.array([[-1.0, -3.0, 9.0], [-1.5, -1.0, -0.5]])}
    trainee: Any = SimpleNamespace(learner=SimpleNamespace(evaluate=lambda function, rows: found))
    operator = ModelRewards(trainee, reference_kl_coeff=0.1)
    rewarded = operator(batch)
    np.testing.assert_allclose(rewarded["rewards"], [[0, -0.05], [4 - 0.2, 0], [0, 4 + 0.05]], atol=1e-6)
    assert operator.metrics() == {"model_return_mean": 4.0, "learner/kl_to_reference": pytest.approx(1.0)}
    assert operator.metrics() == {}


def test_no_bootstrap_value_is_added_to_the_final_score_of_a_truncated_episode() -> None:
    ends = np.array([[0, 0], [1, 1]], np.bool_)
    batch = SampleBatch(
        obs=np.zeros((3, 2)),
        actions=np.zeros((2, 2), np.int64),
        valid=np.ones((2, 2), np.bool_),
        terminateds=ends & [True, False],
        truncateds=ends & [False, True],
        rewards=np.zeros((2, 2), np.float32),
        values=np.full((3, 2), 7.0, np.float32),
        logp=np.zeros((2, 2), np.float32),
    )
    found = {"scores": np.full((2, 2), 4.0), "reference_logp": np.zeros((2, 2))}
    trainee: Any = SimpleNamespace(learner=SimpleNamespace(evaluate=lambda function, rows: found))
    targets = ComputeAdvantages(gamma=1.0, gae_lambda=1.0)(ModelRewards(trainee, reference_kl_coeff=0.1)(batch))[
        "value_targets"
    ]
    np.testing.assert_array_equal(targets, np.full((2, 2), 4.0))  # with bootstrapping, the truncated one would have 11


def test_the_dpo_loss_matches_the_formula_of_the_paper() -> None:
    logits = torch.tensor([[[0.3, -0.2], [1.0, 0.0], [0.1, 0.4], [-1.0, 0.5]]])
    reference = torch.tensor([[[0.0, 0.0], [0.5, 0.0], [0.0, 0.0], [-1.0, 0.0]]])
    batch = SampleBatch(
        actions=torch.tensor([[0, 1, 1, 0]]),
        valid=torch.tensor([[True, True, True, False]]),
        **{PREFERENCE: torch.tensor([[1.0, 1.0, -1.0, 0.0]])},
    )
    log_ratios = (logits.log_softmax(-1) - reference.log_softmax(-1))[0, range(3), [0, 1, 1]]
    margin = log_ratios[0] + log_ratios[1] - log_ratios[2]
    outputs: Any = SimpleNamespace(distribution=Categorical(logits), reference=Categorical(reference))
    loss = DPO(beta=0.5, minibatch_size=128).loss(outputs, batch, {})
    assert float(loss.total) == pytest.approx(-math.log(1 / (1 + math.exp(-0.5 * float(margin)))), rel=1e-5)
    assert float(loss.statistics["kl_to_reference"]) == pytest.approx(float(log_ratios.sum()) / 2, rel=1e-5)


def test_the_reward_model_loss_is_the_cross_entropy_of_score_margins_over_the_temperature() -> None:
    outputs: Any = SimpleNamespace(score_margins=lambda: torch.tensor([2.0, -0.5, 9.0]))
    batch = SampleBatch(valid=torch.tensor([[True, True], [True, False], [False, False]]))
    loss = rlrun.RewardModel(temperature=0.25).loss(outputs, batch, {})
    expected = (math.log1p(math.exp(-2.0 / 0.25)) + math.log1p(math.exp(0.5 / 0.25))) / 2
    assert float(loss.total) == pytest.approx(expected)
    assert float(loss.statistics["accuracy"]) == 0.5


def test_dpo_minibatches_that_split_a_comparison_are_refused(wording) -> None:
    with wording.raised(SpecError, "minibatch_size", "seq_len", "100"):
        DPO(minibatch_size=100, seq_len=28)


def test_a_reward_model_learns_preferences_without_changing_the_policy(tmp_path: Path) -> None:
    written(tmp_path / "set", list(range(1, 25)))
    config = {"pairs": 8, "held_out_pairs": 4, "seq_len": 24, "temperature": 1.0, "lr": 0.02, "minibatch_size": 8}
    network = {"reward_model": {"hiddens": [8], "core_width": 8}, "model": {"hiddens": [4]}}
    settings = {"input": str(tmp_path / "set"), "sgd_steps_per_iteration": 60, "compile": False, **config, **network}
    with Training(None, rlrun.RewardModel(**settings)) as training:
        learner = training.running.trainee.learner
        before = learner.policy.parameters.named(learner.flat())
        result = training.step()
        after = learner.policy.parameters.named(learner.flat())
    assert result["held_out_accuracy"] >= 0.75
    assert result["learner/accuracy"] > 0.85
    moved = {name.partition(".")[0] for name in before if not np.array_equal(before[name], after[name])}
    assert moved == {"reward_model"}


def test_rlhf_uses_cloned_weights_as_its_initial_policy_and_as_its_fixed_reference(tmp_path: Path) -> None:
    asks = RandomQuestioner(seed=0)
    demonstrate_to_set(tmp_path / "set", lambda seen, *_: (asks(seen), None), EnvConfig(id=DIALOGUES), 2, 0)
    with Training(DIALOGUES, rlrun.BC(model=MODEL, input=str(tmp_path / "set"))) as cloned:
        cloned.save(tmp_path / "cloned")
    network = {"reward_model": {"hiddens": [8], "core_width": 8}}
    with Training(DIALOGUES, rlrun.RLHF(**SMALL, **network), seed=1) as tuned:
        content = read_checkpoint(tmp_path / "cloned")
        saved_state.load_weights(tuned.running, content, in_part=True)
        learner = tuned.running.trainee.learner
        named, target = (learner.policy.parameters.named(flat) for flat in (learner.flat(), learner.target()))
        for name, tensor in content.tensors["policies/default"].items():
            np.testing.assert_array_equal(named[f"actor_critic.{name}"], tensor)
            np.testing.assert_array_equal(target[f"actor_critic.{name}"], tensor)
        first, second = tuned.step(), tuned.step()
        np.testing.assert_array_equal(learner.target(), learner.policy.parameters.from_named(target))
    assert first["learner/kl_to_reference"] == pytest.approx(0.0, abs=1e-4)
    assert second["learner/kl_to_reference"] != 0.0


def test_reward_model_labels_prefer_the_episode_with_the_higher_final_score() -> None:
    lengths = [3, 1, 2, 3]
    valid = np.arange(3)[:, None] < np.array(lengths)
    ends = np.arange(1, 4)[:, None] == np.array(lengths)
    zeros = np.zeros(valid.shape)
    batch = SampleBatch(
        obs=np.zeros((4, 4)),
        actions=np.tile(np.arange(4), (3, 1)),
        rewards=np.where(valid, [[9.0, 0.0, 0.0, 9.0]], 0.0),  # rewards must not affect the labels
        valid=valid,
        terminateds=ends & [True, True, False, True],
        truncateds=ends & [False, False, True, False],
        weights_version=zeros.astype(np.int32),
    )
    found = np.arange(12.0).reshape(4, 3)[[2, 3, 1, 0]]  # scores at the episodes' ends: 8, 9, 4, 2
    trainee: Any = SimpleNamespace(seed=3, learner=SimpleNamespace(evaluate=lambda function, rows: found))
    pairs = Compare(trainee, 1e-6, "reward_model")(batch)
    scores = {0: 8, 1: 9, 2: 4, 3: 2}
    assert sorted(pairs["actions"][[0, 3]].ravel().tolist()) == [0, 1, 2, 3]
    for column in range(2):
        first, second = (int(pairs["actions"][row, column]) for row in (0, 3))
        assert pairs[PREFERENCE][0, column] == (1 if scores[first] > scores[second] else -1)
        assert pairs[PREFERENCE][3, column] == -pairs[PREFERENCE][0, column]


def test_dpo_with_reward_model_labels_trains_only_the_actor(tmp_path: Path) -> None:
    config: dict[str, Any] = {**SMALL, "reward_model": {"hiddens": [8], "core_width": 8}}
    with Training(DIALOGUES, rlrun.RLHF(**config), seed=1) as judge:
        judge.save(tmp_path / "judged")
    with Training(DIALOGUES, rlrun.DPO(labels="reward_model", **config), seed=2) as tuned:
        saved_state.load_weights(tuned.running, read_checkpoint(tmp_path / "judged"), in_part=True)
        learner = tuned.running.trainee.learner
        before = learner.policy.parameters.named(learner.flat())
        tuned.step()
        after = learner.policy.parameters.named(learner.flat())
    moved = {name for name in before if (before[name] != after[name]).any()}
    assert moved == {name for name in before if name.startswith("actor_critic.policy_")}


@pytest.mark.parametrize("algorithm", ["RLHF", "DPO", "DPO by a reward model"])
def test_resuming_in_the_middle_of_an_episode_is_exact(algorithm: str, tmp_path: Path) -> None:
    make = partial(getattr(rlrun, algorithm[:4].strip()), **({"labels": "reward_model"} if " " in algorithm else {}))
    with Training(DIALOGUES, make(**SMALL)) as whole:
        whole.step()
        whole.save(tmp_path / "half")
        whole.step()
        expected = whole.running.trainee.learner.flat()
    with Training.restore(tmp_path / "half") as resumed:
        resumed.step()
        np.testing.assert_array_equal(resumed.running.trainee.learner.flat(), expected)
