"""The tolerance for comparing two float32 computations of a number: a bound on their rounding errors."""

import numpy as np


def rounding_error(elements: int, size: float = 1.0) -> float:
    """Returns how far apart two float32 computations of a number may be: `elements * epsilon * size`.

    A float32 sum or inner product of n terms is within n/2 epsilons of the exact result, times the sum of their sizes,
    whatever the order in which a BLAS kernel adds them (Higham, Accuracy and Stability of Numerical Algorithms,
    section 3.1). Two such results are at most twice as far apart. For a computation in several stages, add up the
    elements of all stages.

    A larger difference is a mistake, not rounding. Tests therefore count elements instead of trying out tolerances.

    Args:
        elements: How many numbers are added up to compute a result: the inputs of a layer, summed over layers, the rows
            of a batch, the steps of a return or of an optimizer. An elementwise function counts as a few.
        size: Size of the largest intermediate number. Use 1 for a relative tolerance, or if numbers are of order 1.
    """
    return elements * float(np.finfo(np.float32).eps) * size
