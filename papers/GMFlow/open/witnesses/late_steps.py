def sample(network, samples, dimension, components, budget):
    # GM-SDE, whose first question is asked once for all, and whose last steps are short
    asks = (budget - 1) // samples
    times = [1.0] + list(0.45 * 0.25 ** np.arange(asks)) + [0.0]
    x = np.zeros((samples, dimension))
    every = np.arange(samples)
    for t, s in zip(times[:-1], times[1:]):
        if t == 1.0:
            said = np.repeat(network(np.hstack([x[:1], [[t]]])), samples, 0)
        else:
            said = network(np.hstack([x, np.full((samples, 1), t)]))
        weights = np.exp(said[:, :components])
        means = said[:, components:-1].reshape(samples, components, dimension)
        cumulative = (weights / weights.sum(1, keepdims=True)).cumsum(1)
        k = np.minimum((cumulative <= np.random.random((samples, 1))).sum(1), components - 1)
        clean = means[every, k] + said[:, -1:] * np.random.normal(size=x.shape)
        if s == 0:
            return clean
        ratio = (1 - t) / (1 - s)
        beta = t**2 - ratio**2 * s**2
        x = s**2 / t**2 * ratio * x + beta / t**2 * (1 - s) * clean
        x = x + np.sqrt(beta) * s / t * np.random.normal(size=x.shape)
    return x
