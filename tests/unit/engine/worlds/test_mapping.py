"""Which policy acts for which agent, and messages about agents without a policy."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from rlrun.engine.messages.errors import TrainingFailed, UsageError
from rlrun.engine.worlds.mapping import PolicyMapping


def test_the_first_matching_pattern_decides_which_policy_controls_an_agent() -> None:
    mapping = PolicyMapping(["hunters", "prey"], {"hunter_*": "hunters", "hunter_1": "prey", "*": "prey"})
    assert [mapping.policy_of(agent, 0) for agent in ("hunter_1", "hare", "hunter")] == ["hunters", "prey", "prey"]


def test_a_single_policy_controls_all_agents() -> None:
    assert PolicyMapping(["default"]).policy_of("anybody", 7) == "default"


def test_several_policies_without_a_mapping_are_refused(wording) -> None:
    with wording.raised(UsageError):
        PolicyMapping(["a", "b"])


def test_the_error_for_a_pattern_with_an_unknown_policy_suggests_the_closest_name(wording) -> None:
    with wording.raised(UsageError, "h*", "hunters"):
        PolicyMapping(["hunters", "prey"], {"h*": "hunter"})


def test_the_error_for_an_agent_that_no_pattern_matches_names_it_and_the_patterns(wording) -> None:
    mapping = PolicyMapping(["a"], {"hunter_0": "a", "prey_*": "a"})
    with pytest.raises(UsageError) as raised:
        mapping.policy_of("hunter_1", 0)
    assert str(raised.value) == wording("hunter_1", "hunter_0", "prey_*")


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "seat_functions.py").write_text(
        "asked = []\n"
        "def swap(agent, episode):\n"
        "    asked.append((agent, episode))\n"
        "    return 'first' if (agent == 'p0') == (episode % 2 == 0) else 'second'\n"
        "def third(agent, episode):\n    return 'secund'\n"
        "def fails(agent, episode):\n    return 1 / 0\n"
        "number = 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("functions")
def test_a_mapping_function_can_swap_seats_and_is_called_once_per_episode() -> None:
    import seat_functions

    mapping = PolicyMapping(["first", "second"], "seat_functions:swap")
    assert [mapping.policy_of("p0", episode) for episode in (0, 0, 1, 1, 2)] == ["first"] * 2 + ["second"] * 2 + [
        "first"
    ]
    assert seat_functions.asked == [("p0", 0), ("p0", 1), ("p0", 2)]
    assert mapping.seatings(["p0", "p1"])[:2] == [
        {"first": ["p0"], "second": ["p1"]},
        {"first": ["p1"], "second": ["p0"]},
    ]


@pytest.mark.usefixtures("functions")
def test_a_mapping_function_that_returns_an_unknown_policy_is_reported_with_the_agent(wording) -> None:
    with wording.raised(UsageError, "p0", "secund"):
        PolicyMapping(["first", "second"], "seat_functions:third").policy_of("p0", 4)


@pytest.mark.usefixtures("functions")
def test_an_exception_in_a_mapping_function_is_reported_with_its_traceback() -> None:
    with pytest.raises(TrainingFailed, match=r"(?s)raised for agent 'p0' in episode 4:.*ZeroDivisionError"):
        PolicyMapping(["first"], "seat_functions:fails").policy_of("p0", 4)


@pytest.mark.usefixtures("functions")
def test_a_mapping_function_that_is_not_callable_is_refused(wording) -> None:
    with wording.raised(UsageError):
        PolicyMapping(["first"], "seat_functions:number")


def test_a_mapping_can_be_sent_to_other_processes() -> None:
    mapping = pickle.loads(pickle.dumps(PolicyMapping(["a", "b"], {"x*": "a", "*": "b"})))
    assert mapping.policy_of("x1", 0) == "a"


def test_the_mapping_cache_is_bounded_for_worlds_that_keep_creating_agent_ids() -> None:
    mapping = PolicyMapping(["a"])
    for number in range(10_000):
        mapping.policy_of(f"walker_{number}", 0)
    assert len(mapping._known) <= 4096
