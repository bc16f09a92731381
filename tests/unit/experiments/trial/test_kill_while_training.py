"""A trial that is killed ends, once resumed, with the curve of one that was not."""

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.trial.results import read_results
from rlrun.experiments.trial.trial_directory import TrialDirectory
from rlrun.experiments.trial.trial_loop import TrialLoop

TRAIN = """
import json, sys
from pathlib import Path
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.trial.trial_loop import TrialLoop

with TrialLoop(TrialSpec.from_data(json.loads(sys.argv[1])), Path(sys.argv[2]), resume=True) as loop:
    print("ready", flush=True)
    while not loop.done:
        loop.step()
"""


def test_a_trial_killed_at_a_random_instant_resumes_to_the_same_curve_as_an_uninterrupted_one(
    tmp_path: Path, small_trial: Callable[..., TrialSpec], curve: Callable[[Path], list[dict[str, Any]]]
) -> None:
    def trial(iterations: int) -> TrialSpec:
        return small_trial(
            stop={"iteration": iterations},
            checkpoint={"every": 1, "keep": 2},
            config={"normalize_observations": True, "normalize_rewards": True},
        )

    endless = trial(10**9)  # so that it is killed before its end, even on a busy machine
    process = subprocess.Popen(
        [sys.executable, "-c", TRAIN, json.dumps(endless.to_data()), str(tmp_path / "killed")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.stderr and process.stderr.read()
        while len(read_results(tmp_path / "killed")) < 3:
            time.sleep(0.005)
        time.sleep(random.uniform(0, 0.1))  # at a random instant, different each time
        process.kill()
    assert not TrialDirectory(tmp_path / "killed").is_claimed()
    finite = trial(len(read_results(tmp_path / "killed")) + 10)
    for name in ("killed", "whole"):
        with TrialLoop(finite, tmp_path / name, resume=name == "killed") as loop:
            while not loop.done:
                loop.step()
    assert curve(tmp_path / "killed") == curve(tmp_path / "whole")
