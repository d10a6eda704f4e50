"""An optimizer for noisy gradients, which does not know how long it runs nor how large anything is.

task.md says what is to be written, and how it is measured.
"""

import numpy as np


# <paper2code name="optimizer of unknown horizon and scale">
def optimize(gradient, start):
    """Minimize a convex function.

    Args:
        gradient: a function (at, answer) of two points; returns a noisy gradient at the first one, and takes
            note of the second as the answer so far. The run ends in one of its calls.
        start: the first point.
    """
    rate, beta, beta2, warmup = 0.1, 0.9, 0.999, 20
    z, x = start.copy(), start.copy()
    v, weights = np.zeros_like(start), 0.0
    step = 0
    while True:
        step += 1
        y = (1 - beta) * z + beta * x
        g = gradient(y, x)
        v = beta2 * v + (1 - beta2) * g * g
        size = rate * min(1.0, step / warmup)
        z = z - size * g / (np.sqrt(v / (1 - beta2**step)) + 1e-12)
        weights += size**2
        c = size**2 / weights
        x = (1 - c) * x + c * z
# </paper2code name="optimizer of unknown horizon and scale">
