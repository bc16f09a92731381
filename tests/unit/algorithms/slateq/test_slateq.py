from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from rlrun import SlateQ, Training
from rlrun.algorithms.slateq.acting import (
    EpsilonGreedySlates,
    SlateActions,
    all_slates,
    choice_logits,
    greedy_slate,
    slate_values,
)
from rlrun.algorithms.slateq.policy import SlateQPolicy
from rlrun.algorithms.slateq.settings import SlateQConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.learner.objective import Loss
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.policy.policy import Policy
from rlrun.toys.interest_evolution import InterestEvolution
from tests.rounding import rounding_error

ENV = "rlrun.toys:InterestEvolution"
SMALL = {
    "model": {"hiddens": [8]},
    "learning_starts": 20,
    "rollout_fragment_length": 4,
    "min_env_steps_per_iteration": 60,
    "compile": False,
}
SPACES = Spaces(Dict(candidates=Box(-1, 1, (4, 2)), clicked=Discrete(3), user=Box(-1, 1, (3,))), MultiDiscrete([4, 4]))


def policy_of(spaces: Spaces = SPACES) -> SlateQPolicy:
    return SlateQPolicy(spaces, SlateQConfig.parse({"model": {"hiddens": [8]}}), 3)


def minibatch(generator: np.random.Generator, clicks: list[int], rows: int = 5) -> SampleBatch:
    def observations(clicked: list[int]) -> dict[str, np.ndarray]:
        return {
            "candidates": generator.uniform(-1, 1, (rows, 1, 4, 2)).astype(np.float32),
            "clicked": np.array(clicked)[:, None],
            "user": generator.uniform(-1, 1, (rows, 1, 3)).astype(np.float32),
        }

    slates = np.stack([generator.permutation(4)[:2] for _ in range(rows)])[:, None]
    return SampleBatch(
        obs=observations([0] * rows),
        next_obs=observations(clicks),
        actions=slates,
        rewards=generator.normal(size=(rows, 1)).astype(np.float32),
        discounts=np.full((rows, 1), 0.9, np.float32),
        weights=np.ones((rows, 1), np.float32),
        valid=np.ones((rows, 1), np.bool_),
    ).map(torch.from_numpy)


def networks(policy: Policy, batch: SampleBatch):
    flat = policy.parameters.gather(policy.module)
    return policy.outputs(policy.parameters.views(flat), batch, policy.parameters.views(2 * flat.flip(0)))


def test_the_value_of_a_slate_weights_item_values_by_click_probabilities() -> None:
    slates = all_slates(3, 2)
    assert slates is not None
    np.testing.assert_array_equal(slates, [[1, 1, 0], [1, 0, 1], [0, 1, 1]])
    values, logits = np.array([[1.0, 2.0, 4.0, 8.0]]), np.log([[1.0, 2.0, 3.0]])
    expected = [[(1 + 4 + 8) / 4, (1 + 12 + 8) / 5, (4 + 12 + 8) / 6]]
    np.testing.assert_allclose(slate_values(values, logits, slates), expected)
    np.testing.assert_allclose(slate_values(*map(torch.from_numpy, (values, logits, slates.astype(float)))), expected)


def test_greedy_slates_of_one_item_are_optimal_and_larger_ones_never_exceed_the_optimal_value() -> None:
    generator = np.random.default_rng(0)
    values, logits = generator.normal(size=(50, 7)), generator.normal(size=(50, 6))
    for size in (1, 2, 3):
        slates = all_slates(6, size)
        best = slate_values(values, logits, slates).max(-1)
        masks, found = greedy_slate(values, logits, size)
        assert (masks.sum(-1) == size).all()
        by_mask = [slate_values(v, x, mask[None])[0] for v, x, mask in zip(values, logits, masks, strict=True)]
        np.testing.assert_allclose(found, by_mask)
        assert (found <= best + 1e-12).all()
        assert size > 1 or np.allclose(found, best)
        of_tensors = greedy_slate(torch.from_numpy(values), torch.from_numpy(logits), size)
        np.testing.assert_allclose(of_tensors[1].numpy(), found)
    assert all_slates(50, 5) is None


def test_slateq_shows_the_slate_of_the_highest_value() -> None:
    policy = policy_of()
    batch = minibatch(np.random.default_rng(1), [0] * 5)
    outputs = networks(policy, batch)
    values, logits = outputs.item_values(batch["obs"]).detach(), outputs.logits(batch["obs"]).detach()
    behavior = policy.behavior()
    behavior.network.load(policy.parameters.gather(policy.module).numpy())
    observations = {key: part[:, 0].numpy() for key, part in batch["obs"].items()}
    slates = behavior.actions(observations, None)
    assert slates.shape == (5, 2)
    assert slates.dtype == SPACES.action.dtype
    for row, slate in enumerate(slates):
        weights = logits[row].exp()

        def worth(items, row=row, weights=weights):
            worth_of_all = (weights[items] * values[row][items]).sum() + values[row][-1]
            return float(worth_of_all / (weights[items].sum() + 1))

        best = max(worth(list(items)) for items in permutations(range(4), 2))
        assert worth(slate.tolist()) == pytest.approx(best, rel=rounding_error(40))


def test_td_errors_compare_the_clicked_items_value_with_the_target_from_the_next_observation() -> None:
    policy, algorithm = policy_of(), SlateQ(**SMALL)
    batch = minibatch(np.random.default_rng(2), [0, 1, 2, 0, 2])
    outputs = networks(policy, batch)
    loss: Loss = algorithm.loss(outputs, batch, {})
    following = outputs.target_slate_values(batch["next_obs"])
    values = outputs.item_values(batch["obs"])
    expected = []
    for row, click in enumerate([0, 1, 2, 0, 2]):
        item = int(batch["actions"][row, 0, click]) if click < 2 else 4
        expected.append(float(values[row, item] - batch["rewards"][row, 0] - 0.9 * following[row]))
    errors = torch.tensor(expected)
    assert float(loss.total) == pytest.approx(float((errors**2 / 2).mean()), rel=rounding_error(40))
    bounded = SlateQ(**{**SMALL, "huber": 1.0}).loss(outputs, batch, {})
    huber = torch.where(errors.abs() < 1, errors**2 / 2, errors.abs() - 0.5)
    assert float(bounded.total) == pytest.approx(float(huber.mean()), rel=rounding_error(40))
    assert loss.priorities is not None
    assert (loss.priorities - errors.abs()).abs().max() < 1e-5


def test_the_choice_loss_is_the_cross_entropy_over_the_shown_items_and_the_option_not_to_click() -> None:
    policy, algorithm = policy_of(), SlateQ(**SMALL)
    batch = minibatch(np.random.default_rng(3), [0, 1, 2, 0, 2])
    outputs = networks(policy, batch)
    logits = outputs.logits(batch["obs"])
    shown = torch.stack([logits[row, batch["actions"][row, 0]] for row in range(5)])
    expected = torch.nn.functional.cross_entropy(
        torch.cat([shown, torch.zeros(5, 1)], -1), batch["next_obs"]["clicked"][:, 0]
    )
    assert float(algorithm.choice_loss(outputs, batch, {}).total) == pytest.approx(float(expected), rel=1e-5)


def test_the_choice_model_learns_the_interests_that_determine_clicks() -> None:
    env = InterestEvolution(num_candidates=4, num_topics=3)
    policy, algorithm = SlateQPolicy(Spaces(env.observation_space, env.action_space), SlateQConfig(), 0), SlateQ()
    generator = np.random.default_rng(0)
    rows, seen, slates = 2500, [], []
    observation, _ = env.reset(seed=0)
    for step in range(rows):
        slates.append(generator.permutation(4)[:2])
        following, _, ended, _, _ = env.step(slates[-1])
        seen.append((observation, following))
        observation = env.reset(seed=step + 1)[0] if ended else following
    obs, next_obs = (
        {key: torch.from_numpy(np.stack([pair[at][key] for pair in seen])[:, None]) for key in observation}
        for at in (0, 1)
    )
    ones = torch.ones(rows, 1)
    batch = SampleBatch(
        obs=obs, next_obs=next_obs, actions=torch.from_numpy(np.stack(slates))[:, None], weights=ones, valid=ones
    )
    views = policy.parameters.views(policy.parameters.gather(policy.module))
    learned = {name: view.clone().requires_grad_(name.startswith("choice.")) for name, view in views.items()}
    trained = [view for view in learned.values() if view.requires_grad]
    for _ in range(200):
        loss = algorithm.choice_loss(policy.outputs(learned, batch), batch, {}).total
        for view, gradient in zip(trained, torch.autograd.grad(loss, trained), strict=True):
            view.data -= 3.0 * gradient
    logits = policy.outputs(learned, batch).logits(obs).detach().numpy()
    interests = np.take_along_axis(obs["user"].numpy()[:, 0], obs["candidates"].numpy()[:, 0].argmax(-1), -1)
    assert np.abs(logits - interests).mean() < 0.2
    assert np.corrcoef(logits.ravel(), interests.ravel())[0, 1] > 0.97


def test_logits_are_linear_in_the_item_features() -> None:
    coefficients, items = np.array([[2.0, -1.0, 0.5]]), np.array([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]])
    np.testing.assert_allclose(choice_logits(coefficients, items), [[2.5, -0.5, 1.5]])


def test_random_slates_have_no_duplicates_and_show_every_item_equally_often() -> None:
    actions = SlateActions(SPACES.action)
    exploration = EpsilonGreedySlates(actions)
    noise = exploration.noise(np.random.default_rng(0), 1, 4000)[0]
    slates = exploration.explore(dict, noise, np.zeros(4000, np.bool_), None, None)
    assert (slates[:, 0] != slates[:, 1]).all()
    assert (np.abs(np.bincount(slates.ravel(), minlength=4) / 8000 - 0.25) < 0.02).all()


def test_the_best_slate_is_shown_except_on_exploring_steps() -> None:
    exploration = EpsilonGreedySlates(SlateActions(SPACES.action))
    exploration.epsilon = 0.25
    noise = exploration.noise(np.random.default_rng(0), 1, 400)[0]
    best = {"outputs": np.tile(np.array([3.0, 1.0], np.float32), (400, 1))}
    shown = exploration.explore(lambda: best, noise, np.zeros(400, np.bool_), None, None)
    random = noise[:, 1:].argsort(-1)[:, :2]
    np.testing.assert_array_equal(shown, np.where(noise[:, :1] < 0.25, random, [3, 1]))
    again = exploration.sample(best, np.random.default_rng(0), None)
    np.testing.assert_array_equal(again, shown)


def test_a_resumed_run_matches_an_uninterrupted_run(tmp_path) -> None:
    with Training(ENV, SlateQ(**SMALL), seed=4) as training:
        training.step()
        training.save(tmp_path / "checkpoint")
        expected = training.step()
    with Training.restore(tmp_path / "checkpoint") as restored:
        result = restored.step()
    for name in ("sgd_steps", "learner/critics/loss", "learner/choice/loss"):
        assert result[name] == expected[name]


@pytest.mark.parametrize(
    ("observation", "action", "message"),
    [
        (Box(0, 1, (3,)), MultiDiscrete([4, 4]), "'candidates' is a Box"),
        (
            Dict({**SPACES.observation.spaces, "candidates": Box(0, 1, (3, 2))}),
            MultiDiscrete([4, 4]),
            r"MultiDiscrete\(\[3\] \* slate_size\)",
        ),
        (Dict({**SPACES.observation.spaces, "clicked": Discrete(2)}), MultiDiscrete([4, 4]), r"Discrete\(3\)"),
        (SPACES.observation, Discrete(4), r"MultiDiscrete\(\[4\]"),
        (
            Dict({k: v for k, v in SPACES.observation.items() if k != "user"}),
            MultiDiscrete([4, 4]),
            "describes the user",
        ),
    ],
)
def test_spaces_that_do_not_describe_slates_are_refused(observation, action, message) -> None:
    with pytest.raises(UsageError, match=message):
        policy_of(Spaces(observation, action))


def test_n_step_returns_are_refused(wording) -> None:
    with wording.raised(SpecError):
        SlateQ(n_step=3)
