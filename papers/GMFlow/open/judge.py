"""Hidden: distributions on curves and shells, what a mixture network would say of them, and an exact distance."""

import numpy as np

from rcb_env.judging import Oracle, Refused, array, problems

FEEDBACK, FINAL = 6, 18
SAMPLES, PARTS, SPOKEN = 400, 240, 6
WIDTHS = (0.15, 0.4, 1.0)  # of the kernels, as parts of the data's spread


class _World:
    """Many small Gaussians; the network says six larger ones."""

    def __init__(self, r, centres):
        self.d = centres.shape[1]
        turn = np.linalg.qr(r.normal(size=(self.d, self.d)))[0]
        centres = (centres - centres.mean(0)) @ turn
        centres *= r.uniform(0.6, 1.6) / centres.std()
        self.centres = centres + r.normal(0, 0.3, self.d)
        self.spread = np.sqrt(self.centres.var(0).mean())
        self.narrow = self.spread * r.uniform(0.02, 0.08)
        self.weights = r.dirichlet(np.full(len(centres), 3.0))
        self.group = self._groups(r)

    def _groups(self, r):
        means = self.centres[r.choice(len(self.centres), SPOKEN, replace=False)]
        for _ in range(30):
            group = ((self.centres[:, None] - means) ** 2).sum(-1).argmin(1)
            for k in range(SPOKEN):
                if (group == k).any():
                    means[k] = self.centres[group == k].mean(0)
        return np.eye(SPOKEN)[group]

    def said(self, points):
        """For rows (x, t): log-weights, means and deviation of the clean point's distribution, as one row of numbers."""
        rows = np.atleast_2d(points)
        x, t = rows[:, :-1], rows[:, -1:]
        if (t <= 0).any() or (t > 1).any():
            raise Refused("a time is not above 0 and at most 1")
        s2 = self.narrow**2
        noise = (1 - t) ** 2 * s2 + t**2
        away = ((x[:, None] - (1 - t)[:, None] * self.centres) ** 2).sum(-1)
        logs = np.log(self.weights) - away / 2 / noise
        p = np.exp(logs - logs.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        gain = s2 * (1 - t) / noise
        means = self.centres + gain[..., None] * (x[:, None] - (1 - t)[:, None] * self.centres)
        share = p @ self.group
        sums = np.einsum("ri,ik,rid->rkd", p, self.group, means)
        mean = sums / np.maximum(share, 1e-300)[..., None]
        mean = np.where(share[..., None] > 1e-12, mean, 0.0)
        own = (p[..., None] * (means - self.group @ mean) ** 2).sum((1, 2)) / self.d
        deviation = np.sqrt(own + s2 * t[:, 0] ** 2 / noise[:, 0])
        out = np.hstack(
            [np.log(np.maximum(share, 1e-12)), mean.reshape(len(rows), -1), deviation[:, None]]
        )
        return out.reshape(*points.shape[:-1], out.shape[1])

    def distance(self, samples):
        """The maximum mean discrepancy for a sum of Gaussian kernels, with exact expectations."""

        def mean_kernel(one, two, variance, left, right):
            far = ((one[:, None] - two) ** 2).sum(-1)
            total = 0.0
            for width in WIDTHS:
                h2 = (width * self.spread) ** 2
                factor = (h2 / (h2 + variance)) ** (self.d / 2)
                total += factor * (left @ np.exp(-far / 2 / (h2 + variance)) @ right)
            return total / len(WIDTHS)

        s2, equal = self.narrow**2, np.full(len(samples), 1 / len(samples))
        inner = mean_kernel(self.centres, self.centres, 2 * s2, self.weights, self.weights)
        cross = mean_kernel(samples, self.centres, s2, equal, self.weights)
        own = mean_kernel(samples, samples, 0.0, equal, equal)
        return float(np.sqrt(max(inner - 2 * cross + own, 0.0)))


def _cost(submission, r, centres):
    world = _World(r, centres)
    budget = SAMPLES * int(r.integers(2, 5))
    network = Oracle(world.said, budget=budget, shape=(world.d + 1,))
    found = submission.call(
        "sample",
        network=network,
        samples=SAMPLES,
        dimension=world.d,
        components=SPOKEN,
        budget=budget,
    )
    return world.distance(array(found, shape=(SAMPLES, world.d), name="the samples"))


@problems(feedback=FEEDBACK, final=FINAL, least=1e-4)
def curves(submission, rng):
    """Closed curves, in two to four dimensions."""
    r = rng.numpy
    d = int(r.integers(2, 5))
    angle = 2 * np.pi * np.arange(PARTS) / PARTS
    waves = np.arange(1, 4)
    cosines, sines = r.normal(size=(2, 3, d)) / waves[:, None]
    centres = np.cos(angle[:, None] * waves) @ cosines + np.sin(angle[:, None] * waves) @ sines
    return _cost(submission, r, centres)


@problems(feedback=FEEDBACK, final=FINAL, least=1e-4)
def islands(submission, rng):
    """Rings, segments and clumps apart from each other."""
    r = rng.numpy
    d = int(r.integers(2, 5))
    islands = int(r.integers(3, 9))
    centres = np.empty((PARTS, d))
    for part in np.array_split(np.arange(PARTS), islands):
        n = len(part)
        kind, size = r.integers(0, 3), r.uniform(0.3, 1.0)
        plane = np.linalg.qr(r.normal(size=(d, 2)))[0]
        angle = 2 * np.pi * np.arange(n) / n
        line = np.linspace(-1, 1, n)
        shape = (
            np.stack([np.cos(angle), np.sin(angle)], 1),
            np.stack([line, np.zeros(n)], 1),
            0.4 * r.normal(size=(n, 2)),
        )[kind]
        centres[part] = r.normal(0, 1.5, d) + size * shape @ plane.T
    return _cost(submission, r, centres)
