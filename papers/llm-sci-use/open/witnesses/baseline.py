def share(human, machine, corpus):
    # each text is judged by itself, and those that look like a machine's are counted
    p = (human.sum(0) + 0.5) / (len(human) + 1)
    q = (machine.sum(0) + 0.5) / (len(machine) + 1)
    ratio = corpus @ np.log(q / p) + ~corpus @ np.log((1 - q) / (1 - p))
    return float((ratio > 0).mean())
