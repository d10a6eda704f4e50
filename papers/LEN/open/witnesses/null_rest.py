def solve(operator, jacobian, start, bend):
    return start
