"""Filtered cloning: which episodes of a batch are kept, and what is learned from them."""

import numpy as np
import pytest
import torch

import rlrun
from rlrun.algorithms.pg.filtered_bc import KeepBestEpisodes
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.policy.action_spaces.discrete import Categorical
from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs


def episodes(*returns: float, truncated: int | None = None) -> SampleBatch:
    """Episodes of 1, 2, 3, ... steps in one row, whose actions are the episodes' numbers."""
    lengths = range(1, len(returns) + 1)
    ends = np.concatenate([np.arange(length) == length - 1 for length in lengths])
    numbers = np.repeat(np.arange(len(returns)), lengths)
    firsts = np.concatenate([[True], ends[:-1]])
    is_cut = ends & (numbers == truncated)
    return SampleBatch(
        actions=numbers[None],
        terminateds=(ends & ~is_cut)[None],
        truncateds=is_cut[None],
        # Only the first step of an episode holds the episode's return.
        value_targets=np.where(firsts, np.array(returns)[numbers], 99.0)[None].astype(np.float32),
        valid=np.ones((1, len(ends)), np.bool_),
    )


@pytest.mark.parametrize(
    ("share", "kept"),
    [(0.0, [3] * 4), (0.25, [3] * 4), (0.5, [1] * 2 + [3] * 4), (1.0, [0, *[1] * 2, *[2] * 3, *[3] * 4])],
)
def test_the_given_share_of_the_best_episodes_is_kept_in_full_length(share, kept):
    found = KeepBestEpisodes(share)(episodes(-1.0, 2.0, 0.0, 5.0, truncated=1))
    assert found["actions"].tolist() == [kept]


def test_episodes_that_tie_with_the_worst_kept_episode_are_kept_too():
    found = KeepBestEpisodes(0.25)(episodes(1.0, 0.0, 1.0, 1.0))
    assert found["actions"].tolist() == [[0, 2, 2, 2, 3, 3, 3, 3]]


def test_the_loss_is_the_negative_log_likelihood_minus_the_entropy_bonus():
    outputs = ActorCriticOutputs(Categorical(torch.tensor([[[0.0, np.log(3.0)]], [[50.0, 0.0]]])), torch.zeros(2, 1))
    batch = SampleBatch(actions=torch.tensor([[1], [1]]), valid=torch.tensor([[True], [False]]))
    loss = rlrun.FilteredBC().loss(outputs, batch, {"entropy_coeff": torch.tensor(2.0)})
    entropy = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    assert loss.total.item() == pytest.approx(-np.log(0.75) - 2 * entropy)


def test_a_recurrent_policy_clones_its_best_episodes():
    settings = {"train_batch_size": 64, "minibatch_size": 32, "rollout_fragment_length": 16, "compile": False}
    algorithm = rlrun.FilteredBC(model={"core": "gru", "core_width": 4}, min_env_steps_per_iteration=0, **settings)
    with rlrun.Training("CartPole-v1", algorithm, seed=1) as training:
        learner = training.running.trainee.learner
        before = learner.flat().copy()
        result = training.step()
        start, size = learner.policy.parameters.range_under("value_")
        np.testing.assert_array_equal(learner.flat()[start : start + size], before[start : start + size])
        assert (learner.flat() != before).any()
        assert result["learner/log_prob"] < 0
        assert learner.last_batch["valid"].sum() < 64


def test_filtered_bc_refuses_a_baseline(wording):
    with wording.raised(SpecError, "use_baseline"):
        rlrun.FilteredBC(use_baseline=True)


def test_minibatches_of_partial_sequences_are_refused_for_a_recurrent_policy(wording):
    with wording.raised(SpecError, "minibatch_size", "seq_len", "10"):
        rlrun.FilteredBC(minibatch_size=10, seq_len=16, model={"core": "gru"})
