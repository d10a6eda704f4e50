def sample(network, samples, dimension, components, budget):
    return np.zeros((samples, dimension))
