"""Kind of actions, greedy or sampled, in the evaluation, serving and export of policies."""

from __future__ import annotations

from typing import Literal, get_args

ActionKind = Literal["greedy", "sampled"]
"""Kind of a policy's actions: the most likely ones, or those it samples as in training."""

DEFAULT_KIND: ActionKind = "greedy"
"""Kind of actions where none is chosen."""

ACTION_KINDS: tuple[ActionKind, ...] = get_args(ActionKind)
"""All kinds of actions."""


def other_kind(actions: ActionKind) -> ActionKind:
    """Returns "sampled" for "greedy", and "greedy" for "sampled"."""
    return "sampled" if actions == "greedy" else "greedy"
