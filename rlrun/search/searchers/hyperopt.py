"""HyperOpt's searcher: the tree-structured Parzen estimator in its first implementation."""

from __future__ import annotations

import math
from typing import Any

from rlrun.search.searchers.dimension import Dimension
from rlrun.search.searchers.searcher import Configuration, History


class HyperoptSearcher:
    """The tree-structured Parzen estimator of HyperOpt (NeurIPS 2011), each dimension on its own.

    What still runs or has failed counts as infinitely bad.
    """

    hears_budgets = False

    def propose(self, history: History, seed: int) -> Configuration:
        """Returns the next configuration."""
        import hyperopt

        space = {str(place): _distribution(str(place), each) for place, each in enumerate(history.dimensions)}
        domain = hyperopt.Domain(_never_called, space)
        trials = hyperopt.trials_from_docs(_documents(history))
        number = 1 + max(history.configurations)
        (document,) = hyperopt.tpe.suggest([number], domain, trials, seed, n_startup_jobs=1, verbose=False)
        suggested = document["misc"]["vals"]
        return history.values_at([float(suggested[label][0]) for label in space])


def _never_called(values: Any) -> float:
    """Stands for the objective: HyperOpt wants one, and calls it only when it runs the search by itself."""
    raise AssertionError(values)


def _distribution(label: str, dimension: Dimension) -> Any:
    """Returns a dimension as HyperOpt writes it; its value is the coordinate."""
    from hyperopt import hp

    if dimension.options:
        return hp.randint(label, len(dimension.options))
    # Whole coordinates are rounded by us: HyperOpt's own rounding divides by zero far from what it has seen.
    low, high = dimension.low, dimension.high
    return hp.loguniform(label, math.log(low), math.log(high)) if dimension.log else hp.uniform(label, low, high)


def _documents(history: History) -> list[dict[str, Any]]:
    """Returns the configurations as HyperOpt keeps them."""
    import hyperopt

    documents = []
    for number in sorted(history.configurations):
        coordinates = {
            str(place): min(max(coordinate, dimension.low), dimension.high)
            for place, (dimension, coordinate) in enumerate(
                zip(history.dimensions, history.coordinates(number), strict=True)
            )
        }
        result: dict[str, Any] = {"status": hyperopt.STATUS_RUNNING}
        if number in history.scores:
            loss = history.loss(history.scores[number])
            result = {"status": hyperopt.STATUS_FAIL if loss == math.inf else hyperopt.STATUS_OK, "loss": loss}
        misc = {
            "tid": number,
            "cmd": None,
            "workdir": None,
            "idxs": {label: [number] for label in coordinates},
            "vals": {label: [coordinate] for label, coordinate in coordinates.items()},
        }
        document = {"tid": number, "misc": misc, "result": result, "spec": None, "state": hyperopt.JOB_STATE_DONE}
        if number not in history.scores:
            document["state"] = hyperopt.JOB_STATE_RUNNING
        unused = dict.fromkeys(("exp_key", "owner", "version", "book_time", "refresh_time"))
        documents.append({**document, **unused})
    return documents
