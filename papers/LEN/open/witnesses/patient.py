def solve(operator, jacobian, start, bend):
    # damped steps with Broyden's corrections; a new Jacobian only when several of them have brought too little
    d = len(start)
    z, value = start.copy(), operator(start)
    matrix, poor = jacobian(z), 0
    while True:
        step = np.linalg.lstsq(matrix, -value, rcond=None)[0]
        size, norm, took = 1.0, np.linalg.norm(value), False
        for _ in range(4):
            there = operator(z + size * step)
            change, moved = there - value, size * step
            matrix = matrix + np.outer(change - matrix @ moved, moved) / (moved @ moved)
            if np.linalg.norm(there) < (1 - 0.05 * size) * norm:
                z, value, took = z + moved, there, True
                break
            size /= 3
        poor = 0 if took and np.linalg.norm(value) < 0.6 * norm else poor + 1
        if poor >= (6 if took else 1):
            matrix, poor = jacobian(z), 0
