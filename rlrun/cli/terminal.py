"""Sanitized terminal output: control sequences are removed from untrusted texts."""

from __future__ import annotations

import re

import click

# Control characters except newlines and tabs, C1, characters that reorder text, and bytes of file names that are no
# UTF-8, which would reach the terminal as they are; rlrun's own colours are kept.
_CONTROLS = re.compile(
    r"(?!\x1b\[(?:0|[39][0-7])m)[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def plain(text: str) -> str:
    r"""Removes control sequences and bidirectional control characters from a text.

    Examples:
        >>> plain("a\x1b]0;title\x07b\x9bc\u202ed\n")
        'a]0;titlebcd\n'
    """
    return _CONTROLS.sub("", text)


def echo(text: str = "", *, err: bool = False) -> None:
    """Prints a text on stdout or stderr, without control sequences other than colours."""
    click.echo(plain(text), err=err)
