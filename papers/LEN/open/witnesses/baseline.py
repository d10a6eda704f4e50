def solve(operator, jacobian, start, bend):
    d = len(start)
    period, weight = 1, 2.0 * bend
    z = start.copy()
    t = 0
    while True:
        value = operator(z)
        if t % period == 0:
            matrix = jacobian(z)
            eigenvalues, vectors = np.linalg.eig(matrix)
            inverse = np.linalg.inv(vectors)
        turned = inverse @ value
        norm, size = np.linalg.norm(value), np.linalg.norm(matrix)
        low = 2 * weight * norm / (size + np.sqrt(size**2 + 4 * weight * norm))
        high = np.sqrt(weight * norm)
        while high - low > 1e-10 * high:
            shift = (low + high) / 2
            step = -(vectors @ (turned / (eigenvalues + shift))).real
            if shift > weight * np.linalg.norm(step):
                high = shift
            else:
                low = shift
        shift = (low + high) / 2
        half = z - (vectors @ (turned / (eigenvalues + shift))).real
        z = z - operator(half) / shift
        t += 1
