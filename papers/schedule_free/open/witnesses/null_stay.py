def optimize(gradient, start):
    while True:
        gradient(start, start)
