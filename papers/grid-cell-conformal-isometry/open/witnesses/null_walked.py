def distances(counts, steps, pairs):
    # all the way between the two moments
    walked = np.concatenate([[0.0], np.cumsum(steps)])
    return np.abs(walked[pairs[:, 0]] - walked[pairs[:, 1]])
