def sample(network, samples, dimension, components, budget):
    # late_steps.py with evenly spread draws: components in proportion, and noise of mean 0 in pairs of opposites
    asks = (budget - 1) // samples
    times = [1.0] + list(0.45 * 0.25 ** np.arange(asks)) + [0.0]
    x = np.zeros((samples, dimension))
    every = np.arange(samples)

    def noise():
        half = np.random.normal(size=(samples // 2, dimension))
        return np.random.permutation(np.concatenate([half, -half]))

    for t, s in zip(times[:-1], times[1:]):
        if t == 1.0:
            said = np.repeat(network(np.hstack([x[:1], [[t]]])), samples, 0)
        else:
            order = np.lexsort(np.round(x / 0.3).T)
            x = x[order]
            said = network(np.hstack([x, np.full((samples, 1), t)]))
        weights = np.exp(said[:, :components])
        weights /= weights.sum(1, keepdims=True)
        means = said[:, components:-1].reshape(samples, components, dimension)
        debt = np.random.dirichlet(np.ones(components)) - 1 / components
        k = np.empty(samples, dtype=int)
        for row in range(samples):
            debt += weights[row]
            k[row] = np.argmax(debt - 1e9 * (weights[row] < 1e-9))
            debt[k[row]] -= 1
        clean = means[every, k] + said[:, -1:] * noise()
        if s == 0:
            return clean
        ratio = (1 - t) / (1 - s)
        beta = t**2 - ratio**2 * s**2
        x = s**2 / t**2 * ratio * x + beta / t**2 * (1 - s) * clean
        x = x + np.sqrt(beta) * s / t * noise()
    return x
