"""Which names that a stretch of lines binds are read after it: reaching definitions over a syntax tree.

One scope at a time, in the order in which it runs: branches join, loops come round again, an exception may come from
any statement of a ``try``. A name that is bound anew in between is not read from these lines. Functions and lambdas
inside a scope run later, so what they read counts wherever they stand.

Guarantees: pure; says yes where a path leads from the binding to the read, even if no run takes it.
Not covered: attributes and keys (`rcb_env.dataset.interface`); names bound by ``exec`` and the like.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Sequence

Inside = Callable[[ast.AST], bool]
"""Whether a node stands on the lines in question."""
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Scope = ast.Module | ast.ClassDef | Function
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_State = set[str] | None  # names that may hold what the lines bound; None: nobody gets here


def read_later(scope: Scope, inside: Inside) -> set[str]:
    """Names of ``scope`` that the lines bind and something outside of them reads."""
    flow = _Flow(inside)
    flow.block(scope.body if isinstance(scope.body, list) else [], set())
    found = flow.read | (flow.wild & (flow.seen | flow.deferred))
    if not isinstance(scope, ast.ClassDef):  # methods do not see the names of their class
        found |= flow.ever & flow.deferred
    return found


class _Flow:
    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        self.read: set[str] = set()
        self.ever: set[str] = set()
        self.seen: set[str] = set()
        self.deferred: set[str] = set()
        self.wild: set[str] = set()  # bound by inner functions, as `nonlocal` or `global`
        self._tries: list[set[str]] = []
        self._loops: list[tuple[list[_State], list[_State]]] = []
        self._hidden: list[str] = []

    # --- statements ---------------------------------------------------------------------------

    def block(self, body: Iterable[ast.stmt], state: _State) -> _State:
        for statement in body:
            if state is None:
                return None
            self._may_raise(state)
            state = self._statement(statement, state)
            if state is not None:
                self._may_raise(state)
        return state

    def _may_raise(self, state: set[str]) -> None:
        for handled in self._tries:
            handled |= state

    def _statement(self, node: ast.stmt, state: set[str]) -> _State:
        if isinstance(node, ast.Return | ast.Raise):
            self._look(node, state)
            self._may_raise(state)
            return None
        if isinstance(node, ast.Break | ast.Continue):
            if self._loops:
                self._loops[-1][isinstance(node, ast.Continue)].append(set(state))
            return None
        if isinstance(node, ast.If):
            self._look(node.test, state)
            return _joined(self.block(node.body, set(state)), self.block(node.orelse, set(state)))
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            return self._loop(node, state)
        if isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                self._look(item.context_expr, state)
                self._bind(item.optional_vars, state)
            return self.block(node.body, state)
        if isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
            return self._try(node, state)  # type: ignore[arg-type]
        if isinstance(node, ast.Match):
            return self._match(node, state)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self._definition(node, state)
        elif isinstance(node, ast.Assign):
            self._look(node.value, state)
            for target in node.targets:
                self._bind(target, state)
        elif isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Name):
                self._use(node.target, state)
            self._look(node.value, state)
            self._bind(node.target, state)
        elif isinstance(node, ast.AnnAssign):
            self._look(node.annotation, state)
            self._look(node.value, state)
            if node.value is not None:
                self._bind(node.target, state)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                self._bound(alias.asname or alias.name.partition(".")[0], node, state)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                self._look(target, state)
                if isinstance(target, ast.Name):
                    state.discard(target.id)
        else:
            self._look(node, state)
        return state

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, state: set[str]) -> _State:
        first = node.test if isinstance(node, ast.While) else node.iter
        target = None if isinstance(node, ast.While) else node.target
        endless = isinstance(first, ast.Constant) and bool(first.value) and target is None
        if target is not None:
            self._look(first, state)
        breaks: list[_State] = []
        while True:  # the states only grow
            before = set(state)
            if target is None:
                self._look(first, state)
            entered = set(state)
            self._bind(target, entered)
            continues: list[_State] = []
            self._loops.append((breaks, continues))
            end = self.block(node.body, entered)
            self._loops.pop()
            state |= _joined(end, *continues) or set()
            if state == before:
                break
        return _joined(None if endless else self.block(node.orelse, state), *breaks)

    def _try(self, node: ast.Try, state: set[str]) -> _State:
        anywhere = set(state)
        self._tries.append(anywhere)
        normal = self.block(node.body, state)
        self._tries.pop()
        ends = []
        if node.finalbody:
            self._tries.append(anywhere_after := set(anywhere))
        for handler in node.handlers:
            caught = set(anywhere)
            self._look(handler.type, caught)
            if handler.name:
                self._bound(handler.name, handler, caught)
            end = self.block(handler.body, caught)
            if end is not None and handler.name:
                end.discard(handler.name)
            ends.append(end)
        ends.append(self.block(node.orelse, normal))
        after = _joined(*ends)
        if not node.finalbody:
            return after
        self._tries.pop()
        left = self.block(node.finalbody, anywhere_after | (after or set()))
        # What goes on after the block is what came to its end; only reads matter on the other ways.
        return None if after is None or left is None else self.block(node.finalbody, after)

    def _match(self, node: ast.Match, state: set[str]) -> _State:
        self._look(node.subject, state)
        ends: list[_State] = [state]
        for case in node.cases:
            matched = set(state)
            for part in ast.walk(case.pattern):
                name = getattr(part, "name", None) or getattr(part, "rest", None)
                if isinstance(name, str):
                    self._bound(name, part, matched)
            self._look(case.guard, matched)
            ends.append(self.block(case.body, matched))
            if isinstance(case.pattern, ast.MatchAs) and not (case.pattern.pattern or case.guard):
                ends[0] = None  # takes everything
        return _joined(*ends)

    def _definition(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, state: set[str]
    ) -> None:
        for part in node.decorator_list:
            self._look(part, state)
        if isinstance(node, ast.ClassDef):
            for base in (*node.bases, *node.keywords):
                self._look(base, state)
            bound = own_names(node)
            for name in direct_reads(node, self._inside) - bound:
                self._seen(name, state)
        else:
            for expression in (*node.args.defaults, *node.args.kw_defaults, *_annotations(node)):
                self._look(expression, state)
        self.deferred |= _deferred(node, self._inside)
        self.wild |= _bound_outward(node, self._inside)
        self._bound(node.name, node, state)

    # --- expressions --------------------------------------------------------------------------

    def _look(self, node: ast.AST | None, state: set[str]) -> None:
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                self._use(node, state)
        elif isinstance(node, ast.Lambda):
            for default in (*node.args.defaults, *node.args.kw_defaults):
                self._look(default, state)
            self.deferred |= _deferred(node, self._inside)
        elif isinstance(node, ast.NamedExpr):
            self._look(node.value, state)
            if self._inside(node.target):
                self._bind(node.target, state)
        elif isinstance(node, _COMPREHENSIONS):
            self._look(node.generators[0].iter, state)  # of the scope around it
            hidden = _targets(node)
            self._hidden += hidden
            for child in ast.iter_child_nodes(node):
                self._look(child, state)
            del self._hidden[len(self._hidden) - len(hidden) :]
        elif node is not None:
            for child in ast.iter_child_nodes(node):
                self._look(child, state)

    def _use(self, node: ast.Name, state: set[str]) -> None:
        if node.id not in self._hidden and not self._inside(node):
            self._seen(node.id, state)

    def _seen(self, name: str, state: set[str]) -> None:
        self.seen.add(name)
        if name in state:
            self.read.add(name)

    def _bind(self, target: ast.expr | None, state: set[str]) -> None:
        if isinstance(target, ast.Name):
            self._bound(target.id, target, state)
        elif isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                self._bind(part, state)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, state)
        else:
            self._look(target, state)

    def _bound(self, name: str, node: ast.AST, state: set[str]) -> None:
        if self._inside(node):
            state.add(name)
            self.ever.add(name)
        else:
            state.discard(name)


def _joined(*states: _State) -> _State:
    reached = [state for state in states if state is not None]
    return set().union(*reached) if reached else None


# --- scopes -----------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def parts(scope: ast.AST) -> Sequence[ast.AST]:
    """All nodes of a scope's body, inner functions and classes themselves but nothing in them."""
    if isinstance(scope, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        pending: list[ast.AST] = list(scope.body)
    else:
        pending = [scope.body] if isinstance(scope, ast.Lambda) else []
    found = []
    while pending:
        node = pending.pop()
        found.append(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            pending += [*node.decorator_list, *node.args.defaults]
            pending += [each for each in (*node.args.kw_defaults, *_annotations(node)) if each]
        elif isinstance(node, ast.ClassDef):
            pending += [*node.decorator_list, *node.bases, *node.keywords]
        elif isinstance(node, ast.Lambda):
            pending += [*node.args.defaults, *(each for each in node.args.kw_defaults if each)]
        else:
            pending += ast.iter_child_nodes(node)
    return found


def own_names(scope: Scope) -> set[str]:
    """Names that are bound in a scope itself."""
    found: set[str] = set()
    outward: set[str] = set()
    if isinstance(scope, Function):
        arguments = scope.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [each for each in (arguments.vararg, arguments.kwarg) if each]
        found |= {each.arg for each in every}
    hidden: set[ast.AST] = set()
    for node in parts(scope):
        if isinstance(node, ast.Global | ast.Nonlocal):
            outward |= set(node.names)
        elif isinstance(node, ast.comprehension):
            hidden |= set(ast.walk(node.target))
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found |= {node.id} if node not in hidden else set()
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif (isinstance(node, ast.ExceptHandler) and node.name) or (
            isinstance(node, ast.MatchAs | ast.MatchStar) and node.name
        ):
            found.add(node.name)
    return found - outward


def direct_reads(scope: Scope, inside: Inside) -> set[str]:
    """Names that a scope itself reads outside of the lines, those of its comprehensions aside."""
    found: set[str] = set()
    hidden: set[tuple[str, ast.AST]] = set()
    for node in parts(scope):
        if isinstance(node, _COMPREHENSIONS):
            outer = set(ast.walk(node.generators[0].iter))
            inner = [part for part in ast.walk(node) if part not in outer]
            hidden |= {(name, part) for name in _targets(node) for part in inner}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if not inside(node) and (node.id, node) not in hidden:
                found.add(node.id)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found |= set() if inside(node.target) else {node.target.id}
    return found


def _deferred(scope: Scope, inside: Inside) -> set[str]:
    """Names of outer scopes that a function reads when it runs, or the methods of a class do."""
    found = set() if isinstance(scope, ast.ClassDef) else direct_reads(scope, inside)
    for inner in _inner(scope):
        found |= _deferred(inner, inside)
        if isinstance(inner, ast.ClassDef):
            found |= direct_reads(inner, inside) - own_names(inner)
    return found if isinstance(scope, ast.ClassDef) else found - own_names(scope)


def _bound_outward(scope: Scope, inside: Inside) -> set[str]:
    """Names of outer scopes that a function binds on the lines."""
    declared = {
        name
        for node in parts(scope)
        if isinstance(node, ast.Global | ast.Nonlocal)
        for name in node.names
    }
    bound = {
        node.id
        for node in parts(scope)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and inside(node)
    }
    return (declared & bound).union(*(_bound_outward(inner, inside) for inner in _inner(scope)))


def _inner(scope: Scope) -> Sequence[Scope]:
    return [node for node in parts(scope) if isinstance(node, ast.ClassDef | Function)]


def _targets(node: ast.AST) -> list[str]:
    return [
        name.id
        for generator in getattr(node, "generators", ())
        for name in ast.walk(generator.target)
        if isinstance(name, ast.Name)
    ]


def _annotations(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterable[ast.expr | None]:
    arguments = node.args
    yield node.returns
    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        yield each.annotation
    for more in (arguments.vararg, arguments.kwarg):
        if more is not None:
            yield more.annotation
