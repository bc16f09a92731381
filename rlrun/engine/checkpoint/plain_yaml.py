"""Plain data written as YAML that means the same in YAML 1.1 and 1.2, without tags or references.

YAML 1.1 (PyYAML) and YAML 1.2 (rlrun's specs) disagree on what `1e-4`, `on` or `1_000` are. Strings that either version
would read as a different type are quoted, so that both read the same data.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from typing_extensions import override
from yaml.emitter import ScalarAnalysis

MAX_BYTES = 4_000_000
MAX_DEPTH = 60
MAX_SCALARS = 300_000
"""Maximum number of keys and values in a YAML file: more than any spec, and few enough to parse in seconds."""

_TOO_MANY = f"more than {MAX_SCALARS:,} keys and values"

_OPENING = (
    yaml.BlockMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.FlowSequenceStartToken,
)
_CLOSING = (yaml.BlockEndToken, yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)

_LINE_BREAKS_OF_UNICODE = "\x85\u2028\u2029"
_NUMBERS_OF_YAML_12 = re.compile(
    r"[-+]?(\.[0-9_]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9_]+)?|0o[0-7_]+|0x[0-9a-fA-F_]+"
)


class _Dumper(yaml.SafeDumper):
    @override
    def ignore_aliases(self, data: Any) -> bool:
        """True: objects that occur twice are written twice, since references are rejected on loading."""
        return True

    @override
    def analyze_scalar(self, scalar: str) -> ScalarAnalysis:
        """Escapes Unicode line breaks, which PyYAML would write unescaped and read as spaces."""
        analysis = super().analyze_scalar(scalar)
        if any(character in _LINE_BREAKS_OF_UNICODE for character in scalar):
            analysis.allow_flow_plain = analysis.allow_block_plain = False
            analysis.allow_single_quoted = analysis.allow_block = False
        return analysis


# PyYAML quotes strings that YAML 1.1 would misread; this also quotes those that YAML 1.2 would read as numbers.
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBERS_OF_YAML_12, list("-+.0123456789"))


def dump_plain_yaml(data: Any) -> str:
    """Serializes dicts, lists, strings, numbers, booleans and None to YAML; keys keep their order.

    Raises:
        ValueError: The data contains another type, or is too large to be loaded.
    """
    if _scalars(data) > MAX_SCALARS:
        raise ValueError(_TOO_MANY)
    try:
        return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    except yaml.YAMLError as error:
        raise ValueError(f"only plain data can be written to YAML: {error}") from error


def load_plain_yaml(text: str) -> Any:
    """Parses YAML text written by `dump_plain_yaml`.

    Raises:
        ValueError: The text is not YAML, has references (which can expand without bound) or tags, or is too large.
    """
    if len(text) > MAX_BYTES:
        raise ValueError(f"longer than {MAX_BYTES} characters")
    try:
        depth = scalars = 0
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            if isinstance(token, yaml.AliasToken | yaml.AnchorToken | yaml.TagToken):
                raise ValueError(f"aliases and tags are not allowed (line {token.start_mark.line + 1})")
            depth += isinstance(token, _OPENING) - isinstance(token, _CLOSING)
            if depth > MAX_DEPTH:  # checked while scanning, since scanning slows down with the depth
                raise ValueError(f"nested more than {MAX_DEPTH} levels deep (line {token.start_mark.line + 1})")
            scalars += isinstance(token, yaml.ScalarToken)
            if scalars > MAX_SCALARS:
                raise ValueError(_TOO_MANY)
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def _scalars(data: Any) -> int:
    """Counts the keys and values in nested dicts and lists."""
    if isinstance(data, dict):
        return len(data) + sum(map(_scalars, data.values()))
    return sum(map(_scalars, data)) if isinstance(data, list) else 1
