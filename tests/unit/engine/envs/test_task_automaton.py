"""Tasks of temporal logic as automata: what is paid, when an episode ends, and how likely a task can be satisfied."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

import rlrun
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.exact.task_automaton import StateLabels, TaskAutomaton
from rlrun.exact.task_model import certificate, task_model, with_satisfaction


class Says(gymnasium.Env[Any, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Labels the state after an action by the action: 0 a, 1 b, 2 c, 3 nothing. It pays 7, which the task hides."""

    observation_space = Discrete(4)
    action_space = Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return 3, {}

    def step(self, action: int) -> Any:
        return action, 7.0, False, False, {"labels": [["a"], ["b"], ["c"], []][action]}


A_THEN_B = {
    "states": ["begin", "was at a", "done", "broken"],
    "transitions": [
        {"source": "begin", "target": "broken", "when": ["c"]},
        {"source": "begin", "target": "was at a", "when": ["a"]},
        {"source": "was at a", "target": "broken", "when": ["c"]},
        {"source": "was at a", "target": "done", "when": ["b", "!c"]},
    ],
    "accepting": [["done"]],
}
"""Visit a, then b, and never c before that."""


def played(env: TaskAutomaton, *actions: int) -> list[tuple[Any, float, bool, float]]:
    """Returns (automaton's state, reward, whether it is over, whether it is satisfied) of each step."""
    env.reset(seed=0)
    steps = [env.step(action) for action in actions]
    return [(seen["automaton"], reward, over, info["satisfied"]) for seen, reward, over, _, info in steps]


def test_a_task_is_satisfied_if_its_labels_occur_in_order() -> None:
    env = TaskAutomaton(Says(), A_THEN_B)
    assert played(env, 1, 0, 3, 1) == [(0, 0, False, 0), (1, 0, False, 0), (1, 0, False, 0), (2, 1, True, 1)]
    assert env.reset(seed=0)[0] == {"observation": 3, "automaton": 0}


def test_an_episode_ends_once_the_task_can_no_longer_be_satisfied() -> None:
    assert played(TaskAutomaton(Says(), A_THEN_B), 0, 2) == [(1, 0, False, 0), (3, 0, True, 0)]


def test_each_accepting_set_is_rewarded_once_per_round() -> None:
    again_and_again = {
        "states": ["a", "b", "neither"],
        "transitions": [
            {"source": source, "target": target, "when": when}
            for source in ("a", "b", "neither")
            for target, when in (("a", ["a"]), ("b", ["b"]), ("neither", []))
        ],
        "accepting": [["a"], ["b"]],
    }
    steps = played(TaskAutomaton(Says(), again_and_again, rounds=2), 0, 0, 3, 1, 1, 0)
    assert [reward for _, reward, _, _ in steps] == [1, 0, 0, 1, 1, 1]
    assert [satisfied for *_, satisfied in steps] == [0, 0, 0, 0, 0, 1]


def test_epsilon_transitions_are_actions_that_do_not_step_the_env() -> None:
    guess = {
        "states": ["any", "only a"],
        "transitions": [{"source": "any", "target": "only a", "epsilon": True}],
        "accepting": [["only a"]],
    }
    env = TaskAutomaton(Says(), guess, rounds=3)
    assert env.action_space == Discrete(5)
    env.reset(seed=0)
    env.step(2)
    seen, reward, *_, info = env.step(4)
    assert seen == {"observation": 2, "automaton": 1}
    assert reward == 1.0
    assert info == {"satisfied": 0.0}
    box = Says()
    box.action_space = Box(-1.0, 1.0, (1,))
    with pytest.raises(UsageError, match="Discrete"):
        TaskAutomaton(box, guess)


def test_the_automatons_state_is_added_as_a_part_to_dict_observations() -> None:
    env = Says()
    env.observation_space = Dict(x=Discrete(4))
    assert TaskAutomaton(env, A_THEN_B).observation_space == Dict(x=Discrete(4), automaton=Discrete(4))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"accepting": [["over"]]}, "unknown state 'over'"),
        ({"accepting": []}, "at least one set"),
        (
            {"states": ["begin", "begin", "was at a", "done", "broken"]},
            "states must contain at least one state, each only once",
        ),
        ({"transitions": []}, "transitions needs at least one"),
    ],
)
def test_invalid_automata_are_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(SpecError, match=told):
        TaskAutomaton(Says(), {**A_THEN_B, **change})


class SlipperyGrid(gymnasium.Env[Any, Any]):  # type: ignore[misc]
    """A grid of 3 x 2 cells; a step to the side slips down or up, if it can, with probability 0.2.

    Cells: the start is at the upper left, c in the middle of the lower row, a at the upper right, b at the lower right.
    Actions: right, left, down, up. Steps up and down do not slip.
    """

    observation_space = Discrete(6)
    action_space = Discrete(4)
    initial_state_distrib = np.eye(6)[0]

    @property
    def P(self) -> Any:  # noqa: N802 (Gymnasium's name)
        chances = (0.8, 0.2)
        return {
            cell: {
                action: [(p, to, 0.0, False) for p, to in zip(chances, slips(cell, action), strict=True)]
                for action in range(4)
            }
            for cell in range(6)
        }

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.cell, self.elapsed = 0, 0
        return 0, {}

    def step(self, action: int) -> Any:
        self.elapsed += 1
        outcomes = slips(self.cell, int(action))
        self.cell = outcomes[int(self.np_random.random() < 0.2)]
        return self.cell, 0.0, False, self.elapsed == 20, {}


LABELS = {"a": [2], "b": [5], "c": [4]}
TASK: dict[str, Any] = {
    "id": f"{__name__}:SlipperyGrid",
    "max_episode_steps": 20,
    "wrappers": [
        {"id": "rlrun.plugin:StateLabels", "kwargs": {"labels": LABELS}},
        {"id": "rlrun.plugin:TaskAutomaton", "kwargs": {"automaton": A_THEN_B}},
    ],
}


def slips(cell: int, action: int) -> tuple[int, int]:
    """Returns the cell that an action leads to, and the one where it slips to."""
    row, column = divmod(cell, 3)
    if action >= 2:
        meant = (1 if action == 2 else 0) * 3 + column
        return meant, meant
    column = min(column + 1, 2) if action == 0 else max(column - 1, 0)
    return row * 3 + column, (1 - row) * 3 + column


def best_probability() -> float:
    """Returns the best probability of a, then b, and never c from the first cell, by value iteration on the product."""
    values = np.zeros((2, 6))  # indexed by whether a was visited, and by cell
    for _ in range(200):
        updated = np.zeros_like(values)
        for was_at_a in (0, 1):
            for cell in range(6):
                chances = []
                for action in range(4):
                    meant, slipped = slips(cell, action)
                    chances.append(
                        sum(share * _worth(values, was_at_a, to) for share, to in ((0.8, meant), (0.2, slipped)))
                    )
                updated[was_at_a, cell] = max(chances)
        values = updated
    return float(values[0, 0])


def _worth(values: np.ndarray[Any, Any], was_at_a: int, cell: int) -> float:
    if cell == 4:
        return 0.0
    if cell == 5 and was_at_a:
        return 1.0
    return float(values[1 if cell == 2 else was_at_a, cell])


def test_ppo_satisfies_a_task_with_the_best_possible_probability() -> None:
    best = best_probability()
    assert best == pytest.approx(0.8)  # only one step to a may slip into c; the step from a to b never slips
    config = {
        "train_batch_size": 400,
        "minibatch_size": 100,
        "num_epochs": 4,
        "lr": 5e-3,
        "min_env_steps_per_iteration": 2000,
    }
    with rlrun.Training(with_satisfaction(EnvConfig.parse(TASK)), rlrun.PPO(**config), seed=100) as training:
        while (result := training.step())["env_steps"] < 8000:
            pass
        found = training.evaluate(1000, seed=100)
        exact = certificate(training.description.env, training)
    assert exact.best == pytest.approx(best)
    assert exact.learned == pytest.approx(best)
    low, high = found.rates["satisfied"]
    assert low < best < high
    assert found.column_means["episode_columns/satisfied_mean"] == pytest.approx(best, abs=0.04)
    assert result["info/satisfied"] > 0.5


UNLABELED = {"id": "rlrun.plugin:StateLabels", "kwargs": {"labels": {}}}


def test_the_best_probability_equals_that_of_value_iteration_on_the_product() -> None:
    assert task_model(EnvConfig.parse(TASK)).satisfaction() == pytest.approx(best_probability())


def test_the_time_limit_counts_every_step_of_the_env() -> None:
    """Right, right, down, without a slip: 0.8 * 0.8 in three steps; a slip in the second step costs one more."""
    chances = [task_model(EnvConfig.parse({**TASK, "max_episode_steps": n})).satisfaction() for n in (2, 3, 4, 5)]
    assert chances == pytest.approx([0.0, 0.64, 0.8, 0.8])


def test_the_probability_of_a_given_policy_follows_from_its_own_actions() -> None:
    model = task_model(EnvConfig.parse(TASK))
    down_at_once = np.full(len(model.env_states), 2)
    assert model.satisfaction(down_at_once) == 0.0
    right_then_down = np.where(np.isin(model.env_states, (2, 5)), 2, 0)
    assert model.satisfaction(right_then_down) == pytest.approx(0.64)  # after a slip, the policy stays below a


def test_the_exact_probability_requires_visits_to_all_accepting_sets_in_each_round() -> None:
    """Two cells: each step tosses a coin between them, and a round needs each cell once."""
    both = {
        "states": ["at 0", "at 1"],
        "transitions": [
            {"source": "at 0", "target": "at 1", "when": ["one"]},
            {"source": "at 1", "target": "at 0", "when": ["!one"]},
        ],
        "accepting": [["at 0"], ["at 1"]],
    }
    labels, task = ({"id": wrapper["id"], "kwargs": dict(wrapper["kwargs"])} for wrapper in TASK["wrappers"])
    labels["kwargs"] = {"labels": {"one": [1]}}
    task["kwargs"] = {"automaton": both, "rounds": 2}
    env = {"id": f"{__name__}:Coin", "max_episode_steps": 4, "wrappers": [labels, task]}
    # Four tosses satisfy two rounds if the tosses of each pair differ.
    assert task_model(EnvConfig.parse(env)).satisfaction() == pytest.approx(0.25)


class Coin(gymnasium.Env[Any, Any]):  # type: ignore[misc]
    """Each step tosses a coin: 0 or 1."""

    observation_space = Discrete(2)
    action_space = Discrete(1)
    initial_state_distrib = np.array([1.0, 0.0])
    P = {state: {0: [(0.5, 0, 0.0, False), (0.5, 1, 0.0, False)]} for state in (0, 1)}  # noqa: RUF012


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"wrappers": TASK["wrappers"][1:]}, "because it needs exactly these wrappers"),
        ({"reset_options": {"low": 0}}, "reset_options may change"),
        ({"id": "CartPole-v1"}, "Discrete"),
        (
            {"id": f"{__name__}:Says", "wrappers": [UNLABELED, TASK["wrappers"][1]]},
            "because the env does not define its model",
        ),
    ],
)
def test_a_task_without_an_exact_probability_is_refused_with_the_reason(change: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        task_model(EnvConfig.parse({**TASK, **change}))


def test_labels_may_name_only_existing_states(wording) -> None:
    env = StateLabels(SlipperyGrid(), {"a": [0], "b": [0, 1]})
    env.reset(seed=0)
    assert env.step(1)[-1] == {"labels": ["a", "b"]}
    with wording.raised(UsageError):
        StateLabels(SlipperyGrid(), {"a": [6]})
    box = SlipperyGrid()
    box.observation_space = Box(-1.0, 1.0, (1,))
    with pytest.raises(UsageError, match="Discrete"):
        StateLabels(box, {"a": [0]})


def test_the_outcome_column_of_a_task_is_added_only_once() -> None:
    recorded = with_satisfaction(EnvConfig.parse(TASK))
    assert recorded.columns == ("satisfied",)
    assert with_satisfaction(recorded) is recorded
    assert with_satisfaction(EnvConfig(id="CartPole-v1")).columns == ()
