import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlrun.engine.functional.returns import gae
from rlrun.engine.functional.vtrace import vtrace

S, L = 3, 9
numbers = st.floats(-5, 5, width=32)


def rows_with_empty_cells(rewards, values, ends, cuts, log_ratios):
    """Makes rows like a fragment's, with an empty cell after each end, and one after the last step."""
    valid = np.ones((S, L), bool)
    terminateds, truncateds = ends.copy(), cuts & ~ends
    for s in range(S):
        for t in range(1, L):
            if valid[s, t - 1] and (terminateds | truncateds)[s, t - 1]:
                valid[s, t] = False
    valid[:, -1] = False
    terminateds &= valid
    truncateds &= valid
    return rewards, values, terminateds, truncateds, log_ratios, valid


def vtrace_by_hand(rewards, values, terminateds, log_ratios, valid, gamma, clip_rho, clip_c, lambda_):
    targets, advantages = values.copy(), np.zeros_like(values)
    for s in range(S):
        for t in reversed(range(L - 1)):
            if valid[s, t]:
                ratio = np.exp(log_ratios[s, t])
                discount = 0.0 if terminateds[s, t] else gamma
                delta = min(clip_rho, ratio) * (rewards[s, t] + discount * values[s, t + 1] - values[s, t])
                behind = targets[s, t + 1] - values[s, t + 1]
                targets[s, t] = values[s, t] + delta + discount * lambda_ * min(clip_c, ratio) * behind
                advantages[s, t] = min(1.0, ratio) * (rewards[s, t] + discount * targets[s, t + 1] - values[s, t])
    return targets, advantages


def of_arrays(rewards, values, terminateds, log_ratios, valid, **settings):
    tensors = [torch.from_numpy(np.ascontiguousarray(x)) for x in (log_ratios, values, rewards, terminateds, valid)]
    targets, advantages = vtrace(*tensors, **settings)
    return targets.numpy(), advantages.numpy()


grids = arrays(np.float64, (S, L), elements=numbers)
flags = arrays(np.bool_, (S, L))


@given(
    rewards=grids,
    values=grids,
    ends=flags,
    cuts=flags,
    log_ratios=arrays(np.float64, (S, L), elements=st.floats(-2, 2)),
    gamma=st.floats(0, 1),
    clip_rho=st.floats(0.5, 2),
    clip_c=st.floats(0.5, 2),
    lambda_=st.floats(0, 1),
)
def test_off_policy_vtrace_equals_a_plain_loop_over_steps(
    rewards, values, ends, cuts, log_ratios, gamma, clip_rho, clip_c, lambda_
):
    rewards, values, terminateds, _, log_ratios, valid = rows_with_empty_cells(rewards, values, ends, cuts, log_ratios)
    settings = {"gamma": gamma, "clip_rho": clip_rho, "clip_c": clip_c, "lambda_": lambda_}
    targets, advantages = of_arrays(rewards, values, terminateds, log_ratios, valid, **settings)
    expected = vtrace_by_hand(rewards, values, terminateds, log_ratios, valid, **settings)
    np.testing.assert_allclose(targets[valid], expected[0][valid], atol=1e-9)
    np.testing.assert_allclose(advantages, expected[1], atol=1e-9)


@given(rewards=grids, values=grids, ends=flags, cuts=flags, gamma=st.floats(0, 1))
def test_on_policy_targets_are_n_step_returns(rewards, values, ends, cuts, gamma):
    rewards, values, terminateds, _, log_ratios, valid = rows_with_empty_cells(
        rewards, values, ends, cuts, np.zeros((S, L))
    )
    targets, advantages = of_arrays(rewards, values, terminateds, log_ratios, valid, gamma=gamma)
    for s, t in zip(*valid.nonzero(), strict=True):
        total, discount, i = 0.0, 1.0, t
        while valid[s, i]:
            total += discount * rewards[s, i]
            discount *= 0.0 if terminateds[s, i] else gamma
            i += 1
        expected = total + discount * values[s, i]
        assert targets[s, t] == pytest.approx(expected, abs=1e-6)
        assert advantages[s, t] == pytest.approx(expected - values[s, t], abs=1e-6)


@given(rewards=grids, values=grids, ends=flags, cuts=flags, gamma=st.floats(0, 1), lambda_=st.floats(0, 1))
def test_on_policy_targets_equal_gae_for_any_lambda(rewards, values, ends, cuts, gamma, lambda_):
    rewards, values, terminateds, truncateds, log_ratios, valid = rows_with_empty_cells(
        rewards, values, ends, cuts, np.zeros((S, L))
    )
    targets, _ = of_arrays(rewards, values, terminateds, log_ratios, valid, gamma=gamma, lambda_=lambda_)
    _, expected = gae(rewards[:, :-1].T, values.T, terminateds[:, :-1].T, truncateds[:, :-1].T, gamma, lambda_)
    cells = valid[:, :-1]
    np.testing.assert_allclose(targets[:, :-1][cells], expected.T[cells], atol=1e-9)


@given(rewards=grids, values=grids, ends=flags, gamma=st.floats(0, 1))
def test_without_terminations_returns_bootstrap_from_the_final_observation(rewards, values, ends, gamma):
    rewards, values, terminateds, _, log_ratios, valid = rows_with_empty_cells(
        rewards, values, ends, ends, np.zeros((S, L))
    )
    tensors = [torch.from_numpy(np.ascontiguousarray(x)) for x in (log_ratios, values, rewards, valid)]
    targets, advantages = vtrace(*tensors[:3], None, tensors[3], gamma=gamma)
    expected = of_arrays(rewards, values, np.zeros_like(terminateds), log_ratios, valid, gamma=gamma)
    np.testing.assert_array_equal(targets.numpy(), expected[0])
    np.testing.assert_array_equal(advantages.numpy(), expected[1])


def test_numbers_in_invalid_cells_have_no_effect_except_for_the_values_of_final_observations():
    rng = np.random.default_rng(0)
    rewards, values, log_ratios = (rng.normal(size=(S, L)) for _ in range(3))
    cuts = np.zeros((S, L), bool)
    cuts[:, 3] = True
    rewards, values, terminateds, _, log_ratios, valid = rows_with_empty_cells(
        rewards, values, ~cuts & cuts, cuts, log_ratios
    )
    clean = of_arrays(rewards, values, terminateds, log_ratios, valid, gamma=0.9)
    rewards[~valid], log_ratios[~valid] = 1e6, 7.0
    terminateds[~valid] = True
    dirty = of_arrays(rewards, values, terminateds, log_ratios, valid, gamma=0.9)
    np.testing.assert_array_equal(clean[0][valid], dirty[0][valid])
    np.testing.assert_array_equal(clean[1], dirty[1])
    values[:, 4] += 1.0  # the final observation of the episode that was cut off
    assert (of_arrays(rewards, values, terminateds, log_ratios, valid, gamma=0.9)[0][:, 3] != clean[0][:, 3]).all()
