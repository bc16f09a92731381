"""Array worlds as vector worlds: seeds, owners of slots, ends one step before resets, and exact returns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds
from rlrun.engine.envs.vector_env import EnvError
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.worlds.array_worlds import ArrayVectorWorld
from rlrun.engine.worlds.make import make_vector_world
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.engine.worlds.vector_world import WorldRows
from rlrun.toys.cartpoles import GROUP, CartPoleArrays, CartPoles

SEEDS = EpisodeSeeds(run_seed=3, worker_index=1)
W, K = 4, 2


def make(*, reborn: bool = False, max_steps: int = 30) -> ArrayVectorWorld:
    arrays = CartPoleArrays(W, K, reborn=reborn, max_steps=max_steps)
    return ArrayVectorWorld(arrays, "poles", {GROUP: "balancer"}, SEEDS)


def copied(rows: WorldRows) -> dict[str, Any]:
    slots = rows.policies["balancer"]
    seen = np.where((slots.acts | slots.terminateds | slots.truncateds)[:, None], slots.observations, 0.0)
    flags = {name: getattr(slots, name).copy() for name in ("acts", "starts", "living")}
    return {"observations": seen, **flags}


@pytest.mark.parametrize("reborn", [False, True])
def test_array_worlds_match_dict_worlds_reset_with_the_same_episode_seeds(reborn: bool) -> None:
    vector, generator = make(reborn=reborn), np.random.default_rng(0)
    dicts = [CartPoles(K, reborn=reborn, max_steps=30) for _ in range(W)]
    rows = vector.reset()
    slots = rows.policies["balancer"]
    assert slots.starts.all()
    assert slots.living.all()
    assert not rows.stepped.any()
    shown = [dict(world.reset(SEEDS.seed(number, 0))) for number, world in enumerate(dicts)]
    episodes, lengths, awaiting = [0] * W, [0] * W, [False] * W
    for _ in range(150):
        actions = generator.integers(0, 2, W * K)
        rows = vector.step({"balancer": actions})
        slots = rows.policies["balancer"]
        for number, world in enumerate(dicts):
            of_world = slice(number * K, (number + 1) * K)
            before = set(shown[number])
            if awaiting[number]:
                episodes[number] += 1
                lengths[number] = 0
                seen = shown[number] = dict(world.reset(SEEDS.seed(number, episodes[number])))
                before, over, rewards, awaiting[number] = set(), set(), {}, False
                assert not rows.stepped[number]
            else:
                taken = {agent: int(actions[number * K + int(agent[-1])]) for agent in before}
                step = world.step(taken)
                lengths[number] += 1
                seen, rewards, awaiting[number] = step.observations, step.rewards, step.ended
                over = set(step.terminateds) | set(step.truncateds)
                shown[number] = {agent: row for agent, row in seen.items() if agent not in over}
                assert rows.stepped[number]
                assert [agent in step.terminateds for agent in world.possible_agents] == slots.terminateds[
                    of_world
                ].tolist()
            agents = world.possible_agents
            assert [rewards.get(agent, 0.0) for agent in agents] == slots.rewards[of_world].tolist()
            assert [agent in shown[number] for agent in agents] == slots.acts[of_world].tolist()
            assert [agent in shown[number] for agent in agents] == slots.living[of_world].tolist()
            assert [agent in shown[number] and agent not in before for agent in agents] == slots.starts[
                of_world
            ].tolist()
            for k, agent in enumerate(agents):
                if agent in seen:
                    assert seen[agent].tobytes() == slots.observations[number * K + k].tobytes()
            assert rows.ended[number] == awaiting[number]
        assert vector.places() == [
            EpisodePosition(episodes[number], SEEDS.seed(number, episodes[number]), lengths[number])
            for number in range(W)
        ]
    assert min(episodes) >= 3


@pytest.mark.parametrize("reborn", [False, True])
def test_policies_receive_the_same_rows_from_array_worlds_as_from_loops_over_dict_worlds(reborn: bool) -> None:
    config = EnvConfig(world="rlrun.toys:CartPoles", kwargs={"num_agents": K, "reborn": reborn, "max_steps": 30})
    loop = make_vector_world(config, W, SEEDS, PolicyMapping(["balancer"]), {})
    vector, generator = make(reborn=reborn), np.random.default_rng(0)
    assert list(loop.possible_agents) == list(vector.possible_agents)
    one, other = loop.reset(), vector.reset()
    for _ in range(120):
        actions = {"balancer": generator.integers(0, 2, W * K)}
        slots, expected = one.policies["balancer"], other.policies["balancer"]
        for name in ("acts", "starts", "living", "rewards", "terminateds", "truncateds"):
            np.testing.assert_array_equal(getattr(slots, name), getattr(expected, name), name)
        np.testing.assert_array_equal(copied(one)["observations"], copied(other)["observations"])
        np.testing.assert_array_equal(one.stepped, other.stepped)
        np.testing.assert_array_equal(one.ended, other.ended)
        assert loop.places() == vector.places()
        one, other = loop.step(actions), vector.step(actions)


class PaysTheDead(CartPoleArrays):
    """Pays every slot 1 at each step, even if its agent is dead."""

    def step(self, actions: Any) -> Any:
        return self.paid(super().step(actions))

    def reset(self, worlds: Any, seeds: Any) -> Any:
        return self.paid(super().reset(worlds, seeds), begun=worlds)

    def paid(self, shown: Any, begun: Any = ()) -> Any:
        rewards = np.ones((W, K))
        rewards[list(begun)] = 0.0
        return shown._replace(groups={GROUP: replace(shown.groups[GROUP], rewards=rewards)})


@pytest.mark.parametrize("reborn", [False, True])
def test_rewards_for_dead_agents_are_dropped_and_counted(reborn: bool) -> None:
    arrays = PaysTheDead(W, K, reborn=reborn, max_steps=30)
    vector = ArrayVectorWorld(arrays, "poles", {GROUP: "balancer"}, SEEDS)
    rows, generator, dropped = vector.reset(), np.random.default_rng(0), 0
    for _ in range(100):
        before = rows.policies["balancer"].living.copy()
        rows = vector.step({"balancer": generator.integers(0, 2, W * K)})
        slots = rows.policies["balancer"]
        stepped = np.repeat(rows.stepped, K)
        earns = (before | slots.acts) & stepped
        np.testing.assert_array_equal(slots.rewards, earns)
        assert rows.dropped_rewards == np.count_nonzero(stepped & ~earns)
        dropped += rows.dropped_rewards
    assert dropped


def test_agents_of_array_worlds_are_named_by_group_and_index() -> None:
    assert list(make().owners("balancer")) == ["pole_0", "pole_1"] * W


def played(vector: ArrayVectorWorld, steps: int) -> tuple[WorldRows, list[NDArray[Any]]]:
    """Takes steps; returns the resulting rows, and each world's actions since its reset, [length, K]."""
    generator, taken = np.random.default_rng(7), []
    rows = vector.reset()
    for _ in range(steps):
        taken.append(generator.integers(0, 2, W * K))
        rows = vector.step({"balancer": taken[-1]})
    joint = np.array(taken).reshape(steps, W, K)
    return rows, [joint[steps - place.length :, number] for number, place in enumerate(vector.places())]


@pytest.mark.parametrize("steps", [0, 1, 10, 29, 30, 31, 47, 75, 100])
@pytest.mark.parametrize("reborn", [False, True])
def test_restored_array_worlds_match_the_saved_ones_and_continue_identically(steps: int, reborn: bool) -> None:
    vector, again = make(reborn=reborn), make(reborn=reborn)
    rows, joint = played(vector, steps)
    expected = copied(rows)
    places, hashes = vector.places(), vector.hashes()
    again.reset()
    restored, exact = again.restore(places, [{"balancer": actions} for actions in joint], hashes, 60.0)
    assert exact == [True] * W
    assert again.places() == places
    assert again.hashes() == hashes
    map_tree(np.testing.assert_array_equal, copied(restored), expected)
    generator = np.random.default_rng(1)
    for _ in range(40):
        actions = {"balancer": generator.integers(0, 2, W * K)}
        one, other = vector.step(actions), again.step(actions)
        map_tree(np.testing.assert_array_equal, copied(one), copied(other))
        np.testing.assert_array_equal(one.ended, other.ended)
        assert vector.places() == again.places()


def test_a_world_that_replays_to_a_different_state_starts_its_next_episode() -> None:
    vector, again = make(), make()
    _, joint = played(vector, 12)
    hashes = vector.hashes()
    hashes[2] = "another"
    places = vector.places()
    again.reset()
    rows, exact = again.restore(places, [{"balancer": actions} for actions in joint], hashes, 60.0)
    assert exact == [True, True, False, True]
    assert again.places()[2] == EpisodePosition(places[2].episode + 1, SEEDS.seed(2, places[2].episode + 1), 0)
    assert rows.policies["balancer"].starts[4:6].all()


def test_the_hash_of_a_world_depends_only_on_its_own_state() -> None:
    one, other = make(), make()
    played(one, 5), played(other, 5)
    assert one.hashes() == other.hashes()
    assert len(set(one.hashes())) == W
    actions = np.zeros(W * K, np.int64)
    one.step({"balancer": actions})
    actions[2 * K] = 1
    other.step({"balancer": actions})
    assert [own == its for own, its in zip(one.hashes(), other.hashes(), strict=True)] == [True, True, False, True]


def test_a_group_without_a_policy_is_refused(wording) -> None:
    with wording.raised(UsageError):
        ArrayVectorWorld(CartPoleArrays(1), "poles", {}, SEEDS)


def test_an_error_in_an_array_world_names_all_current_episodes() -> None:
    vector = make()
    vector.reset()
    with pytest.raises(
        EnvError,
        match=r"env poles raised an exception in step\(\) \(worker 1, world 0, episode 0 with seed \d+, step 1; ",
    ):
        vector.step({"balancer": np.array(["left"] * W * K)})


class Changing(CartPoleArrays):
    """From the second step on, one of the parts that it returns changes."""

    def __init__(self, part: str, value: Any) -> None:
        super().__init__(W, K)
        self.part, self.value, self.taken = part, value, 0

    def step(self, actions: Any) -> Any:
        shown, self.taken = super().step(actions), self.taken + 1
        if self.taken < 2:
            return shown
        if self.part in ("groups", "ended"):
            return shown._replace(**{self.part: self.value})
        return shown._replace(groups={GROUP: replace(shown.groups[GROUP], **{self.part: self.value})})


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        (
            "observations",
            np.zeros((W, K, 5), np.float32),
            r"array of numbers of shape \(4, 2, 4\), not float32 of shape",
        ),
        (
            "observations",
            np.zeros((1, K, 4), np.float32),
            r"array of numbers of shape \(4, 2, 4\), not float32 of shape",
        ),
        ("observations", {"a": np.zeros(1)}, r"the observations contain \['a'\], but their space has \[''\]"),
        ("rewards", None, r"rewards must be an array of shape \(4, 2\), not NoneType"),
        (
            "terminateds",
            np.zeros(W, np.bool_),
            r"terminateds must be an array of shape \(4, 2\), not bool of shape \(4,\)",
        ),
        ("rewards", np.full((W, K), "1"), r"rewards must contain numbers, not <U1 of shape \(4, 2\)"),
        ("truncateds", np.full((W, K), np.nan), "truncateds must contain True or False, not float64"),
        ("terminateds", np.full((W, K), "yes"), "terminateds must contain True or False, not <U3"),
        ("groups", {}, "it must be an ArrayStep with the groups pole"),
        ("ended", False, r"ended must be an array of shape \(4,\), not bool"),
    ],
)
def test_step_results_of_wrong_shape_type_or_structure_are_refused(part: str, value: Any, said: str) -> None:
    vector = ArrayVectorWorld(Changing(part, value), "poles", {GROUP: "balancer"}, SEEDS)
    vector.reset()
    actions = {"balancer": np.zeros(W * K, np.int64)}
    vector.step(actions)
    with pytest.raises(
        EnvError, match=r"returned an invalid result from step\(\) \(worker 1, world 0, episode 0 .*\): .*" + said
    ):
        vector.step(actions)


def test_a_factory_that_takes_the_number_of_worlds_creates_an_array_world() -> None:
    config = EnvConfig(world="rlrun.toys:CartPoleArrays", kwargs={"num_agents": 3})
    made = make_vector_world(config, 4, EpisodeSeeds(0, 0), PolicyMapping(["all"]), {})
    assert isinstance(made, ArrayVectorWorld)
    assert made.slots == {"all": 12}
    assert made.possible_agents == ["pole_0", "pole_1", "pole_2"]


@pytest.mark.parametrize(
    ("change", "mapping", "slots", "said"),
    [
        (
            {"clock": "per_agent"},
            None,
            {},
            (
                "steps many worlds at once, so it does not support wrappers, clock, max_episode_steps, tasks, "
                "curriculum or columns; leave them out"
            ),
        ),
        ({}, {"pole_0": "a", "*": "b"}, {}, "the agents of the group pole must belong to one policy, not to a, b"),
        ({}, {"*": "a"}, {"a": 5}, r"policies\.a\.slots must be 3, the agents of the group pole"),
    ],
)
def test_settings_that_array_worlds_do_not_support_are_refused(change, mapping, slots, said) -> None:
    config = EnvConfig(world="rlrun.toys:CartPoleArrays", kwargs={"num_agents": 3}, **change)
    policies = ["a"] if mapping is None or len(mapping) == 1 else ["a", "b"]
    with pytest.raises(UsageError, match=said):
        make_vector_world(config, 4, EpisodeSeeds(0, 0), PolicyMapping(policies, mapping), slots)
