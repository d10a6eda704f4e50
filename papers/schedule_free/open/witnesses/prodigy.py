def optimize(gradient, start):
    # Prodigy's estimate of the distance for steps of Adam's direction, and a schedule-free average that favours late points
    beta, beta2 = 0.5, 0.99
    root = np.sqrt(beta2)
    z, x = start.copy(), start.copy()
    d, r, s, v = 0.02, 0.0, np.zeros_like(start), np.zeros_like(start)
    weights, step = 0.0, 0
    while True:
        step += 1
        y = (1 - beta) * z + beta * x
        g = gradient(y, x)
        v = beta2 * v + (1 - beta2) * d * d * g * g
        r = root * r + (1 - root) * d * d * (g @ (start - z))
        s = root * s + (1 - root) * d * d * g
        d = max(d, r / (np.abs(s).sum() + 1e-300))
        z = z - d * d * g / (np.sqrt(v / (1 - beta2**step)) + 1e-12 * d)
        w = d * d * step**1
        weights += w
        x = x + w / weights * (z - x)
