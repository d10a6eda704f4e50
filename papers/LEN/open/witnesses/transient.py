def solve(operator, jacobian, start, bend):
    # a shift on the diagonal that falls as steps succeed (pseudo-transient continuation); Broyden's corrections in between
    d = len(start)
    z, value = start.copy(), operator(start)
    matrix, age = jacobian(z), 0
    shift = 0.03 * np.linalg.norm(matrix, 2)
    while True:
        norm = np.linalg.norm(value)
        step = np.linalg.solve(matrix + shift * np.eye(d), -value)
        there = operator(z + step)
        new = np.linalg.norm(there)
        if new < 1.0 * norm:
            change = there - value
            matrix = matrix + np.outer(change - matrix @ step, step) / (step @ step)
            z, value, age = z + step, there, age + 1
            shift *= 0.2 if new < 0.5 * norm else 0.4
            if new > 0.7 * norm and age > 2:
                matrix, age = jacobian(z), 0
        elif age:
            matrix, age = jacobian(z), 0
        else:
            shift = max(3 * shift, 1e-4 * np.linalg.norm(matrix, 2))
