"""Action masks: a forbidden action has no probability, no gradient, no effect on targets, and is never taken."""

import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from torch import nn

from rlrun.algorithms.actor_q.ddpg import DDPGConfig
from rlrun.algorithms.actor_q.deterministic_policy import DeterministicPolicy
from rlrun.algorithms.actor_q.sac import SACConfig
from rlrun.algorithms.actor_q.soft_policy import SoftPolicy
from rlrun.algorithms.dqn.policy import QPolicy
from rlrun.algorithms.dqn.return_model import ReturnModel
from rlrun.algorithms.recurrent_q.policy import RecurrentQPolicy
from rlrun.algorithms.recurrent_q.r2d2 import R2D2Config, RecurrentModelConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.data.uniform_sampler import uniform_allowed
from rlrun.engine.functional.moments import Moments
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import ActorQModelConfig, ModelConfig, SoftModelConfig
from rlrun.engine.policy.action_masks import MaskedOutputs, masked, masked_tensor
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from tests.policies import loaded, plain_policy, policy_from
from tests.rounding import rounding_error

BOX = Box(-1, 1, (3,))
ACTIONS = Discrete(5)
CHOICES = MultiDiscrete([3, 2, 4])
ROWS = 400
NEAR = rounding_error(3 + 8 + 5, size=15.0)  # inputs of both layers and the choices; outputs are up to 15


def masked_space(width=5, **parts):
    return Dict({"action_mask": MultiBinary(width), **(parts or {"seen": BOX})})


def actor_critic(space, actions=ACTIONS, *, normalize=False, module=None, **model):
    config = ModelConfig(hiddens=(8,), module=module, **model)
    return plain_policy(ActorCriticPolicy, space, actions, config, normalize_observations=normalize, seed=3)


def q_policy(space=None, **how):
    model = ModelConfig(hiddens=(8,), activation="relu", orthogonal_init=False)
    return plain_policy(QPolicy, space or masked_space(), ACTIONS, model, seed=3, **how)


def soft_policy(space=None, *, uniform_steps=0):
    model = SoftModelConfig(hiddens=(8,), activation="relu", orthogonal_init=False)
    return policy_from(
        SoftPolicy,
        SACConfig,
        space or masked_space(),
        ACTIONS,
        model,
        seed=3,
        learning_starts=uniform_steps,
        initial_alpha=1.0,
    )


def masks_of(rows, sizes=(5,), seed=0):
    """Random masks that allow at least one action of each choice."""
    rng = np.random.default_rng(seed)
    parts = [rng.integers(0, 2, (rows, size), np.int8) for size in sizes]
    for part, size in zip(parts, sizes, strict=True):
        part[np.arange(rows), rng.integers(0, size, rows)] = 1
    return np.concatenate(parts, -1)


def observations_of(rows=ROWS, sizes=(5,), seed=0):
    seen = np.random.default_rng(seed + 1).uniform(-1, 1, (rows, 3)).astype(np.float32)
    return {"action_mask": masks_of(rows, sizes, seed), "seen": seen}


def flat_of(policy, scale=2.0):
    return (np.random.default_rng(0).normal(size=policy.parameters.size) * scale).astype(np.float32)


def fragment_of(behavior, observations):
    """Lets a policy act once in as many env slots as there are observations."""
    slots = len(observations["action_mask"])
    record = behavior.collector.allocate(1, slots)
    noise = behavior.noise_source.noise(np.random.Generator(np.random.Philox(4)), 1, slots)
    actions = behavior.act(observations, noise[0], record, 0, np.zeros(slots, np.bool_))
    record["obs"] = map_tree(lambda leaf: np.stack([leaf, leaf]), observations)
    return record, actions


def outputs_of(policy, observations, flat=None, target=None, **columns):
    def views(of):
        return policy.parameters.views(torch.from_numpy(of))

    flat = flat_of(policy) if flat is None else flat
    batch = SampleBatch(obs=rows_of(observations), **columns)
    return policy.outputs(views(flat), batch, views(flat if target is None else target)), batch


def rows_of(observations):
    return map_tree(lambda leaf: torch.as_tensor(leaf)[:, None], observations)


@pytest.mark.parametrize(("actions", "sizes"), [(ACTIONS, (5,)), (CHOICES, (3, 2, 4))], ids=["discrete", "multi"])
def test_recorded_log_probabilities_match_the_masked_distribution_in_torch(actions, sizes):
    policy, observations = actor_critic(masked_space(sum(sizes)), actions), observations_of(sizes=sizes)
    behavior = loaded(policy, flat_of(policy))
    record, taken = fragment_of(behavior, observations)
    behavior.collector.postprocess(record)
    outputs, _ = outputs_of(policy, observations)
    logp = outputs.distribution.log_prob(torch.from_numpy(record["actions"][0])[:, None])[:, 0]
    np.testing.assert_allclose(record["logp"][0], logp.detach(), atol=NEAR)
    flat_actions = taken.reshape(ROWS, -1) + np.cumsum([0, *sizes[:-1]])
    assert np.take_along_axis(observations["action_mask"], flat_actions, 1).all()
    assert len(np.unique(flat_actions)) == sum(sizes)


@pytest.mark.parametrize("width", [5, 3])
def test_numpy_and_torch_mask_outputs_identically_and_only_if_there_is_a_mask(width):
    outputs = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)
    mask = np.random.default_rng(1).integers(0, 2, (7, width), np.int8)
    in_torch = masked_tensor(torch.from_numpy(outputs), {"action_mask": torch.from_numpy(mask)})
    expected = np.where(np.pad(mask, ((0, 0), (0, 5 - width)), constant_values=1), outputs, np.float32(-1e9))
    np.testing.assert_array_equal(masked(outputs, {"action_mask": mask}), expected)
    np.testing.assert_array_equal(in_torch.numpy(), expected)
    for without in (outputs, {"seen": outputs}, (outputs,)):
        assert masked(outputs, without) is outputs
        assert masked_tensor(in_torch, without) is in_torch


def test_a_mask_covers_the_choices_of_a_nested_action_in_the_order_of_the_space():
    actions = Tuple([BOX, Dict({"b": MultiDiscrete([2, 4]), "a": Discrete(3)}), MultiBinary(2)])
    policy, observations = actor_critic(masked_space(9), actions), observations_of(sizes=(3, 2, 4))
    behavior = loaded(policy, flat_of(policy))
    record, (numbers, choices, bits) = fragment_of(behavior, observations)
    behavior.collector.postprocess(record)
    outputs, _ = outputs_of(policy, observations)
    logp = outputs.distribution.log_prob(torch.from_numpy(record["actions"][0])[:, None])[:, 0]
    np.testing.assert_allclose(record["logp"][0], logp.detach(), atol=NEAR)
    taken = np.column_stack([choices["a"], 3 + choices["b"][:, 0], 5 + choices["b"][:, 1]])
    assert np.take_along_axis(observations["action_mask"], taken, 1).all()
    assert len(np.unique(taken)) == 9
    assert len(np.unique(bits, axis=0)) == 4
    assert numbers.std() > 0


def test_the_entropy_over_m_allowed_actions_with_equal_logits_is_log_m():
    policy, observations = actor_critic(masked_space()), observations_of()
    outputs, _ = outputs_of(policy, observations, np.zeros(policy.parameters.size, np.float32))
    allowed = observations["action_mask"].sum(-1)
    np.testing.assert_allclose(outputs.distribution.entropy()[:, 0], np.log(allowed), atol=rounding_error(5))


def test_gradients_of_forbidden_logits_are_zero_and_all_gradients_are_finite():
    policy, observations = actor_critic(masked_space()), observations_of()
    observations["action_mask"][0] = 0  # as in an episode's final observation
    mask = torch.from_numpy(observations["action_mask"])[:, None]
    logits = torch.randn(ROWS, 1, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    policy.network = lambda *_: ({"outputs": logits, "value": torch.zeros(ROWS, 1, 1)}, None)
    outputs, _ = outputs_of(policy, observations)
    distribution = outputs.distribution
    other = distribution.like(torch.where(mask != 0, torch.zeros(()), torch.tensor(-1e9)))
    for function in (
        lambda: distribution.log_prob(mask.argmax(-1)),
        distribution.entropy,
        lambda: distribution.kl(other),
    ):
        (gradient,) = torch.autograd.grad(function().sum(), logits, retain_graph=True)
        assert (gradient[mask == 0] == 0).all()
        assert torch.isfinite(gradient).all()
        assert gradient.abs().max() > 0.01


def test_a_mask_adds_no_parameters_and_is_not_an_input_of_the_networks():
    masked, plain = actor_critic(masked_space()), actor_critic(Dict({"seen": BOX}))
    assert masked.parameters.size == plain.parameters.size
    observations = observations_of()
    values = loaded(masked, flat_of(masked)).collector.recording.value_network
    heads = [values({"obs": {**observations, "action_mask": mask}})[0]["value"] for mask in (masks_of(ROWS), 1)]
    np.testing.assert_array_equal(*heads)


def test_only_policies_with_action_masks_wrap_their_network_to_mask_its_outputs():
    sampled = actor_critic(Dict({"seen": BOX})).behavior().network
    assert not isinstance(sampled.network, MaskedOutputs)
    sampled = actor_critic(masked_space()).behavior().network
    assert isinstance(sampled.network, MaskedOutputs)


def test_a_nested_part_named_action_mask_is_an_ordinary_observation():
    nested = Dict({"inner": Dict({"action_mask": MultiBinary(5)})})
    plain = Dict({"inner": MultiBinary(5)})
    assert actor_critic(nested).parameters.size == actor_critic(plain).parameters.size


def test_the_filter_ignores_the_mask_and_passes_it_through():
    policy, observations = (
        actor_critic(Dict({"action_mask": Box(0, 1, (5,)), "seen": BOX}), normalize=True),
        observations_of(),
    )
    seen = map_tree(lambda leaf: leaf[None], observations)
    moments = loaded(policy, flat_of(policy)).collector.moments(seen, np.ones((1, ROWS), np.bool_))
    assert list(moments) == ["observations/seen"]
    behavior = loaded(
        policy, flat_of(policy), filters={"observations/seen": Moments(100.0, np.full(3, 5.0), np.full(3, 400.0))}
    )
    filtered = behavior.filter(observations)
    assert filtered["action_mask"] is observations["action_mask"]
    assert (filtered["seen"] < -1).all()


def test_policies_that_see_images_and_other_parts_take_only_allowed_actions_in_torch():
    image = Box(0, 255, (36, 36, 3), np.uint8)
    space = masked_space(5, camera=image, seen=BOX, kind=Discrete(3))
    space.seed(0)
    policy = actor_critic(space)
    observations = map_tree(lambda *parts: np.stack(parts), *(space.sample() for _ in range(20)))
    observations["action_mask"] = masks_of(20)
    behavior = loaded(policy, flat_of(policy, 0.05))
    _, taken = fragment_of(behavior, observations)
    assert np.take_along_axis(observations["action_mask"], taken[:, None], 1).all()


class NetOfOnesOwn(nn.Module):
    """Sees the mask as well, and would always take the last action."""

    def __init__(self, observation_space, num_outputs, model):
        super().__init__()
        self.layer = nn.Linear(observation_space["action_mask"].shape[0], num_outputs)

    def forward(self, observations):
        """Returns outputs and values."""
        outputs = self.layer(observations["action_mask"].float())
        last = torch.arange(outputs.shape[-1], device=outputs.device) * 100.0
        return outputs + last, outputs[:, 0]


def test_a_custom_network_sees_the_mask_and_its_outputs_are_masked():
    policy = actor_critic(masked_space(), module=f"{__name__}:NetOfOnesOwn")
    observations = observations_of()
    taken = loaded(policy, flat_of(policy, 0.1)).actions(observations, None)
    np.testing.assert_array_equal(taken, [np.flatnonzero(mask)[-1] for mask in observations["action_mask"]])


def test_random_actions_of_epsilon_greedy_are_uniform_over_the_allowed_ones():
    mask = np.array([[0, 1, 0, 1, 1]], np.int8)
    fractions = (np.arange(300, dtype=np.float32) + 0.5) / 300
    counts = np.bincount(uniform_allowed(fractions, np.repeat(mask, 300, 0)), minlength=5)
    np.testing.assert_array_equal(counts, [0, 100, 0, 100, 100])
    largest = np.array([np.float32(1) - np.float32(2**-24)], np.float32)
    assert uniform_allowed(largest, mask) == [4]
    assert uniform_allowed(largest, np.zeros((1, 5), np.int8)) == [0]  # a final observation, whose action is ignored


Q_POLICIES = {
    "greedy": ({}, 0.0),
    "epsilon-greedy": ({}, 0.5),
    "random": ({}, 1.0),
    "soft Q": ({"exploration": "soft_q"}, 0.1),
    "parameter noise": ({"exploration": "parameter_noise"}, 0.5),
    "c51": ({"returns": ReturnModel("c51", 11, -3.0, 7.0)}, 0.1),
    "quantile": ({"returns": ReturnModel("quantile", 8)}, 0.1),
    "noisy dueling": ({"noisy_sigma": 0.5, "dueling": True}, 0.0),
    "records values": ({"records_values": True}, 0.5),
}


@pytest.mark.parametrize(("how", "epsilon"), Q_POLICIES.values(), ids=Q_POLICIES)
def test_q_policies_take_only_allowed_actions(how, epsilon):
    behavior, observations = loaded(q_policy(**how), epsilon=epsilon), observations_of()
    record, taken = fragment_of(behavior, observations)
    behavior.collector.postprocess(record)
    draws = np.random.Generator(np.random.Philox(1))
    for actions in (taken, behavior.actions(observations, draws), behavior.actions(observations, None)):
        assert np.take_along_axis(observations["action_mask"], actions[:, None], 1).all()
    assert len(np.unique(taken)) == 5


@pytest.mark.parametrize("env_steps", [0, 100])
def test_soft_policies_take_only_allowed_actions_before_and_after_learning_starts(env_steps):
    behavior, observations = loaded(soft_policy(uniform_steps=100), env_steps=env_steps), observations_of()
    _, taken = fragment_of(behavior, observations)
    assert np.take_along_axis(observations["action_mask"], taken[:, None], 1).all()
    if env_steps == 0:
        only_two = {**observations, "action_mask": np.tile(np.array([0, 1, 0, 1, 0], np.int8), (ROWS, 1))}
        _, taken = fragment_of(behavior, only_two)
        assert 150 < np.count_nonzero(taken == 1) < 250
        assert 150 < np.count_nonzero(taken == 3) < 250


def test_recurrent_q_policies_take_only_allowed_actions():
    policy = policy_from(
        RecurrentQPolicy,
        R2D2Config,
        masked_space(),
        ACTIONS,
        RecurrentModelConfig(hiddens=(8,)),
        seed=3,
    )
    observations = observations_of()
    _, taken = fragment_of(loaded(policy, flat_of(policy), epsilon=0.5), observations)
    assert np.take_along_axis(observations["action_mask"], taken[:, None], 1).all()


@pytest.mark.parametrize("how", [{}, {"returns": ReturnModel("c51", 11, -3.0, 7.0)}], ids=["means", "c51"])
def test_the_greedy_action_in_a_next_state_is_always_allowed(how):
    policy, observations = q_policy(**how), observations_of()
    outputs, batch = outputs_of(policy, observations)
    values = outputs.values(batch["obs"]).detach()
    huge = torch.where(batch["obs"]["action_mask"] == 0, torch.tensor(1e6), values)
    rows = zip(observations["action_mask"], values[:, 0].tolist(), strict=True)
    best = [max(np.flatnonzero(mask), key=row.__getitem__) for mask, row in rows]
    np.testing.assert_array_equal(outputs.greedy_actions(batch["obs"])[:, 0], best)
    np.testing.assert_array_equal(outputs.allowed_argmax(huge, batch["obs"])[:, 0], best)


def test_discrete_soft_expectations_are_sums_over_the_allowed_actions():
    policy, observations = soft_policy(), observations_of()
    columns = {"next_obs": rows_of(observations), "valid": torch.ones(ROWS, 1)}
    outputs, batch = outputs_of(policy, observations, target=flat_of(policy, 1.5), **columns)
    logits = outputs.networks.actor_outputs(batch["obs"])[:, 0].double()
    critics = {
        "present": outputs.networks.critic_outputs(batch["obs"]),
        "next": outputs.networks.target_critic_outputs(batch["obs"]),
    }
    found = {"present": outputs.sample_and_evaluate(batch), "next": outputs.sample_and_evaluate_next(batch)}
    for when, soft in found.items():
        least = critics[when].amin(0)[:, 0]
        for row, mask in enumerate(observations["action_mask"]):
            own = np.flatnonzero(mask)
            probs = logits[row, own].softmax(-1)
            assert soft.log_probs[row, 0].item() == pytest.approx((probs * probs.log()).sum().item(), abs=NEAR)
            assert soft.values[row, 0].item() == pytest.approx((probs * least[row, own]).sum().item(), abs=NEAR)


def test_the_default_target_entropy_averages_over_allowed_actions_of_valid_rows():
    policy, observations = soft_policy(), observations_of(4)
    observations["action_mask"] = np.array(
        [[1, 1, 1, 1, 1], [0, 1, 0, 1, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0]], np.int8
    )
    valid = torch.tensor([[True], [True], [True], [False]])
    outputs, batch = outputs_of(policy, observations, valid=valid)
    expected = 0.98 * (math.log(5) + math.log(2) + 0) / 3
    assert outputs.target_entropy(batch).item() == pytest.approx(expected, rel=rounding_error(4))


def test_targets_are_finite_if_the_mask_allows_no_action():
    observations = observations_of(3)
    observations["action_mask"][:] = 0
    outputs, batch = outputs_of(q_policy(), observations)
    assert (outputs.greedy_actions(batch["obs"]) == 0).all()
    outputs, batch = outputs_of(soft_policy(), observations, next_obs=rows_of(observations))
    ahead = outputs.sample_and_evaluate_next(batch)
    np.testing.assert_allclose(-ahead.log_probs, math.log(5), rtol=rounding_error(5))
    assert torch.isfinite(ahead.values).all()


@pytest.mark.parametrize(
    ("mask", "actions", "reason"),
    [
        (MultiBinary(4), ACTIONS, r"MultiBinary\(4\), but Discrete\(5\) needs .* shape \(5,\)"),
        (Box(0, 1, (1, 5), np.int8), ACTIONS, r"shape \(5,\)"),
        (Discrete(5), ACTIONS, r"shape \(5,\)"),
        (MultiBinary(3), CHOICES, r"shape \(9,\)"),
        (MultiBinary(2), Box(-1, 1, (2,)), "but this env has Box"),
        (MultiBinary(2), MultiBinary(2), r"but this env has MultiBinary\(2\)"),
        (MultiBinary(2), Tuple([BOX, MultiBinary(2)]), "in a Tuple"),
        (MultiBinary(5), Tuple([ACTIONS, CHOICES, BOX]), r"shape \(14,\)"),
    ],
)
def test_a_mask_that_does_not_match_the_action_space_is_refused(mask, actions, reason):
    with pytest.raises(UsageError, match=reason):
        actor_critic(Dict({"action_mask": mask, "seen": BOX}), actions)


def test_continuous_policies_refuse_masks_and_a_mask_cannot_be_the_only_observation(wording):
    with pytest.raises(UsageError, match="but this env has Box"):
        policy_from(
            DeterministicPolicy,
            DDPGConfig,
            masked_space(2),
            Box(-1, 1, (2,)),
            ActorQModelConfig(),
            seed=0,
            learning_starts=0,
            exploration="gaussian",
            ou_theta=0.0,
        )
    with wording.raised(UsageError, "action_mask"):
        actor_critic(Dict({"action_mask": MultiBinary(5)}))
