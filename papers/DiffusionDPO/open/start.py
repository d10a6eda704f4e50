"""From comparisons of items to the distribution that people would like.

task.md says what is to be written, and how it is measured.
"""

import numpy as np


# <paper2code name="alignment to preferences">
def align(reference, winners, losers, features, beta):
    """The reference, tilted by the reward that comparisons tell of.

    Args:
        reference: probabilities of the items.
        winners, losers: item numbers; in each comparison people liked the first one better.
        features: (items, 2), where the items lie.
        beta: how strongly the result is tied to the reference.

    Returns:
        Probabilities of the items.
    """
    logits = np.zeros(len(reference))  # of the policy over the reference
    first, second = np.zeros_like(logits), np.zeros_like(logits)
    for step in range(1, 151):
        gap = beta * (logits[winners] - logits[losers])
        pull = beta / (1 + np.exp(gap)) / len(winners)
        slope = np.zeros_like(logits)
        np.add.at(slope, winners, -pull)
        np.add.at(slope, losers, pull)
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope**2
        size = 0.02 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        logits = logits - size * first / (np.sqrt(second) + 1e-8)
    policy = reference * np.exp(logits)
    return policy / policy.sum()
# </paper2code name="alignment to preferences">
