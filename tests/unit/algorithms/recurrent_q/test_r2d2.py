"""R2D2's loss compared with a loop over single observations, and what does not affect its gradient."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

import rlrun
from rlrun.algorithms.recurrent_q.policy import RecurrentQPolicy
from rlrun.algorithms.recurrent_q.r2d2 import EPSILON, R2D2, R2D2Config, RecurrentModelConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.learner.executors.execution import flattened_arguments, traceable
from rlrun.engine.learner.objective import Loss
from rlrun.engine.learner.update import Parameters, Update, fresh_state
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.training.assemble.learner_factory import AlgorithmLearnerFactory
from tests.policies import policy_from
from tests.rounding import rounding_error

BURN_IN, LENGTH, N_STEP, ROWS, ACTIONS = 3, 5, 2, 4, 3
CONFIG = {"replay": {"burn_in": BURN_IN, "length": LENGTH}, "n_step": N_STEP}


@pytest.fixture
def algorithm() -> R2D2:
    return R2D2(R2D2Config.parse(CONFIG))


@pytest.fixture
def policy() -> RecurrentQPolicy:
    space = gymnasium.spaces.Box(-1, 1, (2,))
    model = RecurrentModelConfig(hiddens=(8,), core_width=6)
    return policy_from(RecurrentQPolicy, R2D2Config, space, gymnasium.spaces.Discrete(3), model, seed=0)


def rows_of_sequences(seed: int = 0) -> SampleBatch:
    """Sequences with an episode's end in the burn-in, among the steps learned from, and after them."""
    drawn = torch.Generator().manual_seed(seed)
    span = BURN_IN + LENGTH + N_STEP
    starts = torch.zeros(ROWS, span, dtype=torch.bool)
    starts[0, 2] = starts[1, BURN_IN + 3] = starts[2, BURN_IN + LENGTH + 1] = True
    valid = torch.ones(ROWS, LENGTH, dtype=torch.bool)
    valid[1, 2] = False
    steps = torch.full((ROWS, LENGTH), N_STEP)
    steps[1, 1] = 1  # the episode was truncated there
    discounts = 0.9 ** steps.float()
    discounts[2, LENGTH - 1] = 0.0  # another episode terminated there
    return SampleBatch(
        obs=torch.randn(ROWS, span, 2, generator=drawn),
        episode_starts=starts,
        state=torch.randn(ROWS, 12, generator=drawn),
        actions=torch.randint(ACTIONS, (ROWS, LENGTH), generator=drawn),
        rewards=torch.randn(ROWS, LENGTH, generator=drawn) * 3,
        discounts=discounts,
        steps=steps,
        valid=valid,
        weights=torch.rand(ROWS, 1, generator=drawn) + 0.5,
    )


def views_of(policy: RecurrentQPolicy, scale: float = 1.0) -> dict[str, Tensor]:
    return policy.parameters.views(policy.parameters.gather(policy.module) * scale)


def loss_of(algorithm: R2D2, policy: RecurrentQPolicy, batch: SampleBatch) -> Loss:
    return algorithm.loss(policy.outputs(views_of(policy), batch, views_of(policy, 0.7)), batch, {})


def h(x: float) -> float:
    return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + EPSILON * x


def h_inverse(x: float) -> float:
    inner = (math.sqrt(1 + 4 * EPSILON * (abs(x) + 1 + EPSILON)) - 1) / (2 * EPSILON)
    return math.copysign(inner**2 - 1, x)


def values_by_a_loop(policy: RecurrentQPolicy, scale: float, batch: SampleBatch, row: int) -> list[Any]:
    """Runs the network over a row one observation at a time."""
    state, found = batch["state"][row], []
    for obs, starts in zip(batch["obs"][row], batch["episode_starts"][row], strict=True):
        if starts:
            state = torch.zeros_like(state)
        inputs = ({"obs": obs.view(1, 1, -1)}, state.view(1, -1), torch.zeros(1, 1, dtype=torch.bool))
        heads, state = torch.func.functional_call(policy.module, views_of(policy, scale), inputs)
        found.append(heads["outputs"].flatten().tolist())
    return found


def test_the_loss_matches_a_loop_over_single_observations(algorithm: R2D2, policy: RecurrentQPolicy) -> None:
    batch = rows_of_sequences()
    total, count, priorities = 0.0, 0, []
    for row in range(ROWS):
        values, targets = (values_by_a_loop(policy, scale, batch, row) for scale in (1.0, 0.7))
        errors = []
        for k in range(LENGTH):
            if not batch["valid"][row, k]:
                continue
            behind = BURN_IN + k + int(batch["steps"][row, k])
            best = int(np.argmax(values[behind]))
            value = float(batch["discounts"][row, k]) * h_inverse(targets[behind][best])
            target = h(float(batch["rewards"][row, k]) + value)
            errors.append(values[BURN_IN + k][int(batch["actions"][row, k])] - target)
        total += 0.5 * sum(error**2 for error in errors) * float(batch["weights"][row])
        count += len(errors)
        distances = np.abs(errors)
        priorities.append(0.9 * distances.max() + 0.1 * distances.mean())
    loss = loss_of(algorithm, policy, batch)
    assert loss.total.item() == pytest.approx(total / count, rel=rounding_error(ROWS * LENGTH))
    assert loss.priorities is not None
    np.testing.assert_allclose(loss.priorities.detach(), priorities, rtol=rounding_error(ROWS * LENGTH))


def gradient_of(algorithm: R2D2, policy: RecurrentQPolicy, batch: SampleBatch) -> Tensor:
    flat = policy.parameters.gather(policy.module).requires_grad_()
    outputs = policy.outputs(policy.parameters.views(flat), batch, views_of(policy, 0.7))
    return torch.autograd.grad(algorithm.loss(outputs, batch, {}).total, flat)[0]


def test_values_in_cells_without_a_step_do_not_affect_the_gradient(algorithm: R2D2, policy: RecurrentQPolicy) -> None:
    batch, other = rows_of_sequences(), rows_of_sequences()
    for name, garbage in {"actions": 0, "rewards": 1e6, "discounts": -7.0, "steps": 0}.items():
        other[name][~other["valid"]] = garbage
    torch.testing.assert_close(
        gradient_of(algorithm, policy, other), gradient_of(algorithm, policy, batch), rtol=0, atol=0
    )
    other["rewards"][0, 0] += 1.0
    assert not torch.equal(gradient_of(algorithm, policy, other), gradient_of(algorithm, policy, batch))


def test_the_stored_recurrent_state_matches_the_network_unrolled_from_the_episode_start() -> None:
    config = {"replay": {"burn_in": 2, "length": 4, "stride": 1}, "num_envs_per_worker": 2, "epsilon": 0.3}
    with rlrun.Training(
        "CartPole-v1", rlrun.R2D2(**{**config, "rollout_fragment_length": 60, "learning_starts": 10_000})
    ) as training:
        training.start()
        training.running.workers.started.request(0)
        (rollout,) = training.running.workers.started.arrived()
        fragment = rollout.batches["default"]
        policy = training.running.trainee.learner.policy
        rows = {name: torch.from_numpy(fragment[name][:60].swapaxes(0, 1).copy()) for name in ("obs", "episode_starts")}
        assert rows["episode_starts"].sum() > 2
        for t in (1, 17, 59):
            _, state = policy.module({"obs": rows["obs"][:, :t]}, torch.zeros(2, 128), rows["episode_starts"][:, :t])
            state = torch.where(rows["episode_starts"][:, t, None], 0.0, state)
            np.testing.assert_allclose(fragment["state"][t], state.detach(), atol=rounding_error(64 + 64))


def test_a_resumed_run_learns_and_acts_exactly_like_an_uninterrupted_one(tmp_path: Any) -> None:
    config = {
        "replay": {"burn_in": 4, "length": 8, "stride": 4, "capacity": 600},
        "num_envs_per_worker": 2,
        "minibatch_size": 4,
        "learning_starts": 100,
        "min_env_steps_per_iteration": 200,
        "target_update_interval": 3,
        "compile": False,
    }
    with rlrun.Training("CartPole-v1", rlrun.R2D2(**config), seed=3) as one:
        for _ in range(3):
            one.step()
        checkpoint = one.save(tmp_path / "checkpoint")
        expected = [one.step() for _ in range(2)]
        weights = one.running.trainee.learner.flat()
    with rlrun.Training.restore(checkpoint) as other:
        found = [other.step() for _ in range(2)]
        np.testing.assert_array_equal(other.running.trainee.learner.flat(), weights)
    names = ("env_steps", "sgd_steps", "episode_return_mean", "learner/loss", "learner/q_mean")
    assert [[result[name] for name in names] for result in found] == [
        [result[name] for name in names] for result in expected
    ]
    assert expected[-1]["sgd_steps"] == (expected[-1]["env_steps"] - 100) // 10


def test_a_gru_learns_and_stores_a_recurrent_state_half_the_size_of_an_lstms() -> None:
    config = {
        "model": {"core": "gru", "core_width": 8, "hiddens": [8]},
        "replay": {"burn_in": 2, "length": 4, "stride": 1},
        "learning_starts": 50,
        "min_env_steps_per_iteration": 200,
        "compile": False,
    }
    with rlrun.Training("CartPole-v1", rlrun.R2D2(**config)) as training:
        result = training.step()
        learner = training.running.trainee.learner
        assert result["sgd_steps"] > 0
        assert "gru_inputs.weight" in learner.policy.parameters.named(learner.flat())
        assert learner.last_batch["state"].shape[1] == 8
        assert (learner.last_batch["state"] != 0).any()


def test_dqn_refuses_a_recurrent_core() -> None:
    with pytest.raises(SpecError, match=r"config\.model\.core"):
        rlrun.Training("CartPole-v1", rlrun.DQN(model={"core": "lstm"}))


def test_custom_networks_are_refused(wording) -> None:
    with wording.raised(SpecError, "module"):
        rlrun.Training("CartPole-v1", rlrun.R2D2(model={"module": "my_lab.net:Net"}))


def test_the_traced_graph_matches_the_eager_update() -> None:
    short = {"burn_in": 1, "length": 2, "stride": 1}
    model = {"hiddens": [4], "core_width": 4}
    algorithm = R2D2(R2D2Config.parse({"model": model, "replay": short, "n_step": 1}))
    learner = AlgorithmLearnerFactory(algorithm, EnvConfig.parse("CartPole-v1"), seed=0, update_executor="eager")()
    drawn = torch.Generator().manual_seed(0)
    flat = torch.from_numpy(learner.flat())
    state = fresh_state(learner.objectives[0].optimizer, len(flat))
    batch = SampleBatch(
        obs=torch.randn(3, 4, 4, generator=drawn),
        episode_starts=torch.rand(3, 4, generator=drawn) < 0.3,
        state=torch.randn(3, 8, generator=drawn),
        actions=torch.randint(2, (3, 2), generator=drawn),
        rewards=torch.randn(3, 2, generator=drawn),
        discounts=torch.full((3, 2), 0.9),
        steps=torch.ones(3, 2, dtype=torch.int64),
        valid=torch.rand(3, 2, generator=drawn) < 0.8,
        weights=torch.ones(3, 1),
    )
    update, scheduled = Update(learner.policy, learner.objectives), {"lr": torch.tensor(1e-2)}
    parameters = Parameters(flat, flat * 0.5)
    arguments = flattened_arguments(parameters, [state], batch, scheduled)
    function = traceable(update, [state], batch, scheduled, has_target=True)
    graph = make_fx(function)(*(argument.clone() for argument in arguments))
    eager, traced = ([argument.clone() for argument in arguments] for _ in range(2))
    near = rounding_error(3 * 4)
    for _ in range(3):
        torch.testing.assert_close(graph(*traced), function(*eager), rtol=near, atol=near)
    torch.testing.assert_close(traced[0], eager[0], rtol=near, atol=near)
    assert not torch.equal(eager[0], flat)
