"""Whether all nodes of a Ray cluster can use the kernels in C of updates, which a run uses everywhere or nowhere."""

from __future__ import annotations

from rlrun.engine.kernels.library import COMPILATION_TIMEOUT_S, why_no_library


def why_no_kernels_on_nodes() -> str:
    """Reason why a living node of this process's Ray cannot use the kernels, with the node's name; "" if all can.

    Nodes compile the kernels at the same time, if no earlier process has done so there.
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
            why_not = f"it does not answer ({type(error).__name__})"
        if why_not:
            return f"on node {node['NodeManagerHostname']} {why_not}"
    return ""


def _answer() -> str:
    """The reason on the node where this runs."""
    return why_no_library()
