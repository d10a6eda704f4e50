def sample(network, samples, dimension, components, budget):
    # Heun's steps: two questions each, along the mean velocity
    def velocity(x, t):
        said = network(np.hstack([x, np.full((samples, 1), t)]))
        weights = np.exp(said[:, :components])
        means = said[:, components:-1].reshape(samples, components, dimension)
        return (x - (weights[..., None] * means).sum(1) / weights.sum(1)[:, None]) / t

    asks = budget // samples
    steps = (asks + 1) // 2
    x = np.random.normal(size=(samples, dimension))
    for step in range(steps):
        t, s = 1 - step / steps, 1 - (step + 1) / steps
        one = velocity(x, t)
        there = x + (s - t) * one
        asks -= 1
        if s > 0 and asks > 1:
            there = x + (s - t) * (one + velocity(there, s)) / 2
            asks -= 1
        x = there
    return x
