"""Starting, joining and stopping Ray for a run; Ray's output is hidden, and no Ray process outlives the run."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rlrun.engine.actors import private_ray
from rlrun.engine.kernels.library import COMPILATION_TIMEOUT_S, why_no_library
from rlrun.engine.messages.errors import RayEnded, RlrunError, UsageError
from rlrun.experiments.cluster.gcs_watch import LOOK_EVERY_S, GcsWatch, watch_head
from rlrun.experiments.cluster.growth import NodeWait, NodeWaiter
from rlrun.experiments.cluster.joining import join
from rlrun.experiments.cluster.ray_internals import end_processes, gcs_server
from rlrun.experiments.cluster.resources import Capacity, machine_cpus, ray_cpus
from rlrun.experiments.cluster.shipping import code_environment
from rlrun.experiments.spec.experiment import Experiment, TrialSpec

# Rollouts pass through the object store a few at a time; Ray's default, 30% of the memory, starves the learner.
OBJECT_STORE_SHARE = 0.15
OBJECT_STORE_MAX_BYTES = 2 * 2**30
OBJECT_STORE_MIN_BYTES = 100 * 2**20

CONNECT_TIMEOUT_S = 10.0
"""Timeout in seconds for the connection to a cluster."""

# Environment variables that Ray and Tune read; those that the user has set are kept.
SWITCHES = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # the trial writes its own result files
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # rlrun handles signals
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # a relative path in a spec means the same in both executors
    "RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS": "0",
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000",  # Tune's own state is never read
    "RAY_RUNTIME_ENV_IGNORE_GITIGNORE": "1",  # a user's package may need files that git ignores
    "TUNE_MAX_PENDING_TRIALS_PG": "16",  # how many actors may start at once; with a searcher, the default is 1
    "TUNE_WARN_SLOW_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "60",
}


class RaySession:
    """Context manager for Ray: `start` starts or joins Ray, and leaving the context stops or leaves Ray.

    If the process has already started or joined Ray, the existing Ray is used and left running. With an address, the
    cluster is joined, and the user's own modules are shipped to its machines. Otherwise a private Ray is started on
    this machine. This Ray gets as many CPUs as the machine has cores, or as many as the largest trial needs if that is
    more: a trial's own process shares the cores with its workers, so a trial may need more CPUs than there are cores.

    Args:
        trials: The trials.
        address: A Ray cluster's address, or None.
        experiments: The experiments of the trials, whose modules are shipped to a cluster.
        wait_for_nodes_s: Seconds to wait for nodes with room for the trials, or None for the default (`NodeWaiter`).
        is_optional: Whether the trials could also run without Ray, one after another.
    """

    def __init__(
        self,
        trials: Sequence[TrialSpec],
        address: str | None = None,
        experiments: Sequence[Experiment] = (),
        wait_for_nodes_s: float | None = None,
        *,
        is_optional: bool = False,
    ) -> None:
        self._is_optional = is_optional
        self._trials = trials
        self._address = address
        self._experiments = experiments
        self._wait_for_nodes_s = wait_for_nodes_s
        self._watch: GcsWatch | None = None
        self._started = False
        self._is_ours = False
        self._place = ""
        self._code: dict[str, Any] = {}

    def __enter__(self) -> RaySession:
        """Collects the modules to ship; does not start Ray yet."""
        if self._address is not None:
            self._code = code_environment(self._experiments)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops or leaves Ray by `close`."""
        self.close()

    def start(self, say: Callable[[str], object], lost: Callable[[RlrunError], None]) -> None:
        """Starts or joins Ray; does nothing if this session has already done so.

        Args:
            say: Called with a message before an optional Ray is started, and before each new attempt to start it.
            lost: Called in another thread when the main thread hangs in a call to Ray, for one of three reasons: the
                gcs_server of a Ray started here has died (Ray's other processes have then been ended), the head of a
                joined cluster no longer answers, or a cluster does not let this process join.

        Raises:
            EnvironmentUnusable: If Ray does not start.
            UsageError: If there is no cluster at the address.
        """
        if self._started:
            return
        for name, value in SWITCHES.items():
            os.environ.setdefault(name, value)
        private_ray.prepare_environment(loopback=self._address is None)
        import ray

        if ray.is_initialized():
            if self._address is not None:
                raise UsageError(
                    "this process is already connected to a Ray cluster and cannot also join the one at "
                    f"{self._address}"
                )
            self._place = "the running Ray"
        elif self._address is None:
            self._is_ours = True
            if self._is_optional:
                say("starting Ray to train trials in parallel; --executor local trains them one by one without Ray")
            cpus = round(ray_cpus(self._trials, machine_cpus()))
            private_ray.start(cpus, _object_store_bytes(), quiet=False, say=say)
            gcs = gcs_server()

            def end() -> None:
                end_processes()
                lost(end_of_ray("gcs_server"))

            self._watch = GcsWatch(lambda: gcs.poll() is not None, LOOK_EVERY_S, end)
        else:
            self._is_ours = True
            join(self._address, self._code, lost)
            self._place = f"the cluster at {self._address}"
            self._watch = watch_head(lost)
        self._started = True

    def wait_for_nodes(
        self, report: Callable[[NodeWait], object], is_stopped: Callable[[], bool] = lambda: False
    ) -> None:
        """Waits until the nodes of a cluster have room for each trial; does nothing on a private Ray.

        Args:
            report: Called with each new report on the wait.
            is_stopped: Function that returns whether the user has interrupted the run; the wait then ends.

        Raises:
            UsageError: If a trial's resources are not provided in time.
        """
        if self._place:
            place, self._place = self._place, ""
            waiter = NodeWaiter(lambda: cluster_capacity(place), self._wait_for_nodes_s, report, is_stopped)
            waiter.wait(self._trials)

    @property
    def spans_machines(self) -> bool:
        """Whether trials may run on other machines; always True on a joined cluster, which may grow."""
        return self._address is not None or len(cluster_capacity("").cpus) > 1

    def close(self) -> None:
        """Stops or leaves Ray if this session started or joined Ray; the processes of trials then end too."""
        if self._watch is not None and self._address is None:  # else, shutting down a private Ray counts as its death
            self._watch.close()
        if self._is_ours:
            private_ray.stop()
        if self._watch is not None:  # closed last: if the head dies while leaving a cluster, Ray hangs
            self._watch.close()
        self._started = self._is_ours = False


def has_ended() -> bool:
    """Whether the local Ray node has died.

    Calls to Ray raise no error in that state, so the node is checked directly.
    """
    import ray

    here = ray.get_runtime_context().get_node_id()
    return not any(node["Alive"] and node["NodeID"] == here for node in ray.nodes())


def end_of_ray(server: str) -> RayEnded:
    """Creates the error that a run raises after a server process of Ray has died on this machine."""
    return RayEnded(f"Ray ended on this machine while trials were running: its {server} was killed or crashed")


def belongs_to_ray() -> bool:
    """Whether this process has started or joined Ray; does not import ray."""
    if "ray" not in sys.modules:
        return False
    import ray

    return bool(ray.is_initialized())


def warn_if_open_to_everyone() -> None:
    """Warns if the user has disabled Ray's token authentication."""
    if os.environ.get("RAY_AUTH_MODE", "").lower() == "disabled":
        warnings.warn(
            "RAY_AUTH_MODE=disabled: anyone who can reach this machine's ports can run code in this run", stacklevel=2
        )


def cluster_capacity(place: str) -> Capacity:
    """Capacity of the Ray cluster that this process has joined: CPUs and GPUs of each living node.

    Args:
        place: Name of the cluster in messages.
    """
    import ray

    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return Capacity(
        cpus=tuple(node.get("CPU", 0.0) for node in nodes),
        gpus=tuple(node.get("GPU", 0.0) for node in nodes),
        place=place,
        shares_trial_cpu=False,
    )


def require_cluster(address: str) -> None:
    """Checks early that a Ray cluster can be reached; Ray itself would retry an unreachable address for a long time.

    Raises:
        UsageError: If no server listens at the address, this process has no token, or the address belongs to Ray
            Client.
    """
    if address.startswith("ray://"):
        raise UsageError(
            f"--address {address}: Ray Client is not supported; run rlrun on a node of the cluster, with --address auto"
        )
    if os.environ.get("RAY_AUTH_MODE", "").lower() == "disabled":
        raise UsageError(
            "joining a cluster needs its token: unset RAY_AUTH_MODE (now disabled), and set RAY_AUTH_TOKEN"
        )
    if private_ray.is_bound_to_this_machine():
        raise UsageError(
            "this process has already started a private Ray and can no longer join a cluster: use a new process"
        )
    if not private_ray.has_token():
        raise UsageError(
            "joining a cluster needs its token: set RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH to a file (`ray "
            "get-auth-token` prints the token on a node that has it)"
        )
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if not (host and port.isdigit()):
        return
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        raise UsageError(f"no Ray cluster at the address {address}: {error}") from error


def _object_store_bytes() -> int:
    """Size of Ray's object store in bytes: a fraction of the memory, limited by the free space of /dev/shm."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    shared = Path("/dev/shm")
    room = shutil.disk_usage(shared).free if shared.is_dir() else memory
    wanted = min(OBJECT_STORE_MAX_BYTES, OBJECT_STORE_SHARE * memory, 0.8 * room)
    return int(max(OBJECT_STORE_MIN_BYTES, wanted))


def why_no_kernels_on_nodes() -> str:
    """Reason why a node of the Ray cluster cannot run rlrun's C code for network updates (kernels); "" if all can.

    The reason names the node. Nodes that have not yet compiled the C code do so now, all at the same time.
    """
    import ray
    from ray.exceptions import RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ask = ray.remote(num_cpus=0)(_answer)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    places = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes]
    answers = [ask.options(scheduling_strategy=place).remote() for place in places]
    for node, answer in zip(nodes, answers, strict=True):
        try:
            why_not = ray.get(answer, timeout=COMPILATION_TIMEOUT_S)
        except RayError as error:
            if not any(other["Alive"] and other["NodeID"] == node["NodeID"] for other in ray.nodes()):
                continue  # an autoscaler has removed it
            why_not = f"it does not answer ({type(error).__name__})"
        if why_not:
            return f"on node {node['NodeManagerHostname']} {why_not}"
    return ""


def _answer() -> str:
    """Reason for the node on which this function runs."""
    return why_no_library()
