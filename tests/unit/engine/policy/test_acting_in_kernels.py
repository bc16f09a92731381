"""Behavior policies that collect with C kernels act like those that collect with NumPy."""

import pickle

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from rlrun.engine.data.tree import map_tree
from rlrun.engine.kernels import library as kernel_library
from rlrun.engine.kernels.library import NoLibrary, why_no_library
from rlrun.engine.messages.errors import CompilerMissing
from rlrun.engine.nn.kernel_network import KernelNetwork
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.acting_network import in_kernels
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.weights import Weights
from tests.policies import plain_policy

pytestmark = pytest.mark.skipif(bool(why_no_library()), reason="no C compiler")

SEEN = Box(-1, 1, (5,), np.float32)
MASKED = Dict({"action_mask": MultiBinary(3), "seen": SEEN})
SLOTS, LENGTH = 6, 4

CASES = {
    "tanh": (SEEN, Discrete(3), {"activation": "tanh"}),
    "relu": (SEEN, Discrete(3), {"activation": "relu"}),
    "elu": (SEEN, Box(-2, 2, (2,)), {"activation": "elu"}),
    "silu": (SEEN, MultiDiscrete([2, 3]), {"activation": "silu"}),
    "lstm": (SEEN, Discrete(3), {"core": "lstm", "core_width": 7}),
    "gru": (SEEN, Box(-2, 2, (2,)), {"core": "gru", "core_width": 7}),
    "mask": (MASKED, Discrete(3), {}),
    "gSDE": (SEEN, Box(-2, 2, (2,)), {"use_sde": True}),
    "bits": (SEEN, MultiBinary(3), {}),
    "no hidden layer": (SEEN, Discrete(3), {"hiddens": []}),
}


def policy_of(observation_space, action_space, seed=0, **model):
    policy = plain_policy(
        ActorCriticPolicy,
        observation_space,
        action_space,
        ModelConfig.parse({"hiddens": [8], **model}),
        normalize_observations=False,
        seed=0,
    )
    with torch.no_grad():
        for parameter in policy.module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)) / 2)
    return policy


def behavior_of(policy, execution=None):
    behavior = policy.behavior()
    if execution is not None:
        behavior.collector.collect_by(execution)
    behavior.load(Weights(0, policy.parameters.gather(policy.module).numpy(), {}))
    return behavior


def observations_of(space, rows=SLOTS, seed=0):
    space.seed(seed)
    observations = map_tree(lambda *leaves: np.stack(leaves), *(space.sample() for _ in range(rows)))
    if isinstance(observations, dict):
        observations["action_mask"][:, 0] = 1
    return observations


def fragment_of(behavior, space, acts=None):
    noise = behavior.noise_source.noise(np.random.default_rng(3), LENGTH, SLOTS)
    record = behavior.collector.allocate(LENGTH, SLOTS)
    actions = []
    for t in range(LENGTH):
        starts = np.full(SLOTS, t == 0)
        starts[2] = t == 2
        actions.append(behavior.act(observations_of(space, seed=t), noise[t], record, t, starts, acts))
    seen = [observations_of(space, seed=t) for t in range(LENGTH + 1)]
    record["obs"] = map_tree(lambda *leaves: np.stack(leaves), *seen)
    behavior.collector.postprocess(record)
    return record, actions


@pytest.mark.parametrize("case", CASES)
def test_fragments_recorded_with_kernels_equal_those_of_numpy_up_to_rounding(case):
    observation_space, action_space, model = CASES[case]
    policy = policy_of(observation_space, action_space, **model)
    by_kernels = behavior_of(policy, in_kernels)
    numpys, numpy_actions = fragment_of(behavior_of(policy), observation_space)
    found, actions = fragment_of(by_kernels, observation_space)
    assert all(each is not None for each in by_kernels.collector.collecting._functions.values())
    for own, other in zip(actions, numpy_actions, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-6)
    assert found.keys() == numpys.keys()
    for name in found.keys() - {"obs"}:
        np.testing.assert_allclose(found[name], numpys[name], rtol=2e-5, atol=2e-6, err_msg=name)


def test_new_weights_take_effect_without_recording_the_kernels_again():
    policy, other = (policy_of(SEEN, Discrete(3), seed=seed, core="gru", core_width=7) for seed in (0, 1))
    behavior = behavior_of(policy, in_kernels)
    fragment_of(behavior, SEEN)
    functions = dict(behavior.collector.collecting._functions)
    behavior.load(Weights(1, other.parameters.gather(other.module).numpy(), {}))
    behavior.memory.load_state({"recurrent_state": np.zeros((SLOTS, behavior.network.state_size), np.float32)})
    found, _ = fragment_of(behavior, SEEN)
    wanted, _ = fragment_of(behavior_of(other), SEEN)
    np.testing.assert_allclose(found["logp"], wanted["logp"], rtol=2e-5, atol=2e-6)
    assert behavior.collector.collecting._functions == functions


def test_slots_that_do_not_act_keep_their_recurrent_state():
    behavior = behavior_of(policy_of(SEEN, Discrete(3), core="gru", core_width=7), in_kernels)
    fragment_of(behavior, SEEN)
    before = behavior.memory.state()["recurrent_state"]
    acts = np.arange(SLOTS) < 2
    record = behavior.collector.allocate(1, SLOTS)
    noise = behavior.noise_source.noise(np.random.default_rng(3), 1, SLOTS)
    behavior.act(observations_of(SEEN), noise[0], record, 0, np.zeros(SLOTS, np.bool_), acts)
    after = behavior.memory.state()["recurrent_state"]
    np.testing.assert_array_equal(after[2:], before[2:])
    assert (after[:2] != before[:2]).any(-1).all()


def test_actions_given_to_an_env_are_not_overwritten_by_the_next_step():
    _, actions = fragment_of(behavior_of(policy_of(SEEN, Discrete(3)), in_kernels), SEEN)
    assert len({each.__array_interface__["data"][0] for each in actions}) == LENGTH


def test_a_pickled_behavior_policy_still_acts_with_kernels():
    policy = policy_of(SEEN, Discrete(3))
    behavior = policy.behavior()
    behavior.collector.collect_by(in_kernels)
    sent = pickle.loads(pickle.dumps(behavior))
    assert isinstance(sent.collector.collecting, KernelNetwork)
    sent.load(Weights(0, policy.parameters.gather(policy.module).numpy(), {}))
    wanted, _ = fragment_of(behavior_of(policy), SEEN)
    np.testing.assert_array_equal(fragment_of(sent, SEEN)[0]["actions"], wanted["actions"])


def test_policies_without_a_kernel_fall_back_to_numpy():
    policy = policy_of(Discrete(4), Tuple([Discrete(2), Box(-1, 1, (1,))]))
    by_kernels = behavior_of(policy, in_kernels)
    found, _ = fragment_of(by_kernels, Discrete(4))
    assert [*by_kernels.collector.collecting._functions.values()] == [None]
    np.testing.assert_array_equal(found["actions"], fragment_of(behavior_of(policy), Discrete(4))[0]["actions"])


def test_the_error_on_a_machine_without_kernels_says_what_to_do(monkeypatch, wording):
    def none():
        raise NoLibrary("no C compiler was found")

    monkeypatch.setattr(kernel_library, "product", none)
    kernel_library.library.cache_clear()
    try:
        with wording.raised(CompilerMissing):
            fragment_of(behavior_of(policy_of(SEEN, Discrete(3)), in_kernels), SEEN)
    finally:
        kernel_library.library.cache_clear()
