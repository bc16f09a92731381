"""Objectives that run at different rates, pass tensors on, assign values, and take gradients from elsewhere."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.executors.compilation import compiler
from rlrun.engine.learner.local_learner import LocalLearner
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.learner.optimizers import SGD, Adam, AdamW, RMSProp
from rlrun.engine.learner.projection import Projection, project
from rlrun.engine.policy.flat_parameters import FlatParameters
from rlrun.engine.policy.policy import Policy
from tests.rounding import rounding_error
from tests.sum_of_two import SumOfTwo


class Numbers(nn.Module):
    """A number for the model, one for the actor, and a running mean without a gradient."""

    def __init__(self):
        super().__init__()
        self.model = nn.Parameter(torch.tensor([2.0]))
        self.actor = nn.Parameter(torch.tensor([3.0]))
        self.running = nn.Parameter(torch.tensor([10.0, 20.0]))


class NumbersPolicy(Policy):
    """Outputs its parameters."""

    def __init__(self):
        self.module = Numbers()
        self.parameters = FlatParameters(self.module)

    def outputs(self, views, batch, target_views=None):
        return {**views, "targets": target_views}

    def behavior(self):
        raise NotImplementedError


def model_loss(outputs, batch, scheduled):
    """Carries twice the model's predictions, and moves a running mean halfway to the batch's."""
    valid, x = batch["valid"].float(), batch["x"]
    predicted = outputs["model"] * x
    means = torch.stack([masked_mean(x, valid), masked_mean(x.square(), valid)])
    return Loss(
        masked_mean(predicted, valid),
        {"predicted": masked_mean(predicted, valid)},
        carry={"doubled": 2 * predicted},
        assign={"running": 0.5 * outputs["running"].detach() + 0.5 * means},
    )


def actor_loss(outputs, batch, scheduled):
    """Its gradient is the mean of the values carried by the model's objective."""
    carried = batch["model/doubled"]
    assert not carried.requires_grad
    loss = masked_mean(outputs["actor"] * carried, batch["valid"].float())
    return Loss(loss, {"running": outputs["running"].sum()})


def objectives(**actor):
    return [
        Objective("model", model_loss, parameters="model", optimizer=SGD(), assigns=("running",)),
        Objective("actor", actor_loss, parameters="actor", optimizer=SGD(), needs=("model",), **actor),
    ]


def learner_for(given=None, **more):
    settings = {"device": "cpu", "update_executor": "eager", "seed": 3, **more}
    return LocalLearner(NumbersPolicy(), objectives() if given is None else given, **settings)


def batch_of_numbers(x, valid=None):
    x = np.array(x, np.float32).reshape(-1, 1)
    return SampleBatch(x=x, valid=np.ones(x.shape, bool) if valid is None else np.array(valid, bool).reshape(-1, 1))


def step(learner, x=(1.0, 2.0, 6.0), valid=None, **more):
    learner.step(batch_of_numbers(x, valid), scheduled={"lr": 0.1}, **more)
    return learner.flat().tolist()


SCHEDULED = {"lr": 0.1}
# The mean of x is 3, and the mean of its square is 41 / 3. The model's parameter falls by 0.1 * 3. The values that it
# carries to the actor are computed before that step, with a mean of 2 * 2 * 3. The actor's parameter falls by a tenth
# of this mean.
AFTER_ONE_STEP = [2 - 0.3, 3 - 1.2, 0.5 * 10 + 0.5 * 3, 0.5 * 20 + 0.5 * 41 / 3]


def test_later_objectives_receive_the_carried_tensors_and_assigned_values_of_earlier_ones():
    learner = learner_for()
    batch = batch_of_numbers([1.0, 2.0, 6.0])
    learner.step(batch, scheduled=SCHEDULED)
    np.testing.assert_allclose(learner.flat(), AFTER_ONE_STEP, rtol=rounding_error(3))
    statistics = learner.take_statistics()
    assert statistics["model/predicted"] == pytest.approx(6.0)
    assert statistics["actor/running"] == pytest.approx(sum(AFTER_ONE_STEP[2:]))
    assert set(batch) == {"x", "valid"}


@pytest.mark.parametrize("microbatch_size", [1, 2, 100])
def test_microbatches_carry_their_own_rows_and_assign_means_over_valid_steps(microbatch_size):
    learner = learner_for(microbatch_size=microbatch_size)
    found = step(learner, (1.0, 99.0, 2.0, 6.0), (1, 0, 1, 1))
    np.testing.assert_allclose(found, AFTER_ONE_STEP, rtol=rounding_error(3))


def test_a_minibatch_without_a_valid_step_assigns_nothing():
    for microbatch_size in (None, 2):
        learner = learner_for(microbatch_size=microbatch_size)
        assert step(learner, valid=(0, 0, 0))[2:] == [10.0, 20.0]


def test_two_learners_assign_the_mean_over_both_and_take_the_same_step():
    together = SumOfTwo()
    pair = [learner_for(all_reduce=together.of(rank)) for rank in range(2)]
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(step, pair, [(1.0,), (2.0, 6.0)]))
    assert found[0] == found[1]
    np.testing.assert_allclose(found[0], AFTER_ONE_STEP, rtol=rounding_error(3))


def loss_of_actor(outputs, batch, scheduled):
    return Loss(outputs["actor"].sum(), {})


def loss_of_model(outputs, batch, scheduled):
    return Loss(masked_mean(outputs["model"] * batch["x"], batch["valid"].float()), {})


def with_optimizer(optimizer):
    return [
        Objective("model", model_loss, parameters="model", optimizer=optimizer, assigns=("running",)),
        Objective("actor", actor_loss, parameters="actor", optimizer=optimizer, needs=("model",)),
    ]


def td_loss(outputs, batch, scheduled):
    """The model's loss, with its errors relative to the target's predictions as priorities of the rows."""
    errors = (outputs["model"] - 0.9 * outputs["targets"]["model"]) * batch["x"]
    found = model_loss(outputs, batch, scheduled)
    total = found.total + masked_mean(errors.square(), batch["valid"].float())
    return replace(found, total=total, priorities=errors.abs().squeeze(-1))


NEEDS_COMPILER = pytest.mark.skipif(compiler() is None, reason="this machine has no C++ compiler")


@pytest.fixture(params=["traced", pytest.param("compiled", marks=[pytest.mark.regress, NEEDS_COMPILER])])
def compiled_updates(request, tmp_path, monkeypatch):
    """Makes compiled updates run their graph without compiling; `make regress` also uses the C++ compiler."""
    monkeypatch.setenv("RLRUN_CACHE", str(tmp_path))
    if request.param == "traced":
        request.getfixturevalue("traced_updates")


def test_compiled_steps_with_a_target_carry_assign_and_return_priorities_as_eager_ones_do(compiled_updates):
    model, actor = with_optimizer(RMSProp(centered=True))
    given = [replace(model, loss=td_loss), actor]
    eager, compiled = (learner_for(given, update_executor=each, has_target=True) for each in ("eager", "compiled"))
    near = rounding_error(3 * 3)  # three rows, over three steps
    for x in ((1.0, 2.0, 6.0), (4.0, -1.0, 0.0), (-3.0, 1.0, 2.0)):
        expected, found = (learner.step(batch_of_numbers(x), scheduled=SCHEDULED) for learner in (eager, compiled))
        assert expected.max() > 0
        np.testing.assert_allclose(found, expected, rtol=near, atol=near)
        for learner in (eager, compiled):
            learner.update_target(0.5)
        np.testing.assert_allclose(compiled.flat(), eager.flat(), rtol=near, atol=near)
    np.testing.assert_allclose(compiled.target(), eager.target(), rtol=near, atol=near)
    assert compiled.take_statistics() == pytest.approx(eager.take_statistics(), rel=near, abs=near)


def test_compiled_microbatches_agree_with_eager_ones(compiled_updates):
    compiled = learner_for(update_executor="compiled", microbatch_size=1)
    np.testing.assert_allclose(step(compiled), AFTER_ONE_STEP, rtol=rounding_error(3))


def noted_loss(notes, name, **more):
    def loss(outputs, batch, scheduled):
        notes.append(name)
        return Loss(outputs[name].sum(), {}, **more)

    return loss


def test_each_objective_counts_only_the_minibatches_that_select_it():
    notes = []
    learner = learner_for(
        [
            Objective("model", noted_loss(notes, "model"), parameters="model"),
            Objective("actor", noted_loss(notes, "actor"), parameters="actor", every=2),
        ]
    )
    for names in (("model",), None, ("actor",), None, ("model",), ["actor"], ("actor", "model")):
        notes.append("|")
        step(learner, objectives=names)
    # The actor is due at steps 2, 3, 4, 6 and 7, and learns at every other one of these: 2, 4 and 7.
    assert "".join(note[0] for note in notes) == "|m|ma||ma|m||ma"
    assert (learner.sgd_steps, learner.weights_version) == (7, 7)
    assert learner.optimizer_state()["actor/steps"] == 3
    assert learner.optimizer_state()["model/steps"] == 5


def test_counts_of_objectives_continue_after_a_checkpoint():
    notes = []
    given = [
        Objective("model", noted_loss(notes, "model"), parameters="model"),
        Objective("actor", noted_loss(notes, "actor"), parameters="actor", every=3),
    ]
    first, second = (learner_for(given) for _ in range(2))
    for _ in range(2):
        step(first)
    step(first, objectives=("model",))
    state = first.state()
    assert state["objectives"] == {"model": 3, "actor": 2}
    second.load_state(state)
    notes.clear()
    step(second)
    step(second)
    assert notes == ["model", "model", "actor"]


def test_an_objective_without_a_loss_applies_gradients_that_are_passed_to_it(wording):
    evolution = [Objective("evolution", None, parameters="actor", optimizer=SGD(0.5), max_grad_norm=1.0)]
    learner = learner_for([*objectives()[:1], *evolution])
    assert step(learner)[1] == 3.0
    before = learner.flat()
    for _ in range(2):
        learner.apply_gradients(np.array([5.0, 1.0], np.float32), {"evolution": ()}, scheduled=SCHEDULED)
    # The gradient is clipped to 1, and momentum adds half of the first step to the second.
    np.testing.assert_allclose(
        learner.flat() - before, [0, -0.1 * 1 - 0.1 * 1.5, 0, 0], atol=rounding_error(2, size=3.0)
    )
    assert learner.take_statistics()["evolution/grad_norm"] == 5.0
    assert learner.optimizer_state()["evolution/velocity"].tolist() == pytest.approx([1.5], rel=rounding_error(4))
    with wording.raised(ValueError):
        step(learner, objectives=("evolution",))


def test_gradients_for_another_learner_include_carried_and_assigned_values():
    worker, driver = learner_for(), learner_for()
    gradients = worker.gradients(batch_of_numbers([1.0, 2.0, 6.0]), scheduled=SCHEDULED)
    assert worker.flat().tolist() == [2.0, 3.0, 10.0, 20.0]
    driver.apply_gradients(gradients, worker.statistics_of_gradients, scheduled=SCHEDULED)
    np.testing.assert_allclose(driver.flat(), AFTER_ONE_STEP, rtol=rounding_error(3))


def test_part_of_the_target_network_can_be_updated_separately(wording):
    learner = learner_for(has_target=True)
    step(learner)
    learner.update_target(0.5, prefix="actor")
    np.testing.assert_allclose(learner.target(), [2.0, 3 - 0.6, 10.0, 20.0], rtol=rounding_error(3))
    with wording.raised(ValueError, "critic"):
        learner.update_target(prefix="critic")


def predictions(outputs, batch):
    assert not torch.is_grad_enabled()
    return {"model": outputs["model"] * batch["x"], "both": (outputs["actor"], outputs["targets"]["actor"])}


def scaled(outputs, batch, factor):
    return factor * predictions(outputs, batch)["model"]


def test_a_module_level_function_is_evaluated_on_the_networks_without_gradients(wording):
    learner = learner_for(has_target=True)
    step(learner)
    found = learner.evaluate(predictions, batch_of_numbers([1.0, 2.0]))
    np.testing.assert_allclose(found["model"], [[1.7], [3.4]], rtol=rounding_error(3))
    np.testing.assert_allclose(found["both"], [[1.8], [3.0]], rtol=rounding_error(3))
    assert isinstance(found["model"], np.ndarray)
    with_setting = learner.evaluate(partial(scaled, factor=3.0), batch_of_numbers([1.0, 2.0]))
    np.testing.assert_allclose(with_setting, [[5.1], [10.2]], rtol=rounding_error(3))
    for unnamed in (lambda outputs, batch: outputs["model"], noted_loss([], "model"), learner.evaluate):
        with wording.raised(ValueError):
            learner.evaluate(unnamed, batch_of_numbers([1.0]))


MODEL, ACTOR = objectives()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([MODEL, MODEL], "two objectives are named model"),
        (
            [ACTOR, MODEL],
            "objective actor needs the results of objective model, but no objective with a loss has that name",
        ),
        (
            [Objective("model", None, parameters="model"), ACTOR],
            "objective actor needs the results of objective model, but no objective with a loss has that name",
        ),
        (
            [
                Objective("model", model_loss, parameters="model", every=2, assigns=("running",)),
                Objective("actor", actor_loss, parameters="actor", every=3, needs=("model",)),
            ],
            (
                "objective actor needs the results of objective model, but runs when it does not (every 3 and "
                "every 2 minibatches)"
            ),
        ),
        (
            [MODEL, Objective("all", model_loss, parameters="r")],
            "objective model assigns running, which objective all optimizes",
        ),
        (
            [Objective("model", model_loss, parameters="model", assigns=("runing",))],
            "objective model: unknown parameter runing; must be one of model, actor, running",
        ),
        ([Objective("critic", model_loss, parameters="critic")], "objective critic: no parameter name starts with"),
        (
            [Objective("actor", actor_loss, parameters="actor", projects=(Projection(("running",), axis=0),))],
            "objective actor projects running, which it does not optimize",
        ),
    ],
)
def test_inconsistent_objectives_are_refused_at_construction(given, said):
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        learner_for(given)
    assert str(refused.value).startswith(said)


def test_an_error_names_an_objective_that_is_not_due_and_the_one_that_needs_it(wording):
    learner = learner_for()
    with wording.raised(ValueError):
        step(learner, objectives=("actor",))


@pytest.mark.parametrize("optimizer", [SGD(), Adam(), AdamW(0.5)], ids=repr)
def test_parameters_that_an_objective_assigns_are_not_changed_by_its_gradient(optimizer):
    own = step(learner_for([Objective("model", model_loss, parameters="", assigns=("running",), optimizer=optimizer)]))
    apart = step(learner_for([Objective("model", model_loss, parameters="model", assigns=("running",))]))
    assert own[-2:] == apart[-2:]
    assert own[0] != learner_for().flat()[0]


def test_a_loss_must_assign_exactly_what_its_objective_declares(wording):
    for microbatch_size in (None, 1):
        learner = learner_for([Objective("model", model_loss, parameters="model")], microbatch_size=microbatch_size)
        with wording.raised(ValueError):
            step(learner)


class Layer(nn.Module):
    """A dense layer and a normalization of its two outputs."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[3.0, 0.0, 4.0], [0.0, 0.0, 0.0]]))
        self.scale = nn.Parameter(torch.tensor([1.0, 1.0]))
        self.shift = nn.Parameter(torch.tensor([0.0, 1.0]))
        self.other = nn.Parameter(torch.tensor([7.0]))


class LayerPolicy(NumbersPolicy):
    """Outputs the parameters of a layer."""

    def __init__(self):
        self.module = Layer()
        self.parameters = FlatParameters(self.module)


def sum_of_parameters(outputs, batch, scheduled):
    """A loss whose gradient is 1 in each parameter that has valid steps."""
    valid = batch["valid"].float().mean()
    return Loss(sum(outputs[name].sum() for name in ("weight", "scale", "shift", "other")) * valid, {})


PROJECTIONS = (Projection(("weight",), axis=1), Projection(("scale", "shift"), axis=0, norm=2**0.5))


@pytest.mark.parametrize("executor", ["eager", "numpy", "c"])
@pytest.mark.parametrize("microbatch_size", [None, 1])
def test_parameters_are_scaled_to_their_prescribed_norms_after_each_optimizer_step(executor, microbatch_size):
    learner = LocalLearner(
        LayerPolicy(),
        [Objective("all", sum_of_parameters, optimizer=SGD(), projects=PROJECTIONS)],
        device="cpu",
        update_executor=executor,
        seed=0,
        microbatch_size=microbatch_size,
    )
    weight, norms = np.array([[3.0, 0.0, 4.0], [0.0, 0.0, 0.0]]), np.array([[1.0, 1.0], [0.0, 1.0]])
    for other in (6.9, 6.8):
        found = learner.policy.parameters.named(np.array(step(learner), np.float32))
        weight -= 0.1
        weight /= np.sqrt((weight**2).sum(1, keepdims=True))
        norms -= 0.1
        norms *= np.sqrt(2 / (norms**2).sum())
        np.testing.assert_allclose(found["weight"], weight, rtol=1e-6)
        np.testing.assert_allclose([found["scale"], found["shift"]], norms, rtol=1e-6)
        np.testing.assert_allclose(found["other"], other, rtol=1e-6)


def test_weights_of_zero_stay_zero_when_they_are_scaled():
    policy = LayerPolicy()
    flat = policy.parameters.gather(policy.module)
    project(policy.parameters, PROJECTIONS[:1], flat)
    np.testing.assert_allclose(flat[:6].tolist(), [0.6, 0, 0.8, 0, 0, 0], rtol=1e-6)


def both_loss(outputs, batch, scheduled):
    """Its gradient is 30 for the model and 40 for the actor."""
    total = 30 * outputs["model"].sum() + 40 * outputs["actor"].sum()
    return Loss(total, {"total": total})


@pytest.mark.parametrize(("apart", "moves"), [("", (3.0, 4.0)), ("^actor", (5.0, 5.0)), ("model|actor", (3.0, 4.0))])
@pytest.mark.parametrize("in_parts", [False, True])
def test_parts_of_a_gradient_are_clipped_by_their_own_norms(apart, moves, in_parts):
    objective = Objective("loss", both_loss, max_grad_norm=5.0, clipped_separately=apart, optimizer=SGD())
    learner = LocalLearner(
        NumbersPolicy(),
        [objective],
        device="cpu",
        update_executor="eager",
        seed=0,
        microbatch_size=1 if in_parts else None,
    )
    rows = SampleBatch(x=np.ones((2, 1), np.float32), valid=np.ones((2, 1), np.bool_))
    learner.step(rows, scheduled={"lr": 1.0})
    assert learner.flat()[:2].tolist() == pytest.approx([2 - moves[0], 3 - moves[1]], rel=1e-5)
    assert learner.take_statistics()["grad_norm"] == pytest.approx(50.0)
