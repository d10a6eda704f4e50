def plan(velocity, noise, steps):
    # even steps of Euler
    times = np.linspace(1, 0, steps + 1)
    return times[:-1], np.diag(np.diff(times))
