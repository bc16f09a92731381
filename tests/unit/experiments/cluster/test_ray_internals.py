"""Private names of Ray are used in a single file, which names the version of Ray with which they were checked."""

from __future__ import annotations

import ast
import re
import socket
import threading
from pathlib import Path

from ray.autoscaler.v2.schema import ClusterStatus, LaunchRequest, NodeInfo

import rlrun
from rlrun.experiments.cluster import ray_internals
from rlrun.experiments.cluster.ray_internals import AutoscalerReport, answers_http2, report_of_v1, report_of_v2

PACKAGE = Path(rlrun.__file__).parent


def attributes(file: Path) -> set[str]:
    return {node.attr for node in ast.walk(ast.parse(file.read_bytes())) if isinstance(node, ast.Attribute)}


def test_the_pinned_ray_version_is_the_version_whose_private_names_were_checked() -> None:
    (pinned,) = re.findall(r"^ray==(\S+)$", (PACKAGE.parent / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned == ray_internals.CHECKED_WITH


def test_private_names_of_ray_are_used_in_a_single_file() -> None:
    own = Path(ray_internals.__file__)
    private = {name for name in attributes(own) if name.startswith("_")} | {"temporary_state"}
    assert private >= {"_tune_controller", "_schedule_trial_train", "_global_node"}
    for folder in ("engine/actors", "engine/learner/data_parallel", "experiments"):
        for file in (PACKAGE / folder).rglob("*.py"):
            if file != own:
                assert not private & attributes(file), file
                assert "ray._private" not in file.read_text(), file


def test_a_cluster_whose_node_types_are_node_ids_has_no_autoscaler() -> None:
    assert report_of_v1({"autoscaler_report": {"active_nodes": {f"node_{'0f' * 28}": 1}}}) == AutoscalerReport(
        is_fixed=True
    )


def test_the_autoscaler_report_is_empty_before_the_first_status() -> None:
    assert report_of_v1({}) == AutoscalerReport()
    assert report_of_v1({"autoscaler_report": {"active_nodes": {}}}) == AutoscalerReport()


def test_autoscaler_v1_reports_starting_and_failed_nodes() -> None:
    lack = {"is_available": False, "unavailable_node_information": {"category": "quota", "description": "no quota\nat"}}
    report = {
        "active_nodes": {"ray.head.default": 1},
        "pending_launches": {"cpu": 2},
        "pending_nodes": [["10.0.0.2", "gpu", "setting-up"]],
        "failed_nodes": [["10.0.0.3", "cpu"]],
        "node_availability_summary": {"node_availabilities": {"gpu": lack, "cpu": {"is_available": True}}},
    }
    assert report_of_v1({"autoscaler_report": report}) == AutoscalerReport(
        starting=("cpu", "cpu", "gpu"), failed=("cpu", "gpu (no quota)")
    )


def test_autoscaler_v2_reports_starting_and_failed_nodes() -> None:
    pending, failed = LaunchRequest.Status.PENDING, LaunchRequest.Status.FAILED
    status = ClusterStatus(
        pending_launches=[LaunchRequest("", "cpu", 2, pending, 0)],
        failed_launches=[LaunchRequest("", "gpu", 1, failed, 0, 1, "no quota")],
        pending_nodes=[NodeInfo("", "cpu", "i-1", "")],
        failed_nodes=[NodeInfo("", "cpu", "i-2", "")],
    )
    assert report_of_v2(status) == AutoscalerReport(starting=("cpu", "cpu", "cpu"), failed=("cpu", "gpu (no quota)"))


def test_answers_http2_distinguishes_a_listening_server_from_a_closed_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(connection.recv(24)[:1])

        answering = threading.Thread(target=serve)
        answering.start()
        assert answers_http2("127.0.0.1", port)
        answering.join()
    assert not answers_http2("127.0.0.1", port)
