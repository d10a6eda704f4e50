def distances(counts, steps, pairs):
    # the paper's, on codes whose noise is even, turned into lengths on the sphere that they lie on
    moments = np.arange(len(counts))
    codes = np.exp(-0.5 * ((moments[:, None] - moments) / 1.5) ** 2) @ np.sqrt(counts + 0.25)
    codes /= np.linalg.norm(codes, axis=1, keepdims=True)
    walked = np.concatenate([[0.0], np.cumsum(steps)])

    def angle(one, other):
        return np.arccos(np.clip((codes[one] * codes[other]).sum(1), -1, 1))

    i = moments[:-4]
    ways = walked[4:] - walked[:-4]
    moved = angle(i, i + 4)
    scale = (moved * ways).sum() / (ways**2).sum()
    return angle(pairs[:, 0], pairs[:, 1]) / scale
