"""A public suite in two copies: one to run where the candidate is, one to run where the answer is.

`copies` rewrites a suite's syntax tree. Every comparison that the suite makes is numbered (a *site*) and hands its
operands to a recorder, `__rcb__` (`runner/split_run.py`); comparisons inside libraries stay as they are. Both copies have
the same sites. The candidate's copy holds no docstring and no message, and it *withholds* what the suite itself expects: in
a comparison of something the candidate's code gave with something the suite computed, the latter goes, and with it
whatever only it needed. A difference that is held against a limit hands out the two values it is taken of.

References are found by the names they define, and bound to the annotated file: where the suite imports the reference, it
gets that file once more. A suite whose other hidden modules hold the answer has no copies; `Copies.trouble` says why.
Guarantees: pure and deterministic; nothing is executed here.
Not covered: whether the copies tell right from wrong, which is found out by running them (`evidence.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rcb_env.dataset.imports import reachable
from rcb_env.dataset.joint import all_regions
from rcb_env.dataset.loading import SUITE
from rcb_env.dataset.papers import Paper
from rcb_env.grading.faults import bare_name, shared_code
from rcb_env.grading.kinds import CANDIDATE, MADE, Kinds
from rcb_env.grading.rewriting import (
    EXPECTED_ERRORS,
    FLAGS,
    LIMITS,
    ONE_SIDED,
    TWO,
    Site,
    Writer,
    called,
    drop_helpers,
    drop_unused,
    operand,
    used,
)

_COPIED = 0.5  # of a region's lines: a hidden module that holds so many of them holds the answer
_TWINS = 0.5  # of the names a module defines: from here on it is a reference


@dataclass(frozen=True)
class Bound:
    """A reference, and what stands in its place.

    Attributes:
        module: its dotted name.
        file: the annotated file that is imported under this name.
        aliases: names only the reference has, with what they stand for in that file.
    """

    module: str
    file: str
    aliases: Mapping[str, str]


@dataclass(frozen=True)
class Copies:
    """The two copies of a paper's suite.

    Attributes:
        judge, candidate: sources of hidden modules by path, the suite included.
        sites: every comparison; its number is its place here.
        bound: the references.
        data: data files that the candidate's copy still names.
        seeds: whether the suite seeds a generator itself.
        trouble: why there are none; "": there are.
    """

    judge: Mapping[str, str] = field(default_factory=dict)
    candidate: Mapping[str, str] = field(default_factory=dict)
    sites: tuple[Site, ...] = ()
    bound: tuple[Bound, ...] = ()
    data: tuple[str, ...] = ()
    seeds: bool = True
    trouble: str = ""


def copies(paper: Paper) -> Copies:
    """The two copies of the suite of a paper in the public layout."""
    hidden = {path: data for path, data in paper.tests.items() if path.endswith(".py")}
    try:
        trees = {path: ast.parse(data) for path, data in hidden.items()}
        shown = {path: ast.parse(paper.visible[path]) for path in paper.annotated}
    except (SyntaxError, ValueError, KeyError) as error:
        return Copies(trouble=f"it cannot be read: {error}")
    bound = tuple(
        found
        for path, tree in trees.items()
        if path != SUITE and (found := _bound(path, tree, shown)) is not None
    )
    references = {one.module for one in bound}
    left = {
        **paper.visible,
        **{path: data for path, data in hidden.items() if module_name(path) not in references},
    }
    needed = sorted(reachable((SUITE,), left) & hidden.keys())
    for path in needed:
        if path != SUITE and (holds := _holds_the_answer(paper, path, trees[path], shown)):
            return Copies(trouble=f"{path}, which it needs, holds the answer: {holds}")
    of_candidate = {module_name(path) for path in paper.annotated} | references
    sites: list[Site] = []
    judge, candidate = {}, {}
    for path in needed:
        rewriting = _Rewriting(trees[path], of_candidate, sites)
        judge[path] = ast.unparse(rewriting.tree(withhold=False))
        candidate[path] = ast.unparse(rewriting.tree(withhold=True))
    text = "\n".join(candidate.values()) + "".join(
        data.decode("utf-8", "replace") for data in paper.visible.values()
    )
    data = [path for path in paper.tests if not path.endswith(".py")]
    return Copies(
        judge,
        candidate,
        tuple(sites),
        bound,
        tuple(path for path in data if path.rpartition("/")[2] in text),
        seeds=any(word in judge[SUITE] for word in ("seed(", "PRNGKey(", "default_rng(")),
    )


def module_name(path: str) -> str:
    """The dotted name that a file is imported by."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _bound(path: str, tree: ast.Module, shown: Mapping[str, ast.Module]) -> Bound | None:
    """What a hidden module is the reference of, by the names it defines."""
    names = _definitions(tree)
    best: Bound | None = None
    most = 0
    for file, annotated in shown.items():
        theirs = {bare_name(name): name for name in _definitions(annotated)}
        twins = {name: theirs[bare_name(name)] for name in names if bare_name(name) in theirs}
        if len(twins) > most and len(twins) >= _TWINS * len(names):
            most = len(twins)
            aliases = {name: twin for name, twin in twins.items() if name != twin}
            best = Bound(module_name(path), file, aliases)
    return best


def _definitions(tree: ast.Module) -> list[str]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return [node.name for node in tree.body if isinstance(node, kinds)]


def _holds_the_answer(
    paper: Paper, path: str, tree: ast.Module, shown: Mapping[str, ast.Module]
) -> str:
    """What of a hidden module a region could be copied from, in words."""
    wanted = {bare_name(name) for each in shown.values() for name in _definitions(each)}
    for name in _definitions(tree):
        if bare_name(name) in wanted:
            return f"it defines {name}"
    for region in all_regions(paper):
        if shared_code(region, path, paper.tests[path]) >= _COPIED:
            return f"it shares code with {region.id}"
    return ""


class _Rewriting:
    """The rewriting of one module; numbers its sites on from those there are."""

    def __init__(self, tree: ast.Module, of_candidate: set[str], sites: list[Site]) -> None:
        self._tree = tree
        self._sites = sites
        self._kinds = Kinds(tree, of_candidate)
        self._numbers: dict[int, int] = {}  # id of a node of the tree -> number of its site
        self._hidden: set[int] = set()  # id of statements that the candidate's copy has not
        for function in _functions(tree):
            self._find(function)

    def tree(self, *, withhold: bool) -> ast.Module:
        """A copy of the module, rewritten."""
        made = Writer(self._numbers, self._sites, self._hidden, withhold=withhold).copy(self._tree)
        if withhold:
            for function, published in zip(_functions(made), _functions(self._tree), strict=True):
                needless = self._kinds.locals_of(function.name) & used(published)
                drop_unused(function, needless)
            drop_helpers(made, used(self._tree))
        return ast.fix_missing_locations(made)

    def _find(self, function: ast.FunctionDef) -> None:
        calls = [node for node in _own_nodes(function) if isinstance(node, ast.Call)]
        asserted = {id(node.value) for node in _own_nodes(function) if isinstance(node, ast.Expr)}
        asserted |= {
            id(call.args[0])
            for call in calls
            if id(call) in asserted and called(call) == "assertTrue" and call.args
        }
        # What must not be close is a flag: how far it is from close, the suite does not ask.
        denied = {id(call.args[0]) for call in calls if called(call) == "assertFalse" and call.args}
        expected: set[str] = set()
        found = [
            (call, self._site(call, function, asserted)) for call in calls if id(call) not in denied
        ]
        for call, site in found:
            for index in site.withheld if site else ():
                node = operand(call, index, site.operands) if site else None
                expected |= {one.id for one in ast.walk(node or call) if isinstance(one, ast.Name)}
        expected &= self._kinds.made_in(function)
        for call, site in found:
            if site is None:
                continue
            operands = [operand(call, index, site.operands) for index in range(site.operands)]
            roots = [_root(node) for node in operands if node is not None]
            if (
                site.operands
                and not site.withheld
                and id(call) in asserted
                and any(root in expected for root in roots)
                and all(self._kinds.of(node, function) == MADE for node in operands if node)
            ):
                self._hidden.add(id(call))  # it compares one expectation with another
                continue
            self._numbers[id(call)] = len(self._sites)
            self._sites.append(site)
        for call, site in found:
            if site is not None and site.name in LIMITS and id(call) in self._numbers:
                self._find_difference(call.args[0], self._numbers[id(call)], function)

    def _site(self, call: ast.Call, function: ast.FunctionDef, asserted: set[int]) -> Site | None:
        name = called(call)
        if name in EXPECTED_ERRORS:
            return Site(name, call.lineno, 0)
        count = 2 if name in TWO or name in ONE_SIDED else 1 if name in FLAGS else 0
        if name in ("equal", "allclose", "isclose") and self._kinds.is_method(call):
            count = 1  # of the object whose method it is, and one argument
        operands = [operand(call, index, count) for index in range(count)]
        if not count or any(node is None for node in operands):
            return None
        withheld: tuple[int, ...] = ()
        if name in TWO and len(operands) == 2 and id(call) in asserted:
            kinds = [self._kinds.of(node, function) for node in operands if node]
            if CANDIDATE in kinds:
                withheld = tuple(index for index, kind in enumerate(kinds) if kind == MADE)
        return Site(name, call.lineno, count, withheld)

    def _find_difference(self, tested: ast.expr, limit_at: int, function: ast.FunctionDef) -> None:
        """The subtraction whose size is held against a limit, where one side is the candidate's."""
        made = self._kinds.resolve(tested, function)
        for node in ast.walk(made):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
                sides = {self._kinds.of(node.left, function), self._kinds.of(node.right, function)}
                if CANDIDATE in sides and id(node) not in self._numbers:
                    squared = any(
                        isinstance(one, ast.Pow) or "square" in getattr(one, "attr", "")
                        for one in ast.walk(made)
                    )
                    self._numbers[id(node)] = len(self._sites)
                    self._sites.append(Site("-", node.lineno, 2, (), limit_at, squared))
                    return


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Functions of a module and methods of its classes, without what is defined in them."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef):
            yield child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child)


def _own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Every node in a function, outer ones first, in the order of the text."""
    for child in ast.iter_child_nodes(function):
        yield child
        yield from _own_nodes(child)  # type: ignore[arg-type]


def _root(node: ast.expr) -> str:
    """The name that an expression of attributes, items and method calls starts from."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
