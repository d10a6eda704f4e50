def optimize(gradient, start):
    # normalized gradient steps of a constant length, and the average of all points
    z, x, step = start.copy(), start.copy(), 0
    while True:
        step += 1
        g = gradient(z, x)
        z = z - 0.1 * g / (np.linalg.norm(g) + 1e-300)
        x = x + (z - x) / step
