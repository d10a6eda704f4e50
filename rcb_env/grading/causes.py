"""The class of an error, from the type of the exception: the same cause has the same class in every way of grading.

syntax, name, type, attribute, index_key, import, shape, value, time, memory, other. What a comparison refuses is of the
same classes: other numbers are `value`, sizes that do not fit `shape`, another type or dtype `type` (`rcb_env.cases`,
`runner/operands.py`); so code is classed alike whether a library stumbles over its array or a test does.
Guarantees: pure. An exception's type decides wherever it can.
Not covered: libraries that have no type for it. torch raises RuntimeError for sizes and dtypes that do not fit, numpy
ValueError, jax TypeError, and a suite AssertionError; for these, and no others, the message is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_BY_TYPE = {  # first match along the exception's bases
    "SyntaxError": "syntax",
    "NameError": "name",
    "AttributeError": "attribute",
    "AxisError": "shape",
    "EinopsError": "shape",
    "LookupError": "index_key",
    "ImportError": "import",
    "TypeError": "type",
    "ValueError": "value",
    "ArithmeticError": "value",
    "AssertionError": "value",
    "MemoryError": "memory",
}
_OF_A_STATUS = {"timeout": "time", "out_of_memory": "memory"}
_SAYS_MORE = {"RuntimeError", "ValueError", "TypeError", "IndexError"}  # than its type
_SHAPE = re.compile(
    r"\b(shapes?|(batch_)?sizes?|dimensions?|dims?|broadcast\w*|channels|too many indices)\b"
    r"|more than one (value|element)|cannot be converted to Scalar|only for scalar outputs",
    re.IGNORECASE,
)
_DTYPE = re.compile(
    r"\bdtypes?\b|scalar type|result type|not implemented for '|did not match (Double|Float|Half|BFloat16|Long|Int)"
)
# What comparisons of numpy, torch and unittest say of it.
_TOLD_SHAPE = re.compile(r"shapes \(.*\) mismatch|attribute 'shape'|torch\.Size\(")
_TOLD_DTYPE = re.compile(r"attribute 'dtype'|torch\.[a-z]+\d+ != ")
_ALLOCATION_FAILED = (
    "can't allocate memory",
    "bad_alloc",
    "Unable to allocate",
    "Cannot allocate memory",
)

Error = Mapping[str, Any]  # a described exception, as `runner.case_run.describe` makes it


def error_class(error: Error) -> str:
    """The class of a described exception."""
    kinds: Sequence[str] = error["kinds"]
    if is_out_of_memory(error):
        return "memory"
    told = "AssertionError" in kinds
    if told or _SAYS_MORE.intersection(kinds):
        if (_TOLD_DTYPE if told else _DTYPE).search(error["message"]):
            return "type"
        if (_TOLD_SHAPE if told else _SHAPE).search(error["message"]):
            return "shape"
    return next((_BY_TYPE[kind] for kind in kinds if kind in _BY_TYPE), "other")


def class_of_status(status: str) -> str | None:
    """The class of a status that says it by itself, else None."""
    return _OF_A_STATUS.get(status)


def is_out_of_memory(error: Error) -> bool:
    """Whether a described exception says that an allocation failed."""
    return "MemoryError" in error["kinds"] or any(
        text in error["message"] for text in _ALLOCATION_FAILED
    )
