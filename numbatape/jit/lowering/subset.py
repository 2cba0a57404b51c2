"""The kernel language is what the lowering knows. Anything else is refused, with its name and line."""

from __future__ import annotations

import ast


class OutsideOfKernelLanguage(ValueError):
    """A kernel's text contains a construct that the lowering does not know; names it and its line."""


def refused(node: ast.AST, why: str) -> OutsideOfKernelLanguage:
    """Return the error for a node, to be raised."""
    line = getattr(node, "lineno", 0)
    text = ast.unparse(node).split("\n")[0]
    return OutsideOfKernelLanguage(f"line {line} of a kernel, `{text}`: {why}")


def parse(source: str) -> tuple[dict[str, ast.FunctionDef], dict[str, int | float]]:
    """Return the functions and the constants of a module.

    Raises
    ------
    OutsideOfKernelLanguage
        At a statement that is neither a function nor a constant, or a function with other than plain
        parameters.
    """
    functions: dict[str, ast.FunctionDef] = {}
    constants: dict[str, int | float] = {}
    tree = ast.parse(source)
    if "horner(" in source:
        tree = _Polynomials().visit(tree)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            plain = ast.arguments(
                posonlyargs=[], args=node.args.args, kwonlyargs=[], kw_defaults=[], defaults=[]
            )
            if ast.dump(plain) != ast.dump(node.args) or node.decorator_list:
                raise refused(node, "a function of a kernel has plain parameters, and no decorators")
            functions[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            constants[node.targets[0].id] = _constant(node.value, constants)
        elif not _is_text(node):
            raise refused(node, "a module of kernels has functions and constants")
    return functions, constants


class _Polynomials(ast.NodeTransformer):
    """Writes each call of `horner` out, as the nested expression that it stands for."""

    def visit_Call(self, node):
        self.generic_visit(node)
        if not isinstance(node.func, ast.Name) or node.func.id != "horner":
            return node
        if len(node.args) < 2 or not isinstance(node.args[0], ast.Name):
            raise refused(node, "a polynomial is in a variable, and has coefficients")
        x, *coefficients, value = node.args
        for coefficient in reversed(coefficients):
            product = ast.copy_location(ast.BinOp(x, ast.Mult(), value), node)
            value = ast.copy_location(ast.BinOp(coefficient, ast.Add(), product), node)
        return value


def parameter_types(node: ast.FunctionDef) -> tuple[str, ...] | None:
    """Return the types of the parameters of a function whose result is annotated; None for others."""
    result = result_type(node)
    if result is None:
        return None
    return tuple(_annotation(argument.annotation) or result for argument in node.args.args)


def result_type(node: ast.FunctionDef) -> str | None:
    return _annotation(node.returns)


def _annotation(node: ast.expr | None) -> str | None:
    if node is None:
        return None
    if not (isinstance(node, ast.Name) and node.id in ("int", "float")):
        raise refused(node, "an annotation of a kernel is int or float")
    return node.id


def declared(node: ast.FunctionDef) -> str | None:
    """Return the digest of the module that defines a function which this one only declares; else None."""
    body = node.body[0]
    if node.returns is not None and len(node.body) == 1 and _is_text(body):
        return body.value.value
    return None


def is_defined(node: ast.FunctionDef) -> bool:
    return node.returns is not None and declared(node) is None


def names_in(node: ast.AST) -> frozenset[str]:
    """Return the names in a part of a text; they are noted there, because loops over lanes ask often."""
    found = getattr(node, "names_in", None)
    if found is None:
        if isinstance(node, ast.Name):
            found = frozenset((node.id,))
        else:
            found = frozenset().union(*map(names_in, ast.iter_child_nodes(node)))
        node.names_in = found
    return found


def _constant(node: ast.expr, known: dict):
    """Return the value of a constant: a number, ``float("inf")``, or arithmetic of those and earlier ones."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    scope = {"__builtins__": {}, "float": float, **known}
    try:
        value = eval(compile(ast.Expression(node), "<constant>", "eval"), scope)
    except NameError as error:
        raise refused(node, f"a constant of a kernel is a number ({error})") from None
    if not isinstance(value, (int, float)):
        raise refused(node, "a constant of a kernel is a number")
    return value


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
