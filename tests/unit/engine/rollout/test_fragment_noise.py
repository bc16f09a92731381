import numpy as np
import pytest
from gymnasium.spaces import Box

from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.rollout.fragment_noise import FragmentNoise
from tests.policies import plain_policy

SLOTS, ACTIONS = 2, 2


def noise_with(every):
    model = ModelConfig(hiddens=(3,), use_sde=True, sde_sample_freq=every)
    spaces = Box(-1, 1, (4,)), Box(-1, 1, (ACTIONS,))
    return plain_policy(ActorCriticPolicy, *spaces, model, seed=0).behavior().noise_source


def drawn_matrices(every, length, fragments):
    """Matrices and the actions' own noise, [number of fragments * T, B, ...]."""
    draw = FragmentNoise(noise_with(every), 5, 1, length, SLOTS)
    noise = np.concatenate([draw(fragment) for fragment in fragments])
    return np.split(noise, [3 * ACTIONS], axis=-1)


@pytest.mark.parametrize("length", [1, 4, 10, 40])
@pytest.mark.parametrize("every", [1, 3, 4, 16, 64, 100])
def test_a_matrix_stays_for_exactly_so_many_steps_across_fragments(every, length):
    steps = 3 * max(every, 40)
    matrices, own = drawn_matrices(every, length, range(-(-steps // length)))
    for t in range(1, len(matrices)):
        same = (matrices[t] == matrices[t - 1]).all()
        assert same == bool(t % every), t
    assert len(np.unique(matrices[::every, 0, 0])) == len(matrices[::every])
    assert len(np.unique(own[:, 0, 0])) == len(own)


@pytest.mark.parametrize(("every", "length"), [(64, 10), (64, 1), (3, 4), (7, 40)])
def test_whoever_begins_with_a_later_fragment_draws_the_same(every, length):
    expected = np.concatenate(drawn_matrices(every, length, range(40)), -1)
    for first in (1, 7, 23):
        found = np.concatenate(drawn_matrices(every, length, range(first, 40)), -1)
        np.testing.assert_array_equal(found, expected[first * length :])


def test_without_a_frequency_each_fragment_has_a_matrix_of_its_own():
    matrices, _ = drawn_matrices(None, 40, range(3))
    assert [len(np.unique(matrices[first : first + 40, 0, 0])) for first in (0, 40, 80)] == [1, 1, 1]
    assert len(np.unique(matrices[:, 0, 0])) == 3
