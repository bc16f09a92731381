"""Trains with rlrun and with Stable-Baselines3, on the same seeds and budgets, to check whether rlrun learns as well.

    python -m scripts.results_paired                       # everything without a record, one pair after another; hours
    python -m scripts.results_paired pendulum-sac --seeds 3

In `results_paired.yaml`, each side of a pair has settings that were tuned for it or, where the file says so, both sides
have the same settings. `results_defaults.yaml` contains pairs with default settings, and algorithms that only rlrun
has. Each side uses one thread, and as many env slots as its settings say. The last policy is evaluated with the most
likely actions in 100 episodes, which start in the same states on both sides. Records are kept in
docs/results/paired.jsonl. If a side's settings change, it is trained again. If rlrun's training code changes, only its
first seed is trained again; if the final weights match the old record, the records of the other seeds stay valid. At
the end, the tables are written to docs/results.md.

Stable-Baselines3 gets its own venv under `.bench/`, with rlrun's versions of torch, gymnasium and NumPy.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import yaml

from benchmarks.peers import ROOT, SB3, VENVS, environment, python_of
from rlrun.engine.training.training import Training
from rlrun.report.statistics import bootstrapped, iqm, probability_of_improvement
from scripts.results import PAGE, belongs, between, described_commit, key_of, marked, not_measured

TUNED, DEFAULTS = Path(__file__).with_suffix(".yaml"), Path(__file__).with_name("results_defaults.yaml")
RECORDS = ROOT / "docs" / "results" / "paired.jsonl"
PEER = VENVS[SB3][0]
MARKS = {
    TUNED: ("<!-- paired: written by scripts/results_paired.py -->", "<!-- paired: end -->"),
    DEFAULTS: ("<!-- defaults: written by scripts/results_paired.py -->", "<!-- defaults: end -->"),
}
"""The markers in the page that enclose the tables, by file of pairs."""
SEEDS = 5
EPISODES = 100
ENVS_EVALUATED = 8
EVALUATION = "8 envs seeded once"  # how rlrun's last policy is evaluated; changing it invalidates the records
TIMEOUT_S = 7200.0

Pair = dict[str, Any]
Record = dict[str, Any]


def main() -> int:
    """Trains everything without a record, and writes the tables; returns 1 if a side failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="*", help="all by default")
    parser.add_argument("--seeds", type=int, help=f"number of seeds per pair; by default the pair's own, or {SEEDS}")
    parser.add_argument("--ours", metavar="WORK", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.ours is not None:
        print(json.dumps(trained(json.loads(asked.ours))))
        return 0
    pairs = read_pairs(TUNED, DEFAULTS)
    if unknown := sorted(set(asked.pairs) - set(pairs)):
        sys.exit(f"there is no pair '{unknown[0]}'; there are {', '.join(pairs)}")
    wanted = [(name, pairs[name]) for name in asked.pairs or pairs]
    failed = max(train(name, pair, asked.seeds or pair.get("seeds", SEEDS)) for name, pair in wanted)
    write()
    return failed


def read_pairs(*files: Path) -> dict[str, Pair]:
    """Returns the pairs in the files, by name."""
    return {name: pair for file in files for name, pair in yaml.safe_load(file.read_text()).items()}


def train(name: str, pair: Pair, seeds: int) -> int:
    """Trains both sides of a pair on the seeds without records; returns 1 if one failed."""
    ours = [sys.executable, "-m", "scripts.results_paired", "--ours"]
    sides = {"rlrun": ours}
    if "sb3" in pair:
        sides["sb3"] = [python_of(SB3), "-m", "scripts.results_paired_sb3"]
    failed = 0
    for seed in range(seeds):
        for side, words in sides.items():
            key = digests(name, pair, side)
            former = recorded(name, side)
            if any(record["seed"] == seed and belongs(record, key) for record in former):
                continue
            began = time.monotonic()
            work = json.dumps({**pair, "seed": seed, "episodes": EPISODES})
            done = subprocess.run(
                [*words, work], capture_output=True, text=True, timeout=TIMEOUT_S, env=environment(), cwd=ROOT
            )
            if done.returncode != 0:
                print(f"{name} seed {seed}, {side} failed:\n{done.stderr}", file=sys.stderr, flush=True)
                failed = 1
                continue
            record = {
                "pair": name,
                "side": side,
                "seed": seed,
                **json.loads(done.stdout.splitlines()[-1]),
                "seconds": round(time.monotonic() - began, 1),
                "version": PEER if side == "sb3" else described_commit(),
                **key,
            }
            RECORDS.parent.mkdir(parents=True, exist_ok=True)
            with RECORDS.open("a") as file:
                for kept in [record, *confirmed(former, record)]:
                    file.write(json.dumps(kept) + "\n")
            print(f"{name} seed {seed}: {side} {record['value']:.1f} in {record['seconds']:.0f} s", flush=True)
    return failed


def confirmed(former: Sequence[Record], record: Record) -> list[Record]:
    """Returns the records from older code that stay valid because a seed has reproduced its old weights."""
    same = [other for other in former if other["settings"] == record["settings"]]
    if any(other["code"] == record["code"] for other in same) or record not in [
        {**other, **{name: record[name] for name in ("seconds", "version", "code")}} for other in same
    ]:
        return []
    return [{**other, "code": record["code"]} for other in same if other["seed"] != record["seed"]]


def trained(work: Pair) -> Record:
    """Trains rlrun's side in this process for the budget, and evaluates the most likely actions.

    Returns:
        The mean return, and a digest of the weights.
    """
    from rlrun.experiments.spec.load import load_experiments, parse_experiments
    from rlrun.experiments.trial.trial_training import training_of

    overrides = [f"seeds=[{work['seed']}]", f"stop={{env_steps: {work['env_steps']}}}", "expect=null"]
    if isinstance(work["rlrun"], str):
        (experiment,) = load_experiments([ROOT / work["rlrun"]], overrides)
    else:
        stop = {"env_steps": work["env_steps"]}
        (experiment,) = parse_experiments({"pair": {**work["rlrun"], "env": work["env"], "stop": stop}}, overrides)
    with training_of(experiment.first_trial()) as training:
        while training.step()["env_steps"] < work["env_steps"]:
            pass
        value = mean_return(training, work["env"], work["episodes"], seed=10_000 + work["seed"])
        weights = training.content({}).tensors["policies/default"]
        digest = hashlib.sha256(b"".join(weights[name].tobytes() for name in sorted(weights)))
        return {"value": value, "weights": digest.hexdigest()[:16]}


def mean_return(training: Training, env: str | dict[str, Any], episodes: int, seed: int) -> float:
    """Evaluates the most likely actions, starting in the same states as Stable-Baselines3's `evaluate_policy`.

    `evaluate_policy` seeds its envs once, not for each episode. Start states matter more than the policy: on Pendulum,
    the mean of one policy over 100 episodes lies between -130 and -165, depending on the seed.

    Args:
        training: The training whose policy is evaluated.
        env: The pair's env.
        episodes: Number of episodes, split among 8 envs as in `evaluate_policy`.
        seed: Seed of the first env; the other envs use the seeds that follow.
    """
    name, kwargs = (env, {}) if isinstance(env, str) else (env["id"], env.get("kwargs", {}))
    returns = []
    for index in range(ENVS_EVALUATED):
        with gymnasium.make(name, **kwargs) as world:
            observation, _ = world.reset(seed=seed + index)
            for _ in range((episodes + index) // ENVS_EVALUATED):
                total, ended = 0.0, False
                while not ended:
                    observation, reward, terminated, truncated, _ = world.step(training.act(observation))
                    total, ended = total + float(reward), terminated or truncated
                returns.append(total)
                observation, _ = world.reset()
    return sum(returns) / len(returns)


def digests(name: str, pair: Pair, side: str) -> dict[str, str]:
    """Returns digests of what a side's record depends on: its settings and, for rlrun, the training code."""
    told = json.dumps([name, pair["env"], pair["env_steps"], pair[side], PEER if side == "sb3" else EVALUATION])
    if side == "rlrun" and isinstance(pair["rlrun"], str):
        told += key_of(ROOT / pair["rlrun"])["settings"]
    code = key_of(TUNED)["code"] if side == "rlrun" else ""
    return {"settings": hashlib.sha256(told.encode()).hexdigest()[:16], "code": code}


def recorded(name: str, side: str) -> list[Record]:
    """Returns the records of one side of a pair, the newest one for each seed."""
    if not RECORDS.exists():
        return []
    found = [json.loads(line) for line in RECORDS.read_text().splitlines()]
    kept = {record["seed"]: record for record in found if (record["pair"], record["side"]) == (name, side)}
    return [kept[seed] for seed in sorted(kept)]


def write() -> None:
    """Writes the tables between the markers of the page."""
    for file, (begin, end) in MARKS.items():
        PAGE.write_text(between(PAGE.read_text(), begin, end, table(read_pairs(file))))


def table(pairs: Mapping[str, Pair]) -> str:
    """Formats measured pairs as a table, and names the others."""
    measured = {name: pair for name, pair in pairs.items() if any(recorded(name, side) for side in ("sb3", "rlrun"))}
    rows = [
        "| pair | env steps | Stable-Baselines3 | rlrun | P(rlrun above) | verdict | seeds | s each | commit |",
        "| -- | -- | -- | -- | -- | -- | -- | -- | -- |",
    ]
    lines = [*rows, *(row(name, pair) for name, pair in measured.items())] if measured else []
    return "\n".join([*lines, *not_measured([name for name in pairs if name not in measured])]).strip("\n")


def row(name: str, pair: Pair) -> str:
    """Returns a pair's row: the scores of both sides, and how often a seed of rlrun beats one of Stable-Baselines3."""
    sides = {side: recorded(name, side) for side in ("sb3", "rlrun") if side in pair}
    values = {side: [record["value"] for record in records] for side, records in sides.items()}
    above, verdict = "", ""
    if values["rlrun"] and values.get("sb3"):
        improved = probability_of_improvement([values["rlrun"]], [values["sb3"]])
        above = f"{improved.value:.2f} [{improved.low:.2f}, {improved.high:.2f}]"
        is_behind = bootstrapped(iqm, [values["rlrun"]]).value < bootstrapped(iqm, [values["sb3"]]).low
        verdict = "**behind**" if is_behind else "not behind"
    cells = [
        *(name, f"{pair['env_steps']:,}", reached(values.get("sb3")), reached(values["rlrun"]), above, verdict),
        *(", ".join(marked(len(found)) for found in values.values()), ", ".join(map(median_s, sides.values()))),
        ", ".join(dict.fromkeys(record["version"] for record in sides["rlrun"])),
    ]
    return f"| {' | '.join(cells)} |"


def reached(values: Sequence[float] | None) -> str:
    """Formats the scores of a side's seeds; None means that the side lacks the algorithm."""
    if not values:
        return "not measured" if values is not None else "has no such algorithm"
    found = bootstrapped(iqm, [values])
    return f"{found.value:.4g} [{found.low:.4g}, {found.high:.4g}], worst {min(values):.4g}"


def median_s(records: Sequence[Mapping[str, Any]]) -> str:
    """Returns the median seconds of a side's seeds, as text."""
    seconds = sorted(record["seconds"] for record in records)
    return f"{seconds[len(seconds) // 2]:.0f}" if seconds else "-"


if __name__ == "__main__":
    sys.exit(main())
