"""Events of a run as JSON, one object per line on stdout, for ``--progress json``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rlrun.cli.json_document import print_event
from rlrun.experiments.runs.events import (
    RunEvent,
    RunFinished,
    RunMeasured,
    RunMeasuring,
    RunResources,
    RunStarted,
    RunStopping,
    TrialAdded,
    TrialEvent,
    TrialNote,
    TrialRewound,
)


def print_event_line(event: RunEvent) -> None:
    """Prints an event of a run as a line of JSON; a watcher of a run."""
    print_event({**event_data(event), "time": time.time()})


def event_data(event: RunEvent) -> Mapping[str, Any]:
    """Serializes an event of a run; its kind is under the key `event`."""
    match event:
        case RunMeasuring():
            return {"event": "measuring", **asdict(event)}
        case RunMeasured():
            return {"event": "measured", **asdict(event)}
        case TrialRewound():
            return {"event": "trial_rewound", **asdict(event)}
        case RunStarted():
            return {
                "event": "run_started",
                "experiment": event.experiment,
                "directory": event.directory,
                "executor": event.executor,
                "resumed": event.resumed,
                "expected": event.expected,
                "trials": [{"name": one.name, "seed": one.seed, "params": one.params} for one in event.trials],
            }
        case TrialAdded():
            one = event.trial
            return {"event": "trial_added", "trial": one.name, "seed": one.seed, "params": one.params}
        case TrialEvent():
            return {"event": "trial", **asdict(event)}
        case TrialNote():
            return {"event": "note", **asdict(event)}
        case RunResources():
            return {"event": "resources", **asdict(event)}
        case RunStopping():
            return {"event": "stopping", **asdict(event)}
        case RunFinished():
            trials = [{"name": trial.name, "status": trial.status} for trial in event.trials]
            return {"event": "run_finished", "directory": event.directory, "seconds": event.seconds, "trials": trials}
