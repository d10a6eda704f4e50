def sample(network, samples, dimension, components, budget):
    return np.random.normal(size=(samples, dimension)) * 3
