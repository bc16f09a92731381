"""The pages of docs/ are correct: their Python runs, their YAML is valid, and their lists are complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import pytest

import rlrun
from rlrun.algorithms.ppo import PPO
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.learner.objective import Loss
from rlrun.engine.messages.errors import SpecError
from rlrun.experiments.search.rules.asha import Asha
from rlrun.experiments.search.rules_of_run import make_rule
from rlrun.experiments.spec.load import load_experiments, parse_experiments
from rlrun.experiments.spec.search_space import KINDS
from rlrun.experiments.spec.tuning import SchedulerConfig, SearcherConfig
from rlrun.experiments.spec.yaml_source import parse_document
from rlrun.experiments.trial.trial_loop import TrialLoop

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OF_DATA = ROOT / "docs" / "offline.md"
OF_SEARCH = ROOT / "docs" / "search.md"
EXTENDING = ROOT / "docs" / "extending.md"
OF_HOOKS = ROOT / "docs" / "hooks.md"
READERS_ENVS = ("tank", "lift", "rover", "isaac")
"""Modules that pages assume next to the spec, with an env of the reader's own."""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


YAML_BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{index}")
    for page in PAGES
    if page not in (OF_DATA, OF_HOOKS)
    for index, block in enumerate(blocks(page, "yaml"))
]


def test_the_snippets_on_the_python_page_run_in_sequence(tmp_path: Path) -> None:
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    script = "\n".join(blocks(ROOT / "docs" / "python.md", "python"))
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error::DeprecationWarning:__main__"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=800
    )
    assert done.returncode == 0, done.stderr
    assert "TERMINATED" in done.stdout
    assert done.stdout.rstrip().endswith("unknown key 'lrr'; did you mean 'lr'?")


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("recurrent_networks.md", 0),
        ("custom_environments.md", 0),
        pytest.param("multi_agent.md", 1, marks=pytest.mark.regress),
    ],
)
def test_a_standalone_python_snippet_on_another_docs_page_runs_by_itself(
    name: str, index: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "poles").symlink_to(ROOT / "configs" / "cartpole" / "data" / "expert")
    monkeypatch.chdir(tmp_path)
    block = blocks(ROOT / "docs" / name, "python")[index]
    exec(compile(block, name, "exec"), {"__name__": "page"})


def test_python_on_the_extending_and_hooks_pages_is_copied_from_the_examples() -> None:
    examples = "".join("".join(path.read_text().split()) for path in (ROOT / "examples" / "my_lab").glob("*.py"))
    shown = blocks(EXTENDING, "python") + blocks(OF_HOOKS, "python")
    assert len(shown) > 8
    assert [block for block in shown if "".join(block.split()) not in examples] == []  # methods are indented there


@pytest.mark.parametrize(
    "kind",
    [
        *(
            "An on-policy loss",
            "The algorithm",
            "A wrapper",
            "A world",
            "Off-policy",
            "A sampler of a replay buffer",
            "An exploration",
        ),
        *("A policy", "Custom critics", "A network", "An encoder", "A data source", "A logger"),
        "A worker",
    ],
)
def test_the_extending_page_shows_each_kind_of_plugin_or_links_to_an_example(kind: str) -> None:
    sections = re.split(r"^##+ (.*)\n", EXTENDING.read_text(), flags=re.MULTILINE)
    section = dict(zip(sections[1::2], sections[2::2], strict=True))[kind]
    assert "```python\n" in section or "(../examples/my_lab/" in section


class SeenPPO(PPO):
    """PPO that records the columns of its minibatches and their shapes."""

    seen: ClassVar[dict[str, tuple[int, ...]]] = {}

    def loss(self, outputs: Any, batch: SampleBatch, scheduled: Mapping[str, Any]) -> Loss:
        SeenPPO.seen = {name: tuple(column.shape) for name, column in batch.items()}
        return super().loss(outputs, batch, scheduled)


@pytest.mark.parametrize("core", [None, "lstm"])
def test_the_extending_page_lists_the_columns_that_a_loss_receives(core: str | None) -> None:
    rows = re.findall(r"^\| (`.+?`) \| `(\[S, .+?\])` \| (.*) \|$", EXTENDING.read_text(), re.MULTILINE)
    listed = {
        name: (shape, "only with a recurrent core" in content)
        for names, shape, content in rows
        for name in re.findall(r"\w+", names)
    }
    config = {"train_batch_size": 64, "minibatch_size": 32, "num_epochs": 1, "min_env_steps_per_iteration": 0}
    algorithm = SeenPPO(**config, num_envs_per_worker=4, compile=False, model={"hiddens": [8], "core": core})
    with rlrun.Training("CartPole-v1", algorithm) as training:
        training.step()
    assert SeenPPO.seen.keys() == {name for name, (_, is_recurrent) in listed.items() if core or not is_recurrent}
    rows_of_steps = SeenPPO.seen["valid"]
    for name, shape in SeenPPO.seen.items():
        if listed[name][0] == "[S, L]":
            assert shape == rows_of_steps
        else:
            assert shape[: 1 if name == "state" else 2] == rows_of_steps[: 1 if name == "state" else 2]


def test_the_spec_on_the_hooks_page_can_be_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = blocks(OF_HOOKS, "yaml")
    example = ROOT / "examples" / "cartpole_hooks.yaml"
    assert example.read_text().endswith(f"\n{block}")
    monkeypatch.chdir(tmp_path)
    (experiment,) = load_experiments([example], ("stop.env_steps=6_000", "evaluation.episodes=2"))
    with TrialLoop(experiment.first_trial(), tmp_path / "t") as loop:
        while not loop.done:
            row = loop.step()
    assert 0 < row["hooks/pole_angle"] < 0.3
    assert 0 < row["hooks/upright"] < 1
    assert row["hooks/evaluations_without_gain"] is not None
    assert "time/KeepUpright_s" in row


def test_the_snippets_on_the_data_page_turn_a_log_into_a_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("expert", "swings", "poles"):
        (tmp_path / name).symlink_to(ROOT / "configs" / "cartpole" / "data" / "expert")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "page"}
    for block in blocks(OF_DATA, "python"):
        exec(compile(block, OF_DATA.name, "exec"), namespace)
    assert namespace["action"] in (0, 1)
    for index, block in enumerate(blocks(OF_DATA, "yaml")):
        (tmp_path / f"{index}.yaml").write_text(block)
        assert all(experiment.trials() for experiment in load_experiments([tmp_path / f"{index}.yaml"]))


@pytest.mark.parametrize("block", YAML_BLOCKS)
def test_a_yaml_block_on_a_docs_page_is_a_valid_spec(block: str, tmp_path: Path) -> None:
    path = tmp_path / "page.yaml"
    path.write_text(block)
    (tmp_path / "poles").mkdir()
    for name in ("poles/left", "poles/right", "more", "demonstrations"):
        (tmp_path / name).symlink_to(ROOT / "configs" / "cartpole" / "data" / "expert")
    for module in READERS_ENVS:
        made = f"class {module.title()}: ...\n\ndef make(num_envs, device, task): ...\n"
        (tmp_path / f"{module}.py").write_text(made)
    try:
        experiments = load_experiments([path])
    except SpecError as error:
        pytest.fail(str(error))
    assert all(experiment.searches or experiment.trials() for experiment in experiments)


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "tutorial.md"], ids=lambda page: page.stem)
def test_the_spec_on_a_page_trains_on_the_env_defined_there(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (env,) = [block for block in blocks(page, "python") if "class Tank" in block]
    spec = next(block for block in blocks(page, "yaml") if "tank:Tank" in block)
    (tmp_path / "tank.py").write_text(env)
    (tmp_path / "tank.yaml").write_text(spec)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "tank", raising=False)
    (experiment,) = load_experiments([tmp_path / "tank.yaml"], ("stop.env_steps=500", "config.train_batch_size=256"))
    with TrialLoop(experiment.first_trial(), tmp_path / "t") as loop:
        row = loop.step()
    assert -10 * 100 <= row["episode_return_mean"] < 0


def test_the_readme_fits_on_a_few_screens() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 150


def test_the_python_example_in_the_readme_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = [text for text in blocks(ROOT / "README.md", "python") if "Training(" in text]
    assert block.count("\n") <= 7
    monkeypatch.chdir(tmp_path)
    exec(compile(block.replace("50_000", "2_048"), "README.md", "exec"), {})
    assert (tmp_path / "cartpole" / "manifest.json").is_file()


def test_the_grid_on_the_search_page_has_the_stated_number_of_trials(tmp_path: Path) -> None:
    (block,) = [text for text in blocks(OF_SEARCH, "yaml") if "16 trials" in text]
    path = tmp_path / "page.yaml"
    path.write_text(block)
    (experiment,) = load_experiments([path])
    assert len(experiment.trials()) == 16


def test_the_search_page_names_every_search_space_scheduler_and_searcher() -> None:
    text = OF_SEARCH.read_text()
    assert set(KINDS) <= set(re.findall(r"`(\w+): \[", text))
    assert {*SchedulerConfig.kinds(), *SearcherConfig.kinds()} <= set(re.findall(r"`(\w+)`", text))


@pytest.mark.parametrize(("name", "trials"), [("cartpole-optuna", 80), ("cartpole-asha", 27), ("cartpole-pbt", 12)])
def test_sweeps_on_the_search_page_have_the_stated_number_of_trials(name: str, trials: int) -> None:
    (block,) = [text for text in blocks(OF_SEARCH, "yaml") if text.startswith(f"{name}:")]
    (experiment,) = parse_experiments(parse_document(block).data)
    assert experiment.num_trials == trials


def test_the_asha_rungs_in_the_search_page_example_match_its_comment() -> None:
    (block,) = [text for text in blocks(OF_SEARCH, "yaml") if text.startswith("cartpole-asha:")]
    assert "rungs at 10,000 and 30,000" in block
    (experiment,) = parse_experiments(parse_document(block).data)
    assert experiment.scheduler is not None
    rule = make_rule(experiment.scheduler, experiment.stop.bounds, experiment.num_trials)
    assert isinstance(rule, Asha)
    assert rule.rungs == ((10_000, 30_000),)


OTHERS = [ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: page.stem)
def test_links_on_a_page_lead_to_existing_files_and_headings(page: Path) -> None:
    for link in re.findall(r"\]\(([^):\s]+)\)", page.read_text()):
        name, _, heading = link.partition("#")
        target = page.parent / name if name else page
        if link != "docs/images/cartpole-ppo.svg":
            assert target.exists(), link
        if heading:
            assert heading in headings(target), link


def headings(page: Path) -> list[str]:
    """Returns the anchors of a page's headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]


def test_the_citation_file_has_the_current_version_and_issue_forms_are_complete() -> None:
    citation = parse_document((ROOT / "CITATION.cff").read_text()).data
    assert citation["version"] == version("rlrun")
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    forms = [path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"]
    assert len(forms) == 3
    assert all({"name", "description", "body"} <= set(parse_document(form.read_text()).data) for form in forms)
