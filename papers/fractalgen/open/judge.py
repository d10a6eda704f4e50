"""Hidden: small images of four kinds, which are told pixel by pixel to whoever has said a distribution first."""

import numpy as np

from rcb_env.judging import Oracle, Refused, array, problems

FEEDBACK, FINAL = 3, 8
SIDE, LEVELS, TRAIN, TEST = 12, 4, 200, 60
LEAST = 1e-6  # of a probability


def _cost(submission, images):
    """Bits per pixel."""
    images = images.reshape(TRAIN + TEST, SIDE, SIDE)
    truth = images[TRAIN:].reshape(TEST, -1)
    told = np.zeros(SIDE * SIDE, dtype=bool)
    bits = []

    def reveal(pixel, probabilities):
        number = float(array(pixel, shape=(), name="the pixel's number"))
        p = array(probabilities, shape=(TEST, LEVELS), name="the probabilities")
        where = int(number)
        if where != number or not 0 <= where < SIDE * SIDE or told[where]:
            raise Refused(f"pixel {number:g} is none, or was told before")
        if (p < 0).any() or (np.abs(p.sum(1) - 1) > 1e-6).any():
            raise Refused("a row is no distribution: not negative, with the sum 1")
        told[where] = True
        values = truth[:, where]
        bits.append(-np.log2(np.maximum(p[np.arange(TEST), values], LEAST)))
        return values

    oracle = Oracle(reveal, budget=SIDE * SIDE, arguments=2)
    submission.call("tell", train=images[:TRAIN], reveal=oracle, images=TEST, levels=LEVELS)
    if not told.all():
        raise Refused(f"{(~told).sum()} pixels have got no distribution")
    return float(np.mean(bits))


def _levels(values):
    """Real numbers to levels of equal share."""
    cuts = np.quantile(values, np.arange(1, LEVELS) / LEVELS)
    return np.searchsorted(cuts, values)


@problems(feedback=FEEDBACK, final=FINAL)
def clouds(submission, rng):
    """Smooth noise with a direction."""
    r = rng.numpy
    across, along = np.meshgrid(*2 * [np.fft.fftfreq(2 * SIDE)], indexing="ij")
    angle, stretch = r.uniform(0, np.pi), r.uniform(1, 3)
    one = np.cos(angle) * across + np.sin(angle) * along
    two = stretch * (np.cos(angle) * along - np.sin(angle) * across)
    power = (one**2 + two**2 + r.uniform(0.03, 0.08) ** 2) ** -r.uniform(1.2, 2.0)
    noise = np.fft.fft2(r.normal(size=(TRAIN + TEST, 2 * SIDE, 2 * SIDE)))
    fields = np.fft.ifft2(noise * np.sqrt(power)).real[:, :SIDE, :SIDE]
    return _cost(submission, _levels(fields))


@problems(feedback=FEEDBACK, final=FINAL)
def boxes(submission, rng):
    """Boxes over each other, some with stripes, and a few wrong pixels."""
    r = rng.numpy
    n = TRAIN + TEST
    images = np.repeat(r.integers(0, LEVELS, n), SIDE * SIDE).reshape(n, SIDE, SIDE)
    many, wrong = int(r.integers(2, 5)), r.uniform(0.005, 0.04)
    stripes, period = r.uniform(0.0, 0.8), int(r.integers(2, 4))
    sizes = r.integers(3, 9, 2)
    rows, columns = np.mgrid[:SIDE, :SIDE]
    for image in images:
        for _ in range(many):
            top, left = r.integers(-2, SIDE - 1, 2)
            high, wide = np.maximum(2, sizes + r.integers(-1, 2, 2))
            inside = (rows >= top) & (rows < top + high) & (columns >= left) & (columns < left + wide)
            level, other = r.integers(0, LEVELS, 2)
            image[inside] = level
            if r.random() < stripes:
                image[inside & ((rows - top) % period == 0)] = other
    flip = r.random(images.shape) < wrong
    images[flip] = r.integers(0, LEVELS, flip.sum())
    return _cost(submission, images)


@problems(feedback=FEEDBACK, final=FINAL)
def weaves(submission, rng):
    """Two waves multiplied, whose phases differ from image to image, seen with noise."""
    r = rng.numpy
    n = TRAIN + TEST
    rows, columns = np.mgrid[:SIDE, :SIDE]
    fields = np.ones((n, SIDE, SIDE))
    for _ in range(2):
        k = r.normal(size=2)
        k *= r.uniform(0.6, 1.8) / np.linalg.norm(k)
        phase = r.uniform(0, 2 * np.pi, (n, 1, 1))
        pace = np.exp(r.normal(0, 0.1, (n, 1, 1)))
        fields *= np.cos(pace * (k[0] * rows + k[1] * columns) + phase)
    return _cost(submission, _levels(fields + r.uniform(0.05, 0.15) * r.normal(size=fields.shape)))


@problems(feedback=FEEDBACK, final=FINAL)
def quilts(submission, rng):
    """Squares of a few patterns in levels of the image's own, the whole of it mirrored, turned or shifted onto itself."""
    r = rng.numpy
    n, side = TRAIN + TEST, int(r.choice([3, 4]))
    patterns = r.integers(0, 2, (int(r.integers(3, 7)), side, side))
    across = SIDE // side
    follows = r.dirichlet(np.full(len(patterns), 0.3), len(patterns))
    kind, wrong = int(r.integers(0, 4)), r.uniform(0.01, 0.05)
    images = np.empty((n, SIDE, SIDE), dtype=int)
    for image in images:
        grid = r.integers(0, len(patterns), (across, across))
        for i in range(across):
            for j in range(1, across):
                grid[i, j] = r.choice(len(patterns), p=follows[grid[i, j - 1]])
        image[:] = patterns[grid].transpose(0, 2, 1, 3).reshape(SIDE, SIDE)
        half = SIDE // 2
        if kind == 0:
            image[:, half:] = image[:, :half][:, ::-1]
        elif kind == 1:
            image[half:] = image[:half][::-1, ::-1]
        elif kind == 2:
            image[half:] = np.roll(image[:half], 1, axis=1)
        else:
            image[:] = np.tril(image) + np.tril(image, -1).T
        image[:] = r.permutation(LEVELS)[:2][image]
    flip = r.random(images.shape) < wrong
    images[flip] = r.integers(0, LEVELS, flip.sum())
    return _cost(submission, images)
