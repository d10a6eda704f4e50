"""Distributions of pixels, one after the other.

task.md says what is to be written, and how it is measured.
"""

import numpy as np


# <paper2code name="images pixel by pixel">
def tell(train, reveal, images, levels):
    """Say a distribution for each pixel of new images, before it is told.

    Args:
        train: images to learn from, int, (number, rows, columns).
        reveal: a function of a pixel's number, row by row from 0, and of probabilities (images, levels); returns the
            pixel's levels in all images, (images,). Each pixel must be asked for once, in any order.
        images: how many new images there are.
        levels: how many levels a pixel has.
    """
    side, patch = train.shape[1], 4
    across = side // patch
    seen = np.full((images, side, side), -1)

    def features(known, top, left, place):
        """What is known of the patch's own pixels, and of the patches around it what their quarters' means are."""
        count = len(known)
        own = known[:, top : top + patch, left : left + patch].reshape(count, -1)[:, :place]
        parts = [np.eye(levels)[own].reshape(count, -1)]
        for up, over in ((-patch, 0), (0, -patch), (-patch, -patch), (-patch, patch)):
            a, b = top + up, left + over
            if a < 0 or b < 0 or b >= side:
                parts.append(np.zeros((count, 5)))
                continue
            block = known[:, a : a + patch, b : b + patch] / (levels - 1) - 0.5
            quarters = block.reshape(count, 2, 2, 2, 2).mean((2, 4)).reshape(count, 4)
            parts.append(np.hstack([quarters, np.ones((count, 1))]))
        return np.hstack([*parts, np.ones((count, 1))])

    corners = [(patch * i, patch * j) for i in range(across) for j in range(across)]
    models = []
    for place in range(patch * patch):  # one small generator for all patches
        x = np.vstack([features(train, top, left, place) for top, left in corners])
        i, j = divmod(place, patch)
        y = np.concatenate([train[:, top + i, left + j] for top, left in corners])
        w, first, second = np.zeros((3, x.shape[1], levels))
        for step in range(1, 61):
            rows = np.random.randint(0, len(y), 500)
            logits = x[rows] @ w
            p = np.exp(logits - logits.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            p[np.arange(len(rows)), y[rows]] -= 1
            slope = x[rows].T @ p / len(rows) + 1e-4 * w
            first = 0.9 * first + 0.1 * slope
            second = 0.99 * second + 0.01 * slope**2
            size = 0.1 * np.sqrt(1 - 0.99**step) / (1 - 0.9**step)
            w = w - size * first / (np.sqrt(second) + 1e-8)
        models.append(w)
    for top, left in corners:
        for place, w in enumerate(models):
            i, j = divmod(place, patch)
            logits = features(seen, top, left, place) @ w
            p = np.exp(logits - logits.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            seen[:, top + i, left + j] = reveal((top + i) * side + left + j, p)
# </paper2code name="images pixel by pixel">
