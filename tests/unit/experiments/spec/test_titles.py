"""Titles of an entry's algorithms and env in displays."""

from rlrun.experiments.spec.titles import algorithm_title, env_title


def test_damaged_entries_have_titles_too() -> None:
    assert (algorithm_title({}), algorithm_title({"policies": {"a": 3}}), env_title(None)) == ("?", "", "?")


def test_an_env_title_is_the_world_the_word_external_or_the_raw_data() -> None:
    assert env_title({"world": "a:b"}) == "a:b"
    assert env_title({"external": {"port": 9900}}) == "external"
    assert env_title(["x"]) == "['x']"
