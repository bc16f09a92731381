"""A process that saves without pause is killed at random instants; what it leaves must always be usable."""

import random
import subprocess
import sys
import time
from pathlib import Path

from rlrun.engine.checkpoint.store import CheckpointStore

SAVE_FOREVER = """
import sys
from pathlib import Path
import numpy as np
from rlrun.engine.checkpoint.format import Content
from rlrun.engine.checkpoint.store import CheckpointStore

store = CheckpointStore(Path(sys.argv[1]), keep=2, best="score")
found = store.read_newest()
iteration = 0 if found is None else found[1].state["iteration"]
while True:
    iteration += 1
    content = Content(
        {"iteration": iteration},
        {"seed": 0},
        {"policies/default": {"w": np.full(20_000, iteration, np.float32)}},
        {"iteration": iteration, "log": np.full(20_000, iteration)},
    )
    store.commit(store.stage(iteration, content, {"score": iteration % 7}))
    print(iteration, flush=True)
"""


def test_a_kill_while_saving_leaves_an_intact_checkpoint_no_older_than_the_previous_one(tmp_path: Path) -> None:
    moments = random.Random(0)
    newest = 0
    for _ in range(10):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVE_FOREVER, str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            assert process.stdout is not None
            saved = int(process.stdout.readline())  # the first save is complete, however slow the disk
            time.sleep(moments.uniform(0.02, 0.12))
            process.kill()
            assert process.stderr is not None
            assert process.stderr.read() == ""
        store = CheckpointStore(tmp_path, keep=2, best="score")
        scan = store.scan()
        assert scan.skipped == ()  # no half-written checkpoint ever has a checkpoint's name
        found = store.read_newest()
        assert found is not None
        iteration = found[1].state["iteration"]
        assert (found[1].tensors["policies/default"]["w"] == iteration).all()
        assert (found[1].state["log"] == iteration).all()
        assert iteration >= saved > newest
        newest = iteration
    assert len(store.paths()) <= 5  # the two newest, the best, and those whose removal a kill prevented
