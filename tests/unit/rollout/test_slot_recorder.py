import numpy as np
import pytest

from rlrun.data.tree import named_leaves
from rlrun.envs.env_config import EnvConfig
from rlrun.envs.make import make_vector_env, spaces_of
from rlrun.envs.vector_env import EpisodeSeeds, observation_hash
from rlrun.functional.seeding import generator
from rlrun.nn.model_config import ModelConfig
from rlrun.policy.actor_critic import ActorCriticPolicy
from rlrun.policy.weights import Weights
from rlrun.rollout.lockstep_recorder import LockstepRecorder
from rlrun.rollout.phases import untimed
from rlrun.rollout.slot_recorder import SlotRecorder
from rlrun.worlds.vector_world import SlotRows, WorldRows

ENVS = {
    "ends by terminations": EnvConfig(id="CartPole-v1"),
    "ends by truncations": EnvConfig(id="CartPole-v1", max_episode_steps=6, backend="loop"),
    "episodes of length 1": EnvConfig(id="rlrun.envs.worlds:ConstantReward", kwargs={"episode_len": 1}),
}
MODELS = {
    "feed-forward": ModelConfig(hiddens=(8,)),
    "recurrent": ModelConfig(hiddens=(8,), core="lstm", core_width=4),
}


class OneAgentEach:
    """A vector env as worlds of one agent, whose slots are the env slots."""

    state_space = None

    def __init__(self, config: EnvConfig, clock: str, num_worlds: int) -> None:
        self.env = make_vector_env(config, num_worlds, EpisodeSeeds(3, 0))
        self.num_worlds, self.clock = num_worlds, clock
        self.slots, self.spaces = {"default": num_worlds}, {"default": spaces_of(config)}
        self.ended = np.zeros(num_worlds, np.bool_)
        self.begins = np.ones(num_worlds, np.bool_)

    def reset(self) -> WorldRows:
        return self.shown(self.env.reset(), *np.zeros((3, self.num_worlds)), np.zeros(self.num_worlds, np.bool_))

    def step(self, actions) -> WorldRows:
        stepped, was_ended = ~self.ended, self.ended
        observations, rewards, terminateds, truncateds, _ = self.env.step(actions["default"])
        self.ended, self.begins = terminateds | truncateds, was_ended
        return self.shown(observations, rewards, terminateds, truncateds, stepped)

    def shown(self, observations, rewards, terminateds, truncateds, stepped) -> WorldRows:
        self.observations = observations
        terminateds, truncateds = terminateds.astype(bool), truncateds.astype(bool)
        acts = ~self.ended
        rows = SlotRows(observations, acts, self.begins & acts, rewards, terminateds, truncateds, acts)
        return WorldRows({"default": rows}, None, stepped, self.ended, {}, 0)

    def owners(self, policy: str) -> list[str]:
        return ["only"] * self.num_worlds

    def places(self):
        return self.env.places()

    def hashes(self) -> list[str]:
        return [observation_hash(row) for row in self.observations]

    def restore(self, places, actions, hashes, max_replay_s):
        taken = [own["default"][:, 0] for own in actions]
        observations, exact = self.env.restore(places, taken, hashes, max_replay_s)
        nothing = np.zeros(self.num_worlds, np.bool_)
        return self.shown(observations.copy(), np.zeros(self.num_worlds), nothing, nothing, nothing), exact

    def close(self) -> None:
        self.env.close()


def behavior_for(spaces, model=MODELS["feed-forward"], version=4, **more):
    policy = ActorCriticPolicy(*spaces, model, normalize_observations=False, seed=1, **more)
    behavior = policy.behavior()
    behavior.load(Weights(version, policy.parameters.gather(policy.module).numpy()))
    return behavior


def fragments(recorder, length, number, *, seed=0):
    """Records fragments with noise that depends on the steps alone, however they are cut."""
    ((policy, slots),) = recorder.slots.items()
    behavior = recorder_behavior(recorder)
    made = []
    for fragment in range(number):
        rows = [
            behavior.noise(generator(seed, "noise", t), 1, slots)
            for t in range(fragment * length, (fragment + 1) * length)
        ]
        recorded = recorder.record({policy: np.concatenate(rows)}, untimed)
        behavior.postprocess(recorded.batches[policy])
        made.append(recorded)
    return made


def recorder_behavior(recorder):
    return recorder._behavior if isinstance(recorder, LockstepRecorder) else recorder._policies["default"].behavior


@pytest.mark.parametrize("clock", ["parallel", "per_agent"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("env", ENVS)
def test_one_agent_in_each_world_is_recorded_as_the_single_agents_are_bit_for_bit(env, model, clock):
    config, length, number = ENVS[env], 7, 5
    spaces = spaces_of(config)
    single = LockstepRecorder(
        make_vector_env(config, 3, EpisodeSeeds(3, 0)),
        "default",
        behavior_for(spaces, MODELS[model]),
        env_name="env",
        length=length,
        max_replay_s=9.0,
    )
    many = SlotRecorder(
        OneAgentEach(config, clock, 3),
        {"default": behavior_for(spaces, MODELS[model])},
        name="env",
        length=length,
        max_replay_s=9.0,
    )
    for alone, found in zip(fragments(single, length, number), fragments(many, length, number), strict=True):
        expected, batch = dict(alone.batches["default"]), dict(found.batches["default"])
        assert (batch.pop("weights_version") == 4).all()
        assert batch.keys() == expected.keys()
        for name, leaf in named_leaves(expected):
            np.testing.assert_array_equal(dict(named_leaves(batch))[name], leaf, err_msg=name)
        np.testing.assert_array_equal(found.filled["default"], alone.filled["default"])
        assert found.episodes == alone.episodes
        assert [(own.episode_return, own.length) for own in found.agent_episodes["default"]] == [
            (own.episode_return, own.length) for own in alone.episodes
        ]
        assert found.env_steps == alone.env_steps == batch["valid"].sum()
        assert found.closing["default"][0].size == 0
