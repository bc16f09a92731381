"""Joining a Ray cluster within a time limit, with a report on which processes answered if joining fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rlrun.engine.messages.errors import RlrunError, UsageError
from rlrun.experiments.cluster.ray_internals import JoinProbe

JOIN_TIMEOUT_S = 60.0
"""Seconds within which a cluster must let this process join; a quarter of the time is reserved for probes."""


def join(address: str, code: dict[str, Any], lost: Callable[[RlrunError], None]) -> None:
    """Joins a Ray cluster, and ships the user's modules to all machines.

    If a process of the cluster hangs, `ray.init` may wait forever, or end this process without a message, depending on
    which process it is. The cluster's processes are therefore probed first.

    Args:
        address: The cluster's address, or "auto".
        code: Ray's runtime environment with the user's modules.
        lost: Function that is called, in another thread, if `ray.init` does not return.

    Raises:
        UsageError: If there is no cluster, or one of its processes does not answer or rejects the connection.
    """
    import ray
    from ray.exceptions import RayError

    probe = JoinProbe()
    faults: list[Exception] = []
    asking = threading.Thread(target=_ask, args=(probe, address, faults), name="ask cluster", daemon=True)
    asking.start()
    asking.join(JOIN_TIMEOUT_S / 2)
    if faults:
        raise UsageError(f"cannot join the Ray cluster at {address}: {faults[0]}") from faults[0]
    if probe.missing:
        raise _refusal(address, probe)

    def give_up() -> None:
        probe.no_answer_from_raylet()
        lost(_refusal(address, probe))

    timer = threading.Timer(JOIN_TIMEOUT_S / 2, give_up)
    timer.daemon = True
    timer.start()
    try:
        ray.init(address=address, runtime_env=code)
    except (ConnectionError, ValueError, RuntimeError, RayError) as error:
        raise UsageError(f"cannot join the Ray cluster at {address}: {error}") from error
    finally:
        timer.cancel()


def _ask(probe: JoinProbe, address: str, faults: list[Exception]) -> None:
    try:
        probe.ask(address)
    except Exception as error:  # Ray's exception classes differ from call to call
        faults.append(error)


def _refusal(address: str, probe: JoinProbe) -> UsageError:
    told = "; ".join([*probe.answers, probe.missing])
    return UsageError(f"cannot join the Ray cluster at {address}: {told}. {probe.advice}.")
