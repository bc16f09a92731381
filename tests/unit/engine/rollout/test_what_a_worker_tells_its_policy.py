"""What a worker tells a behavior policy while it acts, and the noise that it passes."""

import numpy as np
from gymnasium.spaces import Discrete

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.rewards import RewardSettings
from rlrun.engine.rollout.rollout_worker import RolloutWorker
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_config import WorkerConfig


class Draws:
    """Draws a number for each step, and remembers its env slots."""

    network_noise = 0
    network_noise_every = None

    def __init__(self):
        self.place = None

    def assign_envs(self, first_slot, num_slots):
        self.place = first_slot, num_slots

    def noise(self, generator, length, columns):
        return generator.random((length, columns), np.float32)


class Ages:
    """Columns of the noise, and of each env slot's step in its episode."""

    world_columns = ()

    def allocate(self, length, columns, lent=None):
        return SampleBatch(
            actions=np.empty((length, columns), np.int64),
            noise=np.empty((length, columns), np.float32),
            ages=np.empty((length, columns), np.int64),
        )

    def close(self, batch, episode_starts, shown):
        """Records nothing."""

    def moments(self, observations, filled):
        return {}

    def postprocess(self, batch):
        """Leaves the batch as it is."""


class Remembering:
    """Pushes at random, and records its noise and each env slot's step in its episode."""

    action_space = DiscreteActions(Discrete(2))

    def __init__(self):
        self.noise_source = Draws()
        self.collector = Ages()
        self.age = None

    def load(self, weights):
        """Ignores weights."""
        self.weights_version = weights.version

    def take_rewards(self, rewards):
        """Ignores them."""

    def act(self, observations, noise, record, t, starts):
        """Counts the steps since an episode began."""
        self.age = np.where(starts, 0, 0 if self.age is None else self.age + 1)
        record["ages"][t], record["noise"][t] = self.age, noise
        record["actions"][t] = noise < 0.5
        return record["actions"][t]

    def state(self):
        """Returns the ages."""
        return {"age": None if self.age is None else self.age.copy()}

    def load_state(self, state):
        """Restores the ages."""
        self.age = state["age"]


def worker_for(*, num_envs=2, length=4, index=0, num_workers=1, first_fragment=0):
    config = WorkerConfig(
        env=EnvConfig(id="CartPole-v1"),
        num_envs=num_envs,
        fragment_length=length,
        seed=5,
        behaviors={"default": Remembering()},
        rewards={"default": RewardSettings(0.9)},
        worker_index=index,
        num_workers=num_workers,
        first_fragment=first_fragment,
    )
    worker = RolloutWorker(config)
    worker.follow(Orders({"default": Weights(0, np.zeros(0, np.float32))}))
    return worker


def joined(worker, fragments, *columns):
    batches = [worker.sample().batches["default"] for _ in range(fragments)]
    return [np.concatenate([batch[column] for batch in batches]) for column in columns]


def test_a_policy_is_told_which_observations_start_an_episode():
    ages, valid, terminateds = joined(worker_for(), 40, "ages", "valid", "terminateds")
    expected, begins = np.zeros_like(ages), np.ones(2, bool)
    for t in range(len(ages)):
        expected[t] = np.where(begins, 0, expected[t - 1] + 1)
        begins = ~valid[t]  # the row after a final observation holds a first one
    assert terminateds.sum() >= 8
    np.testing.assert_array_equal(ages, expected)


def test_the_memory_and_episode_starts_of_a_policy_are_restored_with_the_worker_state():
    for fragments in range(5, 15):
        worker = worker_for()
        joined(worker, fragments, "ages")
        state = worker.state()
        expected = joined(worker, 10, "ages", "noise", "actions", "valid")
        other = worker_for()
        assert other.load_state(state) == 0
        for found, wanted in zip(joined(other, 10, "ages", "noise", "actions", "valid"), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_noise_depends_only_on_the_worker_and_the_fragment_number_and_never_repeats():
    noise = joined(worker_for(), 20, "noise")[0]
    assert len(np.unique(noise)) == noise.size
    made_anew = joined(worker_for(first_fragment=7), 13, "noise")[0]
    np.testing.assert_array_equal(made_anew, noise[7 * 4 :])
    other = joined(worker_for(index=2, num_workers=2), 20, "noise")[0]
    assert not np.isin(other, noise).any()


def test_a_long_fragment_draws_the_same_noise_as_consecutive_short_ones():
    together = joined(worker_for(length=16), 2, "noise")[0]
    np.testing.assert_array_equal(joined(worker_for(length=4), 8, "noise")[0], together)


def test_a_policy_knows_the_place_of_its_env_slots_among_those_of_all_workers():
    assert worker_for(num_envs=3).behaviors["default"].noise_source.place == (0, 3)
    assert worker_for(num_envs=3, index=1, num_workers=4).behaviors["default"].noise_source.place == (0, 12)
    assert worker_for(num_envs=3, index=4, num_workers=4).behaviors["default"].noise_source.place == (9, 12)
