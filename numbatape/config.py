"""`Config`: the choices that a prepared cache is made with."""

from __future__ import annotations

from dataclasses import dataclass

SECOND_ORDER_MODES = ("reverse_over_forward", "forward_over_reverse")


@dataclass(frozen=True, kw_only=True)
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
        computes them. "fast": within 1.5 ulp of exact.
    max_variants : int
        Traces a cache keeps (branches and sizes); the oldest go first.
    max_bytes : int, optional
        Bytes of workspaces a cache keeps for sizes not in use.
    passes : str
        "all" or "none": whether sums of products become dots and repeated instructions of derivatives
        are merged.

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
    passes: str = "all"

    def __post_init__(self):
        def require(name, good, wanted):
            if not good:
                raise ValueError(f"Config({name}={getattr(self, name)!r}): {name} must be {wanted}")

        for name in ("chunk_size", "max_variants", "max_bytes"):
            value = getattr(self, name)
            optional = name != "max_variants"
            good = (value is None and optional) or (type(value) is int and value >= 1)
            require(name, good, "a positive integer" + (" or None" if optional else ""))
        require(
            "second_order_mode",
            self.second_order_mode in SECOND_ORDER_MODES,
            "one of " + ", ".join(map(repr, SECOND_ORDER_MODES)),
        )
        require("values", self.values in ("fast", "numpy"), "'fast' or 'numpy'")
        require("passes", self.passes in ("all", "none"), "'all' or 'none'")
