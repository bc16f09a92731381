"""Which episode is in which world, which one is next, and when a silent client's episodes end."""

from gymnasium.spaces import Discrete

from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.external.episode import Agent
from rlrun.engine.external.message import MessageRefused
from rlrun.engine.external.running_episodes import CLIENT_LOST, LOOK_S, MOST_WAITING, RunningEpisodes

TIMEOUT_S = 30.0


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def running(worlds: int, clock: Clock | None = None) -> RunningEpisodes:
    """Returns a register whose worlds are all free."""
    made = RunningEpisodes(worlds, TIMEOUT_S, clock or Clock())
    for world in range(worlds):
        made.free(world)
    return made


def test_episodes_start_in_free_worlds_and_wait_in_order_if_there_are_none() -> None:
    found = running(2)
    client = found.connect()
    answers = [found.start(client) for _ in range(4)]
    first, second, third, fourth = answers
    assert [answer.done() for answer in answers] == [True, True, False, False]
    assert [episode.id for episode in found.of_world if episode] == [
        first.result()["episode"],
        second.result()["episode"],
    ]
    found.free(1)
    assert third.done()
    assert not fourth.done()
    assert found.of_world[1] is found.episodes[third.result()["episode"]]
    assert found.unanswered() == [fourth]


def test_an_ended_episode_that_its_world_has_not_seen_leaves_the_world_to_the_next_one() -> None:
    found = running(1)
    client = found.connect()
    first, second = found.start(client), found.start(client)
    found.end(found.episodes[first.result()["episode"]], terminated=True, info={})
    assert found.of_world[0] is found.episodes[second.result()["episode"]]
    assert found.updated == set()


def test_an_ended_episode_that_its_world_has_seen_occupies_it_until_it_is_freed() -> None:
    found = running(1)
    episode = found.episodes[found.start(found.connect()).result()["episode"]]
    episode.is_shown = True
    found.end(episode, terminated=True, info={})
    assert found.of_world[0] is episode
    assert episode.pending_step.ended
    assert found.updated == {0}
    assert found.wakes
    assert found.ended[episode.id] is episode.requests


def test_a_silent_client_is_forgotten_and_its_episodes_are_truncated() -> None:
    clock = Clock()
    found = running(1, clock)
    episode = found.episodes[found.start(found.connect()).result()["episode"]]
    episode.agents["a"] = Agent(Spaces(Discrete(2), Discrete(2)), is_living=True)
    clock.now = TIMEOUT_S
    found.end_silent()
    assert found.episodes
    clock.now += LOOK_S
    found.end_silent()
    assert not found.episodes
    assert not found.clients
    assert episode.pending_step.truncateds == {"a": True}
    assert episode.pending_step.infos["a"][CLIENT_LOST] == 1.0


def test_episodes_beyond_the_limit_of_waiting_episodes_are_refused(wording) -> None:
    found = running(0)
    client = found.connect()
    for _ in range(MOST_WAITING):
        found.start(client)
    with wording.raised(MessageRefused):
        found.start(client)
