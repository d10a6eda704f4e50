def plan(velocity, noise, steps):
    # even steps of Adams and Bashforth
    times = np.linspace(1, 0, steps + 1)
    h = np.diff(times)
    weights = np.diag(h)
    for i in range(1, steps):
        weights[i, i] += h[i] ** 2 / (2 * h[i - 1])
        weights[i, i - 1] -= h[i] ** 2 / (2 * h[i - 1])
    return times[:-1], weights
