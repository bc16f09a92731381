import gymnasium
import numpy as np
import pytest
import torch

from rlrun.algorithms.ppo import PPO
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.executors.compilation import compiler
from rlrun.engine.learner.local_learner import LocalLearner
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.learner.optimizers import Adam
from rlrun.engine.learner.update import clipped
from rlrun.engine.learner.users_loss import checked
from rlrun.engine.messages.errors import TrainingFailed
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from tests.policies import plain_policy
from tests.rounding import rounding_error

SPACE = gymnasium.spaces.Dict({"a": gymnasium.spaces.Box(-1, 1, (3,)), "b": gymnasium.spaces.Discrete(2)})


def actor_critic_loss(outputs, batch, scheduled):
    valid = batch["valid"].float()
    policy_loss = -masked_mean(outputs.distribution.log_prob(batch["actions"]) * batch["advantages"], valid)
    value_loss = masked_mean((outputs.values - batch["value_targets"]).square(), valid)
    total = policy_loss + value_loss - scheduled["entropy_coeff"] * masked_mean(outputs.distribution.entropy(), valid)
    return Loss(total, {"policy_loss": policy_loss, "value_loss": value_loss})


SCHEDULED = {"lr": 1e-3, "entropy_coeff": 0.01}


def learner_for(*, family=ActorCriticPolicy, objectives=None, update_executor="eager", seed=3, announce=print):
    policy = plain_policy(
        family,
        SPACE,
        gymnasium.spaces.Box(-1, 1, (2,)),
        ModelConfig(hiddens=(16,)),
        seed=1,
    )
    return LocalLearner(
        policy,
        objectives or [Objective("loss", actor_critic_loss, max_grad_norm=0.5)],
        device="cpu",
        update_executor=update_executor,
        seed=seed,
        announce=announce,
    )


def nested_batch(rows, seed=0):
    rng = np.random.default_rng(seed)
    return SampleBatch(
        obs={"a": rng.normal(size=(rows, 1, 3)).astype(np.float32), "b": rng.integers(0, 2, (rows, 1))},
        actions=rng.normal(size=(rows, 1, 2)).astype(np.float32),
        advantages=rng.normal(size=(rows, 1)).astype(np.float32),
        value_targets=rng.normal(size=(rows, 1)).astype(np.float32),
        valid=np.ones((rows, 1), bool),
    )


def learn(learner, batch, num_epochs=1, minibatch_size=16, scheduled=SCHEDULED, **more):
    learner.learn(batch, num_epochs=num_epochs, minibatch_size=minibatch_size, scheduled=scheduled, **more)
    return learner.flat()


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Keeps what one test has compiled for the next, separately from the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        directory = tmp_path_factory.mktemp("cache")
        patch.setenv("RLRUN_CACHE", str(directory))
        # Optimizing the code around the kernels takes most of the time and does not change any results.
        patch.setattr("torch._inductor.config.aot_inductor.compile_wrapper_opt_level", "O0")
        # The processor reports its vector instructions, so torch need not compile a program to test each of them.
        patch.setattr("torch._inductor.config.cpp.vec_isa_ok", True)
        # Precompiling torch's headers only pays off from the third program on.
        patch.setattr("torch._inductor.config.aot_inductor.precompile_headers", False)
        yield directory


@pytest.mark.skipif(compiler() is None, reason="this machine has no C++ compiler")
def test_compiled_and_eager_parameters_agree_to_1e_5_after_20_updates(cache):
    eager, compiled = learner_for(), learner_for(update_executor="compiled")
    batch = nested_batch(160)
    for _ in range(2):
        first, second = learn(eager, batch), learn(compiled, batch)
    assert (eager.sgd_steps, compiled.sgd_steps) == (20, 20)
    assert np.abs(first - batch_start(eager)).max() > 1e-3
    np.testing.assert_allclose(first, second, atol=1e-5)
    statistics = eager.take_statistics()
    assert list(statistics) == ["policy_loss", "value_loss", "grad_norm"]
    assert statistics == pytest.approx(compiled.take_statistics(), abs=rounding_error(16))


@pytest.mark.skipif(compiler() is None, reason="this machine has no C++ compiler")
def test_a_compiled_update_is_reused_from_the_cache(cache):
    told, results = [], []
    for _ in range(2):
        learner = learner_for(update_executor="compiled", announce=told.append)
        results.append((learn(learner, nested_batch(16)).tolist(), list(learner.take_statistics())))
    assert results[0] == results[1]
    assert len(list(cache.glob("compiled/*.pt2"))) == 1
    assert len(told) <= 1


def batch_start(learner):
    return learner.policy.parameters.gather(learner.policy.module).numpy()


def test_garbage_in_invalid_cells_does_not_affect_learned_parameters():
    clean = nested_batch(64)
    clean["valid"][::5] = False
    dirty = clean.map(np.copy)
    for column in (dirty["obs"]["a"], dirty["actions"], dirty["advantages"], dirty["value_targets"]):
        column[::5] = np.nan
    dirty["obs"]["b"][::5] = 77
    np.testing.assert_array_equal(
        learn(learner_for(), clean.zero_invalid()), learn(learner_for(), dirty.zero_invalid())
    )


def test_invalid_rows_do_not_affect_the_update():
    whole = nested_batch(24)
    padded = SampleBatch(whole.map(lambda leaf: np.concatenate([leaf, leaf[:8]])))
    padded["valid"] = padded["valid"].copy()
    padded["valid"][24:] = False
    np.testing.assert_allclose(
        learn(learner_for(), whole, minibatch_size=24),
        learn(learner_for(), padded, minibatch_size=32),
        atol=rounding_error(24),
    )


def test_the_last_minibatch_is_padded_and_every_row_is_used_once_per_pass():
    seen = []

    def spy(outputs, batch, scheduled):
        assert batch["valid"].shape == (16, 1)
        seen.extend(batch["value_targets"][batch["valid"]].tolist())
        return actor_critic_loss(outputs, batch, scheduled)

    batch = nested_batch(40)
    batch["value_targets"] = np.arange(40, dtype=np.float32).reshape(40, 1)
    learner = learner_for(objectives=[Objective("loss", spy)])
    learn(learner, batch)
    assert learner.sgd_steps == 3
    assert sorted(seen) == list(range(40))


def test_updates_with_adam_equal_those_of_torchs_adam():
    learner = learner_for(objectives=[Objective("loss", actor_critic_loss, optimizer=Adam(1e-8))])
    policy = learner.policy
    twin = torch.nn.Parameter(torch.from_numpy(learner.flat()))
    theirs = torch.optim.Adam([twin], lr=1e-3, eps=1e-8)
    batch = nested_batch(32)
    rows = batch.map(torch.from_numpy)
    settings = {"lr": torch.tensor(1e-3), "entropy_coeff": torch.tensor(0.01)}
    for _ in range(5):
        ours = learn(learner, batch, minibatch_size=32)
        theirs.zero_grad()
        actor_critic_loss(policy.outputs(policy.parameters.views(twin), rows), rows, settings).total.backward()
        theirs.step()
    np.testing.assert_allclose(ours, twin.detach(), atol=rounding_error(32))


def test_a_gradient_above_its_bound_is_scaled_down_to_it():
    free = learner_for(objectives=[Objective("loss", actor_critic_loss)])
    learn(free, nested_batch(16))
    norm = free.take_statistics()["grad_norm"]
    bounded = learner_for(objectives=[Objective("loss", actor_critic_loss, max_grad_norm=norm / 4)])
    learn(bounded, nested_batch(16))
    first = "loss/first"
    np.testing.assert_allclose(
        bounded.optimizer_state()[first] * 4,
        free.optimizer_state()[first],
        rtol=rounding_error(16),
        atol=rounding_error(16),
    )


def test_a_gradient_within_its_bound_stays_unchanged():
    free = learner_for(objectives=[Objective("loss", actor_critic_loss)])
    learn(free, nested_batch(16))
    norm = free.take_statistics()["grad_norm"]
    bounded = learner_for(objectives=[Objective("loss", actor_critic_loss, max_grad_norm=1.1 * norm)])
    learn(bounded, nested_batch(16))
    np.testing.assert_array_equal(bounded.optimizer_state()["loss/first"], free.optimizer_state()["loss/first"])
    one = torch.tensor([3.0, 4.0])
    np.testing.assert_array_equal(clipped(one, one.norm(), 6.0), one)
    np.testing.assert_allclose(clipped(one, one.norm(), 2.5), one / 2, rtol=1e-6)


def test_objectives_change_only_their_own_parameters_and_only_when_they_are_due():
    def policy_only(outputs, batch, scheduled):
        return Loss(-outputs.distribution.log_prob(batch["actions"]).mean(), {})

    def value_only(outputs, batch, scheduled):
        return Loss((outputs.values - 1).square().mean(), {})

    learner = learner_for(
        objectives=[
            Objective("value", value_only, parameters="value_"),
            Objective("policy", policy_only, parameters="policy_", every=2),
        ]
    )
    slots = learner.policy.parameters.slots
    moved = []
    before = learner.flat()
    for _ in range(4):
        after = learn(learner, nested_batch(16))
        moved.append({slot.name.split("_")[0] for slot in slots if changed(slot, before, after)})
        before = after
    assert moved == [{"value", "policy"}, {"value"}, {"value", "policy"}, {"value"}]


def changed(slot, before, after):
    part = slice(slot.offset, slot.offset + slot.size)
    return bool((before[part] != after[part]).any())


def test_no_further_pass_begins_once_a_statistic_exceeds_its_bound():
    def rising(outputs, batch, scheduled):
        return Loss(outputs.values.mean(), {"kl": batch["value_targets"].mean()})

    batch = nested_batch(32)
    batch["value_targets"][:] = 0.3
    stopped, free = (learner_for(objectives=[Objective("loss", rising)]) for _ in range(2))
    learn(stopped, batch, num_epochs=5, stop=("kl", 0.2))
    learn(free, batch, num_epochs=5, stop=("kl", 0.4))
    assert (stopped.sgd_steps, free.sgd_steps) == (2, 10)


def test_a_learner_restored_from_its_state_continues_identically():
    straight, first, second = learner_for(), learner_for(), learner_for(seed=99)
    learn(straight, nested_batch(48), num_epochs=2)
    learn(first, nested_batch(48), num_epochs=2)
    second.load_flat(first.flat())
    second.load_optimizer_state(first.optimizer_state())
    second.load_state(first.state())
    np.testing.assert_array_equal(learn(second, nested_batch(48, 1)), learn(straight, nested_batch(48, 1)))
    assert second.sgd_steps == 9


def test_scheduled_settings_may_differ_in_every_call():
    learner = learner_for()
    before = learner.flat()
    np.testing.assert_array_equal(
        learn(learner, nested_batch(16), scheduled={"lr": 0.0, "entropy_coeff": 0.01}), before
    )
    assert (learn(learner, nested_batch(16)) != before).any()


def test_the_acting_weights_are_the_whole_parameter_vector_unless_the_policy_names_a_slice():
    every = learner_for()
    np.testing.assert_array_equal(every.acting_flat(), every.flat())

    class ActsWithItsPolicyNet(ActorCriticPolicy):
        @property
        def acting_range(self):
            own = [slot for slot in self.parameters.slots if slot.name.startswith("policy_")]
            return own[0].offset, sum(slot.size for slot in own)

    learner = learner_for(family=ActsWithItsPolicyNet)
    start, size = learner.policy.acting_range
    assert 0 < size < len(learner.flat())
    np.testing.assert_array_equal(learner.acting_flat(), learner.flat()[start : start + size])


def test_a_read_only_batch_gives_the_same_update_as_a_writable_one():
    batch = nested_batch(32)
    frozen = batch.map(np.copy)
    for leaf in (*frozen["obs"].values(), *(frozen[name] for name in frozen if name != "obs")):
        leaf.flags.writeable = False
    np.testing.assert_array_equal(learn(learner_for(), frozen), learn(learner_for(), batch))


def test_statistics_of_the_last_update_are_available_until_all_are_taken():
    learner, other = learner_for(), learner_for()
    assert learner.last_statistics() == {}
    learn(learner, nested_batch(32), num_epochs=2)
    first = learner.last_statistics()
    learner.step(nested_batch(16, seed=1), scheduled=SCHEDULED)
    second = learner.last_statistics()

    learn(other, nested_batch(32), num_epochs=2)
    assert first == other.take_statistics()
    other.step(nested_batch(16, seed=1), scheduled=SCHEDULED)
    assert second == pytest.approx(other.take_statistics(), abs=rounding_error(16))
    assert learner.take_statistics() == pytest.approx(
        {name: (4 * first[name] + second[name]) / 5 for name in first}, abs=rounding_error(16)
    )
    assert learner.last_statistics() == {}


def test_losses_outside_rlrun_that_read_values_are_not_traced_to_numpy_calls() -> None:
    calls = []

    def loss_that_looks_at_values(outputs, batch, scheduled):
        calls.append(1)
        loss = actor_critic_loss(outputs, batch, scheduled)
        return Loss(loss.total if loss.total.item() > 0 else 2 * loss.total, loss.statistics)

    objectives = [Objective("loss", loss_that_looks_at_values)]
    eager, numpy = (learner_for(objectives=objectives, update_executor=each) for each in ("eager", "numpy"))
    np.testing.assert_array_equal(learn(eager, nested_batch(64)), learn(numpy, nested_batch(64)))
    assert len(calls) == 8 + 1  # tracing calls the loss once and stops where it reads a value


class NoisyPolicy(ActorCriticPolicy):
    def draws(self, generator, rows, length):
        return {"noise": generator.normal(size=(rows, length)).astype(np.float32)}


@pytest.mark.parametrize("update_executor", ["eager", "numpy"])
def test_a_loss_gets_the_noise_of_its_own_rows_in_every_minibatch(update_executor):
    """The mean of the noise over an epoch equals the mean of the drawn numbers, whatever the minibatches."""
    policy = plain_policy(NoisyPolicy, SPACE, gymnasium.spaces.Box(-1, 1, (2,)), ModelConfig(hiddens=(4,)), seed=1)

    def loss(outputs, batch, scheduled):
        valid = batch["valid"].float()
        total = masked_mean(outputs.values.square(), valid)
        return Loss(total, {"noise": masked_mean(batch["noise"], valid)})

    learner = LocalLearner(
        policy, [Objective("loss", loss)], device="cpu", update_executor=update_executor, seed=3, announce=print
    )
    learner.learn(nested_batch(8), num_epochs=2, minibatch_size=4, scheduled=SCHEDULED)
    drawn = np.random.Generator(np.random.Philox(3)).normal(size=(8, 1)).astype(np.float32)
    assert learner.take_statistics()["noise"] == pytest.approx(drawn.mean(), abs=1e-6)


def test_the_error_for_a_loss_that_reads_an_unscheduled_setting_says_what_to_do():
    def loss(outputs, batch, scheduled):
        return Loss(outputs.values.mean() * scheduled["eps"], {})

    learner = learner_for(objectives=checked([Objective("loss", loss)], PPO, (), print))
    with pytest.raises(LookupError, match=r"^eps is not scheduled: annotate it as Schedule, or read "):
        learner.step(nested_batch(16), scheduled=SCHEDULED)


class Shaped:
    """Algorithm whose loss or statistic is not a scalar."""

    def loss(self, outputs, batch, scheduled):
        return Loss(outputs.values.square(), {})

    def unreduced(self, outputs, batch, scheduled):
        return Loss(outputs.values.mean(), {"values": outputs.values})

    def number(self, outputs, batch, scheduled):
        return Loss(outputs.values.mean(), {"rows": 16.0})


@pytest.mark.parametrize("update_executor", ["eager", "numpy"])
@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("loss", "returns a total of shape [16, 1]; it must be a scalar: use masked_mean"),
        ("unreduced", "returns the statistic 'values' of shape [16, 1]; it must be a scalar: use masked_mean"),
        ("number", "returns the statistic 'rows' that is a float; it must be a scalar: use torch.as_tensor"),
    ],
)
def test_the_error_for_a_loss_that_is_not_a_scalar_names_its_class_and_file(method, told, update_executor):
    objectives = checked([Objective("loss", getattr(Shaped(), method))], PPO, (), print)
    learner = learner_for(objectives=objectives, update_executor=update_executor)
    with pytest.raises(TrainingFailed) as failure:
        learner.step(nested_batch(16), scheduled=SCHEDULED)
    assert str(failure.value) == f"test_learner.py: Shaped.{method} {told}"
