"""Updates that draw and read their minibatches from a replay buffer in C equal updates on rows, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.learner.learner import TargetUpdates, last_batch_of
from rlrun.engine.learner.replay_steps import replay_steps
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from rlrun.engine.replay.replay_config import ReplayConfig
from rlrun.engine.training.training import Training
from rlrun.plugin import DQN, SAC, TD3

SIZE = 8
NUMBERS = (1, 1, 3, 2, 4)
"""Minibatches of successive calls; the first ones of each kind are traced on rows."""


def started(algorithm: Any, env: str) -> Any:
    """Returns a training whose updates run in C kernels, and its policy in training."""
    training = Training(env, algorithm, seed=2)
    training.start()
    trainee = training.running.trainee
    return training, trainee


def fragment(spaces: Any, length: int = 60) -> SampleBatch:
    """Returns random steps [T, 1] in which episodes end now and then."""
    generator = np.random.default_rng(4)
    shape = (length, 1)
    ends = generator.random(shape) < 0.1
    valid = np.ones(shape, np.bool_)
    valid[1:] = ~ends[:-1]
    size = spaces.observation.shape[0]
    actions: Any = generator.integers(0, 2, shape)
    if spaces.action.shape:
        actions = generator.uniform(-1, 1, (*shape, *spaces.action.shape)).astype(np.float32)
    return SampleBatch(
        obs=generator.normal(size=(length + 1, 1, size)).astype(np.float32),
        actions=actions,
        rewards=generator.normal(size=shape).astype(np.float32),
        terminateds=ends & valid,
        truncateds=np.zeros(shape, np.bool_),
        valid=valid,
    )


def learned(
    algorithm: Any,
    env: str,
    target: TargetUpdates,
    *,
    in_one_call: bool,
    n_step: int = 1,
    sampling: str = "uniform",
    reversed_first: bool = False,
) -> Any:
    """Returns parameters, target parameters, statistics and priorities after the minibatches of all calls.

    With `reversed_first`, a minibatch with its columns in reverse order comes before them.
    """
    training, trainee = started(algorithm, env)
    learner, scheduled = trainee.learner, trainee.clock.scheduled()
    step_from = replay_steps(learner)
    assert step_from is not None
    config = ReplayConfig(capacity=100, sampling=sampling)
    buffer = ReplayBuffer(config, num_workers=1, n_step=n_step, gamma=0.9, seed=3, in_kernels=True)
    buffer.add(0, fragment(trainee.spaces))
    seen, priorities = 0, []
    if reversed_first:
        memory = buffer.unread(SIZE, 0, 1)
        assert memory is not None
        rows = memory.read(1)
        del rows["indices"]
        learner.step(SampleBatch(dict(reversed(rows.items()))), scheduled=scheduled)
        seen = 1
    for number in NUMBERS:
        memory = buffer.unread(SIZE, 0, 1 if sampling == "prioritized" else number)
        assert memory is not None
        indices, number = memory.chosen, memory.number
        if in_one_call:
            found = step_from(memory, scheduled=scheduled, target=target, seen=seen % target.every)
        else:
            for k in range(number):
                rows = memory.read(1)
                del rows["indices"]
                found = learner.step(rows, scheduled=scheduled)
                if (seen + k + 1) % target.every == 0:
                    learner.update_target(target.tau)
        seen += number
        if indices is not None:
            priorities.append(found.tolist())
            buffer.update_priorities(indices, found)
    last = dict(last_batch_of(learner) or {})["obs"]
    statistics = learner.take_statistics()
    training.close()
    assert learner.sgd_steps == learner.weights_version == seen
    return (
        learner.flat(),
        learner.target(),
        statistics,
        priorities,
        last,
        buffer.sample(SIZE, 0)["indices"],
    )


SMALL = {"model": {"hiddens": [8]}, "compile": True}


def torch_rounds_once(tau: float) -> bool:
    """Whether torch's `lerp` rounds as one fused operation; its kernels for processors before AVX2 do not."""
    start, end = np.random.default_rng(5).normal(size=(2, 64)).astype(np.float32)
    weight, onto = (np.float32(tau), start) if tau < 0.5 else (np.float32(tau) - np.float32(1), end)
    once = (onto.astype(np.float64) + np.float64(weight) * (end - start)).astype(np.float32)
    return np.array_equal(torch.lerp(torch.tensor(start), torch.tensor(end), tau).numpy(), once)


@pytest.mark.parametrize(
    ("algorithm", "env", "tau", "n_step", "sampling"),
    [
        (DQN(**SMALL), "CartPole-v1", 1.0, 3, "uniform"),
        (DQN(**SMALL), "CartPole-v1", 0.7, 1, "prioritized"),
        (SAC(**SMALL), "Pendulum-v1", 0.005, 1, "uniform"),
        (TD3(**SMALL), "Pendulum-v1", 0.3, 1, "uniform"),
    ],
    ids=["dqn", "prioritized", "sac", "td3"],
)
def test_minibatches_drawn_in_one_call_give_the_same_parameters_as_separate_updates(
    algorithm: Any, env: str, tau: float, n_step: int, sampling: str
) -> None:
    if not torch_rounds_once(tau):
        pytest.skip("torch's lerp rounds twice with the kernels that this processor or the environment chooses")
    ours, theirs = (
        learned(algorithm, env, TargetUpdates(2, tau), in_one_call=called, n_step=n_step, sampling=sampling)
        for called in (True, False)
    )
    for own, other in zip(ours, theirs, strict=True):
        np.testing.assert_equal(own, other)
    assert not np.array_equal(ours[0], ours[1])


def test_a_minibatch_with_another_order_of_columns_does_not_affect_later_replay_updates() -> None:
    target = TargetUpdates(every=2, tau=1.0)
    found = [
        learned(DQN(**SMALL), "CartPole-v1", target, in_one_call=in_one_call, reversed_first=True)
        for in_one_call in (False, True)
    ]
    for separate, together in zip(found[0][:2], found[1][:2], strict=True):
        np.testing.assert_array_equal(together, separate)
