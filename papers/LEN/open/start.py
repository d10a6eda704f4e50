"""A solver of convex-concave problems that pays for every evaluation.

task.md says what is to be written, and how it is measured.
"""

import numpy as np


# <paper2code name="solver for min-max problems">
def solve(operator, jacobian, start, bend):
    """Make the operator small.

    Args:
        operator: a function of a point; F there. The run ends in the call that finds it small enough.
        jacobian: a function of a point; the matrix of F's derivatives there.
        start: the first point.
        bend: how much the Jacobian changes per unit of distance, about.
    """
    d = len(start)
    period, weight = max(1, d // 4), 2.0 * bend
    z = start.copy()
    t = 0
    while True:
        value = operator(z)
        if t % period == 0:
            matrix = jacobian(z)
            eigenvalues, vectors = np.linalg.eig(matrix)
            inverse = np.linalg.inv(vectors)
        turned = inverse @ value
        norm, size = np.linalg.norm(value), np.linalg.norm(matrix)
        low = 2 * weight * norm / (size + np.sqrt(size**2 + 4 * weight * norm))
        high = np.sqrt(weight * norm)
        while high - low > 1e-10 * high:
            shift = (low + high) / 2
            step = -(vectors @ (turned / (eigenvalues + shift))).real
            if shift > weight * np.linalg.norm(step):
                high = shift
            else:
                low = shift
        shift = (low + high) / 2
        half = z - (vectors @ (turned / (eigenvalues + shift))).real
        z = z - operator(half) / shift
        t += 1
# </paper2code name="solver for min-max problems">
