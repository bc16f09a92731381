"""All private names of Ray and Ray Tune that rlrun uses because they have no public counterpart.

Maintainers check the names against each new version of Ray, and then update `CHECKED_WITH`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

CHECKED_WITH = "2.60.0"
"""Version of Ray in which these names were checked."""


def gcs_server() -> subprocess.Popen[bytes]:
    """Operating-system process of Ray's gcs_server; this process must have started Ray."""
    from ray._private import worker

    server: subprocess.Popen[bytes] = worker._global_node.all_processes["gcs_server"][0].process
    return server


def end_processes() -> None:
    """Kills the Ray processes that this process started, without calls to Ray, and removes Ray's session folder."""
    from ray._private import worker

    worker._global_node.kill_all_processes(check_alive=False)
    shutil.rmtree(Path(worker._global_node.get_temp_dir_path()).parent, ignore_errors=True)


def reconnect_timeout_s() -> float:
    """Seconds without an answer from the GCS after which Ray ends this process, set by an environment variable."""
    return float(os.environ.get("RAY_gcs_rpc_server_reconnect_timeout_s", 60))  # noqa: SIM112 (the name that Ray reads)


class JoinProbe:
    """Probe of a Ray cluster before this process joins it: asks the cluster's processes, and collects their answers.

    Attributes:
        answers: Sentences that describe which processes answered, in the order in which they were asked.
        missing: Sentence that describes the answer still outstanding; "" once all processes have answered.
        advice: What the user can do about `missing`.
    """

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.missing = "Ray is not running on this machine"
        self.advice = (
            "Start Ray on it with `ray start --address=HEAD:6379`, or pass the address of a cluster to which it belongs"
        )

    def ask(self, address: str) -> None:
        """Asks the cluster's GCS and this machine's raylet; stops at the first missing or bad answer.

        Some calls have no timeout, so this method must be called in a separate thread.

        Args:
            address: The cluster's address, or "auto".
        """
        from ray._private import services
        from ray._raylet import GcsClient  # type: ignore[attr-defined]  # the stubs lack it
        from ray.exceptions import AuthenticationError

        try:
            gcs = services.canonicalize_bootstrap_address(address)
        except ConnectionError:
            return
        if gcs is None:
            return
        self.missing = f"its GCS at {gcs} does not answer"
        self.advice = "Check that the head node runs, and restart it if it does not"
        host, _, port = gcs.rpartition(":")
        if not answers_http2(host, int(port)):
            return
        self._answered(f"its GCS at {gcs} answers")
        self.missing = "its GCS does not say whether the token is right"
        try:
            client = GcsClient(address=gcs)
        except AuthenticationError:
            self.missing = "it rejects the token"
            self.advice = "Set RAY_AUTH_TOKEN to the cluster's token, or RAY_AUTH_TOKEN_PATH to a file with it"
            return
        self._answered("it accepts the token")
        self._ask_versions(client)
        if not self.missing:
            self._ask_raylet(client, gcs)

    def no_answer_from_raylet(self) -> None:
        """Records that the raylet, although it answered at first, does not let this process join."""
        self.answers.pop()
        self._miss_raylet()

    def _ask_versions(self, client: Any) -> None:
        import ray
        from ray._common.usage.usage_lib import get_cluster_metadata
        from ray._private.utils import check_version_info

        self.missing = "its GCS does not say which versions the cluster has"
        cluster = get_cluster_metadata(client)
        versions = f"Ray {cluster['ray_version']} and Python {cluster['python_version']}"
        try:
            check_version_info(cluster, "this machine")
        except RuntimeError:
            self.missing = (
                f"it has {versions}, but this process has Ray {ray.__version__} and Python {python_version()}"
            )
            self.advice = "Install the same versions on all machines"
        else:
            self._answered(f"it has {versions}, like this process")

    def _ask_raylet(self, client: Any, gcs: str) -> None:
        from ray._private import services
        from ray._raylet import NodeID

        self.missing = "none of its raylets runs on this machine"
        self.advice = f"Start one with `ray start --address={gcs}`, since rlrun must run on a node of the cluster"
        here = {NodeID.from_hex(node) for node in services.find_node_ids()}
        nodes = [node for name, node in client.get_all_node_info(timeout=ANSWER_TIMEOUT_S).items() if name in here]
        if not nodes:
            return
        self._miss_raylet()
        if any(answers_http2(node.node_manager_address, node.node_manager_port) for node in nodes):
            self._answered("this machine's raylet answers")

    def _answered(self, sentence: str) -> None:
        self.answers.append(sentence)
        self.missing = ""

    def _miss_raylet(self) -> None:
        self.missing = "this machine's raylet does not answer"
        self.advice = "Stop Ray on this machine with `ray stop --force`, and start it again"


ANSWER_TIMEOUT_S = 15.0
"""Seconds within which a process of a cluster must answer a question."""


def answers_http2(host: str, port: int, timeout_s: float = ANSWER_TIMEOUT_S) -> bool:
    """Whether a process answers an HTTP/2 greeting; all of Ray's services use HTTP/2.

    A hanging process accepts connections but sends nothing. A process that requires TLS does answer, with an alert.

    Args:
        host: Host of the process.
        port: Port of the process.
        timeout_s: Time limit in seconds, for the connection to be accepted and again for the answer.
    """
    greeting = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # with empty SETTINGS
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(greeting)
            connection.recv(1)
    except ConnectionResetError:
        return True
    except OSError:
        return False
    return True


@dataclass(frozen=True)
class AutoscalerReport:
    """Status of a Ray cluster's autoscaler.

    Attributes:
        is_fixed: Whether it is known that the cluster has no autoscaler.
        starting: Types of the nodes that are being started, one entry per node.
        failed: Types of the nodes that could not be started, with the reason if it is known.
    """

    is_fixed: bool = False
    starting: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


def autoscaler_report() -> AutoscalerReport:
    """Reads the newest autoscaler report of the cluster that this process has joined.

    Ray runs the first version of its autoscaler on every cluster. Without a configuration, this autoscaler gives each
    node a type that contains the node's id, and starts no nodes.
    """
    import ray
    from ray._private.ray_constants import DEBUG_AUTOSCALING_STATUS
    from ray.autoscaler.v2.sdk import get_cluster_status
    from ray.autoscaler.v2.utils import is_autoscaler_v2
    from ray.exceptions import RayError
    from ray.experimental.internal_kv import _internal_kv_get

    try:
        if is_autoscaler_v2(fetch_from_server=True):
            return report_of_v2(get_cluster_status(ray.get_runtime_context().gcs_address))
        text = _internal_kv_get(DEBUG_AUTOSCALING_STATUS)
    except (RayError, RuntimeError):  # the GCS is busy
        return AutoscalerReport()
    return AutoscalerReport() if text is None else report_of_v1(json.loads(text))


def report_of_v1(status: dict[str, Any]) -> AutoscalerReport:
    """Parses the status written by the first version of Ray's autoscaler.

    Args:
        status: The status that the autoscaler wrote to the GCS.
    """
    report = status.get("autoscaler_report") or {}
    types = list(report.get("active_nodes", {}))
    starting = [kind for kind, number in report.get("pending_launches", {}).items() for _ in range(number)]
    starting += [kind for _, kind, _ in report.get("pending_nodes", [])]
    tried = report.get("node_availability_summary", {}).get("node_availabilities", {})
    failed = {kind: "" for _, kind in report.get("failed_nodes", [])}
    for kind, record in tried.items():
        if not record["is_available"]:
            failed[kind] = (record.get("unavailable_node_information") or {}).get("description", "")
    return AutoscalerReport(
        is_fixed=bool(types) and all(re.fullmatch("node_[0-9a-f]{56}", kind) for kind in types),
        starting=tuple(starting),
        failed=_with_reasons(failed.items()),
    )


def report_of_v2(status: Any) -> AutoscalerReport:
    """Parses the status of the second version of Ray's autoscaler, which runs only where it was enabled.

    Args:
        status: Ray's ClusterStatus.
    """
    launches = [one.ray_node_type_name for one in status.pending_launches for _ in range(one.count)]
    failed = {one.ray_node_type_name: one.failure_detail or "" for one in status.failed_nodes}
    failed |= {one.ray_node_type_name: one.details or "" for one in status.failed_launches}
    return AutoscalerReport(
        starting=(*launches, *(one.ray_node_type_name for one in status.pending_nodes)),
        failed=_with_reasons(failed.items()),
    )


def _with_reasons(failed: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(f"{kind} ({reason.strip().splitlines()[0]})" if reason.strip() else kind for kind, reason in failed)


def draining_nodes() -> set[str]:
    """Ids of the nodes that are draining, that is, about to leave the cluster."""
    from ray._private.state import state

    return set(state.get_draining_nodes())


def nodes_of(controller: Any, trial: Trial) -> set[str]:
    """Ids of the nodes that run a Ray Tune trial: its own process, its workers and its learners."""
    from ray.util import placement_group_table

    held = controller._actor_manager.get_actor_resources(controller._trial_to_actor.get(trial))
    if held is None:  # its actor has not started yet
        return set()
    return set(placement_group_table(held.placement_group)["bundles_to_node_id"].values())


def pause_and_end_actor(controller: Any, trial: Trial) -> None:
    """Makes Ray Tune pause a trial and end its actor, which Tune would otherwise keep for another trial."""
    keeps, controller._reuse_actors = controller._reuse_actors, False
    try:
        controller.pause_trial(trial, should_checkpoint=False)
    finally:
        controller._reuse_actors = keeps


def full_controller(tune_controller: Any) -> Any:
    """Ray Tune's full trial controller, taken from the restricted controller that schedulers receive."""
    return tune_controller._tune_controller


def train_on(controller: Any, trial: Trial) -> None:
    """Makes Ray Tune request a trial's next result from the trial's actor."""
    controller._schedule_trial_train(trial)


def fail(controller: Any, trial: Trial, error: Exception) -> None:
    """Makes Ray Tune treat an exception as the failure of a trial."""
    controller._trial_task_failure(trial, error)


def actor_of(trial: Trial) -> Any:
    """Ray actor that runs a Ray Tune trial; None if the trial has no actor."""
    return trial.temporary_state.ray_actor


def drop_private_copies(trial: Trial) -> None:
    """Frees memory that Ray Tune holds for a trial: a second copy of its config, and its last remote call's result."""
    trial._Trial__unresolved_config = {}
    trial._default_result_or_future = None
