"""The page contains all of its data, escapes it safely, and fetches nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from rlrun.engine.checkpoint.plain_yaml import load_plain_yaml
from rlrun.engine.messages.errors import UsageError
from rlrun.experiments.runs.labels import Labels, write_labels
from rlrun.experiments.trial.trial_directory import TrialDirectory, TrialRecord
from rlrun.report.page import ASSETS, write_report

MakeRun = Callable[..., Path]


class Elements(HTMLParser):
    """Collects a page's elements and the text of its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.title = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] == "script":
            self.scripts.append(data)
        if self.found and self.found[-1][0] == "title":
            self.title += data.strip()


def report(tmp_path: Path, *runs: Path, **said: Any) -> tuple[dict[str, Any], Elements]:
    output = tmp_path / "out" / "report.html"
    write_report(runs, output, **said)
    page = Elements(output.read_text())
    return json.loads(page.scripts[0]), page


def test_the_page_of_a_sweep_holds_its_curves_configurations_trials_and_spec(
    make_sweep: MakeRun, tmp_path: Path, wording
) -> None:
    data, _ = report(tmp_path, make_sweep({0.1: [[1, 2], [3, 4]], 0.2: [[5, 6], [7, 8]]}))
    assert [group["label"] for group in data["groups"]] == ["lr=0.2", "lr=0.1"]
    curve = data["groups"][1]["curves"]["episode_return_mean"]["steps"]
    assert (curve["from"], curve["to"], curve["mean"][0], curve["mean"][-1]) == (100, 200, 2, 3)
    assert (curve["low"][-1], curve["high"][-1], len(curve["seeds"])) == (2, 4, 2)
    assert data["groups"][1]["curves"]["episode_return_mean"]["time"]["to"] == 4.0
    assert [(row["label"], row["mean"]["value"]) for row in data["configurations"]] == [("lr=0.2", 7), ("lr=0.1", 3)]
    assert [trial["last"] for trial in data["trials"]] == [2, 4, 6, 8]
    assert data["comparison"]["verdict"] == wording("0.2", "0.1")
    (run,) = data["runs"]
    assert run["shape"] == wording()
    assert "algorithm: ppo" in run["spec"]
    assert run["versions"]["torch"] == "2.13.0"
    assert run["command"] == "rlrun train"
    assert run["sweep"]["axes"] == [{"name": "lr", "kind": "linear", "values": [0.2, 0.1], "ticks": [0.1, 0.2]}]
    assert run["sweep"]["importance"]["caveat"] == wording()


def test_the_page_loads_nothing_and_its_content_security_policy_forbids_loading(
    make_sweep: MakeRun, tmp_path: Path
) -> None:
    _, page = report(tmp_path, make_sweep({0.1: [[1, 2]]}))
    assert {name for _, attributes in page.found for name in attributes} & {"src", "href", "action"} == set()
    (policy,) = [said["content"] for tag, said in page.found if said.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    text = "".join(page.scripts[1:]) + (ASSETS / "page.css").read_text()
    assert set(re.findall(r"\w+://[\w./]+", text)) == {"http://www.w3.org/2000/svg"}
    assert re.findall(r"\b(fetch|XMLHttpRequest|import|eval|innerHTML|WebSocket)\b", text) == []


def test_names_chosen_by_a_user_cannot_inject_html_into_the_page(make_sweep: MakeRun, tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><!-- {{data}}"
    path = make_sweep({0.1: [[1, 2]]}, name="x<script>")
    TrialDirectory(path / "000-lr=0.1-seed=0").write_record(
        TrialRecord("000-lr=0.1-seed=0", "ERROR", 0, {evil: evil}, error=evil)
    )
    data, page = report(tmp_path, path)
    assert [tag for tag, _ in page.found].count("script") == 2
    assert data["trials"][0]["error"] == evil
    assert data["trials"][0]["params"] == {evil: evil}
    assert page.title == "x<script>"


def test_the_page_of_a_population_holds_its_lineage_and_schedule(
    make_population: MakeRun, tmp_path: Path, wording
) -> None:
    data, _ = report(tmp_path, make_population())
    (family,) = data["runs"][0]["families"]
    assert (family["best"], family["copies"], len(family["stretches"])) == (1, 2, 9)
    assert [stretch["member"] for stretch in family["stretches"] if stretch["is_ancestor"]] == [0, 2, 1]
    assert family["settings"][0]["name"] == "lr"
    assert family["stretches"][0]["params"] == {"lr": "0.1"}
    assert [(group["label"], group["featured"]) for group in data["groups"]][:2] == [
        (wording(), True),
        ("population: 000-population=0-member=0", False),
    ]
    assert data["runs"][0]["sweep"] is None


def test_with_many_curves_the_best_are_drawn_in_detail_and_the_others_coarsely(
    make_sweep: MakeRun, tmp_path: Path
) -> None:
    sweep = {round(0.1 * n, 1): [[1, n], [2, n]] for n in range(1, 13)}
    data, _ = report(tmp_path, make_sweep(sweep))
    curves = [group["curves"]["episode_return_mean"]["steps"] for group in data["groups"]]
    assert [group["label"] for group in data["groups"]][:2] == ["lr=1.2", "lr=1.1"]
    assert [len(curve["mean"]) for curve in curves] == [120] * 8 + [50] * 4
    assert ["low" in curve for curve in curves] == [True] * 8 + [False] * 4


def test_the_page_shows_the_target_and_which_trials_the_scheduler_stopped(make_sweep: MakeRun, tmp_path: Path) -> None:
    spec = {"scheduler": {"asha": {"metric": "episode_return_mean"}}, "expect": {"episode_return_mean": 4}}
    path = make_sweep({0.1: [[1]], 0.2: [[5]]}, spec=spec)
    stop = {"trial": "000-lr=0.1-seed=0", "time": 100.0, "score": 1.0, "reason": "asha: worse"}
    (path / "decisions.jsonl").write_text(json.dumps(stop) + "\n")
    run = report(tmp_path, path)[0]["runs"][0]
    assert run["scheduler"] == "asha"
    assert run["stops"] == [stop]
    assert run["expect"]["text"] == "episode_return_mean >= 4"
    assert [(row["label"], row["passed"]) for row in run["expect"]["rows"]] == [("lr=0.1", False), ("lr=0.2", True)]


@pytest.mark.parametrize(
    ("space", "kind"),
    [({"loguniform": [1e-4, 1.0]}, "log"), ({"uniform": [0.0, 1.0]}, "linear"), ({"choice": [1, 2]}, "log")],
)
def test_the_axis_of_a_setting_is_logarithmic_if_its_search_space_is(
    make_sweep: MakeRun, tmp_path: Path, space: Mapping[str, Any], kind: str
) -> None:
    values = [0.001, 0.002, 0.004, 0.01, 0.1, 0.3, 1.0]
    path = make_sweep({lr: [[n]] for n, lr in enumerate(values)}, spec={"config": {"lr": space}})
    (axis,) = report(tmp_path, path)[0]["runs"][0]["sweep"]["axes"]
    assert (axis["kind"], sorted(axis["values"])) == (kind, values)


def test_if_there_are_very_few_evaluations_the_page_draws_training_returns_instead(
    make_sweep: MakeRun, tmp_path: Path
) -> None:
    evaluated = "evaluation/episode_return_mean"
    path = make_sweep({0.1: [list(range(20))]}, spec={"evaluation": {"every": 8}})
    file = next(path.glob("*/result.json"))
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for at in (9, 19):
        rows[at][evaluated] = 3.0
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data, _ = report(tmp_path, path)
    assert (data["metric"], data["drawn"]) == (evaluated, "episode_return_mean")
    assert data["drawn"] in data["metrics"]
    assert report(tmp_path, path, metrics=[evaluated])[0]["drawn"] == evaluated
    for row in rows:
        row[evaluated] = 3.0
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert report(tmp_path, path)[0]["drawn"] == evaluated


def test_several_runs_can_be_shown_on_one_page(make_sweep: MakeRun, tmp_path: Path) -> None:
    runs = [make_sweep({0.1: [[1, 2], [3, 4]]}, name=name) for name in ("a", "b")]
    data, page = report(tmp_path, *runs)
    assert page.title == "a, b"
    assert [group["label"] for group in data["groups"]] == ["a, lr=0.1", "b, lr=0.1"]
    assert [trial["run"] for trial in data["trials"]] == ["a", "a", "b", "b"]


def test_a_page_can_be_made_for_a_run_with_killed_and_damaged_trials_and_no_spec(
    make_sweep: MakeRun, tmp_path: Path
) -> None:
    path = make_sweep({0.1: [[]], 0.2: [[None, None]]})
    TrialDirectory(path / "000-lr=0.1-seed=0").write_record(TrialRecord("000", "RUNNING", 0))
    (path / "001-lr=0.2-seed=0" / "trial.json").write_text("")
    (path / "spec.yaml").unlink()
    data, _ = report(tmp_path, path)
    assert [trial["status"] for trial in data["trials"]] == ["killed", "damaged"]
    assert len(data["runs"][0]["problems"]) == 2
    assert data["runs"][0]["best"] is None
    assert data["comparison"] is None


def test_a_page_can_be_made_for_a_run_that_has_no_trials_yet(make_sweep: MakeRun, tmp_path: Path) -> None:
    data, _ = report(tmp_path, make_sweep({}))
    assert (data["trials"], data["groups"], data["runs"][0]["status"]) == ([], [], "no trials yet")


def test_metrics_of_a_page_can_be_chosen_and_the_first_one_ranks_configurations(
    make_sweep: MakeRun, tmp_path: Path, wording
) -> None:
    path = make_sweep({0.1: [[1, 2]], 0.2: [[3, 4, 5]]})
    data, _ = report(tmp_path, path, metrics=["iteration", "time_total_s"], mode="min")
    assert data["metrics"] == ["iteration", "time_total_s", "episode_return_mean"]
    assert (data["metric"], data["mode"]) == ("iteration", "min")
    assert data["configurations"][0]["label"] == "lr=0.1"
    with wording.raised(UsageError, "iteration"):
        report(tmp_path, path, metrics=["iterations"])


def test_the_page_of_a_world_shows_metrics_of_a_single_policy_in_each_row_and_offers_all_curves(
    make_sweep: MakeRun, tmp_path: Path
) -> None:
    right = "policies/right/episode_return_mean"
    run = make_sweep({0.1: [[150]]}, spec={"checkpoint": {"best": right}})
    world = {
        right: 50.0,
        "policies/left/episode_return_mean": 100.0,
        "evaluation/episode_return_mean": 188.7,
        f"evaluation/{right}": 95.0,
        "league/elo_right": 12.0,
        "policies/right/kl": 0.1,
    }
    (rows,) = run.glob("*/result.json")
    rows.write_text(json.dumps({**json.loads(rows.read_text()), **world}) + "\n")
    data, _ = report(tmp_path, run)
    (trial,) = data["trials"]
    assert (data["metric"], trial["last"], trial["best"]) == (right, 50, 50)
    assert (data["counterpart"], trial["counterpart"]) == (f"evaluation/{right}", 95)
    assert data["metrics"] == [
        right,
        "episode_return_mean",
        "evaluation/episode_return_mean",
        f"evaluation/{right}",
        "league/elo_right",
        "policies/left/episode_return_mean",
    ]
    assert data["groups"][0]["curves"]["league/elo_right"]["steps"]["mean"][-1] == 12


def test_the_page_of_games_shows_rates_by_side_instead_of_returns(make_sweep: MakeRun, tmp_path: Path) -> None:
    spec = {"evaluation": {"against": "minimax"}}
    run = make_sweep({0.1: [[0.0, 0.0], [0.0, 0.0]]}, spec=spec)
    for rows, won in zip(sorted(run.glob("*/result.json")), (0.5, 0.7), strict=True):
        first, last = map(json.loads, rows.read_text().splitlines())
        rates = {"win_rate": won, "draw_rate": 0.2, "loss_rate": 0.8 - won, "unbeaten_rate": won + 0.2}
        games = {f"evaluation/against/{side}{rate}": value for side in ("", "first/") for rate, value in rates.items()}
        early = {**first, **dict.fromkeys(games, 0.25), "league/members": 1}
        rows.write_text("".join(json.dumps(row) + "\n" for row in (early, {**last, **games, "league/members": 2})))
    data, _ = report(tmp_path, run)
    assert [(one["side"], pytest.approx(one["won"])) for one in data["games"]] == [("both", 0.6), ("first", 0.6)]
    assert pytest.approx((data["games"][0]["drawn"], data["games"][0]["lost"])) == (0.2, 0.2)
    assert data["runs"][0]["opponent"] == "minimax"
    assert data["metric"] == "evaluation/against/unbeaten_rate"
    assert "episode_return_mean" not in data["metrics"]
    rates_drawn = [
        f"evaluation/against/{side}{rate}_rate" for side in ("", "first/") for rate in ("win", "draw", "loss")
    ]
    assert data["grid"]["sections"]["Games"] == [*rates_drawn, "league/members"]


def test_the_first_screen_names_the_best_configuration_its_lead_and_its_certainty(
    make_sweep: MakeRun, tmp_path: Path
) -> None:
    data, _ = report(tmp_path, make_sweep({0.1: [[1], [2], [3], [4]], 0.2: [[5], [6], [7], [8]], 0.3: [[0], [0]]}))
    leader = data["leader"]
    assert [(one["label"], one["seeds"], one["iqm"]["value"]) for one in leader["first"]] == [
        ("lr=0.2", 4, 6.5),
        ("lr=0.1", 4, 2.5),
        ("lr=0.3", 2, 0),
    ]
    assert (leader["configurations"], leader["lead"]["value"], leader["probability"]["value"]) == (3, 4, 1)
    assert leader["lead"]["low"] < 4 < leader["lead"]["high"]
    assert [side["at_end"]["iqm"] for side in data["comparison"]["sides"]] == [one["iqm"] for one in leader["first"]]


def test_a_lead_is_positive_even_in_mode_min(make_sweep: MakeRun, tmp_path: Path) -> None:
    data, _ = report(tmp_path, make_sweep({0.1: [[1], [2]], 0.2: [[5], [6]]}), mode="min")
    assert (data["leader"]["first"][0]["label"], data["leader"]["lead"]["value"]) == ("lr=0.1", 4)


def test_the_page_of_many_configurations_names_the_best_one_and_the_most_important_setting(
    make_sweep: MakeRun, tmp_path: Path
) -> None:
    sweep = {round(0.01 * n, 2): [[n - 1], [n], [n + 1]] for n in range(1, 15)}
    data, _ = report(tmp_path, make_sweep(sweep))
    assert (data["leader"]["first"][0]["label"], data["leader"]["configurations"]) == ("lr=0.14", 14)
    assert data["runs"][0]["sweep"]["importance"]["effects"][0]["name"] == "lr"
    assert len(data["comparison"]["sides"]) == 12
    assert [row["label"] for row in data["configurations"][:2]] == ["lr=0.14", "lr=0.13"]
    assert [step["best"] for step in data["runs"][0]["sweep"]["history"][:2]] == [1, 2]


def test_the_page_shows_the_tags_and_the_note_of_a_run(make_sweep: MakeRun, tmp_path: Path) -> None:
    run = make_sweep({0.1: [[1], [2]]})
    write_labels(run, Labels(("wide", "good"), "a wider net"))
    data, _ = report(tmp_path, run)
    assert data["runs"][0]["labels"] == {"tags": ["wide", "good"], "note": "a wider net"}


def test_a_single_trial_has_no_leader(make_sweep: MakeRun, tmp_path: Path) -> None:
    data, _ = report(tmp_path, make_sweep({0.1: [[1, 2]]}))
    assert (data["leader"], data["comparison"]) == (None, None)


def test_the_grid_shows_metrics_that_vary_and_names_those_that_are_constant(
    make_sweep: MakeRun, tmp_path: Path
) -> None:
    run = make_sweep({0.1: [[1, 2]], 0.2: [[3, 4]]})
    for file in run.glob("*/result.json"):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        for n, row in enumerate(rows):
            row |= {"learner/entropy": 1.0 - n, "learner/policy_loss": n, "learner/lr": 0.1, "time/sample_s": 0.5 + n}
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data, _ = report(tmp_path, run)
    assert data["grid"]["sections"] == {
        "Returns": ["episode_return_mean"],
        "Learner": ["learner/policy_loss", "learner/entropy"],
        "Time": ["time/sample_s"],
    }
    assert data["grid"]["constants"] == {"learner/lr": 0.1}
    curve = data["groups"][0]["curves"]["learner/entropy"]
    assert (curve["steps"]["mean"][0], curve["steps"]["mean"][-1], "time" in curve) == (1, 0, False)
    assert data["groups"][0]["curves"]["time_total_s"]["steps"]["mean"][-1] == 4
    assert data["runs"][0]["phases"] == [["sample", 2.0], ["rest", 2.0]]


def test_targets_and_stop_conditions_are_drawn_as_lines_in_charts(make_sweep: MakeRun, tmp_path: Path) -> None:
    spec = {"stop": {"env_steps": 900}, "expect": {"episode_return_mean": 4, "within_env_steps": 800}}
    data, _ = report(tmp_path, make_sweep({0.1: [[1]]}, spec=spec))
    assert data["lines"] == [
        {"metric": "episode_return_mean", "value": 4.0, "what": "expected"},
        {"metric": "env_steps", "value": 800, "what": "expected by"},
        {"metric": "env_steps", "value": 900, "what": "stop"},
    ]


def test_small_videos_of_a_run_are_embedded_in_the_page_and_large_ones_are_listed(
    make_sweep: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_sweep({0.1: [[1]]})
    (run / "balance.mp4").write_bytes(b"film")
    monkeypatch.setattr("rlrun.report.page_run.LARGEST_VIDEO_BYTES", 10)
    (run / "000-lr=0.1-seed=0" / "long.gif").write_bytes(b"picture after picture")
    data, page = report(tmp_path, run)
    assert data["runs"][0]["videos"] == [
        {"file": "000-lr=0.1-seed=0/long.gif", "kind": "image", "address": None},
        {"file": "balance.mp4", "kind": "video", "address": "data:video/mp4;base64,ZmlsbQ=="},
    ]
    (policy,) = [said["content"] for _, said in page.found if said.get("http-equiv") == "Content-Security-Policy"]
    assert "media-src data:" in str(policy)


def test_the_page_shows_the_spec_of_the_run_without_null_settings(make_sweep: MakeRun, tmp_path: Path) -> None:
    spec = {"config": {"lr": [[0, 1e-5], [100_000, 0.0]], "model": {"hiddens": [64, 64]}}, "scheduler": None}
    data, _ = report(tmp_path, make_sweep({0.1: [[1]]}, spec=spec))
    text = data["runs"][0]["spec"]
    assert "    lr: [[0, 1.0e-5], [100_000, 0.0]]\n    model: {hiddens: [64, 64]}" in text
    kept = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"env_steps": 1000}, "config": spec["config"]}
    assert load_plain_yaml(text) == {"pole": kept}


def test_if_there_are_too_many_configurations_to_compare_the_best_is_named_without_an_interval(
    make_sweep: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlrun.report.page.MOST_COMPARED", 2)
    data, _ = report(tmp_path, make_sweep({0.1: [[1]], 0.2: [[3]], 0.3: [[2]]}))
    leader = data["leader"]
    assert (data["comparison"], leader["first"][0]["label"], leader["configurations"]) == (None, "lr=0.2", 3)
    assert (leader["lead"], leader["probability"], leader["is_settled"]) == (None, None, False)


def test_the_page_of_runs_in_several_envs_shows_profiles_instead_of_a_leader(
    make_sweep: MakeRun, tmp_path: Path, wording
) -> None:
    runs = [
        make_sweep({0.1: [[1], [2]], 0.2: [[3], [4]]}, name=env, spec={"env": env}) for env in ("Acrobot-v1", "Taxi-v3")
    ]
    data, _ = report(tmp_path, *runs)
    assert (data["leader"], data["comparison"]["verdict"]) == (None, "")
    assert data["comparison"]["notes"] == wording()
    assert [method["label"] for method in data["profiles"]["methods"]] == ["ppo, lr=0.2", "ppo, lr=0.1"]


def test_all_script_files_are_embedded_in_the_page(make_sweep: MakeRun, tmp_path: Path) -> None:
    _, page = report(tmp_path, make_sweep({0.1: [[1]]}))
    for path in ASSETS.glob("*.js"):
        assert path.read_text() in "".join(page.scripts)
