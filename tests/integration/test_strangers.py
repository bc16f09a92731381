"""Effects of foreign envs and plugins on the command line, in a separate process if they could end this one."""

import json
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import strange_envs
from click.testing import CliRunner, Result

from rlrun.cli.main import cli
from rlrun.engine.envs.episode_position import EpisodeSeeds

ROOT = Path(__file__).resolve().parents[2]
HERE = str(Path(__file__).parent)
PLUGINS = Path(HERE, "strange_plugins.py")
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), HERE])}


def rlrun(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rlrun", *map(str, words)]
    return subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=800)


def here(folder: Path, *words: object) -> Result:
    """Runs a command in this process."""
    return CliRunner().invoke(cli, [*map(str, words), "--runs-dir", str(folder / "runs")])


def spec(folder: Path, *, env: str = "CartPole-v1", algorithm: str = "ppo", more: str = "", slots: int = 1) -> Path:
    file = folder / "strange.yaml"
    file.write_text(
        f"strange:\n  algorithm: {algorithm}\n  env: {env}\n  stop: {{env_steps: 600}}\n"
        f"  config: {{num_envs_per_worker: {slots}, rollout_fragment_length: 64, train_batch_size: 128, "
        f"min_env_steps_per_iteration: 0}}\n{more}"
    )
    return file


def test_an_env_that_exits_with_0_fails_the_training_and_the_json_output_holds_the_error(tmp_path: Path) -> None:
    done = here(tmp_path, "train", "-f", spec(tmp_path, env="strange_envs:Exits"), "--json")
    assert done.exit_code == 4
    assert "env strange_envs:Exits raised an exception in step() (worker 0, env 0, episode 14 with seed" in done.stderr
    assert "SystemExit: 0" in done.stderr
    assert json.loads(done.stdout)["error"]["exit_code"] == 4
    assert "SystemExit: 0" in json.loads(done.stdout)["error"]["message"]


@pytest.mark.parametrize("env", ["strange_envs:Exits", "{id: 'strange_envs:FailsToBegin', kwargs: {at: factory}}"])
def test_a_regression_run_fails_if_its_env_exits_or_cannot_be_created(tmp_path: Path, env: str) -> None:
    file = spec(tmp_path, env=env, more="  expect: {episode_return_mean: 10}\n")
    done = here(tmp_path, "regress", "-f", file, "--junit", tmp_path / "junit.xml")
    assert done.exit_code == 4
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()[0]
    assert (suite.get("errors"), suite.get("failures")) == ("1", "1")


@pytest.mark.parametrize("plugin", ["ExitsInLoss", "ExitsInLearn", "ExitsInPolicy"])
def test_a_plugin_that_exits_with_0_fails_the_training(tmp_path: Path, plugin: str) -> None:
    done = here(tmp_path, "train", "-f", spec(tmp_path, algorithm=f"strange_plugins:{plugin}"))
    assert done.exit_code == 4
    assert "Error: code outside rlrun tried to end the process:\n" in done.stderr
    assert "strange_plugins.py" in done.stderr
    assert done.stderr.rstrip().endswith("SystemExit: 0")


def test_an_env_crash_is_shown_with_its_source_file_and_later_commands_name_its_episode(
    tmp_path: Path, wording, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = rlrun(tmp_path, "train", "-f", spec(tmp_path, env="strange_envs:Crashes", slots=2))
    assert done.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in done.stderr
    assert "strange_envs.py" in done.stderr
    seed = EpisodeSeeds(run_seed=0, worker_index=0).seed(env_index=1, episode=2)
    place = (
        f"env strange_envs:Crashes (env 1, episode 2 with seed {seed}). If the env crashed (segmentation fault), set"
    )
    for command in ("status", "show"):
        told = here(tmp_path, command, "strange")
        assert (told.exit_code, wording(place) in told.stdout.splitlines()) == (0, True)
    data = json.loads(here(tmp_path, "status", "strange", "--json").stdout)
    assert data["trials"][0]["ended_in"] == wording("strange_envs:Crashes")
    monkeypatch.setattr(strange_envs.Crashes, "step", strange_envs.StrangeEnv.step)  # the env does not crash again
    again = here(tmp_path, "resume", "strange")
    assert wording(place) in again.stderr.splitlines()


@pytest.mark.usefixtures("running_ray")
def test_an_env_crash_in_a_worker_is_reported_with_its_episode(tmp_path: Path) -> None:
    sets = ("--set", "config.num_workers=1", "--set", "config.max_worker_restarts=0")
    done = here(tmp_path, "train", "-f", spec(tmp_path, env="strange_envs:Crashes", slots=2), *sets)
    assert done.exit_code == 4, done.stderr
    seed = EpisodeSeeds(run_seed=0, worker_index=1).seed(env_index=1, episode=2)
    told = rf"rollout worker 1 died \(.*\) in env strange_envs:Crashes \(env 1, episode 2 with seed {seed}\), and "
    assert re.search(told, done.stderr), done.stderr


def strange_world(misdeed: str) -> tuple[str, str]:
    """Returns an env for an entry with two envs in a worker, and the place at which the second one misbehaves."""
    seed = EpisodeSeeds(run_seed=0, worker_index=0).seed(env_index=1, episode=2)
    env = f"{{world: 'strange_envs:StrangeWorld', kwargs: {{misdeed: {misdeed}, seed: {seed}}}}}"
    return env, f"world 1, episode 2 with seed {seed}"


@pytest.mark.regress
def test_a_crash_of_a_world_is_reported_with_the_world_and_its_episode(tmp_path: Path) -> None:
    env, place = strange_world("crashes")
    done = rlrun(tmp_path, "train", "-f", spec(tmp_path, env=env, slots=2))
    assert done.returncode == -signal.SIGSEGV
    told = f": the trial's process died while stepping env strange_envs:StrangeWorld ({place}). If the env crashed"
    for command in ("status", "show"):
        assert told in here(tmp_path, command, "strange").stdout


def test_a_world_that_hangs_is_reported_with_its_episode_and_fails_the_training(tmp_path: Path) -> None:
    env, place = strange_world("hangs")
    done = here(tmp_path, "train", "-f", spec(tmp_path, env=env, slots=2), "--set", "config.worker_timeout_s=2")
    assert done.exit_code == 4, done.stderr
    told = rf"env strange_envs:StrangeWorld: worker 0: no step has finished for \d+ s \(worker 0, {place}, step 10\)"
    assert re.search(told, done.stderr)
    assert f"env strange_envs:StrangeWorld raised an exception in step() (worker 0, {place}, step 10)" in done.stderr
    assert "no step finished within 2 s (worker_timeout_s)" in done.stderr


def test_stdout_stays_valid_json_if_an_env_prints(tmp_path: Path) -> None:
    done = rlrun(tmp_path, "train", "-f", spec(tmp_path, env="strange_envs:Prints"), "--json")
    assert done.returncode == 0, done.stderr
    (trial,) = json.loads(done.stdout)["trials"]
    assert trial["status"] == "TERMINATED"
    assert "a word from Python\n" in done.stderr
    assert "a word from C\n" in done.stderr
    assert done.stderr.endswith("a last word\n")


@pytest.mark.regress
def test_a_sweep_on_ray_prints_only_json_to_stdout_even_if_envs_print(tmp_path: Path, wording) -> None:
    file = spec(tmp_path, env="strange_envs:Prints")
    sets = ("--set", "config.lr={grid_search: [1e-3, 1e-4]}", "--set", "config.num_workers=1")
    done = rlrun(tmp_path, "train", "-f", file, "--json", *sets)
    assert done.returncode == 0, done.stderr
    assert [(trial["name"], trial["status"]) for trial in json.loads(done.stdout)["trials"]] == [
        ("000-lr=0.001-seed=0", "TERMINATED"),
        ("001-lr=0.0001-seed=0", "TERMINATED"),
    ]
    assert done.stderr.splitlines()[0] == wording()
    # The output of the envs goes to the run's log.
    starts = ("strange", "starting Ray", "00", "2 trials")
    assert all(line.startswith(starts) for line in done.stderr.splitlines()), done.stderr
    shown = here(tmp_path, "evaluate", "strange")
    assert shown.exit_code == 2
    assert "001-lr=0.0001-seed=0" in shown.stderr


def test_spec_and_command_line_errors_are_reported_as_json(tmp_path: Path) -> None:
    file = spec(tmp_path, more="  stopp: 1\n")
    done = here(tmp_path, "train", "-f", file, "--json")
    assert done.exit_code == 2
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    (problem,) = document["error"]["problems"]
    assert (problem["path"], problem["line"]) == ("strange.stopp", 6)
    assert done.stderr.strip() == document["error"]["message"]
    done = here(tmp_path, "status", "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["error"]["message"] == "Missing argument 'RUN'."


def test_a_hanging_step_is_reported_and_fails_the_training_after_worker_timeout_s(tmp_path: Path) -> None:
    file = spec(tmp_path, env="strange_envs:Hangs")
    done = here(tmp_path, "train", "-f", file, "--set", "config.worker_timeout_s=2")
    assert done.exit_code == 4, done.stderr
    place = r"worker 0, env 0, episode 14 with seed \d+, step 20"
    assert re.search(rf"env strange_envs:Hangs: worker 0: no step has finished for \d+ s \({place}\)", done.stderr)
    assert re.search(rf"env strange_envs:Hangs raised an exception in step\(\) \({place}\)", done.stderr)
    assert "no step finished within 2 s (worker_timeout_s)" in done.stderr


@pytest.mark.parametrize(
    ("env", "more", "told"),
    [
        (
            "strange_envs:hangs_when_made",
            "",
            r"making it \(worker 0, env 0\) took more than 1 s \(worker_timeout_s\)",
        ),
        (
            "strange_envs:StrangeEnv",
            "  evaluation: {every: 1, episodes: 130, env: 'strange_envs:Hangs'}\n",
            r"env strange_envs:Hangs: evaluation: no step finished within 1 s \(worker_timeout_s\)",
        ),
    ],
)
def test_an_env_that_hangs_during_its_creation_or_evaluation_fails_the_training(
    tmp_path: Path, env: str, more: str, told: str
) -> None:
    file = spec(tmp_path, env=env, more=more)
    done = here(tmp_path, "train", "-f", file, "--set", "config.worker_timeout_s=1")
    assert done.exit_code == 4, done.stderr
    assert re.search(told, done.stderr)
    assert "time.sleep(10_000)" in done.stderr


def test_an_env_that_hangs_when_closed_causes_only_a_warning(tmp_path: Path) -> None:
    file = spec(tmp_path, env="strange_envs:HangsWhenClosed")
    with pytest.warns(UserWarning, match=r"closing it \(.*\) took more than 1 s \(worker_timeout_s\)"):
        done = here(tmp_path, "train", "-f", file, "--set", "config.worker_timeout_s=1")
    assert done.exit_code == 0, done.stderr


def test_the_first_interrupt_ends_a_hung_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlrun.engine.envs.env_watch.INTERRUPT_S", 1.0)
    file = spec(tmp_path, env="strange_envs:HangsUntilStopped")
    done = here(tmp_path, "train", "-f", file, "--set", "config.worker_timeout_s=6000")
    assert done.exit_code == 130, done.stderr
    assert f"SIGINT: stopped; continue with: rlrun resume {tmp_path}/runs/strange" in done.stderr


@pytest.mark.parametrize(
    ("plugin", "exit_code", "told"),
    [
        ("WithoutConfig", 2, "'strange_plugins:WithoutConfig' needs a class attribute Config that is derived from"),
        ("LossReturnsDict", 4, "the loss of objective loss must return a Loss, not dict"),
        ("ObjectivesReturnNone", 4, "ObjectivesReturnNone.objectives() must return a list, not NoneType"),
        ("PolicyReturnsNone", 4, "PolicyReturnsNone.policy() must return a Policy, not NoneType"),
        ("LearnReturnsNone", 4, "LearnReturnsNone.learn() must return a Flow, not NoneType: is a return statement"),
        ("CollectReturnsNone", 4, "CollectReturnsNone.collect() must return a Flow, not NoneType"),
        ("WithoutParameters", 4, "WithoutParameters.objectives(): objective loss: no parameter name starts with"),
        ("WithoutMethods", 2, "WithoutMethods does not define how it learns: write learn(self, items, trainee)"),
        ("RaisesInInit", 4, f"RaisesInInit.__init__ failed in {PLUGINS}:\nTraceback (most recent call last):"),
        (
            "ReadsWhatThereIsNot",
            4,
            f"ReadsWhatThereIsNot failed in {PLUGINS}:\nTraceback (most recent call last):",
        ),
        ("InitWithoutConfig", 4, f"write __init__(self, config), as in Algorithm; it is in {PLUGINS}"),
        ("InitWithoutSuper", 4, "'InitWithoutSuper' object has no attribute 'config', which rlrun needs: derive"),
        ("LearnWithoutTrainee", 4, "LearnWithoutTrainee.learn() takes 2 positional arguments but 3 were given: write"),
        ("PolicyWithoutSpaces", 4, f"write policy(self, spaces, seed), as in Algorithm; it is in {PLUGINS}"),
        ("LossOfOutputs", 4, f"write loss(self, outputs, batch, scheduled), as in PPO; it is in {PLUGINS}"),
        ("MakesHalfAPolicy", 4, "Can't instantiate abstract class HalfAPolicy with abstract methods behavior, outputs"),
        ("OperatesOnNothing", 4, "TakesNothing.__call__() takes 1 positional argument but 2 were given: it is in"),
    ],
)
def test_a_plugin_error_is_not_reported_as_a_bug_in_rlrun(
    tmp_path: Path, plugin: str, exit_code: int, told: str
) -> None:
    done = here(tmp_path, "train", "-f", spec(tmp_path, algorithm=f"strange_plugins:{plugin}"))
    assert done.exit_code == exit_code, done.stderr
    assert told in done.stderr
    assert "bug in rlrun" not in done.stderr


@pytest.mark.parametrize("words", [("validate",), ("plan", "-f"), ("metrics", "-f")])
def test_every_command_that_instantiates_a_plugin_attributes_errors_to_it(
    tmp_path: Path, words: tuple[str], wording
) -> None:
    done = CliRunner().invoke(cli, [*words, str(spec(tmp_path, algorithm="strange_plugins:RaisesInInit"))])
    assert done.exit_code == 4, done.stderr
    assert wording(PLUGINS, "RaisesInInit.__init__") in done.stderr.splitlines()
    assert done.stderr.endswith("ValueError: my settings\n")


def limited(folder: Path, limit: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Runs a command in a separate process, under a limit set by ``ulimit``."""
    command = ["bash", "-c", f'ulimit {limit}; exec "$@"', "bash", sys.executable, "-m", "rlrun", *map(str, words)]
    return subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=800)


def test_the_error_for_running_out_of_file_descriptors_names_the_limit_to_raise(tmp_path: Path, wording) -> None:
    done = limited(tmp_path, "-n 8", "train", "-f", spec(tmp_path))
    assert done.returncode == 7, done.stderr
    assert done.stderr.splitlines()[-1] == wording()
    assert done.stderr == wording("ulimit -n")


def test_hitting_a_memory_limit_is_reported_as_out_of_memory(tmp_path: Path) -> None:
    done = limited(tmp_path, "-v 300000", "train", "-f", spec(tmp_path))
    assert done.returncode == 7, done.stderr
    assert "Error: out of memory" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_keyboard_interrupt_raised_by_an_env_ends_the_run_as_ctrl_c_does(tmp_path: Path) -> None:
    done = here(tmp_path, "train", "-f", spec(tmp_path, env="strange_envs:Interrupts"))
    assert done.exit_code == 130, done.stderr
    assert f"SIGINT: stopped; continue with: rlrun resume {tmp_path}/runs/strange" in done.stderr


def test_training_on_an_unusable_env_exits_with_code_6_and_leaves_no_run(tmp_path: Path, wording) -> None:
    done = here(tmp_path, "train", "-f", spec(tmp_path, env="strange_envs:WithoutActions"))
    assert done.exit_code == 6, done.stderr
    assert wording("strange_envs:WithoutActions", "action_space") in done.stderr.splitlines()
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize("kwargs", ["at: factory", "at: factory, exits: true", "at: 1", "at: 1, exits: true"])
def test_training_on_an_env_that_fails_before_its_first_step_exits_with_code_4_and_leaves_no_run(
    tmp_path: Path, kwargs: str
) -> None:
    env = f"{{id: 'strange_envs:FailsToBegin', kwargs: {{{kwargs}}}}}"
    done = here(tmp_path, "train", "-f", spec(tmp_path, env=env, more="  seeds: 2\n"), "--executor", "local")
    assert done.exit_code == 4, done.stderr
    assert "strange_envs:FailsToBegin raised" in done.stderr
    assert list((tmp_path / "runs").iterdir()) == []


def test_training_in_a_world_that_fails_in_its_first_reset_leaves_no_run(tmp_path: Path, wording) -> None:
    env = "{world: 'strange_envs:WorldWithoutBeginning'}"
    done = here(tmp_path, "train", "-f", spec(tmp_path, env=env))
    assert done.exit_code == 4, done.stderr
    assert wording("strange_envs:WorldWithoutBeginning") in done.stderr.splitlines()
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.usefixtures("running_ray")
def test_an_env_that_fails_to_start_on_a_worker_leaves_no_run(tmp_path: Path, wording) -> None:
    env = "{id: 'strange_envs:FailsToBegin', kwargs: {at: 1}}"
    done = here(tmp_path, "train", "-f", spec(tmp_path, env=env), "--set", "config.num_workers=1")
    assert done.exit_code == 4, done.stderr
    assert wording("strange_envs:FailsToBegin") in done.stderr.splitlines()
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("env", "more"),
    [
        ("{id: 'strange_envs:FailsToBegin', kwargs: {at: 2}}", ""),
        (
            "strange_envs:StrangeEnv",
            "  evaluation: {every: 1, env: {id: 'strange_envs:FailsToBegin', kwargs: {at: 1}}}\n",
        ),
    ],
)
def test_a_run_whose_env_fails_after_steps_were_collected_is_kept(tmp_path: Path, env: str, more: str, wording) -> None:
    done = here(tmp_path, "train", "-f", spec(tmp_path, env=env, more=more))
    assert done.exit_code == 4, done.stderr
    assert wording("strange_envs:FailsToBegin") in done.stderr.splitlines()
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["strange"]


def test_a_bug_in_rlrun_exits_with_code_1_and_asks_for_a_report(tmp_path: Path) -> None:
    program = """
import rlrun.cli.targets
from rlrun.cli.main import main
rlrun.cli.targets.run_names = None
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, "runs"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "TypeError: 'NoneType' object is not callable\n\nThis is a bug in rlrun. Please report it" in done.stderr
