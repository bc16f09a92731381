from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import torch

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.minibatch_updates import MinibatchUpdates
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.learner.update import Parameters
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from tests.policies import plain_policy

SETTINGS = {"lr": torch.tensor(0.01)}
SPACE = gymnasium.spaces.Box(-1, 1, (3,))


def value_loss(outputs: Any, batch: SampleBatch, scheduled: Mapping[str, torch.Tensor]) -> Loss:
    error = masked_mean((outputs.values - batch["value_targets"]).square(), batch["valid"].float())
    return Loss(error, {"error": error})


def updates_and_parameters(*, every: int = 1) -> tuple[MinibatchUpdates, torch.Tensor]:
    policy = plain_policy(ActorCriticPolicy, SPACE, gymnasium.spaces.Discrete(2), ModelConfig(hiddens=(8,)), seed=1)
    flat = policy.parameters.gather(policy.module)
    updates = MinibatchUpdates(
        policy,
        (Objective("value", value_loss, every=every),),
        Parameters(flat),
        update_executor="eager",
        runs_users_code=True,
        microbatch_size=None,
        all_reduce=None,
        precision="float32",
        announce=print,
    )
    return updates, flat


def batch_with_targets(rows: int) -> SampleBatch:
    drawn = np.random.default_rng(0)
    numbers = {"obs": drawn.normal(size=(rows, 1, 3)), "value_targets": drawn.normal(size=(rows, 1))}
    columns = SampleBatch({name: values.astype(np.float32) for name, values in numbers.items()})
    return SampleBatch(columns, valid=np.ones((rows, 1), np.bool_)).map(torch.from_numpy)


def test_applying_the_gradients_of_a_minibatch_equals_a_step_on_it() -> None:
    (stepped, by_step), (applied, by_gradients) = updates_and_parameters(), updates_and_parameters()
    before = by_step.clone()
    stepped.step(batch_with_targets(16), SETTINGS)
    gradients = applied.gradients(batch_with_targets(16), SETTINGS)
    torch.testing.assert_close(by_gradients, before, rtol=0.0, atol=0.0)
    applied.apply_gradients(gradients, applied.statistics_of_gradients, SETTINGS)
    assert not torch.equal(by_step, before)
    torch.testing.assert_close(by_gradients, by_step, rtol=1e-6, atol=1e-7)
    assert applied.totals.take().keys() == stepped.totals.take().keys()


def test_a_minibatch_for_which_no_objective_is_due_changes_nothing() -> None:
    updates, flat = updates_and_parameters(every=2)
    updates.step(batch_with_targets(16), SETTINGS)
    before, state = flat.clone(), updates.optimizer_state()
    assert updates.step(batch_with_targets(16), SETTINGS).numel() == 0
    assert torch.equal(flat, before)
    for name, values in updates.optimizer_state().items():
        np.testing.assert_array_equal(values, state[name])


def test_updates_with_restored_optimizers_continue_bit_for_bit() -> None:
    (first, flat), (second, restored) = updates_and_parameters(), updates_and_parameters()
    first.step(batch_with_targets(16), SETTINGS)
    restored.copy_(flat)
    second.load_optimizer_state(first.optimizer_state())
    first.step(batch_with_targets(8), SETTINGS)
    second.step(batch_with_targets(8), SETTINGS)
    assert torch.equal(flat, restored)
