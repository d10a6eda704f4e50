def unlearned(network, data, forget, share, points, times, budget):
    return np.zeros(points.shape)
