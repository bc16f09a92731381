from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple

from rlrun.algorithms.ppo import PPO
from rlrun.engine.data.space_kinds import KINDS, SpaceKind, batched, choice_ranges
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.spaces import mismatch
from rlrun.engine.messages.errors import EnvironmentUnusable
from rlrun.engine.nn.encoders import encoder
from rlrun.engine.nn.observation_leaves import observation_leaves
from rlrun.engine.training.training import Training

WORDS = Text(4, charset="ab")


def letters(space: Text, word: Any) -> np.ndarray:
    """Returns the letters of a word as numbers from 1 on, and zeros after its end."""
    if not isinstance(word, str) or set(word) - space.character_set:
        raise ValueError(f"{word!r}, no word")
    numbers = [space.character_index(letter) + 1 for letter in word]
    return np.array(numbers + [0] * (space.max_length - len(word)))


TEXT = SpaceKind(
    "choices",
    bounds=lambda space: (0, len(space.character_set)),
    form=lambda space: ((space.max_length,), np.dtype(np.int8)),
    array=letters,
)


class Spelling(gymnasium.Env):  # type: ignore[type-arg]
    """Shows a one-letter word; the letter is the right action."""

    observation_space = Dict({"word": WORDS, "length": Box(0, 4, (1,))})
    action_space = Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._shown(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._shown(), 1.0, bool(self.np_random.random() < 0.1), False, {}

    def _shown(self) -> dict[str, Any]:
        return {"word": "ab"[: 1 + int(self.np_random.integers(2))], "length": np.zeros(1, np.float32)}


class Lengths(torch.nn.Module):
    """Counts the letters of a word."""

    def __init__(self, space: Text) -> None:
        super().__init__()

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return (words > 0).sum(-1, keepdim=True).float()


SPELLING = EnvConfig(id=f"{__name__}:Spelling")
SMALL = {
    "num_envs_per_worker": 2,
    "train_batch_size": 32,
    "min_env_steps_per_iteration": 0,
    "minibatch_size": 16,
    "num_epochs": 1,
    "compile": False,
}


def test_a_single_table_entry_adds_support_for_a_kind_of_observation_space(
    monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    algorithm = PPO(PPO.Config.parse({**SMALL, "model": {"hiddens": [8]}}))
    with wording.raised(EnvironmentUnusable):
        Training(SPELLING, algorithm).step()
    monkeypatch.setitem(KINDS, Text, TEXT)
    with Training(SPELLING, algorithm) as training:
        training.step()
        assert training.act({"word": "ba", "length": np.zeros(1, np.float32)}) in (0, 1)


def test_elements_are_checked_and_batched_by_the_table_entry_of_their_kind_of_space(
    monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setitem(KINDS, Text, TEXT)
    space = Tuple([WORDS, Discrete(3)])
    assert mismatch(space, ("ab", 2)) is None
    assert mismatch(space, ("xy", 2)) == wording(WORDS, "xy")
    words, numbers = batched(space, ("ab", 2), ("b", 0))
    np.testing.assert_array_equal(words, [[1, 2, 0, 0], [2, 0, 0, 0]])
    np.testing.assert_array_equal(numbers, [2, 0])


def test_a_table_entry_defines_how_elements_are_encoded_for_the_network(
    monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setitem(KINDS, Text, TEXT)
    leaf = observation_leaves(WORDS, {}, normalize=False)
    assert leaf.describe() == wording()
    encoded = leaf.dense(letters(WORDS, "ba")[None]).reshape(4, 3)
    np.testing.assert_array_equal(encoded.argmax(-1), [2, 1, 0, 0])


@pytest.mark.parametrize(
    ("space", "sizes", "starts"),
    [
        (Discrete(3, start=5), (3,), (5,)),
        (MultiDiscrete([[2, 3]], start=[[1, -1]]), (2, 3), (1, -1)),
    ],
    ids=str,
)
def test_choice_ranges_give_the_sizes_and_start_values_of_discrete_spaces(
    space: Any, sizes: tuple[int, ...], starts: tuple[int, ...]
) -> None:
    assert choice_ranges(space) == (sizes, starts)


def test_a_custom_encoder_receives_the_arrays_that_the_table_entry_produces(
    monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setitem(KINDS, Text, TEXT)
    leaves = observation_leaves(Dict(word=WORDS), {}, normalize=False, encoders={"word": f"{__name__}:Lengths"})
    assert leaves["word"].describe() == wording(__name__)
    assert encoder(leaves["word"])(torch.as_tensor(batched(WORDS, "ba", "b"))).tolist() == [[2.0], [1.0]]


@pytest.mark.parametrize(
    "space", [Discrete(4, start=2), MultiDiscrete([[2, 3]], start=[[1, -1]]), MultiBinary(3)], ids=str
)
def test_integers_just_beyond_the_bounds_are_outside_the_space(space: Any) -> None:
    kind = KINDS[type(space)]
    shape, _ = kind.form(space)
    low, high = kind.bounds(space)
    found = [mismatch(space, np.full(shape, value)) for value in (low - 1, low, high, high + 1)]
    assert found[1:3] == [None, None]
    assert "outside" in str(found[0])
    assert "outside" in str(found[3])
