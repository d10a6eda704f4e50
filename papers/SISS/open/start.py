"""What would a denoiser say that had never seen some of its data?

task.md says what is to be written, and how it is measured.
"""

import numpy as np


# <paper2code name="unlearned denoiser">
def unlearned(network, data, forget, share, points, times, budget):
    """Estimate the noise in noisy points, as a network would that has never seen what shall be forgotten.

    Args:
        network: a function of rows (m, t), one or many: the noise that the trained network sees in m.
        data: (number, dimension): a sample of all data.
        forget: (number, dimension): a sample of what shall be forgotten.
        share: how much of all data shall be forgotten.
        points, times: (number, dimension), (number,): noisy points and their times.
        budget: for how many rows the network may be asked.

    Returns:
        The noise, of the shape of `points`.
    """
    # The minimum of the SISS loss at each point. What is drawn is a kernel's draw from samples; the network stands for all data.
    t = times[:, None]
    gamma = np.sqrt(1 - t**2)

    def of(sample):
        away = points[:, None] - gamma[..., None] * sample
        logs = -(away**2).sum(2) / 2 / t**2
        top = logs.max(1, keepdims=True)
        p = np.exp(logs - top)
        return top[:, 0] + np.log(p.mean(1)), np.einsum("rk,rkd->rd", p / p.sum(1, keepdims=True), away) / t

    log_all, _ = of(data)
    log_gone, gone = of(forget)
    part = share * np.exp(np.minimum(log_gone - log_all, 50))
    part = np.minimum(part, 0.3)[:, None]  # the balanced superfactor: not too much is subtracted
    said = network(np.hstack([points, t]))
    return (said - part * gone) / (1 - part)
# </paper2code name="unlearned denoiser">
