"""Metrics of finished episodes: which numbers in their infos become metrics."""

from __future__ import annotations

from rlrun.engine.rollout.episode_sums import MOST_INFO_NUMBERS, numbers_in
from rlrun.engine.rollout.rollout import Episode
from rlrun.engine.training.assemble.metric_table import EPISODE_METRICS
from rlrun.engine.training.results.episode_metrics import MOST_AGENTS, AgentMetrics, EpisodeMetrics, returns_of


def episode(info: dict[str, float]) -> Episode:
    return Episode(1.0, 1, numbers_in(info))


def test_only_the_first_1000_info_keys_become_metrics_with_one_warning(wording) -> None:
    said: list[str] = []
    metrics = EpisodeMetrics(said.append)
    many = episode({f"k{i}": float(i) for i in range(200_000)})
    assert len(many.info) == MOST_INFO_NUMBERS + 1
    metrics.add([many, many])
    for _ in range(2):
        infos = {name: value for name, value in metrics.result().items() if name.startswith("info/")}
        assert infos == {f"info/k{i}": float(i) for i in range(1000)}
    assert said == wording("k1000", "1,000")


def test_the_limit_on_info_metrics_applies_to_all_episodes_together() -> None:
    said: list[str] = []
    metrics = EpisodeMetrics(said.append)
    metrics.add(episode({f"{number}/{i}": 1.0 for i in range(600)}) for number in range(3))
    names = [name for name in metrics.result() if name.startswith("info/")]
    assert (len(names), names[599], names[600]) == (1000, "info/0/599", "info/1/0")
    assert len(said) == 1


def test_exactly_the_maximum_number_of_info_keys_causes_no_warning() -> None:
    said: list[str] = []
    metrics = EpisodeMetrics(said.append)
    metrics.add([episode({f"k{i}": 1.0 for i in range(MOST_INFO_NUMBERS)})])
    assert metrics.result()["info/k999"] == 1.0
    assert said == []


def test_info_keys_that_are_invalid_metric_names_are_skipped_with_one_warning(wording) -> None:
    said: list[str] = []
    metrics = EpisodeMetrics(said.append)
    info = {"": 1.0, "a\n": 2.0, "a\rb": 3.0, "\x00": 4.0, "\ud800": 5.0, "x" * 201: 6.0, "items sold": 7.0, "é/ü": 8.0}
    metrics.add([episode(info), episode(info)])
    for _ in range(2):
        result = metrics.result()
        assert [name for name in result if name.startswith("info/")] == ["info/items sold", "info/é/ü"]
        assert all(any(metric.matches(name) for metric in EPISODE_METRICS) for name in result)
    assert [line.partition(",")[0] for line in said] == wording()
    restored = EpisodeMetrics()
    state = metrics.state()
    state["last"][0][2] = info
    restored.load_state(state)
    assert restored.state() == metrics.state()


def test_per_agent_metrics_are_reported_only_up_to_a_maximum_number_of_agents() -> None:
    for number, reported in ((MOST_AGENTS, MOST_AGENTS), (MOST_AGENTS + 1, 0)):
        metrics = AgentMetrics(["prey"], [f"prey_{i}" for i in range(number)])
        metrics.add("prey", [Episode(float(i), 1, {}, agent=f"prey_{i}") for i in (1, 3)])
        assert len(metrics.of_agents()) == len(metrics.state()["agents"]) == reported
        of_policy = metrics.of_policy("prey")
        assert [of_policy[f"episode_return_{kind}"] for kind in ("min", "mean", "max")] == [1.0, 2.0, 3.0]


def test_per_agent_metrics_of_too_many_agents_in_older_checkpoints_are_dropped() -> None:
    agents = [f"prey_{i}" for i in range(MOST_AGENTS + 1)]
    older = {"policies": {}, "agents": {agent: EpisodeMetrics().state() for agent in agents}}
    metrics = AgentMetrics(["prey"], agents)
    metrics.load_state(older)
    assert metrics.of_agents() == {}


def test_mean_returns_are_computed_by_plain_summation_on_every_python_version() -> None:
    returns = [1e16, 1.0, -1e16]  # compensated summation, as in Python 3.12, would keep the 1
    assert returns_of([Episode(number, 1) for number in returns])["episode_return_mean"] == 0.0
