def unlearned(network, data, forget, share, points, times, budget):
    # nothing is forgotten
    return network(np.hstack([points, times[:, None]]))
