"""How large values can be where episodes return no more than some bound."""

from __future__ import annotations


def largest_value(largest_return: float, length: float, gamma: float) -> float:
    """Returns the largest discounted sum of rewards that returns allow.

    An episode that is cut off is valued as if it went on. At worst episodes follow without end, each of which pays all
    of its return in its first step: the sum over k of R gamma^(k L) is R / (1 - gamma^L). Without a discount such a sum
    has no bound, and R stands for what one episode can pay.

    Args:
        largest_return: R, the largest absolute value of an episode's return.
        length: L, the mean steps of an episode, at least 1.
        gamma: The discount of a step.

    Examples:
        >>> largest_value(10.0, 1.0, 0.5), largest_value(10.0, 1.0, 1.0)
        (20.0, 10.0)
    """
    return largest_return if gamma >= 1 else largest_return / (1 - gamma**length)
