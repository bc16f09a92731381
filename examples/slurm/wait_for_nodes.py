"""Waits until a Ray cluster has a number of nodes: `python wait_for_nodes.py ADDRESS NODES [SECONDS]`."""

import socket
import sys
import time

import ray


def main() -> None:
    """Asks Ray once a second."""
    address, wanted, *seconds = sys.argv[1:]
    end = time.monotonic() + float(seconds[0] if seconds else 300)
    host, _, port = address.rpartition(":")
    while True:  # ray.init would not wait for a head that is still starting
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
            break
        except OSError as error:
            if time.monotonic() > end:
                sys.exit(f"no Ray at {address}: {error}")
            time.sleep(1)
    ray.init(address=address, log_to_driver=False, logging_level="WARNING")
    while (alive := sum(node["Alive"] for node in ray.nodes())) < int(wanted):
        if time.monotonic() > end:
            sys.exit(f"only {alive} of {wanted} nodes have joined the Ray at {address}")
        time.sleep(1)


main()
