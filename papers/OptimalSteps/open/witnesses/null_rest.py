def plan(velocity, noise, steps):
    return np.linspace(1, 0, steps + 1)[:-1], np.zeros((steps, steps))
