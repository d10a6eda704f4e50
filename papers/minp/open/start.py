"""From the logits of a model that is off to the distribution that is drawn from.

task.md says what is to be written, and how it is measured.
"""

import numpy as np


# <paper2code name="next-token distribution">
def distribution(logits):
    """Distributions to draw the next token from.

    Args:
        logits: float32, (rows, words): what a model says; all rows with one kind of error.

    Returns:
        Probabilities, (rows, words); each row has the sum 1.
    """
    z = logits.astype(np.float64)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[p < 0.1 * p.max(axis=1, keepdims=True)] = 0.0
    return p / p.sum(axis=1, keepdims=True)
# </paper2code name="next-token distribution">
