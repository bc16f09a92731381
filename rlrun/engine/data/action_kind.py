"""Kind of actions, greedy or sampled, for evaluating, serving and exporting policies."""

from __future__ import annotations

from typing import Literal, get_args

ActionKind = Literal["greedy", "sampled"]
"""Kind of a policy's actions: the mode of the action distribution, or samples as in training."""

DEFAULT_KIND: ActionKind = "greedy"
"""Default kind of actions."""

ACTION_KINDS: tuple[ActionKind, ...] = get_args(ActionKind)
"""All kinds of actions."""


def other_kind(actions: ActionKind) -> ActionKind:
    """Returns "sampled" for "greedy", and "greedy" for "sampled"."""
    return "sampled" if actions == "greedy" else "greedy"
