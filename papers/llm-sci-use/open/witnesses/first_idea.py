def share(human, machine, corpus):
    # the paper's likelihood, on the words that tell most
    p = (human.sum(0) + 0.5) / (len(human) + 1)
    q = (machine.sum(0) + 0.5) / (len(machine) + 1)
    telling = np.argsort(-np.abs(np.log(q / p)))[:30]
    corpus, p, q = corpus[:, telling], p[telling], q[telling]
    log_p = corpus @ np.log(p) + ~corpus @ np.log1p(-p)
    log_q = corpus @ np.log(q) + ~corpus @ np.log1p(-q)
    alphas = np.linspace(0, 1, 401)[:, None]
    both = np.logaddexp(log_p + np.log1p(-np.minimum(alphas, 1 - 1e-12)), log_q + np.log(np.maximum(alphas, 1e-12)))
    return float(alphas[both.sum(1).argmax(), 0])
