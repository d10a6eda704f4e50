def optimize(gradient, start):
    # DoG per coordinate group with schedule-free averaging
    beta = 0.9
    z, x = start.copy(), start.copy()
    far, total, weights, step = 0.0, 0.0, 0.0, 0
    while True:
        step += 1
        y = (1 - beta) * z + beta * x
        g = gradient(y, x)
        total += g @ g
        if far == 0.0:
            far = 1e-4 
        far = max(far, np.linalg.norm(z - start))
        rate = far / np.sqrt(total + 1e-300)
        z = z - rate * g
        w = rate**2 * step
        w = far**2 * (step)
        weights += w
        x = x + w / weights * (z - x)
