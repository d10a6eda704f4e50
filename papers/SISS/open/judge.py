"""Hidden: what a denoiser of all data says, and what one of the data that stay would say."""

import numpy as np

from rcb_env.judging import Oracle, Refused, array, problems

FEEDBACK, FINAL = 5, 14
PARTS, KNOWN, FORGET, ASKED = 300, 1200, 300, 400
EARLIEST, LATEST = 0.2, 0.95  # times, which are deviations of the noise
EVERY = np.ones(PARTS, dtype=bool)


class _World:
    """Data are small Gaussians around points of a few strands; some of the points shall be forgotten."""

    def __init__(self, r):
        self.r, self.d = r, int(r.integers(2, 6))
        strands = int(r.integers(3, 9))
        self.strand = np.arange(PARTS) % strands
        centres = np.empty((PARTS, self.d))
        for one in range(strands):
            on = self.strand == one
            along = r.uniform(-1, 1, (on.sum(), 1))
            way, bend = r.normal(0, r.uniform(0.2, 0.8), (2, self.d))
            centres[on] = r.normal(size=self.d) + along * way + (along**2) * bend
        self.centres = (centres - centres.mean(0)) / centres.std()
        self.narrow = r.uniform(0.06, 0.2, PARTS)
        self.weights = r.dirichlet(np.full(PARTS, 3.0))
        self.gone = np.zeros(PARTS, dtype=bool)
        self.waves = r.normal(0, 1.0, (40, self.d + 1))
        self.phases = r.uniform(0, 2 * np.pi, 40)
        self.fault = r.normal(0, r.uniform(0.02, 0.05), (40, self.d)) * np.sqrt(2 / 40)

    def share_of(self, share):
        """Give this share of the data to what shall be forgotten."""
        for which, part in ((self.gone, share), (~self.gone, 1 - share)):
            self.weights[which] *= part / self.weights[which].sum()

    def draw(self, n, which):
        p = np.where(which, self.weights, 0.0)
        k = self.r.choice(PARTS, n, p=p / p.sum())
        return self.centres[k] + self.narrow[k, None] * self.r.normal(size=(n, self.d))

    def noise(self, rows, which):
        """The mean of the noise in rows (m, t), where data are those of `which`."""
        m, t = rows[:, :-1], rows[:, -1:]
        gamma = np.sqrt(1 - t**2)
        centres, narrow, weights = self.centres[which], self.narrow[which], self.weights[which]
        variance = gamma**2 * narrow**2 + t**2
        away = m[:, None] - gamma[..., None] * centres
        logs = np.log(weights) - (away**2).sum(2) / 2 / variance - self.d / 2 * np.log(variance)
        p = np.exp(logs - logs.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        return t * np.einsum("rk,rkd->rd", p / variance, away)

    def network(self, rows):
        """What a network has learnt of all data: the mean of the noise, and some smooth fault."""
        t = rows[:, -1]
        if (t < 0.1).any() or (t > 1).any():
            raise Refused("a time is not between 0.1 and 1")
        fault = np.sin(rows @ self.waves.T + self.phases) @ self.fault
        parts = np.array_split(rows, 1 + len(rows) // 500)
        return np.concatenate([self.noise(part, EVERY) for part in parts]) + fault


def _cost(submission, world, share):
    r = world.r
    world.share_of(share)
    halves = (world.draw(ASKED // 2, which) for which in (world.gone, ~world.gone))
    clean = np.concatenate(list(halves))
    times = r.uniform(EARLIEST, LATEST, ASKED)
    points = np.sqrt(1 - times**2)[:, None] * clean + times[:, None] * r.normal(size=clean.shape)
    order = r.permutation(ASKED)
    points, times = points[order], times[order]
    found = submission.call(
        "unlearned",
        network=Oracle(world.network, budget=10 * ASKED, shape=(world.d + 1,)),
        data=world.draw(KNOWN, EVERY),
        forget=world.draw(FORGET, world.gone),
        share=share,
        points=points,
        times=times,
        budget=10 * ASKED,
    )
    found = array(found, shape=points.shape, name="the noise")
    truth = world.noise(np.hstack([points, times[:, None]]), ~world.gone)
    return float(np.sqrt(((found - truth) ** 2).sum(1)).mean())


@problems(feedback=FEEDBACK, final=FINAL)
def groups(submission, rng):
    """One strand, or the end of one, shall be forgotten."""
    world = _World(rng.numpy)
    r = world.r
    on = world.strand == 0
    along = world.centres @ r.normal(size=world.d)
    world.gone = on & (along > np.quantile(along[on], r.uniform(0.0, 0.6)))
    return _cost(submission, world, r.uniform(0.2, 0.5))


@problems(feedback=FEEDBACK, final=FINAL)
def places(submission, rng):
    """All that lies around a few places."""
    world = _World(rng.numpy)
    r = world.r
    around = world.centres[r.choice(PARTS, int(r.integers(3, 9)), replace=False)]
    away = ((world.centres[:, None] - around) ** 2).sum(2).min(1)
    world.gone = away < np.quantile(away, r.uniform(0.1, 0.25))
    return _cost(submission, world, r.uniform(0.2, 0.5))


@problems(feedback=FEEDBACK, final=FINAL)
def repeated(submission, rng):
    """A few narrow points, which are so often in the data that they are known by heart."""
    world = _World(rng.numpy)
    r = world.r
    gone = r.choice(PARTS, int(r.integers(2, 8)), replace=False)
    world.gone[gone] = True
    world.narrow[gone] = 0.02
    return _cost(submission, world, r.uniform(0.2, 0.5))
