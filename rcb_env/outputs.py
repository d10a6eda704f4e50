"""The outputs of a case as bytes, and one side's outputs held against the other's.

`encode` writes plain numbers, strings, arrays and containers, never pickled or live objects. `decode` reads them back as
hostile: sizes, depth and dtypes are checked before anything is allocated. `difference` compares by the tolerances of a case.

This module runs inside boxes, so it imports the standard library and numpy only, and looks at torch where a case loaded it.
Not covered: what cases are (`cases.py`); what the operands of a public suite become (`runner/operands.py`).
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_OUTPUT_BYTES = 64 * 1024 * 1024  # arrays and text of one case, encoded
MAX_TREE_BYTES = 4 * 1024 * 1024  # the JSON part alone
MAX_DEPTH = 50  # containers inside containers
_INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
_FLOATS = ["float16", "float32", "float64", "complex64", "complex128"]
_DTYPES = frozenset(["bool", *_INTEGERS, *_FLOATS])


def encode(value: Any) -> bytes:
    """Turn outputs into bytes: a JSON tree, and the arrays' raw little-endian bytes behind it.

    Raises:
        TypeError: an output of a type that cannot leave a box; the message names the place.
        ValueError: outputs larger than MAX_OUTPUT_BYTES or nested deeper than MAX_DEPTH.
    """
    blobs: list[bytes] = []
    tree = json.dumps(_encode(value, "output", 0, blobs)).encode()
    total = len(tree) + sum(map(len, blobs))
    if total > MAX_OUTPUT_BYTES or len(tree) > MAX_TREE_BYTES:
        raise ValueError(f"outputs of {total} bytes are too large to compare")
    return b"".join([len(tree).to_bytes(4, "big"), tree, *blobs])


def _encode(value: Any, place: str, depth: int, blobs: list[bytes]) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError(f"{place[:200]} is nested deeper than {MAX_DEPTH} levels")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return _encode_array(np.asarray(value), _name_of(value.dtype), place, blobs)
    if isinstance(value, int):
        return {"int": str(int(value))} if abs(value) >= 2**53 else int(value)
    if isinstance(value, float):
        return {"float": float(value).hex()}
    if isinstance(value, complex):
        return {"complex": [float(value.real).hex(), float(value.imag).hex()]}
    if isinstance(value, str):
        return {"str": str(value)}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_encode(v, f"{place}[{i}]", depth + 1, blobs) for i, v in enumerate(value)]}
    if isinstance(value, Mapping):
        items = []
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{place} has a key {key!r} that is not a string")
            items.append([str(key), _encode(item, f"{place}[{key!r}]", depth + 1, blobs)])
        return {"dict": items}
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        name = str(value.dtype).removeprefix("torch.")
        plain = value.detach().cpu()
        if plain.is_sparse or plain.is_quantized:
            raise TypeError(f"{place} is a sparse or quantized tensor; return a dense one")
        if name not in _DTYPES:  # bfloat16 and smaller have no numpy twin
            plain = plain.to(torch.float32)
        return _encode_array(plain.resolve_conj().resolve_neg().numpy(), name, place, blobs)
    raise TypeError(
        f"{place} is a {type(value).__name__}; return arrays, numbers, strings, or containers of them"
    )


def _encode_array(array: np.ndarray[Any, Any], name: str, place: str, blobs: list[bytes]) -> Any:
    stored = _name_of(array.dtype)
    if stored not in _DTYPES:
        raise TypeError(
            f"{place} is an array of dtype {array.dtype}; return bools, ints, floats or complex numbers"
        )
    blobs.append(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes())
    return {"array": [name, stored, list(array.shape)]}


@functools.lru_cache(maxsize=64)
def _name_of(dtype: np.dtype[Any]) -> str:
    return dtype.name  # numpy puts it together anew every time


def tree_bytes(data: bytes) -> int:
    """How long the JSON part of encoded outputs is, by its own account: what it costs to decode grows with it."""
    return int.from_bytes(data[:4], "big")


def decode(data: bytes) -> Any:
    """Read what `encode` wrote; the bytes may come from a hostile process.

    Arrays come back as numpy arrays (read-only). bfloat16 comes back as an `Array` with its values in float32.

    Raises:
        ValueError: the bytes are not such a tree, or are larger than the limits.
    """
    if not 4 <= len(data) <= MAX_OUTPUT_BYTES + 4:
        raise ValueError("outputs have an impossible size")
    size = tree_bytes(data)
    if size > MAX_TREE_BYTES or 4 + size > len(data):
        raise ValueError("outputs are cut off")
    try:
        tree = json.loads(data[4 : 4 + size])
        value, end = _decode(tree, data, 4 + size, 0)
    except (TypeError, KeyError, IndexError, RecursionError, OverflowError) as error:
        raise ValueError(f"outputs are malformed: {type(error).__name__}") from None
    if end != len(data):
        raise ValueError("outputs have bytes left over")
    return value


def _decode(node: Any, data: bytes, offset: int, depth: int) -> tuple[Any, int]:
    if depth > MAX_DEPTH:
        raise ValueError("outputs are nested too deep")
    if node is None or isinstance(node, bool | int):
        return node, offset
    if not isinstance(node, dict) or len(node) != 1:
        raise ValueError("outputs hold an unknown node")
    ((kind, body),) = node.items()
    if kind == "int" and isinstance(body, str) and len(body) < 400:
        return int(body), offset
    if kind == "float":
        return float.fromhex(body), offset
    if kind == "complex":
        return complex(float.fromhex(body[0]), float.fromhex(body[1])), offset
    if kind == "str" and isinstance(body, str):
        return body, offset
    if kind in ("list", "tuple") and isinstance(body, list):
        items = []
        for item in body:
            value, offset = _decode(item, data, offset, depth + 1)
            items.append(value)
        return (items if kind == "list" else tuple(items)), offset
    if kind == "dict" and isinstance(body, list):
        mapping: dict[str, Any] = {}
        for key, item in body:
            if not isinstance(key, str):
                raise ValueError("outputs hold a key that is not a string")
            mapping[key], offset = _decode(item, data, offset, depth + 1)
        return mapping, offset
    if kind == "array":
        return _decode_array(body, data, offset)
    raise ValueError("outputs hold an unknown node")


def _decode_array(body: Any, data: bytes, offset: int) -> tuple[Any, int]:
    name, stored, shape = body
    if stored not in _DTYPES or not isinstance(name, str) or len(name) > 40:
        raise ValueError("outputs hold an array of an unknown dtype")
    if len(shape) > 32 or not all(type(n) is int and 0 <= n <= MAX_OUTPUT_BYTES for n in shape):
        raise ValueError("outputs hold an array of an impossible shape")
    dtype = np.dtype(stored).newbyteorder("<")
    count = 1
    for n in shape:
        count *= n
    end = offset + count * dtype.itemsize
    if end > len(data):
        raise ValueError("outputs are cut off")
    array = np.frombuffer(data, dtype, count, offset).astype(np.dtype(stored), copy=False)
    array = array.reshape(shape)
    return (array if name == stored else array.view(Array).named(name)), end


class Array(np.ndarray[Any, Any]):
    """An array whose dtype in the box has no numpy twin (bfloat16): values in float32, the true name beside them."""

    dtype_name: str = ""

    def named(self, name: str) -> Array:
        """This array, under the dtype name it had in the box."""
        self.dtype_name = name
        return self


@dataclass(frozen=True)
class Difference:
    """Why two outputs are not the same. `message` tells no expected value; `detail` shows both sides."""

    message: str
    detail: str = ""
    error_class: str = "value"  # value, shape or type


def difference(
    want: Any, got: Any, *, rtol: float, atol: float, place: str = "output"
) -> Difference | None:
    """The first difference between the reference's output and the candidate's, or None.

    Structure, shapes and dtypes are compared first. Floats are close when ``|got - want| <= atol + rtol * |want|``;
    NaN equals NaN and an infinity equals itself in the same place only; everything else is compared exactly.
    """
    if isinstance(want, np.ndarray):
        return _array_difference(want, got, rtol, atol, place)
    if isinstance(want, Mapping):
        if not isinstance(got, Mapping):
            return _kinds_differ(want, got, place)
        if set(want) != set(got):
            missing, extra = sorted(set(want) - set(got)), sorted(set(got) - set(want))
            return Difference(
                f"{place}: keys differ", f"missing {missing}, unexpected {extra}"[:500]
            )
        return _first(
            difference(want[k], got[k], rtol=rtol, atol=atol, place=f"{place}[{k!r}]") for k in want
        )
    if isinstance(want, list | tuple):
        if type(want) is not type(got):
            return _kinds_differ(want, got, place)
        if len(want) != len(got):
            return Difference(
                f"{place}: the length differs", f"yours {len(got)}, expected {len(want)}", "shape"
            )
        pairs = enumerate(zip(want, got, strict=True))
        return _first(
            difference(w, g, rtol=rtol, atol=atol, place=f"{place}[{i}]") for i, (w, g) in pairs
        )
    if type(want) is float and type(got) is float and want == got:
        return None
    if isinstance(want, float | complex) and type(got) in (int, float, type(want)):
        one, other = np.asarray(want), np.asarray(got, dtype=np.asarray(want).dtype)
        if bool(_close(one, other, rtol, atol)):
            return None
        return Difference(f"{place}: the value differs", f"yours {got!r}, expected {want!r}"[:500])
    if type(want) is not type(got):
        return _kinds_differ(want, got, place)
    if want == got:
        return None
    return Difference(f"{place}: the value differs", f"yours {got!r}, expected {want!r}"[:500])


def _first(differences: Iterable[Difference | None]) -> Difference | None:
    return next((found for found in differences if found is not None), None)


def _kind(value: Any) -> str:
    return "array" if isinstance(value, np.ndarray) else type(value).__name__


def _kinds_differ(want: Any, got: Any, place: str) -> Difference:
    detail = f"yours {_kind(got)}, expected {_kind(want)}"
    return Difference(f"{place}: the type differs", detail, "type")


def _dtype_name(array: np.ndarray[Any, Any]) -> str:
    return (
        array.dtype_name if isinstance(array, Array) and array.dtype_name else _name_of(array.dtype)
    )


def _array_difference(
    want: np.ndarray[Any, Any], got: Any, rtol: float, atol: float, place: str
) -> Difference | None:
    if not isinstance(got, np.ndarray):
        return _kinds_differ(want, got, place)
    if want.shape != got.shape:
        detail = f"yours {list(got.shape)}, expected {list(want.shape)}"
        return Difference(f"{place}: the shape differs", detail, "shape")
    if _dtype_name(want) != _dtype_name(got):
        detail = f"yours {_dtype_name(got)}, expected {_dtype_name(want)}"
        return Difference(f"{place}: the dtype differs", detail, "type")
    if want.tobytes() == got.tobytes():
        return None  # the same bits are close by any tolerance, and most right answers have them
    wrong = ~_close(np.asarray(want), np.asarray(got), rtol, atol)
    count = int(np.count_nonzero(wrong))
    if not count:
        return None
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    index = f"[{', '.join(map(str, where))}]" if where else ""
    message = f"{place}: {count} of {want.size} values differ, the first at {place}{index}"
    return Difference(
        message, f"at {index or place}: yours {got[where]!r}, expected {want[where]!r}"[:500]
    )


def _close(
    want: np.ndarray[Any, Any], got: np.ndarray[Any, Any], rtol: float, atol: float
) -> np.ndarray[Any, Any]:
    if want.dtype.kind not in "fc":
        return np.asarray(want == got)
    return np.asarray(np.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True))
