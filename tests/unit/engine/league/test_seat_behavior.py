"""Which policy acts in the slots of a seat, and for how long."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.functional.seeding import generator
from rlrun.engine.league.seat_behavior import SeatBehavior
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.weights import Lineup, Member, Weights
from rlrun.engine.rollout.slot_recorder import SlotRecorder
from rlrun.engine.worlds.loop_worlds import LoopWorlds
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.engine.worlds.world import World, WorldStep
from tests.policies import plain_policy

SPACES = Spaces(Box(-1.0, 1.0, (2,)), Discrete(4))
HEAD = "policy_head.bias"
"""The bias of the actions' logits."""

STEPS = 5
"""Steps of an episode of `Choosing`."""


class Choosing(World):
    """Shows one agent the same observation for some steps, whatever it does."""

    def __init__(self, clock: str) -> None:
        self.clock = clock
        self.possible_agents = ["only"]

    def spaces(self, agent: str) -> Spaces:
        return SPACES

    def reset(self, seed: int) -> dict[str, Any]:
        self.taken = 0
        return {"only": np.ones(2, np.float32)}

    def step(self, actions: dict[str, Any]) -> WorldStep:
        self.taken += 1
        ends = self.taken == STEPS
        return WorldStep({"only": np.ones(2, np.float32)}, {"only": 0.0}, {"only": ends}, {}, {}, ends)


def policy(**model: Any) -> ActorCriticPolicy:
    settings = ModelConfig(hiddens=(4,), **model)
    return plain_policy(ActorCriticPolicy, *SPACES, settings, seed=0)


def self_that_takes(action: int, name: str) -> Member:
    """Returns a past self that always takes one action: its weights are 0, except the bias of that action."""
    parameters = policy().parameters
    named = parameters.named(parameters.gather(policy().module).numpy() * 0.0)
    named[HEAD][action] = 1000.0
    return Member(name, "main", Weights(0, parameters.from_named(named)))


def random_self(name: str, trained: ActorCriticPolicy, seed: int) -> Member:
    """Returns a past self with random weights."""
    flat = trained.parameters.gather(trained.module).numpy()
    return Member(name, "main", Weights(0, np.random.default_rng(seed).normal(size=len(flat)).astype(np.float32)))


def seat(*members: Member, probabilities: list[float] | None = None, trained: ActorCriticPolicy | None = None) -> Any:
    behavior = (trained or policy()).behavior()
    made = SeatBehavior({"main": behavior}, behavior.action_space)
    made.load(lineup(*members, probabilities=probabilities))
    return made


def lineup(*members: Member, probabilities: list[float] | None = None) -> Weights:
    likely = np.array(probabilities or [1.0 / len(members)] * len(members))
    return Weights(0, np.zeros(0, np.float32), lineup=Lineup(members, likely))


def recorder_of(behavior: SeatBehavior, clock: str, *, worlds: int = 4, length: int = 4) -> SlotRecorder:
    made = [Choosing(clock) for _ in range(worlds)]
    mapping = PolicyMapping(["seat"])
    vector = LoopWorlds("choosing", made, EpisodeSeeds(1, 0), mapping, {"seat": ("only", SPACES)}, {"seat": 1})
    return SlotRecorder(
        vector, {"seat": behavior}, seeds=EpisodeSeeds(1, 0), name="worlds", length=length, max_replay_s=9.0
    )


def recorded_fragment(recorder: SlotRecorder, behavior: SeatBehavior, fragment: int, length: int = 4) -> SampleBatch:
    """Returns a fragment's batch, whose noise depends only on its number."""
    noise = behavior.noise_source.noise(generator(0, "noise", fragment), length, recorder.slots["seat"])
    return recorder.record({"seat": noise}).batches["seat"]


@pytest.mark.parametrize("clock", ["parallel", "per_agent"])
def test_an_opponent_plays_its_episode_to_the_end_even_if_the_pool_changes_in_every_fragment(clock: str) -> None:
    behavior = seat(self_that_takes(0, "main:0"))
    recorder = recorder_of(behavior, clock)
    actions, valid = [], []
    for fragment in range(20):
        behavior.load(lineup(self_that_takes(fragment % 4, f"main:{fragment}")))
        batch = recorded_fragment(recorder, behavior, fragment)
        actions.append(batch["actions"])
        valid.append(batch["valid"].astype(bool))
    for slot in range(4):
        taken = np.concatenate(actions)[:, slot][np.concatenate(valid)[:, slot]]
        episodes = taken[: len(taken) // STEPS * STEPS].reshape(-1, STEPS)
        assert len(episodes) >= 8
        assert (episodes == episodes[:, :1]).all()
        assert set(episodes[:, 0]) == {0, 1, 2, 3}


def test_an_opponent_that_left_the_lineup_is_forgotten_when_its_last_episode_ends() -> None:
    behavior = seat(self_that_takes(0, "main:0"))
    recorder = recorder_of(behavior, "parallel")
    recorded_fragment(recorder, behavior, 0)
    behavior.load(lineup(self_that_takes(1, "main:1")))
    assert set(behavior.state()["players"]) == {"main:0"}
    for fragment in range(1, 3):
        recorded_fragment(recorder, behavior, fragment)
    assert set(behavior.state()["players"]) == {"main:1"}


def test_opponents_are_drawn_with_the_probabilities_of_the_lineup() -> None:
    likely = [0.5, 0.3, 0.15, 0.05]
    behavior = seat(*(self_that_takes(action, f"main:{action}") for action in range(4)), probabilities=likely)
    begins = np.ones(500, np.bool_)
    observations = np.ones((500, 2), np.float32)
    counts = np.zeros(4)
    for t in range(8):
        noise = behavior.noise_source.noise(generator(3, "noise", t), 1, 500)
        batch = behavior.collector.allocate(1, 500)
        counts += np.bincount(behavior.act(observations, noise[0], batch, 0, begins), minlength=4)
    expected = 4000 * np.array(likely)
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 11.34  # the 1% critical value for 3 degrees of freedom


@pytest.mark.parametrize("model", [{}, {"core": "lstm", "core_width": 3}])
def test_a_seat_restored_in_mid_game_continues_bit_for_bit_after_its_opponents_left_the_pool(
    model: dict[str, Any],
) -> None:
    trained = policy(**model)
    first = [random_self(f"main:{number}", trained, number) for number in range(2)]
    second = lineup(random_self("main:7", trained, 7))
    behavior = seat(*first, trained=trained)
    recorder = recorder_of(behavior, "per_agent")
    recorded_fragment(recorder, behavior, 0)
    behavior.load(second)
    of_seat, of_worlds = behavior.state(), recorder.state()
    expected = [recorded_fragment(recorder, behavior, fragment) for fragment in range(1, 4)]

    again = seat(random_self("main:7", trained, 7), trained=trained)
    restored = recorder_of(again, "per_agent")
    again.load_state(of_seat)
    assert not restored.load_state(of_worlds)["seat"].any()
    for fragment, batch in enumerate(expected, 1):
        np.testing.assert_array_equal(recorded_fragment(restored, again, fragment)["actions"], batch["actions"])


def test_a_saved_seat_that_names_other_code_does_not_run_it_and_gets_an_allowed_opponent() -> None:
    behavior = seat(self_that_takes(2, "main:0"))
    behavior.load_state({"holds": ["os:abort"], "players": {}})
    nothing = np.zeros(1, np.bool_)
    noise = behavior.noise_source.noise(generator(0, "noise"), 1, 1)[0]
    record = behavior.collector.allocate(1, 1)
    assert behavior.act(np.ones((1, 2), np.float32), noise, record, 0, nothing).tolist() == [2]


def test_a_recreated_seat_continues_whether_its_lineup_or_its_state_is_loaded_first() -> None:
    script, noise = (
        Member(f"{__name__}:AnyOf"),
        seat(self_that_takes(0, "main:0")).noise_source.noise(generator(1, "noise"), 2, 6),
    )
    members = script, self_that_takes(3, "main:0")
    observations, begins = np.ones((6, 2), np.float32), np.ones(6, np.bool_)
    first = seat(*members)
    first.act(observations, noise[0], first.collector.allocate(1, 6), 0, begins)
    state = first.state()
    expected = first.act(observations, noise[1], first.collector.allocate(1, 6), 0, ~begins)
    assert set(state["holds"]) == {script.name, "main:0"}
    for lineup_first in (True, False):
        behavior = policy().behavior()
        anew = SeatBehavior({"main": behavior}, behavior.action_space)
        steps = [lambda anew=anew: anew.load(lineup(*members)), lambda anew=anew: anew.load_state(state)]
        for step in steps if lineup_first else reversed(steps):
            step()
        found = anew.act(observations, noise[1], anew.collector.allocate(1, 6), 0, ~begins)
        np.testing.assert_array_equal(found, expected)


def test_scripts_and_past_selves_share_the_slots_and_scripts_draw_from_the_noise() -> None:
    behavior = seat(Member(f"{__name__}:AnyOf"), self_that_takes(3, "main:0"))
    noise = behavior.noise_source.noise(generator(5, "noise"), 1, 200)[0]
    batch = behavior.collector.allocate(1, 200)
    observations = np.ones((200, 2), np.float32)
    actions = behavior.act(observations, noise, batch, 0, np.ones(200, np.bool_))
    scripted = actions != 3
    assert set(actions[scripted]) == {0, 1, 2}
    assert 70 < scripted.sum() < 130
    np.testing.assert_array_equal(actions, behavior.act(observations, noise, batch, 0, np.ones(200, np.bool_)))


class AnyOf:
    """Takes any of the first three actions."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)

    def __call__(self, observation: Any) -> int:
        return int(self.generator.integers(3))


def test_only_the_valid_column_of_a_seats_fragment_is_kept() -> None:
    behavior = seat(self_that_takes(0, "main:0"))
    batch = recorded_fragment(recorder_of(behavior, "parallel"), behavior, 0)
    behavior.collector.postprocess(batch)
    assert list(batch) == ["valid"]


def test_an_evaluation_without_a_generator_meets_all_opponents_reproducibly() -> None:
    observations, begins = np.ones((8, 2), np.float32), np.ones(8, np.bool_)

    def met() -> list[list[int]]:
        behavior = seat(*(self_that_takes(action, f"main:{action}") for action in range(4)))
        taken = []
        for _ in range(10):
            behavior.begin_episodes(begins)
            taken.append(behavior.actions(observations, None).tolist())
        return taken

    first = met()
    assert all({episode[slot] for episode in first} != {first[0][slot]} for slot in range(8))
    assert {action for episode in first for action in episode} == {0, 1, 2, 3}
    assert met() == first
