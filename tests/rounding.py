"""The tolerance of tests that compare two float32 computations of one number: a bound on their rounding errors."""

import numpy as np


def rounding_error(elements: int, size: float = 1.0) -> float:
    """Returns how far two float32 computations of one number may be apart: `elements * epsilon * size`.

    A float32 sum or inner product of n terms is within n/2 epsilons of the exact one, times the sum of their sizes,
    in whatever order a BLAS kernel adds them (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
    Two of them are at most twice as far apart. A computation in several stages has the elements of all of them.

    A larger difference is a mistake, not a rounding. Hence a test counts its elements and does not try numbers.

    Args:
        elements: How many numbers are added up on the way to one result: the inputs of a layer, summed over layers,
            the rows of a batch, the steps of a return or of an optimizer. An elementwise function counts as a few.
        size: Size of the largest number on the way. 1 is right as a relative tolerance, and where numbers are of
            order 1.
    """
    return elements * float(np.finfo(np.float32).eps) * size
