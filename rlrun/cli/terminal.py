"""Prints texts that may come from a stranger's files: nothing in them can give orders to the terminal."""

from __future__ import annotations

import re

import click

# Control characters but for newlines and tabs, C1, what reorders the text around it, and bytes of file names that are
# no UTF-8, which would reach the terminal as they are; colours of ours stay.
_ORDERS = re.compile(
    r"(?!\x1b\[(?:0|[39][0-7])m)[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def plain(text: str) -> str:
    r"""Returns a text without what a terminal would obey or reorder.

    Examples:
        >>> plain("a\x1b]0;title\x07b\x9bc\u202ed\n")
        'a]0;titlebcd\n'
    """
    return _ORDERS.sub("", text)


def echo(text: str = "", *, err: bool = False) -> None:
    """Prints a text on stdout or stderr, and nothing that a terminal would obey but colours."""
    click.echo(plain(text), err=err)
