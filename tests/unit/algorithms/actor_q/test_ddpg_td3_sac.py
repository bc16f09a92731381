"""DDPG, TD3 and SAC: their losses computed by hand on one-layer networks, and their learners."""

import itertools
import math

import numpy as np
import pytest
import torch

from rlrun import DDPG, PPO, SAC, TD3, Training
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.learner.optimizers import STEPS
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.training.assemble.learner_factory import AlgorithmLearnerFactory
from tests.results import numbers
from tests.rounding import rounding_error

ROWS = 6
NEAR = rounding_error(3 + 4 + ROWS)  # inputs of the actor and of the critic, and the rows


def actor_q_training(algorithm, env="Pendulum-v1", hiddens=(), use_sde=False, **changes):
    model = {
        "hiddens": list(hiddens),
        "activation": "relu",
        "orthogonal_init": False,
        **({"use_sde": True} if use_sde else {}),
    }
    return Training(env, algorithm(model=model, compile=False, **changes))


SCHEDULED = {"lr": 3e-4, "critic_lr": 1e-3, "alpha_lr": 3e-4}


def factory_of(learning, update_executor="eager"):
    return AlgorithmLearnerFactory(learning.description.algorithm, learning.description.env, 0, update_executor)


def batch_with_an_invalid_row(learning, rows=ROWS, seed=0):
    """A minibatch with one invalid row, in the form that the learner gets."""
    rng = np.random.default_rng(seed)
    factory = factory_of(learning)
    learner, (observations, actions) = factory(), factory.spaces
    continuous = actions.shape != ()
    batch = SampleBatch(
        obs=rng.normal(size=(rows, 1, *observations.shape)).astype(np.float32),
        actions=rng.uniform(-1, 1, (rows, 1, *actions.shape)).astype(np.float32)
        if continuous
        else rng.integers(0, actions.n, (rows, 1)),
        rewards=rng.normal(size=(rows, 1)).astype(np.float32),
        discounts=np.where(rng.random((rows, 1)) < 0.3, 0, 0.9).astype(np.float32),
        next_obs=rng.normal(size=(rows, 1, *observations.shape)).astype(np.float32),
        valid=np.arange(rows)[:, None] > 0,
        weights=rng.uniform(0.5, 1, (rows, 1)).astype(np.float32),
    )
    return learner, SampleBatch(batch, **learner.policy.draws(rng, rows, 1))


def networks(learner, seed):
    """Networks and target networks with random parameters, as torch tensors and as NumPy arrays by name."""
    generator = torch.Generator().manual_seed(seed)
    flat, target = (torch.randn(learner.policy.parameters.size, generator=generator) for _ in range(2))
    table = learner.policy.parameters
    outputs = learner.policy.outputs(table.views(flat), SampleBatch(), table.views(target))
    return outputs, table.named(flat.numpy()), table.named(target.numpy())


def tensors(batch):
    return SampleBatch({name: map_tree(torch.as_tensor, column) for name, column in batch.items()})


def layer(named, part, x):
    return x @ named[f"{part}.head.weight"].T + named[f"{part}.head.bias"]


def critics(named, observations, actions):
    x = np.concatenate([observations, actions], -1)
    return np.stack([layer(named, f"critics.{i}", x)[:, 0] for i in range(5) if f"critics.{i}.head.bias" in named])


def rows_of(batch):
    return {name: column[:, 0] for name, column in batch.items()}


def mean_of_valid(x, batch):
    return x[batch["valid"][:, 0]].mean()


@pytest.mark.parametrize("algorithm", [DDPG, TD3])
def test_the_critic_loss_of_ddpg_and_td3_matches_a_calculation_by_hand(algorithm):
    learning = actor_q_training(algorithm)
    learner, batch = batch_with_an_invalid_row(learning)
    outputs, named, target = networks(learner, seed=1)
    row = rows_of(batch)
    next_actions = np.tanh(layer(target, "actor", row["next_obs"]))
    if algorithm is TD3:
        next_actions = np.clip(next_actions + np.clip(0.2 * row["next_noise"], -0.5, 0.5), -1, 1)
    ahead = critics(target, row["next_obs"], next_actions)
    assert len(ahead) == (2 if algorithm is TD3 else 1)
    targets = row["rewards"] + row["discounts"] * ahead.min(0)
    errors = critics(named, row["obs"], row["actions"]) - targets
    loss = learning.description.algorithm.critics_loss(outputs, tensors(batch), {})
    expected = mean_of_valid((errors**2).sum(0) * row["weights"], batch)
    assert loss.total.item() == pytest.approx(expected, rel=NEAR)
    np.testing.assert_allclose(loss.priorities, np.abs(errors).mean(0), rtol=NEAR, atol=NEAR)


@pytest.mark.parametrize("algorithm", [DDPG, TD3, SAC])
def test_targets_use_the_minimum_value_of_the_drawn_critics(algorithm):
    learning = actor_q_training(algorithm, num_critics=5, num_target_critics=2)
    learner, batch = batch_with_an_invalid_row(learning)
    (drawn,) = np.unique(batch["drawn_critics"].reshape(-1, 5), axis=0)  # the same ones in all rows
    assert sorted(drawn) == [0, 0, 0, 1, 1]
    outputs, named, target = networks(learner, seed=1)
    row, entropies = rows_of(batch), 0
    next_actions = np.tanh(layer(target, "actor", row["next_obs"])) if algorithm is not SAC else None
    if algorithm is TD3:
        next_actions = np.clip(next_actions + np.clip(0.2 * row["next_noise"], -0.5, 0.5), -1, 1)
    if algorithm is SAC:
        next_actions, densities = by_hand(named, row["next_obs"], row["next_noise"])
        entropies = -math.exp(named["log_alpha"][0]) * densities
    ahead = critics(target, row["next_obs"], next_actions)
    assert (ahead[drawn == 0].min(0) < ahead[drawn == 1].min(0)).any()
    targets = row["rewards"] + row["discounts"] * (ahead[drawn == 1].min(0) + entropies)
    errors = critics(named, row["obs"], row["actions"]) - targets
    loss = learning.description.algorithm.critics_loss(outputs, tensors(batch), {})
    np.testing.assert_allclose(loss.priorities, np.abs(errors).mean(0), rtol=NEAR, atol=NEAR)


def test_discrete_targets_use_the_minimum_over_the_drawn_critics_per_action():
    learning = actor_q_training(SAC, "CartPole-v1", num_critics=5, num_target_critics=2)
    learner, batch = batch_with_an_invalid_row(learning)
    drawn = batch["drawn_critics"][0, 0] == 1
    outputs, named, target = networks(learner, seed=1)
    observations = batch["next_obs"][:, 0]
    values = np.stack([layer(target, f"critics.{i}", observations) for i in np.flatnonzero(drawn)]).min(0)
    exponentials = np.exp(layer(named, "actor", observations))
    expected = (exponentials / exponentials.sum(-1, keepdims=True) * values).sum(-1)
    found = outputs.sample_and_evaluate_next(tensors(batch)).values[:, 0]
    np.testing.assert_allclose(found, expected, rtol=NEAR, atol=NEAR)


def test_every_pair_of_critics_gets_drawn_and_by_default_all_critics_are_used():
    learner, _ = batch_with_an_invalid_row(actor_q_training(TD3, num_critics=4, num_target_critics=2))
    generator = np.random.default_rng(0)
    drawn = {tuple(learner.policy.draws(generator, 1, 1)["drawn_critics"].ravel()) for _ in range(100)}
    assert drawn == {pair for pair in itertools.product((0.0, 1.0), repeat=4) if sum(pair) == 2}
    assert "drawn_critics" not in batch_with_an_invalid_row(actor_q_training(TD3, num_critics=4))[1]


def test_a_num_target_critics_above_num_critics_is_refused(wording):
    with wording.raised(SpecError, "num_target_critics", "num_critics"):
        actor_q_training(SAC, num_target_critics=3)


@pytest.mark.parametrize("algorithm", [TD3, SAC])
@pytest.mark.parametrize(
    ("objective", "reduced"), [("first", lambda values: values[0]), ("minimum", np.min), ("mean", np.mean)]
)
def test_the_actor_maximizes_the_value_named_by_actor_objective(algorithm, objective, reduced):
    learning = actor_q_training(algorithm, num_critics=3, actor_objective=objective)
    learner, batch = batch_with_an_invalid_row(learning)
    outputs, named, _ = networks(learner, seed=2)
    row, cost = rows_of(batch), 0
    actions = np.tanh(layer(named, "actor", row["obs"])) if algorithm is TD3 else None
    if algorithm is SAC:
        actions, densities = by_hand(named, row["obs"], row["noise"])
        cost = math.exp(named["log_alpha"][0]) * densities
    values = np.apply_along_axis(reduced, 0, critics(named, row["obs"], actions))
    loss = learning.description.algorithm.actor_loss(outputs, tensors(batch), {})
    assert loss.total.item() == pytest.approx(mean_of_valid(cost - values, batch), rel=NEAR)


def test_actor_and_temperature_are_updated_once_per_20_critic_updates_if_policy_delay_is_20():
    shared = {"learning_starts": 10, "minibatch_size": 4, "min_env_steps_per_iteration": 16}
    with actor_q_training(SAC, training_intensity=20.0, policy_delay=20, **shared) as learning:
        result = learning.step()
        steps = learning.running.trainee.learner.optimizer_state()
    assert (result["env_steps"], result["sgd_steps"]) == (16, 120)
    assert [int(steps[f"{part}/{STEPS}"]) for part in ("critics", "actor", "alpha")] == [120, 6, 6]


@pytest.mark.parametrize("algorithm", [DDPG, TD3])
def test_the_deterministic_actor_maximizes_the_first_critic(algorithm):
    learning = actor_q_training(algorithm)
    learner, batch = batch_with_an_invalid_row(learning)
    outputs, named, _ = networks(learner, seed=1)
    row = rows_of(batch)
    values = critics(named, row["obs"], np.tanh(layer(named, "actor", row["obs"])))[0]
    loss = learning.description.algorithm.actor_loss(outputs, tensors(batch), {})
    assert loss.total.item() == pytest.approx(-mean_of_valid(values, batch), rel=NEAR)


def test_large_target_noise_is_clipped_before_and_after_it_is_added():
    learning = actor_q_training(TD3, target_noise=100.0, target_noise_clip=0.25)
    learner, batch = batch_with_an_invalid_row(learning)
    outputs, _, target = networks(learner, seed=1)
    clean = np.tanh(layer(target, "actor", batch["next_obs"][:, 0]))
    found = learning.description.algorithm.next_actions(outputs, tensors(batch))[:, 0].numpy()
    np.testing.assert_allclose(found, np.clip(clean + 0.25 * np.sign(batch["next_noise"][:, 0]), -1, 1), atol=NEAR)


def by_hand(named, observations, noise):
    """Squashed actions and their log-densities, by the unstable formula, which is good enough here."""
    means, log_stds = np.split(layer(named, "actor", observations).astype(np.float64), 2, -1)
    log_stds = np.clip(log_stds, -20, 2)
    drawn = means + np.exp(log_stds) * noise
    densities = -0.5 * noise**2 - log_stds - 0.5 * math.log(2 * math.pi) - np.log(1 - np.tanh(drawn) ** 2)
    return np.tanh(drawn), densities.sum(-1)


def test_sac_losses_with_continuous_actions_match_a_calculation_by_hand():
    learning = actor_q_training(SAC, target_entropy=0.25)
    learner, batch = batch_with_an_invalid_row(learning)
    outputs, named, target = networks(learner, seed=2)
    alpha, row = math.exp(named["log_alpha"][0]), rows_of(batch)
    next_actions, next_densities = by_hand(named, row["next_obs"], row["next_noise"])
    ahead = critics(target, row["next_obs"], next_actions).min(0) - alpha * next_densities
    errors = critics(named, row["obs"], row["actions"]) - (row["rewards"] + row["discounts"] * ahead)
    loss = learning.description.algorithm.critics_loss(outputs, tensors(batch), {})
    expected = mean_of_valid(0.5 * (errors**2).sum(0) * row["weights"], batch)
    assert loss.total.item() == pytest.approx(expected, rel=NEAR)
    actions, densities = by_hand(named, row["obs"], row["noise"])
    values = critics(named, row["obs"], actions).min(0)
    actor = learning.description.algorithm.actor_loss(outputs, tensors(batch), {})
    assert actor.total.item() == pytest.approx(mean_of_valid(alpha * densities - values, batch), rel=NEAR)
    assert actor.statistics["entropy"].item() == pytest.approx(-mean_of_valid(densities, batch), rel=NEAR)
    surplus = -mean_of_valid(densities, batch) - 0.25
    carried = {"actor/log_probs": actor.carry["log_probs"]}
    temperature = learner.objectives[-1].loss(outputs, {**tensors(batch), **carried}, {})
    assert temperature.total.item() == pytest.approx(named["log_alpha"][0] * surplus, rel=NEAR)


def test_sac_losses_with_discrete_actions_match_explicit_sums():
    learning = actor_q_training(SAC, "CartPole-v1", target_entropy=0.25)
    learner, batch = batch_with_an_invalid_row(learning)
    outputs, named, target = networks(learner, seed=2)
    alpha, row = math.exp(named["log_alpha"][0]), rows_of(batch)
    errors, climbed, entropies = [], [], []
    for i in range(1, ROWS):

        def probabilities(observation):
            exponentials = np.exp(layer(named, "actor", observation))
            return exponentials / exponentials.sum()

        ahead = sum(
            p * (min(layer(target, f"critics.{c}", row["next_obs"][i])[a] for c in range(2)) - alpha * math.log(p))
            for a, p in enumerate(probabilities(row["next_obs"][i]))
        )
        goal, taken = row["rewards"][i] + row["discounts"][i] * ahead, row["actions"][i]
        errors.append([layer(named, f"critics.{c}", row["obs"][i])[taken] - goal for c in range(2)])
        present = probabilities(row["obs"][i])
        climbed.append(
            sum(
                p * (alpha * math.log(p) - min(layer(named, f"critics.{c}", row["obs"][i])[a] for c in range(2)))
                for a, p in enumerate(present)
            )
        )
        entropies.append(-sum(p * math.log(p) for p in present))
    squares = 0.5 * (np.array(errors) ** 2).sum(1) * row["weights"][1:]
    assert learning.description.algorithm.critics_loss(outputs, tensors(batch), {}).total.item() == pytest.approx(
        squares.mean(), rel=NEAR
    )
    actor = learning.description.algorithm.actor_loss(outputs, tensors(batch), {})
    assert actor.total.item() == pytest.approx(np.mean(climbed), rel=NEAR)
    carried = {"actor/log_probs": actor.carry["log_probs"]}
    temperature = learner.objectives[-1].loss(outputs, {**tensors(batch), **carried}, {})
    assert temperature.total.item() == pytest.approx(named["log_alpha"][0] * (np.mean(entropies) - 0.25), rel=NEAR)


@pytest.mark.parametrize(("target", "rises"), [(50.0, True), (-50.0, False)])
def test_the_temperature_rises_while_the_entropy_is_below_its_target_and_falls_while_it_is_above(target, rises):
    learner, batch = batch_with_an_invalid_row(actor_q_training(SAC, target_entropy=target))
    table = learner.policy.parameters
    before = table.named(learner.flat())["log_alpha"].item()
    learner.step(SampleBatch(batch), scheduled=SCHEDULED)
    assert (table.named(learner.flat())["log_alpha"].item() > before) == rises


def test_the_temperature_loss_uses_the_entropy_from_the_actor_loss():
    learner, batch = batch_with_an_invalid_row(actor_q_training(SAC, target_entropy=0.5, initial_alpha=0.2))
    learner.step(SampleBatch(batch), scheduled=SCHEDULED)
    statistics = learner.take_statistics()
    expected = math.log(0.2) * (statistics["actor/entropy"] - 0.5)
    assert statistics["alpha/loss"] == pytest.approx(expected, rel=NEAR)


def test_a_fixed_temperature_is_not_changed_by_updates():
    learner, batch = batch_with_an_invalid_row(actor_q_training(SAC, learn_alpha=False, initial_alpha=0.2))
    for _ in range(3):
        learner.step(SampleBatch(batch), scheduled=SCHEDULED)
    assert learner.policy.parameters.named(learner.flat())["log_alpha"].item() == pytest.approx(math.log(0.2))


@pytest.mark.parametrize("algorithm", [DDPG, TD3, SAC])
def test_targets_ignore_the_next_observation_after_a_termination(algorithm):
    learning = actor_q_training(algorithm)
    learner, batch = batch_with_an_invalid_row(learning)
    outputs, *_ = networks(learner, seed=3)
    other = SampleBatch(batch, next_obs=batch["next_obs"] + 1)
    first, second = (
        learning.description.algorithm.critics_loss(outputs, tensors(each), {}).priorities for each in (batch, other)
    )
    ended = batch["discounts"][:, 0] == 0
    assert 0 < ended.sum() < ROWS
    np.testing.assert_array_equal(first[ended], second[ended])
    assert (first[~ended] != second[~ended]).all()


def moved(learner, before, prefix):
    table, after = learner.policy.parameters, learner.flat()
    named_before, named_after = table.named(before), table.named(after)
    return any((named_before[name] != named_after[name]).any() for name in named_before if name.startswith(prefix))


def test_td3_updates_its_actor_every_policy_delay_minibatches():
    learner, batch = batch_with_an_invalid_row(actor_q_training(TD3, policy_delay=3))
    moves = []
    for _ in range(6):
        before = learner.flat()
        learner.step(SampleBatch(batch), scheduled=SCHEDULED)
        moves.append(
            (moved(learner, before, "critics.0"), moved(learner, before, "critics.1"), moved(learner, before, "actor"))
        )
    assert moves == [(True, True, actor) for actor in (True, False, False, True, False, False)]


@pytest.mark.parametrize("algorithm", [DDPG, TD3, SAC])
def test_each_learning_rate_applies_only_to_its_own_parameters(algorithm):
    for rate, prefix in (("lr", "actor."), ("critic_lr", "critics."), ("alpha_lr", "log_alpha")):
        if rate not in algorithm.Config.model_fields:
            continue
        learner, batch = batch_with_an_invalid_row(actor_q_training(algorithm))
        before = learner.flat()
        learner.step(SampleBatch(batch), scheduled={**dict.fromkeys(SCHEDULED, 0.0), rate: 1e-2})
        table = learner.policy.parameters
        names = {slot.name for slot in table.slots if moved(learner, before, slot.name)}
        assert names
        assert all(name.startswith(prefix) for name in names)


@pytest.mark.usefixtures("traced_updates")
@pytest.mark.parametrize(
    ("algorithm", "env", "changes"),
    [
        (TD3, "Pendulum-v1", {"policy_delay": 1}),
        (SAC, "Pendulum-v1", {}),
        (SAC, "CartPole-v1", {"num_critics": 3, "num_target_critics": 2, "actor_objective": "mean"}),
    ],
    ids=["td3", "sac", "choices"],
)
def test_traced_and_eager_updates_agree(algorithm, env, changes):
    learning = actor_q_training(algorithm, env, hiddens=(8,), **changes)
    learners = [factory_of(learning, executor)() for executor in ("eager", "compiled")]
    start = learners[0].flat()
    for seed in range(6):
        _, batch = batch_with_an_invalid_row(learning, rows=32, seed=seed)
        for learner in learners:
            priorities = learner.step(SampleBatch(batch), scheduled=SCHEDULED)
            assert priorities.shape == (32,)
            learner.update_target(0.1)
    eager, traced = (learner.flat() for learner in learners)
    assert np.abs(eager - start).max() > 1e-3
    np.testing.assert_allclose(eager, traced, atol=rounding_error(32 + 6))
    assert learners[0].take_statistics() == pytest.approx(learners[1].take_statistics(), abs=rounding_error(32 + 6))


@pytest.mark.parametrize(
    ("algorithm", "env", "changes"),
    [
        (DDPG, "Pendulum-v1", {"exploration": "ornstein_uhlenbeck", "normalize_observations": True}),
        (TD3, "rlrun.toys:AsymmetricBox", {"num_envs_per_worker": 3, "n_step": 3}),
        (SAC, "Pendulum-v1", {"lr": [[0, 1e-3], [500, 0.0]]}),
        (SAC, "rlrun.toys:DictCartPole", {"rollout_fragment_length": 4}),
        (SAC, "Pendulum-v1", {"use_sde": True, "num_envs_per_worker": 2}),
    ],
    ids=["ddpg", "td3", "sac", "choices", "sde"],
)
def test_a_restored_run_continues_bit_for_bit(algorithm, env, changes, tmp_path):
    shared = {
        "learning_starts": 50,
        "minibatch_size": 16,
        "min_env_steps_per_iteration": 40,
        "training_intensity": 0.5,
    }
    with actor_q_training(algorithm, env, (8,), **shared, **changes) as learning:
        for _ in range(3):
            result = learning.step()
        learning.save(tmp_path / "checkpoint")
        expected = [numbers(learning.step()) for _ in range(2)]
        weights, target = learning.running.trainee.learner.flat(), learning.running.trainee.learner.target()
    assert result["sgd_steps"] == math.floor(0.5 * (result["env_steps"] - 50))
    assert {metric.name for metric in algorithm.learner_metrics} <= {name.removeprefix("learner/") for name in result}
    with Training.restore(tmp_path / "checkpoint") as restored:
        assert [numbers(restored.step()) for _ in range(2)] == expected
        np.testing.assert_array_equal(restored.running.trainee.learner.flat(), weights)
        np.testing.assert_array_equal(restored.running.trainee.learner.target(), target)


@pytest.mark.parametrize("algorithm", [DDPG, TD3])
def test_ddpg_and_td3_refuse_discrete_actions(algorithm, wording):
    with (
        actor_q_training(algorithm, "CartPole-v1") as learning,
        wording.raised(UsageError),
    ):
        learning.step()


@pytest.mark.parametrize("normalize", [False, True])
def test_before_any_learning_ppo_ratios_with_state_dependent_noise_are_one(normalize):
    shared = {
        "num_envs_per_worker": 4,
        "train_batch_size": 256,
        "min_env_steps_per_iteration": 0,
        "num_epochs": 2,
        "normalize_observations": normalize,
    }
    with actor_q_training(PPO, hiddens=(8,), use_sde=True, **shared, lr=0.0) as still:
        for _ in range(2):
            result = still.step()
    assert (abs(result["learner/kl"]) < 1e-6, result["learner/clip_fraction"]) == (True, 0.0)
    with actor_q_training(PPO, hiddens=(8,), use_sde=True, **shared, lr=1e-2) as learning:
        assert learning.step()["learner/kl"] > 1e-4
