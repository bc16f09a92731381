"""Steps on whole minibatches, as a replay passes them to the learner."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.local_learner import LocalLearner
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.policy.flat_parameters import FlatParameters
from rlrun.engine.policy.policy import Policy
from tests.rounding import rounding_error


class Values(nn.Module):
    """Values of two actions in observations of three numbers."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(3, 8), nn.Tanh())
        self.head = nn.Linear(8, 2)

    def forward(self, observations):
        """Returns values [S, L, 2]."""
        return self.head(self.trunk(observations))


@dataclass
class Networks:
    """The network and its target."""

    module: nn.Module
    views: dict
    target_views: dict

    def values(self, observations):
        """Returns values [S, L, 2]."""
        return functional_call(self.module, self.views, (observations,))

    def target_values(self, observations):
        """Returns the target's values [S, L, 2]."""
        return functional_call(self.module, self.target_views, (observations,))


class ValuesPolicy(Policy):
    """A small policy family."""

    def __init__(self):
        torch.manual_seed(1)
        self.module = Values()
        self.parameters = FlatParameters(self.module)

    def outputs(self, views, batch, target_views=None):
        """Returns the networks."""
        return Networks(self.module, views, target_views)

    def behavior(self):
        """Does not act."""
        raise NotImplementedError


class NoisyPolicy(ValuesPolicy):
    """A policy whose losses take noise."""

    def draws(self, generator, rows, length):
        return {"noise": generator.standard_normal((rows, length), np.float32)}


def td_loss(outputs, batch, scheduled):
    values = outputs.values(batch["obs"]).gather(-1, batch["actions"].unsqueeze(-1)).squeeze(-1)
    errors = values - batch["rewards"] - 0.9 * outputs.target_values(batch["next_obs"]).amax(-1)
    loss = masked_mean(errors.square() * batch["weights"], batch["valid"].float())
    return Loss(loss, {"loss": loss}, priorities=errors.abs().squeeze(-1))


def learner_for(objectives=None, *, family=ValuesPolicy, update_executor="eager", seed=3):
    return LocalLearner(
        family(),
        objectives or [Objective("loss", td_loss)],
        device="cpu",
        update_executor=update_executor,
        seed=seed,
        has_target=True,
    )


def rewarded_batch(rows, seed=0):
    rng = np.random.default_rng(seed)
    return SampleBatch(
        obs=rng.normal(size=(rows, 1, 3)).astype(np.float32),
        actions=rng.integers(0, 2, (rows, 1)),
        rewards=rng.normal(size=(rows, 1)).astype(np.float32),
        next_obs=rng.normal(size=(rows, 1, 3)).astype(np.float32),
        weights=np.ones((rows, 1), np.float32),
        valid=np.ones((rows, 1), bool),
    )


def test_a_step_equals_an_epoch_of_one_minibatch_and_returns_the_priority_of_every_row():
    stepped, learned, batch = learner_for(), learner_for(), rewarded_batch(12)
    target = stepped.target()
    values = values_of(stepped.flat(), batch["obs"])
    chosen = np.take_along_axis(values, batch["actions"][:, 0, None], 1)[:, 0]
    expected = np.abs(chosen - batch["rewards"][:, 0] - 0.9 * values_of(target, batch["next_obs"]).max(-1))
    near = rounding_error(3 + 8)
    np.testing.assert_allclose(stepped.step(batch, scheduled={"lr": 1e-2}), expected, rtol=near, atol=near)
    learned.learn(batch, num_epochs=1, minibatch_size=12, scheduled={"lr": 1e-2})
    np.testing.assert_allclose(stepped.flat(), learned.flat(), atol=rounding_error(12))
    assert (stepped.sgd_steps, stepped.weights_version) == (1, 1)
    np.testing.assert_array_equal(stepped.target(), target)
    assert stepped.take_statistics() == pytest.approx(learned.take_statistics(), rel=rounding_error(12))


@pytest.mark.parametrize("executor", ["numpy", "c"])
@pytest.mark.parametrize("whole", [True, False], ids=["step", "learn"])
def test_later_batches_may_have_additional_columns_and_another_order_of_columns(executor, whole):
    batches = [rewarded_batch(12, seed) for seed in range(3)]
    batches[1] = SampleBatch(dict(reversed(batches[1].items())))
    batches[2] = SampleBatch(further=np.arange(24.0).reshape(12, 1, 2), **batches[2])
    found = []
    for own in ("eager", executor):
        learner = learner_for(update_executor=own)
        for batch in (batches[0], *batches):
            if whole:
                learner.step(batch, scheduled={"lr": 1e-2})
            else:
                learner.learn(batch, num_epochs=1, minibatch_size=4, scheduled={"lr": 1e-2})
        found.append(learner.flat())
    np.testing.assert_allclose(found[1], found[0], atol=1e-5)


def values_of(flat, observations):
    policy = ValuesPolicy()
    views = policy.parameters.views(torch.from_numpy(flat))
    return functional_call(policy.module, views, (torch.from_numpy(observations[:, 0]),)).detach().numpy()


def test_the_target_network_moves_by_the_given_fraction_of_its_distance_to_the_network():
    learner = learner_for()
    before = learner.target()
    learner.step(rewarded_batch(12), scheduled={"lr": 1e-2})
    now = learner.flat()
    assert np.abs(now - before).max() > 1e-3
    learner.update_target(0.25)
    np.testing.assert_allclose(learner.target(), before + 0.25 * (now - before), atol=rounding_error(2))
    learner.update_target()
    np.testing.assert_array_equal(learner.target(), now)


def test_an_objective_differentiates_and_updates_only_its_own_parameters():
    needed = []

    def head_loss(outputs, batch, scheduled):
        needed.append({name: view.requires_grad for name, view in outputs.views.items()})
        return td_loss(outputs, batch, scheduled)

    learner = learner_for([Objective("head", head_loss, parameters="head.")])
    names = learner.policy.parameters.named
    before = {name: part.copy() for name, part in names(learner.flat()).items()}
    learner.step(rewarded_batch(12), scheduled={"lr": 1e-2})
    after = names(learner.flat())
    for name in before:
        assert needed[0][name] == name.startswith("head.")
        assert np.array_equal(before[name], after[name]) != name.startswith("head.")


def test_the_gradient_for_some_of_the_parameters_equals_their_part_of_the_whole_gradient():
    whole, part = learner_for(), learner_for([Objective("loss", td_loss, parameters="trunk.")])
    batch = rewarded_batch(12)
    slots = [slot for slot in whole.policy.parameters.slots if slot.name.startswith("trunk.")]
    start, end = slots[0].offset, slots[-1].offset + slots[-1].size
    all_of_it = whole.gradients(batch, scheduled={"lr": 1e-2})
    np.testing.assert_allclose(
        part.gradients(batch, scheduled={"lr": 1e-2})[: end - start], all_of_it[start:end], atol=rounding_error(12)
    )


def test_an_objective_runs_every_n_steps_with_its_own_learning_rate():
    objectives = [
        Objective("often", td_loss, parameters="trunk."),
        Objective("seldom", td_loss, lr="slow_lr", parameters="head.", every=3),
    ]
    learner = learner_for(objectives)
    head = learner.policy.parameters.named(learner.flat())["head.weight"].copy()
    moved = []
    for seed in range(7):
        before = learner.flat()
        learner.step(rewarded_batch(12, seed), scheduled={"lr": 1e-2, "slow_lr": 0.0})
        moved.append(not np.array_equal(before, learner.flat()))
    assert all(moved)
    np.testing.assert_array_equal(learner.policy.parameters.named(learner.flat())["head.weight"], head)  # lr is 0
    assert learner.optimizer_state()["often/steps"] == 7
    assert learner.optimizer_state()["seldom/steps"] == 3


def test_losses_get_new_noise_for_every_minibatch_and_the_noise_continues_after_a_checkpoint():
    seen = []

    def noisy_loss(outputs, batch, scheduled):
        seen.append(batch["noise"].clone())
        return td_loss(outputs, batch, scheduled)

    first = learner_for([Objective("loss", noisy_loss)], family=NoisyPolicy)
    first.step(rewarded_batch(5), scheduled={"lr": 1e-2})
    state = first.state()
    first.step(rewarded_batch(5), scheduled={"lr": 1e-2})
    second = learner_for([Objective("loss", noisy_loss)], family=NoisyPolicy, seed=99)
    second.load_state(state)
    second.step(rewarded_batch(5), scheduled={"lr": 1e-2})
    assert seen[0].shape == (5, 1)
    assert not torch.equal(seen[0], seen[1])
    assert torch.equal(seen[1], seen[2])


@pytest.mark.parametrize("family", [ValuesPolicy, NoisyPolicy])
@pytest.mark.parametrize("update_executor", ["eager", "numpy", "c"])
def test_updates_on_several_minibatches_in_one_call_equal_one_call_per_minibatch(family, update_executor):
    def loss(outputs, batch, scheduled):
        rewards = batch["rewards"] + batch["noise"] if family is NoisyPolicy else batch["rewards"]
        return td_loss(outputs, SampleBatch(batch, rewards=rewards), scheduled)

    objectives = [Objective("now", loss), Objective("then", loss, every=2)]
    together, one_by_one = (learner_for(objectives, family=family, update_executor=update_executor) for _ in range(2))
    batch, scheduled = rewarded_batch(15), {"lr": 1e-2}
    for _ in range(2):
        assert len(together.step(batch, scheduled=scheduled, minibatches=5)) == 0
        for first in range(0, 15, 3):
            part = batch.map(lambda leaf, first=first: leaf[first : first + 3])
            one_by_one.step(part, scheduled=scheduled)
    np.testing.assert_array_equal(together.flat(), one_by_one.flat())
    assert together.state()["objectives"] == one_by_one.state()["objectives"] == {"now": 10, "then": 10}
    assert (together.sgd_steps, together.weights_version) == (one_by_one.sgd_steps, one_by_one.weights_version)
    assert together.take_statistics() == one_by_one.take_statistics()


@pytest.mark.parametrize("update_executor", ["numpy", "c"])
def test_kernels_return_the_priorities_and_statistics_of_each_minibatch(update_executor):
    eager, kernels = learner_for(), learner_for(update_executor=update_executor)
    near = {"rtol": 1e-5, "atol": 1e-6}
    for seed in range(3):
        expected, found = (each.step(rewarded_batch(12, seed), scheduled={"lr": 1e-2}) for each in (eager, kernels))
        np.testing.assert_allclose(found, expected, **near)
        assert kernels.last_statistics() == pytest.approx(eager.last_statistics(), rel=1e-5)
    assert kernels.take_statistics() == pytest.approx(eager.take_statistics(), rel=1e-5)
    np.testing.assert_allclose(kernels.flat(), eager.flat(), **near)
