import copy
from dataclasses import replace

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlrun.engine.data.packing import Packing
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import named_leaves
from rlrun.engine.data.views import viewed
from rlrun.engine.datasets.check import check_set
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.layout import LOGP, LOGP_FORM
from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import make_vector_env, spaces_of
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.envs.vector_env import observation_hash
from rlrun.engine.functional.seeding import generator
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.lockstep_recorder import LockstepRecorder
from rlrun.engine.rollout.raw_rows import RawRows, raw_columns
from rlrun.engine.rollout.recorder import place_finals
from rlrun.engine.rollout.slot_recorder import SlotRecorder
from rlrun.engine.worlds.loop_worlds import LoopWorlds
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.engine.worlds.vector_world import SlotRows, WorldRows
from rlrun.engine.worlds.world import World, WorldStep
from tests.policies import plain_policy
from tests.rounding import rounding_error

ENVS = {
    "ends by terminations": EnvConfig(id="CartPole-v1"),
    "ends by truncations": EnvConfig(id="CartPole-v1", max_episode_steps=6, backend="loop"),
    "costs beside rewards": EnvConfig(id="rlrun.toys:TwoLanes", kwargs={"episode_len": 4}, columns=("cost",)),
    "episodes of length 1": EnvConfig(id="rlrun.toys:ConstantReward", kwargs={"episode_len": 1}),
}
VIEWS = {"prev_actions": 2, "prev_rewards": 3, "obs": 4}
MODELS = {
    "feed-forward": ModelConfig(hiddens=(8,)),
    "recurrent": ModelConfig(hiddens=(8,), core="lstm", core_width=4),
    "views": ModelConfig(hiddens=(8,)).replace(views=VIEWS),
}


class OneAgentEach:
    """A vector env as one-agent worlds, whose slots are the env slots."""

    state_space = None
    replays = True

    def __init__(self, config: EnvConfig, clock: str, num_worlds: int) -> None:
        self.env = make_vector_env(config, num_worlds, EpisodeSeeds(3, 0))
        self.columns = config.columns
        self.num_worlds, self.clock = num_worlds, clock
        self.slots, self.spaces = {"default": num_worlds}, {"default": spaces_of(config)}
        self.ended = np.zeros(num_worlds, np.bool_)
        self.begins = np.ones(num_worlds, np.bool_)

    def reset(self) -> WorldRows:
        return self.shown(self.env.reset(), *np.zeros((3, self.num_worlds)), np.zeros(self.num_worlds, np.bool_))

    def step(self, actions) -> WorldRows:
        stepped, was_ended = ~self.ended, self.ended
        observations, rewards, terminateds, truncateds, infos = self.env.step(actions["default"])
        self.ended, self.begins = terminateds | truncateds, was_ended
        shown = self.shown(observations, rewards, terminateds, truncateds, stepped)
        return replace(shown, infos={"default": infos})

    def shown(self, observations, rewards, terminateds, truncateds, stepped) -> WorldRows:
        self.observations = observations
        terminateds, truncateds = terminateds.astype(bool), truncateds.astype(bool)
        acts = ~self.ended
        columns = {name: np.where(stepped, column, 0.0) for name, column in self.env.columns.items()}
        rows = SlotRows(observations, acts, self.begins & acts, rewards, terminateds, truncateds, acts, columns)
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
    policy = plain_policy(ActorCriticPolicy, *spaces, model, seed=1, **more)
    behavior = policy.behavior()
    behavior.load(Weights(version, policy.parameters.gather(policy.module).numpy()))
    return behavior


def fragments(recorder, length, number, *, seed=0):
    """Records fragments whose noise depends only on the steps, however they are cut."""
    ((policy, slots),) = recorder.slots.items()
    behavior = recorder_behavior(recorder)
    made = []
    for fragment in range(number):
        rows = [
            behavior.noise_source.noise(generator(seed, "noise", t), 1, slots)
            for t in range(fragment * length, (fragment + 1) * length)
        ]
        recorded = recorder.record({policy: np.concatenate(rows)})
        behavior.collector.postprocess(recorded.batches[policy])
        if policy in recorded.closing:
            place_finals(recorded.batches[policy], *recorded.closing[policy])
        made.append(recorded)
    return made


def recorder_behavior(recorder):
    return recorder._behavior if isinstance(recorder, LockstepRecorder) else recorder._policies["default"].behavior


@pytest.mark.parametrize("clock", ["parallel", "per_agent"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("env", ENVS)
def test_single_agent_worlds_are_recorded_bit_for_bit_like_single_agent_envs(env, model, clock):
    config, length, number = ENVS[env], 7, 5
    spaces = spaces_of(config)
    single = LockstepRecorder(
        make_vector_env(config, 3, EpisodeSeeds(3, 0)),
        "default",
        behavior_for(spaces, MODELS[model]),
        seeds=EpisodeSeeds(3, 0),
        env_name="env",
        length=length,
        max_replay_s=9.0,
        lenders={},
    )
    many = SlotRecorder(
        OneAgentEach(config, clock, 3),
        {"default": behavior_for(spaces, MODELS[model])},
        seeds=EpisodeSeeds(3, 0),
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
        assert found.episodes == [replace(own, info={}) for own in alone.episodes]  # infos belong to agents' episodes
        assert found.agent_episodes["default"] == [replace(own, agent="only") for own in alone.episodes]
        assert found.env_steps == alone.env_steps == batch["valid"].sum()
        assert found.closing["default"][0].size == 0


class Lives(World):
    """Agents are born, act, are paid and die at random; each observation is a unique number.

    It records what happens, so that each agent's steps are known without slots or rows.
    """

    def __init__(self, clock: str, at_most: int = 3) -> None:
        self.clock, self.at_most = clock, at_most
        self.possible_agents = ["agent_0"]
        self.steps: dict[float, dict] = {}  # keyed by the observation that the agent acted on
        self.paid_before = 0.0

    def spaces(self, agent: str) -> Spaces:
        return Spaces(Box(-np.inf, np.inf, (1,), np.float32), Discrete(2))

    def new(self) -> np.ndarray:
        self.number += 1
        return np.float32([self.number])

    def reset(self, seed: int) -> dict:
        self.draws = np.random.default_rng(seed)
        self.number = 1000 * (seed % 16_000)  # small enough for floats to tell neighbors apart
        self.open: dict[str, dict] = {}
        self.waits: dict[str, int] = {}
        self.born = 0
        self.shown = {self.birth(): self.new() for _ in range(2)}
        return dict(self.shown)

    def birth(self) -> str:
        self.born += 1
        self.waits[f"agent_{self.born}"] = 0
        return f"agent_{self.born}"

    def show(self, agent: str, observation: np.ndarray) -> None:
        if agent in self.open:
            self.open.pop(agent)["next"] = float(observation[0])

    def step(self, actions: dict) -> WorldStep:
        assert actions.keys() == self.shown.keys()
        for agent, action in actions.items():
            seen = float(self.shown[agent][0])
            step = {"action": int(action), "reward": 0.0, "end": "", "next": None, "agent": agent}
            self.open[agent] = self.steps[seen] = step
            self.waits[agent] = 0 if self.clock == "parallel" else int(self.draws.integers(3))
        draws, shown, flags = self.draws, {}, ({}, {})
        ended = draws.random() < 0.08
        rewards = {agent: float(draws.integers(-3, 4)) for agent in self.waits if draws.random() < 0.8}
        for agent, reward in rewards.items():
            self.open[agent]["reward"] += reward
        for agent in list(self.waits):
            end = int(draws.integers(2)) if ended or draws.random() < 0.15 else None
            if end is not None:
                flags[end][agent] = True
                step, has_final = self.open.pop(agent), draws.random() < 0.7
                step["end"] = ("terminated", "truncated")[end]
                del self.waits[agent]
                if has_final:
                    shown[agent] = self.new()
                    step["next"] = float(shown[agent][0])
            elif self.waits[agent]:
                self.waits[agent] -= 1
            else:
                shown[agent] = self.new()
                self.show(agent, shown[agent])
        if not ended and draws.random() < 0.4 and len(self.waits) < self.at_most:
            agent = self.birth()
            shown[agent] = self.new()
        self.shown = {agent: own for agent, own in shown.items() if agent in self.waits}
        return WorldStep(shown, rewards, *flags, {}, ended)


def lives(clock: str, num_worlds: int = 2, seed: int = 3) -> tuple[list[Lives], LoopWorlds]:
    made = [Lives(clock) for _ in range(num_worlds)]
    spaces = {"default": ("agent_0", made[0].spaces("agent_0"))}
    slots = 8  # more than agents, because a slot rests for one step after each end
    worlds = LoopWorlds("lives", made, EpisodeSeeds(seed, 0), PolicyMapping(["default"]), spaces, {"default": slots})
    return made, worlds


def slot_recorder(worlds, length: int, model: str = "feed-forward", version: int = 4) -> SlotRecorder:
    behavior = behavior_for(worlds.spaces["default"], MODELS[model], version)
    return SlotRecorder(
        worlds,
        {"default": behavior},
        seeds=EpisodeSeeds(3, 0),
        name="world",
        length=length,
        max_replay_s=9.0,
        names_agents=True,
    )


def recorded_steps(batches: list[SampleBatch]) -> dict[float, dict]:
    """Returns the steps in fragments by observation, with what follows each step in its slot's packed rows."""
    found = {}
    for batch in batches:
        rows = Packing(batch["valid"], batch["terminateds"], batch["truncateds"])
        packed = {name: rows.pack(batch[name]) for name in ("obs", "actions", "rewards", "terminateds", "valid")}
        for t, slot in np.argwhere(packed["valid"]):
            terminated, truncated = packed["terminateds"][t, slot], rows.truncateds[t, slot]
            found[float(packed["obs"][t, slot, 0])] = {
                "action": int(packed["actions"][t, slot]),
                "reward": float(packed["rewards"][t, slot]),
                "terminated": bool(terminated),
                "cut": bool(truncated),
                "next": float(packed["obs"][t + 1, slot, 0]),
            }
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("clock", ["parallel", "per_agent"])
def test_every_step_of_every_agent_is_recorded_once_with_the_values_the_world_returned(clock, model, seed):
    made, worlds = lives(clock, seed=seed)
    recorded = fragments(slot_recorder(worlds, 9, model), 9, 12)
    found = recorded_steps([own.batches["default"] for own in recorded])
    told = {seen: step for world in made for seen, step in world.steps.items()}
    still_open = {seen for world in made for own in world.open.values() for seen, step in told.items() if step is own}
    assert len(told) > 100
    if clock == "parallel":
        assert found.keys() == told.keys()
    else:  # steps whose end no agent has seen yet are carried over
        assert found.keys() == told.keys() - still_open
    for seen, step in found.items():
        expected = told[seen]
        assert (step["action"], step["reward"]) == (expected["action"], expected["reward"])
        assert step["terminated"] == (expected["end"] == "terminated")
        if expected["end"] == "truncated":
            assert step["cut"]
        if expected["end"] != "terminated":
            assert step["next"] == (expected["next"] or seen)  # without a final observation, it is the last one seen


@pytest.mark.parametrize("clock", ["parallel", "per_agent"])
def test_a_data_set_recorded_in_a_world_holds_every_step_of_every_agent_in_whole_episodes(clock, tmp_path):
    made, worlds = lives(clock)
    recorder = slot_recorder(worlds, 9)
    behavior = recorder_behavior(recorder)
    spaces = worlds.spaces["default"]
    with SetWriter(tmp_path / "set", *spaces, further={LOGP: LOGP_FORM}) as writer:
        for fragment in range(12):
            noise = behavior.noise_source.noise(generator(0, "noise", fragment), 9, recorder.slots["default"])
            own = recorder.record({"default": noise})
            columns = raw_columns(behavior, own.batches["default"], ())
            raw = RawRows(columns, own.begins["default"], own.agent_rows["default"], own.closes["default"])
            for slot, rows, agent, begins in raw.streams():
                writer.add(str(slot), rows, agent=agent, begins=begins)
    told = {seen: step for world in made for seen, step in world.steps.items()}
    still_open = {seen for world in made for own in world.open.values() for seen, step in told.items() if step is own}
    written = DataSet(tmp_path / "set")
    rows = written.rows(np.arange(written.num_rows))
    steps = rows["valid"].nonzero()[0]
    found = {float(rows["obs"][row, 0]): row for row in steps}
    assert len(found) == len(steps) > 100
    assert told.keys() - still_open <= found.keys() <= told.keys()
    for seen, row in found.items():
        expected = told[seen]
        assert rows["actions"][row] == expected["action"]
        assert rows["agent"][row] == written.agents.index(expected["agent"])
        assert rows["seed"][row] % 16_000 == int(seen) // 1000
        assert rows["weights_version"][row] == 4
        assert rows["terminateds"][row] == (expected["end"] == "terminated")
        assert rows["truncateds"][row] == (expected["end"] == "truncated")
        if seen not in still_open:
            assert rows["rewards"][row] == expected["reward"]
        if expected["end"] != "terminated" and seen not in still_open:
            assert rows["obs"][row + 1, 0] == (expected["next"] or seen)
    assert not [finding for finding in check_set(tmp_path / "set") if finding.is_wrong]


@pytest.mark.parametrize("clock", ["parallel", "per_agent"])
def test_a_step_carried_into_the_next_fragment_keeps_its_original_log_probability(clock):
    _, worlds = lives(clock)
    recorder = slot_recorder(worlds, 9)
    behavior = recorder_behavior(recorder)
    behavior.collector.record_log_probs(
        lambda outputs, actions: np.full(len(actions), behavior.weights_version, np.float32)
    )
    carried = 0
    for fragment in range(10):
        behavior.weights_version = fragment
        noise = behavior.noise_source.noise(generator(0, "noise", fragment), 9, recorder.slots["default"])
        columns = raw_columns(behavior, recorder.record({"default": noise}).batches["default"], ())
        steps = columns["valid"]
        np.testing.assert_array_equal(columns[LOGP][steps], columns["weights_version"][steps])
        carried += (columns["weights_version"][steps] < fragment).sum()
    assert bool(carried) is (clock == "per_agent")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("clock", ["parallel", "per_agent"])
def test_ten_fragments_of_7_rows_hold_the_same_steps_as_one_of_70_rows(clock, model):
    def steps(length):
        _, worlds = lives(clock)
        batches = [
            own.batches["default"] for own in fragments(slot_recorder(worlds, length, model), length, 70 // length)
        ]
        found = {}
        for batch in batches:
            seen, names = dict(named_leaves(dict(viewed(batch)))), ("obs", "weights_version")
            for t, slot in np.argwhere(batch["valid"]):
                own = [seen[name][t, slot].ravel() for name in sorted(seen.keys() - {*names})]
                found[float(batch["obs"][t, slot, 0])] = np.hstack(own)
        return found

    short, long = steps(7), steps(70)
    assert len(long) > 150
    assert short.keys() == long.keys()
    for seen, step in long.items():
        np.testing.assert_allclose(short[seen], step, atol=rounding_error(1 + 8 + 4))


class Script(World):
    """Plays a script of what each step shows, pays and ends, whatever the actions."""

    def __init__(self, first: dict, *steps: WorldStep, clock: str = "per_agent") -> None:
        self.first, self.steps, self.clock = first, steps, clock
        self.possible_agents = ["a", "b"]

    def spaces(self, agent: str) -> Spaces:
        return Spaces(Box(-np.inf, np.inf, (1,), np.float32), Discrete(2))

    def reset(self, seed: int) -> dict:
        self.taken = 0
        return {agent: np.float32([seen]) for agent, seen in self.first.items()}

    def step(self, actions: dict) -> WorldStep:
        step = self.steps[self.taken]
        self.taken += 1
        return step._replace(observations={agent: np.float32([seen]) for agent, seen in step.observations.items()})


def after(shows=(), pays=(), terminates=(), truncates=(), ends=False, costs=()) -> WorldStep:
    flags = [dict.fromkeys(agents, True) for agents in (terminates, truncates)]
    return WorldStep(
        dict(shows), dict(pays), *flags, {agent: {"cost": cost} for agent, cost in dict(costs).items()}, ends
    )


def recorded_script(world: Script, length: int, *, fragments_of: int = 0, model: str = "feed-forward", columns=()):
    spaces = {"default": ("a", world.spaces("a"))}
    worlds = LoopWorlds(
        "script",
        [world],
        EpisodeSeeds(0, 0),
        PolicyMapping(["default"]),
        spaces,
        {"default": 2},
        columns=columns,
    )
    recorder = slot_recorder(worlds, fragments_of or length, model)
    return fragments(recorder, fragments_of or length, length // (fragments_of or length))


def test_a_reward_before_an_agents_first_action_counts_toward_its_return_but_appears_in_no_row():
    world = Script(
        {"a": 1},
        after({"a": 2}, {"a": 1.0, "b": 5.0}),  # b is paid before it observes anything
        after({"a": 3, "b": 10}, {"a": 1.0}),
        after({}, {"a": 1.0, "b": 2.0}, terminates="ab", ends=True),
    )
    (recorded,) = recorded_script(world, 3)
    batch = recorded.batches["default"]
    returns = {own.agent: (own.episode_return, own.length) for own in recorded.agent_episodes["default"]}
    assert returns == {"a": (3.0, 3), "b": (7.0, 1)}
    assert batch["rewards"][batch["valid"]].sum() == 3.0 + 2.0
    assert [own.episode_return for own in recorded.episodes] == [10.0]


def test_returns_exclude_rewards_given_to_dead_agents():
    world = Script(
        {"a": 1, "b": 1},
        after({"a": 2, "b": 2}, {"a": 1.0, "b": 10.0}, terminates="b"),
        after({"a": 3}, {"a": 1.0, "b": 100.0}),
        after({"a": 4, "b": 4}, {"a": 1.0, "b": 1000.0}),
        after({}, {"a": 1.0, "b": 1e4}, terminates="b"),
        after({}, {"a": 1.0, "b": 1e5}, ends=True),
        clock="per_agent",
    )
    (recorded,) = recorded_script(world, 5)
    lives = [(own.agent, own.episode_return) for own in recorded.agent_episodes["default"]]
    assert lives == [("b", 10.0), ("b", 11_000.0), ("a", 5.0)]
    assert [own.episode_return for own in recorded.episodes] == [11_015.0]
    assert recorded.dropped_rewards == 2


def test_costs_are_added_to_an_agents_open_step_until_its_next_decision():
    world = Script(
        {"a": 1},
        after({"b": 2}, costs={"a": 1.0}),  # b is not there yet
        after({"a": 3}, costs={"a": 2.0, "b": 8.0}),  # a waits
        after({"b": 4}, costs={"a": 4.0}),  # b waits, and its info holds nothing
        after({}, terminates="ab", ends=True, costs={"a": 16.0, "b": 32.0}),
    )
    (recorded,) = recorded_script(world, 4, columns=("cost",))
    batch = recorded.batches["default"]
    assert batch["valid"].tolist() == [[True, True], [True, True], [False, False], [False, False]]
    assert batch["cost"].tolist() == [[3.0, 8.0], [20.0, 32.0], [0.0, 0.0], [0.0, 0.0]]
    assert {own.agent: own.columns for own in recorded.agent_episodes["default"]} == {
        "a": {"cost": 23.0},
        "b": {"cost": 40.0},
    }
    assert [own.columns for own in recorded.episodes] == [{"cost": 63.0}]


def test_costs_of_an_open_step_are_carried_over_into_the_next_fragment():
    steps = [
        after({"b": 2}, costs={"a": 1.0}),
        after({"b": 3}, costs={"a": 2.0, "b": 0.0}),
        after({"a": 4}, costs={"a": 4.0, "b": 0.0}),
        after({}, terminates="ab", ends=True, costs={"a": 8.0}),
    ]
    _, second = recorded_script(Script({"a": 1}, *steps), 4, fragments_of=2, columns=("cost",))
    batch = second.batches["default"]
    assert batch["obs"][:2, 0, 0].tolist() == [1.0, 4.0]
    assert batch["cost"][:, 0].tolist() == [7.0, 8.0]


@pytest.mark.parametrize("clock", ["parallel", "per_agent"])
def test_cost_sums_continue_after_a_resume(clock):
    steps = [after({"a": 2, "b": 2}, costs={"a": 1.0, "b": 2.0})] * 5
    steps += [after({}, terminates="ab", ends=True, costs={"a": 4.0, "b": 8.0})]

    def made() -> SlotRecorder:
        world = Script({"a": 1, "b": 1}, *steps, clock=clock)
        spaces, mapping = {"default": ("a", world.spaces("a"))}, PolicyMapping(["default"])
        slots = {"default": 2}
        return slot_recorder(LoopWorlds("s", [world], EpisodeSeeds(0, 0), mapping, spaces, slots, columns=["cost"]), 3)

    recorder, resumed = made(), made()
    fragments(recorder, 3, 1)
    resumed.load_state(recorder.state())
    (found,) = fragments(resumed, 3, 1)
    assert {own.agent: own.columns["cost"] for own in found.agent_episodes["default"]} == {"a": 9.0, "b": 18.0}
    assert [own.columns["cost"] for own in found.episodes] == [27.0]


def test_the_last_move_of_the_opponent_ends_an_agents_open_step():
    world = Script(
        {"a": 1},
        after({"b": 2}),
        after({"a": 3}),
        after({}, {"a": 1.0, "b": -1.0}, terminates="ab", ends=True),  # a wins while b waits
    )
    (recorded,) = recorded_script(world, 3)
    batch = recorded.batches["default"]
    slot_of = {"a": 0, "b": 1}
    assert batch["rewards"][:, slot_of["a"]].tolist() == [0.0, 1.0, 0.0]
    assert batch["valid"][:, slot_of["b"]].tolist() == [True, False, False]
    assert batch["rewards"][0, slot_of["b"]] == -1.0
    assert batch["terminateds"][0, slot_of["b"]]


def test_an_open_step_is_carried_into_the_next_fragment_with_the_weights_that_chose_it():
    world = Script(
        {"a": 1},
        after({"b": 2}, {"a": 1.0}),
        after({"b": 3}, {"a": 2.0, "b": 9.0}),
        after({"a": 4}, {"a": 4.0, "b": 9.0}),
        after({"b": 5}, {"a": 8.0}),
        after({}, {}, terminates="ab", ends=True),
    )
    spaces = {"default": ("a", world.spaces("a"))}
    worlds = LoopWorlds("script", [world], EpisodeSeeds(0, 0), PolicyMapping(["default"]), spaces, {"default": 2})
    recorder = slot_recorder(worlds, 2)
    (first,) = fragments(recorder, 2, 1)
    behavior = recorder_behavior(recorder)
    behavior.weights_version = 5
    (second,) = fragments(recorder, 2, 1)
    before, batch = first.batches["default"], second.batches["default"]
    assert not before["valid"][:, 0].any()
    assert before["obs"][-1, 0, 0] == 1  # the slot's last row holds the observation of the step that is carried over
    assert (batch["obs"][0, 0, 0], batch["rewards"][0, 0], batch["valid"][0, 0]) == (1, 7.0, True)
    assert batch["weights_version"][0].tolist() == [4, 5]
    assert batch["obs"][1, 0, 0] == 4


@pytest.mark.parametrize("clock", ["parallel", "per_agent"])
def test_agents_truncated_without_a_final_observation_bootstrap_from_their_last_one(clock):
    world = Script(
        {"a": 1, "b": 2},
        after({"a": 3}, truncates="b"),
        after({"a": 4}),
        after({"a": 5}),
        after({}, truncates="a", ends=True),
        clock=clock,
    )
    (recorded,) = recorded_script(world, 4)
    batch = recorded.batches["default"]
    assert recorded.missing_finals == 2
    assert batch["truncateds"][0, 1]
    assert batch["obs"][1, 1, 0] == 2
    assert not batch["valid"][1, 1]
    assert batch["obs"][4, 0, 0] == 5


def test_a_new_agent_does_not_inherit_the_recurrent_state_of_its_slots_previous_owner():
    lived = (after({"a": 2}), after({"a": 3}), after({"a": 4}, terminates="a"), after({"b": 1}), after({"b": 2}))
    world = Script({"a": 1, "c": 0}, *(step._replace(observations={**step.observations, "c": 0}) for step in lived))
    world.possible_agents = ["a", "b", "c"]
    (recorded,) = recorded_script(world, 5, model="recurrent")
    batch = recorded.batches["default"]
    assert batch["valid"][:, 0].tolist() == [True, True, True, False, True]
    assert batch["episode_starts"][:, 0].tolist() == [True, False, False, False, True]
    assert not batch["state"][4, 0].any()
    assert batch["state"][2, 0].any()


def test_an_agent_keeps_its_recurrent_state_while_it_does_not_act():
    turns = Script({"a": 1}, after({"b": 7}), after({"b": 8}), after({"b": 9}), after({"a": 2}))
    alone = Script({"a": 1}, after({"a": 2}), after({"a": 3}))
    (among,) = recorded_script(turns, 5 - 1, model="recurrent")
    (by_itself,) = recorded_script(alone, 2, model="recurrent")
    expected = by_itself.batches["default"]["state"][1, 0]
    assert expected.any()
    # a's second step begins the next fragment. The closing value of this fragment uses the state at that step.
    assert among.batches["default"]["valid"][:, 0].tolist() == [True, False, False, False]
    values = [own.batches["default"]["values"][row, 0] for own, row in ((among, -1), (by_itself, 1))]
    np.testing.assert_allclose(*values, rtol=rounding_error(1 + 8 + 4))


@pytest.mark.parametrize("clock", ["parallel", "per_agent"])
def test_observation_statistics_count_each_shown_observation_exactly_once(clock):
    made, worlds = lives(clock, num_worlds=1)
    recorded = fragments(slot_recorder(worlds, 5), 5, 20)
    seen = [
        float(own.batches["default"]["obs"][t, slot, 0])
        for own in recorded
        for t, slot in np.argwhere(own.filled["default"])
    ]
    acted_on = [
        step for own in recorded for step in own.batches["default"]["obs"][:-1][own.batches["default"]["valid"]]
    ]
    assert len(set(seen)) >= len(acted_on) > 50
    assert 0.0 not in seen
    finals = [step["next"] or shown for shown, step in made[0].steps.items() if step["end"]]
    # A final observation has its own row. Without one, the last seen observation is repeated there.
    assert sorted(seen) == sorted([*(float(step[0]) for step in acted_on), *finals][: len(seen)])


@pytest.mark.parametrize("clock", ["parallel", "per_agent"])
@pytest.mark.parametrize("model", MODELS)
def test_a_recorder_restored_from_another_recorders_state_continues_bit_for_bit(clock, model):
    _, worlds = lives(clock)
    recorder = slot_recorder(worlds, 7, model)
    fragments(recorder, 7, 6)
    state, remembered = copy.deepcopy(recorder.state()), copy.deepcopy(recorder_behavior(recorder).state())
    _, others = lives(clock)
    restored = slot_recorder(others, 7, model)
    recorder_behavior(restored).load_state(remembered)
    assert not restored.load_state(state)["default"].any()
    for expected, found in zip(fragments(recorder, 7, 3, seed=1), fragments(restored, 7, 3, seed=1), strict=True):
        for (name, left), (_, right) in zip(
            named_leaves(dict(expected.batches["default"])), named_leaves(dict(found.batches["default"])), strict=True
        ):
            np.testing.assert_array_equal(left, right, err_msg=name)
        assert expected.episodes == found.episodes
        assert expected.agent_episodes == found.agent_episodes
