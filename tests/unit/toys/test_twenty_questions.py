from __future__ import annotations

import numpy as np
import pytest

from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.toys.twenty_questions import (
    END,
    FIRST_ATTRIBUTE,
    FIRST_ITEM,
    IS,
    IT,
    ITEMS,
    NO,
    START,
    VOCABULARY,
    YES,
    RandomQuestioner,
    TwentyQuestions,
    as_text,
    best_return,
    has_attribute,
)

Question = tuple[int, int, int, int]


def question(attribute: str) -> Question:
    return IS, IT, VOCABULARY.index(attribute), END


def of_item(item: str, *, pays_chance: bool = False) -> TwentyQuestions:
    env = TwentyQuestions(pays_chance=pays_chance, render_mode="ansi")
    env.reset(seed=0)
    env._item = list(ITEMS).index(item)
    return env


def test_a_right_guess_pays_1_and_each_question_has_a_cost(wording) -> None:
    env = of_item("owl")
    said = [*question("alive"), *question("furry"), IT, IS, VOCABULARY.index("owl"), END]
    steps = [env.step(token) for token in said]
    assert [reward for _, reward, *_ in steps] == [0, 0, 0, -0.05] * 2 + [0, 0, 0, 1]
    assert [step[0]["token"] for step in steps] == [*said[:3], YES, *said[4:7], NO, *said[8:11], YES]
    assert [step[2] for step in steps] == [False] * 11 + [True]
    assert steps[-1][4] == {"questions": 2.0, "right": 1.0}
    assert not steps[-1][0][ACTION_MASK].any()
    assert env.render() == wording()


def test_with_pays_chance_even_a_wrong_guess_pays_its_probability_given_the_answers() -> None:
    asked = [*question("alive"), *question("big")]  # alive and small: dog, cat, owl, eagle, trout

    def paid(item: str, guess: str) -> float:
        env = of_item(item, pays_chance=True)
        return [float(env.step(token)[1]) for token in (*asked, IT, IS, VOCABULARY.index(guess), END)][-1]

    assert paid("dog", "dog") == paid("dog", "cat") == paid("owl", "cat") == 1 / 5
    assert paid("dog", "cow") == 0.0
    assert paid("cow", "cow") == 1 / 3


def test_after_the_last_question_the_grammar_allows_only_a_guess(wording) -> None:
    env = TwentyQuestions(max_questions=1)
    observation, _ = env.reset(seed=0)
    assert observation["token"] == START
    allowed = [np.flatnonzero(observation[ACTION_MASK]).tolist()]
    allowed += [np.flatnonzero(env.step(token)[0][ACTION_MASK]).tolist() for token in (*question("big"), IT, IS)]
    attributes, items = list(range(FIRST_ATTRIBUTE, FIRST_ITEM)), list(range(FIRST_ITEM, 32))
    assert allowed == [[IS, IT], [IT], attributes, [END], [IT], [IS], items]
    with wording.raised(ValueError):
        env.step(YES)


def test_no_two_items_share_all_attributes() -> None:
    answers = {tuple(has_attribute(i, token) for token in range(FIRST_ATTRIBUTE, FIRST_ITEM)) for i in range(16)}
    assert len(answers) == len(ITEMS) == 16


def test_the_best_return_requires_four_questions_or_an_immediate_guess_if_questions_are_expensive() -> None:
    assert best_return() == pytest.approx(1 - 4 * 0.05)
    assert best_return(max_questions=4, question_cost=0.0) == pytest.approx(1.0)
    assert best_return(max_questions=3, question_cost=0.0) == pytest.approx(8 / 16)
    assert best_return(max_questions=0) == best_return(question_cost=1.0) == 1 / 16


def test_a_scripted_questioner_never_repeats_a_question_and_guesses_an_item_that_fits_the_answers() -> None:
    env, questioner = TwentyQuestions(), RandomQuestioner(seed=0)
    for seed in range(20):
        observation, _ = env.reset(seed=seed)
        fitting, asked, done, said = set(range(16)), [], False, 0
        while not done:
            before, said = said, questioner(observation)
            observation, _, done, *_ = env.step(said)
            if said == END and not done:
                asked.append(before)
                fitting &= {i for i in fitting if has_attribute(i, before) == (observation["token"] == YES)}
        assert len(set(asked)) == len(asked)
        assert before - FIRST_ITEM in fitting


def test_any_part_of_a_dialogue_can_be_shown_as_text(wording) -> None:
    assert as_text([START]) == ""
    assert as_text([START, *question("real"), YES, IT]) == wording()
    assert as_text(question("real")) == "is it real?"
