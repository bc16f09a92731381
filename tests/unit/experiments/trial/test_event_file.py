"""Event files are read back by TensorBoard itself."""

import logging
import math
from pathlib import Path
from typing import Any

import pytest

from rlrun.experiments.trial.checked_results import truncate_results
from rlrun.experiments.trial.event_file import FILE_PATTERN, EventFile
from rlrun.experiments.trial.results import ResultWriter


@pytest.fixture(autouse=True)
def quiet_tensorboard() -> None:
    logging.getLogger("tensorboard").setLevel(logging.ERROR)


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator: Any = EventAccumulator(str(directory))
    accumulator.Reload()
    return {
        name: [(event.step, event.value) for event in accumulator.Scalars(name)]
        for name in accumulator.Tags()["scalars"]
    }


def test_tensorboard_reads_the_scalars_that_were_written(tmp_path: Path) -> None:
    events = EventFile(tmp_path, first_step=0)
    events.add_scalars(0, {"a/b": 1.5, "naïve": -2.0})
    events.add_scalars(2**40, {"a/b": 1e-30})
    events.close()
    found = scalars(tmp_path)
    assert found["naïve"] == [(0, -2.0)]
    assert found["a/b"] == [(0, 1.5), (2**40, pytest.approx(1e-30))]


def test_records_of_any_length_have_a_valid_checksum(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    events = EventFile(tmp_path, first_step=0)
    for length in range(1, 300):
        events.add_scalars(length, {"x" * length: float(length)})
    events.close()
    (path,) = tmp_path.glob(FILE_PATTERN)
    loaded = list(EventFileLoader(str(path)).Load())
    assert [event.step for event in loaded if event.HasField("summary")] == list(range(1, 300))


def test_a_new_event_file_is_numbered_after_the_latest_even_if_an_earlier_one_was_removed(tmp_path: Path) -> None:
    for step in range(2):
        EventFile(tmp_path, first_step=step).close()
    min(tmp_path.glob(FILE_PATTERN)).unlink()
    events = EventFile(tmp_path, first_step=2)
    events.add_scalars(2, {"x": 1.0})
    events.close()
    assert scalars(tmp_path) == {"x": [(2, 1.0)]}
    assert max(tmp_path.glob(FILE_PATTERN)).name == "events.out.tfevents.0000000002.rlrun"


def test_an_event_file_torn_by_a_kill_is_read_up_to_its_last_complete_record(tmp_path: Path) -> None:
    events = EventFile(tmp_path, first_step=0)
    events.add_scalars(1, {"x": 1.0})
    events.add_scalars(2, {"x": 2.0})
    events.close()
    (path,) = tmp_path.glob(FILE_PATTERN)
    path.write_bytes(path.read_bytes()[:-5])
    assert scalars(tmp_path) == {"x": [(1, 1.0)]}


def test_after_a_resume_tensorboard_shows_repeated_steps_only_once(tmp_path: Path) -> None:
    def write(*rows: dict[str, Any]) -> None:
        writer = ResultWriter(tmp_path)
        for row in rows:
            writer.write(row)
        writer.close()

    write(*({"iteration": i, "env_steps": 10 * i, "x": float(i)} for i in range(1, 6)))
    truncate_results(tmp_path, after_iteration=3)
    write(*({"iteration": i, "env_steps": 10 * i, "x": float(-i)} for i in range(4, 7)))
    assert len(list(tmp_path.glob(FILE_PATTERN))) == 2
    assert scalars(tmp_path)["training/x"] == [(10, 1.0), (20, 2.0), (30, 3.0), (40, -4.0), (50, -5.0), (60, -6.0)]


def test_events_are_thinned_to_about_one_a_second_and_the_last_row_and_are_not_repeated_after_a_resume(
    tmp_path: Path,
) -> None:
    def write(first: int, last: int) -> None:
        writer = ResultWriter(tmp_path)
        for i in range(first, last + 1):
            writer.write({"iteration": i, "env_steps": 10 * i, "time_total_s": i / 4})
        writer.close()

    write(1, 7)
    truncate_results(tmp_path, after_iteration=6)
    write(7, 12)
    assert [step for step, _ in scalars(tmp_path)["training/iteration"]] == [10, 50, 70, 110, 120]


def test_only_numbers_become_scalars_in_tensorboard(tmp_path: Path) -> None:
    writer = ResultWriter(tmp_path)
    writer.write({"iteration": 1, "env_steps": 7, "a": None, "b": float("nan"), "c": "x", "d": True, "e/f": 3})
    writer.close()
    assert scalars(tmp_path) == {"training/iteration": [(7, 1.0)], "training/env_steps": [(7, 7.0)], "e/f": [(7, 3.0)]}


def test_every_scalar_belongs_to_a_group_in_tensorboard(tmp_path: Path) -> None:
    writer = ResultWriter(tmp_path)
    names = ["iteration", "env_steps", "episodes", "episode_return_mean", "weights_version", "learner/loss"]
    writer.write(dict.fromkeys(names, 1))
    writer.close()
    assert sorted(scalars(tmp_path)) == [
        "episodes/episode_return_mean",
        "episodes/episodes",
        "learner/loss",
        "training/env_steps",
        "training/iteration",
        "training/weights_version",
    ]


def test_a_number_beyond_float32_is_infinite_in_tensorboard_and_exact_in_result_json(tmp_path: Path) -> None:
    writer = ResultWriter(tmp_path)
    row = writer.write({"iteration": 1, "env_steps": 7, "info/a": 1e300, "info/b": -1e300, "info/c": 10**100})
    writer.close()
    assert row == {"iteration": 1, "env_steps": 7, "info/a": 1e300, "info/b": -1e300, "info/c": 10**100}
    found = scalars(tmp_path)
    assert [found[f"info/{name}"] for name in "abc"] == [[(7, math.inf)], [(7, -math.inf)], [(7, math.inf)]]


def test_a_setting_beyond_float64_is_shown_as_text_in_the_hparams_tab(tmp_path: Path) -> None:
    (tmp_path / "000").mkdir()
    writer = ResultWriter(tmp_path / "000", {"goal": 10**400})
    writer.write({"iteration": 1, "env_steps": 1})
    writer.close()
    domains, _ = hparams_tab(tmp_path)
    assert domains == {"goal": [str(10**400)]}


def hparams_tab(logdir: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Reads the HPARAMS tab: hyperparameter -> its domain, and group -> the values in its row."""
    from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
    from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
    from tensorboard.context import RequestContext
    from tensorboard.plugins.base_plugin import TBContext
    from tensorboard.plugins.hparams import api_pb2
    from tensorboard.plugins.hparams.backend_context import Context
    from tensorboard.plugins.hparams.list_session_groups import Handler

    multiplexer: Any = EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(logdir))
    multiplexer.Reload()
    tab = Context(TBContext(data_provider=MultiplexerDataProvider(multiplexer, str(logdir))))
    asked = RequestContext()
    experiment = tab.experiment_from_metadata(asked, "", True, tab.hparams_metadata(asked, ""), [])
    domains = {
        info.name: (info.domain_interval.min_value, info.domain_interval.max_value)
        if info.HasField("domain_interval")
        else sorted(getattr(value, value.WhichOneof("kind")) for value in info.domain_discrete.values)
        for info in experiment.hparam_infos
    }
    request = api_pb2.ListSessionGroupsRequest(slice_size=100, aggregation_type=api_pb2.AGGREGATION_AVG)
    request.allowed_statuses.extend(api_pb2.Status.values())
    groups = {}
    for group in Handler(asked, tab, "", request).run().session_groups:
        metrics = {metric.name.tag: metric.value for metric in group.metric_values}
        groups[group.name] = {"trials": sorted(session.name for session in group.sessions), **metrics}
    return domains, groups


def test_the_hparams_tab_lists_configurations_with_the_mean_of_their_seeds(tmp_path: Path) -> None:
    for number, (lr, env, mean) in enumerate([(0.5, "A", 1.0), (0.5, "A", 3.0), (0.25, "B", 5.0)]):
        trial = tmp_path / "sweep" / f"{number:03d}"
        trial.mkdir(parents=True)
        writer = ResultWriter(trial, {"lr": lr, "env": env, "deep": True, "hiddens": [64, 64], "limit": None})
        for iteration in (1, 2):
            writer.write({"iteration": iteration, "env_steps": iteration, "episode_return_mean": iteration * mean})
        writer.close()
    domains, groups = hparams_tab(tmp_path)
    assert domains == {"lr": (0.25, 0.5), "env": ["A", "B"], "deep": [True], "hiddens": ["[64, 64]"]}
    assert groups == {
        "sweep: lr=0.5, env=A, deep=True, hiddens=[64, 64], limit=None": {
            "trials": ["sweep/000", "sweep/001"],
            "training/iteration": 2,
            "training/env_steps": 2,
            "episodes/episode_return_mean": 4.0,
        },
        "sweep: lr=0.25, env=B, deep=True, hiddens=[64, 64], limit=None": {
            "trials": ["sweep/002"],
            "training/iteration": 2,
            "training/env_steps": 2,
            "episodes/episode_return_mean": 10.0,
        },
    }


def test_a_resumed_trial_remains_a_single_entry_in_the_hparams_tab(tmp_path: Path) -> None:
    (tmp_path / "000").mkdir()
    for iteration in (1, 2):
        writer = ResultWriter(tmp_path / "000", {"lr": 0.5})
        writer.write({"iteration": iteration, "env_steps": iteration})
        writer.close()
    domains, groups = hparams_tab(tmp_path)
    assert domains == {"lr": (0.5, 0.5)}
    assert [group["training/env_steps"] for group in groups.values()] == [2]
