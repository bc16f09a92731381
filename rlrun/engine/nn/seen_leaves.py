"""Choice of the observation entries that the actor and the critics see (privileged critics)."""

from __future__ import annotations

from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.data.tree import leaves
from rlrun.engine.data.views import VIEW_FRAMES, VIEW_OBS
from rlrun.engine.messages.errors import UsageError, did_you_mean
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.nn.observation_leaves import ObservationTree


def actor_leaves(tree: ObservationTree, model: ModelConfig) -> ObservationTree:
    """Returns the observation entries that the actor sees; the action mask is always included.

    Raises:
        UsageError: `model.actor_sees` names an entry that does not exist.
    """
    return _selected(tree, model.actor_sees, "actor_sees")


def critic_leaves(tree: ObservationTree, model: ModelConfig) -> ObservationTree:
    """Returns the observation entries that the critics see; the action mask is always included.

    Raises:
        UsageError: `model.critic_sees` names an entry that does not exist.
    """
    return _selected(tree, model.critic_sees, "critic_sees")


def _selected(tree: ObservationTree, keys: tuple[str, ...] | None, setting: str) -> ObservationTree:
    if keys is None:
        return tree
    for view in (VIEW_OBS, VIEW_FRAMES):
        if isinstance(tree, dict) and view in tree:
            return {**tree, view: _selected(tree[view], keys, setting)}
    parts = [key for key in tree if key != ACTION_MASK] if isinstance(tree, dict) else []
    if unknown := [key for key in keys if key not in parts]:
        told = f"its parts are {', '.join(map(repr, parts))}" if parts else "it has no parts, because it is not a Dict"
        near = did_you_mean(unknown[0], parts)
        raise UsageError(f"model.{setting}: the observation has no part {unknown[0]!r}; {told}{near}")
    # A set of entities needs its mask of present entities.
    needed = {ACTION_MASK, *keys, *(leaf.mask for key in keys for leaf in leaves(tree[key]))}
    return {key: part for key, part in tree.items() if key in needed}
