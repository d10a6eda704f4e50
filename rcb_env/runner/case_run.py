"""What a test run of a native paper executes: `run` in either box, `judge` in the judge box only.

`run` executes a paper's cases on the tree in the current folder and sends every output out as plain bytes. The process
may belong to a hostile candidate, so nothing it sends is believed: no expected value, check or reference is here.
`judge` gets the candidate's records and the reference's, compares them and runs the paper's checks. It never imports
candidate code. Both get the code of the tests as `compiled` made it, in the judge box: compiling takes longer than most
cases do. All get their settings as one message (`wire`) and write messages.
"""

from __future__ import annotations

import functools
import io
import marshal
import os
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, BinaryIO

from rcb_env import cases
from rcb_env.runner import wire

MAX_FRAMES = 8  # innermost frames of candidate code told in an error
# The judge's time grows with the number of values, so a candidate may send no more than so many times the reference's.
_MORE_TREE, _FREE_TREE_BYTES = 4, 32 * 1024
# What torch says when tensors that processes share find no room, in each of its ways to share them.
_OF_SHARED_MEMORY = ("shared memory", "unable to write to file </torch_", "Bus error")
MAX_TEXT = 2000  # characters of one error message


def compiled(argument: bytes, result: BinaryIO) -> None:
    """Compile the files of tests, by path in the header's ``sources``; one message, their code as blobs.

    The code is for the Python of this box and of any other box of the same image.
    """
    header, _ = parse(argument)
    code = [
        compile(source, path, "exec", dont_inherit=True)
        for path, source in header["sources"].items()
    ]
    result.write(wire.pack({}, [marshal.dumps(each) for each in code]))


def run(argument: bytes, result: BinaryIO) -> None:
    """Run the cases that cover one of some files, with the seeds of a purpose; one record a case and seed, then ``done``.

    Header of the argument: ``file`` (a path, or a list of them), ``purpose``, ``paper``, ``once`` (whether the first seed of
    each case is enough); the blob is the compiled cases.py.
    Records: ``case``, ``seed``, ``error`` (None, or type, message, frames), and the encoded outputs as a blob. What the
    judge needs of a case (``rtol``, ``atol``, ``compare``) is in the record, and taken from the reference's record only.
    """
    header, (code,) = parse(argument)
    before = set(sys.modules)
    tree = cases.Tree(Path.cwd())
    namespace = execute(code)
    files = [header["file"]] if isinstance(header["file"], str) else header["file"]
    chosen = [case for case in cases.cases_in(namespace) if any(map(case.tests, files))]
    for case in chosen:
        for index in range(1 if header.get("once") else case.seeds):
            seed = case.seed(header["purpose"], header["paper"], index)
            started = time.perf_counter()
            record = {
                "case": case.name,
                "seed": seed,
                "rtol": case.rtol,
                "atol": case.atol,
                "compare": case.compare,
            }
            outputs, error = b"", None
            try:
                outputs = cases.encode(case.function(tree, cases.Rng(seed)))
            except BaseException as raised:
                if isinstance(raised, KeyboardInterrupt):
                    raise
                error = describe(raised)
            record |= {"error": error, "wall_s": time.perf_counter() - started}
            result.write(wire.pack(record, [outputs]))
            result.flush()
    result.write(wire.pack({"done": True, "imports": new_imports(before)}))


def judge(argument: bytes, result: BinaryIO) -> None:
    """Compare a candidate's records with the reference's and run the checks; one message with all outcomes.

    Header of the argument: ``reference`` and ``candidate``, lists of records. The first blob is the compiled checks.py,
    then come the blobs of the records in that order.
    """
    header, (code, *blobs) = parse(argument)
    checks = cases.checks_in(execute(code))
    reference, candidate = header["reference"], header["candidate"]
    theirs = {
        (record["case"], record["seed"]): (record, blob)
        for record, blob in zip(candidate, blobs[len(reference) :], strict=True)
    }
    outcomes = []
    for record, blob in zip(reference, blobs, strict=False):
        key = (record["case"], record["seed"])
        outcome, found = _judge_one(record, blob, theirs.get(key), checks)
        outcomes.append(
            {
                "case": key[0],
                "seed": key[1],
                "outcome": outcome,
                "message": found.message,
                "detail": found.detail,
                "error_class": found.error_class if outcome == "failed" else None,
            }
        )
    result.write(wire.pack({"outcomes": outcomes}))


def _judge_one(
    record: Mapping[str, Any],
    blob: bytes,
    theirs: tuple[Mapping[str, Any], bytes] | None,
    checks: tuple[cases.Check, ...],
) -> tuple[str, cases.Difference]:
    if theirs is None:
        return "not_run", cases.Difference("the tests ended before this case")
    error = theirs[0]["error"]
    if error is not None:
        where = "".join(f"\n  {frame}" for frame in error["frames"])
        return "error", cases.Difference(f"{error['type']}: {error['message']}{where}")
    same = theirs[1] == blob
    asked = [check for check in checks if check.case == record["case"]]
    if same and not asked:
        return "passed", cases.Difference("")
    if cases.tree_bytes(theirs[1]) > _MORE_TREE * cases.tree_bytes(blob) + _FREE_TREE_BYTES:
        told = "the outputs hold far more values than they should"
        return "failed", cases.Difference(told, error_class="shape")
    try:
        got = cases.decode(theirs[1])
    except ValueError as problem:
        return "failed", cases.Difference(str(problem)[:MAX_TEXT])
    want = cases.decode(blob)
    if record["compare"] and not same:
        try:
            found = cases.difference(want, got, rtol=record["rtol"], atol=record["atol"])
        except Exception as problem:  # a number no float can hold, for instance
            told = f"the outputs cannot be compared ({type(problem).__name__})"
            return "failed", cases.Difference(told)
        if found is not None:
            return "failed", found
    for check in asked:
        try:
            check.function(got, want)
        except Exception as problem:
            text = str(problem)[:MAX_TEXT] or type(problem).__name__
            return "failed", cases.Difference(f"check {check.name}: {text}")
    return "passed", cases.Difference("")


def parse(data: bytes) -> wire.Message:
    """The one message that `data` is."""
    stream = io.BytesIO(data)
    return wire.unpack(functools.partial(_read_exactly, stream))


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) != count:
        raise wire.WireError("a message is cut off")
    return data


def execute(compiled_file: bytes) -> dict[str, Any]:
    """The names of a file that `compiled` made, executed as a module."""
    code = marshal.loads(compiled_file)
    assert isinstance(code, CodeType)
    module = ModuleType(Path(code.co_filename).stem)
    sys.modules.setdefault(module.__name__, module)
    exec(code, module.__dict__)
    return module.__dict__


def _folder() -> str:
    """The current folder; that of the run where the code under test removed its own."""
    try:
        return os.getcwd()
    except OSError:
        return "/work/tree"


def new_imports(before: set[str]) -> list[str]:
    """The modules imported since, but for those of the tree in the current folder."""
    root = _folder() + os.sep
    files = {
        name: getattr(sys.modules[name], "__file__", None) for name in set(sys.modules) - before
    }
    return sorted(
        n for n, file in files.items() if isinstance(file, str) and not file.startswith(root)
    )


def describe(error: BaseException) -> dict[str, Any]:
    """An exception as data: type, message, the frames below the current folder, its types' names."""
    root = _folder() + os.sep
    frames = []
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith(root):
            frames.append(
                f"{frame.filename.removeprefix(root)}:{frame.lineno} in {frame.name}: {frame.line or ''}"[
                    :300
                ]
            )
    if isinstance(error, SyntaxError) and error.filename and error.filename.startswith(root):
        frames.append(
            f"{error.filename.removeprefix(root)}:{error.lineno}: {(error.text or '').strip()}"[
                :300
            ]
        )
    try:
        text = str(error.msg) if isinstance(error, SyntaxError) else str(error)
    except Exception:
        text = "(its message cannot be read)"
    if isinstance(error, MemoryError) and _is_the_parsers(error):
        error, text = SyntaxError(), "the code is nested too deep for Python to read"
    if any(words in text for words in _OF_SHARED_MEMORY):
        text = f"{text[: MAX_TEXT - 60]} (/dev/shm holds {_megabytes('/dev/shm')} MB in a box)"
    kinds = [kind.__name__[:80] for kind in type(error).__mro__[:-2]]
    return {
        "type": type(error).__name__[:80],
        "message": text[:MAX_TEXT],
        "frames": frames[-MAX_FRAMES:],
        "kinds": kinds[:12],
    }


def _is_the_parsers(error: BaseException) -> bool:
    """Whether Python raised it over the text of a module: its parser has room for some thousand levels."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].name in ("_call_with_frames_removed", "_import_and_hide")


def _megabytes(folder: str) -> int:
    space = os.statvfs(folder)
    return space.f_blocks * space.f_frsize >> 20
