"""The world's state next to observations: one for each row, including the closing row, and only on request."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlrun.algorithms.dqn.policy import QPolicy
from rlrun.engine.data.packing import Packing
from rlrun.engine.data.sample_batch import ACTS, WORLD_STATE, SampleBatch
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.functional.seeding import generator
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.slot_recorder import SlotRecorder
from rlrun.engine.worlds.loop_worlds import LoopWorlds
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.engine.worlds.world import World, WorldStep
from tests.policies import plain_policy

SPACES = Spaces(Box(-np.inf, np.inf, (1,)), Discrete(2))
STEPS = 4


class Ticks(World):
    """Agents see the tick of the episode, and the state is ten times that; "b" dies after `life` steps."""

    possible_agents = ("a", "b")
    state_space = Box(-np.inf, np.inf, (1,))

    def __init__(self, clock: str, life: int = STEPS) -> None:
        self.clock, self.life, self.tick = clock, life, 0

    def spaces(self, agent: str) -> Spaces:
        return SPACES

    def seen(self, *agents: str) -> dict[str, Any]:
        return dict.fromkeys(agents, np.array([self.tick], np.float32))

    def reset(self, seed: int) -> Mapping[str, Any]:
        self.tick = 0
        return self.seen("a", "b") if self.clock == "parallel" else self.seen("a")

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        self.tick += 1
        ended = self.tick == STEPS
        if self.clock == "per_agent":  # agents act in turns
            shown = self.seen("a", "b") if ended else self.seen("ab"[self.tick % 2])
            return WorldStep(shown, {"a": 1.0}, dict.fromkeys("ab", True) if ended else {}, {}, {}, ended)
        dies = self.tick == self.life or (ended and self.tick < self.life)
        shown = self.seen("a", "b") if self.tick <= self.life else self.seen("a")
        ends = {**({"a": True} if ended else {}), **({"b": True} if dies else {})}
        return WorldStep(shown, {"a": 1.0}, ends, {}, {}, ended)

    def state(self) -> np.ndarray:
        return np.array([10 * self.tick], np.float32)


def behavior(columns: tuple[str, ...]) -> BehaviorPolicy:
    policy = plain_policy(QPolicy, *SPACES, ModelConfig(hiddens=(4,)), seed=0)
    own = policy.behavior()
    own.collector.world_columns = columns
    own.load(Weights(0, policy.parameters.gather(policy.module).numpy(), schedules={"epsilon": 1.0}))
    return own


def recorded_states(
    columns: tuple[str, ...], length: int, fragments: int, clock: str, life: int = STEPS
) -> list[SampleBatch]:
    worlds = [Ticks(clock, life) for _ in range(2)]
    made = LoopWorlds(
        "ticks",
        worlds,
        EpisodeSeeds(0, 0),
        PolicyMapping(("p",), None),
        {"p": ("a", SPACES)},
        {"p": 2},
        with_states=True,
    )
    own = behavior(columns)
    recorder = SlotRecorder(made, {"p": own}, seeds=EpisodeSeeds(0, 0), name="ticks", length=length, max_replay_s=9.0)
    noise = own.noise_source.noise(generator(0, "noise"), length, 4)
    return [recorder.record({"p": noise}).batches["p"] for _ in range(fragments)]


@pytest.mark.parametrize("life", [STEPS, 2])
@pytest.mark.parametrize("length", [3, 7])
def test_every_row_including_the_closing_one_has_the_world_state_of_its_step(length: int, life: int) -> None:
    for batch in recorded_states((WORLD_STATE,), length, 4, "parallel", life):
        assert batch[WORLD_STATE].shape == (length + 1, 4, 1)
        np.testing.assert_array_equal(batch[WORLD_STATE], 10 * batch["obs"])
        assert ACTS not in batch


@pytest.mark.parametrize("length", [3, 7])
def test_steps_of_agents_that_take_turns_are_recorded_with_the_state_in_which_they_act(length: int) -> None:
    steps = 0
    for batch in recorded_states((WORLD_STATE,), length, 4, "per_agent"):
        np.testing.assert_array_equal(batch[WORLD_STATE][:-1], 10 * batch["obs"][:-1])
        packing = Packing(batch["valid"], batch["terminateds"], batch["truncateds"])
        packed = packing.pack(batch[WORLD_STATE]), packing.pack(batch["obs"])
        np.testing.assert_array_equal(packed[0], 10 * packed[1])
        steps += int(batch["valid"].sum())
    assert steps >= length


def test_a_fragment_records_on_request_which_agents_act_in_each_row_and_after_the_last_one() -> None:
    before, after = recorded_states((ACTS,), 3, 2, "parallel", life=2)
    np.testing.assert_array_equal(before[ACTS][:-1], before["valid"])
    np.testing.assert_array_equal(before[ACTS][-1], after["valid"][0])
    np.testing.assert_array_equal(before[ACTS], [[1, 1, 1, 1], [1, 1, 1, 1], [1, 0, 1, 0], [1, 0, 1, 0]])


@pytest.mark.parametrize("clock", ["parallel", "per_agent"])
def test_requesting_the_world_state_adds_one_column_and_changes_no_other_column(clock: str) -> None:
    plain, asked = recorded_states((), 5, 2, clock), recorded_states((WORLD_STATE,), 5, 2, clock)
    for batch, more in zip(plain, asked, strict=True):
        assert more.keys() - batch.keys() == {WORLD_STATE}
        for name, column in batch.items():
            np.testing.assert_array_equal(column, more[name])
