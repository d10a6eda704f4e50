"""The operands of a comparison as plain data, and one run's held against another's.

`plain` turns what a suite compares into what `rcb_env.cases.encode` can carry: arrays, numbers, text, containers; of what
has no such form only the type's name. `agree` applies a suite's own comparison, with its own tolerance, to an operand of
the candidate's run and the same operand of the reference's. What tolerance that is, the reference's run says.
Guarantees: reading an operand draws no random number, and a value that cannot be read is no exception.
Not covered: in which order operands come (`split_run.py`); what is hostile is decoded by `rcb_env.cases`.
"""

from __future__ import annotations

import sys
from collections.abc import KeysView as Keys
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from rcb_env.cases import Difference

_MAX_DEPTH = 20
_EXACT = (0.0, 0.0)
_LENIENT = (
    1e-3,
    1e-5,
)  # one-sided assertions: what was held against a limit has to be about the same
_TORCH = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5)}
_TORCH |= {"complex64": (1.3e-6, 1e-5)}
_TORCH_ELSE = (1e-7, 1e-7)


def plain(value: Any, depth: int = 0) -> Any:
    """A value as data."""
    try:
        return _plain(value, depth)
    except Exception as error:  # the candidate's objects may raise anything
        return {"unreadable": type(error).__name__}


def _plain(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | int | float | complex | str):
        return value
    if isinstance(value, np.generic):
        item = value.item()
        return item if isinstance(item, bool | int | float | complex | str) else _named(value)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.is_sparse or value.is_quantized or value.is_meta:
            return _named(value)
        return value.detach()
    if isinstance(value, np.ndarray):
        return value if value.dtype.kind in "biufc" else plain(value.tolist(), depth)
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if depth > _MAX_DEPTH:
        return _named(value)
    if isinstance(value, Mapping):
        pairs = {
            f"{type(key).__name__} {key!r}": plain(one, depth + 1) for key, one in value.items()
        }
        return {"map": dict(sorted(pairs.items()))}
    if isinstance(value, Set | Keys):
        return {"set": sorted(repr(plain(one, depth + 1)) for one in value)}
    if isinstance(value, tuple):
        return tuple(plain(one, depth + 1) for one in value)
    if isinstance(value, list):
        return [plain(one, depth + 1) for one in value]
    if hasattr(value, "__array__") and not isinstance(value, type):
        return plain(np.asarray(value), depth + 1)  # jax, pandas
    name = getattr(value, "__name__", None)
    if isinstance(name, str):
        return {"named": name}
    if torch is not None and isinstance(value, torch.dtype | torch.device | torch.layout):
        return {"named": str(value)}
    return _named(value)


def _named(value: Any) -> Any:
    return {"opaque": type(value).__name__}


def agree(
    name: str,
    settings: Mapping[str, Any],
    want: Any,
    got: Any,
) -> Difference | None:
    """Why an operand is not the reference's, by the comparison called `name`; None when it is.

    Args:
        name: the function that compares.
        settings: its arguments besides the operands, of the reference's run: by keyword, or by place as "0", "1".
        want: the reference's operand, decoded.
        got: the candidate's.
    """
    return _compare(name, settings, want, got, "")


def _compare(
    name: str, settings: Mapping[str, Any], want: Any, got: Any, place: str
) -> Difference | None:
    where = place or "the value"
    if isinstance(want, np.ndarray) or isinstance(got, np.ndarray):
        return _arrays(name, settings, want, got, place)
    if isinstance(want, list | tuple):
        if type(want) is not type(got):
            return Difference(f"{where} is another sequence", error_class="type")
        if len(want) != len(got):
            return Difference(f"{where} is of another length", error_class="shape")
        pairs = enumerate(zip(want, got, strict=True))
        return next(
            (t for i, (w, g) in pairs if (t := _compare(name, settings, w, g, f"{place}[{i}]"))),
            None,
        )
    if isinstance(want, Mapping):
        if not isinstance(got, Mapping):
            return Difference(f"{where} is of another kind", error_class="type")
        if set(want) != set(got):
            return Difference(f"{where} has other keys")
        return next(
            (t for k in want if (t := _compare(name, settings, want[k], got[k], f"{place}.{k}"))),
            None,
        )
    numbers = bool | int | float | complex
    if isinstance(want, numbers) and isinstance(got, numbers):
        if want == got or (want != want and got != got):
            return None
        rtol, atol = _tolerance(name, settings, "float64")
        if (rtol or atol) and not isinstance(want, bool) and not isinstance(got, bool):
            close = bool(np.isclose(got, want, rtol=rtol, atol=atol))
            return None if close else Difference(f"{where} differs")
        return Difference(f"{where} differs")
    if type(want) is not type(got):
        return Difference(f"{where} is of another kind", error_class="type")
    return None if want == got else Difference(f"{where} differs")


def _arrays(
    name: str, settings: Mapping[str, Any], want: Any, got: Any, place: str
) -> Difference | None:
    where = place or "the value"
    numbers = bool | int | float | complex
    if not all(isinstance(one, np.ndarray | numbers) for one in (want, got)):
        return Difference(f"{where} is of another kind", error_class="type")
    kinds = [getattr(one, "dtype_name", "") or np.asarray(one).dtype.name for one in (want, got)]
    if name in ("assert_close", "equal") and kinds[0] != kinds[1]:
        return Difference(f"{where} has another dtype", error_class="type")
    want, got = np.asarray(want), np.asarray(got)
    another_shape = Difference(f"{where} has another shape: {list(got.shape)}", error_class="shape")
    try:
        shape = np.broadcast_shapes(want.shape, got.shape)
    except ValueError:
        return another_shape
    strict = name in ("assert_close", "equal", "array_equal")
    if (strict and want.shape != got.shape) or int(np.prod(shape)) > max(want.size, got.size):
        return another_shape
    if (want.size == 0) != (got.size == 0):
        return another_shape
    if want.dtype.kind in "fc" or got.dtype.kind in "fc":
        rtol, atol = _tolerance(name, settings, kinds[0])
        wrong = ~np.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
    else:
        wrong = np.asarray(want != got)
    count = int(np.count_nonzero(wrong))
    if not count:
        return None
    return Difference(f"{count} of {wrong.size} values of {place or 'it'} differ")


def _tolerance(name: str, settings: Mapping[str, Any], dtype: str) -> tuple[float, float]:
    """Relative and absolute tolerance of a comparison."""

    def number(key: str, place: str, default: float) -> float:
        found = settings.get(key, settings.get(place))
        return float(found) if isinstance(found, int | float) else default

    if name in ("allclose", "isclose"):
        return number("rtol", "0", 1e-5), number("atol", "1", 1e-8)
    if name == "assert_close":
        rtol, atol = _TORCH.get(dtype, _TORCH_ELSE)
        return number("rtol", "", rtol), number("atol", "", atol)
    if name == "assert_allclose":
        return number("rtol", "0", 1e-7), number("atol", "1", 0.0)
    if name == "assert_array_almost_equal":
        return 0.0, 1.5 * 10.0 ** -number("decimal", "0", 6)
    if name == "assert_almost_equal":
        return 0.0, 1.5 * 10.0 ** -number("decimal", "0", 7)
    if name == "assertAlmostEqual":
        if "delta" in settings:
            return 0.0, number("delta", "", 0.0)
        return 0.0, 0.5 * 10.0 ** -number("places", "0", 7)
    if name == "-":
        return 0.0, number("limit", "", 0.0)
    if name in _LENIENT_NAMES:
        return _LENIENT
    return _EXACT


_LENIENT_NAMES: Sequence[str] = (
    *("assertGreater", "assertGreaterEqual", "assertLess", "assertLessEqual"),
    *("assert_array_less", "assertNotEqual", "assertNotAlmostEqual"),
)
