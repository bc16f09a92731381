"""Twenty questions: short token dialogues about 16 items, with the best return computed by enumeration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.action_masks import ACTION_MASK

ITEMS: Final[Mapping[str, str]] = {
    "dog": "alive furry loud",
    "cat": "alive furry",
    "cow": "alive furry big loud",
    "horse": "alive furry big",
    "owl": "alive flies loud",
    "eagle": "alive flies",
    "trout": "alive",
    "shark": "alive big",
    "car": "motor wheels metal",
    "bus": "motor wheels metal big",
    "ship": "motor metal big",
    "rocket": "motor metal big flies loud",
    "spoon": "metal",
    "anchor": "metal big",
    "book": "",
    "kite": "flies",
}
"""Attributes of each item. All are real and none is blue."""
ATTRIBUTES: Final = ("alive", "furry", "big", "flies", "motor", "wheels", "metal", "loud", "real", "blue")
VOCABULARY: Final = ("<start>", "yes", "no", "is", "it", "?", *ATTRIBUTES, *ITEMS)
"""Words of the tokens 0 to 31."""
START, YES, NO, IS, IT, END = range(6)
FIRST_ATTRIBUTE: Final = 6
FIRST_ITEM: Final = FIRST_ATTRIBUTE + len(ATTRIBUTES)

Observation = dict[str, Any]


def _has(attribute: str) -> int:
    """Set of the items with an attribute, a bit for each item."""
    return sum(
        1 << i for i, attributes in enumerate(ITEMS.values()) if attribute == "real" or attribute in attributes.split()
    )


_ALL: Final = (1 << len(ITEMS)) - 1
_WITH: Final = tuple(map(_has, ATTRIBUTES))
_TOKENS_AFTER: Final[Mapping[tuple[int, ...], Sequence[int]]] = {
    (): (IS, IT),
    (IS,): (IT,),
    (IT,): (IS,),
    (IS, IT): range(FIRST_ATTRIBUTE, FIRST_ITEM),
    (IT, IS): range(FIRST_ITEM, len(VOCABULARY)),
}
"""Tokens that the grammar allows at the start of an utterance and after its first tokens; after three tokens, only
`?`."""


class TwentyQuestions(gymnasium.Env[Observation, int]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Twenty questions over 16 items: an agent asks about attributes of a hidden item, then guesses it, token by token.

    An action is one token of `VOCABULARY`. A question has four tokens, "is it ATTRIBUTE ?", and costs `question_cost`
    at its last token. The env answers "yes" or "no". The guess "it is ITEM ?" ends the dialogue, with a reward of 1 if
    the guess is right. After `max_questions` questions only a guess is allowed.

    Observations hold the last `token` of the dialogue: the agent's own, or, after a "?", the env's answer. An utterance
    of the agent begins when this token is `START`, `YES` or `NO`, and ends with the action `END`. The `action_mask`
    holds the tokens that the grammar allows. Earlier tokens are not observed, so the policy needs memory.

    The info of the last step holds `questions` (the number of questions) and `right` (1 for a right guess, else 0).
    `best_return` is the best expected return: 0.8 by default, as four questions find each item.

    Args:
        max_questions: Number of questions after which the agent must guess.
        question_cost: Cost of a question, subtracted from the reward.
        render_mode: "ansi" for `render` to return the dialogue as text.
        pays_chance: Whether a guess is rewarded by its probability of being right given the answers, instead of 1 or 0.
            The expected return is unchanged, and returns have less variance.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"]}

    def __init__(
        self,
        max_questions: int = 6,
        question_cost: float = 0.05,
        render_mode: str | None = None,
        *,
        pays_chance: bool = False,
    ) -> None:
        size = len(VOCABULARY)
        self.observation_space = spaces.Dict({"token": spaces.Discrete(size), ACTION_MASK: spaces.MultiBinary(size)})
        self.action_space = spaces.Discrete(size)
        self.render_mode = render_mode
        self._max_questions = max_questions
        self._question_cost = question_cost
        self._pays_chance = pays_chance
        self._item = 0
        self._fitting = _ALL
        self._questions = 0
        self._dialogue: list[int] = []
        self._utterance: tuple[int, ...] = ()
        self._is_over = False

    @override
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._item = int(self.np_random.integers(len(ITEMS)))
        self._fitting = _ALL
        self._questions = 0
        self._dialogue = [START]
        self._utterance = ()
        self._is_over = False
        return self._show(), {}

    @override
    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        token = int(action)
        if token not in self._allowed():
            raise ValueError(f"token {token} ({VOCABULARY[token]!r}) is not allowed after: {as_text(self._dialogue)}")
        self._dialogue.append(token)
        self._utterance = (*self._utterance, token)
        reward, info = self._answer() if token == END else (0.0, {})
        return self._show(), reward, self._is_over, False, info

    @override
    def render(self) -> str:
        return as_text(self._dialogue) + (f" ({list(ITEMS)[self._item]})" if self._is_over else "")

    def _answer(self) -> tuple[float, dict[str, Any]]:
        word, self._utterance = self._utterance[2], ()
        if word >= FIRST_ITEM:
            self._is_over = True
            is_right = word - FIRST_ITEM == self._item
            self._dialogue.append(YES if is_right else NO)
            chance = (self._fitting >> (word - FIRST_ITEM) & 1) / self._fitting.bit_count()
            reward = chance if self._pays_chance else float(is_right)
            return reward, {"questions": float(self._questions), "right": float(is_right)}
        self._questions += 1
        is_so, items = has_attribute(self._item, word), _WITH[word - FIRST_ATTRIBUTE]
        self._fitting &= items if is_so else ~items
        self._dialogue.append(YES if is_so else NO)
        return -self._question_cost, {}

    def _allowed(self) -> Sequence[int]:
        if self._is_over:
            return ()
        if not self._utterance and self._questions == self._max_questions:
            return (IT,)
        return _TOKENS_AFTER.get(self._utterance, (END,))

    def _show(self) -> Observation:
        mask = np.zeros(len(VOCABULARY), np.int8)
        mask[list(self._allowed())] = 1
        return {"token": np.int64(self._dialogue[-1]), ACTION_MASK: mask}


class RandomQuestioner:
    """Scripted policy with memory: asks about random attributes, each once, and guesses an item that fits the answers.

    The policy guesses when only one item fits, and otherwise with probability `guess_probability` at each turn.
    It asks useless questions as often as good ones, so its return is far below the best. It serves as the `expert` of
    `dagger`, and as a policy for `rlrun demonstrate`.

    Args:
        seed: Seed of the random choices.
        guess_probability: Probability that the policy guesses instead of asking, at each of its turns.
    """

    def __init__(self, seed: int, guess_probability: float = 0.1) -> None:
        self._generator = np.random.default_rng(seed)
        self._guess_probability = guess_probability
        self._fitting = _ALL
        self._placeholder: list[int] = []
        self._asked = 0

    def __call__(self, observation: Mapping[str, Any]) -> int:
        """Returns the next token."""
        token, allowed = int(observation["token"]), np.flatnonzero(observation[ACTION_MASK])
        if token == START:
            self._fitting, self._placeholder = _ALL, self._generator.permutation(len(ATTRIBUTES)).tolist()
        elif token in (YES, NO):
            self._fitting &= _WITH[self._asked] if token == YES else ~_WITH[self._asked]
        return self._choose(allowed)

    def _choose(self, allowed: NDArray[np.int64]) -> int:
        if len(allowed) == 1:
            return int(allowed[0])
        if len(allowed) == len(ATTRIBUTES):
            self._asked = self._placeholder.pop()
            return FIRST_ATTRIBUTE + self._asked
        if len(allowed) == len(ITEMS):
            fitting = [i for i in range(len(ITEMS)) if self._fitting >> i & 1]
            return FIRST_ITEM + int(self._generator.choice(fitting))
        is_known = self._fitting.bit_count() == 1
        return IT if is_known or self._generator.random() < self._guess_probability else IS


def has_attribute(item: int, token: int) -> bool:
    """Whether an item, 0 to 15, has the attribute of a given token."""
    return bool(_WITH[token - FIRST_ATTRIBUTE] >> item & 1)


def as_text(tokens: Sequence[int]) -> str:
    """Formats a dialogue as text, without its start token, with each answer after a dash: "is it alive? - yes"."""
    said = tokens[tokens[0] == START :]
    words = [f"- {VOCABULARY[token]}," if token in (YES, NO) else VOCABULARY[token] for token in said]
    return " ".join(words).replace(" ?", "?").removesuffix(",")


def best_return(max_questions: int = 6, question_cost: float = 0.05) -> float:
    """Best expected return, by dynamic programming over the sets of items that fit the answers so far."""

    @cache
    def best(fitting: int, left: int) -> float:
        guess = 1.0 / fitting.bit_count()
        return max([guess, *(ask(fitting, fitting & items, left) for items in _WITH if left)])

    def ask(fitting: int, yes: int, left: int) -> float:
        if yes in (0, fitting):
            return -question_cost + best(fitting, left - 1)
        probability = yes.bit_count() / fitting.bit_count()
        after = probability * best(yes, left - 1) + (1.0 - probability) * best(fitting & ~yes, left - 1)
        return -question_cost + after

    return best(_ALL, max_questions)
