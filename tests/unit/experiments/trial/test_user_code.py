import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from rlrun.algorithms.ppo import PPO
from rlrun.engine.checkpoint.state_codec import decode
from rlrun.engine.messages.errors import TrainingFailed, UsageError
from rlrun.experiments.trial.user_code import exits_as_failures, failure_of_user_code


def module_at(path: Path, code: str) -> ModuleType:
    path.write_text(code)
    module = ModuleType(path.stem)
    exec(compile(code, str(path), "exec"), module.__dict__)
    return module


def raised(function: Any, *args: Any) -> Exception:
    try:
        function(*args)
    except Exception as error:
        return error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
    raise AssertionError("nothing was raised")


def test_the_traceback_of_an_error_in_a_users_file_starts_at_that_file(tmp_path: Path, wording) -> None:
    module = module_at(tmp_path / "my_reward.py", "def reward(x):\n    return 1 / x\n")
    failure = failure_of_user_code(raised(module.reward, 0), PPO)
    assert failure is not None
    first, heading, place, code, *_, last = str(failure).splitlines()
    assert first == wording(tmp_path / "my_reward.py")
    assert heading == wording()
    assert place == wording(tmp_path / "my_reward.py")
    assert code.strip() == "return 1 / x"
    assert last == wording("ZeroDivisionError")


def test_an_error_in_rlrun_or_its_dependencies_is_not_blamed_on_user_code() -> None:
    assert failure_of_user_code(raised(decode, {"$float": 1}, ()), PPO) is None
    assert failure_of_user_code(raised(json.loads, "{"), PPO) is None


def test_an_error_in_code_called_by_an_installed_plugin_is_attributed_to_the_plugin() -> None:
    installed = type("Awr", (PPO,), {"__module__": "awr.algorithm"})
    failure = failure_of_user_code(raised(np.reshape, np.zeros(3), 2), installed)
    assert isinstance(failure, TrainingFailed)
    assert str(failure).startswith("Awr failed in ")


@pytest.mark.parametrize("error", [UsageError("wrong"), TrainingFailed("env failed"), MemoryError()])
def test_errors_that_already_explain_themselves_are_not_blamed_on_user_code(error: Exception) -> None:
    assert failure_of_user_code(error, PPO) is None


def test_if_no_plugin_is_known_the_failure_names_the_function_of_the_users_file(tmp_path: Path) -> None:
    module = module_at(tmp_path / "my_shaping.py", "class Shaping:\n    def reward(self):\n        return 1 / 0\n")
    failure = failure_of_user_code(raised(module.Shaping().reward))
    assert str(failure).startswith(f"Shaping.reward failed in {tmp_path / 'my_shaping.py'}:\n")


def test_an_error_caused_by_disabled_gradients_in_torch_is_explained_with_its_traceback(wording) -> None:
    with torch.no_grad():
        weight = torch.nn.Parameter(torch.zeros(1))
        failure = failure_of_user_code(raised((2 * weight).sum().backward))
    assert failure is not None
    told, *_, last = str(failure).splitlines()
    assert told == wording()
    assert last == wording("RuntimeError", "grad_fn")


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_standard_stream_that_user_code_removed_is_named_in_the_failure(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = raised(json.loads, "{")
    monkeypatch.setattr(sys, name, None)
    failure = failure_of_user_code(error)
    assert failure is not None
    assert f"has changed the Python process: sys.{name} is None. This then failed:\n" in str(failure)


def test_a_clock_that_user_code_stopped_is_named_in_the_failure(monkeypatch: pytest.MonkeyPatch, wording) -> None:
    error = raised(json.loads, "{")
    now = time.perf_counter()
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    failure = failure_of_user_code(error)
    assert failure is not None
    assert wording("time.perf_counter") in str(failure).splitlines()


def test_a_trial_file_that_was_removed_while_it_was_being_written_is_named_in_the_failure(
    tmp_path: Path, wording
) -> None:
    error = raised((tmp_path / "checkpoints" / "state.json").read_bytes)
    failure = failure_of_user_code(error, PPO, directory=tmp_path)
    assert failure is not None
    assert wording(tmp_path / "checkpoints" / "state.json") in str(failure).splitlines()
    assert failure_of_user_code(error, PPO, directory=tmp_path / "another") is None


def test_an_exit_of_user_code_is_a_failure_but_an_exit_of_ray_on_a_signal_is_not(tmp_path: Path) -> None:
    from ray._private.worker import raise_sys_exit_with_custom_error_message  # called by Ray's handler of SIGTERM

    module = module_at(tmp_path / "my_env.py", "def step():\n    raise SystemExit(0)\n")
    with pytest.raises(TrainingFailed, match="SystemExit: 0"), exits_as_failures():
        module.step()
    with pytest.raises(SystemExit), exits_as_failures():
        raise_sys_exit_with_custom_error_message("The process receives a SIGTERM.", 1)
