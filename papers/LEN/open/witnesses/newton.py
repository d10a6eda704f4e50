def solve(operator, jacobian, start, bend):
    # Newton, halved while the operator does not fall
    z = start.copy()
    value = operator(z)
    while True:
        step = np.linalg.lstsq(jacobian(z), -value, rcond=None)[0]
        size = 1.0
        while True:
            there = operator(z + size * step)
            if np.linalg.norm(there) < np.linalg.norm(value) or size < 1e-6:
                break
            size /= 2
        z, value = z + size * step, there
