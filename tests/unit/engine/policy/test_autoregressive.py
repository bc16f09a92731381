"""Parts of an action that are drawn one after another: a joint distribution that independent parts cannot have."""

import itertools

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from rlrun.algorithms.multi_agent.mappo import MAPPOConfig
from rlrun.algorithms.multi_agent.state_value_policy import StateValuePolicy
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.nn.model_config import ModelConfig, QModelConfig, StateValueModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from tests.policies import loaded, plain_policy, policy_from
from tests.rounding import rounding_error

BOX = Box(-1, 1, (3,))
CHOICES = MultiDiscrete([3, 2, 4])
NESTED = Dict({"c": Tuple([Discrete(3, start=1), MultiDiscrete([[2, 2]])]), "a": MultiBinary(2), "b": Box(-2, 2, (2,))})
NESTED_CHOICES = Tuple([Discrete(2), Dict({"b": MultiDiscrete([2, 2]), "a": Discrete(3)})])
ROWS = 300
NEAR = rounding_error(3 + 8 + 9 + 8)  # inputs of all layers: the observation, the features and the previous choices
NEAR_IMAGES = rounding_error(192 + 512 + 576 + 64 + 512)  # inputs of three convolutions and the layer after them


def mappo_policy(actions):
    """A policy with a separate value network, like MAPPO and IPPO."""
    config = StateValueModelConfig(hiddens=(8,), autoregressive=True)
    return policy_from(StateValuePolicy, MAPPOConfig, BOX, actions, config, seed=3)


def policy_for(actions, observations=BOX, **model):
    config = ModelConfig(hiddens=(8,), autoregressive=True, **model)
    return plain_policy(ActorCriticPolicy, observations, actions, config, seed=3)


def flat_of(policy, scale=1.0):
    return (np.random.default_rng(0).normal(size=policy.parameters.size) * scale).astype(np.float32)


def fragment_of(behavior, observations, length=1, seed=4):
    slots = len(observations["seen"] if isinstance(observations, dict) else observations)
    record = behavior.collector.allocate(length, slots)
    noise = behavior.noise_source.noise(np.random.Generator(np.random.Philox(seed)), length, slots)
    for t in range(length):
        taken = behavior.act(observations, noise[t], record, t, np.full(slots, t == 0))
    record["obs"] = map_tree(lambda leaf: np.stack([leaf] * (length + 1)), observations)
    behavior.collector.postprocess(record)
    return record, taken


def distribution_of(policy, observations, actions, flat=None, **columns):
    """The learner's distribution for one step of each row, [N]."""
    views = policy.parameters.views(torch.from_numpy(flat_of(policy) if flat is None else flat))
    rows = map_tree(lambda leaf: torch.as_tensor(leaf)[:, None], observations)
    batch = SampleBatch(obs=rows, actions=torch.as_tensor(actions)[:, None], **columns)
    return policy.outputs(views, batch).distribution


def seen(rows=ROWS, seed=1):
    return np.random.default_rng(seed).uniform(-1, 1, (rows, 3)).astype(np.float32)


@pytest.mark.parametrize("make", [policy_for, mappo_policy])
@pytest.mark.parametrize("actions", [CHOICES, NESTED, NESTED_CHOICES], ids=str)
def test_log_probabilities_recorded_in_numpy_equal_those_in_torch(actions, make):
    policy, observations = make(actions), seen()
    record, _ = fragment_of(loaded(policy, flat_of(policy)), observations)
    own = torch.from_numpy(record["actions"][0])
    found = distribution_of(policy, observations, own).log_prob(own[:, None])[:, 0]
    np.testing.assert_allclose(record["logp"][0], found.detach(), rtol=NEAR, atol=NEAR)
    assert record["logp"][0].std() > 0.1


def test_with_image_observations_torch_acts_and_records_the_same_log_probabilities():
    policy = policy_for(CHOICES, Box(0, 255, (36, 36, 3), np.uint8))
    observations = np.random.default_rng(0).integers(0, 256, (20, 36, 36, 3), np.uint8)
    flat = flat_of(policy, 0.1)
    record, _ = fragment_of(loaded(policy, flat), observations)
    own = torch.from_numpy(record["actions"][0])
    found = distribution_of(policy, observations, own, flat).log_prob(own[:, None])[:, 0]
    np.testing.assert_allclose(record["logp"][0], found.detach(), atol=NEAR_IMAGES)


@pytest.mark.parametrize("actions", [CHOICES, NESTED_CHOICES], ids=str)
def test_the_probabilities_of_all_joint_actions_add_up_to_one(actions):
    policy = policy_for(actions)
    sizes = [2, 3, 2, 2] if actions is NESTED_CHOICES else [3, 2, 4]
    joint = np.array(list(itertools.product(*map(range, sizes))))
    for observation in seen(3):
        logp = distribution_of(policy, np.tile(observation, (len(joint), 1)), joint).log_prob(
            torch.from_numpy(joint)[:, None]
        )
        assert logp.exp().sum().item() == pytest.approx(1, abs=rounding_error(24))


def test_joint_actions_are_drawn_with_their_probabilities():
    policy, number = policy_for(CHOICES), 100_000
    observations = np.tile(seen(1), (number, 1))
    record, _ = fragment_of(loaded(policy, flat_of(policy)), observations)
    joint = np.array(list(itertools.product(range(3), range(2), range(4))))
    logp = distribution_of(policy, observations[: len(joint)], joint).log_prob(torch.from_numpy(joint)[:, None])
    drawn = np.bincount(np.ravel_multi_index(record["actions"][0].T, (3, 2, 4)), minlength=24) / number
    np.testing.assert_allclose(drawn, logp.exp()[:, 0].detach(), atol=6e-3)


def test_a_mask_applies_to_each_part_of_an_action_regardless_of_the_previous_parts():
    space = Dict({"action_mask": MultiBinary(9), "seen": BOX})
    policy, rng = policy_for(CHOICES, space), np.random.default_rng(0)
    mask = rng.integers(0, 2, (ROWS, 9), np.int8)
    for first, size in ((0, 3), (3, 2), (5, 4)):
        mask[np.arange(ROWS), first + rng.integers(0, size, ROWS)] = 1
    observations = {"action_mask": mask, "seen": seen()}
    record, taken = fragment_of(loaded(policy, flat_of(policy)), observations)
    assert np.take_along_axis(mask, np.add(taken, [0, 3, 5]), 1).all()
    own = torch.from_numpy(record["actions"][0])
    found = distribution_of(policy, observations, own).log_prob(own[:, None])[:, 0]
    np.testing.assert_allclose(record["logp"][0], found.detach(), rtol=NEAR, atol=NEAR)
    likeliest = loaded(policy, flat_of(policy)).actions(observations, None)
    assert np.take_along_axis(mask, np.add(likeliest, [0, 3, 5]), 1).all()


@pytest.mark.parametrize("core", ["lstm", "gru", "gtrxl"])
def test_recurrent_policies_record_the_same_log_probabilities_as_evaluating_rows(core):
    policy, observations = policy_for(CHOICES, core=core, core_width=8), seen(5)
    record, _ = fragment_of(loaded(policy, flat_of(policy)), observations, length=4)
    rows = {
        name: torch.from_numpy(np.moveaxis(record[name][:4], 1, 0).copy())
        for name in ("obs", "actions", "episode_starts")
    }
    views = policy.parameters.views(torch.from_numpy(flat_of(policy)))
    batch = SampleBatch(**rows, state=torch.from_numpy(record["state"][0]))
    found = policy.outputs(views, batch).distribution.log_prob(batch["actions"])
    near = rounding_error(3 + 8 + 8 + 9 + 8)
    np.testing.assert_allclose(record["logp"].T, found.detach(), rtol=near, atol=near)


def test_the_greedy_action_takes_the_most_likely_value_of_each_part_given_the_previous_ones():
    policy, observations = policy_for(CHOICES), seen()
    likeliest = loaded(policy, flat_of(policy)).actions(observations, None)
    outputs = distribution_of(policy, observations, likeliest).outputs[:, 0].detach().numpy()
    parts = np.split(outputs, [3, 5], -1)
    np.testing.assert_array_equal(likeliest, np.stack([part.argmax(-1) for part in parts], -1))


def test_actions_sampled_in_evaluations_have_the_joint_distribution_of_the_learner():
    policy, number = policy_for(MultiDiscrete([2, 2])), 40_000
    flat = flat_of(policy, 2.0)
    observations = np.tile(seen(1), (number, 1))
    drawn = loaded(policy, flat).actions(observations, np.random.default_rng(0))
    joint = np.array(list(itertools.product(range(2), range(2))))
    logp = distribution_of(policy, observations[:4], joint, flat).log_prob(torch.from_numpy(joint)[:, None])
    found = np.bincount(drawn @ [2, 1], minlength=4) / number
    np.testing.assert_allclose(found, logp.exp()[:, 0].detach(), atol=0.01)


def test_later_parts_of_an_action_do_not_affect_the_distributions_of_earlier_ones():
    policy, observations = policy_for(CHOICES), seen(1)
    given = [
        distribution_of(policy, observations, [action]).outputs[0, 0] for action in ([0, 0, 0], [0, 0, 3], [0, 1, 0])
    ]
    torch.testing.assert_close(given[0], given[1])
    torch.testing.assert_close(given[0][:5], given[2][:5])
    assert (given[0][5:] - given[2][5:]).abs().max() > 1e-3


def fitted_log_likelihood(autoregressive):
    """Mean log-likelihood of equally likely pairs of equal actions, under a policy that was fitted to them."""
    config = ModelConfig(hiddens=(8,), autoregressive=autoregressive)
    policy = plain_policy(ActorCriticPolicy, BOX, MultiDiscrete([3, 3]), config, seed=0)
    flat = policy.parameters.gather(policy.module).requires_grad_()
    optimizer = torch.optim.Adam([flat], lr=0.03)
    pairs = torch.arange(3).repeat(2, 1).T[:, None]
    batch = SampleBatch(obs=torch.zeros(3, 1, 3), actions=pairs)
    for _ in range(150):
        loss = -policy.outputs(policy.parameters.views(flat), batch).distribution.log_prob(pairs).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return -loss.item()


def test_a_policy_can_learn_that_action_parts_are_equal_only_if_it_is_autoregressive():
    assert fitted_log_likelihood(autoregressive=True) == pytest.approx(-np.log(3), abs=0.02)
    assert fitted_log_likelihood(autoregressive=False) == pytest.approx(-2 * np.log(3), abs=0.02)


@pytest.mark.parametrize("actions", [Discrete(3), BOX, MultiBinary(4), MultiDiscrete([4])], ids=str)
def test_an_action_space_of_a_single_part_is_refused(actions, wording):
    with wording.raised(UsageError):
        policy_for(actions)


def test_networks_that_do_not_support_autoregression_refuse_the_setting(wording):
    with wording.raised(SpecError):
        QModelConfig.parse({"autoregressive": True})
    with pytest.raises(SpecError, match="leave out autoregressive"):
        ModelConfig.parse({"autoregressive": True, "module": "my_lab.nets:Net"})
