from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rlrun.cli.main import cli
from rlrun.engine.flow.concurrently import concurrently
from rlrun.engine.flow.flow import Flow, Operator
from rlrun.engine.flow.nodes import Polled, Source
from rlrun.engine.flow.plan import plan_mermaid
from rlrun.engine.flow.sources.items import from_items
from rlrun.engine.settings.registry import BUILT_IN


class Rollouts(Source):
    def __init__(self) -> None:
        super().__init__("parallel_rollouts", {"workers": 2})
        self.on_workers = (("ComputeAdvantages", {"gamma": 0.99}), ("Compress", {}))

    def next_item(self) -> Polled:
        raise AssertionError("a drawn plan pulls nothing")


class Keep(Operator):
    def __init__(self, text: str) -> None:
        self.text = text

    def settings(self) -> dict[str, Any]:
        return {"text": self.text}

    def __call__(self, item: Any) -> Any:
        return item


def store(item: Any) -> Any:
    return item


def train(item: Any) -> Any:
    return item


def two_branches() -> Flow[Any]:
    """Rollouts that are both stored and learned from; the branch that stores them ends there."""
    rollouts: Flow[Any] = Flow(Rollouts())
    stored, learned = rollouts.duplicate(2)
    update = learned.filter(bool).for_each(train)
    return concurrently(stored.for_each(store), update, weights=(1, 4), output=update).zip_with_worker()


def test_a_mermaid_drawing_has_a_shape_for_each_kind_of_step(wording) -> None:
    assert plan_mermaid(two_branches().describe()) == wording("workers_n2", "ComputeAdvantages", "parallel_rollouts")


def test_texts_in_mermaid_drawings_are_quoted_and_escaped() -> None:
    flow = from_items([1]).for_each(Keep('"#1" <b> `x`\n&')).for_each(lambda item: item)
    assert plan_mermaid(flow.describe()).splitlines()[2:] == [
        '    n1["Keep(text=#34;#35;1#34; #60;b#62; #96;x#96;<br/>#38;)"]',
        "    n0 --> n1",
        '    n2["#60;lambda#62;"]',
        "    n1 --> n2",
    ]


def plan(*words: object) -> Result:
    return CliRunner().invoke(cli, ["plan", *map(str, words)])


@pytest.mark.parametrize("algorithm", BUILT_IN)
def test_every_built_in_algorithm_is_drawn_in_all_formats(algorithm: str) -> None:
    text, mermaid = (plan(algorithm, "--format", form) for form in ("text", "mermaid"))
    assert [done.exit_code for done in (text, mermaid)] == [0, 0]
    lines = [line.lstrip(" │├└─").removeprefix("-> ") for line in text.stdout.splitlines()]
    names = [line.removeprefix("on each worker: ").partition("(")[0] for line in lines if line != "-> (ends here)"]
    assert len(names) >= 2
    for name in names:
        assert f'"{name}' in mermaid.stdout


def test_the_file_extension_selects_the_format(tmp_path: Path) -> None:
    for name, begins in (("a.mmd", "flowchart TD\n"), ("a.txt", "parallel_rollouts")):
        done = plan("ppo", "-o", tmp_path / name)
        assert done.stdout == f"Drawn: {tmp_path / name}\n"
        assert (tmp_path / name).read_text().startswith(begins)
    plan("ppo", "--format", "mermaid", "-o", tmp_path / "b.md")
    assert (tmp_path / "b.md").read_text() == (tmp_path / "a.mmd").read_text()


def test_each_experiment_in_a_file_is_drawn_with_its_own_settings(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(
        "first: {algorithm: ppo, env: CartPole-v1, config: {num_workers: 3}, stop: {iteration: 1}}\n"
        "second: {algorithm: ppo, env: CartPole-v1, stop: {iteration: 1}}\n"
    )
    done = plan("-f", tmp_path / "two.yaml")
    assert done.stdout.splitlines()[:2] == ["# first", "parallel_rollouts(workers=3, mode=sync)"]
    assert "# second" in done.stdout
    refused = plan("-f", tmp_path / "two.yaml", "--format", "mermaid")
    assert refused.exit_code == 2
    assert "a drawing shows one plan, but the files contain 2 experiments" in refused.stderr


def test_a_missing_output_folder_is_reported_before_anything_is_drawn(tmp_path: Path, wording) -> None:
    done = plan("ppo", "-o", tmp_path / "nowhere" / "a.mmd")
    assert done.exit_code == 2
    assert wording(tmp_path / "nowhere") in done.stderr.splitlines()


def test_the_error_for_svg_lists_the_supported_formats(tmp_path: Path, wording) -> None:
    done = plan("ppo", "-o", tmp_path / "a.svg")
    assert done.exit_code == 2
    assert wording(tmp_path / "a.mmd") in done.stderr.splitlines()
    done = plan("ppo", "--format", "svg")
    assert done.exit_code == 2
    assert wording("svg", "text", "mermaid") in done.stderr.splitlines()
