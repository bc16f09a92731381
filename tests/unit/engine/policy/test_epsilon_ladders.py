import numpy as np
import pytest

from rlrun.engine.policy.exploration.epsilons import EpsilonLadder, FinalEpsilons
from rlrun.engine.policy.weights import Weights
from tests.policies import plain_policy
from tests.rounding import rounding_error


def test_epsilon_falls_from_its_base_to_a_power_of_the_base_over_all_workers_columns():
    ladder = EpsilonLadder(7.0)
    first, second = ladder(0.4, np.arange(0, 4), 8), ladder(0.4, np.arange(4, 8), 8)
    np.testing.assert_allclose([*first, *second], [0.4 ** (1 + i) for i in range(8)], rtol=rounding_error(2))
    np.testing.assert_allclose(ladder(0.3, np.array([0]), 1), [0.3], rtol=rounding_error(2))
    np.testing.assert_allclose(EpsilonLadder(3.0)(0.5, np.array([0, 2]), 3), [0.5, 0.5**4], rtol=rounding_error(2))


def test_epsilon_falls_from_1_to_a_separate_final_value_in_every_column():
    final = FinalEpsilons((0.1, 0.01, 0.5), (0.4, 0.3, 0.3))
    expected = np.array([0.1] * 4 + [0.01] * 3 + [0.5] * 3)
    np.testing.assert_allclose(final(0.0, np.arange(10), 10), expected, rtol=rounding_error(2))
    np.testing.assert_allclose(final(1.0, np.arange(10), 10), np.ones(10), rtol=rounding_error(2))
    np.testing.assert_allclose(final(0.5, np.arange(3, 5), 10), (1 + expected[3:5]) / 2, rtol=rounding_error(2))
    np.testing.assert_allclose(final(0.0, np.arange(2), 2), [0.1, 0.5], rtol=rounding_error(2))


def test_a_q_policy_explores_each_column_with_its_own_epsilon_and_records_q_values():
    import gymnasium

    from rlrun.algorithms.dqn.policy import QPolicy
    from rlrun.engine.nn.model_config import ModelConfig

    spaces = gymnasium.spaces.Box(-1, 1, (2,), np.float32), gymnasium.spaces.Discrete(3)
    policy = plain_policy(
        QPolicy,
        *spaces,
        ModelConfig(hiddens=(4,)),
        seed=0,
        epsilon_spread=EpsilonLadder(4.0),
        records_values=True,
    )
    behavior = policy.behavior()
    flat = policy.parameters.gather(policy.module).numpy()
    behavior.load(Weights(0, flat, schedules={"epsilon": 0.5}))
    behavior.noise_source.assign_envs(2, 5)
    length, columns = 4000, 3
    generator = np.random.default_rng(0)
    noise = behavior.noise_source.noise(generator, length, columns)
    record = behavior.collector.allocate(length, columns)
    record["obs"] = generator.uniform(-1, 1, (length + 1, columns, 2)).astype(np.float32)
    starts = np.zeros(columns, np.bool_)
    for t in range(length):
        behavior.act(record["obs"][t], noise[t], record, t, starts)
    behavior.collector.postprocess(record)
    assert record["q_values"].shape == (length + 1, columns, 3)
    values = np.stack([behavior.outputs(row) for row in record["obs"]])
    near = rounding_error(2 + 4)
    np.testing.assert_allclose(record["q_values"], values, rtol=near, atol=near)
    greedy = record["q_values"][:-1].argmax(-1)
    for column, epsilon in enumerate([0.5**3, 0.5**4, 0.5**5]):
        differs = (record["actions"][:, column] != greedy[:, column]).mean()
        assert differs == pytest.approx(epsilon * 2 / 3, abs=0.015)
