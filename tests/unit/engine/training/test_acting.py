"""Acting from Python with views: `act` remembers; with `act_with_memory`, the caller keeps the memory."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

import rlrun
from rlrun.engine.messages.errors import UsageError
from rlrun.plugin import Policies, WorldSamplingSettings

CONFIG = {"model": {"hiddens": [8], "views": {"prev_actions": 1, "prev_rewards": 2, "obs": 3}}}


@pytest.mark.parametrize("core", [None, "lstm"])
def test_interleaved_episodes_with_memories_kept_by_the_caller_match_separate_episodes(core):
    draws = np.random.default_rng(0)
    shown, rewards = draws.normal(size=(2, 6, 4)).astype(np.float32), draws.normal(size=(2, 6))
    with rlrun.Training("CartPole-v1", rlrun.PPO(model={**CONFIG["model"], "core": core}), seed=1) as training:
        behavior = training.acting.policy("").behavior()

        def apart(episode):
            outputs = []
            for t in range(6):
                reward = rewards[episode, t - 1] if t else 0.0
                training.act(shown[episode, t], episode_start=t == 0, prev_reward=reward)
                outputs.append(behavior.memory.state())
            return outputs

        expected, memories = [apart(0), apart(1)], [None, None]
        for t in range(6):
            for episode in range(2):
                reward = rewards[episode, t - 1] if t else 0.0
                _, memories[episode] = training.acting.policy().act_with_memory(
                    memories[episode], shown[episode, t], prev_reward=reward
                )
                for name, kept in expected[episode][t]["views"]["seen"].items():
                    np.testing.assert_array_equal(memories[episode]["views"]["seen"][name], kept)
                if core:
                    states = memories[episode]["recurrent_state"], expected[episode][t]["recurrent_state"]
                    np.testing.assert_array_equal(*states)


def test_a_policys_memory_can_record_that_an_action_other_than_its_own_was_taken():
    with rlrun.Training("CartPole-v1", rlrun.PPO(**CONFIG), seed=1) as training:
        first = np.zeros(4, np.float32)
        action, memory = training.acting.policy().act_with_memory(None, first)
        assert memory["views"]["seen"]["view:prev_actions"][0, -1] == action
        behavior = training.acting.policy("").behavior()
        behavior.memory.load_state(memory)
        behavior.take_actions(np.array([1 - action]))
        assert behavior.memory.state()["views"]["seen"]["view:prev_actions"][0, -1] == 1 - action


SEEN = {"rooms": np.zeros(4, np.float32), "price": np.zeros(1, np.float32)}


class Rooms(gymnasium.Env):
    """Env with observations of two parts."""

    action_space = Discrete(2)

    def __init__(self):
        self.observation_space = Dict({key: Box(-1, 1, part.shape) for key, part in SEEN.items()})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return SEEN, {}

    def step(self, action):
        return SEEN, 0.0, True, False, {}


@pytest.mark.parametrize(
    ("observation", "told"),
    [
        ({**SEEN, "rooms": np.zeros(1, np.float32)}, ("'rooms'", "(1,)", "(4,)")),
        ({key: np.stack([part, part]) for key, part in SEEN.items()}, ("'price'", "(2, 1)", "(1,)")),
        ({**SEEN, "price": np.float32([np.nan])}, ("'price'", "NaN")),
        ({"rooms": SEEN["rooms"]}, ("lacks", "price")),
        ({**SEEN, "co2": SEEN["price"]}, ("co2",)),
        (np.zeros(5, np.float32), ("must be a dict", "price", "rooms")),
    ],
    ids=["shape", "batch", "NaN", "missing", "unknown", "array"],
)
def test_observations_outside_the_space_are_refused(observation, told, rooms, wording):
    with wording.raised(UsageError, *told):
        rooms.act(observation)
    with pytest.raises(UsageError):
        rooms.acting.policy().act_with_memory(None, observation)


@pytest.fixture(scope="module")
def rooms():
    with rlrun.Training(Rooms, rlrun.PPO(model={"hiddens": [8]})) as training:
        yield training


def test_act_accepts_parts_of_the_observation_for_the_critic_but_no_unknown_parts():
    model = {"hiddens": [8], "actor_sees": ["rooms"]}
    with rlrun.Training(Rooms, rlrun.PPO(model=model)) as training:
        assert training.act(SEEN) == training.act({"rooms": SEEN["rooms"]})
        with pytest.raises(UsageError, match="co2"):
            training.act({**SEEN, "co2": SEEN["price"]})


def test_with_several_policies_the_one_that_acts_must_be_named(wording):
    small = rlrun.PPO(model={"hiddens": [8]})
    mapping = {"pole_0": "left", "pole_1": "right"}
    both = Policies({"left": small, "right": small}, WorldSamplingSettings(), mapping=mapping)
    seen = np.zeros(4, np.float32)
    with rlrun.Training({"world": "rlrun.toys:CartPoles"}, both) as training:
        with wording.raised(UsageError, "left, right", "training.acting.policy('left')"):
            training.act(seen)
        assert training.acting.policy("right").act(seen) in (0, 1)
