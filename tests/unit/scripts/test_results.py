"""The table of learning results follows from the records, and the records from spec and code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlrun.engine.settings.registry import algorithm_names
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.trial.trial_training import training_of
from scripts import results, results_paired


class PaysItsStart(gymnasium.Env[Any, Any]):
    """Starts at a random number, and pays that number in each of two steps."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.start, self.left = float(self.np_random.random()), 2
        return np.array([self.start], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        return np.array([self.start], np.float32), self.start, self.left == 0, False, {}


gymnasium.register("rlrun-tests/PaysItsStart-v0", entry_point=PaysItsStart)


def record(seed: int, value: float, **more: Any) -> dict[str, Any]:
    curve = [[0, 0.0], [500, value / 2], [1000, value]]
    own = {"metric": "episode_return_mean", "expected": 90.0, "env_steps": 1000, "seconds": 2.0 + seed}
    return {
        "spec": "a.yaml",
        "experiment": "a",
        "seed": seed,
        "value": value,
        "curve": curve,
        "commit": "c1",
        **own,
        **more,
    }


def test_a_gate_is_shown_as_held_if_the_lower_end_of_the_interval_reaches_it(wording) -> None:
    all_equal = [record(seed, 100.0) for seed in range(5)]
    assert results.row("a.yaml", all_equal) == wording("a.yaml", "90", "1,000")
    with_bad_ones = [*all_equal, *(record(seed, 20.0) for seed in range(5, 8))]
    assert results.row("a.yaml", with_bad_ones) == wording("20.0")


def test_the_results_table_uses_the_latest_record_of_a_seed_and_has_a_row_for_each_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    lines = [record(0, 50.0), record(0, 100.0), record(1, 100.0), record(0, 95.0, spec="b.yaml", commit="c2")]
    (tmp_path / "learning.jsonl").write_text("".join(f"{results.json.dumps(line)}\n" for line in lines))
    (tmp_path / "b.yaml").write_text("b:\n  expect: {episode_return_mean: 90, regression_floor: 3}  # why\n")
    (tmp_path / "a.yaml").write_text("a:\n  expect: {episode_return_mean: 90}\n")
    monkeypatch.setattr(results, "ROOT", tmp_path)
    before = results.key_of(tmp_path / "a.yaml")
    marks = f"{results.PUBLISHED_BEGIN}\n{results.PUBLISHED_END}\n{results.BEGIN}\nformer table\n{results.END}"
    (tmp_path / "page.md").write_text(f"# Results\n{marks}\nafter\n")
    monkeypatch.setattr(results, "RECORDS", tmp_path / "learning.jsonl")
    (tmp_path / "published.yaml").write_text("[]")
    monkeypatch.setattr(results, "PUBLISHED", tmp_path / "published.yaml")
    monkeypatch.setattr(results, "PAGE", tmp_path / "page.md")
    results.write(results.read_records())
    page = (tmp_path / "page.md").read_text()
    assert page.startswith("# Results\n")
    assert page.endswith(f"{results.END}\nafter\n")
    assert "former table" not in page
    assert [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| `")] == [
        "`a.yaml`",
        "`b.yaml`",
    ]
    assert wording("100.0") in page.splitlines()
    assert (tmp_path / "b.yaml").read_text() == wording("episode_return_mean", "regression_floor", "90")
    assert (tmp_path / "a.yaml").read_text() == wording("episode_return_mean", "regression_floor", "90")
    assert results.key_of(tmp_path / "a.yaml") == before  # a published floor requires no new run


def test_rates_and_exploitability_are_shown_with_three_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(results, "PAGE", tmp_path / "page.md")
    (tmp_path / "published.yaml").write_text("[]")
    monkeypatch.setattr(results, "PUBLISHED", tmp_path / "published.yaml")
    marks = f"{results.BEGIN}\n{results.END}\n{results.PUBLISHED_BEGIN}\n{results.PUBLISHED_END}"
    (tmp_path / "page.md").write_text(marks)
    metric = "evaluation/oracle/negative_exploitability"
    (tmp_path / "a.yaml").write_text(f"a:\n  expect: {{{metric}: -0.05}}\n")
    results.write([record(seed, -0.031, metric=metric, expected=-0.05) for seed in range(2)])
    assert (tmp_path / "a.yaml").read_text() == wording(metric, "regression_floor", "-0.05", "-0.031")
    assert wording("-0.031") in (tmp_path / "page.md").read_text().splitlines()


def test_targets_between_minus_one_and_one_are_shown_with_two_digits(wording) -> None:
    small = [record(seed, 0.412, expected=0.3) for seed in range(2)]
    assert results.row("a.yaml", small) == wording("0.3", "1,000", "0.41")


def test_a_recorded_seed_is_trained_again_only_if_its_spec_or_code_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = tmp_path / "small.yaml"
    spec.write_text(
        "small:\n  algorithm: pg\n  env: CartPole-v1\n  stop: {iteration: 1}\n"
        "  config: {train_batch_size: 64, min_env_steps_per_iteration: 0, model: {hiddens: [4]}, compile: false}\n"
        "  expect: {episode_return_mean: 1}\n"
    )
    monkeypatch.setattr(results, "RECORDS", tmp_path / "learning.jsonl")
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(results, "described_commit", lambda: "c1")
    (tmp_path / "rlrun").mkdir()
    for _ in range(2):
        assert results.train([spec], seeds=2) == 0
    assert [(found["seed"], found["metric"]) for found in results.read_records()] == [
        (0, "episode_return_mean"),
        (1, "episode_return_mean"),
    ]
    assert all(found["value"] > 5 for found in results.read_records())
    before = results.read_records()
    monkeypatch.setattr(results, "described_commit", lambda: "c2")

    (tmp_path / "rlrun" / "changed.py").write_text("changed = True\n")  # changes the code, but no number
    assert results.recorded(spec, results.key_of(spec)) == []
    assert results.train([spec], seeds=2) == 0
    key = results.key_of(spec)
    assert [found["commit"] for found in results.recorded(spec, key)] == ["c2", "c1"]
    assert {found["seed"]: found["value"] for found in results.recorded(spec, key)} == {
        found["seed"]: found["value"] for found in before
    }

    lines = [{**found, "value": found["value"] + 1.0} for found in before]  # as if different code had produced them
    (tmp_path / "learning.jsonl").write_text("".join(f"{results.json.dumps(line)}\n" for line in lines))
    assert results.train([spec], seeds=2) == 0
    assert [found["commit"] for found in results.recorded(spec, key)] == ["c2", "c2"]

    spec.write_text(f"# a comment changes no number\n{spec.read_text()}")
    assert len(results.recorded(spec, results.key_of(spec))) == 2
    spec.write_text(spec.read_text().replace("hiddens: [4]", "hiddens: [5]"))
    assert results.recorded(spec, results.key_of(spec)) == []


def test_the_row_of_a_pair_shows_both_libraries_and_the_probability_that_rlruns_scores_are_higher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_paired, "RECORDS", tmp_path / "paired.jsonl")
    of_side = {"sb3": [10.0, 20.0, 30.0, 40.0], "rlrun": [20.0, 30.0, 40.0, 50.0]}
    lines = [
        {"pair": "cartpole-ppo", "side": side, "seed": seed, "value": value, "seconds": 2.0, "version": "c1"}
        for side, values in of_side.items()
        for seed, value in enumerate(values)
    ]
    (tmp_path / "paired.jsonl").write_text("".join(f"{results.json.dumps(line)}\n" for line in lines))
    row = results_paired.row("cartpole-ppo", {"env_steps": 100_000, "rlrun": {}, "sb3": {}})
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    # rlrun wins 11.5 of 16 pairs: 20 beats one value and ties with one, 30 beats two, 40 three, and 50 all four.
    assert [cells[0], cells[1], cells[4][:4], *cells[5:]] == [
        *("cartpole-ppo", "100,000", "0.72", "not behind", "4, 4", "2, 2", "c1")
    ]
    assert cells[2].startswith("25 [")
    assert cells[3].startswith("35 [")


@pytest.mark.parametrize(("value", "verdict"), [(10.0, "not behind"), (9.99, "**behind**")])
def test_a_pair_is_behind_if_rlruns_mean_is_below_the_interval_of_the_other_library(
    value: float, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_paired, "RECORDS", tmp_path / "paired.jsonl")
    (tmp_path / "paired.jsonl").write_text(
        "".join(
            results.json.dumps({"pair": "p", "side": side, "seed": 0, "value": at, "seconds": 2.0, "version": "c1"})
            + "\n"
            for side, at in (("sb3", 10.0), ("rlrun", value))
        )
    )
    cells = results_paired.row("p", {"env_steps": 10, "rlrun": {}, "sb3": {}}).split(" | ")
    assert cells[5] == verdict


def test_tables_include_pairs_not_yet_measured_and_algorithms_that_only_rlrun_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setattr(results_paired, "RECORDS", tmp_path / "paired.jsonl")
    pairs = {"both": {"env_steps": 1_000, "rlrun": {}, "sb3": {}}, "ours": {"env_steps": 10, "rlrun": {}}}
    assert results_paired.table(pairs) == wording()

    page = tmp_path / "page.md"
    page.write_text("\n".join(f"{begin}\nformer\n{end}" for begin, end in results_paired.MARKS.values()))
    monkeypatch.setattr(results_paired, "PAGE", page)
    results_paired.write()
    tables = {file: results_paired.table(results_paired.read_pairs(file)) for file in results_paired.MARKS}
    assert page.read_text() == "\n".join(
        f"{begin}\n\n{tables[file]}\n\n{end}" for file, (begin, end) in results_paired.MARKS.items()
    )


def test_a_published_figure_is_shown_with_rlruns_result_and_whether_their_intervals_overlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Student's t with 9 degrees of freedom is 2.262 at 97.5%: the mean of 10 seeds is 100 [92.85, 107.15]."""
    monkeypatch.setattr(results, "ROOT", tmp_path)
    (tmp_path / "a.yaml").write_text("a: {env: Ant-v5}\n")
    figure = {"spec": "a.yaml", "env_steps": 1_000, "source": "S", "env": "Ant-v3", "mean": 100, "std": 10, "seeds": 10}

    def cells(figure: dict[str, Any], *values: float) -> list[str]:
        seeds = [record(seed, value) for seed, value in enumerate(values)]
        return results.published_row(figure, seeds).strip("| ").split(" | ")

    shown = ["a.yaml", "1,000", "S", "Ant-v3", "10", "100 [93, 107]", "Ant-v5", "1†"]
    assert cells(figure, 107.1) == [*shown, "107 [107, 107]", "overlap"]
    assert cells(figure, 107.2)[-1] == "ours is above"
    assert cells(figure, 92.8)[-1] == "ours is below"
    assert cells(figure)[-2:] == ["0", "not measured"]
    assert cells({**figure, "seeds": 1}, 50.0)[5:] == ["100", "Ant-v5", "1†", "50 [50, 50]"]


def test_published_figures_refer_to_shipped_specs_with_the_same_budget_and_env() -> None:
    for figure in results.yaml.safe_load(results.PUBLISHED.read_text()):
        (entry,) = results.yaml.safe_load((results.ROOT / figure["spec"]).read_text()).values()
        assert entry["stop"] == {"env_steps": figure["env_steps"]}
        assert entry["env"].partition("-")[0] == figure["env"].partition("-")[0]


def test_records_of_a_pair_remain_valid_if_new_code_gives_a_seed_the_same_weights() -> None:
    def ours(seed: int, weights: str, code: str, settings: str = "s") -> dict[str, Any]:
        return {"seed": seed, "value": 500.0, "weights": weights, "settings": settings, "code": code}

    timed = {"seconds": 2.0, "version": "c1"}
    former = [{**ours(0, "a", "old"), **timed}, {**ours(1, "b", "old"), **timed}]
    now = {"seconds": 3.0, "version": "c2"}
    assert results_paired.confirmed(former, {**ours(0, "a", "new"), **now}) == [{**ours(1, "b", "new"), **timed}]
    assert results_paired.confirmed(former, {**ours(0, "x", "new"), **now}) == []
    assert results_paired.confirmed(former, {**ours(0, "a", "new", "other"), **now}) == []
    assert results_paired.confirmed([*former, {**ours(2, "c", "new"), **timed}], {**ours(0, "a", "new"), **now}) == []


def test_every_tuned_pair_names_a_shipped_spec_with_its_env_or_has_its_own_settings() -> None:
    for name, pair in results_paired.read_pairs(results_paired.TUNED).items():
        if isinstance(pair["rlrun"], str):
            (entry,) = results_paired.yaml.safe_load((results.ROOT / pair["rlrun"]).read_text()).values()
            assert (entry["env"], entry["algorithm"]) == (pair["env"], pair["sb3"]["algorithm"].lower()), name
        assert pair["env_steps"] <= 150_000


def test_pairs_with_default_settings_name_only_an_algorithm() -> None:
    for name, pair in results_paired.read_pairs(results_paired.DEFAULTS).items():
        ours = pair["rlrun"]["algorithm"]
        assert pair["rlrun"] == {"algorithm": ours}, name
        assert ours in algorithm_names(), name
        assert {key: value.lower() for key, value in pair.get("sb3", pair["rlrun"]).items()} == {"algorithm": ours}


def test_both_sides_of_a_pair_are_evaluated_from_the_same_start_states() -> None:
    """The i-th of 8 envs is seeded once, with 7 + i; 2 of the 10 episodes are the second ones of the last two envs."""
    env = "rlrun-tests/PaysItsStart-v0"
    (experiment,) = parse_experiments({"own": {"algorithm": "pg", "env": env, "stop": {"env_steps": 10}}}, [])
    draws = [np.random.Generator(np.random.PCG64(7 + index)) for index in range(8)]
    starts = [draw.random() for draw in draws] + [draw.random() for draw in draws[6:]]
    with training_of(experiment.first_trial()) as training:
        value = results_paired.mean_return(training, env, 10, seed=7)
    assert value == pytest.approx(2.0 * sum(starts) / 10, rel=1e-12)
