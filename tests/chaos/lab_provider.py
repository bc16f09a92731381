"""Node provider of the labs, which Ray's autoscaler imports: nodes are raylets of this machine."""

from __future__ import annotations

import os
import sys

from ray.autoscaler._private.fake_multi_node.node_provider import FakeMultiNodeProvider
from ray.autoscaler.node_launch_exception import NodeLaunchException

QUOTA_VARIABLE = "LAB_WITHOUT_QUOTA"


class LabProvider(FakeMultiNodeProvider):  # type: ignore[misc]  # ray has no types
    """Ray's provider for tests, except that dead nodes disappear, as in a cloud."""

    def non_terminated_nodes(self, tag_filters: dict[str, str]) -> list[str]:
        with self.lock:
            nodes = {name: known["node"] for name, known in self._nodes.items() if "node" in known}
            for name, node in nodes.items():
                if not node.remaining_processes_alive():
                    node.kill_all_processes(check_alive=False)
                    del self._nodes[name]
        return list(super().non_terminated_nodes(tag_filters))

    def create_node_with_resources_and_labels(self, *arguments: object) -> None:
        if QUOTA_VARIABLE in os.environ:
            raise NodeLaunchException("Quota", "the lab has no quota", sys.exc_info())
        super().create_node_with_resources_and_labels(*arguments)
