"""Conversions of the settings of RLlib's offline algorithms: BC, MARWIL, CQL, CRR and Decision Transformer (DT).

RLlib measures progress in rows that were read or learned from, rlrun in SGD steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from rlrun.bridges.translation.foreign_settings import OMIT, Conversions, ForeignSettings, only
from rlrun.bridges.translation.meanings import Impact
from rlrun.bridges.translation.rllib_settings.units import minibatch_rows, round_off, seconds_of_iteration

conversion = Conversions()
"""Conversions by name, and the decorator that adds one."""

CLONES_ALONE = 1_000_000
"""Length of CQL's warm start, in SGD steps, from which an RLlib run counts as pure behavior cloning."""


@conversion
def data_sets(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts RLlib's `input` to the paths of the data sets that `rlrun dataset convert` creates from the same files.

    If there are several data sets, each also gets the fraction of a minibatch that is sampled from it.
    """
    if value in ("sampler", None):
        return OMIT
    if not foreign.has("input"):
        foreign.tell(
            key, f"rlrun's {foreign.algorithm} learns in an env, not from recorded experience", Impact.LEARNING
        )
        return OMIT
    own = foreign.section("input_config")
    named: Any = own.get("paths", own.get("path")) if value == "dataset" else value
    shares = named if isinstance(named, Mapping) else dict.fromkeys([named] if isinstance(named, str) else named)
    if not shares or not all(isinstance(path, str) for path in shares):
        raise ValueError("input does not name a file of recorded experience")
    told = [_made_by(path) for path in shares]
    sets = [_name_of(path) for path in shares]
    if len(sets) > 1 and None in shares.values():
        told.append("rlrun gives all data sets the same share of a minibatch; RLlib weighted them by size")
    foreign.tell(key, "; ".join(told))
    if list(shares.values()) in ([None], [1]):
        return sets[0]
    equal = round_off(1 / len(sets))
    return [
        {"path": path, "share": equal if share is None else share}
        for path, share in zip(sets, shares.values(), strict=True)
    ]


def _name_of(path: str) -> str:
    """Name of the data set that replaces a file or folder of recorded experience."""
    return path.removeprefix("d4rl.") if path.startswith("d4rl.") else f"{_source_of(path).stem}-set"


def _source_of(path: str) -> PurePosixPath:
    """File or folder that an RLlib path names; for a pattern, the folder of the matching files."""
    source = PurePosixPath(path)
    return source.parent if "*" in source.name else source


def _made_by(path: str) -> str:
    """Sentence with the commands that create the data set."""
    if path.startswith("d4rl."):
        return (
            "a D4RL data set: get it from Minari, and convert its folder with `rlrun dataset convert FOLDER "
            f"{_name_of(path)}`"
        )
    source = _source_of(path)
    unpacked, first = (source.stem, f"`unzip {source} -d {source.stem}`, ") if source.suffix == ".zip" else (source, "")
    return f"create it with {first}`rlrun dataset convert {unpacked} {_name_of(path)}`"


@conversion
def normalized_data(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Adds a wrapper that rescales actions if RLlib's recorded actions are normalized to -1..1."""
    if value and foreign.is_continuous:
        foreign.put("env.wrappers", [{"id": "RescaleAction", "kwargs": {"min_action": -1.0, "max_action": 1.0}}], key)
        foreign.tell(key, "a wrapper scales the env's actions to -1..1, as in the data")
    elif value:
        foreign.tell(key, "continuous actions in the data are scaled to [-1, 1]; wrap the env in RescaleAction")
    return OMIT


@conversion
def rows(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Converts `train_batch_size` to rows per minibatch; for Decision Transformer, steps become windows of steps."""
    return minibatch_rows(foreign)


@conversion
def iteration(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the length of an iteration, which is a number of rows (CRR: a pass over the data), to SGD steps."""
    if seconds_of_iteration(foreign):
        return OMIT
    if foreign.algorithm == "CRR":
        foreign.tell(
            key, "RLlib's iteration was one pass over the data; rlrun's has as many rows as the buffer could hold"
        )
        return max(int(foreign.get("replay_buffer_config.capacity")) // minibatch_rows(foreign), 1)
    return max(-(-int(value) // minibatch_rows(foreign)), 1)


@conversion
def target_interval(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the interval of target network updates from trained rows to SGD steps (CRR: unchanged)."""
    if foreign.algorithm == "CRR" and value is None:
        return 100
    if key == "target_update_grad_intervals":
        return int(value)
    return max(-(-int(value) // int(foreign.get("train_batch_size"))), 1)


@conversion
def halved_regularizer(foreign: ForeignSettings, key: str, value: Any) -> float:
    """Halves the weight of CQL's regularizer, since rlrun adds it to half the squared error."""
    return float(value) / 2


@conversion
def warm_start(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Omits CQL's initial SGD steps of behavior cloning, which rlrun lacks, and adds a remark."""
    if value >= CLONES_ALONE:
        foreign.tell(key, "rlrun's actor learns from the critics; for pure behavior cloning, use bc", Impact.LEARNING)
    elif value:
        foreign.tell(
            key,
            f"rlrun's actor learns from the critics from the start; RLlib's actor first clones the data for {value:,} "
            "SGD steps",
        )
    return OMIT


@conversion
def weighting(foreign: ForeignSettings, key: str, value: Any) -> str:
    """Converts the name of the rule by which CRR weights recorded actions: `bin` becomes `binary`."""
    return "binary" if value == "bin" else str(value)


@conversion
def inverse(foreign: ForeignSettings, key: str, value: Any) -> float:
    """Converts CRR's temperature, which divides advantages in RLlib, to a factor: the temperature's inverse."""
    return round_off(1 / value)


@conversion
def baseline(foreign: ForeignSettings, key: str, value: Any) -> str:
    """Converts the rule for CRR's state values: `expectation` becomes `mean`, which is exact for Discrete actions."""
    return "mean" if value == "expectation" else str(value)


@conversion
def requested_return(foreign: ForeignSettings, key: str, value: Any) -> float:
    """Converts Decision Transformer's target return; sets `return_scale` to 1, since RLlib does not scale returns."""
    foreign.put("config.return_scale", 1.0, key)
    if foreign.horizon is not None:
        foreign.put("config.max_steps", foreign.horizon, key)
    return float(value)


@conversion
def dropout(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Omits the dropout rates of Decision Transformer's network, which rlrun lacks, and adds a remark."""
    if value and (key in foreign.written or key == "attn_pdrop"):
        foreign.tell(key, f"rlrun's transformer has no dropout; RLlib's had {value:g}")
    return OMIT


@conversion
def adam_of_dt(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Omits the weight decay and betas of Decision Transformer's optimizer, which rlrun lacks, and adds a remark."""
    if value:
        foreign.tell(key, "rlrun uses Adam with betas 0.9 and 0.999, without weight decay")
    return OMIT


conversion["only_zero"] = only((0, None), "rlrun has no counterpart", Impact.LEARNING)
conversion["only_one"] = only((1, None), "rlrun has no counterpart", Impact.LEARNING)
conversion["only_squared"] = only(("mse", None), "rlrun's critics use a squared error", Impact.SLIGHT)
