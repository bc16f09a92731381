"""`examples/ppo_in_one_file.py` computes what rlrun's PPO computes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlrun.algorithms.ppo import PPO
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.flow.operators.advantages import ComputeAdvantages, Standardize
from rlrun.engine.learner.local_learner import LocalLearner

FILE = Path(__file__).resolve().parents[2] / "examples" / "ppo_in_one_file.py"
SHORT_POLE = "ShortPole-v0"
STEPS, ENVS, MINIBATCH, EPOCHS = 40, 4, 40, 5


@pytest.fixture(scope="module")
def one_file() -> Any:
    spec = spec_from_file_location("ppo_in_one_file", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def short_pole() -> Iterator[gymnasium.Env[Any, Any]]:
    """CartPole with a limit of 12 steps, so that episodes of a random policy end in both ways."""
    gymnasium.register(SHORT_POLE, "gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=12)
    yield gymnasium.make(SHORT_POLE)
    del gymnasium.registry[SHORT_POLE]


def fragment_of(batch: Any) -> tuple[SampleBatch, tuple[NDArray[Any], NDArray[Any]]]:
    """A batch in rlrun's format, with a row for each final observation, and the places of the steps in it."""
    steps, envs = batch.rewards.shape
    rows = np.zeros((steps, envs), np.int64)
    for b in range(envs):
        rows[:, b] = np.arange(steps) + np.concatenate([[0], np.cumsum(batch.ended[:-1, b].numpy())]).astype(np.int64)
    height = rows.max() + 2
    places = (rows.ravel(), np.tile(np.arange(envs), steps))

    def laid_out(column: torch.Tensor, dtype: Any) -> NDArray[Any]:
        array = np.zeros((height, *column.shape[1:]), dtype)
        array[places] = column.flatten(0, 1).numpy()
        return array

    values = np.zeros((height + 1, envs), np.float32)
    values[places[0] + 1, places[1]] = batch.next_values.flatten().numpy()
    values[places] = batch.values.flatten().numpy()
    values[-1] = batch.next_values[-1].numpy()  # the successors of the last steps, where the episodes go on
    truncated = (batch.ended - batch.terminated).bool()
    return (
        SampleBatch(
            rewards=laid_out(batch.rewards, np.float32),
            terminateds=laid_out(batch.terminated.bool(), np.bool_),
            truncateds=laid_out(truncated, np.bool_),
            valid=laid_out(torch.ones_like(batch.rewards), np.bool_),
            values=values,
        ),
        places,
    )


def test_twenty_updates_of_the_one_file_ppo_equal_those_of_rlruns_ppo(
    one_file: Any, short_pole: gymnasium.Env[Any, Any]
) -> None:
    settings = one_file.Settings(num_epochs=EPOCHS, minibatch_size=MINIBATCH, entropy_coeff=0.01)
    algorithm = PPO(
        lr=settings.lr,
        gamma=settings.gamma,
        entropy_coeff=settings.entropy_coeff,
        max_grad_norm=settings.max_grad_norm,
        compile=False,
    )
    assert (algorithm.config.gae_lambda, algorithm.config.clip_param) == (settings.gae_lambda, settings.clip_param)
    assert algorithm.config.vf_loss_coeff == settings.vf_loss_coeff
    policy = algorithm.policy(Spaces(short_pole.observation_space, short_pole.action_space), 0)
    learner = LocalLearner(policy, algorithm.objectives(policy), device="cpu", update_executor="eager", seed=3)
    model = one_file.ActorCritic(4, 2, settings.hidden)
    first = policy.parameters.named(learner.flat())
    with torch.no_grad():
        for own, theirs in zip(model.parameters(), first.values(), strict=True):
            own.copy_(torch.from_numpy(theirs))
    torch.manual_seed(0)
    batch = one_file.Collector(SHORT_POLE, ENVS, seed=0).collect(model, STEPS)
    assert batch.terminated.any()
    assert (batch.ended > batch.terminated).any()

    fragment, places = fragment_of(batch)
    computed = ComputeAdvantages(settings.gamma, settings.gae_lambda)(fragment)
    advantages, targets = one_file.advantages_of(batch, settings.gamma, settings.gae_lambda)
    np.testing.assert_allclose(computed["advantages"][places], advantages.flatten(), atol=1e-5)
    np.testing.assert_allclose(computed["value_targets"][places], targets.flatten(), atol=1e-5)

    standardized = Standardize("advantages")(computed)["advantages"][places]
    columns = {
        "obs": batch.observations.flatten(0, 1).numpy(),
        "actions": batch.actions.flatten().numpy(),
        "logp": batch.logp.flatten().numpy(),
        "values": batch.values.flatten().numpy(),
        "advantages": standardized,
        "value_targets": computed["value_targets"][places],
        "valid": np.ones(STEPS * ENVS, np.bool_),
    }
    scheduled = {"lr": settings.lr, "clip_param": settings.clip_param, "entropy_coeff": settings.entropy_coeff}
    learner.learn(
        SampleBatch({name: column[:, None] for name, column in columns.items()}),
        num_epochs=EPOCHS,
        minibatch_size=MINIBATCH,
        scheduled=scheduled,
    )
    assert learner.sgd_steps == 20
    generator = np.random.Generator(np.random.Philox(3))
    order = np.stack([generator.permutation(STEPS * ENVS) for _ in range(EPOCHS)])
    one_file.learn(model, one_file.Adam(list(model.parameters()), settings.lr), batch, order, settings)
    last = policy.parameters.named(learner.flat())
    assert max(float(np.abs(last[name] - first[name]).max()) for name in last) > 1e-3
    for own, theirs in zip(model.parameters(), last.values(), strict=True):
        np.testing.assert_allclose(own.detach().numpy(), theirs, rtol=0, atol=1e-6)


def test_advantages_do_not_leak_across_episode_ends(one_file: Any) -> None:
    """Rewards 1, 2, 3, 4, with a time limit after the second: gamma 0.5, lambda 1, value 10 after each step."""
    ones = torch.ones(4, 1)
    batch = one_file.Batch(
        observations=ones,
        actions=ones,
        logp=ones,
        values=0 * ones,
        next_values=10 * ones,
        rewards=torch.tensor([[1.0], [2.0], [3.0], [4.0]]),
        terminated=torch.tensor([[0.0], [0.0], [0.0], [1.0]]),
        ended=torch.tensor([[0.0], [1.0], [0.0], [1.0]]),
    )
    advantages, targets = one_file.advantages_of(batch, 0.5, 1.0)
    assert advantages.flatten().tolist() == [6 + 0.5 * 7, 7, 8 + 0.5 * 4, 4]
    assert targets.tolist() == advantages.tolist()
