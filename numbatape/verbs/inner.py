"""The verbs inside of a function that is being traced: derivatives recorded on its own tape.

Arguments may be traced or plain; the function may use traced values from outside.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DtypeError, OutputError, SpecError, StructureError
from ..nested.jacobians import jacobian_blocks
from ..nested.transforms import Linearised, fixed_shape, hessian_product, is_float, or_zeros, second_push
from ..programs.roles import bare, is_mark
from ..stand_ins import rebinding
from ..trace import pytrees
from ..trace.array import TracedArray, is_deferred
from ..trace.complex_array import TracedComplex
from ..trace.complex_pairs import Pair, flatten_like, opened
from ..trace.plain_arrays import as_ndarrays
from ..trace.primitives import sample_of
from ..trace.trace import Trace, current, failing


class Call:
    """A call whose chosen arguments are differentiated.

    Attributes
    ----------
    leaves
        The float leaves of the chosen arguments.
    aux
        With ``has_aux``, a tuple of what the function returned last beside its value.
    """

    def __init__(self, function, args, kwargs, chosen, has_aux: bool = False):
        trace = current()
        assert trace is not None
        self.trace: Trace = trace
        self.function = rebinding.rebind(function)
        self.has_aux, self.aux = has_aux, ()
        args = as_ndarrays(list(args))
        self.args, self.kwargs, self.chosen = args, kwargs, chosen
        self.whole = [opened(args[k]) for k in chosen]  # complex leaves as pairs
        self.trees = [pytrees.flatten(tree) for tree in self.whole]
        self.leaves = [leaf for parts, _ in self.trees for leaf in parts if is_float(leaf)]
        for k, (parts, _) in zip(chosen, self.trees, strict=True):
            if not any(map(is_float, parts)):
                kinds = ", ".join(str(np.asarray(sample_of(p)).dtype) for p in parts) or "nothing"
                raise DtypeError(f"argument {k} is {kinds}: only float64 and float32 can be differentiated")

    def run(self, marks):
        """Call the function with other values in the place of the leaves."""
        args, values = list(self.args), iter(marks)
        for k, (parts, structure) in zip(self.chosen, self.trees, strict=True):
            filled = [next(values) if is_float(part) else part for part in parts]
            args[k] = pytrees.unflatten(structure, filled)
        result = self.function(*args, **self.kwargs)
        if not self.has_aux:
            return result
        result, *aux = pytrees.value_and_aux(result)
        self.aux = [self.apart(part) for part in aux]
        return result

    def apart(self, tree):
        """Return a result in memory of its own, if the function that is traced writes to arrays."""
        return pytrees.copied(tree) if self.trace.memory.writes else tree

    @property
    def complex_arguments(self) -> list[bool]:
        """Whether each chosen argument has a complex leaf."""
        whole = [_with_pairs(tree) for tree in self.whole]
        return [any(map(_is_pair, leaves)) for leaves in whole]

    def imaginary(self) -> list[bool]:
        """Whether each leaf is the imaginary part of something complex."""
        marks: list[bool] = []
        for tree in self.whole:
            for leaf in _with_pairs(tree):
                marks += [False, True] if _is_pair(leaf) else [False] * is_float(leaf)
        return marks

    def check(self, result, holomorphic: bool) -> None:
        """Raise where a result has no derivative, or ``holomorphic=True`` was given but it is real."""
        is_complex = any(map(_is_pair, _with_pairs(result)))
        if holomorphic and not (is_complex and all(self.complex_arguments)):
            raise OutputError("holomorphic=True needs complex arguments and a complex result")
        if is_complex and any(self.complex_arguments) and not holomorphic:
            raise OutputError(
                "complex results of complex arguments: pass holomorphic=True, or take nt.jvp or nt.vjp"
            )

    def require_real(self, what: str) -> None:
        if any(self.complex_arguments):
            raise DtypeError(f"{what} is of real arguments; write the function of real and imaginary parts")

    def linearised(self) -> Linearised:
        return Linearised(self.trace, self.run, self.leaves)

    def trees_of(self, parts) -> tuple:
        """Return one tree per chosen argument, None for leaves that are not differentiated."""
        parts = iter(parts)
        return tuple(
            pytrees.unflatten(structure, [next(parts) if is_float(leaf) else None for leaf in found])
            for found, structure in self.trees
        )

    def leaves_of(self, trees, what: str) -> list:
        """Return the float leaves of trees like the chosen arguments."""
        result = []
        for (found, _), whole, tree in zip(self.trees, self.whole, trees, strict=True):
            try:
                given = flatten_like(whole, tree)
            except ValueError:
                raise StructureError(f"{what} has another structure than its argument") from None
            for leaf, part in zip(found, map(as_ndarrays, given), strict=True):
                if is_float(leaf):
                    if np.shape(sample_of(part)) != np.shape(sample_of(leaf)):
                        raise SpecError(
                            f"{what} needs shape {np.shape(sample_of(leaf))}, got {np.shape(sample_of(part))}"
                        )
                    result.append(part)
        return result


def _own(part):
    """Return a derivative that the caller may write to."""
    # What nobody has computed has no memory yet that another array could share.
    own = type(part) is not TracedArray or is_deferred(part) or not np.ndim(part._value)
    return part if own else part.copy()


def _is_pair(leaf) -> bool:
    return type(leaf) is TracedComplex or leaf.__class__ is Pair


def _with_pairs(tree) -> list:
    return pytrees.flatten(opened(tree), _is_pair)[0]


def _zeros(parts, likes) -> list:
    return [_own(or_zeros(part, like)) for part, like in zip(parts, likes, strict=True)]


def _like_result(run: Linearised, parts):
    """Return the result's tree with derivatives in the place of its leaves."""
    found = iter(parts)
    outputs = {id(y) for y in run.outputs}
    filled = [
        _own(or_zeros(next(found), leaf)) if id(leaf) in outputs else or_zeros(None, leaf)
        for leaf in run.parts
    ]
    return pytrees.unflatten(run.structure, filled)


def value_and_grad(function, args, kwargs, chosen, has_aux: bool, holomorphic: bool = False):
    """Return (value, one gradient per chosen argument)."""
    call = Call(function, args, kwargs, chosen, has_aux)
    run = call.linearised()
    result: Any = run.result
    whole = (result, *call.aux) if has_aux else result
    if holomorphic:
        call.check(result, holomorphic)
        grads = _zeros(run.gradient(run.scalar(result.real)), call.leaves)
        flipped = [-g if is_im else g for g, is_im in zip(grads, call.imaginary(), strict=True)]
        return whole, call.trees_of(flipped)
    output = run.scalar(result)
    return whole, call.trees_of(_zeros(run.gradient(output), call.leaves))


def vjp(function, primals, has_aux: bool = False):
    """Return (value, pullback), and aux behind them; the pullback belongs to the same trace."""
    chosen = [k for k, x in enumerate(primals) if not is_mark(x) and has_floats(x)]
    call = Call(function, map(bare, primals), {}, chosen, has_aux)
    run = call.linearised().require_numbers()

    def pullback(ybar):
        given = flatten_like(run.result, ybar)
        outputs = {id(y) for y in run.outputs}
        seeds = [ct for leaf, ct in zip(run.parts, given, strict=True) if id(leaf) in outputs]
        with failing(call.trace):
            parts = run.pull(seeds)
        trees = iter(call.trees_of(_zeros(parts, call.leaves)))
        return tuple(next(trees) if k in call.chosen else None for k in range(len(primals)))

    return call.apart(run.result), pullback, *call.aux


def has_floats(tree) -> bool:
    return any(map(is_float, pytrees.leaves(opened(tree))))


def jvp(function, primals, tangents, has_aux: bool = False):
    """Return (value, tangent of the result), and aux behind them."""
    chosen = [k for k, x in enumerate(primals) if not is_mark(x) and has_floats(x)]
    call = Call(function, map(bare, primals), {}, chosen, has_aux)
    directions = call.leaves_of([tangents[k] for k in chosen], "a tangent")
    run = call.linearised().require_numbers()
    return call.apart(run.result), _like_result(run, run.push(directions)), *call.aux


def derivative(function, x, constants, kwargs, holomorphic: bool = False, has_aux: bool = False):
    """Return the derivative of a function of one scalar, or ``(derivative, aux)``."""
    call = Call(function, (x, *constants), kwargs, (0,), has_aux)
    if not holomorphic:
        call.require_real("the derivative (but holomorphic=True)")
    run = call.linearised().require_numbers()
    call.check(run.result, holomorphic)
    slope = _like_result(run, run.push([None if is_im else 1.0 for is_im in call.imaginary()]))
    return (slope, *call.aux) if has_aux else slope


def hvp(function, args, kwargs, chosen, direction, has_aux: bool = False) -> tuple:
    """Return (one product per chosen argument of the Hessian with a direction), and aux behind them."""
    call = Call(function, args, kwargs, chosen, has_aux)
    directions = call.leaves_of(direction, "the direction")
    mode = "reverse_over_forward"
    _, _, products = hessian_product(call.trace, call.run, call.leaves, directions, mode)
    return call.trees_of(_zeros(products, call.leaves)), *call.aux


def jacobian(
    function, args, kwargs, chosen, single: bool, mode: str, holomorphic: bool = False, has_aux: bool = False
) -> tuple:
    """Return (value, Jacobian), and aux behind them; see `jacobian_of`."""
    call = Call(function, args, kwargs, chosen, has_aux)
    run = call.linearised().require_numbers()
    call.check(run.result, holomorphic)
    return call.apart(run.result), jacobian_of(call, run, single, mode, holomorphic), *call.aux


def jacobian_of(call: Call, run: Linearised, single: bool, mode: str, holomorphic: bool = False):
    """Return the result's tree of tuples of Jacobians, one tree per chosen argument; no tuples if single."""
    inputs, outputs = call.leaves, run.outputs
    skipped = [holomorphic and is_im for is_im in call.imaginary()]
    size = lambda x: int(np.size(sample_of(x)))  # noqa: E731
    forward = mode == "forward" or (mode == "auto" and sum(map(size, inputs)) <= sum(map(size, outputs)))
    return arranged(call, run, jacobian_blocks(run, forward, skipped), single)


def arranged(call: Call, run: Linearised, blocks: dict, single: bool):
    """Return the result's tree with one tree per chosen argument in the place of each leaf.

    Parameters
    ----------
    blocks
        The array for each output and each leaf, by their numbers.
    """
    inputs, outputs = call.leaves, run.outputs

    def trees(leaf):
        number = next((j for j, y in enumerate(outputs) if y is leaf), None)
        if number is None:
            return call.trees_of([np.zeros(fixed_shape(leaf) + fixed_shape(x)) for x in inputs])
        return call.trees_of([blocks.get((number, i)) for i in range(len(inputs))])

    rows = [trees(leaf) for leaf in run.parts]
    return pytrees.unflatten(run.structure, [row[0] for row in rows] if single else rows)


def hessian(function, args, kwargs, chosen, single: bool, has_aux: bool = False) -> tuple:
    """Return the Jacobian of the gradient, and aux behind it."""
    Call(function, args, kwargs, chosen).require_real("a Hessian")

    def gradient(*parts, **options):
        value, grads = value_and_grad(function, parts, options, chosen, has_aux)
        gradient = grads[0] if single else grads
        return (gradient, value[1]) if has_aux else gradient

    _, *found = jacobian(gradient, args, kwargs, chosen, single, "forward", has_aux=has_aux)
    return tuple(found)


def hessian_diagonal(function, args, kwargs, chosen, single: bool, _mode, _holomorphic, has_aux: bool):
    """Return (value, second derivatives by each entry of the chosen arguments), and aux behind them.

    The function is run once for each entry, as all of its directions would share no instruction.
    """
    call = Call(function, args, kwargs, chosen, has_aux)
    call.require_real("a Hessian")
    run = call.linearised().require_numbers()
    columns: list[list] = []
    for k, leaf in enumerate(call.leaves):
        columns.append([])
        for place in np.ndindex(fixed_shape(leaf)):
            unit = np.zeros_like(sample_of(leaf), float)
            unit[place] = 1.0
            directions = [unit if i == k else None for i in range(len(call.leaves))]
            run, seconds = second_push(call.trace, call.run, call.leaves, directions)
            columns[-1].append([or_zeros(part, y) for part, y in zip(seconds, run.outputs, strict=True)])

    def block(j: int, i: int):
        shape = fixed_shape(run.outputs[j]) + fixed_shape(call.leaves[i])
        its = [column[j] for column in columns[i]]
        return np.reshape(np.stack(its, -1), shape) if its else np.zeros(shape)

    places = [(j, i) for j in range(len(run.outputs)) for i in range(len(call.leaves))]
    made = arranged(call, run, {place: block(*place) for place in places}, single)
    return call.apart(run.result), made, *call.aux
