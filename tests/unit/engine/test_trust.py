"""Who owns a run, and what another person's run, checkpoint or spec may ask for."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import rlrun
from rlrun.engine.checkpoint.format import read_checkpoint, write_checkpoint
from rlrun.engine.checkpoint.own_digest import without_digest
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.league.scripted_opponent import BUILT_IN, ScriptedOpponent
from rlrun.engine.messages.errors import CheckpointRefused, RunDamaged
from rlrun.engine.settings.registry import load_object
from rlrun.engine.trust import (
    env_risks,
    harmless,
    is_own_opponent,
    refuse_risks,
    refuse_risks_of_run,
    spec_risks,
    text_risks,
    why_not_own,
)
from rlrun.engine.worlds.world import World
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.spec.load import load_experiments, parse_experiments

CLIENTS = {
    "port": 9901,
    "host": "0.0.0.0",
    "spaces": {"observation": {"type": "Discrete", "n": 2}, "action": {"type": "Discrete", "n": 2}},
}
PLAIN: dict[str, Any] = {"algorithm": "ppo", "env": "CartPole-v1", "config": {"lr": 1e-3, "model": {"module": None}}}


def test_a_spec_that_consists_of_known_parts_has_no_risks() -> None:
    assert spec_risks({**PLAIN, "evaluation": {"env": "CartPole-v0", "every": 5}, "loggers": {}, "storage": None}) == []


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"env": {"external": CLIENTS}}, "`env.external` opens port 9901 on 0.0.0.0"),
        ({"evaluation": {"env": {"external": CLIENTS}}}, "`evaluation.env.external` opens port 9901"),
        ({"algorithm": "my_lab.awr:AWR"}, "`algorithm` runs custom code (my_lab.awr:AWR)"),
        (
            {"config": {"model": {"module": "rlrun.engine.nn.encoders:Encoder"}}},
            "`config.model.module` is 'rlrun.engine.nn.encoders:",
        ),
        (
            {"config": {"model": {"encoders": {"front": "os:system"}}}},
            "`config.model.encoders.front` is 'os:system', which",
        ),
        (
            {"config": {"replay": {"sampling": {"my_lab.emphasized:EmphasizedRecent": {}}}}},
            "`config.replay.sampling` runs custom code (my_lab.emphasized:EmphasizedRecent)",
        ),
        (
            {"config": {"exploration": "my_lab.ez_greedy:EZGreedy"}},
            "`config.exploration` is 'my_lab.ez_greedy:EZGreedy', wh",
        ),
        (
            {"config": {"demonstrations": "/home/me/x.npz"}},
            "`config.demonstrations` is '/home/me/x.npz', which may refer to",
        ),
        ({"config": {"expert": "expert"}}, "`config.expert` reads files"),
        ({"config": {"before_learning": [{"my_lab.hooks:Op": {}}]}}, "`config.before_learning` runs custom code"),
        (
            {"hooks": [{"my_lab.hooks:Plateau": {"patience": 3}}]},
            "`hooks` runs custom code ([{'my_lab.hooks:Plateau': {'patience': 3}}])",
        ),
        ({"hooks": [{}]}, "`hooks` runs custom code ([{}])"),
        ({"config": {"input": "expert"}}, "`config.input` reads files"),
        ({"evaluation": {"env": "my_lab.room:Room"}}, "`evaluation.env` runs custom code (my_lab.room:Room)"),
        ({"storage": "/mnt/x"}, "`storage` writes to /mnt/x"),
        ({"output": "/mnt/x"}, "`output` writes to /mnt/x"),
        ({"loggers": {"mlflow": {}}}, "`loggers` sends results to services"),
    ],
)
def test_each_risk_of_a_spec_is_named_with_its_path(part: dict[str, Any], said: str) -> None:
    (demand,) = spec_risks({**PLAIN, **part})
    assert said in demand


def test_a_repeated_risk_is_reported_once(wording) -> None:
    with wording.raised(CheckpointRefused):
        refuse_risks(["a", "b", "a"], "x: the run")
    refuse_risks([], "x: the run")


WORLD: dict[str, Any] = {
    "algorithm": "ppo + dqn",
    "env": {"world": "rlrun.toys:CartPoles"},
    "config": {"num_workers": 0},
    "policies": {"a": {"algorithm": "ppo", "config": {"lr": 1e-3}}, "b": {"algorithm": "dqn", "config": {}}},
    "mapping": {"pole_0": "a", "*": "b"},
}


def test_policies_that_consist_of_known_parts_have_no_risks() -> None:
    assert spec_risks(WORLD) == []


@pytest.mark.parametrize("path", sorted(harmless()["mappings"]))
def test_built_in_mappings_are_not_reported_as_risks(path: str) -> None:
    assert spec_risks({**WORLD, "mapping": path}) == []
    assert callable(load_object(path))


@pytest.mark.parametrize(
    "path",
    [
        "rlrun.engine.league.sides:re.sub",
        "rlrun.engine.league.sides:_side",
        "rlrun.engine.settings.registry:load_object",
    ],
)
def test_objects_in_rlruns_modules_not_known_to_be_harmless_are_reported_as_code_that_would_run(
    path: str, wording
) -> None:
    assert spec_risks({**WORLD, "mapping": path}) == wording(path)
    assert not is_own_opponent(path)


@pytest.mark.parametrize(
    "spec", ["cartpole/dagger", "cartpole/alphazero", "worlds/tic_tac_toe_league_ppo", "worlds/hex_alphazero"]
)
def test_shipped_specs_that_refer_to_objects_of_rlrun_have_no_risks(spec: str) -> None:
    (experiment,) = load_experiments([Path("configs") / f"{spec}.yaml"])
    assert spec_risks(experiment.first_trial().to_data()) == []


def test_risks_of_policies_and_of_their_mapping_are_named() -> None:
    policies = {
        "a": {"algorithm": "my_lab.awr:AWR", "config": {}},
        "b": {"algorithm": "dqn", "config": {"model": {"module": "os:x"}}},
    }
    assert spec_risks({**WORLD, "policies": policies, "mapping": "my_lab.roles:of"}) == [
        "`algorithm` runs custom code (my_lab.awr:AWR)",
        "`policies.b.config.model.module` is 'os:x', which may refer to a file or code",
        "`mapping` runs custom code (my_lab.roles:of)",
    ]


@pytest.mark.parametrize(
    "env",
    [
        "CartPole-v1",
        "ALE/Pong-v5",
        "HalfCheetah-v5",
        "rlrun.toys:DictCartPole",
        {"id": "FrozenLake-v1", "kwargs": {"map_name": "4x4", "is_slippery": False, "desc": ["SFFF", "FHFG"]}},
        {
            "id": "CartPole-v1",
            "wrappers": ["TimeAwareObservation", {"id": "FrameStackObservation", "kwargs": {"n": 4}}],
        },
        {"id": "CartPole-v1", "reset_options": {"low": -0.1, "high": 0.1}},
        "NoSuchEnv-v0",
        "Reacher-v2",
    ],
)
def test_known_envs_with_plain_arguments_are_not_reported_as_risks(env: Any) -> None:
    assert env_risks(EnvConfig.parse(env), "env") == []


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ("my_lab.room:Room", "`env` runs custom code (my_lab.room:Room)"),
        ("my_lab:Room-v0", "`env` runs custom code (my_lab:Room-v0)"),
        ("os:system", "`env` runs custom code (os:system)"),
        ("gymnasium:make", "`env` runs custom code (gymnasium:make)"),
        ("rlrun.plugin:make_env", "`env` runs custom code (rlrun.plugin:make_env)"),
        ("rlrun.toys:Crashing", "`env` runs custom code (rlrun.toys:Crashing)"),
        ("rlrun.toys.known_optimum:gymnasium.make", "`env` runs custom code"),
        (
            {"id": "CartPole-v1", "wrappers": [{"id": "RecordVideo", "kwargs": {"video_folder": "/tmp/x"}}]},
            "`env.wrappers` contains RecordVideo, which may run code or write files",
        ),
        (
            {"id": "CartPole-v1", "wrappers": ["gymnasium.wrappers:TimeLimit"]},
            ("contains gymnasium.wrappers:TimeLimit,"),
        ),
        (
            {"id": "Ant-v5", "kwargs": {"xml_file": "/etc/passwd"}},
            "`env.kwargs.xml_file` is '/etc/passwd', which may refer to a file or code",
        ),
        ({"id": "CartPole-v1", "reset_options": {"maps": [1, "a.txt"]}}, "`env.reset_options.maps[1]` is 'a.txt'"),
    ],
)
def test_env_parts_not_known_to_be_harmless_are_reported_with_the_reason(env: Any, said: str) -> None:
    assert said in env_risks(EnvConfig.parse(env), "env")[0]


def test_a_user_registered_env_id_is_not_a_known_env(wording) -> None:
    gymnasium.register("Registered-v0", entry_point="my_lab.room:Room")
    try:
        assert env_risks(EnvConfig(id="Registered-v0"), "env")[0] == wording()
    finally:
        del gymnasium.registry["Registered-v0"]


@pytest.mark.parametrize("text", ["..", "~", "a/b", "a\\b", "C:", "https://x", "x" * 41, "a\nb", "", "é"])
def test_strings_that_may_be_paths_are_reported_as_risks(text: str) -> None:
    assert bool(text_risks(text, "x")) == (text != "")


def test_every_object_in_the_list_of_harmless_objects_exists() -> None:
    for path in harmless()["envs"]:
        listed = load_object(path)
        assert issubclass(listed, gymnasium.Env) if isinstance(listed, type) else callable(listed)
    assert all(isinstance(load_object(path), type) for path in harmless()["worlds"])
    for name in harmless()["wrappers"]:
        wrapper = load_object(name) if ":" in name else vars(gymnasium.wrappers)[name]
        assert issubclass(wrapper, gymnasium.Wrapper | World)
    for kind in ("tasks", "mappings", "experts"):
        assert all(callable(load_object(path)) for path in harmless()[kind])
    scripts = ("GreedyForager", "TribeForager")
    own = {*BUILT_IN, *BUILT_IN.values(), *(f"rlrun.toys:{name}" for name in scripts)}
    assert harmless()["opponents"] == own
    assert all(ScriptedOpponent(name) for name in own)


def test_all_rlrun_objects_named_in_shipped_specs_are_listed_as_harmless() -> None:
    texts = [path.read_text() for path in Path("configs").glob("*/*.yaml")]
    named = {name for text in texts for name in re.findall(r"rlrun\.\w+:\w+", text)}
    assert len(named) > 20
    assert named <= frozenset.union(*harmless().values())


def test_worlds_and_wrappers_of_rlrun_and_pettingzoo_envs_are_not_reported_as_risks() -> None:
    own = {"world": "rlrun.toys:CartPoles", "wrappers": ["rlrun.plugin:AgentIndicator"]}
    assert env_risks(EnvConfig.parse(own), "env") == []
    searched = {
        "world": "rlrun.plugin:SearchedEnv",
        "kwargs": {"env": "rlrun.toys:SparseCartPole"},
    }
    assert env_risks(EnvConfig.parse(searched), "env") == []
    spread = {"pettingzoo": "mpe2.simple_spread_v3", "kwargs": {"N": 2}}
    assert env_risks(EnvConfig.parse(spread), "env") == []


@pytest.mark.parametrize(
    ("world", "said"),
    [
        ({"world": "my_lab.room:Room"}, "`env` runs custom code (my_lab.room:Room)"),
        ({"world": "rlrun.toys.cartpoles:CartPole"}, "`env` runs custom code"),
        ({"world": "rlrun.engine.worlds.make:load_object"}, "`env` runs custom code"),
        ({"world": "rlrun.engine.worlds.make:importlib.import_module"}, "`env` runs custom code"),
        (
            {"world": "rlrun.plugin:SearchedEnv", "kwargs": {"env": "my_lab.room:Room"}},
            "`env.kwargs.env` is 'my_lab.room:Room', which may refer to a file or code",
        ),
        ({"pettingzoo": "my_lab.room"}, "`env` runs custom code (my_lab.room)"),
        (
            {"pettingzoo": "mpe2.simple_spread_v3", "kwargs": {"f": "../x"}},
            "`env.kwargs.f` is '../x', which may refer to",
        ),
        (
            {"pettingzoo": "mpe2.simple_spread_v3", "wrappers": ["my_lab.room:Wrapper"]},
            "`env.wrappers` contains my_lab.room:Wrapper, which may run code or write files",
        ),
        (
            {"pettingzoo": "mpe2.simple_spread_v3", "tasks": "my_lab.room:task"},
            "`env.tasks` runs custom code (my_lab.room:task)",
        ),
        (
            {"pettingzoo": "mpe2.simple_spread_v3", "tasks": [{"kwargs": {"map": "../x"}}]},
            "`env.tasks[0].kwargs.map` is '../x', which may refer to",
        ),
        (
            {"pettingzoo": "mpe2.simple_spread_v3", "curriculum": "my_lab.room:harder"},
            "`env.curriculum` runs custom code (my_lab.room:harder)",
        ),
    ],
)
def test_risks_of_worlds_that_are_not_built_in_are_named(world: dict[str, Any], said: str) -> None:
    (demand,) = env_risks(EnvConfig.parse(world), "env")
    assert said in demand


SPEC = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"iteration": 1}}


def new_run(runs_dir: Path) -> RunDirectory:
    (experiment,) = parse_experiments({"pole": SPEC})
    return RunDirectory.create(runs_dir, "pole", experiment, experiment.trials(), "local")


def test_a_run_inside_the_users_runs_folder_counts_as_the_users_own(tmp_path: Path, wording) -> None:
    run = new_run(tmp_path)
    assert why_not_own(run.path, tmp_path) == ""
    assert why_not_own(run.path, tmp_path / "other") == wording(tmp_path / "other")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "linked").symlink_to(run.path)
    assert why_not_own(tmp_path / "mine" / "linked", tmp_path / "mine") != ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_a_run_that_another_user_owns_or_whose_folder_another_user_owns_is_not_ones_own(
    tmp_path: Path, wording
) -> None:
    run = new_run(tmp_path)
    os.chown(run.path, 54321, -1)
    assert why_not_own(run.path, tmp_path) == wording(run.path, "54321")
    os.chown(run.path, 0, -1)
    os.chown(tmp_path, 54321, -1)
    assert why_not_own(run.path, tmp_path) == wording("54321")


def test_a_harmless_run_from_someone_else_can_be_resumed(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    refuse_risks_of_run(run.path)
    (trial,) = rlrun.resume(run.path, trust=False)
    assert trial.status == "TERMINATED"


def test_a_run_from_someone_else_is_refused_before_anything_is_imported(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    (tmp_path / "trap.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')\nclass PPO: pass\n")
    (file,) = run.path.glob("*/spec.yaml")
    file.write_text(file.read_text().replace("algorithm: ppo", "algorithm: trap:PPO"))
    table = json.loads((run.path / "run.json").read_text())
    table |= {"import_paths": [str(tmp_path)], "copy": "/mnt/copy", "from_checkpoint": "/home/me/x"}
    (run.path / "run.json").write_text(json.dumps(table))
    (run.path / "out").symlink_to("/etc")
    with pytest.raises(CheckpointRefused) as refused:
        rlrun.resume(run.path, trust=False)
    for said in (
        "`algorithm` runs custom code (trap:PPO)",
        "`copy` writes to /mnt/copy",
        "`from_checkpoint` reads files in /home/me/x",
        "out is a link to another location",
        "--trust",
    ):
        assert said in str(refused.value)
    assert not (tmp_path / "sprung").exists()


def test_the_start_checkpoint_of_someone_elses_trial_is_reported_as_a_file_that_would_be_read(
    tmp_path: Path, wording
) -> None:
    run = new_run(tmp_path)
    (record,) = (run.record(name) for name in run.table.trials)
    run.trial_directory(record.name).write_record(replace(record, from_checkpoint="/home/me/x"))
    with wording.raised(CheckpointRefused, "from_checkpoint", "/home/me/x"):
        refuse_risks_of_run(run.path)


def test_a_damaged_spec_in_someone_elses_run_is_reported_with_its_file(tmp_path: Path, wording) -> None:
    run = new_run(tmp_path)
    (file,) = run.path.glob("*/spec.yaml")
    file.write_text("algorithm: [")
    with wording.raised(RunDamaged, file):
        refuse_risks_of_run(run.path)


def test_code_named_in_a_checkpoint_of_someone_elses_run_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    run = new_run(tmp_path)
    (trial,) = rlrun.resume(run.path)
    (tmp_path / "trap_too.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')\nclass PPO: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    content = read_checkpoint(trial.checkpoint)
    altered = replace(content, spec={**content.spec, "algorithm": "trap_too:PPO"})
    shutil.rmtree(trial.checkpoint)
    write_checkpoint(trial.checkpoint, altered)
    with wording.raised(CheckpointRefused, "trap_too:PPO"):
        rlrun.resume(run.path, extend={"iteration": 2}, trust=False)
    assert not (tmp_path / "sprung").exists()


def test_a_search_from_someone_else_is_refused(tmp_path: Path, wording) -> None:
    run = new_run(tmp_path)
    file = run.path / "spec.yaml"
    file.write_text(without_digest(file.read_text()).replace("scheduler: null", "scheduler: asha"))
    with wording.raised(CheckpointRefused):
        rlrun.resume(run.path, trust=False)
