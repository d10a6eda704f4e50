def optimize(gradient, start):
    # Adam with a rate that falls as the root of the step number
    z, m, v, step = start.copy(), np.zeros_like(start), np.zeros_like(start), 0
    while True:
        step += 1
        g = gradient(z, z)
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        z = z - 0.3 / np.sqrt(step) * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-12)
