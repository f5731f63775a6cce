#!/usr/bin/env python3
"""The coefficients of functions.h, fine.h and coarse.h: minimax fits, found by Lawson's iteration.

Needs numpy and mpmath. Prints each fit with the base-2 logarithm of its largest error, relative to
what the comment beside it says.
"""
import mpmath as mp
import numpy as np

mp.mp.dps = 40


def chebyshev_nodes(low, high, count=400):
    k = np.arange(count)
    return (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (k + 0.5) / count)


def lawson(matrix, wanted, weight, rounds):
    """Coefficients with the smallest largest weighted error; weight(c) may depend on them."""
    importance = np.full(len(wanted), 1 / len(wanted))
    coefficients, best = np.zeros(matrix.shape[1]), (np.inf, None)
    for _ in range(rounds):
        w = np.sqrt(importance) * weight(coefficients)
        coefficients = np.linalg.lstsq(matrix * w[:, None], wanted * w, rcond=None)[0]
        error = np.abs(matrix @ coefficients - wanted) * weight(coefficients)
        if error.max() < best[0]:
            best = (error.max(), coefficients)
        importance = importance * (error + 1e-3 * error.max())
        importance /= importance.sum()
    return best


def show(name, error, *polynomials):
    print(f"{name}: 2^{np.log2(error):.1f}")
    for p in polynomials:
        print("   ", ", ".join(repr(float(c)) for c in p))


def polynomial(name, f, low, high, degree, weight):
    x = chebyshev_nodes(low, high)
    y = np.array([float(f(mp.mpf(float(t)))) for t in x])
    matrix = np.polynomial.chebyshev.chebvander((2 * x - low - high) / (high - low), degree)
    w = np.array([float(weight(mp.mpf(float(t)))) for t in x])
    error, c = lawson(matrix, y, lambda _: w, 60)
    fit = np.polynomial.chebyshev.Chebyshev(c, domain=[low, high])
    show(name, error, fit.convert(kind=np.polynomial.Polynomial).coef)


def quotient(name, f, high, top, bottom):
    """P / Q with Q(0) = 1 on [0, high], error relative to f: linear in P and Q but for the weight."""
    x = chebyshev_nodes(0, high, 300)
    y = np.array([float(f(mp.mpf(float(t)))) for t in x])
    powers = lambda degree: (x[:, None] / high) ** np.arange(degree + 1)
    matrix = np.hstack([powers(top), -y[:, None] * powers(bottom)[:, 1:]])
    q = lambda c: 1 + powers(bottom)[:, 1:] @ c[top + 1 :]
    error, c = lawson(matrix, y, lambda c: 1 / np.abs(y * q(c)), 300)
    p = c[: top + 1] / high ** np.arange(top + 1)
    show(name, error, p, np.r_[1, c[top + 1 :]] / high ** np.arange(bottom + 1))


half_ln2 = float(mp.log(2) / 2) * 1.01
for name, degree in (("exp, float", 5), ("exp, vector of doubles", 6)):
    # relative to e^r
    polynomial(name, lambda r: (mp.expm1(r) - r) / r**2, -half_ln2, half_ln2, degree,
               lambda r: r * r)

atanh = lambda s: mp.log((1 + s) / (1 - s))
largest = 0.1716**2
for name, degree in (("log, float", 2), ("log, vector of doubles", 4)):
    # relative to log
    polynomial(name, lambda z: (atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z, 1e-9, largest, degree,
               lambda z: z / 2)

# log(1 + e) = 2 atanh(s) for e in [0, 1], s = e / (2 + e); relative to itself
polynomial("log1p inside [0, 1], vector of doubles", lambda z: atanh(mp.sqrt(z)) / mp.sqrt(z), 1e-12,
           1 / 9, 5, lambda z: 0.5)

# relative to tanh
polynomial("tanh inside 0.625", lambda s: (mp.tanh(mp.sqrt(s)) / mp.sqrt(s) - 1) / s, 1e-8,
           0.625**2, 4, lambda s: s)
# relative to x
polynomial("erf inside 1", lambda s: mp.erf(mp.sqrt(s)) / mp.sqrt(s) - 1, 1e-12, 1, 6, lambda s: 1)
# relative to erf
polynomial("log(1 - erf) outside 1", lambda t: mp.log(mp.erfc(t)), 1, 3.95, 6,
           lambda t: mp.erfc(t) / mp.erf(t))
# relative to itself
quotient("e^(a^2/2) P(N > a)", lambda a: mp.exp(a * a / 2) * mp.erfc(a / mp.sqrt(2)) / 2, 14.85, 5, 6)

# fine.h, coarse.h: float32 on a GPU, and 16-bit types

tail = lambda a: mp.erfc(a / mp.sqrt(2)) / 2
t_of = lambda w: 3 * (1 + w) / (1 - w)
scaled_tail = lambda t: mp.exp(t * t / 2) * tail(t) * (t + 3)
# relative to itself
polynomial("e^(t^2/2) P(N > t) (t + 3) in w = (t - 3) / (t + 3)", lambda w: scaled_tail(t_of(w)), -1,
           11.8 / 17.8, 10, lambda w: 1 / scaled_tail(t_of(w)))
# relative to log1p
polynomial("(log1p(e) - e) / e^2, float32", lambda e: (mp.log1p(e) - e) / e**2, 1e-9, 1, 8,
           lambda e: e**2 / mp.log1p(e))
for name, degree in (("float16", 4), ("bfloat16", 3)):
    polynomial(f"log1p(e) / e, {name}", lambda e: mp.log1p(e) / e, 1e-9, 1, degree,
               lambda e: e / mp.log1p(e))
# relative to x - tanh x; s = x^2
rest = lambda s: (mp.sqrt(s) - mp.tanh(mp.sqrt(s))) / mp.sqrt(s) ** 3
for name, high, degree in (("float32", 1, 7), ("float16", 0.3, 1), ("bfloat16", 1, 2)):
    polynomial(f"(x - tanh x) / x^3 inside {high}, {name}", rest, 1e-8, high * high, degree,
               lambda s: 1 / rest(s))
# in ulp of a P(N > a), whose type has so many digits and such a least number
for name, high, degree, digits, least in (("float16", 8, 5, 11, -24), ("bfloat16", 14.5, 6, 8, -133),
                                          ("bfloat16, exact", 14.5, 7, 8, -133)):
    polynomial(f"log2 P(N > a), {name}", lambda a: mp.log(tail(a), 2), 0, high, degree,
               lambda a: mp.log(2) / max(mp.mpf(2)**-digits,
                                         mp.mpf(2)**least / (a * tail(a) + mp.mpf(10)**-300)))
