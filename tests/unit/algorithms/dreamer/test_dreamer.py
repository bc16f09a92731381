"""DreamerV3: its losses by hand, what it reports and refuses, that it resumes, and that it learns a tiny model."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor

import rlrun
from rlrun.algorithms.dreamer.dreamer import Dreamer, DreamerConfig, balanced_kl, lambda_returns, percentiles
from rlrun.algorithms.dreamer.networks import DreamerNetworks
from rlrun.algorithms.dreamer.world_model import States
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.learner.executors.update_executor import UpdateExecutor
from rlrun.engine.learner.local_learner import LocalLearner
from rlrun.engine.messages.errors import SpecError
from rlrun.report.page import write_report
from tests.rounding import rounding_error

REWARDS = torch.tensor([[1.0, 2.0, 3.0]])
DISCOUNTS = torch.tensor([[0.5, 0.5, 0.5]])
VALUES = torch.tensor([[10.0, 20.0, 30.0, 40.0]])

LAKE = {"id": "FrozenLake-v1", "kwargs": {"desc": ["SF", "HG"], "is_slippery": False}}
TINY: dict[str, Any] = {
    "model": {"size": "nano"},
    "compile": False,
    "num_bins": 31,
    "minibatch_size": 4,
    "horizon": 5,
    "learning_starts": 40,
    "num_envs_per_worker": 2,
    "training_intensity": 0.05,
    "min_env_steps_per_iteration": 60,
    "replay": {"length": 8, "stride": 2, "capacity": 2000},
}
SCHEDULED = {"lr": 1e-3, "actor_lr": 1e-3, "critic_lr": 1e-3, "entropy_coeff": 3e-4}


NUMBERS = Spaces(gymnasium.spaces.Box(-np.inf, np.inf, (3,)), gymnasium.spaces.Discrete(2))


def learner_of(spaces: Spaces = NUMBERS, update_executor: UpdateExecutor = "eager", **settings: Any) -> LocalLearner:
    algorithm = Dreamer(DreamerConfig.parse({**TINY, **settings}))
    policy = algorithm.policy(spaces, 0)
    return LocalLearner(
        policy,
        algorithm.objectives(policy),
        device="cpu",
        update_executor=update_executor,
        runs_users_code=False,
        seed=0,
        has_target=True,
        announce=said,
    )


def said(message: str) -> None:
    raise AssertionError(message)


def sequences(learner: LocalLearner, rows: int = 4, length: int = 8) -> SampleBatch:
    drawn = np.random.default_rng(0)
    starts = np.zeros((rows, length + 1), np.bool_)
    starts[:, 0] = True
    return SampleBatch(
        obs=drawn.normal(size=(rows, length + 1, 3)).astype(np.float32),
        episode_starts=starts,
        state=np.zeros((rows, learner.policy.spec.state_size), np.float32),
        actions=drawn.integers(2, size=(rows, length)),
        rewards=drawn.normal(size=(rows, length)).astype(np.float32),
        discounts=np.full((rows, length), 0.997, np.float32),
        valid=np.ones((rows, length), np.bool_),
    )


def gradients(scales: tuple[float, float], free_nats: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients over posterior and prior logits, and finite differences of the divergence over both."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3, 4, generator=generator, dtype=torch.float64)

    def divergence(both: Tensor) -> Tensor:
        first, second = both.softmax(-1)
        return (first * (first.log() - second.log())).sum()

    differences = torch.zeros_like(logits)
    for place in np.ndindex(*logits.shape):
        step = torch.zeros_like(logits)
        step[place] = 1e-6
        differences[place] = (divergence(logits + step) - divergence(logits - step)) / 2e-6
    leaf = logits.clone().requires_grad_()
    posterior, prior = leaf.softmax(-1)
    (found,) = torch.autograd.grad(balanced_kl(posterior, prior, scales, free_nats), leaf)
    return found[0], found[1], differences[0], differences[1]


def test_the_divergence_weighs_gradients_of_the_prior_and_the_posterior_separately() -> None:
    posterior, prior, of_posterior, of_prior = gradients((1.0, 0.1), 0.0)
    torch.testing.assert_close(posterior, 0.1 * of_posterior, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(prior, 1.0 * of_prior, rtol=1e-6, atol=1e-8)


def test_a_divergence_within_the_free_nats_has_no_gradient() -> None:
    posterior, prior, _, _ = gradients((1.0, 0.1), 100.0)
    assert posterior.abs().max() == prior.abs().max() == 0


def test_percentiles_use_only_rows_with_nonzero_weight() -> None:
    returns = torch.tensor([[0.0, 10.0], [500.0, -500.0], [20.0, 30.0]])
    found = percentiles(returns, torch.tensor([1.0, 0.0, 1.0]), (0.05, 0.5, 0.95))
    np.testing.assert_allclose(found, np.percentile([0, 10, 20, 30], [5, 50, 95]), rtol=rounding_error(4))


def test_the_return_range_moves_1_percent_of_the_way_per_update_and_is_not_optimized() -> None:
    learner = learner_of()
    slot = learner.policy.parameters.slot("return_range")
    flat = learner.flat()
    flat[slot.offset : slot.offset + 2] = [-100, 200]
    learner.load_flat(flat)
    learner.step(sequences(learner), scheduled=SCHEDULED)
    low, high = learner.flat()[slot.offset : slot.offset + 2]
    # Before any training, all imagined rewards and values are 0, so all returns are 0, too.
    np.testing.assert_allclose([low, high], [-99, 198], atol=1e-4)
    near = rounding_error(2 * 4)  # rounding errors of both ends and of their difference
    assert learner.last_statistics()["actor/return_range"] == pytest.approx(high - low, rel=near)


@pytest.mark.parametrize("range_before", [0.01, 50.0])
def test_the_actor_loss_weights_steps_by_reachability_and_never_scales_returns_up(
    range_before: float,
) -> None:
    """Compares sums over single steps, in double precision, with the loss (arXiv:2301.04104, eqs. 11 and 12)."""
    algorithm = Dreamer(DreamerConfig.parse({**TINY, "gamma": 0.8, "horizon": 3}))
    policy = algorithm.policy(NUMBERS, 0)
    learner = LocalLearner(policy, algorithm.objectives(policy), device="cpu", update_executor="eager", seed=0)
    drawn = np.random.default_rng(1)
    flat = torch.from_numpy(drawn.normal(scale=0.2, size=policy.parameters.size).astype(np.float32))
    views = policy.parameters.views(flat)
    views["return_range"].copy_(torch.tensor([0.0, range_before]))
    for head in ("world_model.reward", "critic"):  # rewards and values are near 0; the next bins are at 2.8
        views[f"{head}.output.bias"].copy_(-3.0 * torch.arange(-15.0, 16.0).square())
    batch = sequences(learner, rows=2, length=3)
    batch["discounts"][0, 1] = 0.0  # the episode ends, so nothing is imagined from its final observation
    batch |= policy.draws(drawn, 2, 3)
    batch = batch.map(torch.from_numpy)
    outputs = policy.outputs(views, batch)
    carried = algorithm.world_model_loss(outputs, batch, {}).carry
    batch |= {f"world_model/{name}": tensor for name, tensor in carried.items()}
    loss = algorithm.actor_loss(outputs, batch, {"entropy_coeff": torch.tensor(0.3)})

    alive = carried["alive"].flatten().double()
    assert alive.tolist() == [1, 1, 0, 1, 1, 1, 1, 1]
    noise = (batch[name].flatten(0, 1) for name in ("imagined_noise", "action_noise"))
    imagined = outputs.imagine(carried["features"].flatten(0, 1), *noise)
    values, described = outputs.values(imagined.features), outputs.actor_outputs(imagined.features[:, :3])
    log_probs, entropy = outputs.actions.log_prob(described, imagined.actions), outputs.actions.entropy(described)
    returns, moved = loss.carry["returns"], loss.assign["return_range"]
    latest = np.percentile(returns[alive > 0], [5, 95])
    np.testing.assert_allclose(moved, 0.99 * np.array([0.0, range_before]) + 0.01 * latest, rtol=1e-5, atol=1e-7)
    spread = float(moved[1] - moved[0])
    assert (spread < 1) == (range_before < 1)
    total, weights = 0.0, np.zeros((8, 3))
    for n, t in np.ndindex(8, 3):
        reached = np.prod([0.8 * float(imagined.continues[n, before]) for before in range(t)])
        weights[n, t] = float(alive[n]) * reached / (7 * 3)
        gain = float(log_probs[n, t]) * float(returns[n, t] - values[n, t]) / max(1.0, spread)
        total -= weights[n, t] * (gain + 0.3 * float(entropy[n, t]))
    np.testing.assert_allclose(loss.carry["weights"].detach(), weights, rtol=1e-5)
    assert loss.total.item() == pytest.approx(total, rel=1e-4)


def test_each_loss_updates_only_its_own_parameters() -> None:
    learner = learner_of()
    policy, before = learner.policy, learner.flat()
    learner.step(sequences(learner), scheduled={**SCHEDULED, "actor_lr": 0.0, "critic_lr": 0.0})
    start, size = policy.parameters.range_under("world_model.")
    moved = np.flatnonzero(learner.flat() != before)
    inside = (moved >= start) & (moved < start + size)
    others = {slot.name for slot in policy.parameters.slots if (slot.offset == moved[~inside, None]).any()}
    assert inside.any()
    assert others <= {"return_range"}


@pytest.mark.parametrize("is_continuous", [False, True])
def test_kernel_and_numpy_updates_match_torch(is_continuous: bool) -> None:
    actions = gymnasium.spaces.Box(-1, 1, (2,)) if is_continuous else NUMBERS.action
    spaces = Spaces(NUMBERS.observation, actions)
    executors: list[UpdateExecutor] = ["eager", "c", "numpy"]
    learners = [learner_of(spaces, executor, horizon=3) for executor in executors]
    batch = sequences(learners[0], length=4)
    if is_continuous:
        batch = SampleBatch(batch, actions=np.random.default_rng(1).normal(size=(4, 4, 2)).astype(np.float32))
    scheduled = dict.fromkeys(SCHEDULED, 1e-5)
    eager, *others = ([learner.step(batch, scheduled=scheduled) for _ in range(3)] for learner in learners)
    for statistics, learner in zip(others, learners[1:], strict=True):
        np.testing.assert_allclose(learner.flat(), learners[0].flat(), atol=1e-6)
        for found, expected in zip(statistics, eager, strict=True):
            assert found == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_an_invalid_sequence_does_not_affect_updates() -> None:
    one, other = learner_of(), learner_of()
    batch = sequences(one, rows=4)
    batch["valid"][3] = False
    garbage = SampleBatch({name: column.copy() for name, column in batch.items()})
    garbage["obs"][3], garbage["rewards"][3] = 7.0, 100.0
    one.step(batch, scheduled=SCHEDULED)
    other.step(garbage, scheduled=SCHEDULED)
    np.testing.assert_array_equal(one.flat(), other.flat())


def test_imagined_steps_are_not_counted_as_env_steps() -> None:
    with rlrun.Training("Pendulum-v1", rlrun.Dreamer(**TINY), seed=100) as training:
        result = [training.step() for _ in range(2)][-1]
        minibatches = training.running.trainee.learner.sgd_steps
    assert result["env_steps"] == 128  # 8 fragments of 8 steps of 2 envs
    assert minibatches == int(0.05 * (result["env_steps"] - 40))


def test_with_gamma_0_steps_are_not_mistaken_for_terminations() -> None:
    with rlrun.Training("Pendulum-v1", rlrun.Dreamer(**TINY, gamma=0.0), seed=100) as training:
        training.step()
        learner = training.running.trainee.learner
        assert learner.last_batch is not None
        batch = SampleBatch(learner.last_batch, **learner.policy.draws(np.random.default_rng(0), 4, 8))
        assert learner.evaluate(continues, batch).min() == 1  # no episode of Pendulum terminates


def continues(outputs: DreamerNetworks, batch: SampleBatch) -> Tensor:
    return outputs.rows(batch).continues


def test_a_trial_saves_a_picture_of_imagined_steps_that_its_report_shows(tmp_path: Path) -> None:
    entry = {
        "algorithm": "dreamer",
        "env": LAKE,
        "stop": {"iteration": 2},
        "config": TINY,
        "evaluation": {"every": 2, "episodes": 1},
    }
    (trial,) = rlrun.run({"lake": entry}, runs_dir=tmp_path)
    (picture,) = trial.directory.glob("picture_*.svg")
    write_report([tmp_path / "lake"], tmp_path / "page.html")
    held = base64.b64encode(picture.read_bytes()).decode()
    assert f"data:image/svg+xml;base64,{held}" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(("env", "compile_"), [("Pendulum-v1", True), (LAKE, False)])
def test_a_resumed_run_continues_bit_for_bit(env: Any, compile_: bool, tmp_path: Path) -> None:
    with rlrun.Training(env, rlrun.Dreamer(**{**TINY, "compile": compile_}), seed=100) as one:
        one.step()
        one.step()
        checkpoint = one.save(tmp_path / "checkpoint")
        expected = one.step()
        weights, slow = one.running.trainee.learner.flat(), one.running.trainee.learner.target()
    with rlrun.Training.restore(checkpoint) as other:
        result = other.step()
        assert result["learner/world_model/loss"] == expected["learner/world_model/loss"]
        assert result["episode_return_mean"] == expected["episode_return_mean"]
        np.testing.assert_array_equal(other.running.trainee.learner.flat(), weights)
        assert slow is not None
        np.testing.assert_array_equal(other.running.trainee.learner.target(), slow)


MOVES = {(0, 1): 2, (0, 2): 1, (2, 2): 3, (2, 3): 0}
"""Where actions lead on the lake: 1 is down, 2 right and 3 up; cell 1 is a hole and cell 3 the goal."""


def walks(learner: LocalLearner, drawn: np.random.Generator, rows: int = 12, length: int = 6) -> SampleBatch:
    """Random walks on the lake, with extra rows for final observations."""
    obs, starts = np.zeros((rows, length + 1), np.int64), np.zeros((rows, length + 1), np.bool_)
    actions = drawn.choice(4, p=[0.1, 0.4, 0.4, 0.1], size=(rows, length))
    valid, ends = np.ones((rows, length), np.bool_), np.zeros((rows, length), np.bool_)
    starts[:, 0] = True
    for row in range(rows):
        for t in range(length):
            if obs[row, t] in (1, 3):
                valid[row, t], starts[row, t + 1] = False, True
                continue
            obs[row, t + 1] = MOVES.get((int(obs[row, t]), int(actions[row, t])), obs[row, t])
            ends[row, t] = obs[row, t + 1] in (1, 3)
    return SampleBatch(
        obs=obs,
        episode_starts=starts,
        state=np.zeros((rows, learner.policy.spec.state_size), np.float32),
        actions=actions,
        rewards=(valid & (obs[:, 1:] == 3)).astype(np.float32),
        discounts=np.where(ends, 0.0, 0.9).astype(np.float32),
        valid=valid,
    )


def imagined_rewards(outputs: DreamerNetworks, batch: SampleBatch) -> dict[str, Tensor]:
    """Imagined rewards of two actions [S, 2] after the first observation, and whether the episode continues there."""
    rows = outputs.rows(batch)
    states, _ = outputs.observe(batch, rows)
    state = States(states.recurrent[:, 0], states.latent[:, 0])
    given, lasts = [], []
    for t in range(2):
        action = outputs.actions.recorded(batch["actions"][:, t])
        state = outputs.model.imagine(state, action, batch["latent_noise"][:, t])
        given.append(outputs.rewards(state.features))
        lasts.append(outputs.continue_logits(state.features).sigmoid())
    return {"rewards": torch.stack(given, 1), "continues": torch.stack(lasts, 1)}


def test_on_a_tiny_frozen_lake_imagined_rewards_and_ends_are_within_0_05_of_the_true_ones() -> None:
    lake = Spaces(gymnasium.spaces.Discrete(4), gymnasium.spaces.Discrete(4))
    learner = learner_of(lake, model={"size": "nano", "hiddens": [32]}, free_nats=0.0)
    drawn = np.random.default_rng(0)
    for step in range(200):
        settings = {**SCHEDULED, "lr": 1e-2 if step < 150 else 2e-3}
        learner.step(walks(learner, drawn), scheduled=settings, objectives={"world_model"})
    asked = walks(learner, drawn, rows=4)
    asked["actions"][:, :2] = [[1, 2], [0, 2], [1, 0], [2, 0]]
    asked["latent_noise"] = drawn.random((4, 7, 4), np.float32)
    found = learner.evaluate(imagined_rewards, asked)
    # Down and then right leads to the goal. Right leads into a hole, after which nothing is checked.
    np.testing.assert_allclose(found["rewards"][:3], [[0, 1], [0, 0], [0, 0]], atol=0.05)
    np.testing.assert_allclose(found["continues"][:3], [[1, 0], [1, 0], [1, 1]], atol=0.05)
    assert found["continues"][3, 0] < 0.05


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"num_bins": 64}, "odd number"),
        ({"replay": {"burn_in": 5}}, "sequences start from the latent state stored with their first step"),
        ({"replay": {"sampling": "prioritized"}}, "sampled uniformly"),
        ({"model": {"core": "lstm"}}, "the world model's latent state takes the place of a core"),
        ({"normalize_observations": True}, "symlog"),
    ],
)
def test_unsupported_settings_are_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        DreamerConfig.parse(setting)


def test_lambda_returns_of_three_steps_match_a_calculation_by_hand() -> None:
    last = 3 + 0.5 * 40  # 23
    middle = 2 + 0.5 * (0.25 * 30 + 0.75 * last)  # 14.375
    first = 1 + 0.5 * (0.25 * 20 + 0.75 * middle)
    found = lambda_returns(REWARDS, DISCOUNTS, VALUES, 0.75)
    torch.testing.assert_close(found, torch.tensor([[first, middle, last]]))


def test_lambda_returns_look_one_step_ahead_with_lambda_0_and_to_the_end_with_lambda_1() -> None:
    torch.testing.assert_close(lambda_returns(REWARDS, DISCOUNTS, VALUES, 0.0), torch.tensor([[11.0, 17.0, 23.0]]))
    torch.testing.assert_close(lambda_returns(REWARDS, DISCOUNTS, VALUES, 1.0), torch.tensor([[7.75, 13.5, 23.0]]))


def test_lambda_returns_ignore_everything_after_a_termination() -> None:
    discounts = torch.tensor([[0.5, 0.0, 0.5]])
    assert lambda_returns(REWARDS, discounts, VALUES, 1.0).tolist() == [[2.0, 2.0, 23.0]]
