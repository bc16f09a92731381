"""Decision Transformer: interleaving, padding, returns-to-go, acting by the return asked for."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import rlrun
from rlrun.algorithms.decision_transformer.dt import DTConfig
from rlrun.algorithms.decision_transformer.episode_window import COUNT, RETURNS, STEP, STEPS, TO_GO, Context, Windows
from rlrun.algorithms.decision_transformer.policy import DTPolicy
from rlrun.algorithms.decision_transformer.transformer import DecisionTransformer, interleaved
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.policy.action_spaces.discrete import Categorical
from rlrun.engine.policy.weights import Weights
from rlrun.engine.training.training import Training
from tests.results import numbers

SPACES = Spaces(gymnasium.spaces.Box(-99, 99, (1,), np.float32), gymnasium.spaces.Discrete(2))
TINY = {"embedding": 8, "num_layers": 2, "num_heads": 2, "context_length": 3, "return_scale": 10.0}


def counted_episodes(folder: Path, *lengths: int) -> DataSet:
    """Writes episodes whose observations are 10 * episode + step, and whose rewards are 1, 2, 3, ..."""
    with SetWriter(folder, *SPACES) as writer:
        for episode, length in enumerate(lengths):
            steps = np.arange(length + 1)
            ends = steps[1:] == length
            writer.add_episode(
                {
                    "obs": (10 * episode + steps)[:, None].astype(np.float32),
                    "actions": steps[:-1] % 2,
                    "rewards": steps[1:].astype(np.float64),
                    "terminateds": ends,
                    "truncateds": np.zeros_like(ends),
                }
            )
    return DataSet(folder)


def test_tokens_alternate_between_return_state_and_action_step_by_step() -> None:
    kinds = [torch.tensor([[[kind + step] for step in range(3)]]) for kind in (10.0, 20.0, 30.0)]
    assert interleaved(*kinds).flatten().tolist() == [10, 20, 30, 11, 21, 31, 12, 22, 32]


def test_returns_to_go_include_the_rewards_of_the_step_and_all_later_ones(tmp_path: Path) -> None:
    windows = Windows(counted_episodes(tmp_path / "set", 4, 2), length=3)
    assert len(windows) == 6
    batch = windows.gather(np.array([0, 1, 4]))
    np.testing.assert_array_equal(batch[RETURNS], [[10, 9, 7], [9, 7, 4], [3, 2, 0]])
    np.testing.assert_array_equal(batch["obs"][..., 0], [[0, 1, 2], [1, 2, 3], [10, 11, 0]])
    np.testing.assert_array_equal(batch[STEPS], [[0, 1, 2], [1, 2, 3], [0, 1, 0]])
    np.testing.assert_array_equal(batch["valid"], [[True] * 3, [True] * 3, [True, True, False]])
    np.testing.assert_array_equal(batch["actions"], [[0, 1, 0], [1, 0, 1], [0, 1, 0]])


def moved(name: str, place: int) -> list[bool]:
    """Returns which steps' outputs depend on an input at one place."""
    torch.manual_seed(0)
    network = DecisionTransformer(1, 2, 2, width=8, layers=2, heads=2, max_steps=9)
    inputs = {
        "returns": torch.rand(1, 4),
        "states": torch.rand(1, 4, 1),
        "actions": torch.rand(1, 4, 2),
        "steps": torch.arange(4)[None],
    }
    other = {**inputs, name: inputs[name].clone()}
    other[name][:, place] += 1
    with torch.no_grad():
        return ((network(**inputs) - network(**other)).abs() > 1e-7).any(-1)[0].tolist()


@pytest.mark.parametrize(
    ("name", "first"),
    [("returns", 0), ("states", 0), ("actions", 1), ("steps", 0)],
    ids=["return", "state", "action", "step"],
)
def test_an_action_prediction_depends_only_on_earlier_tokens(name: str, first: int) -> None:
    for place in range(3):
        assert moved(name, place) == [step >= place + first for step in range(4)]


def test_padding_does_not_affect_the_loss() -> None:
    outputs: Any = SimpleNamespace(distribution=Categorical(torch.tensor([[[0.0, math.log(3)], [9.0, 0.0]]])))
    batch = SampleBatch(actions=torch.tensor([[1, 1]]), valid=torch.tensor([[True, False]]))
    assert rlrun.DT().loss(outputs, batch, {}).total.item() == pytest.approx(-math.log(3 / 4))


@given(st.integers(1, 5), st.integers(1, 12))
def test_the_context_holds_the_latest_steps_with_their_remaining_target_returns(length: int, steps: int) -> None:
    context = Context(length, features=1, actions=1)
    state = np.zeros((1, context.state_size), np.float32)
    for step in range(steps):
        state = context.with_observation(state, np.array([[float(step)]], np.float32), target_return=100.0)
        state = context.with_actions(state, np.array([[step + 0.5]], np.float32))
        state[:, TO_GO] -= step + 1  # the step's reward
    shown = np.arange(max(steps - length, 0), steps)
    rows = context.rows(state)[0, : len(shown)]
    np.testing.assert_array_equal(rows[:, 0], 100 - shown * (shown + 1) / 2)
    np.testing.assert_array_equal(rows[:, 1], shown)
    np.testing.assert_array_equal(rows[:, 2], shown + 0.5)
    assert (state[0, COUNT], state[0, STEP]) == (len(shown), steps)
    np.testing.assert_array_equal(context.numbers(state)[0, : len(shown)], shown)


def test_outputs_of_step_by_step_acting_equal_the_training_outputs(tmp_path: Path) -> None:
    policy = DTPolicy(SPACES, DTConfig.parse({**TINY, "target_return": 10.0}), 0)
    behavior = policy.behavior()
    flat = policy.parameters.gather(policy.module)
    behavior.load(Weights(0, flat.numpy(), filters={}, env_steps=0, schedules={}))
    batch = Windows(counted_episodes(tmp_path / "set", 4), length=3).gather(np.array([0, 1]))
    taught = SampleBatch(batch.map(torch.from_numpy))
    expected = policy.outputs(policy.parameters.views(flat), taught).distribution.outputs.detach()
    behavior.begin_episodes(np.array([True]))
    found = []
    for step in range(4):  # rewards are 1, 2, 3, ...; actions come from the data
        found.append(behavior.outputs(np.array([[step]], np.float32)))
        behavior.memory.remember(np.array([step % 2]), None)
        behavior.take_rewards(np.array([step + 1.0]))
    np.testing.assert_allclose(np.concatenate(found[:3]), expected[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[3], expected[1, 2:], rtol=1e-5, atol=1e-6)  # the first step has left the context


def test_actions_executed_in_place_of_chosen_ones_enter_the_context() -> None:
    told, own = (DTPolicy(SPACES, DTConfig.parse(TINY), 0).behavior() for _ in range(2))
    for behavior in (told, own):
        behavior.begin_episodes(np.array([True]))
        (chosen,) = behavior.actions(np.zeros((1, 1), np.float32), None)
    told.take_actions(np.array([1 - chosen]))
    own.memory.remember(np.array([1 - chosen]), None)
    np.testing.assert_array_equal(told.memory.state()["recurrent_state"], own.memory.state()["recurrent_state"])


def test_actions_chosen_while_collecting_enter_the_context() -> None:
    policy = DTPolicy(SPACES, DTConfig.parse(TINY), 0)
    collecting, expected = policy.behavior(), policy.behavior()
    seen, starts = np.zeros((3, 1), np.float32), np.ones(3, np.bool_)
    noise = collecting.noise_source.noise(np.random.default_rng(0), 1, 3)[0]
    record = collecting.collector.allocate(1, 3)
    collecting.act(seen, noise, record, 0, starts)
    expected.begin_episodes(starts)
    expected.outputs(seen)
    expected.memory.remember(record["actions"][0], None)
    np.testing.assert_array_equal(collecting.memory.recurrent, expected.memory.recurrent)


def test_a_new_episode_starts_from_the_full_target_return_again() -> None:
    behavior = DTPolicy(SPACES, DTConfig.parse({**TINY, "target_return": 10.0}), 0).behavior()
    for starts in ([True, True], [False, True]):
        behavior.begin_episodes(np.array(starts))
        behavior.actions(np.zeros((2, 1), np.float32), None)
        behavior.take_rewards(np.array([4.0, 4.0]))
    assert behavior.memory.state()["recurrent_state"][:, TO_GO].tolist() == [2, 6]
    behavior.begin_episodes(np.array([False, True]))
    behavior.actions(np.zeros((2, 1), np.float32), None)
    assert behavior.memory.state()["recurrent_state"][:, TO_GO].tolist() == [2, 10]


def test_a_resumed_run_continues_bit_for_bit(tmp_path: Path) -> None:
    config = {**TINY, "input": "configs/cartpole/data/expert", "minibatch_size": 4, "sgd_steps_per_iteration": 2}
    with Training("CartPole-v1", rlrun.DT(**config, normalize_observations=True, target_return=20), seed=100) as one:
        one.step()
        checkpoint = one.save(tmp_path / "checkpoint")
        expected = numbers(one.step()), one.evaluate(2)
    with Training.restore(checkpoint, trust=True) as other:
        assert (numbers(other.step()), other.evaluate(2)) == expected
    assert expected[0]["learner/log_prob"] < 0


def test_unsupported_heads_images_and_action_spaces_are_refused(wording) -> None:
    with wording.raised(SpecError, "num_heads"):
        DTConfig.parse({"embedding": 8, "num_heads": 3})
    images = Spaces(gymnasium.spaces.Box(0, 255, (40, 40, 3), np.uint8), SPACES.action)
    with wording.raised(UsageError):
        DTPolicy(images, DTConfig(), 0)
    with wording.raised(UsageError):
        DTPolicy(Spaces(SPACES.observation, gymnasium.spaces.MultiBinary(2)), DTConfig(), 0)
