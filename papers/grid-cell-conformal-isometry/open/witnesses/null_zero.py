def distances(counts, steps, pairs):
    return np.zeros(len(pairs))
