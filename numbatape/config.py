"""`Config`: the choices that a prepared cache is made with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from .errors import ConfigError
from .savings import frozen

# The passes over what was recorded, by name (`numbatape.tape.passes`).
PASSES = (
    *("reroll", "buffers", "sources", "stack", "gathers", "broadcasts", "sums", "distribute"),
    *("linear", "histories", "carries", "literals", "merge", "reciprocals", "places", "stencils", "columns"),
    *("fuse", "guards"),
)
STRIPS = "strips"  # a choice among them that is made when sweeps are planned (`numbatape.programs.one_way`)


@frozen(kw_only=True)
class Config:
    """Choices for a prepared cache.

    Parameters
    ----------
    debug_mode : bool
        Run the tape in a plain Python interpreter that checks shape, dtype, alignment and NaN of
        every instruction and names the source line. Two to three orders of magnitude slower.
    silence_debug_messages : bool
        Do not warn that ``debug_mode`` is on.
    friendly_tangents : bool
        True: a gradient is the same kind of thing as its argument. False: one flat vector, whose
        layout object (``cache.layout``) maps both ways; one matrix for a Jacobian or a Hessian.
    chunk_size : int, optional
        Columns or rows that a sweep of a Jacobian or a Hessian computes; None lets numbatape choose.
    empty_cache : bool
        Free all tapes and workspaces of the one-shot verbs before preparing.
    second_order_mode : {"reverse_over_forward", "forward_over_reverse"}
        How Hessian-vector products are nested.
    fixed_sizes : bool
        Raise on sizes other than the prepared ones (or those of the last ``resize``).
    reuse_buffers : bool
        Return derivatives in the cache's own arrays, which the next call overwrites.
    strong_zero : bool
        A zero tangent, cotangent or partial adds nothing, whatever the other factor (0 * inf = 0): in forward
        mode, second order and products of matrices. Zero cotangents never do in elementwise rules.
    values : {"fast", "numpy"}
        "numpy": elementwise results have the bits of NumPy's (SciPy's) own function, whose inner loop
        computes them; functions of ``math`` and powers of scalars have Python's. "fast": within 1.5 ulp
        of exact.
    max_variants : int
        Traces a cache keeps (branches and sizes); the oldest go first.
    max_bytes : int, optional
        Bytes of workspaces that a cache keeps for sizes and paths not in use (256 MB if left out); those
        that were not used for longest go first.
    passes : {"all", "none"} or tuple of str
        The rewrites of what was recorded that are done: all, none, or those named, of "reroll" (the turns of
        loops in Python become vectors), "buffers" (buffers of cotangents start with the first one), "sources"
        (copies of copies are made from the originals), "stack"
        (instructions on small arrays that the turns of loops repeat become one on all of them),
        "gathers" (elementwise operations are done before ``x[positions]`` of captured positions that repeat),
        "broadcasts" (derivatives stay narrow), "sums" (sums are taken before factors),
        "distribute" (sums of what few numbers are broadcast over are sums of coefficients), "linear"
        (coefficients are multiplied first), "histories" (loops keep no carries that nobody reads), "carries"
        (nor compute them), "literals" (products with two literals become products with one), "merge" (what
        repeats is computed once), "reciprocals" (in batches of points, a number that others are divided by
        several times is inverted once), "places" (results are written where they would be copied to),
        "stencils" (linear expressions of shifted slices become one instruction), "columns" (``x[:, 0]`` is
        copied before functions of it), "fuse" (sums of products do), "guards" (tests of few numbers come
        before work on arrays) and "strips" (value and gradient of long vectors are computed together, some
        hundred entries at a time). Results stay what they are, to rounding.
    threads : int
        Threads over which `batch` and `vmap` spread blocks of points. Results have the same bits for any
        number of them. All other computations use one thread.

    Raises
    ------
    ConfigError
        If a field gets a value of another type, or none of its choices.

    Examples
    --------
    >>> import numbatape as nt
    >>> nt.Config(reuse_buffers=True).fixed_sizes
    False
    """

    debug_mode: bool = False
    silence_debug_messages: bool = False
    friendly_tangents: bool = True
    chunk_size: int | None = None
    empty_cache: bool = False
    second_order_mode: str = "reverse_over_forward"
    fixed_sizes: bool = False
    reuse_buffers: bool = False
    strong_zero: bool = False
    values: str = "fast"
    max_variants: int = 64
    max_bytes: int | None = None
    passes: str | tuple[str, ...] = "all"
    threads: int = 1

    def __new__(cls, *_, **options):
        """Name a field that there is not, with those that there are."""
        for name in options:
            if name not in cls.__dataclass_fields__:
                names = ", ".join(cls.__dataclass_fields__)
                raise ConfigError(f"Config({name}=...): there is no field {name!r}; the fields are {names}")
        return super().__new__(cls)

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            good, wanted = CHOICES.get(field.name, (_is_bool, "True or False"))
            if not good(value):
                raise ConfigError(f"Config({field.name}={value!r}): {field.name} must be {wanted}")


def chosen(config: Config | None, usual: Config) -> Config:
    """Return the given configuration, or the usual one; raise if it is something else."""
    if config is None:
        return usual
    if not isinstance(config, Config):
        raise TypeError(f"config must be nt.Config(...), got {type(config).__name__}")
    return config


def chosen_passes(config: Config) -> tuple[str, ...]:
    """Return the names of the passes that run."""
    if isinstance(config.passes, str):
        return (*PASSES, STRIPS) if config.passes == "all" else ()
    return config.passes


def _is_bool(value) -> bool:
    return type(value) is bool


def _is_count(value) -> bool:
    return type(value) is int and value >= 1


def _is_count_or_none(value) -> bool:
    return value is None or _is_count(value)


def _are_passes(value) -> bool:
    if isinstance(value, str):
        return value in ("all", "none")
    return type(value) is tuple and all(name in (*PASSES, STRIPS) for name in value)


def _one_of(one: str, other: str) -> tuple[Callable, str]:
    return (lambda value: isinstance(value, str) and value in (one, other)), f"{one!r} or {other!r}"


# What a field takes, and how errors say it; all others take True and False.
CHOICES: dict[str, tuple[Callable, str]] = {
    "chunk_size": (_is_count_or_none, "a positive integer or None"),
    "max_bytes": (_is_count_or_none, "a positive integer or None"),
    "max_variants": (_is_count, "a positive integer"),
    "threads": (_is_count, "a positive integer"),
    "second_order_mode": _one_of("reverse_over_forward", "forward_over_reverse"),
    "values": _one_of("fast", "numpy"),
    "passes": (_are_passes, f"'all', 'none' or a tuple of names out of {', '.join((*PASSES, STRIPS))}"),
}
