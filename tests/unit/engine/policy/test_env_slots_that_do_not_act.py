"""In env slots that do not act, nothing changes and nothing is recorded; the others act as if they were alone."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlrun.algorithms.actor_q.ddpg import DDPGConfig
from rlrun.algorithms.actor_q.deterministic_policy import DeterministicPolicy
from rlrun.algorithms.dqn.policy import QPolicy
from rlrun.algorithms.recurrent_q.policy import RecurrentQPolicy
from rlrun.algorithms.recurrent_q.r2d2 import R2D2Config, RecurrentModelConfig
from rlrun.engine.nn.model_config import ActorQModelConfig, ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from tests.policies import loaded, plain_policy, policy_from
from tests.rounding import rounding_error

SPACE, BOUNDED, CHOICES = Box(-1, 1, (3,)), Box(-1, 1, (2,)), Discrete(3)
SCHEDULES = {"epsilon": 0.3, "exploration_noise": 0.2}
LENGTH, SLOTS = 30, 4
MODEL = ModelConfig(hiddens=(8,))
SHARED = {"normalize_observations": False, "seed": 2}


def recurrent_q():
    return policy_from(
        RecurrentQPolicy, R2D2Config, SPACE, CHOICES, RecurrentModelConfig(hiddens=(8,), core_width=5), **SHARED
    )


def deterministic():
    return policy_from(
        DeterministicPolicy,
        DDPGConfig,
        SPACE,
        BOUNDED,
        ActorQModelConfig(hiddens=(8,)),
        **SHARED,
        learning_starts=0,
        exploration="ornstein_uhlenbeck",
        ou_theta=0.15,
    )


POLICIES = {
    "recurrent q": recurrent_q,
    "correlated noise": deterministic,
    "actor-critic": lambda: plain_policy(ActorCriticPolicy, SPACE, BOUNDED, MODEL, **SHARED),
    "recurrent actor-critic": lambda: plain_policy(
        ActorCriticPolicy, SPACE, BOUNDED, MODEL.replace(core="gru", core_width=5), **SHARED
    ),
    "q with values": lambda: plain_policy(QPolicy, SPACE, CHOICES, MODEL, **SHARED, records_values=True),
}


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
def test_a_slot_that_skips_steps_acts_as_if_its_remaining_steps_were_consecutive(make):
    policy, generator = make(), np.random.default_rng(0)
    observations = generator.normal(size=(LENGTH, SLOTS, 3)).astype(np.float32)
    noise = loaded(policy, **SCHEDULES).noise_source.noise(np.random.default_rng(1), LENGTH, SLOTS)
    starts = generator.random((LENGTH, SLOTS)) < 0.2
    starts[0] = True
    together = loaded(policy, **SCHEDULES)
    expected = together.collector.allocate(LENGTH, SLOTS)
    for t in range(LENGTH):
        together.act(observations[t], noise[t], expected, t, starts[t])

    behavior = loaded(policy, **SCHEDULES)
    waits = generator.random((3 * LENGTH, SLOTS)) < 0.5
    waits[:, 2] = False
    own = np.zeros(SLOTS, np.int64)  # the current step of each slot
    found = {name: np.zeros_like(column) for name, column in expected.items()}
    for acts in ~waits:
        acts = acts & (own < LENGTH)
        at = np.minimum(own, LENGTH - 1), np.arange(SLOTS)
        record = behavior.collector.allocate(1, SLOTS)
        untouched = {name: column.copy() for name, column in record.items()}
        # Slots that do not act get garbage, and it does not matter whether an episode begins there.
        shown = np.where(acts[:, None], observations[at], 1e3).astype(np.float32)
        behavior.act(shown, noise[at], record, 0, np.where(acts, starts[at], True), acts)
        for name, column in record.items():
            np.testing.assert_array_equal(column[0, ~acts], untouched[name][0, ~acts])
            found[name][own[acts], acts] = column[0, acts]
        own += acts
        if (own == LENGTH).all():
            break
    assert (own == LENGTH).all()
    for name, column in expected.items():
        np.testing.assert_allclose(found[name][:LENGTH], column[:LENGTH], atol=rounding_error(3 + 8 + 5), err_msg=name)
