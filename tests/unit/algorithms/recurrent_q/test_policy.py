"""Recurrent Q policies: torch and NumPy agree over long sequences, and memory ends where episodes do."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from rlrun.algorithms.recurrent_q.policy import RecurrentQPolicy
from rlrun.algorithms.recurrent_q.r2d2 import R2D2Config, RecurrentModelConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.weights import Weights
from tests.policies import policy_from
from tests.rounding import rounding_error

NUMBERS = gymnasium.spaces.Box(-1, 1, (3,))
CHOICES = gymnasium.spaces.Dict(a=gymnasium.spaces.Discrete(4), b=gymnasium.spaces.Box(-1, 1, (2,)))
IMAGES = gymnasium.spaces.Box(0, 255, (36, 36, 1), np.uint8)
NEAR = rounding_error(6 + 8 + 6 + 6)  # inputs of all layers: the observation, hidden ones, the core


def policy_of(space: gymnasium.Space[Any], **model: Any) -> RecurrentQPolicy:
    settings = RecurrentModelConfig(hiddens=(8,), core_width=6).replace(**model)
    return policy_from(
        RecurrentQPolicy,
        R2D2Config,
        space,
        gymnasium.spaces.Discrete(3),
        settings,
        seed=5,
    )


def acting(policy: RecurrentQPolicy, epsilon: float = 0.0) -> BehaviorPolicy:
    behavior = pickle.loads(pickle.dumps(policy.behavior()))
    flat = policy.parameters.gather(policy.module).numpy()
    behavior.load(Weights(3, flat, {}, 0, {"epsilon": epsilon}))
    assert behavior.weights_version == 3
    return behavior


def observations_of(space: gymnasium.Space[Any], length: int, columns: int) -> Any:
    drawn = np.random.default_rng(1)
    if isinstance(space, gymnasium.spaces.Dict):
        numbers = drawn.normal(size=(length, columns, 2)).astype(np.float32)
        return {"b": numbers, "a": drawn.integers(4, size=(length, columns))}
    if space.dtype == np.uint8:
        return drawn.integers(256, size=(length, columns, *space.shape), dtype=np.uint8)
    return drawn.normal(size=(length, columns, *space.shape)).astype(np.float32)


def at(tree: Any, t: int) -> Any:
    return {key: leaf[t] for key, leaf in tree.items()} if isinstance(tree, dict) else tree[t]


def unrolled(policy: RecurrentQPolicy, observations: Any, starts: Any, memory: Any) -> tuple[Any, Any]:
    def rows(leaf: Any) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(np.moveaxis(leaf, 0, 1)))

    tree = {key: rows(leaf) for key, leaf in observations.items()} if isinstance(observations, dict) else None
    with torch.no_grad():
        inputs = {"obs": rows(observations) if tree is None else tree}
        heads, after = policy.module(inputs, torch.from_numpy(memory), rows(starts))
    return heads["outputs"], after


@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize(("space", "length"), [(NUMBERS, 200), (CHOICES, 60), (IMAGES, 4)])
def test_the_acting_and_learning_networks_agree_on_long_sequences_with_resets(
    space: gymnasium.Space[Any], length: int, dueling: bool
) -> None:
    policy, columns = policy_of(space, dueling=dueling), 5
    behavior = acting(policy)
    observations = observations_of(space, length, columns)
    starts = np.random.default_rng(0).random((length, columns)) < 0.02
    starts[0] = True
    record = behavior.collector.allocate(length, columns)
    noise = np.ones((columns, 2), np.float32)
    for t in range(length):
        behavior.act(at(observations, t), noise, record, t, starts[t])
    values, memory = unrolled(policy, observations, starts, np.zeros((columns, 12), np.float32))
    np.testing.assert_allclose(behavior.state()["recurrent_state"], memory, atol=NEAR)
    np.testing.assert_array_equal(record["episode_starts"], starts)
    assert not record["state"][starts].any()
    for t in (1, length // 2, length - 1):
        halfway, _ = unrolled(policy, tail(observations, t), starts[t:], record["state"][t])
        np.testing.assert_allclose(halfway, values[:, t:], atol=NEAR)
    clear = np.sort(values.numpy(), -1)
    decided = clear[..., -1] - clear[..., -2] > 1e-4
    np.testing.assert_array_equal(record["actions"].T[decided], values.argmax(-1).numpy()[decided])


def tail(tree: Any, t: int) -> Any:
    return {key: leaf[t:] for key, leaf in tree.items()} if isinstance(tree, dict) else tree[t:]


def test_a_reset_within_a_row_has_the_same_effect_as_the_start_of_a_new_row() -> None:
    policy = policy_of(NUMBERS)
    observations = observations_of(NUMBERS, 9, 1)
    starts = np.zeros((9, 1), np.bool_)
    starts[4] = True
    before = np.random.default_rng(3).normal(size=(1, 12)).astype(np.float32)
    values, memory = unrolled(policy, observations, starts, before)
    alone, memory_alone = unrolled(policy, observations[4:], starts[4:] * False, np.zeros((1, 12), np.float32))
    torch.testing.assert_close(values[:, 4:], alone)
    torch.testing.assert_close(memory, memory_alone)
    assert not torch.allclose(values[:, 4:], unrolled(policy, observations[4:], starts[4:] * False, before)[0])


def test_no_gradient_reaches_anything_before_a_reset() -> None:
    net = policy_of(NUMBERS).module
    observations = torch.randn(2, 6, 3, requires_grad=True)
    starts = torch.zeros(2, 6, dtype=torch.bool)
    starts[0, 3] = True
    heads, _ = net({"obs": observations}, torch.zeros(2, 12), starts)
    values = heads["outputs"]
    (gradient,) = torch.autograd.grad(values[:, 5].sum(), observations)
    assert not gradient[0, :3].any()
    assert gradient[0, 3:].all(-1).all()
    assert gradient[1].all(-1).all()


def test_the_burn_in_warms_up_both_recurrent_states_without_a_gradient() -> None:
    policy = policy_of(NUMBERS)
    flat = policy.parameters.gather(policy.module)
    views, target = policy.parameters.views(flat.requires_grad_()), policy.parameters.views(flat.detach() * 0.5)
    obs = torch.randn(2, 7, 3, requires_grad=True)
    batch = SampleBatch(obs=obs, episode_starts=torch.zeros(2, 7, dtype=torch.bool), state=torch.randn(2, 12))
    networks = policy.outputs(views, batch, target)
    values, target_values = networks.unrolled(batch, 3)
    (gradient,) = torch.autograd.grad(values.sum(), obs)
    assert not gradient[:, :3].any()
    assert gradient[:, 3:].all(-1).all()
    assert not target_values.requires_grad
    whole, whole_target = networks.unrolled(batch, 0)
    torch.testing.assert_close(values, whole[:, 3:])
    torch.testing.assert_close(target_values, whole_target[:, 3:])
    assert not torch.allclose(values, target_values)


def test_a_resumed_policy_acts_exactly_like_an_uninterrupted_one() -> None:
    policy = policy_of(NUMBERS)
    observations, noise = observations_of(NUMBERS, 20, 3), np.random.default_rng(2).random((20, 3, 2), np.float32)
    starts = np.zeros((20, 3), np.bool_)
    starts[0] = starts[13, 1] = True

    def run(behavior: BehaviorPolicy, first: int, last: int) -> Any:
        record = behavior.collector.allocate(20, 3)
        for t in range(first, last):
            behavior.act(observations[t], noise[t], record, t, starts[t])
        return {name: column[first:last] for name, column in record.items()}

    one = acting(policy, 0.3)
    run(one, 0, 9)
    other = acting(policy, 0.3)
    other.load_state(pickle.loads(pickle.dumps(one.state())))
    expected, found = run(one, 9, 20), run(other, 9, 20)
    for name, column in expected.items():
        np.testing.assert_array_equal(found[name], column)


def test_outside_training_the_policy_keeps_its_recurrent_state_until_the_next_episode_begins() -> None:
    policy = policy_of(NUMBERS)
    behavior = acting(policy)
    observations = observations_of(NUMBERS, 12, 2)
    starts = np.zeros((12, 2), np.bool_)
    starts[0] = starts[5, 1] = True
    asked = []
    for t in range(12):
        behavior.begin_episodes(starts[t])
        asked.append(behavior.actions(observations[t], None))
    values, memory = unrolled(policy, observations, starts, np.zeros((2, 12), np.float32))
    np.testing.assert_allclose(behavior.state()["recurrent_state"], memory, atol=NEAR)
    np.testing.assert_array_equal(np.array(asked).T, values.argmax(-1))


def test_exploring_steps_occur_with_probability_epsilon() -> None:
    behavior = acting(policy_of(NUMBERS), 0.2)
    drawn = behavior.noise_source.noise(np.random.default_rng(0), 1, 20_000)[0]
    observations = np.zeros((20_000, 3), np.float32)
    record = behavior.collector.allocate(1, 20_000)
    behavior.act(observations, drawn, record, 0, np.ones(20_000, np.bool_))
    best = acting(policy_of(NUMBERS)).actions(observations[:1], None)
    assert np.mean(record["actions"] != best) == pytest.approx(0.2 * 2 / 3, abs=0.01)


def test_the_lstm_forget_gate_bias_starts_at_1() -> None:
    net = policy_of(NUMBERS, core_width=4).module
    assert net.lstm_inputs.bias[4:8].tolist() == [1.0] * 4
    assert net.lstm_inputs.bias[:4].tolist() == [0.0] * 4


def test_continuous_actions_are_refused(wording) -> None:
    with wording.raised(UsageError):
        policy_from(
            RecurrentQPolicy,
            R2D2Config,
            NUMBERS,
            gymnasium.spaces.Box(-1, 1, (1,)),
            RecurrentModelConfig(),
            seed=0,
        )
