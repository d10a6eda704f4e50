def solve(operator, jacobian, start, bend):
    # damped Newton; between Jacobians, Broyden's updates, as long as they halve the operator
    d = len(start)
    z, value = start.copy(), operator(start)
    while True:
        matrix = jacobian(z)
        step = np.linalg.lstsq(matrix, -value, rcond=None)[0]
        size, norm = 1.0, np.linalg.norm(value)
        while True:
            there = operator(z + size * step)
            if np.linalg.norm(there) < (1 - 0.1 * size) * norm or size < 1e-4:
                break
            size /= 2
        step = size * step
        while True:
            change = there - value
            matrix = matrix + np.outer(change - matrix @ step, step) / (step @ step)
            z, value = z + step, there
            step = np.linalg.lstsq(matrix, -value, rcond=None)[0]
            there = operator(z + step)
            if np.linalg.norm(there) > 0.95 * np.linalg.norm(value):
                if np.linalg.norm(there) < np.linalg.norm(value):
                    z, value = z + step, there
                break
