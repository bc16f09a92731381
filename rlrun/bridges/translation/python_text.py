"""Parser for values written as Python text, such as rl-zoo3's `policy_kwargs: "dict(net_arch=[64])"`, without eval."""

from __future__ import annotations

import ast
from typing import Any

MAX_CHARACTERS = 10_000


class Symbol(str):
    """Dotted name in Python text, such as `nn.ReLU`, which is kept as text."""


def python_value(text: str) -> Any:
    """Parses a Python literal, in which `dict(a=1)` is allowed and names are kept as symbols.

    Raises:
        ValueError: The text contains anything else, such as a call of another function.

    Examples:
        >>> python_value("dict(net_arch=[64, 64], activation_fn=nn.ReLU, log_std_init=-2)")
        {'net_arch': [64, 64], 'activation_fn': 'nn.ReLU', 'log_std_init': -2}
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"a text of more than {MAX_CHARACTERS:,} characters")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError("no Python expression") from None


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=None | bool() | int() | float() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item) for item in items]
        case ast.Dict(keys=keys, values=values) if all(isinstance(key, ast.Constant) for key in keys):
            return {str(_value(key)): _value(value) for key, value in zip(keys, values, strict=True) if key is not None}
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords) if all(each.arg for each in keywords):
            return {str(each.arg): _value(each.value) for each in keywords}
        case ast.Name(id=name):
            return Symbol(name)
        case ast.Attribute(value=value, attr=name):
            below = _value(value)
            if isinstance(below, Symbol):
                return Symbol(f"{below}.{name}")
    raise ValueError(f"{ast.unparse(node)[:60]!r} is neither a literal nor dict(...)")
