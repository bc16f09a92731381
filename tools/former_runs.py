"""Records small runs of a revision, with what they do when evaluated and resumed, as data of tests for later revisions.

    git worktree add --detach ../former a1df188
    PYTHONPATH=../former:. python tools/former_runs.py tests/former_runs/a1df188

The runs are those of former_runs.yaml. Each is kept as its run's directory, NAME, and NAME.json: what `rlrun evaluate`
prints of its checkpoint, and the rows of two more iterations. `tests/integration/test_former_runs.py` evaluates and
resumes them with the rlrun of today. A revision that changes what is saved records a folder of its own next to it.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.golden_runs import without_times

RUNS = Path(__file__).with_suffix(".yaml")
EPISODES = 3
"""Of an evaluation, where the run does not say."""
ITERATIONS = 2
"""How many a run is resumed for, and is left after where it does not say."""


def main() -> int:
    """Records what is not recorded yet into the folder that is named."""
    import yaml

    (into,) = map(Path, sys.argv[1:])
    entries = yaml.safe_load(RUNS.read_text())
    del entries["anchors"]
    for name, entry in entries.items():
        if not (into / f"{name}.json").exists():
            record(name, entry, into)
            print(name, flush=True)
    return 0


def record(name: str, entry: dict[str, Any], into: Path) -> None:
    """Trains a run, keeps its directory as it was left, and writes what follows.

    Args:
        name: The run's name.
        entry: Its entry in former_runs.yaml.
        into: The folder of all.
    """
    import rlrun

    end, episodes = entry.pop("iterations", ITERATIONS), entry.pop("episodes", EPISODES)
    spec = {**entry, "stop": {"iteration": end}, "checkpoint": {"every": end, "keep": 1}}
    with tempfile.TemporaryDirectory() as folder:
        rlrun.run({name: spec}, runs_dir=folder)
        kept = into / name
        shutil.copytree(Path(folder) / name, kept, ignore=shutil.ignore_patterns(".*", "*.log"))
        anonymous(kept / "run.json")
        followed = {"evaluation": evaluation(kept, episodes), "rows": resumed_rows(Path(folder) / name, end)}
    (into / f"{name}.json").write_text(json.dumps(followed, indent=1) + "\n")


def anonymous(run_json: Path) -> None:
    """Takes what tells of this machine out of a run.json."""
    content = json.loads(run_json.read_text())
    content |= {"command": "rlrun train -f former_runs.yaml", "import_paths": []}
    content["versions"]["platform"] = "Linux"
    run_json.write_text(json.dumps(content, indent=2) + "\n")


def evaluation(run: Path, episodes: int) -> dict[str, Any]:
    """Returns what `rlrun evaluate` prints of a run's checkpoint, after so many episodes."""
    from click.testing import CliRunner

    from rlrun.cli.main import cli

    words = ["evaluate", str(run), "--episodes", str(episodes), "--trust", "--json"]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    if done.exit_code:
        raise RuntimeError(done.output)
    return {name: value for name, value in json.loads(done.stdout).items() if name != "checkpoint"}


def resumed_rows(run: Path, end: int) -> list[dict[str, Any]]:
    """Resumes a run and returns the new rows of its result.json, without what depends on the clock.

    Args:
        run: The run's directory.
        end: The iteration at which it was left.
    """
    import rlrun

    (trial,) = rlrun.resume(run, extend={"iteration": end + ITERATIONS})
    return [without_times(row) for row in trial.results() if row["iteration"] > end]


if __name__ == "__main__":
    sys.exit(main())
