"""The product of matrices of which zeros stay zeros, for passes over derivatives."""

import numpy as np

from .elementwise import strong_mul
from .products import PRODUCTS, Matmul, multiply
from .status import DONE
from .table import array_op


def add_up_strongly(v, o, a, b, m, k, n, so0, so1, sa0, sa1, sb0, sb1):
    for i in range(m):
        for j in range(n):
            total = 0.0
            for q in range(k):
                x = v[a + i * sa0 + q * sa1]
                y = v[b + q * sb0 + j * sb1]
                if x != 0.0 and y != 0.0:
                    total += x * y
            v[o + i * so0 + j * so1] = total


def has_nan(v, o, m, n, so0, so1):
    for i in range(m):
        for j in range(n):
            z = v[o + i * so0 + j * so1]
            if z != z:
                return True
    return False


@array_op("strong_matmul", "(m,k),(k,n)->(m,n)", bilinear=True, cases=PRODUCTS, product=True, one_module=True)
class StrongMatmul:
    """``Z = A B``, where a zero factor makes a product zero, even beside an infinite one.

    Zero times infinity is NaN, so the usual product is right wherever it has no NaN.
    """

    depends, interacts, reverse, pullback = Matmul.depends, Matmul.interacts, Matmul.reverse, Matmul.pullback

    def oracle(x, y):
        return np.sum(strong_mul(x[:, :, None], y[None]), axis=1)

    def forward(v, o, a, b, m, k, n, so0, so1, sa0, sa1, sb0, sb1):
        multiply(v, o, so0, so1, v, a, sa0, sa1, v, b, sb0, sb1, m, n, k, 1.0, 0.0)
        if has_nan(v, o, m, n, so0, so1):
            add_up_strongly(v, o, a, b, m, k, n, so0, so1, sa0, sa1, sb0, sb1)
        return DONE
