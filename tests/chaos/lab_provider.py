"""Node provider of the labs, which Ray's autoscaler imports: nodes are raylets of this machine."""

from __future__ import annotations

from ray.autoscaler._private.fake_multi_node.node_provider import FakeMultiNodeProvider


class LabProvider(FakeMultiNodeProvider):  # type: ignore[misc]  # ray has no types
    """Ray's provider for tests, but as in a cloud, a node that has died is gone."""

    def non_terminated_nodes(self, tag_filters: dict[str, str]) -> list[str]:
        with self.lock:
            nodes = {name: known["node"] for name, known in self._nodes.items() if "node" in known}
            for name, node in nodes.items():
                if not node.remaining_processes_alive():
                    node.kill_all_processes(check_alive=False)
                    del self._nodes[name]
        return list(super().non_terminated_nodes(tag_filters))
