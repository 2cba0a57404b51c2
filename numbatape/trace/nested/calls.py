"""The reverse rule of a call of a rule that the user has written: the user's own, recorded."""

from __future__ import annotations

import numpy as np

from ...tape.tape import FAMILY_DTYPE
from ..primitives import FLOAT32, value_of
from ..rules.emit import flattened
from .pullbacks import pulls


@pulls("call")
def call(ct, z, operands, need):
    trace = z._trace
    number = int(value_of(operands[2]))
    site = trace.tape.calls[number]
    if need[1]:
        raise site.rule.no_further_derivative()
    args, results = trace.sites[number]
    parts = site.rule.nested(site, [_part(ct, port) for port in site.results], results, args)
    if all(part is None for part in parts):
        return None, None, None
    dtype = FAMILY_DTYPE[site.family]
    filled = [
        np.zeros(port.shape, dtype) if part is None else part
        for part, port in zip(parts, site.first, strict=False)
    ]
    return flattened(trace, filled, dtype), None, None


def _part(ct, port):
    """Return the cotangent of one of the results."""
    part = ct[port.start] if port.shape == () else ct[port.start : port.stop].reshape(port.shape)
    narrow = port.dtype == FLOAT32 and value_of(part).dtype != FLOAT32
    return np.astype(part, np.float32) if narrow else part
