"""Titles of an entry's algorithms and env in displays."""

from rlrun.experiments.spec.titles import algorithm_title, env_title


def test_damaged_entries_have_titles_as_well() -> None:
    assert (algorithm_title({}), algorithm_title({"policies": {"a": 3}}), env_title(None)) == ("?", "", "?")


def test_an_env_is_titled_by_its_world_the_word_external_or_for_damaged_data_the_data_itself() -> None:
    assert env_title({"world": "a:b"}) == "a:b"
    assert env_title({"external": {"port": 9900}}) == "external"
    assert env_title(["x"]) == "['x']"
