"""Waits until a Ray cluster has a number of nodes: `python wait_for_nodes.py ADDRESS NODES [SECONDS]`."""

import socket
import sys
import time

import ray


def main() -> None:
    """Asks Ray once a second, for five minutes unless SECONDS says otherwise."""
    address, wanted, *seconds = sys.argv[1:]
    end = time.monotonic() + float(seconds[0] if seconds else 300)
    while (alive := living_nodes(address)) < int(wanted):
        if time.monotonic() > end:
            sys.exit(f"only {alive} of {wanted} nodes have joined the Ray at {address}")
        time.sleep(1)


def living_nodes(address: str) -> int:
    """Number of living nodes of a Ray cluster, 0 while its head is still starting.

    Args:
        address: The cluster's address, HOST:PORT.
    """
    host, _, port = address.rpartition(":")
    if not ray.is_initialized():
        try:
            socket.create_connection((host, int(port)), timeout=10).close()  # ray.init would wait longer for a server
            ray.init(address=address, log_to_driver=False, logging_level="WARNING")
        except OSError:  # also Ray's ConnectionError
            return 0
    return sum(node["Alive"] for node in ray.nodes())


main()
