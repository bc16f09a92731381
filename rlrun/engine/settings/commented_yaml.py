"""Settings of a config class as YAML, with defaults, and with docstrings as comments."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from pydantic.fields import FieldInfo

from rlrun.engine.messages.explain import describe, full_annotation, is_model
from rlrun.engine.settings.config import ConfigModel

MAIN_SETTINGS = (
    "input", "lr", "gamma", "num_envs_per_worker", "train_batch_size", "minibatch_size", "num_epochs",
    "learning_starts", "training_intensity", "epsilon", "critic_lr", "gae_lambda", "entropy_coeff", "num_workers",
    "normalize_observations",
)  # fmt: skip
"""Settings that most users change, the most important one first."""

MOST_MAIN, MOST_OWN = 10, 3
"""Maximum number of main settings of an algorithm, and of those that its own config class declares."""

_WORDS_WITH_MEANING = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")


def main_settings(model: type[ConfigModel]) -> list[str]:
    """Returns the names of an algorithm's most important settings, in the order of its config's fields.

    These are the inherited settings in `MAIN_SETTINGS`, and the first few settings, not counting sections, that the
    config class itself declares.
    """
    own = [
        name
        for name, field in model.model_fields.items()
        if name in model.__annotations__ and not is_model(field.annotation)
    ][:MOST_OWN]
    known = [name for name in MAIN_SETTINGS if name in model.model_fields and name not in own]
    chosen = {*own, *known[: MOST_MAIN - len(own)]}
    return [name for name in model.model_fields if name in chosen]


def commented_yaml(model: type[ConfigModel], names: Collection[str] | None = None) -> str:
    """Formats fields of a config class as YAML, with defaults and with docstrings as comments.

    Parsing the text gives the defaults. A required field has no default and is commented out. Settings that the class
    fixes are listed in comments at the end, with their values and the reasons.

    Args:
        model: The config class.
        names: Names of the fields; None for all fields and the fixed settings.
    """
    lines = list(_field_lines(model, indent="", names=names))
    if names is None:
        lines += _fixed_lines(model, indent="")
    return "\n".join(lines).lstrip("\n") + "\n"


def setting_lines(model: type[ConfigModel], names: Iterable[str], indent: str) -> Iterator[str]:
    """Yields the lines of commented YAML for some settings, indented so that they fit into other YAML."""
    for name in names:
        field = model.model_fields[name]
        yield from _comment_lines(field, indent)
        yield f"{indent}{name}: {flow_yaml(field.get_default(call_default_factory=True))}"


def _field_lines(
    model: type[ConfigModel], indent: str, section: ConfigModel | None = None, names: Collection[str] | None = None
) -> Iterator[str]:
    """Yields the commented YAML lines of a config class, or of a section whose values differ from the defaults."""
    for name, field in model.model_fields.items():
        if names is not None and name not in names:
            continue
        if indent == "":
            yield ""
        yield from _comment_lines(field, indent)
        if section is None and field.is_required():
            yield f"{indent}# {name}:"
            continue
        value = field.get_default(call_default_factory=True) if section is None else getattr(section, name)
        if isinstance(value, ConfigModel):
            yield f"{indent}{name}:"
            yield from _field_lines(type(value), indent + "  ", value)
            yield from _fixed_lines(type(value), indent + "  ")
        else:
            yield f"{indent}{name}: {flow_yaml(value)}"


def _fixed_lines(model: type[ConfigModel], indent: str) -> Iterator[str]:
    """Yields a comment for each group of fixed settings with the same reason."""
    names: dict[str, list[str]] = {}
    for name in filter(model.fixed_fields.__contains__, model.refused):
        names.setdefault(model.refused[name], []).append(f"{name}: {flow_yaml(_written(getattr(model, name)))}")
    for reason, settings in names.items():
        if indent == "":
            yield ""
        text = f"Cannot be set: {', '.join(settings)} ({reason})"
        yield from (f"{indent}# {line}" for line in textwrap.wrap(text, 100 - len(indent)))


def _written(value: Any) -> Any:
    """Returns a value as a user would write it in a spec; for a section, only keys that differ from the defaults."""
    return dict(value.__repr_args__()) if isinstance(value, ConfigModel) else value


def _comment_lines(field: FieldInfo, indent: str) -> Iterator[str]:
    kind = describe(full_annotation(field))
    summary = textwrap.fill(" ".join((field.description or "").split()), 100 - len(indent))
    for line in summary.splitlines():
        yield f"{indent}# {line}"
    if not is_model(field.annotation):
        required = ", required" if field.is_required() else ""
        yield from (f"{indent}# {line}" for line in textwrap.wrap(f"({kind}{required})", 100 - len(indent)))


def flow_yaml(value: Any) -> str:
    """Formats a value as one line of YAML 1.2; strings that look like other values are quoted."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow_yaml(key)}: {flow_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow_yaml(item) for item in value) + "]"
    if (
        isinstance(value, str)
        and re.fullmatch(r"[A-Za-z_][\w./-]*", value)
        and value.lower() not in _WORDS_WITH_MEANING
    ):
        return value
    return repr(value) if isinstance(value, float) else json.dumps(value)
