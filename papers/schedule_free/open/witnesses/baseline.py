def optimize(gradient, start):
    rate = 0.1
    z, x, step = start.copy(), start.copy(), 0
    v = np.zeros_like(start)
    while True:
        step += 1
        g = gradient(z, x)
        v = 0.999 * v + 0.001 * g * g
        z = z - rate * g / (np.sqrt(v / (1 - 0.999**step)) + 1e-12)
        x = x + (z - x) / step
