"""Comparison of messages with their recorded texts."""

import warnings

import pytest

from tests.wording import Recordings, Wording, _as_yaml, _parse

SAID = "config.lr: must be a number"


def wording_of(*texts: str, writes: bool = False, **varying: object) -> Wording:
    return Wording(texts, writes, varying)


def test_a_compared_text_must_match_the_recorded_text_exactly():
    texts = wording_of(SAID, SAID)
    assert texts("config.lr") == SAID
    assert texts() != f"{SAID}."


def test_the_given_names_must_occur_in_the_text_even_while_it_is_being_recorded():
    assert wording_of(SAID)("gamma") != SAID
    assert wording_of(writes=True)("gamma") != SAID


def test_a_list_of_lines_is_compared_as_one_text():
    assert wording_of("a\n  b")() == ["a", "  b"]
    assert wording_of("a\n  b")() != "a\n  b\n"


def test_a_recorded_line_is_found_among_several_lines():
    assert wording_of(SAID)() in ["another", SAID]
    assert wording_of("gone")() not in ["another", SAID]


def test_of_several_lines_the_first_that_contains_the_given_names_is_recorded():
    texts = wording_of(writes=True)
    assert texts("config.lr") in ["another", SAID, "config.lr again"]
    assert texts.finish() == [SAID]


def test_variable_parts_are_recorded_as_named_placeholders():
    texts = wording_of(writes=True, tmp_path="/tmp/a")
    assert texts(pid=17) == "/tmp/a: process 17 runs it"
    assert texts.finish() == ["{tmp_path}: process {pid} runs it"]


def test_an_error_must_have_the_given_type_and_the_recorded_text():
    with wording_of(SAID).raised(ValueError, "config.lr"):
        raise ValueError(SAID)
    with pytest.raises(AssertionError), wording_of(SAID).raised(ValueError):
        raise ValueError("something else")
    with pytest.raises(KeyError), wording_of(SAID).raised(ValueError):
        raise KeyError(SAID)


def test_warnings_of_a_type_are_compared_as_one_text_without_repetitions():
    with wording_of("a\nb").warned(UserWarning), warnings.catch_warnings():
        warnings.simplefilter("always")
        for text in ("a", "b", "a"):
            warnings.warn(text, stacklevel=1)


def test_a_test_fails_if_it_no_longer_compares_one_of_its_recorded_texts():
    texts = wording_of("a", "b")
    assert texts() == "a"
    with pytest.raises(AssertionError, match="no longer compared"):
        texts.finish()


def test_a_test_fails_if_a_text_was_not_recorded_or_is_compared_with_nothing():
    assert wording_of()() != ""
    texts = wording_of("a")
    texts()
    with pytest.raises(AssertionError, match="compared with nothing"):
        texts.finish()


def test_recordings_of_tests_that_no_longer_exist_are_orphans():
    file = "tests/unit/test_wording.py"
    recordings = Recordings({file: {"test_a": ["x"], "test_b[1]": ["x"]}, "tests/gone.py": {"test_c": ["x"]}})
    assert recordings.orphans() == ["tests/gone.py::test_c"]
    recordings.modules.add(file)
    recordings.tests.add(f"{file}::test_a")
    assert recordings.orphans() == [f"{file}::test_b[1]", "tests/gone.py::test_c"]


def test_every_recorded_text_is_unchanged_by_a_round_trip_through_the_file():
    texts = [
        "",
        "one: 'x'",
        " first is blank\n\n  - b",
        "- a",
        "a\tb",
        "a \n",
        "a\n\n",
        "\n",
        " ",
        "\n a",
        "a\n \nb",
        "\x1b[1m",
        "ü",
        "# c",
    ]
    assert _parse(_as_yaml({"f.py": {"test_a[x: y]": texts, "test_b": []}, "g.py": {}})) == {
        "f.py": {"test_a[x: y]": texts}
    }
