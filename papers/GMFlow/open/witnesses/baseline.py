def sample(network, samples, dimension, components, budget):
    # Euler's steps along the mean velocity, as in flow matching
    steps = budget // samples
    x = np.random.normal(size=(samples, dimension))
    for step in range(steps):
        t, s = 1 - step / steps, 1 - (step + 1) / steps
        said = network(np.hstack([x, np.full((samples, 1), t)]))
        weights = np.exp(said[:, :components])
        means = said[:, components:-1].reshape(samples, components, dimension)
        clean = (weights[..., None] * means).sum(1) / weights.sum(1)[:, None]
        x = x + (s - t) / t * (x - clean)
    return x
