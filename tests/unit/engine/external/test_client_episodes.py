"""Effects of clients' messages, without a network: order, repetitions, ends, silence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from hypothesis import given, settings
from hypothesis import strategies as st

from rlrun.engine.data.space_json import space_to_json
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.external.client_episodes import ClientEpisodes
from rlrun.engine.external.episode import PendingStep

SPACES = Spaces(Box(-10, 10, (2,), np.float32), Discrete(3))


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def served(
    worlds: int = 1, agents: Mapping[str, Spaces] | None = None, clock: Clock | None = None, **more: Any
) -> ClientEpisodes:
    """Episodes whose worlds are all free, as after a reset."""
    made = ClientEpisodes(
        agents or {"agent": SPACES}, worlds, client_timeout_s=30.0, gather_s=0.0, clock=clock or Clock(), **more
    )
    for world in range(worlds):
        made.free(world)
    return made


def told(episodes: ClientEpisodes, verb: str, **entries: Any) -> dict[str, Any]:
    """Returns the immediate answer to a message."""
    return episodes.ask({"verb": verb, **entries}).result(timeout=0)


def client_of(episodes: ClientEpisodes) -> str:
    return str(told(episodes, "hello", protocol="1.0")["client"])


def begun(episodes: ClientEpisodes, client: str | None = None, seq: int = 0) -> str:
    return str(told(episodes, "start_episode", client=client or client_of(episodes), seq=seq)["episode"])


def asked(episodes: ClientEpisodes, episode: str, seq: int, observation: Any = (0.0, 1.0), **more: Any) -> Future[Any]:
    return episodes.ask(
        {"verb": "get_action", "episode": episode, "seq": seq, "observation": list(observation), **more}
    )


def observed(pending_step: PendingStep) -> dict[str, list[float]]:
    return {name: np.asarray(own).tolist() for name, own in pending_step.observations.items()}


def test_a_client_receives_the_action_for_the_observation_that_it_sent() -> None:
    episodes = served()
    episode = begun(episodes)
    answer = asked(episodes, episode, 0, (1.0, 2.0))
    assert episodes.gather(1.0)
    assert observed(episodes.take(0)) == {"agent": [1.0, 2.0]}
    assert not answer.done()
    episodes.answer(0, "agent", np.int64(2))
    assert answer.result(0) == {"action": 2}


def test_a_repeated_request_gets_the_same_action_and_counts_once() -> None:
    episodes = served()
    episode = begun(episodes)
    first = asked(episodes, episode, 0)
    again = asked(episodes, episode, 0)
    episodes.take(0)
    episodes.answer(0, "agent", np.int64(1))
    assert first.result(0) == again.result(0) == asked(episodes, episode, 0).result(0) == {"action": 1}
    assert episodes.take(0) == PendingStep()


@pytest.mark.parametrize("seq", [-1, 2, 7, None, "1", 1.0, True])
def test_an_unexpected_sequence_number_is_refused_without_effect(seq: Any) -> None:
    episodes = served()
    episode = begun(episodes)
    asked(episodes, episode, 0)
    episodes.take(0)
    episodes.answer(0, "agent", np.int64(1))
    refused = asked(episodes, episode, seq, reward=5.0).result(0)
    assert (refused["error"], refused["expected"]) == ("out_of_order", 1)
    assert episodes.take(0) == PendingStep()


def test_rewards_logged_between_two_steps_of_a_world_add_up_to_one_reward() -> None:
    episodes = served()
    episode = begun(episodes)
    asked(episodes, episode, 0)
    episodes.take(0)
    episodes.answer(0, "agent", np.int64(1))
    for seq, reward in ((1, 0.5), (1, 0.5), (2, 0.25)):  # the first message comes twice
        told(episodes, "log_returns", episode=episode, seq=seq, reward=reward)
    asked(episodes, episode, 3, reward=1.0)
    assert episodes.take(0).rewards == {"agent": 1.75}


@pytest.mark.parametrize(
    ("entries", "code", "says"),
    [
        ({"observation": [float("nan"), 0.0]}, "bad_observation", "NaN"),
        ({"observation": [1.0]}, "bad_observation", r"shape \(1,\)"),
        ({"observation": "text"}, "bad_observation", "text"),
        ({"observation": None}, "bad_observation", "None"),
        ({"observation": [1e300, 0.0]}, "bad_observation", "too large"),
        ({"observation": [0.0, 0.0], "reward": float("inf")}, "bad_reward", "inf"),
        ({"observation": [0.0, 0.0], "reward": "1"}, "bad_reward", "'1'"),
        ({"observation": [0.0, 0.0], "agent": "other"}, "agent_unknown", "'other'"),
    ],
)
def test_invalid_requests_are_refused_without_effect(entries: dict[str, Any], code: str, says: str) -> None:
    episodes = served()
    episode = begun(episodes)
    refused = episodes.ask({"verb": "get_action", "episode": episode, "seq": 0, **entries}).result(0)
    assert refused["error"] == code
    assert re.search(says, refused["message"])
    assert episodes.take(0) == PendingStep()
    assert not asked(episodes, episode, 0).done()  # the same number may be sent again, correctly


@pytest.mark.parametrize("bad", [None, [1.0], ["x", 0.0], [1e300, 0.0]])
def test_a_bad_observation_among_several_is_refused_without_affecting_the_others(bad: Any) -> None:
    episodes = served(worlds=3)
    client = client_of(episodes)
    ids = [begun(episodes, client, seq) for seq in range(3)]
    given = [[0.1, 5], bad, [1e-50, -2.5]]
    messages = [
        {"verb": "get_action", "episode": episode, "seq": 0, "observation": own, "reward": 1.0}
        for episode, own in zip(ids, given, strict=True)
    ]
    first, refused, last = episodes.ask_all(messages)
    assert not first.done()
    assert refused.result(0)["error"] == "bad_observation"
    assert not last.done()
    assert [observed(episodes.take(world)) for world in range(3)] == [
        {"agent": [float(np.float32(0.1)), 5.0]}, {}, {"agent": [0.0, -2.5]}
    ]  # fmt: skip


def test_observations_sent_in_one_request_are_treated_like_those_of_separate_requests() -> None:
    numbers = np.random.default_rng(0).normal(size=(4, 2)).tolist()
    found = []
    for together in (True, False):
        episodes = served(worlds=4)
        client = client_of(episodes)
        ids = [begun(episodes, client, seq) for seq in range(4)]
        messages = [
            {"verb": "get_action", "episode": episode, "seq": 0, "observation": own}
            for episode, own in zip(ids, numbers, strict=True)
        ]
        answers = episodes.ask_all(messages) if together else [episodes.ask(own) for own in messages]
        found.append([observed(episodes.take(world)) for world in range(4)])
        for world, answer in enumerate(answers):
            episodes.answer(world, "agent", np.int64(world % 3))
            assert answer.result(0) == {"action": world % 3}
    assert found[0] == found[1]


def test_an_episode_end_delivers_the_final_observation_and_frees_the_world() -> None:
    episodes = served()
    client = client_of(episodes)
    episode = begun(episodes, client)
    asked(episodes, episode, 0)
    episodes.take(0)
    episodes.answer(0, "agent", np.int64(0))
    waits = episodes.ask({"verb": "start_episode", "client": client, "seq": 1})
    end = {"episode": episode, "seq": 0, "observation": [3.0, 4.0], "reward": 2.0, "info": {"items": 4}}
    assert told(episodes, "end_episode", **end) == told(episodes, "end_episode", **end) == {}
    pending_step = episodes.take(0)
    assert (observed(pending_step), pending_step.rewards, pending_step.terminateds) == (
        {"agent": [3.0, 4.0]},
        {"agent": 2.0},
        {"agent": True},
    )
    assert pending_step.ended
    assert pending_step.infos == {"agent": {"items": 4.0, "client_lost": 0.0, "logged_actions": 0.0}}
    assert not waits.done()
    episodes.free(0)
    assert waits.result(0)["episode"] != episode
    assert asked(episodes, episode, 1).result(0)["error"] == "episode_unknown"


@pytest.mark.parametrize(
    ("info", "says"),
    [
        ({"": 1}, "the name '' must be"),
        ({"a\n": 1}, r"the name 'a\\n' must be"),
        ({"x" * 201: 1}, "the name 'xxx"),
        ({"items": 10**400}, "'items' must be a finite number"),
        ({"items": "4"}, "'items' must be a finite number, not '4'"),
        ([1], "info must be an object that maps names to numbers, not"),
    ],
)
def test_an_info_that_is_not_a_set_of_metrics_is_refused_and_the_episode_continues(info: Any, says: str) -> None:
    episodes = served()
    episode = begun(episodes)
    asked(episodes, episode, 0)
    episodes.take(0)
    episodes.answer(0, "agent", np.int64(0))
    refused = told(episodes, "end_episode", episode=episode, seq=0, info=info)
    assert refused["error"] == "bad_message"
    assert re.search(says, refused["message"])
    assert episodes.take(0) == PendingStep()
    assert told(episodes, "end_episode", episode=episode, seq=0, info={"items": 1}) == {}
    assert episodes.take(0).infos["agent"]["items"] == 1.0


def test_an_episode_without_an_observation_leaves_no_trace() -> None:
    episodes = served()
    client = client_of(episodes)
    episode = begun(episodes, client)
    told(episodes, "end_episode", episode=episode, seq=0)
    assert episodes.take(0) == PendingStep()
    second = begun(episodes, client, 1)
    answer = asked(episodes, second, 0)
    told(episodes, "end_episode", episode=second, seq=0, observation=[0.0, 0.0])
    assert answer.result(0)["error"] == "episode_ended"
    assert episodes.take(0) == PendingStep()
    assert begun(episodes, client, 2)


def test_episodes_of_a_silent_client_are_truncated_at_the_last_observation() -> None:
    clock = Clock()
    episodes = served(2, clock=clock)
    client, other = client_of(episodes), client_of(episodes)
    episode = begun(episodes, client)
    begun(episodes, other)
    asked(episodes, episode, 0)
    episodes.take(0)
    episodes.answer(0, "agent", np.int64(0))
    clock.now = 20.0
    told(episodes, "heartbeat", client=other)
    clock.now = 40.0
    assert episodes.gather(0.001)
    pending_step = episodes.take(0)
    assert (pending_step.truncateds, pending_step.observations, pending_step.ended) == ({"agent": True}, {}, True)
    assert pending_step.infos["agent"]["client_lost"] == 1.0
    assert told(episodes, "heartbeat", client=client)["error"] == "client_unknown"
    assert asked(episodes, episode, 1).result(0)["error"] == "episode_unknown"
    assert episodes.num_clients == 1


def test_a_client_does_not_time_out_while_it_is_waiting_for_an_answer() -> None:
    clock = Clock()
    episodes = served(clock=clock)
    asked(episodes, begun(episodes), 0)
    clock.now = 1000.0
    episodes.gather(0.001)
    assert not episodes.take(0).ended


def test_the_error_for_a_client_with_a_different_major_protocol_version_names_both_versions() -> None:
    refused = told(served(), "hello", protocol="2.3")
    assert refused["error"] == "protocol_mismatch"
    assert "'2.3'" in refused["message"]
    assert "1.0" in refused["message"]
    assert "client" in told(served(), "hello", protocol="1.7")


def test_a_client_whose_spaces_differ_from_the_servers_is_refused_at_the_handshake() -> None:
    own = {"observation": space_to_json(SPACES.observation), "action": space_to_json(SPACES.action)}
    assert "client" in told(served(), "hello", protocol="1.0", agents={"agent": own})
    other = {**own, "action": space_to_json(Discrete(4))}
    assert told(served(), "hello", protocol="1.0", agents={"agent": other})["error"] == "spaces_mismatch"


def test_a_mask_that_allows_no_action_is_accepted_only_at_the_end_of_an_episode() -> None:
    space = Dict({"seen": Box(-1, 1, (1,), np.float32), "action_mask": MultiBinary(3)})
    episodes = served(agents={"agent": Spaces(space, Discrete(3))})
    episode = begun(episodes)
    nothing = {"seen": [0.0], "action_mask": [0, 0, 0]}
    request = {"verb": "get_action", "episode": episode, "seq": 0}
    assert "allows no action" in episodes.ask({**request, "observation": nothing}).result(0)["message"]
    answer = episodes.ask({**request, "observation": {**nothing, "action_mask": [0, 1, 0]}})
    episodes.take(0)
    episodes.answer(0, "agent", np.int64(1))
    assert answer.result(0) == {"action": 1}
    assert told(episodes, "end_episode", episode=episode, seq=0, observation=nothing) == {}


def test_a_logged_action_is_recorded_or_refused_with_the_reason() -> None:
    request = {"verb": "log_action", "seq": 0, "observation": [0.0, 0.0], "action": 2}
    refuses = served(no_logged_actions="it can learn only from its own actions")
    refused = refuses.ask({**request, "episode": begun(refuses)}).result(0)
    assert refused == {"error": "logged_action_refused", "message": "it can learn only from its own actions"}
    episodes = served()
    episode = begun(episodes)
    assert episodes.ask({**request, "episode": episode, "action": 3}).result(0)["error"] == "bad_action"
    answer = episodes.ask({**request, "episode": episode})
    episodes.take(0)
    assert episodes.answer(0, "agent", np.int64(0)) == (2, None)
    assert answer.result(0) == {}
    told(episodes, "end_episode", episode=episode, seq=0)
    assert episodes.take(0).infos["agent"]["logged_actions"] == 1.0


@pytest.mark.parametrize(
    ("space", "action", "published", "is_taken"),
    [
        (Discrete(3), True, False, False),
        (MultiDiscrete([2, 2]), [0, True], False, False),
        (Tuple((Discrete(3), MultiBinary(1))), [1, [1]], False, True),
        (Tuple((Discrete(3), MultiBinary(1))), [False, [1]], False, False),
        (Box(-2, 2, (1,), np.float32), [2.0], False, True),
        (Box(-2, 2, (1,), np.float32), [2.001], False, False),
        (Box(-2, 2, (1,), np.float32), [1e30], False, False),
        (Box(-2, 2, (1,), np.float32), [-7.5], False, False),
        (Box(-2, 2, (1,), np.float32), [-7.5], True, True),  # drawn from a Gaussian; the client's env got -2
        (Box(-2, 2, (1,), np.float32), [1e30], True, False),
        (Dict({"a": Box(-np.inf, np.inf, (1,))}), {"a": [1e30]}, False, True),
    ],
)
def test_a_logged_action_that_the_env_cannot_have_executed_is_refused(
    space: Any, action: Any, published: bool, is_taken: bool
) -> None:
    episodes = served(agents={"agent": Spaces(SPACES.observation, space)})
    if published:
        episodes.publish("agent", 4, dict)
    request = {"verb": "log_action", "seq": 0, "observation": [0.0, 0.0], "action": action, "version": 3}
    answer = episodes.ask({**request, "episode": begun(episodes)})
    if is_taken:
        assert not answer.done()
    else:
        assert answer.result(0)["error"] == "bad_action"


@pytest.mark.parametrize("verb", ["start_episode", "get_action", "log_returns", "end_episode"])
def test_sequence_numbers_begin_at_0(verb: str) -> None:
    episodes = served()
    client = client_of(episodes)
    episode = "" if verb == "start_episode" else begun(episodes, client)
    refused = told(episodes, verb, client=client, episode=episode, seq=-1, observation=[0.0, 0.0])
    assert (refused["error"], refused["expected"]) == ("out_of_order", 0)


def test_agents_of_an_episode_act_and_end_one_by_one() -> None:
    episodes = served(agents={"buyer": SPACES, "seller": SPACES})
    episode = begun(episodes)
    assert asked(episodes, episode, 0).result(0)["error"] == "agent_unknown"  # the client must name one of the agents
    answers = {name: asked(episodes, episode, 0, agent=name) for name in ("buyer", "seller")}
    assert set(episodes.take(0).observations) == set(answers)
    for name in answers:
        episodes.answer(0, name, np.int64(1))
    told(episodes, "end_agent", episode=episode, agent="buyer", seq=1, observation=[5.0, 5.0], reward=1.0)
    pending_step = episodes.take(0)
    assert (observed(pending_step), pending_step.terminateds, pending_step.ended) == (
        {"buyer": [5.0, 5.0]},
        {"buyer": True},
        False,
    )
    assert asked(episodes, episode, 2, agent="buyer").result(0)["error"] == "agent_ended"
    told(episodes, "end_episode", episode=episode, seq=0, observations={"seller": [1.0, 1.0]}, truncated=True)
    pending_step = episodes.take(0)
    assert (observed(pending_step), pending_step.truncateds, pending_step.ended) == (
        {"seller": [1.0, 1.0]},
        {"seller": True},
        True,
    )


def test_free_worlds_take_turns_so_that_a_single_client_uses_all_of_them() -> None:
    episodes = served(3)
    client = client_of(episodes)
    worlds = []
    for number in range(6):
        episode = begun(episodes, client, number)
        asked(episodes, episode, 0)
        (world,) = [world for world in range(3) if episodes.take(world).observations]
        episodes.answer(world, "agent", np.int64(0))
        told(episodes, "end_episode", episode=episode, seq=0)
        assert episodes.take(world).ended
        episodes.free(world)
        worlds.append(world)
    assert worlds == [0, 1, 2, 0, 1, 2]


def test_closing_the_server_answers_all_waiting_requests() -> None:
    episodes = served()
    client = client_of(episodes)
    answer = asked(episodes, begun(episodes, client), 0)
    waits = episodes.ask({"verb": "start_episode", "client": client, "seq": 1})
    episodes.close()
    assert answer.result(0)["error"] == waits.result(0)["error"] == "closing"
    assert told(episodes, "hello", protocol="1.0")["error"] == "closing"


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_each_step_counts_once_even_if_messages_are_repeated_or_out_of_order(data: st.DataObject) -> None:
    """A client of two episodes sends each message any number of times, mixed with old and wrong ones."""
    episodes = served(2)
    client = client_of(episodes)
    plans = data.draw(st.lists(st.integers(0, 4), min_size=2, max_size=2))  # the number of decisions in each episode
    running = {}
    for number, decisions in enumerate(plans):
        start = {"verb": "start_episode", "client": client, "seq": number}
        ids = {episodes.ask(start).result(0)["episode"] for _ in range(data.draw(st.integers(1, 3)))}
        assert len(ids) == 1
        running[ids.pop()] = decisions
    worlds = dict(zip(running, range(2), strict=True))
    done = dict.fromkeys(running, 0)
    shown: dict[int, list[float]] = {0: [], 1: []}
    rewards, ends = {0: 0.0, 1: 0.0}, {0: 0, 1: 0}

    def step(world: int) -> None:
        pending_step = episodes.take(world)
        shown[world] += [float(own[0]) for own in pending_step.observations.values()]
        rewards[world] += sum(pending_step.rewards.values())
        ends[world] += pending_step.ended
        if pending_step.observations and not pending_step.ended:
            episodes.answer(world, "agent", np.int64(len(shown[world]) % 3))

    while running:
        episode = data.draw(st.sampled_from(sorted(running, key=worlds.__getitem__)))
        number, world = done[episode], worlds[episode]
        if number == running[episode]:
            end = {"verb": "end_episode", "episode": episode, "seq": 0, "observation": [9.0, 0.0], "reward": 1.0}
            for _ in range(data.draw(st.integers(1, 3))):
                assert episodes.ask(end).result(0) == {}
            step(world)
            del running[episode]
            continue
        right = {"verb": "get_action", "episode": episode, "seq": number, "observation": [number, 0.0], "reward": 1.0}
        answers = []
        for kind in [*data.draw(st.lists(st.sampled_from(["right", "old", "ahead", "step"]), max_size=6)), "right"]:
            if kind == "step":
                step(world)
            elif kind == "right":
                answers.append(episodes.ask(right))
            else:
                wrong = {**right, "seq": number - 2 if kind == "old" else number + 2}
                assert episodes.ask(wrong).result(0)["error"] == "out_of_order"
        step(world)
        assert len({str(answer.result(0)) for answer in answers}) == 1
        done[episode] += 1
    for episode, world in worlds.items():
        decisions = done[episode]
        assert shown[world] == [*map(float, range(decisions)), *([9.0] if decisions else [])]
        assert (rewards[world], ends[world]) == ((decisions + 1.0, 1) if decisions else (0.0, 0))
