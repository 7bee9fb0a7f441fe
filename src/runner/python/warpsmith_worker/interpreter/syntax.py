"""Rewrites the source of a kernel so that Python runs it with the meaning that Triton's compiler gives it.

Python itself would compute ``a and b`` on whole tensors as ``b``, accept ``break``, or let a loop variable
be a Python integer that never overflows. The rewritten function calls helpers (`semantics.Helpers`) at
those places. Only code that really runs is judged, like only code that is reached is compiled.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import triton.language as tl

from .errors import FrontEndError, NoSource

HELPERS = "__warpsmith__"
"""The one name that a rewritten module gets."""

_REJECTED_STATEMENTS = (
    ast.Break,
    ast.Continue,
    ast.Try,
    ast.Raise,
    ast.Delete,
    ast.Global,
    ast.Nonlocal,
    ast.Import,
    ast.ImportFrom,
    ast.ClassDef,
    ast.Match,
)
_REJECTED_EXPRESSIONS = (
    ast.Lambda,
    ast.Dict,
    ast.Set,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.Yield,
    ast.YieldFrom,
    ast.Await,
)
_SCOPES = (ast.FunctionDef, ast.Lambda)


def compiler_builtins() -> frozenset[str]:
    """Python builtins that Triton's compiler knows."""
    try:
        from triton.compiler.code_generator import CodeGenerator

        return frozenset(CodeGenerator.builtin_namespace)
    except (ImportError, AttributeError):
        return frozenset(
            [
                "len",
                "list",
                "range",
                "float",
                "int",
                "isinstance",
                "getattr",
                "hasattr",
                "print",
                "min",
                "max",
            ]
        )


def _compiler_has_chains() -> bool:
    try:
        from triton.compiler.code_generator import CodeGenerator

        return hasattr(CodeGenerator, "_apply_boolean_values")
    except ImportError:
        return True


def rewrite(function: FunctionType, helpers: Any, is_library: bool) -> FunctionType:
    """The function as the interpreter runs it; ``is_library`` trusts it to obey the compiler's rules.

    Raises `FrontEndError` when there is no source text, as the compiler does.
    """
    try:
        lines, first_line = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, IndentationError) as error:
        raise NoSource from error
    definition = next((node for node in tree.body if isinstance(node, ast.FunctionDef)), None)
    if definition is None:
        raise FrontEndError("@jit functions should be defined with `def`")
    definition.decorator_list = []
    scope = _Scope(function)
    definition.body = _Rewriter(scope, is_library).body(definition.body)
    module = ast.Module(body=[_with_closure(definition, function)], type_ignores=[])
    ast.fix_missing_locations(module)
    ast.increment_lineno(module, first_line - 1)
    flags = function.__code__.co_flags & _FUTURE_ANNOTATIONS
    code = compile(module, function.__code__.co_filename, "exec", flags=flags, dont_inherit=True)
    function.__globals__[HELPERS] = helpers
    names: dict[str, Any] = {}
    exec(code, function.__globals__, names)
    if function.__code__.co_freevars:
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        return names[_OUTER](*cells)
    return names[function.__name__]


_FUTURE_ANNOTATIONS = __import__("__future__").annotations.compiler_flag
_OUTER = "__warpsmith_closure__"


def _with_closure(definition: ast.FunctionDef, function: FunctionType) -> ast.FunctionDef:
    free = function.__code__.co_freevars
    if not free:
        return definition
    outer = ast.parse(f"def {_OUTER}({', '.join(free)}):\n    pass").body[0]
    assert isinstance(outer, ast.FunctionDef)
    result = ast.Return(value=ast.Name(id=definition.name, ctx=ast.Load()))
    outer.body = [definition, result]
    return outer


class _Scope:
    """What a name in a kernel stands for."""

    def __init__(self, function: FunctionType) -> None:
        code = function.__code__
        self.locals = {*code.co_varnames, *code.co_cellvars}
        self._outer: dict[str, Any] = {}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            self._outer[name] = cell.cell_contents
        self._globals = function.__globals__

    def is_builtin(self, name: str) -> bool:
        """Whether the name stands for a Python builtin."""
        return (
            name not in self.locals
            and name not in self._outer
            and name not in self._globals
            and hasattr(builtins, name)
        )

    def value(self, name: str) -> tuple[bool, Any]:
        """Whether the name is global to the kernel, and its value."""
        if name in self.locals:
            return False, None
        for names in (self._outer, self._globals):
            if name in names:
                return True, names[name]
        return False, None


def is_allowed_global(value: Any) -> bool:
    """Whether the compiler lets a kernel use a global with this value."""
    module = getattr(value, "__module__", None) or ""
    return (
        isinstance(value, (ModuleType, tl.constexpr, tl.dtype))
        or hasattr(value, "rewrite")
        or type(value).__name__ in ("JITFunction", "ConstexprFunction", "InterpretedFunction")
        or getattr(value, "__triton_builtin__", False)
        or getattr(value, "__triton_aggregate__", False)
        or (isinstance(module, str) and module.startswith(("triton.language", "triton.experimental")))
        or (isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"))
    )


def is_host_function(value: Any) -> bool:
    """Whether the compiler can call this with constants only: `float`, `math`, NumPy, `triton.cdiv`."""
    if any(value is conversion for conversion in (float, int, bool, complex)):
        return True
    module = getattr(value, "__module__", None) or ""
    if isinstance(value, np.ufunc) or type(value).__name__ == "ConstexprFunction":
        return True
    is_helper_of_triton = isinstance(value, FunctionType) and module == "triton"
    return callable(value) and (module in ("math", "numpy") or is_helper_of_triton)


def _non_constexpr_globals_allowed() -> bool:
    try:
        from triton import knobs

        return bool(knobs.compilation.allow_non_constexpr_globals)
    except (ImportError, AttributeError):
        return False


class _Rewriter(ast.NodeTransformer):
    def __init__(self, scope: _Scope, is_library: bool) -> None:
        self.scope = scope
        self.strict = not is_library
        self.known_builtins = compiler_builtins()
        self.free_globals = _non_constexpr_globals_allowed()
        self.constexpr_names: set[str] = set()
        self.loop_depth = 0
        self.counter = 0

    # Statements

    def body(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in statements:
            rewritten = self.visit(statement)
            result.extend(rewritten if isinstance(rewritten, list) else [rewritten])
        return result

    def visit(self, node: ast.AST) -> Any:
        if self.strict and isinstance(node, (*_REJECTED_STATEMENTS, ast.FunctionDef)):
            return self._reject_statement(node, _unsupported(node))
        if self.strict and isinstance(node, _REJECTED_EXPRESSIONS):
            return self._call(node, "reject", [ast.Constant(_unsupported(node))])
        return super().visit(node)

    def _reject_statement(self, node: ast.stmt, message: str) -> ast.stmt:
        return ast.copy_location(ast.Expr(value=self._call(node, "reject", [ast.Constant(message)])), node)

    def visit_Assign(self, node: ast.Assign) -> Any:
        if len(node.targets) > 1 and self.strict:
            return self._reject_statement(node, "simultaneous multiple assignment is not supported")
        target = node.targets[0]
        value = self.visit(node.value)
        if isinstance(target, ast.Name) and target.id in self.constexpr_names:
            return ast.copy_location(ast.Assign(targets=node.targets, value=value), node)
        helper = "assigned" if isinstance(target, ast.Name) else "unpacked"
        targets = [self.visit(target) for target in node.targets]
        return ast.copy_location(ast.Assign(targets=targets, value=self._call(node, helper, [value])), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        is_constexpr = "constexpr" in ast.unparse(node.annotation)
        if node.value is None:
            if is_constexpr and isinstance(node.target, ast.Name):
                self.constexpr_names.add(node.target.id)
            return ast.copy_location(ast.Pass(), node)
        value = self.visit(node.value)
        if not is_constexpr:
            value = self._call(node, "assigned", [value])
        return ast.copy_location(ast.Assign(targets=[node.target], value=value), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        if not isinstance(node.target, ast.Name):
            return self.generic_visit(node)
        load = ast.copy_location(ast.Name(id=node.target.id, ctx=ast.Load()), node.target)
        value = ast.copy_location(ast.BinOp(left=load, op=node.op, right=node.value), node)
        return self.visit(ast.copy_location(ast.Assign(targets=[node.target], value=value), node))

    def visit_Return(self, node: ast.Return) -> Any:
        if self.strict and self.loop_depth:
            return self._reject_statement(
                node, "`return` inside a `for` or `while` loop is not supported by Triton"
            )
        return self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> Any:
        arguments = [self.visit(node.test)]
        if node.msg is not None:
            arguments.append(self.visit(node.msg))
        return ast.copy_location(ast.Expr(value=self._call(node, "device_assert", arguments)), node)

    def visit_If(self, node: ast.If) -> Any:
        test = self.visit(node.test)
        forbidden = self._forbidden_under_dynamic_test([*node.body, *node.orelse])
        names = _assigned([*node.body, *node.orelse]) if self.strict else []
        arguments = [test, ast.Constant(forbidden), ast.Constant(self.strict)]
        body, orelse = self.body(node.body), self.body(node.orelse)
        if not names:
            condition = self._call(node, "truth", arguments)
            return ast.copy_location(ast.If(test=condition, body=body, orelse=orelse), node)
        state = self._state_name()
        both = sorted(set(_assigned(node.body)) & set(_assigned(node.orelse)))
        condition = ast.NamedExpr(
            target=ast.Name(id=state, ctx=ast.Store()),
            value=self._call(node, "branch", [*arguments, _locals(), _strings(names)]),
        )
        branch = ast.If(test=self._attribute(condition, "taken"), body=body, orelse=orelse)
        merge = ast.If(
            test=self._attribute(ast.Name(id=state, ctx=ast.Load()), "is_dynamic"),
            body=[self._survivors(node, "after_branch", state, names, [_strings(both)])],
            orelse=[],
        )
        return [ast.copy_location(branch, node), ast.copy_location(merge, node)]

    def _survivors(
        self, node: Any, helper: str, state: str, names: Sequence[str], more: Sequence[ast.expr] = ()
    ) -> ast.stmt:
        """``a, b = helper(...)``: what the compiler still knows under these names after the construct."""
        targets = ast.Tuple(elts=[ast.Name(id=name, ctx=ast.Store()) for name in names], ctx=ast.Store())
        arguments = [ast.Name(id=state, ctx=ast.Load()), _locals(), _strings(names), *more]
        return ast.Assign(targets=[targets], value=self._call(node, helper, arguments))

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        arguments = [self.visit(node.test), ast.Constant(None), ast.Constant(self.strict)]
        test = self._call(node, "truth", arguments)
        return ast.copy_location(
            ast.IfExp(test=test, body=self.visit(node.body), orelse=self.visit(node.orelse)), node
        )

    def visit_While(self, node: ast.While) -> Any:
        if self.strict and isinstance(node.test, ast.Constant):
            return self._reject_statement(node, "the condition of a `while` loop must be a tensor")
        test = self._call(node, "truth", [self.visit(node.test), ast.Constant(None), ast.Constant(False)])
        return self._loop(node, lambda body: ast.While(test=test, body=body, orelse=[]))

    def visit_For(self, node: ast.For) -> Any:
        call = node.iter
        if not isinstance(call, ast.Call):
            if self.strict:
                message = "only `range` and `static_range` iterators are supported"
                return self._reject_statement(node, message)
            return self.generic_visit(node)
        function = call.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        arguments = [self.visit(argument) for argument in call.args]
        keywords = [self.visit(keyword) for keyword in call.keywords]
        iterator = self._call(node, "loop", [self.visit(function), *arguments], keywords, strict_line=call)
        if name == "static_range":
            body = self.body(node.body)
            return ast.copy_location(ast.For(target=node.target, iter=iterator, body=body, orelse=[]), node)
        return self._loop(node, lambda body: ast.For(target=node.target, iter=iterator, body=body, orelse=[]))

    def _loop(self, node: Any, build: Callable[[list[ast.stmt]], ast.stmt]) -> Any:
        target = {node.target.id} if isinstance(getattr(node, "target", None), ast.Name) else set()
        names = [name for name in _assigned(node.body) if name not in target] if self.strict else []
        self.loop_depth += 1
        body = self.body(node.body)
        self.loop_depth -= 1
        if not names:
            return ast.copy_location(build(body), node)
        state = self._state_name()
        before = ast.Assign(
            targets=[ast.Name(id=state, ctx=ast.Store())],
            value=self._call(node, "before_loop", [_locals(), _strings(names)]),
        )
        # After the first round the types are settled.
        check = ast.If(
            test=self._attribute(ast.Name(id=state, ctx=ast.Load()), "types"),
            body=[
                ast.Expr(
                    value=self._call(
                        node, "after_first_round", [ast.Name(id=state, ctx=ast.Load()), _locals()]
                    )
                )
            ],
            orelse=[],
        )
        body.append(check)
        after = self._survivors(node, "after_loop", state, names)
        return [ast.copy_location(part, node) for part in (before, build(body), after)]

    def _forbidden_under_dynamic_test(self, statements: Sequence[ast.stmt]) -> str | None:
        """What the compiler would reject here although the branch may not be taken in this run."""
        if not self.strict:
            return None
        for node in _walk(statements):
            if isinstance(node, (*_REJECTED_STATEMENTS, *_REJECTED_EXPRESSIONS)):
                return _unsupported(node)
            if self.loop_depth and isinstance(node, ast.Return):
                return "`return` inside a `for` or `while` loop is not supported by Triton"
        return None

    # Expressions

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        has_walrus = any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(node))
        operands = [self.visit(value) for value in node.values]
        is_and = ast.Constant(isinstance(node.op, ast.And))
        if has_walrus:
            return self._call(node, "boolean_of_values", [is_and, *operands])
        return self._call(node, "boolean", [is_and, *(_delayed(operand) for operand in operands)])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return self._call(node, "negation", [operand])
        return ast.copy_location(ast.UnaryOp(op=node.op, operand=operand), node)

    def visit_Call(self, node: ast.Call) -> Any:
        known, function = self._resolved(node.func)
        if not (self.strict and known and is_host_function(function)):
            return self.generic_visit(node)
        arguments = [self.visit(argument) for argument in (node.func, *node.args)]
        keywords = [self.visit(keyword) for keyword in node.keywords]
        return self._call(node, "host_call", [ast.Constant(ast.unparse(node.func)), *arguments], keywords)

    def _resolved(self, node: ast.expr) -> tuple[bool, Any]:
        """Whether a name, or attributes of a module, are known before the kernel runs, and the value."""
        if isinstance(node, ast.Name):
            if self.scope.is_builtin(node.id):
                return True, getattr(builtins, node.id)
            return self.scope.value(node.id)
        if isinstance(node, ast.Attribute):
            known, owner = self._resolved(node.value)
            if known and isinstance(owner, ModuleType):
                return hasattr(owner, node.attr), getattr(owner, node.attr, None)
        return False, None

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        self.generic_visit(node)
        if self.strict:
            for part in node.generators:
                part.iter = self._call(node, "comprehended", [part.iter])
        return node

    def visit_Compare(self, node: ast.Compare) -> Any:
        if self.strict and any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops):
            return self._call(node, "reject", [ast.Constant("`in` is not supported in a kernel")])
        if len(node.ops) == 1:
            return self.generic_visit(node)
        if self.strict and not _compiler_has_chains():
            message = "simultaneous multiple comparison is not supported by this version of Triton"
            return self._call(node, "reject", [ast.Constant(message)])
        operators = ast.Tuple(elts=[ast.Constant(type(op).__name__) for op in node.ops], ctx=ast.Load())
        operands = [self.visit(operand) for operand in (node.left, *node.comparators)]
        return self._call(node, "comparison_chain", [operators, *operands])

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        value = self._call(node, "assigned", [self.visit(node.value)])
        return ast.copy_location(ast.NamedExpr(target=node.target, value=value), node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if node.attr == "value" and isinstance(node.ctx, ast.Load):
            # Constants are plain Python values here, where the compiler has `constexpr` objects.
            return self._call(node, "value_of", [self.visit(node.value)])
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> Any:
        if not isinstance(node.ctx, ast.Load):
            return node
        if self.scope.is_builtin(node.id):
            if node.id in ("min", "max"):
                return ast.copy_location(self._attribute(self._helpers(), f"builtin_{node.id}"), node)
            if self.strict and node.id not in self.known_builtins:
                return self._call(node, "reject", [ast.Constant(f"{node.id} is not defined in Triton")])
            return node
        is_global, value = self.scope.value(node.id)
        if self.strict and is_global and not self.free_globals and not is_allowed_global(value):
            return self._call(node, "reject", [ast.Constant(_global_message(node.id, value))])
        return node

    # Construction

    def _helpers(self) -> ast.expr:
        return ast.Name(id=HELPERS, ctx=ast.Load())

    @staticmethod
    def _attribute(value: ast.expr, name: str) -> ast.expr:
        return ast.Attribute(value=value, attr=name, ctx=ast.Load())

    def _call(
        self,
        node: Any,
        helper: str,
        arguments: Iterable[ast.expr],
        keywords: Sequence[ast.keyword] = (),
        strict_line: Any = None,
    ) -> Any:
        function = self._attribute(self._helpers(), helper)
        call = ast.Call(func=function, args=list(arguments), keywords=list(keywords))
        ast.copy_location(call, strict_line if strict_line is not None else node)
        # CPython names the last line of a method call's function, which is meant to be the first one here.
        call.end_lineno, call.end_col_offset = call.lineno, call.col_offset
        return call

    def _state_name(self) -> str:
        self.counter += 1
        return f"{HELPERS}{self.counter}"


def _delayed(operand: ast.expr) -> ast.expr:
    empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.copy_location(ast.Lambda(args=empty, body=operand), operand)


def _locals() -> ast.expr:
    return ast.Call(func=ast.Name(id="locals", ctx=ast.Load()), args=[], keywords=[])


def _strings(names: Iterable[str]) -> ast.expr:
    return ast.Tuple(elts=[ast.Constant(name) for name in names], ctx=ast.Load())


def _unsupported(node: ast.AST) -> str:
    names = {"FunctionDef": "nested function definitions"}
    name = type(node).__name__
    return f"`{names.get(name, name.lower())}` is not supported inside a kernel (AST node {name})"


def _global_message(name: str, value: Any) -> str:
    if isinstance(value, FunctionType):
        return f"cannot call the plain Python function {name} from a kernel; decorate it with @triton.jit"
    return (
        f"cannot access the global variable {name} from a kernel: only globals created as "
        f"`{name} = tl.constexpr(...)` can be used (an annotation is not enough)"
    )


def _walk(statements: Sequence[ast.stmt]) -> Iterable[ast.AST]:
    pending: list[ast.AST] = list(statements)
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, _SCOPES):
            pending.extend(ast.iter_child_nodes(node))


def _assigned(statements: Sequence[ast.stmt]) -> list[str]:
    """Names that plain statements bind, in order of appearance; constants by annotation are left out."""
    names: dict[str, None] = {}
    constants = {
        node.target.id
        for node in _walk(statements)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    for node in _walk(statements):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in constants:
            names[node.id] = None
    return sorted(names)
