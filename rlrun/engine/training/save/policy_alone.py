"""Checkpoint content that holds a policy alone: to act with, or to start another training from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rlrun.engine.checkpoint.format import Content
from rlrun.engine.training.save.checkpointing import section, section_state, sections_of

_LEARNED = ("policies/", "targets/")
"""Prefixes of the tensor files that acting and a warm start read; the optimizers are left out."""

_PLACES = ("workers", "unsaved", "next_fragments", "episodes", "filter_deltas")
"""Entries of the workers' state on envs and fragments; the others are counts."""


def policy_alone(content: Content, spec: Mapping[str, Any]) -> Content:
    """Content with the policies, filters and counters of a training, without optimizers, replay and env states.

    A league keeps its pool, since its opponents act.

    Args:
        content: A checkpoint of the training.
        spec: Spec to store with it.

    Raises:
        CheckpointError: The checkpoint's state is malformed.
    """
    saved = sections_of(content)
    workers = section_state(saved, "workers")
    kept: dict[str, Any] = {
        "training": saved["training"],
        "workers": section("workers", {name: value for name, value in workers.items() if name not in _PLACES}),
        "trainees": {
            name: {part: sections[part] for part in ("learner", "filters")}
            for name, sections in saved["trainees"].items()
        },
    }
    if "league" in saved:
        kept["league"] = saved["league"]
    tensors = {stem: named for stem, named in content.tensors.items() if stem.startswith(_LEARNED)}
    return replace(content, spec=dict(spec), tensors=tensors, state=kept)
