"""How much of a corpus was written by machines?

task.md says what is to be written, and how it is measured.
"""

import numpy as np


# <paper2code name="share of machine text">
def share(human, machine, corpus):
    """Estimate the share of texts that machines wrote.

    Args:
        human, machine: texts of known origin: bool, (texts, words), which words occur in which text.
        corpus: texts of unknown origin, likewise.

    Returns:
        A number between 0 and 1.
    """
    p = (human.sum(0) + 0.5) / (len(human) + 1)
    q = (machine.sum(0) + 0.5) / (len(machine) + 1)
    log_p = corpus @ np.log(p) + ~corpus @ np.log1p(-p)
    log_q = corpus @ np.log(q) + ~corpus @ np.log1p(-q)
    top = np.maximum(log_p, log_q)
    p_of, q_of = np.exp(log_p - top), np.exp(log_q - top)

    def slope(alpha):
        with np.errstate(divide="ignore"):
            return np.sum((q_of - p_of) / ((1 - alpha) * p_of + alpha * q_of))

    if slope(0.0) <= 0:
        return 0.0
    if slope(1.0) >= 0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return (low + high) / 2
# </paper2code name="share of machine text">
