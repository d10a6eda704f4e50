"""Samples from a few questions to a network that says mixtures.

task.md says what is to be written, and how it is measured.
"""

import numpy as np


# <paper2code name="few-step sampler">
def sample(network, samples, dimension, components, budget):
    """Draw samples.

    Args:
        network: a function of rows (x, t), one or many; for each one row: the log-weights of the components, their means, one after
            the other, and their deviation, of the clean point.
        samples, dimension, components: how many samples, of how many numbers; how many components the network says.
        budget: for how many rows the network may be asked.

    Returns:
        The samples, (samples, dimension).
    """
    steps = budget // samples
    x = np.random.normal(size=(samples, dimension))
    every = np.arange(samples)
    for step in range(steps):
        t, s = 1 - step / steps, 1 - (step + 1) / steps
        said = network(np.hstack([x, np.full((samples, 1), t)]))
        weights = np.exp(said[:, :components])
        means = said[:, components:-1].reshape(samples, components, dimension)
        cumulative = (weights / weights.sum(1, keepdims=True)).cumsum(1)
        k = np.minimum((cumulative <= np.random.random((samples, 1))).sum(1), components - 1)
        clean = means[every, k] + said[:, -1:] * np.random.normal(size=x.shape)
        if s == 0:
            return clean
        ratio = (1 - t) / (1 - s)
        beta = t**2 - ratio**2 * s**2
        x = s**2 / t**2 * ratio * x + beta / t**2 * (1 - s) * clean
        x = x + np.sqrt(beta) * s / t * np.random.normal(size=x.shape)
    return x
# </paper2code name="few-step sampler">
