"""Mixers: monotone in every member's value, the sum as a special case, and no effect of absent members."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlrun.algorithms.multi_agent.team_q_networks import MonotonicMixer, SumMixer, present_values

MEMBERS, STATE, WIDTH = 3, 4, 5


def mixer(seed: int) -> MonotonicMixer:
    torch.manual_seed(seed)
    made = MonotonicMixer((STATE,), MEMBERS, WIDTH)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=2.0)
    return made


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), scale=st.floats(0.01, 100))
def test_the_teams_value_is_monotone_in_each_members_value(seed: int, scale: float) -> None:
    own = mixer(seed)
    values = (scale * torch.randn(6, 2, MEMBERS)).requires_grad_()
    own(values, torch.randn(6, 2, STATE)).sum().backward()
    assert values.grad is not None
    assert (values.grad >= 0).all()


def test_the_qmix_mixer_with_unit_weights_sums_the_members_values() -> None:
    own = MonotonicMixer((STATE,), MEMBERS, 1)
    for layer in (own.first_weights, own.second_weights, own.first_biases, *own.second_bias[::2]):
        torch.nn.init.zeros_(layer.weight)
        torch.nn.init.constant_(layer.bias, 1.0 if layer in (own.first_weights, own.second_weights) else 0.0)
    values, state = torch.rand(6, 2, MEMBERS), torch.randn(6, 2, STATE)  # positive values, which an elu keeps
    torch.testing.assert_close(own(values, state), SumMixer()(values, None))


@pytest.mark.parametrize("absent", range(MEMBERS))
def test_absent_members_do_not_contribute_to_the_mixed_value(absent: int) -> None:
    own, state = mixer(0), torch.randn(1, 1, STATE)
    values, present = torch.tensor([[[1.0, -2.0, 3.0]]]), torch.ones(1, 1, MEMBERS, dtype=torch.bool)
    present[..., absent] = False
    flat = state.view(STATE)
    weights = own.first_weights(flat).abs().view(MEMBERS, WIDTH)
    others = [member for member in range(MEMBERS) if member != absent]
    inside = sum(values[0, 0, member] * weights[member] for member in others) + own.first_biases(flat)
    expected = torch.nn.functional.elu(inside) @ own.second_weights(flat).abs() + own.second_bias(flat)
    found = own(present_values(values, present), state)
    torch.testing.assert_close(found.view(1), expected)
    assert SumMixer()(present_values(values, present), None).item() == sum(values[0, 0, others].tolist())
