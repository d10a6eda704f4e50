def distances(counts, steps, pairs):
    # how far a walk without a memory gets
    lag = np.abs(pairs[:, 0] - pairs[:, 1])
    return np.sqrt((steps**2).mean() * lag)
