"""Collecting side of a behavior policy: the columns of a fragment, and the networks that fill them."""

import pickle
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlrun.algorithms.dqn.policy import QPolicy
from rlrun.engine.data.sample_batch import WORLD_STATE, SampleBatch
from rlrun.engine.nn.acting import ActingNetwork, Heads, WrappedNetwork
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.fragment_collector import FragmentCollector, Recording
from rlrun.engine.policy.log_probs_in_env import taken_log_probs
from rlrun.engine.policy.policy import Policy
from rlrun.engine.policy.recordings import LogProbsAndValues
from rlrun.engine.policy.weights import Weights
from tests.policies import plain_policy

SEEN, ACTIONS = Box(-1, 1, (2,)), Discrete(3)
LENGTH, SLOTS = 2, 4


def policy_of(family: Any = ActorCriticPolicy, **settings: Any) -> Policy:
    model = ModelConfig(hiddens=(4,))
    return plain_policy(family, SEEN, ACTIONS, model, **settings)  # type: ignore[no-any-return]


def loaded_anew(policy: Policy, behavior: BehaviorPolicy | None = None) -> BehaviorPolicy:
    behavior = behavior or policy.behavior()
    behavior.load(Weights(0, policy.parameters.gather(policy.module).numpy(), schedules={"epsilon": 0.0}))
    return behavior


def acted_fragment(behavior: BehaviorPolicy) -> SampleBatch:
    generator = np.random.default_rng(0)
    noise, batch = behavior.noise_source.noise(generator, LENGTH, SLOTS), behavior.collector.allocate(LENGTH, SLOTS)
    batch["obs"] = generator.uniform(-1, 1, (LENGTH + 1, SLOTS, 2)).astype(np.float32)
    for t in range(LENGTH):
        behavior.act(batch["obs"][t], noise[t], batch, t, np.full(SLOTS, t == 0))
    return batch


class TwiceAsMuch(Recording):
    """Doubles the actions of a fragment, as postprocessing may do."""

    replaces_actions = True

    def postprocess(self, batch: SampleBatch, collector: FragmentCollector) -> None:
        batch["twice"] = 2 * batch["actions"]


class Counted(WrappedNetwork):
    """Counts its forward passes."""

    def __init__(self, network: ActingNetwork) -> None:
        super().__init__(network)
        self.passes = 0

    def __call__(self, *inputs: Any) -> tuple[Heads, Any]:
        self.passes += 1
        return self.network(*inputs)


def test_a_plain_recorder_records_only_observations_and_actions() -> None:
    policy = policy_of()
    own = policy.behavior()
    behavior = BehaviorPolicy(
        own.network,
        own.action_space,
        own.exploration,
        policy.leaves,
        normalize_observations=False,
        recording=Recording(),
        world_columns=(WORLD_STATE,),
    )
    batch = acted_fragment(loaded_anew(policy, behavior))
    behavior.collector.postprocess(batch)
    assert batch.keys() == {"actions", "obs"}
    assert behavior.collector.world_columns == (WORLD_STATE,)


def test_a_custom_recorder_adds_columns_to_whole_fragments_and_turns_off_log_probs() -> None:
    policy = policy_of()
    own = policy.behavior()
    behavior = BehaviorPolicy(
        own.network, own.action_space, own.exploration, policy.leaves, normalize_observations=False,
        recording=TwiceAsMuch(),
    )  # fmt: skip
    batch = acted_fragment(loaded_anew(policy, behavior))
    behavior.collector.postprocess(batch)
    np.testing.assert_array_equal(batch["twice"], 2 * batch["actions"])
    assert taken_log_probs(own) is not None
    assert taken_log_probs(behavior) is None


def test_log_probs_are_computed_from_the_outputs_that_chose_the_actions() -> None:
    behavior = loaded_anew(policy_of(QPolicy))
    behavior.collector.record_log_probs(lambda outputs, actions: outputs.argmax(-1) - np.float32(actions))
    assert acted_fragment(behavior)["taken_logp"].tolist() == [[0.0] * SLOTS] * LENGTH  # greedy by the same outputs


def test_a_collectors_own_executor_is_used_for_collecting_but_not_for_evaluating() -> None:
    policy = policy_of()
    behavior, expected = loaded_anew(policy), acted_fragment(loaded_anew(policy))
    behavior.collector.collect_by(Counted)
    batch = acted_fragment(behavior)
    collecting, recording = behavior.collector.collecting, behavior.collector.recording
    assert isinstance(recording, LogProbsAndValues)
    values = recording.value_network
    assert isinstance(collecting, Counted)
    assert isinstance(values, Counted)
    assert (collecting.passes, values.passes) == (LENGTH, 0)
    for name in expected:
        np.testing.assert_array_equal(batch[name], expected[name], err_msg=name)
    behavior.collector.postprocess(batch)
    behavior.outputs(batch["obs"][0])
    assert (collecting.passes, values.passes) == (LENGTH, 1)


def test_parameter_noise_perturbs_a_copy_of_the_network() -> None:
    behavior = loaded_anew(policy_of(QPolicy, exploration="parameter_noise"))
    collector = behavior.collector
    assert collector.collecting is not collector.network
    assert collector.network is behavior.network
    before = behavior.outputs(np.ones((1, 2), np.float32))
    acted_fragment(behavior)
    inputs = {"obs": np.ones((1, 2), np.float32)}
    assert not np.array_equal(collector.collecting(inputs)[0]["outputs"], before)
    np.testing.assert_array_equal(behavior.outputs(inputs["obs"]), before)


def test_a_pickled_policy_and_its_collector_share_network_filter_and_memory() -> None:
    behavior = pickle.loads(pickle.dumps(policy_of(normalize_observations=True).behavior()))
    collector = behavior.collector
    assert collector.network is behavior.network
    assert collector.filter is behavior.filter
    assert collector._memory is behavior.memory


@pytest.mark.parametrize("normalizes", [True, False])
def test_a_disabled_filter_has_no_moments_and_leaves_observations_unchanged(normalizes: bool) -> None:
    behavior = policy_of(normalize_observations=normalizes).behavior()
    raw = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    moments = behavior.collector.moments(raw, np.ones((2, 3), np.bool_))
    assert [*moments] == (["observations/"] if normalizes else [])
    behavior.filter.load(moments)
    assert (behavior.filter(raw) is raw) is not normalizes
    batch = SampleBatch(obs=raw)
    behavior.filter.filter_fragment(batch)
    assert np.array_equal(batch["obs"], behavior.filter(raw))
