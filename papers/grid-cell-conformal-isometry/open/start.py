"""How far are two places from each other, by the codes of grid cells?

task.md says what is to be written, and how it is measured.
"""

import numpy as np


# <paper2code name="distances of places">
def distances(counts, steps, pairs):
    """Estimate distances between places of a walk.

    Args:
        counts: how often each cell fired at each moment of the walk, int, (moments, cells).
        steps: about how long the way was from each moment to the next, (moments - 1,).
        pairs: int, (number, 2): between which moments' places the distance is asked for.

    Returns:
        The straight distances, (number,), in the unit of `steps`.
    """
    moments = np.arange(len(counts))
    near = np.exp(-0.5 * ((moments[:, None] - moments) / 1.2) ** 2)  # counts are noisy: take those around
    codes = near @ counts
    codes /= np.maximum(np.linalg.norm(codes, axis=1, keepdims=True), 1e-9)
    walked = np.concatenate([[0.0], np.cumsum(steps)])
    ways = walked[4:] - walked[:-4]
    moved = np.linalg.norm(codes[4:] - codes[:-4], axis=1)
    scale = (moved * ways).sum() / (ways**2).sum()  # moved = scale * ways, by least squares
    one, other = pairs.T
    return np.linalg.norm(codes[one] - codes[other], axis=1) / scale
# </paper2code name="distances of places">
