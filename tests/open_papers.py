"""A paper of a few lines with an open challenge, for tests: find the root of an increasing function on a counted oracle."""

from __future__ import annotations

from pathlib import Path

SOURCE = '''"""Halving."""


def middle(low: float, high: float) -> float:
    # <paper2code name="middle">
    return (low + high) / 2
    # </paper2code name="middle">
'''
CASES = """
from rcb_env.cases import case

@case(seeds=1)
def middles(tree, rng):
    return tree.load("halving").middle(float(rng.numpy.normal()), 1.0)
"""
PAPER = """
id: roots
title: Roots by halving
authors: [Nobody]
dates: {v1: 2024-01-01}
domain: numerics
license: MIT
annotated: [src/halving.py]
image: cpu
limits: {time_s: 5, memory_mb: 512}
open: {time_s: 5, memory_mb: 512}
"""
TASK = "# Roots\n\nWrite `root(function, low, high)`. `function` may be called for 10 points.\n"
START = '''"""Roots."""

import numpy as np


# <paper2code name="root of an increasing function">
def root(function, low, high):
    """Where an increasing function is zero."""
    for _ in range(10):
        middle = (low + high) / 2
        low, high = (low, middle) if function(np.array(middle)) > 0 else (middle, high)
    return (low + high) / 2
# </paper2code name="root of an increasing function">
'''
JUDGE = '''
import numpy as np
from rcb_env.judging import Oracle, array, problems

@problems(feedback=3, final=12, least=1e-9)
def cubics(submission, rng):
    """Hidden words of the judge."""
    where = rng.numpy.uniform(-1, 1)
    bend = rng.numpy.uniform(0.2, 2)

    def value(x):
        return (x - where) + bend * (x - where) ** 3

    function = Oracle(value, budget=10, shape=())
    return abs(float(array(submission.call("root", function=function, low=-2.0, high=2.0), shape=()) - where))
'''
WITNESSES = {
    "baseline": """def root(function, low, high):
    points = np.linspace(low, high, 10)
    values = np.array([function(point) for point in points])
    return points[np.abs(values).argmin()]
""",
    "first_idea": """def root(function, low, high):
    a, b = function(np.array(low)), function(np.array(high))
    for _ in range(4):
        middle = low + (high - low) * 0.5
        value = function(np.array(middle))
        if value > 0:
            high, b = middle, value
        else:
            low, a = middle, value
    return low - a * (high - low) / (b - a)
""",
    "secant": """def root(function, low, high):
    x, y = low, high
    a, b = function(np.array(x)), function(np.array(y))
    for _ in range(8):
        if b == a:
            break
        x, y, a = y, y - b * (y - x) / (b - a), b
        y = min(max(y, low), high)
        b = function(np.array(y))
    return y
""",
    "inverse_cubic": """def root(function, low, high):
    points = np.linspace(low, high, 4)
    values = np.array([function(point) for point in points])
    for _ in range(6):
        near = np.argsort(np.abs(values))[:4]
        x = 0.0
        for i in near:
            others = [j for j in near if j != i]
            x += points[i] * np.prod([values[j] / (values[j] - values[i]) for j in others])
        x = min(max(x, low), high)
        value = function(np.array(x))
        if value in values:
            break
        points, values = np.append(points, x), np.append(values, value)
    return points[np.abs(values).argmin()]
""",
    "null_zero": """def root(function, low, high):
    return 2.0
""",
}


def write(folder: Path, **changed: str) -> Path:
    """The data set in a folder; ``changed`` are other texts of ``judge``, ``start`` and witnesses, by name."""
    paper = folder / "roots"
    witnesses = {**WITNESSES, **{k: v for k, v in changed.items() if k not in ("judge", "start")}}
    files = {
        "../papers.yaml": "name: little\npapers: [roots]\n",
        "paper.yaml": PAPER,
        "paper.md": "# Halving\n\nHalve, and keep the half with the change of sign.\n",
        "src/halving.py": SOURCE,
        "tests/cases.py": CASES,
        "tests/checks.py": "",
        "open/task.md": TASK,
        "open/start.py": changed.get("start", START),
        "open/judge.py": changed.get("judge", JUDGE),
        **{f"open/witnesses/{name}.py": code for name, code in witnesses.items() if code},
    }
    for name, text in files.items():
        path = paper / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
