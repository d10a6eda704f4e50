"""A paper of two files with three regions, for tests of challenges of several parts."""

from __future__ import annotations

SCALE = '''"""Scaling."""


def scale(x, factor):
    """Multiply, then add one."""
    # <paper2code name="scale">
    return x * factor + 1
    # </paper2code name="scale">


def shift(x):
    # <paper2code name="shift">
    return x - 1
    # </paper2code name="shift">
'''
TWICE = """from scaling import scale


class Twice:
    def __init__(self, factor):
        # <paper2code name="remember">
        self.factor = factor
        # </paper2code name="remember">

    def __call__(self, x):
        return scale(scale(x, self.factor), self.factor)
"""
CASES = """
from rcb_env.cases import case

@case(seeds=2, covers=["src/scaling.py"])
def scales(tree, rng):
    return tree.load("scaling").scale(float(rng.numpy.normal()), 2.5)

@case(seeds=1, covers=["src/scaling.py"])
def shifts(tree, rng):
    return tree.load("scaling").shift(float(rng.numpy.normal()))

@case(seeds=2, covers=["src/twice.py"])
def twice(tree, rng):
    return tree.load("twice").Twice(float(rng.numpy.normal()))(2.0)
"""
FILES = {"src/scaling.py": SCALE, "src/twice.py": TWICE, "tests/cases.py": CASES}
VARIANTS = """
knobs:
- name: offset
  about: what is added
  choices: {one: [add one], two: [add two]}
  pieces:
  - {file: paper.md, reads: {one: then add one, two: then add two}}
  - {file: src/scaling.py, reads: {one: then add one, two: then add two}}
  - {file: src/scaling.py, reads: {one: + 1, two: + 2}}
names:
  factor: [by, times]
"""
"""Its knobs; its text says "then add one", once."""
