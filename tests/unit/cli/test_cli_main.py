"""The command group: names, help, and messages of failed commands."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from rlrun import PPO
from rlrun.cli.exits import explain, explained_errors
from rlrun.cli.main import COMMANDS, SECTIONS, cli
from rlrun.engine.checkpoint.state_codec import decode
from rlrun.engine.messages import errors
from rlrun.engine.messages.foreign_names import table
from rlrun.engine.settings.commented_yaml import MAIN_SETTINGS, main_settings
from rlrun.engine.settings.registry import BUILT_IN, algorithm_class

ROOT = Path(__file__).resolve().parents[3]


def run_raising(error: BaseException) -> tuple[int, str, str]:
    """Runs a command that raises; returns exit code, stdout and stderr."""

    @click.command()
    def failing() -> None:
        click.echo("before")
        with explained_errors():
            raise error

    result = CliRunner().invoke(failing, [])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_a_help_text(name: str) -> None:
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")
    assert len(result.stdout.splitlines()) > 5


def test_the_help_names_every_command() -> None:
    result = CliRunner().invoke(cli, ["-h"])
    assert result.exit_code == 0
    words = re.findall(r"[\w-]+", result.stdout)
    assert set(COMMANDS) <= set(words)


def test_the_help_explains_a_dozen_commands_to_start_with() -> None:
    lines = CliRunner().invoke(cli, ["-h"]).stdout.splitlines()
    first = lines.index("Commands to start with:") + 1
    assert [line.split()[0] for line in lines[first : first + 12]] == list(SECTIONS["First steps"])
    assert all(len(line.split()) > 3 for line in lines[first : first + 12])


def test_no_line_of_the_help_is_cut_at_80_columns() -> None:
    result = CliRunner().invoke(cli, ["--help"], terminal_width=80)
    assert "..." not in result.stdout.replace("[ARGS]...", "")


def test_an_unknown_command_is_refused_with_the_closest_name(wording) -> None:
    result = CliRunner().invoke(cli, ["trian"])
    assert result.exit_code == 2
    assert wording("trian", "train") in result.stderr.splitlines()


@pytest.mark.parametrize("command", table()["commands"])
def test_a_command_known_from_another_library_is_refused_with_its_equivalent_in_rlrun(command: str, wording) -> None:
    result = CliRunner().invoke(cli, [command])
    assert result.exit_code == 2
    assert wording(command, table()["commands"][command]) in result.stderr.splitlines()
    assert command not in COMMANDS
    typed = re.findall(r"`rlrun (\w+)", table()["commands"][command])
    assert all(name in COMMANDS for name in typed)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--total-timesteps", "use --set stop.env_steps=VALUE"),
        ("--seeds", "use --set seeds=VALUE"),
        ("--lr", "use --set config.lr=VALUE"),
        ("--learning-rate", "use --set config.lr=VALUE"),
        ("--batch-size", "use --set config.train_batch_size=VALUE or --set config.minibatch_size=VALUE"),
        ("--algo", "use --algorithm"),
    ],
)
def test_an_option_that_is_actually_a_setting_is_refused_with_advice_on_how_to_set_it(
    option: str, said: str, wording
) -> None:
    result = CliRunner().invoke(cli, ["train", "cartpole/ppo", option, "3"])
    assert result.exit_code == 2
    assert result.stderr == wording(option, said)


def test_commands_that_lack_the_set_option_do_not_suggest_it_for_unknown_options() -> None:
    assert "--set" not in CliRunner().invoke(cli, ["runs", "--seeds", "3"]).stderr


def test_an_unknown_option_is_refused_with_the_closest_name() -> None:
    result = CliRunner().invoke(cli, ["train", "--sede", "1"])
    assert result.exit_code == 2
    assert "--sede" in result.stderr
    assert "--seed" in result.stderr


def test_an_unknown_option_before_the_command_is_a_usage_error() -> None:
    result = CliRunner().invoke(cli, ["--nothing", "runs"])
    assert result.exit_code == 2
    assert "--nothing" in result.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError("no"), 2),
        (errors.TargetMissed("no"), 3),
        (errors.TrainingFailed("no"), 4),
        (errors.CheckpointError("no"), 5),
        (errors.CheckpointCorrupt("no"), 5),
        (errors.CheckpointRefused("no"), 5),
        (errors.EnvironmentUnusable("no"), 6),
        (errors.OutOfResources("no"), 7),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_an_rlrun_error_is_printed_in_one_line_and_sets_its_exit_code(error: errors.RlrunError, code: int) -> None:
    assert run_raising(error) == (code, "before\n", "Error: no\n")


def test_a_spec_error_is_printed_with_one_line_per_problem() -> None:
    problems = [
        errors.Problem("a.lr", "must be positive", file="x.yaml", line=3, column=7),
        errors.Problem("a.env", "is missing", file="x.yaml", line=1, column=1),
    ]
    expected = "x.yaml:3:7: a.lr: must be positive\nx.yaml:1:1: a.env: is missing\n"
    assert run_raising(errors.SpecError(problems)) == (2, "before\n", expected)


def test_for_a_bug_the_traceback_is_printed_with_a_request_to_report_it() -> None:
    with pytest.raises(ValueError, match=r"\$float with 1") as raised:
        decode({"$float": 1}, ())
    below_this_file = raised.tb.tb_next
    code, text = explain(raised.value.with_traceback(below_this_file))
    assert code == 1
    assert text.startswith("Traceback (most recent call last):")
    assert "in decode\n" in text
    assert "bug in rlrun" in text


def test_an_error_in_code_outside_rlrun_names_its_function_and_is_not_reported_as_a_bug() -> None:
    code, _, stderr = run_raising(KeyError("surprise"))
    assert code == 4
    assert stderr.startswith(f"Error: run_raising.<locals>.failing failed in {__file__}:\nTraceback (most recent call")
    assert stderr.endswith("KeyError: 'surprise'\n")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (MemoryError(), "Error: out of memory"),
        (MemoryError("8 GiB"), "Error: out of memory: 8 GiB"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), "can't allocate"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "CUDA out of memory"),
        (OSError(errno.ENOSPC, "No space left on device", "runs/a"), "Error: no space left on the disk: runs/a"),
        (OSError(errno.ENOSPC, "No space left on device"), "Error: no space left on the disk"),
        (
            OSError(errno.EFBIG, "File too large", "runs/a"),
            "Error: a file has reached the size limit: runs/a: raise `ulimit -f`",
        ),
        (OSError(errno.EMFILE, "Too many open files", "a"), "Error: too many open files: a: raise `ulimit -n`"),
        (OSError(errno.EROFS, "Read-only file system", "runs"), "Error: the file system is read-only: runs"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "Error: out of memory"),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), "Error: out of memory: libtorch"),
        (RuntimeError("can't start new thread"), "Error: out of memory: can't start new thread"),
    ],
    ids=repr,
)
def test_commands_exit_with_code_7_if_the_disk_memory_or_file_limit_is_exhausted(error: Exception, text: str) -> None:
    code, _, stderr = run_raising(error)
    assert code == 7
    assert text in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.RlrunError("x"), 1),
        (errors.UsageError("x"), 2),
        (errors.SpecError([]), 2),
        (errors.TargetMissed("x"), 3),
        (errors.TrainingFailed("x"), 4),
        (errors.RayEnded("x"), 4),
        (SystemExit(0), 4),
        (errors.CheckpointCorrupt("x"), 5),
        (errors.CheckpointRefused("x"), 5),
        (errors.RunDamaged("x"), 5),
        (errors.EnvironmentUnusable("x"), 6),
        (errors.OutOfResources("x"), 7),
        (errors.DiskFull("x"), 7),
        (errors.Interrupted("x"), 130),
    ],
    ids=repr,
)
def test_every_error_sets_its_documented_exit_code(error: Exception, code: int) -> None:
    assert run_raising(error)[0] == code


@pytest.mark.parametrize(
    "words",
    [
        ["train", "--algorithm", "ppo", "--env", "NoSuchEnv-v0"],
        ["plan", "--algorithm", "ppo", "--env", "NoSuchEnv-v0"],
        ["demonstrate", "--policy", "math:sqrt", "--env", "NoSuchEnv-v0", "--output", "x.npz"],
    ],
)
def test_an_env_that_does_not_exist_is_a_usage_error_in_every_command(words: list[str]) -> None:
    done = CliRunner().invoke(cli, words)
    assert (done.exit_code, "Traceback" in done.output) == (2, False), done.output


def test_training_exits_with_code_7_if_the_runs_dir_is_not_writable(wording) -> None:
    done = CliRunner().invoke(cli, ["train", "--algorithm", "ppo", "--env", "CartPole-v1", "--runs-dir", "/sys/runs"])
    assert done.exit_code == 7
    assert done.stderr == wording("/sys/runs")


def test_a_path_without_permission_is_a_usage_error(wording) -> None:
    error = PermissionError(errno.EACCES, "Permission denied", "/root/runs")
    assert run_raising(error) == (2, "before\n", wording("/root/runs"))


@pytest.mark.parametrize("signal_name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("module", ["rlrun.cli.main", "rlrun.cli.runs", "rlrun.cli.targets"])
def test_a_command_exits_with_code_130_if_a_signal_arrives_while_files_are_imported(
    signal_name: str, module: str
) -> None:
    program = f"""
import os, signal, sys
class Signals:
    def find_spec(self, name, *_):
        if name == "{module}":
            exec("os.kill(os.getpid(), signal.{signal_name})")  # in a text, of which Python would remember an interrupt
sys.meta_path.insert(0, Signals())
from rlrun.__main__ import run
run()
"""
    done = subprocess.run([sys.executable, "-c", program, "runs"], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (130, "\nInterrupted.\n")


def test_a_command_exits_with_code_130_even_if_a_library_turns_the_signal_into_an_error() -> None:
    program = """
import os, signal, sys
class Signals:
    def find_spec(self, name, *_):
        if name == "rlrun.cli.targets":
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            except BaseException:
                raise ValueError("cannot be built")
sys.meta_path.insert(0, Signals())
from rlrun.__main__ import run
run()
"""
    done = subprocess.run([sys.executable, "-c", program, "runs"], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (130, "\nInterrupted.\n")


def test_a_signal_ignored_by_the_calling_process_stays_ignored() -> None:
    program = """
import os, signal
signal.signal(signal.SIGHUP, signal.SIG_IGN)
from rlrun.__main__ import run
from rlrun.engine.processes.signals import listen
listen()
os.kill(os.getpid(), signal.SIGHUP)
run()
"""
    done = subprocess.run([sys.executable, "-c", program, "--version"], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout[:6]) == (0, "rlrun ")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])  # click raises the latter at a prompt
def test_an_interrupted_command_exits_with_code_130(error: BaseException) -> None:
    assert run_raising(error) == (130, "before\n", "\nInterrupted.\n")


def test_an_interrupted_run_says_how_to_resume() -> None:
    error = errors.Interrupted("SIGINT: stopped; continue with: rlrun resume runs/a")
    assert run_raising(error) == (130, "before\n", "SIGINT: stopped; continue with: rlrun resume runs/a\n")


def test_a_command_whose_output_pipe_is_closed_exits_with_code_141_and_no_message() -> None:
    code, _, stderr = run_raising(BrokenPipeError(errno.EPIPE, "Broken pipe"))
    assert (code, stderr) == (141, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_command_prints_a_script_that_asks_rlrun_for_completions(shell: str) -> None:
    result = CliRunner().invoke(cli, ["completion", shell])
    assert result.exit_code == 0
    assert "_RLRUN_COMPLETE" in result.stdout


def test_the_completion_command_refuses_an_unknown_shell_and_lists_the_known_ones() -> None:
    result = CliRunner().invoke(cli, ["completion", "tcsh"])
    assert result.exit_code == 2
    assert all(shell in result.stderr for shell in ("bash", "zsh", "fish"))


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("rlrun res", "resume"), ("rlrun config p", "ppo"), ("rlrun train --exec", "--executor")],
)
def test_the_shell_receives_completions_of_commands_arguments_and_options(typed: str, offered: str) -> None:
    words = typed.split()
    asked = {"_RLRUN_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", "rlrun"], cwd=ROOT, env=os.environ | asked, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert f"plain,{offered}" in done.stdout.splitlines()


def test_bash_adds_no_space_after_the_completed_key_of_a_setting(tmp_path: Path) -> None:
    (tmp_path / "rlrun").write_text(f'#!/bin/sh\nexec {sys.executable} -m rlrun "$@"\n')
    (tmp_path / "rlrun").chmod(0o755)
    program = """
eval "$(rlrun completion bash)"
compopt() { echo compopt "$@"; }
COMP_WORDS=(rlrun train cartpole/ppo --set config.gae)
COMP_CWORD=4
_rlrun_completion rlrun
echo "${COMPREPLY[@]}"
"""
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", program], cwd=ROOT, env=os.environ | {"PATH": path}, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["compopt -o nospace", "config.gae_lambda="], done.stderr


@pytest.mark.parametrize("closed", ["1", "2"])
def test_a_command_started_with_stdout_or_stderr_closed_succeeds(closed: str, tmp_path: Path) -> None:
    words = ["runs", "--runs-dir", str(tmp_path)]
    command = ["bash", "-c", f'exec "$@" {closed}>&-', "bash", sys.executable, "-m", "rlrun", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_error_with_which_a_thread_ends_the_process_is_printed_as_json() -> None:
    program = """
import threading
import time
from rlrun.cli import runs
from rlrun.cli.main import main
from rlrun.engine.messages.errors import RayEnded
from rlrun.engine.processes.process_end import end_process

def waits_for_ever():
    threading.Thread(target=end_process, args=[RayEnded("Ray has ended; go on")]).start()
    time.sleep(10_000)

runs.runs.callback = lambda **options: waits_for_ever()
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, "runs", "--json"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    error = {"message": "Ray has ended; go on", "exit_code": 4, "problems": []}
    assert (done.returncode, json.loads(done.stdout)) == (4, {"schema": 1, "error": error}), done.stderr


@pytest.mark.parametrize("words", [["train", "a.yaml"], ["train", "a.yaml", "--json"], ["resume", "a"]])
def test_a_process_that_exits_silently_with_code_0_during_a_run_counts_as_failed(words: list[str]) -> None:
    program = """
import os
from rlrun.__main__ import run
from rlrun.cli import resume, train
train.train.callback = resume.resume.callback = lambda **options: os._exit(0)  # as an env's native code may
run()
"""
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=100)
    told = "the process ended with exit code 0 during the command, because code outside rlrun"
    assert (done.returncode, done.stderr[: len(told) + 7]) == (4, f"Error: {told}")
    error = {"message": done.stderr.removeprefix("Error: ").rstrip(), "exit_code": 4, "problems": []}
    assert done.stdout == (json.dumps({"schema": 1, "error": error}, indent=2) + "\n" if "--json" in words else "")


def test_a_run_ended_through_end_process_keeps_its_exit_code() -> None:
    program = """
from rlrun.__main__ import run
from rlrun.cli import train
from rlrun.engine.messages.errors import RayEnded
from rlrun.engine.processes.process_end import end_process
train.train.callback = lambda **options: end_process(RayEnded("told already"))
run()
"""
    done = subprocess.run([sys.executable, "-c", program, "train"], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (4, "")


WITHOUT_JSON = {"client", "play", "serve", "schema", "completion"}
"""Commands that print a program, a script or a schema, or that serve requests until they are stopped."""


def commands_below(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for each in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), each)
            assert below is not None
            yield from commands_below(below, f"{name} {each}".strip())
    else:
        yield name, command


def test_every_reporting_command_supports_json() -> None:
    without = {
        name
        for name, command in commands_below(cli, "")
        if not any("--json" in parameter.opts for parameter in command.params)
    }
    assert without == WITHOUT_JSON


def test_the_commands_config_docs_and_plan_support_json() -> None:
    settings = json.loads(CliRunner().invoke(cli, ["config", "ppo", "--json"]).stdout)["settings"]
    assert (settings["lr"], settings["model"]["activation"]) == (3e-4, "tanh")
    pages = json.loads(CliRunner().invoke(cli, ["docs", "--json"]).stdout)["pages"]
    assert "algorithms/ppo" in [page["page"] for page in pages]
    assert json.loads(CliRunner().invoke(cli, ["docs", "algorithms/ppo", "--json"]).stdout)["text"].startswith(
        "# Proximal policy"
    )
    plan = json.loads(CliRunner().invoke(cli, ["plan", "ppo", "--json"]).stdout)
    assert plan["text"] == CliRunner().invoke(cli, ["plan", "ppo"]).stdout.rstrip("\n")


def test_the_config_command_prints_ten_main_settings_or_all_settings_if_asked() -> None:
    shown = yaml.safe_load(CliRunner().invoke(cli, ["config", "ppo"]).stdout)
    everything = yaml.safe_load(CliRunner().invoke(cli, ["config", "ppo", "--all"]).stdout)
    assert len(shown) == 10
    assert {"lr", "gamma", "minibatch_size", "clip_param"} <= set(shown)
    assert shown.items() <= everything.items()
    assert list(everything) == list(PPO.Config.model_fields)


def test_every_main_setting_belongs_to_some_algorithm_and_no_algorithm_has_more_than_ten_of_them() -> None:
    models = [algorithm_class(name).Config for name in BUILT_IN]
    assert set(MAIN_SETTINGS) <= {name for model in models for name in model.model_fields}
    assert {len(main_settings(model)) for model in models} <= set(range(1, 11))


def test_the_init_command_prints_the_name_of_the_written_file_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = json.loads(CliRunner().invoke(cli, ["init", "--algorithm", "a2c", "--env", "Acrobot-v1", "--json"]).stdout)
    assert Path(found["file"]).read_text() == found["text"]
    assert next(iter(yaml.safe_load(found["text"]).values()))["algorithm"] == "a2c"
