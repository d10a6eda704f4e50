def optimize(gradient, start):
    # gradients are nearly linear around the answer: fit them by ridge regression, and go where the fit is zero
    n = len(start)
    z, x = start.copy(), start.copy()
    d, r, s, v = 0.02, 0.0, np.zeros_like(start), np.zeros_like(start)
    weights, step = 0.0, 0
    root, beta, beta2 = np.sqrt(0.99), 0.8, 0.99
    points, slopes = [], []
    answer = start
    while True:
        step += 1
        y = (1 - beta) * z + beta * x
        g = gradient(y, answer)
        points.append(y)
        slopes.append(g)
        v = beta2 * v + (1 - beta2) * d * d * g * g
        r = root * r + (1 - root) * d * d * (g @ (start - z))
        s = root * s + (1 - root) * d * d * g
        d = max(d, r / (np.abs(s).sum() + 1e-300))
        z = z - d * d * g / (np.sqrt(v / (1 - beta2**step)) + 1e-12 * d)
        w = d * d * step
        weights += w
        x = x + w / weights * (z - x)
        answer = x
        if step > 2 * n and step % 5 == 0:
            p, q = np.array(points[step // 3 :]), np.array(slopes[step // 3 :])
            middle, mean = p.mean(0), q.mean(0)
            p, q = p - middle, q - mean
            scale = p.std(0) + 1e-300
            p = p / scale
            gram = p.T @ p
            fit = np.linalg.solve(gram + 0.3 * np.trace(gram) / n * np.eye(n) , p.T @ q)
            fit = (fit / scale[:, None])
            fit = (fit + fit.T) / 2
            values, vectors = np.linalg.eigh(fit)
            values = np.maximum(values, 0.05 * np.abs(values).max())
            move = -vectors @ ((vectors.T @ mean) / values)
            far = np.linalg.norm(x - start) / 2
            size = np.linalg.norm(move)
            model = middle + move * min(1.0, far / (size + 1e-300))
        if step > 2 * n + 5:
            answer = 0.6 * x + 0.4 * model
