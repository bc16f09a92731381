"""What a stranger's spec asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlrun.errors import CheckpointRefused
from rlrun.league.scripted_opponent import is_own_opponent
from rlrun.league.sides import OWN_MAPPINGS
from rlrun.registry import load_object
from rlrun.spec.load import load_experiments
from rlrun.training.demands import refuse_demands, spec_demands

PLAIN: dict[str, Any] = {"algorithm": "ppo", "env": "CartPole-v1", "config": {"lr": 1e-3, "model": {"module": None}}}


def test_a_spec_of_known_parts_asks_for_nothing() -> None:
    assert (
        spec_demands({**PLAIN, "evaluation": {"env": "CartPole-v0", "every": 5}, "loggers": {}, "storage": None}) == []
    )


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"algorithm": "my_lab.awr:AWR"}, "algorithm my_lab.awr:AWR is code that would be run"),
        ({"config": {"model": {"module": "rlrun.nn.encoders:Encoder"}}}, "config.model.module is 'rlrun.nn.encoders:"),
        (
            {"config": {"model": {"encoders": {"front": "os:system"}}}},
            "config.model.encoders.front is 'os:system', which",
        ),
        ({"config": {"demonstrations": "/home/me/x.npz"}}, "config.demonstrations is '/home/me/x.npz', which may name"),
        ({"evaluation": {"env": "my_lab.room:Room"}}, "evaluation.env my_lab.room:Room is none of the known envs"),
        ({"storage": "/mnt/x"}, "storage /mnt/x is a place to write to"),
        ({"loggers": {"mlflow": {}}}, "loggers are services to send results to"),
    ],
)
def test_what_a_spec_asks_for_is_named(part: dict[str, Any], said: str) -> None:
    (demand,) = spec_demands({**PLAIN, **part})
    assert said in demand


def test_a_demand_that_stands_twice_is_told_once() -> None:
    with pytest.raises(CheckpointRefused, match=r"^x: the run asks for what is not known to be harmless: a; b; if you"):
        refuse_demands(["a", "b", "a"], "x: the run")
    refuse_demands([], "x: the run")


WORLD: dict[str, Any] = {
    "algorithm": "ppo + dqn",
    "env": {"world": "rlrun.toys.cartpoles:CartPoles"},
    "config": {"num_workers": 0},
    "policies": {"a": {"algorithm": "ppo", "config": {"lr": 1e-3}}, "b": {"algorithm": "dqn", "config": {}}},
    "mapping": {"pole_0": "a", "*": "b"},
}


def test_policies_of_known_parts_ask_for_nothing() -> None:
    assert spec_demands(WORLD) == []


@pytest.mark.parametrize("path", sorted(OWN_MAPPINGS))
def test_mappings_of_rlruns_own_ask_for_nothing(path: str) -> None:
    assert spec_demands({**WORLD, "mapping": path}) == []
    assert callable(load_object(path))


@pytest.mark.parametrize(
    "path", ["rlrun.league.sides:re.sub", "rlrun.league.sides:_side", "rlrun.registry:load_object"]
)
def test_what_else_lies_in_modules_of_rlruns_own_is_code_that_would_be_run(path: str) -> None:
    assert spec_demands({**WORLD, "mapping": path}) == [f"mapping {path} is code that would be run"]
    assert not is_own_opponent(path)


@pytest.mark.parametrize("spec", ["cartpole/alphazero", "worlds/tic_tac_toe_league_ppo", "worlds/hex_alphazero"])
def test_specs_that_come_with_rlrun_and_name_its_objects_ask_for_nothing(spec: str) -> None:
    (experiment,) = load_experiments([Path("configs") / f"{spec}.yaml"])
    assert spec_demands(experiment.first_trial().to_data()) == []


def test_what_policies_and_their_mapping_ask_for_is_named() -> None:
    policies = {
        "a": {"algorithm": "my_lab.awr:AWR", "config": {}},
        "b": {"algorithm": "dqn", "config": {"model": {"module": "os:x"}}},
    }
    assert spec_demands({**WORLD, "policies": policies, "mapping": "my_lab.roles:of"}) == [
        "algorithm my_lab.awr:AWR is code that would be run",
        "policies.b.config.model.module is 'os:x', which may name a file or code",
        "mapping my_lab.roles:of is code that would be run",
    ]
