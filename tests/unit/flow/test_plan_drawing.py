from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rlrun.cli.main import cli
from rlrun.flow.concurrently import concurrently
from rlrun.flow.flow import Flow, Operator
from rlrun.flow.nodes import Polled, Source
from rlrun.flow.plan_drawing import plan_mermaid, plan_svg
from rlrun.flow.plan_graph import plan_graph
from rlrun.flow.sources.items import from_items
from rlrun.registry import BUILT_IN

SVG = "{http://www.w3.org/2000/svg}"


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
    """Rollouts that are stored and learned from; what is stored goes no further."""
    rollouts: Flow[Any] = Flow(Rollouts())
    stored, learned = rollouts.duplicate(2)
    update = learned.filter(bool).for_each(train)
    return concurrently(stored.for_each(store), update, weights=(1, 4), output=update).zip_with_worker()


def places(flow: Flow[Any]) -> dict[str, tuple[int, float]]:
    return {f"{box.identifier} {box.name}": (box.rank, box.lane) for box in plan_graph(flow.describe()).boxes}


def svg(flow: Flow[Any]) -> ElementTree.Element:
    return ElementTree.fromstring(plan_svg(flow.describe(), "a <title> & more"))


def texts(drawing: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in drawing.iter(f"{SVG}text")]


def test_mermaid_has_a_shape_for_each_kind_of_step() -> None:
    assert (
        plan_mermaid(two_branches().describe())
        == """\
flowchart TD
    subgraph workers_n2["on each worker"]
        n0["ComputeAdvantages(gamma=0.99)"]
        n1["Compress"]
        n0 --> n1
    end
    n2(["parallel_rollouts(workers=2)"])
    n1 --> n2
    n3[/"duplicate(copies=2)"\\]
    n2 --> n3
    n4("copy 0")
    n3 --> n4
    n5["store"]
    n4 --> n5
    n6("copy 1")
    n3 --> n6
    n7["filter(bool)"]
    n6 --> n7
    n8["train"]
    n7 --> n8
    n9{{"concurrently(weights=[1, 4])"}}
    n5 -. goes no further .-> n9
    n8 --> n9
    n10["zip_with_worker"]
    n9 --> n10"""
    )


def test_mermaid_texts_are_quoted_and_escaped() -> None:
    flow = from_items([1]).for_each(Keep('"#1" <b> `x`\n&')).for_each(lambda item: item)
    assert plan_mermaid(flow.describe()).splitlines()[2:] == [
        '    n1["Keep(text=#34;#35;1#34; #60;b#62; #96;x#96;<br/>#38;)"]',
        "    n0 --> n1",
        '    n2["#60;lambda#62;"]',
        "    n1 --> n2",
    ]


def test_branches_stand_side_by_side_and_what_they_share_in_the_middle() -> None:
    assert places(two_branches()) == {
        "n0 ComputeAdvantages": (0, 0.5),
        "n1 Compress": (1, 0.5),
        "n2 parallel_rollouts": (2, 0.5),
        "n3 duplicate": (3, 0.5),
        "n4 copy 0": (4, 0),
        "n5 store": (5, 0),
        "n6 copy 1": (4, 1),
        "n7 filter(bool)": (5, 1),
        "n8 train": (6, 1),
        "n9 concurrently": (7, 0.5),
        "n10 zip_with_worker": (8, 0.5),
    }


def test_a_shared_stream_stays_in_its_lane_where_another_branch_is_in_the_way() -> None:
    first, second = from_items([1]).duplicate(2)
    found = places(concurrently(first, from_items([2]).for_each(train), second))
    assert found["n0 from_items"] == (0, 0)
    assert found["n1 duplicate"] == (1, 0)
    assert found["n3 from_items"] == (0, 1)
    assert found["n5 copy 1"] == (2, 2)


def test_no_two_boxes_of_a_drawing_overlap() -> None:
    first, second, third = two_branches().duplicate(3)
    inner = concurrently(first.for_each(Keep("a" * 40)), second, from_items([1]))
    drawing = svg(concurrently(inner.for_each(train), from_items([2]), third.for_each(train)))
    boxes = [
        tuple(float(element.attrib[name]) for name in ("x", "y", "width", "height"))
        for element in drawing.iter(f"{SVG}rect")
        if element.attrib["fill"] != "none"
    ]
    assert len(boxes) == 22
    width, height = (float(drawing.attrib[name]) for name in ("width", "height"))
    for number, (x, y, wide, high) in enumerate(boxes):
        assert x >= 0
        assert y >= 0
        assert x + wide <= width
        assert y + high <= height
        for other_x, other_y, other_wide, other_high in boxes[:number]:
            assert x + wide <= other_x or other_x + other_wide <= x or y + high <= other_y or other_y + other_high <= y


def test_the_svg_shows_every_step_and_arrow_with_the_markup_escaped() -> None:
    flow = two_branches().for_each(Keep("<b> & 'c'"))
    drawing = svg(flow)
    assert drawing[0].text == "a <title> & more"
    assert texts(drawing) == [
        "on each worker",
        "goes no further",
        *("ComputeAdvantages", "gamma=0.99"),
        "Compress",
        *("parallel_rollouts", "workers=2"),
        *("duplicate", "copies=2"),
        *("copy 0", "store", "copy 1", "filter(bool)", "train"),
        *("concurrently", "weights=[1, 4]"),
        "zip_with_worker",
        *("Keep", "text=<b> & 'c'"),
    ]
    arrows = [element for element in drawing.iter(f"{SVG}path") if "marker-end" in element.attrib]
    assert len(arrows) == 12
    assert sum("stroke-dasharray" in arrow.attrib for arrow in arrows) == 1


def plan(*words: object) -> Result:
    return CliRunner().invoke(cli, ["plan", *map(str, words)])


@pytest.mark.parametrize("algorithm", BUILT_IN)
def test_every_built_in_algorithm_is_drawn_in_all_formats(algorithm: str) -> None:
    text, mermaid, drawing = (plan(algorithm, "--format", form) for form in ("text", "mermaid", "svg"))
    assert [done.exit_code for done in (text, mermaid, drawing)] == [0, 0, 0]
    lines = [line.lstrip(" │├└─").removeprefix("-> ") for line in text.stdout.splitlines()]
    names = [line.removeprefix("on each worker: ").partition("(")[0] for line in lines if line != "(goes no further)"]
    assert len(names) >= 3
    shown = texts(ElementTree.fromstring(drawing.stdout))
    for name in names:
        assert f'"{name}' in mermaid.stdout
        assert name in shown


def test_the_file_name_says_how_to_draw(tmp_path: Path) -> None:
    for name, begins in (("a.svg", "<svg "), ("a.mmd", "flowchart TD\n"), ("a.txt", "parallel_rollouts")):
        done = plan("ppo", "-o", tmp_path / name)
        assert done.stdout == f"Drawn: {tmp_path / name}\n"
        assert (tmp_path / name).read_text().startswith(begins)
    plan("ppo", "--format", "mermaid", "-o", tmp_path / "b.md")
    assert (tmp_path / "b.md").read_text() == (tmp_path / "a.mmd").read_text()


def test_an_experiment_of_a_file_is_drawn_with_its_own_settings(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(
        "first: {algorithm: ppo, env: CartPole-v1, config: {num_workers: 3}, stop: {iteration: 1}}\n"
        "second: {algorithm: ppo, env: CartPole-v1, stop: {iteration: 1}}\n"
    )
    done = plan("-f", tmp_path / "two.yaml")
    assert done.stdout.splitlines()[:2] == ["# first", "parallel_rollouts(workers=3, mode=sync)"]
    assert "# second" in done.stdout
    refused = plan("-f", tmp_path / "two.yaml", "--format", "svg")
    assert refused.exit_code == 2
    assert "a drawing shows one plan, and the files hold 2 experiments" in refused.stderr


def test_a_folder_that_does_not_exist_is_told_before_anything_is_drawn(tmp_path: Path) -> None:
    done = plan("ppo", "-o", tmp_path / "nowhere" / "a.svg")
    assert done.exit_code == 2
    assert f"the folder {tmp_path / 'nowhere'} does not exist" in done.stderr
