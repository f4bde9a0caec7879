#!/usr/bin/env python3
"""Forms in which kernels are published, each with equivalent variants and with variants that contain common mistakes.

No wrong variant may be proved. A right one must be proved, unless docs/proofs.md names the identity that the prover does not know: OPEN.

usage: proved_forms.py [--verbose] [NAME ..]; prints "N passed, N failed".
"""
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from suite import PKC, check, finish
from sampling import sampled

PROVED, REFUTED, UNDECIDED, ORDERS = 0, 3, 4, 5
RIGHT, WRONG, OPEN = (PROVED,), (REFUTED,), (UNDECIDED, ORDERS)  # by exit status
UNSEEN = (REFUTED, UNDECIDED, ORDERS)  # wrong, but the tried floats need not show it

# name: (signature, words, the reference's body, [(verdicts, a kernel's body)])
FORMS = {}


def form(name, signature, reference, *variants, words=""):
    FORMS[name] = (signature, words, reference, variants)


# ---- rows

form(
    "softmax", "(x: f32[3, 7]) -> (o: f32[3, 7])", "let e = exp(x - reduce_max(x, axis = 1)); o = e / reduce_sum(e, axis = 1);",
    (RIGHT, "let e = exp(x[...]); o[...] = e / reduce_sum(e, axis = 1);"),
    (RIGHT, "let m = reduce_max(x[...], axis = 1); o[...] = exp(x[...] - (m + log(reduce_sum(exp(x[...] - m), axis = 1))));"),
    (RIGHT, "let e = exp(x[...] - x[:, 3:4]); o[...] = e * (1.0 / reduce_sum(e, axis = 1));"),
    (RIGHT, "let y = x[...] * 1.4426950408889634; let e = exp2(y - reduce_max(y, axis = 1)); o[...] = e / reduce_sum(e, axis = 1);"),
    (RIGHT, "let e = exp(x[...] - reduce_max(x[:, 0:5], axis = 1)); o[...] = e / (reduce_sum(e[:, 0:4], axis = 1) + reduce_sum(e[:, 4:7], axis = 1));"),
    (RIGHT, "var m: f32[3, 1] = -inf; var l: f32[3, 1] = 0; for j in 0..7 { let s = x[:, ds(j, 1)]; let n = max(m[...], s); l[...] = l[...] * exp(m[...] - n) + exp(s - n); m[...] = n; }"
            " o[...] = exp(x[...] - m[...]) / l[...];"),
    (RIGHT, "var m: f32[3, 1] = -1e30; var l: f32[3, 1] = 0; for j in 0..7 { let s = x[:, ds(6 - j, 1)]; let n = max(m[...], s); l[...] = l[...] * exp(m[...] - n) + exp(s - n); m[...] = n; }"
            " o[...] = exp(x[...] - (m[...] + log(l[...])));"),
    (WRONG, "var m: f32[3, 1] = -inf; var l: f32[3, 1] = 0; for j in 0..7 { let s = x[:, ds(j, 1)]; let n = max(m[...], s); l[...] = l[...] + exp(s - n); m[...] = n; }"
            " o[...] = exp(x[...] - m[...]) / l[...];"),
    (WRONG, "var m: f32[3, 1] = -inf; var l: f32[3, 1] = 0; for j in 0..7 { let s = x[:, ds(j, 1)]; let n = max(m[...], s); l[...] = l[...] * exp(m[...] - s) + exp(s - n); m[...] = n; }"
            " o[...] = exp(x[...] - m[...]) / l[...];"),
    (WRONG, "var m: f32[3, 1] = -inf; var l: f32[3, 1] = 0; for j in 0..7 { let s = x[:, ds(j, 1)]; let n = max(m[...], s); l[...] = (l[...] + exp(s - n)) * exp(m[...] - n); m[...] = n; }"
            " o[...] = exp(x[...] - m[...]) / l[...];"),
    (WRONG, "let e = exp(x[...] - reduce_max(x[...], axis = 1)); o[...] = e / reduce_sum(e[:, 0:6], axis = 1);"),
    (WRONG, "let e = exp(x[...] - reduce_max(x[...], axis = 1)); o[...] = e / reduce_sum(e, axis = 0);"),
    (WRONG, "let e = exp(x[...] - reduce_max(x[...], axis = 1)); o[...] = e / reduce_max(e, axis = 1);"),
    (WRONG, "let e = exp(x[...] - reduce_max(x[...], axis = 1)); o[...] = e / reduce_sum(exp(x[...]), axis = 1);"),
    (WRONG, "let e = exp2(x[...] - reduce_max(x[...], axis = 1)); o[...] = e / reduce_sum(e, axis = 1);"),
    (WRONG, "let m = reduce_max(x[...], axis = 1); o[...] = exp(x[...] - log(reduce_sum(exp(x[...] - m), axis = 1)));"),
    (WRONG, "let e = exp(x[...] - reduce_max(x[...], axis = 1)); o[...] = e / (reduce_sum(e, axis = 1) + 0.001);"),
)
form(
    "logsumexp", "(x: f32[3, 5], y: f32[3, 5]) -> (o: f32[3, 5])", "o = log(exp(x) + exp(y));",
    (RIGHT, "let m = max(x[...], y[...]); o[...] = m + log(exp(x[...] - m) + exp(y[...] - m));"),
    (RIGHT, "o[...] = x[...] + log1p(exp(y[...] - x[...]));"),
    (RIGHT, "o[...] = y[...] + softplus(x[...] - y[...]);"),
    (RIGHT, "o[...] = x[...] - log_sigmoid(x[...] - y[...]);"),
    (RIGHT, "o[...] = 0.5 * (x[...] + y[...]) + log(2.0 * cosh(0.5 * (x[...] - y[...])));"),
    (OPEN, "o[...] = max(x[...], y[...]) + log1p(exp(-abs(x[...] - y[...])));"),
    (WRONG, "o[...] = min(x[...], y[...]) + log1p(exp(-abs(x[...] - y[...])));"),
    (WRONG, "o[...] = x[...] + log1p(exp(x[...] - y[...]));"),
    (WRONG, "o[...] = max(x[...], y[...]) + log1p(exp(-(x[...] - y[...])));"),
    (WRONG, "let m = max(x[...], y[...]); o[...] = log(exp(x[...] - m) + exp(y[...] - m));"),
    (WRONG, "o[...] = 0.5 * (x[...] + y[...]) + log(cosh(0.5 * (x[...] - y[...])));"),
)
form(
    "layernorm", "(x: f32[3, 6], w: f32[6], b: f32[6]) -> (o: f32[3, 6])",
    "let c = x - reduce_sum(x, axis = 1) / 6.0; o = c * rsqrt(reduce_sum(c * c, axis = 1) / 6.0 + 1e-5) * w[None, :] + b[None, :];",
    (RIGHT, "let a = reduce_sum(x[...], axis = 1) / 6.0; let s = reduce_sum(x[...] * x[...], axis = 1) / 6.0 - a * a; o[...] = (x[...] - a) / sqrt(s + 1e-5) * w[None, :] + b[None, :];"),
    (RIGHT, "let a = reduce_sum(x[...], axis = 1) * 0.16666667; let c = x[...] - a; let r = rsqrt(reduce_sum(c * c, axis = 1) + 6.0 * 1e-5) * sqrt(6.0); o[...] = c * (r * w[None, :]) + b[None, :];"),
    (RIGHT, "let k = x[:, 0:1]; let d = x[...] - k; let a = reduce_sum(d, axis = 1) / 6.0; let s = (reduce_sum(d * d, axis = 1) - 6.0 * a * a) / 6.0;"
            " o[...] = (d - a) * rsqrt(s + 1e-5) * w[None, :] + b[None, :];"),
    (RIGHT, "var a: f32[3, 1] = 0; var s: f32[3, 1] = 0; for j in 0..6 { let v = x[:, ds(j, 1)]; let d = v - a[...]; a[...] = a[...] + d / cast(j + 1, f32); s[...] = s[...] + d * (v - a[...]); }"
            " o[...] = (x[...] - a[...]) * rsqrt(s[...] / 6.0 + 1e-5) * w[None, :] + b[None, :];"),
    (WRONG, "var a: f32[3, 1] = 0; var s: f32[3, 1] = 0; for j in 0..6 { let v = x[:, ds(j, 1)]; let d = v - a[...]; a[...] = a[...] + d / cast(j + 1, f32); s[...] = s[...] + d * d; }"
            " o[...] = (x[...] - a[...]) * rsqrt(s[...] / 6.0 + 1e-5) * w[None, :] + b[None, :];"),
    (WRONG, "let c = x[...] - reduce_sum(x[...], axis = 1) / 6.0; o[...] = c * rsqrt(reduce_sum(c * c, axis = 1) / 5.0 + 1e-5) * w[None, :] + b[None, :];"),
    (UNSEEN, "let c = x[...] - reduce_sum(x[...], axis = 1) / 6.0; o[...] = c * (rsqrt(reduce_sum(c * c, axis = 1) / 6.0) + 1e-5) * w[None, :] + b[None, :];"),
    (UNSEEN, "let c = x[...] - reduce_sum(x[...], axis = 1) / 6.0; o[...] = c / (sqrt(reduce_sum(c * c, axis = 1) / 6.0) + 1e-5) * w[None, :] + b[None, :];"),
    (UNSEEN, "let c = x[...] - reduce_sum(x[...], axis = 1) / 6.0; o[...] = c * rsqrt(reduce_sum(c * c, axis = 1) / 6.0 + 1e-6) * w[None, :] + b[None, :];"),
    (WRONG, "let c = x[...] - reduce_sum(x[...], axis = 1) / 6.0; o[...] = c * rsqrt(reduce_sum(x[...] * x[...], axis = 1) / 6.0 + 1e-5) * w[None, :] + b[None, :];"),
    (WRONG, "let a = reduce_sum(x[...], axis = 1) / 6.0; let s = reduce_sum(x[...] * x[...], axis = 1) / 6.0 - a; o[...] = (x[...] - a) * rsqrt(s + 1e-5) * w[None, :] + b[None, :];"),
    (WRONG, "let c = x[...] - reduce_sum(x[...], axis = 1) / 6.0; o[...] = (c * rsqrt(reduce_sum(c * c, axis = 1) / 6.0 + 1e-5) + b[None, :]) * w[None, :];"),
)
form(
    "rmsnorm", "(x: f32[3, 4], w: f32[4]) -> (o: f32[3, 4])", "o = x * rsqrt(reduce_sum(x * x, axis = 1) / 4.0 + 1e-6) * w[None, :];",
    (RIGHT, "o[...] = x[...] * w[None, :] / sqrt(reduce_sum(x[...] * x[...], axis = 1) * 0.25 + 1e-6);"),
    (RIGHT, "o[...] = 2.0 * x[...] * rsqrt(reduce_sum(x[...] * x[...], axis = 1) + 4e-6) * w[None, :];"),
    (RIGHT, "let r = rsqrt(reduce_sum(x[...] * x[...], axis = 1) / 4.0 + 1e-6); o[...] = x[...] * w[None, :] * (r * r * r) * (reduce_sum(x[...] * x[...], axis = 1) / 4.0 + 1e-6);"),
    (WRONG, "o[...] = 2.0 * x[...] * rsqrt(reduce_sum(x[...] * x[...], axis = 1) / 4.0 + 1e-6) * w[None, :];"),
    (UNSEEN, "o[...] = 2.0 * x[...] * rsqrt(reduce_sum(x[...] * x[...], axis = 1) + 1e-6) * w[None, :];"),
    (WRONG, "o[...] = x[...] * sqrt(reduce_sum(x[...] * x[...], axis = 1) / 4.0 + 1e-6) * w[None, :];"),
    (WRONG, "o[...] = x[...] / (reduce_sum(x[...] * x[...], axis = 1) / 4.0 + 1e-6) * w[None, :];"),
    (WRONG, "o[...] = x[...] * rsqrt(reduce_sum(abs(x[...]), axis = 1) / 4.0 + 1e-6) * w[None, :];"),
    (WRONG, "o[...] = abs(x[...]) * rsqrt(reduce_sum(x[...] * x[...], axis = 1) / 4.0 + 1e-6) * w[None, :];"),
    (WRONG, "o[...] = x[...] * rsqrt(reduce_sum(x[...] * x[...], axis = 0) / 4.0 + 1e-6) * w[None, :];"),
)
form(
    "cosine", "(x: f32[3, 4], y: f32[3, 4]) -> (o: f32[3, 1])", "o = reduce_sum(x * y, axis = 1) / sqrt(reduce_sum(x * x, axis = 1) * reduce_sum(y * y, axis = 1));",
    (RIGHT, "o[...] = reduce_sum(x[...] * y[...], axis = 1) * rsqrt(reduce_sum(x[...] * x[...], axis = 1)) * rsqrt(reduce_sum(y[...] * y[...], axis = 1));"),
    (RIGHT, "let a = x[...] * rsqrt(reduce_sum(x[...] * x[...], axis = 1)); let b = y[...] / sqrt(reduce_sum(y[...] * y[...], axis = 1)); o[...] = reduce_sum(a * b, axis = 1);"),
    (WRONG, "o[...] = reduce_sum(x[...] * y[...], axis = 1) / (reduce_sum(x[...] * x[...], axis = 1) * reduce_sum(y[...] * y[...], axis = 1));"),
    (WRONG, "o[...] = reduce_sum(x[...] * y[...], axis = 1) * rsqrt(reduce_sum(x[...] * x[...], axis = 1) + reduce_sum(y[...] * y[...], axis = 1));"),
    (WRONG, "o[...] = abs(reduce_sum(x[...] * y[...], axis = 1)) / sqrt(reduce_sum(x[...] * x[...], axis = 1) * reduce_sum(y[...] * y[...], axis = 1));"),
    (WRONG, "let d = reduce_sum(x[...] * y[...], axis = 1); o[...] = sqrt(d * d / (reduce_sum(x[...] * x[...], axis = 1) * reduce_sum(y[...] * y[...], axis = 1)));"),
)

# ---- attention: 3 queries, 6 keys in blocks of 2

ATTENTION = "(q: f32[3, 4], k: f32[6, 4], v: f32[6, 4]) -> (o: f32[3, 4])"
WEIGHTS = "let e = exp(s - reduce_max(s, axis = 1)); o = dot(e / reduce_sum(e, axis = 1), v);"
ONLINE = ("var m: f32[3, 1] = {first}; var l: f32[3, 1] = 0; var a: f32[3, 4] = 0; for j in 0..{blocks} {{ let at = {block} * 2; let s = {score}; let n = max(m[...], reduce_max(s, axis = 1)); let p = exp(s - n);"
          " let c = exp(m[...] - n); l[...] = {l}; a[...] = {a}; m[...] = n; }} o[...] = {end};")
SCORE = "dot(q[...], k[ds(at, 2), :].T) * 0.5"


def online(first="-inf", blocks=3, block="j", score=SCORE, l="l[...] * c + reduce_sum(p, axis = 1)", a="a[...] * c + dot(p, v[ds(at, 2), :])", end="a[...] / l[...]"):
    return ONLINE.format(first=first, blocks=blocks, block=block, score=score, l=l, a=a, end=end)


HALF = "let s{0} = dot(q[...], k[{1}:{2}, :].T) * 0.5; let m{0} = reduce_max(s{0}, axis = 1); let p{0} = exp(s{0} - m{0}); let l{0} = reduce_sum(p{0}, axis = 1); let o{0} = dot(p{0}, v[{1}:{2}, :]) / l{0};"
HALVES = HALF.format("a", 0, 2) + HALF.format("b", 2, 6)
form(
    "attention", ATTENTION, "let s = dot(q, k.T) * 0.5; " + WEIGHTS,
    (RIGHT, online()), (RIGHT, online(block="(2 - j)")), (RIGHT, online(first="-1e30")), (RIGHT, online(end="a[...] * (1.0 / l[...])")),
    (RIGHT, online(score="dot(q[...] * 0.5, k[ds(at, 2), :].T)")), (RIGHT, online(end="a[...] / where(l[...] == 0.0, 1.0, l[...])")),
    (RIGHT, "let s = dot(q[...], k[...].T) * 0.5; o[...] = dot(exp(s), v[...]) / reduce_sum(exp(s), axis = 1);"),
    (RIGHT, HALVES + " let ea = ma + log(la); let eb = mb + log(lb); let t = log(exp(ea) + exp(eb)); o[...] = oa * exp(ea - t) + ob * exp(eb - t);"),
    (RIGHT, HALVES + " let t = max(ma, mb); let wa = la * exp(ma - t); let wb = lb * exp(mb - t); o[...] = (oa * wa + ob * wb) / (wa + wb);"),
    (RIGHT, HALVES + " let g = logistic(ma + log(la) - mb - log(lb)); o[...] = oa * g + ob * (1.0 - g);"),
    (RIGHT, HALVES + " let g = logistic(mb + log(lb) - ma - log(la)); o[...] = oa + (ob - oa) * g;"),
    (WRONG, HALVES + " o[...] = (oa + ob) * 0.5;"),
    (WRONG, HALVES + " o[...] = (oa * la + ob * lb) / (la + lb);"),
    (WRONG, HALVES + " let t = max(ma, mb); let wa = la * exp(ma - t); let wb = lb * exp(mb - t); o[...] = (oa * wb + ob * wa) / (wa + wb);"),
    (WRONG, HALVES + " let t = max(ma, mb); let wa = exp(ma - t); let wb = exp(mb - t); o[...] = (oa * wa + ob * wb) / (wa + wb);"),
    (WRONG, HALVES + " let g = logistic(mb + log(lb) - ma - log(la)); o[...] = oa * g + ob * (1.0 - g);"),
    (WRONG, online(l="l[...] + reduce_sum(p, axis = 1)")), (WRONG, online(a="a[...] + dot(p, v[ds(at, 2), :])")), (WRONG, online(blocks=2)), (WRONG, online(block="(j / 2)")),
    (WRONG, online(l="l[...] * c * c + reduce_sum(p, axis = 1)")), (WRONG, online(first="0.0", end="a[...] / (l[...] + exp(-m[...]))")), (WRONG, online(a="(a[...] + dot(p, v[ds(at, 2), :])) * c")),
    (WRONG, online(score="dot(q[...], k[ds(at, 2), :].T) * 0.25")), (WRONG, online(score="dot(q[...], k[ds(at, 2), :].T)")), (WRONG, online(end="a[...]")),
    (WRONG, online(score="where(iota([3, 2], axis = 1) + at < 5, dot(q[...], k[ds(at, 2), :].T) * 0.5, -inf)")),
    (WRONG, online(a="a[...] * c + dot(p, k[ds(at, 2), :])")), (WRONG, online(l="max(l[...] * c, reduce_sum(p, axis = 1))")),
    (WRONG, "let s = dot(q[...], k[...].T) * 0.5; let e = exp(s - reduce_max(s, axis = 0)); o[...] = dot(e / reduce_sum(e, axis = 0), v[...]);"),
)
COL, ROW = "(iota([3, 2], axis = 1) + at)", "iota([3, 2], axis = 0)"
SEEN = "where({}, " + SCORE + ", {})"
form(
    "causal", ATTENTION, "let s = where(iota([3, 6], axis = 1) <= iota([3, 6], axis = 0), dot(q, k.T) * 0.5, -inf); " + WEIGHTS,
    (RIGHT, online(score=SEEN.format(f"{COL} <= {ROW}", "-inf"))), (RIGHT, online(score=SEEN.format(f"{COL} <= {ROW}", "-1e30"))), (RIGHT, online(blocks=2, score=SEEN.format(f"{COL} <= {ROW}", "-inf"))),
    (RIGHT, online(score=SCORE + f" + where({COL} > {ROW}, -1e9, 0.0)")), (RIGHT, online(first="-1e30", score=SEEN.format(f"{COL} <= {ROW}", "-0.7 * 3.4028235e38"))),
    (WRONG, online(score=SEEN.format(f"{COL} < {ROW} + 2", "-inf"))), (WRONG, online(blocks=1, score=SEEN.format(f"{COL} <= {ROW}", "-inf"))), (WRONG, online(score=SEEN.format(f"{COL} <= {ROW}", "0.0"))),
    (WRONG, online(score=SEEN.format(f"{COL} >= {ROW}", "-inf"))), (WRONG, online(score=SEEN.format(f"{COL} <= {ROW}", "-10.0"))), (UNSEEN, online(score=SEEN.format(f"{COL} <= {ROW}", "-10000.0"))),
    (WRONG, online(score=SEEN.format(f"{COL} == {ROW} || {COL} == 0", "-inf"))), (WRONG, online(score=SCORE + f" * where({COL} > {ROW}, 0.0, 1.0)")),
    (WRONG, online(score=SEEN.format(f"{COL} < {ROW} || {COL} == 0", "-inf"))),
)
form(
    "window", ATTENTION, "let d = iota([3, 6], axis = 1) - iota([3, 6], axis = 0); let s = where(d >= 0 && d < 3, dot(q, k.T) * 0.5, -inf); " + WEIGHTS,
    (RIGHT, online(score=SEEN.format(f"{COL} >= {ROW} && {COL} <= {ROW} + 2", "-inf"), first="-1e30")),
    (RIGHT, online(score=SEEN.format(f"({COL} - {ROW}) * ({COL} - {ROW} - 2) <= 0", "-1e30"), first="-1e30")),
    (WRONG, online(score=SEEN.format(f"{COL} >= {ROW} && {COL} < {ROW} + 2", "-inf"), first="-1e30")), (WRONG, online(score=SEEN.format(f"{COL} > {ROW} && {COL} < {ROW} + 3", "-inf"), first="-1e30")),
    (WRONG, online(score=SEEN.format(f"{COL} >= {ROW} && {COL} <= {ROW} + 3", "-inf"), first="-1e30")),
)
form(
    "soft cap", ATTENTION, "let s = 5.0 * tanh(dot(q, k.T) * 0.5 / 5.0); " + WEIGHTS,
    (RIGHT, online(score="5.0 * tanh(dot(q[...], k[ds(at, 2), :].T) * 0.1)")), (RIGHT, online(score="(logistic(dot(q[...], k[ds(at, 2), :].T) * 0.2) - 0.5) * 10.0")),
    (WRONG, online(score="tanh(dot(q[...], k[ds(at, 2), :].T) * 0.1)")), (WRONG, online(score="5.0 * tanh(dot(q[...], k[ds(at, 2), :].T) * 0.5)")), (WRONG, online(score="max(min(" + SCORE + ", 5.0), -5.0)")),
)
form(
    "sink", ATTENTION.replace("v: f32[6, 4]", "v: f32[6, 4], z: f32[1]"),
    "let s = dot(q, k.T) * 0.5; let m = max(reduce_max(s, axis = 1), z[None, :]); let e = exp(s - m); o = dot(e, v) / (reduce_sum(e, axis = 1) + exp(z[None, :] - m));",
    (RIGHT, online(end="a[...] / (l[...] + exp(z[None, :] - m[...]))")), (RIGHT, online(first="z[None, :] + 0.0 * q[:, 0:1]").replace("var l: f32[3, 1] = 0", "var l: f32[3, 1] = 1")),
    (WRONG, online()), (WRONG, online(end="a[...] / (l[...] + exp(z[None, :]))")), (WRONG, online(first="z[None, :] + 0.0 * q[:, 0:1]")),
    (WRONG, online(first="z[None, :] + 0.0 * q[:, 0:1]", end="(a[...] + v[0:1, :]) / l[...]").replace("var l: f32[3, 1] = 0", "var l: f32[3, 1] = 1")),
)
PAGED = "(q: f32[2, 4], k: f32[5, 2, 4], v: f32[5, 2, 4]) -> (o: f32[2, 4])"
PAGES = ("prefetch table: i32[3], length: i32[1]; var m: f32[2, 1] = -1e30; var l: f32[2, 1] = 0; var a: f32[2, 4] = 0; for j in 0..{pages} {{ let t = table[{page}];"
         " let s = where({at} + iota([2, 2], axis = 1) {less} length[0], dot(q[...], reshape(k[ds(t, 1), :, :], [2, 4]).T) * 0.5, {hidden}); let n = max(m[...], reduce_max(s, axis = 1)); let p = exp(s - n);"
         " let c = exp(m[...] - n); l[...] = l[...] * c + reduce_sum(p, axis = 1); a[...] = a[...] * c + dot(p, reshape(v[ds({value}, 1), :, :], [2, 4])); m[...] = n; }} o[...] = a[...] / l[...];")


def paged(pages="cdiv(length[0], 2)", page="j", at="j * 2", less="<", hidden="-inf", value="t"):
    return PAGES.format(pages=pages, page=page, at=at, less=less, hidden=hidden, value=value)


form(
    "paged", PAGED, "let kk = reshape(take(k, table, axis = 0), [6, 4]); let vv = reshape(take(v, table, axis = 0), [6, 4]);"
    " let s = where(iota([2, 6], axis = 1) < length[0], dot(q, kk.T) * 0.5, -inf); let e = exp(s - reduce_max(s, axis = 1)); o = dot(e / reduce_sum(e, axis = 1), vv);",
    (RIGHT, paged()), (RIGHT, paged(pages="3")), (RIGHT, paged(hidden="-1e30")), (RIGHT, paged(page="cdiv(length[0], 2) - 1 - j", at="(cdiv(length[0], 2) - 1 - j) * 2")),
    (WRONG, paged(less="<=")), (WRONG, paged(pages="length[0] / 2")), (WRONG, paged(page="j / 2")), (WRONG, paged(page="2 - j")), (WRONG, paged(value="j")), (WRONG, paged(at="j")), (WRONG, paged(hidden="0.0")),
    (WRONG, paged(at="j * 2 + 1")),
    words="table=randint:0:5:1 length=const:5",
)

# ---- products

GROUPS = "(x: f32[7, 3], w: f32[3, 3, 2]) -> (o: f32[7, 2])"
GMM = "prefetch starts: i32[3]; var a: f32[7, 2] = 0; for g in 0..3 {{ let begin = 3 * starts[g]; let end = where(g == 2, 7, 3 * starts[min(g + 1, 2)]); let row = iota([7, 3], axis = 0); {body} }} o[...] = a[...];"
form(
    "gmm", GROUPS, "let row = iota([7, 3], axis = 0); let col = iota([7, 3], axis = 1); let of = reduce_sum(cast(row >= 3 * starts[None, :], i32), axis = 1) - 1;"
    " o = einsum(\"mgn,mg->mn\", einsum(\"mk,gkn->mgn\", x, w), cast(of == col, f32));",
    (RIGHT, GMM.format(body="a[...] += dot(where(row >= begin && row < end, x[...], 0.0), reshape(w[ds(g, 1), :, :], [3, 2]));")),
    (RIGHT, GMM.format(body="a[...] = where(row[:, 0:2] >= begin && row[:, 0:2] < end, dot(x[...], reshape(w[ds(g, 1), :, :], [3, 2])), a[...]);")),
    (WRONG, GMM.format(body="a[...] += dot(where(row >= begin && row <= end, x[...], 0.0), reshape(w[ds(g, 1), :, :], [3, 2]));")),
    (WRONG, GMM.format(body="a[...] += dot(where(row > begin && row < end, x[...], 0.0), reshape(w[ds(g, 1), :, :], [3, 2]));")),
    (WRONG, GMM.format(body="a[...] = where(row[:, 0:2] >= begin, dot(x[...], reshape(w[ds(max(g - 1, 0), 1), :, :], [3, 2])), a[...]);")),
    (WRONG, GMM.format(body="a[...] = dot(where(row >= begin && row < end, x[...], 0.0), reshape(w[ds(g, 1), :, :], [3, 2]));")),
    (WRONG, GMM.format(body="a[...] += dot(where(row < end, x[...], 0.0), reshape(w[ds(g, 1), :, :], [3, 2]));")),
    words="starts=iota",
)
BYTES = "(a: i8[2, 6], b: i8[6, 3]) -> (o: i32[2, 3])"
WORDS = "a=randint:-128:128:1 b=randint:-128:128:2"
form(
    "bytes", BYTES, "o = dot(cast(a, i32), cast(b, i32));",
    (RIGHT, "o[...] = dot(a[...], b[...], out = i32);"), (RIGHT, "o[...] = dot(a[:, 0:2], b[0:2, :], out = i32) + dot(a[:, 2:6], b[2:6, :], out = i32);"),
    (RIGHT, "o[...] = dot(cast(a[...], i32) + 128, cast(b[...], i32)) - 128 * reduce_sum(cast(b[...], i32), axis = 0);"),
    (RIGHT, "var s: i32[2, 3] = 0; for t in 0..6 { s[...] = s[...] + cast(cast(a[:, ds(t, 1)], i16) * cast(b[ds(t, 1), :], i16), i32); } o[...] = s[...];"),
    (OPEN, "o[...] = cast(dot(cast(a[...], f64), cast(b[...], f64)), i32);"),
    (WRONG, "var s: i32[2, 3] = 0; for t in 0..6 { s[...] = s[...] + cast(a[:, ds(t, 1)] * b[ds(t, 1), :], i32); } o[...] = s[...];"),
    (WRONG, "o[...] = cast(cast(dot(a[...], b[...], out = i32), i16), i32);"),
    (WRONG, "o[...] = min(max(dot(a[...], b[...], out = i32), -32768), 32767);"),
    (WRONG, "o[...] = dot(cast(cast(a[...], u8), i32), cast(b[...], i32));"),
    (WRONG, "o[...] = dot(cast(a[...], i32) + 128, cast(b[...], i32)) - 127 * reduce_sum(cast(b[...], i32), axis = 0);"),
    (WRONG, "o[...] = cast(dot(cast(cast(a[...], i16), i32), cast(b[...], i32)) & 65535, i32);"),
    (UNSEEN, "var s: i16[2, 3] = 0; for t in 0..6 { s[...] = s[...] + cast(a[:, ds(t, 1)], i16) * cast(b[ds(t, 1), :], i16); } o[...] = cast(s[...], i32);"),
    (UNSEEN, "var s: i32[2, 3] = 0; for t in 0..3 { s[...] = s[...] + cast(cast(a[:, ds(2 * t, 1)], i16) * cast(b[ds(2 * t, 1), :], i16)"
             " + cast(a[:, ds(2 * t + 1, 1)], i16) * cast(b[ds(2 * t + 1, 1), :], i16), i32); } o[...] = s[...];"),
    words=WORDS,
)
form(
    "zero points", "(a: u8[2, 5], b: u8[5, 3]) -> (o: i32[2, 3])", "o = dot(cast(a, i32) - 7, cast(b, i32) - 11);",
    (RIGHT, "o[...] = dot(a[...], b[...], out = i32) - 7 * reduce_sum(cast(b[...], i32), axis = 0) - 11 * reduce_sum(cast(a[...], i32), axis = 1) + 385;"),
    (WRONG, "o[...] = dot(a[...], b[...], out = i32) - 7 * reduce_sum(cast(b[...], i32), axis = 0) - 11 * reduce_sum(cast(a[...], i32), axis = 1) + 77;"),
    (WRONG, "o[...] = dot(a[...], b[...], out = i32) - 11 * reduce_sum(cast(b[...], i32), axis = 0) - 7 * reduce_sum(cast(a[...], i32), axis = 1) + 385;"),
    (WRONG, "o[...] = dot(cast(a[...] - cast(7, u8), i32), cast(b[...], i32) - 11);"),
    words="a=randint:0:256:1 b=randint:0:256:2",
)
form(
    "nibbles", "(x: f32[2, 8], w: u8[4, 3], s: f32[2, 3]) -> (o: f32[2, 3])",
    "let low = cast(w & cast(15, u8), f32) - 8.0; let high = cast(w >> cast(4, u8), f32) - 8.0; let all = concatenate(low, high, axis = 0) * concatenate(s[0:1, :] + 0.0 * low, s[1:2, :] + 0.0 * low, axis = 0); o = dot(x, all);",
    (RIGHT, "o[...] = dot(x[:, 0:4], cast(w[...] & cast(15, u8), f32) - 8.0) * s[0:1, :] + dot(x[:, 4:8], cast(w[...] >> cast(4, u8), f32) - 8.0) * s[1:2, :];"),
    (RIGHT, "o[...] = (dot(x[:, 0:4], cast(w[...] & cast(15, u8), f32)) - 8.0 * reduce_sum(x[:, 0:4], axis = 1)) * s[0:1, :] + (dot(x[:, 4:8], cast(w[...] >> cast(4, u8), f32)) - 8.0 * reduce_sum(x[:, 4:8], axis = 1)) * s[1:2, :];"),
    (WRONG, "o[...] = dot(x[:, 0:4], cast(w[...] >> cast(4, u8), f32) - 8.0) * s[0:1, :] + dot(x[:, 4:8], cast(w[...] & cast(15, u8), f32) - 8.0) * s[1:2, :];"),
    (WRONG, "o[...] = dot(x[:, 0:4], cast(w[...] & cast(15, u8), f32) - 8.0) * s[1:2, :] + dot(x[:, 4:8], cast(w[...] >> cast(4, u8), f32) - 8.0) * s[0:1, :];"),
    (WRONG, "o[...] = dot(x[:, 0:4], cast(w[...] & cast(15, u8), f32) - 8.0) * s[0:1, :] + dot(x[:, 4:8], cast(w[...] >> cast(4, u8), f32) - 7.0) * s[1:2, :];"),
    (WRONG, "o[...] = dot(x[:, 0:4], cast(w[...] & cast(7, u8), f32) - 8.0) * s[0:1, :] + dot(x[:, 4:8], cast(w[...] >> cast(4, u8), f32) - 8.0) * s[1:2, :];"),
    words="w=randint:0:256:3",
)

# ---- sequences, orders

form(
    "cumsum", "(x: f32[3, 6]) -> (o: f32[3, 6])", "o = cumsum(x, axis = 1);",
    (RIGHT, "o[...] = dot(x[...], cast(iota([6, 6], axis = 0) <= iota([6, 6], axis = 1), f32));"), (RIGHT, "o[...] = reduce_sum(x[...], axis = 1) - cumsum(x[...], axis = 1, reverse = true) + x[...];"),
    (RIGHT, "let a = cumsum(x[:, 0:3], axis = 1); o[:, 0:3] = a; o[:, 3:6] = cumsum(x[:, 3:6], axis = 1) + a[:, 2:3];"),
    (RIGHT, "var c: f32[3, 1] = 0; for j in 0..6 { c[...] = c[...] + x[:, ds(j, 1)]; o[:, ds(j, 1)] = c[...]; }"),
    (WRONG, "var c: f32[3, 1] = 0; for j in 0..6 { o[:, ds(j, 1)] = c[...]; c[...] = c[...] + x[:, ds(j, 1)]; }"),
    (WRONG, "o[...] = dot(x[...], cast(iota([6, 6], axis = 0) < iota([6, 6], axis = 1), f32));"), (WRONG, "o[...] = cumsum(x[...], axis = 1) - x[...];"), (WRONG, "o[...] = cumsum(x[...], axis = 1, reverse = true);"),
    (WRONG, "let a = cumsum(x[:, 0:3], axis = 1); o[:, 0:3] = a; o[:, 3:6] = cumsum(x[:, 3:6], axis = 1) + x[:, 2:3];"), (WRONG, "o[...] = cumsum(x[...], axis = 0);"),
)
form(
    "scan", "(a: f32[6, 3], x: f32[6, 3]) -> (o: f32[6, 3])", "var h: f32[1, 3] = 0; var all: f32[6, 3] = 0; for t in 0..6 { h = a[ds(t, 1), :] * h + x[ds(t, 1), :]; all[ds(t, 1), :] = h; } o = all;",
    (RIGHT, "var h: f32[1, 3] = 0; for b in 0..2 { let p = cumprod(a[ds(b * 3, 3), :], axis = 0); let y = p * cumsum(x[ds(b * 3, 3), :] / p, axis = 0) + p * h[...]; o[ds(b * 3, 3), :] = y; h[...] = y[2:3, :]; }"),
    (RIGHT, "let p = cumprod(a[...], axis = 0); o[...] = p * cumsum(x[...] / p, axis = 0);"),
    (WRONG, "let p = cumprod(a[...], axis = 0); o[...] = p / a[...] * cumsum(x[...] / p, axis = 0);"), (WRONG, "let p = cumprod(a[...], axis = 0); o[...] = p * cumsum(x[...], axis = 0) / p;"),
    (WRONG, "var h: f32[1, 3] = 0; for b in 0..2 { let p = cumprod(a[ds(b * 3, 3), :], axis = 0); let y = p * cumsum(x[ds(b * 3, 3), :] / p, axis = 0) + h[...]; o[ds(b * 3, 3), :] = y; h[...] = y[2:3, :]; }"),
    (WRONG, "var h: f32[1, 3] = 0; for b in 0..2 { let p = cumprod(a[ds(b * 3, 3), :], axis = 0); let y = p * cumsum(x[ds(b * 3, 3), :] / p, axis = 0) + p * h[...]; o[ds(b * 3, 3), :] = y; h[...] = y[1:2, :]; }"),
    (WRONG, "var h: f32[1, 3] = 0; for t in 0..6 { h[...] = a[ds(t, 1), :] * (h[...] + x[ds(t, 1), :]); o[ds(t, 1), :] = h[...]; }"),
)
form(
    "top_k", "(x: f32[3, 6]) -> (o: f32[3, 2])", "o = top_k(x, 2)[0];",
    (RIGHT, "let m = reduce_max(x[...], axis = 1); let i = argmax(x[...], axis = 1); let r = where(iota([3, 6], axis = 1) == i, -inf, x[...]); o[...] = top_k(x[...], 2)[0] + 0.0 * m + 0.0 * cast(argmax(r, axis = 1), f32);"),
    (OPEN + RIGHT, "o[...] = sort(x[...], axis = 1, descending = true)[:, 0:2];"),
    (OPEN + RIGHT, "o[...] = take_along_axis(x[...], argsort(x[...], axis = 1, descending = true)[:, 0:2], axis = 1);"),
    (WRONG, "o[...] = sort(x[...], axis = 1)[:, 0:2];"), (WRONG, "o[...] = sort(x[...], axis = 1, descending = true)[:, 1:3];"), (WRONG, "o[...] = top_k(x[:, 0:5], 2)[0];"), (WRONG, "o[...] = top_k(-x[...], 2)[0];"),
    (WRONG, "o[...] = top_k(x[...], 3)[0][:, 1:3];"), (WRONG, "let b = top_k(x[...], 2)[0]; o[...] = concatenate(b[:, 1:2], b[:, 0:1], axis = 1);"), (WRONG, "o[...] = top_k(abs(x[...]), 2)[0];"),
)
form(
    "route", "(x: f32[3, 5]) -> (o: f32[3, 5])", "let b = top_k(x, 2); let e = exp(b[0] - b[0][:, 0:1]); let w = e / reduce_sum(e, axis = 1);"
    " o = reduce_sum(where(b[1][:, :, None] == iota([3, 2, 5], axis = 2), w[:, :, None], 0.0), axis = 1, keep = false);",
    (RIGHT, "let b = top_k(x[...], 2); let e = exp(b[0]); let w = e / reduce_sum(e, axis = 1); let at = iota([3, 5], axis = 1); o[...] = where(b[1][:, 0:1] == at, w[:, 0:1], 0.0) + where(b[1][:, 1:2] == at, w[:, 1:2], 0.0);"),
    (WRONG, "let b = top_k(x[...], 2); let e = exp(b[0]); let w = e / reduce_sum(e, axis = 1); let at = iota([3, 5], axis = 1); o[...] = where(b[1][:, 0:1] == at, w[:, 1:2], 0.0) + where(b[1][:, 1:2] == at, w[:, 0:1], 0.0);"),
    (WRONG, "let b = top_k(x[...], 2); let w = exp(x[...]) / reduce_sum(exp(x[...]), axis = 1); let at = iota([3, 5], axis = 1); o[...] = where(b[1][:, 0:1] == at, w, 0.0) + where(b[1][:, 1:2] == at, w, 0.0);"),
    (WRONG, "let b = top_k(x[...], 2); let e = exp(b[0]); let w = e / reduce_sum(e, axis = 1); let at = iota([3, 5], axis = 1); o[...] = where(b[1][:, 0:1] == at, w[:, 0:1], where(b[1][:, 1:2] <= at, w[:, 1:2], 0.0));"),
)

# ---- element by element

form(
    "rope", "(x: f32[3, 6], t: f32[3, 3]) -> (o: f32[3, 6])", "let a = x[:, 0:3]; let b = x[:, 3:6]; o = concatenate(a * cos(t) - b * sin(t), b * cos(t) + a * sin(t), axis = 1);",
    (RIGHT, "let a = x[:, 0:3]; let b = x[:, 3:6]; o[:, 0:3] = a * cos(-t[...]) + b * sin(-t[...]); o[:, 3:6] = b * cos(t[...]) - a * sin(-t[...]);"),
    (RIGHT, "let c = concatenate(cos(t[...]), cos(t[...]), axis = 1); let s = concatenate(-sin(t[...]), sin(t[...]), axis = 1); o[...] = x[...] * c + concatenate(x[:, 3:6], x[:, 0:3], axis = 1) * s;"),
    (WRONG, "let a = x[:, 0:3]; let b = x[:, 3:6]; o[:, 0:3] = a * cos(t[...]) + b * sin(t[...]); o[:, 3:6] = b * cos(t[...]) - a * sin(t[...]);"),
    (WRONG, "let a = x[:, 0:3]; let b = x[:, 3:6]; o[:, 0:3] = a * cos(t[...]) - b * sin(t[...]); o[:, 3:6] = a * cos(t[...]) + b * sin(t[...]);"),
    (WRONG, "let a = x[:, 0:3]; let b = x[:, 3:6]; o[:, 0:3] = b * cos(t[...]) - a * sin(t[...]); o[:, 3:6] = a * cos(t[...]) + b * sin(t[...]);"),
    (WRONG, "let c = concatenate(cos(t[...]), cos(t[...]), axis = 1); let s = concatenate(sin(t[...]), sin(t[...]), axis = 1); o[...] = x[...] * c + concatenate(x[:, 3:6], x[:, 0:3], axis = 1) * s;"),
    (WRONG, "let a = x[:, 0:3]; let b = x[:, 3:6]; o[:, 0:3] = a * cos(t[...]) - b * sin(2.0 * t[...]); o[:, 3:6] = b * cos(t[...]) + a * sin(2.0 * t[...]);"),
)
form(
    "activations", "(x: f32[3, 5], y: f32[3, 5]) -> (o: f32[3, 5])", "o = x * logistic(x) * y;",
    (RIGHT, "o[...] = x[...] / (1.0 + exp(-x[...])) * y[...];"), (RIGHT, "o[...] = 0.5 * x[...] * (1.0 + tanh(0.5 * x[...])) * y[...];"), (RIGHT, "o[...] = y[...] * x[...] * exp(log_sigmoid(x[...]));"),
    (RIGHT, "o[...] = y[...] * x[...] * exp(x[...] - softplus(x[...]));"), (RIGHT, "o[...] = y[...] * (x[...] - x[...] * logistic(-x[...]));"),
    (WRONG, "o[...] = x[...] * logistic(y[...]) * y[...];"), (WRONG, "o[...] = x[...] * logistic(1.702 * x[...]) * y[...];"), (WRONG, "o[...] = 0.5 * x[...] * (1.0 + tanh(x[...])) * y[...];"),
    (WRONG, "o[...] = max(x[...], 0.0) * y[...];"), (WRONG, "o[...] = x[...] / (1.0 + exp(x[...])) * y[...];"), (WRONG, "o[...] = 0.5 * x[...] * (1.0 + erf(x[...] * 0.70710678)) * y[...];"),
)
form(
    "clamp", "(x: f32[3, 5]) -> (o: f32[3, 5])", "o = min(max(x, -1.0), 2.0);",
    (RIGHT, "o[...] = clamp(x[...], -1.0, 2.0);"), (OPEN + RIGHT, "o[...] = max(min(x[...], 2.0), -1.0);"), (RIGHT, "o[...] = -max(-max(x[...], -1.0), -2.0);"),
    (WRONG, "o[...] = min(max(x[...], 1.0), 2.0);"), (WRONG, "o[...] = max(x[...], -1.0);"), (WRONG, "o[...] = min(max(x[...], -2.0), 2.0);"), (WRONG, "o[...] = min(max(x[...], 2.0), -1.0);"), (WRONG, "o[...] = max(min(x[...], -1.0), 2.0);"),
)
form(
    "pool", "(x: f32[3, 6]) -> (o: f32[3, 3])", "o = reduce_max(reshape(x, [3, 3, 2]), axis = 2, keep = false);",
    (RIGHT, "o[...] = concatenate(max(x[:, 0:1], x[:, 1:2]), max(x[:, 3:4], x[:, 2:3]), reduce_max(x[:, 4:6], axis = 1), axis = 1);"),
    (RIGHT, "o[...] = reduce_max(reshape(where(iota([3, 6], axis = 1) < 6, x[...], -inf), [3, 3, 2]), axis = 2, keep = false);"),
    (WRONG, "o[...] = max(reduce_max(reshape(x[...], [3, 3, 2]), axis = 2, keep = false), 0.0);"), (WRONG, "o[...] = reduce_max(reshape(x[...], [3, 2, 3]), axis = 1, keep = false);"),
    (WRONG, "o[...] = concatenate(max(x[:, 0:1], x[:, 1:2]), max(x[:, 1:2], x[:, 2:3]), max(x[:, 4:5], x[:, 5:6]), axis = 1);"), (WRONG, "o[...] = 0.5 * reduce_sum(reshape(x[...], [3, 3, 2]), axis = 2, keep = false);"),
)
form(
    "masked mean", "(x: f32[3, 5], c: bool[3, 5]) -> (o: f32[3, 1])", "o = reduce_sum(where(c, x, 0.0), axis = 1) / reduce_sum(cast(c, f32), axis = 1);",
    (RIGHT, "o[...] = reduce_sum(x[...] * cast(c[...], f32), axis = 1) / reduce_sum(where(c[...], 1.0, 0.0), axis = 1);"),
    (RIGHT, "o[...] = (reduce_sum(x[...], axis = 1) - reduce_sum(where(c[...], 0.0, x[...]), axis = 1)) / (5.0 - reduce_sum(cast(!c[...], f32), axis = 1));"),
    (WRONG, "o[...] = reduce_sum(where(c[...], x[...], 0.0), axis = 1) / 5.0;"), (WRONG, "o[...] = reduce_sum(x[...], axis = 1) / reduce_sum(cast(c[...], f32), axis = 1);"),
    (WRONG, "o[...] = reduce_sum(where(c[...], x[...], 0.0), axis = 1) / (reduce_sum(cast(c[...], f32), axis = 1) + 1.0);"),
    (WRONG, "o[...] = reduce_sum(where(!c[...], x[...], 0.0), axis = 1) / reduce_sum(cast(c[...], f32), axis = 1);"),
)
form(
    "cross entropy", "(x: f32[3, 5], y: i32[3]) -> (o: f32[3, 1])", "let m = reduce_max(x, axis = 1); let l = m + log(reduce_sum(exp(x - m), axis = 1)); o = l - reduce_sum(where(iota([3, 5], axis = 1) == y[:, None], x, 0.0), axis = 1);",
    (RIGHT, "let e = exp(x[...]); o[...] = -log(reduce_sum(where(iota([3, 5], axis = 1) == y[:, None], e, 0.0), axis = 1) / reduce_sum(e, axis = 1));"),
    (RIGHT, "let at = reduce_sum(where(iota([3, 5], axis = 1) == y[:, None], x[...], 0.0), axis = 1); o[...] = log(reduce_sum(exp(x[...] - at), axis = 1));"),
    (WRONG, "let e = exp(x[...]); o[...] = log(reduce_sum(where(iota([3, 5], axis = 1) == y[:, None], e, 0.0), axis = 1) / reduce_sum(e, axis = 1));"),
    (WRONG, "let at = reduce_sum(where(iota([3, 5], axis = 1) == y[:, None] + 1, x[...], 0.0), axis = 1); o[...] = log(reduce_sum(exp(x[...] - at), axis = 1));"),
    (WRONG, "let m = reduce_max(x[...], axis = 1); o[...] = log(reduce_sum(exp(x[...] - m), axis = 1)) - reduce_sum(where(iota([3, 5], axis = 1) == y[:, None], x[...], 0.0), axis = 1);"),
    words="y=randint:0:4:1",
)
form(
    "adam", "(p: f32[4], m: f32[4], v: f32[4]) -> (o: f32[4])", "o = p - 0.01 * (m / 0.9) / (sqrt(v * v / 0.99) + 1e-3);",
    (RIGHT, "o[...] = p[...] - m[...] * (0.01 / 0.9) / (sqrt(v[...] * v[...]) / sqrt(0.99) + 1e-3);"), (RIGHT, "let r = sqrt(v[...] * v[...] / 0.99); o[...] = (p[...] * (r + 1e-3) - m[...] / 90.0) / (r + 1e-3);"),
    (WRONG, "o[...] = p[...] - 0.01 * (m[...] / 0.9) / sqrt(v[...] * v[...] / 0.99 + 1e-3);"), (WRONG, "o[...] = p[...] - 0.01 * (m[...] / 0.9) / (sqrt(v[...] * v[...]) + 1e-3);"),
    (WRONG, "o[...] = p[...] - 0.01 * (m[...] / 0.9) / (v[...] / sqrt(0.99) + 1e-3);"), (WRONG, "o[...] = p[...] + 0.01 * (m[...] / 0.9) / (sqrt(v[...] * v[...] / 0.99) + 1e-3);"),
)
form(
    "roots", "(x: f32[3, 4], y: f32[3, 4]) -> (o: f32[3, 4])", "o = rsqrt(x * x + y * y + 1.0);",
    (RIGHT, "o[...] = sqrt(1.0 / (x[...] * x[...] + y[...] * y[...] + 1.0));"), (RIGHT, "let s = x[...] * x[...] + y[...] * y[...] + 1.0; o[...] = sqrt(s) / s;"), (RIGHT, "o[...] = 1.0 / hypot(x[...], sqrt(y[...] * y[...] + 1.0));"),
    (RIGHT, "let s = x[...] * x[...] + y[...] * y[...] + 1.0; let r = rsqrt(s); o[...] = r * (1.5 - 0.5 * s * r * r);"), (OPEN, "o[...] = exp(-0.5 * log(x[...] * x[...] + y[...] * y[...] + 1.0));"),
    (WRONG, "let s = x[...] * x[...] + y[...] * y[...] + 1.0; let r = rsqrt(s); o[...] = r * (1.5 - s * r * r);"), (WRONG, "o[...] = rsqrt(x[...] * x[...] + y[...] * y[...]) + 1.0;"), (WRONG, "o[...] = 1.0 / (sqrt(x[...] * x[...] + y[...] * y[...]) + 1.0);"),
    (WRONG, "o[...] = rsqrt(x[...] * x[...] + 1.0) + rsqrt(y[...] * y[...]);"), (WRONG, "o[...] = -rsqrt(x[...] * x[...] + y[...] * y[...] + 1.0);"), (WRONG, "o[...] = rsqrt((x[...] + y[...]) * (x[...] + y[...]) + 1.0);"),
)
form(
    "convolution", "(x: f32[3, 8], w: f32[3]) -> (o: f32[3, 6])", "o = x[:, 0:6] * w[0] + x[:, 1:7] * w[1] + x[:, 2:8] * w[2];",
    (RIGHT, "var a: f32[3, 6] = 0; for t in 0..3 { a[...] = a[...] + x[:, ds(2 - t, 6)] * w[2 - t]; } o[...] = a[...];"),
    (RIGHT, "o[...] = dot(x[...], where(iota([8, 6], axis = 0) == iota([8, 6], axis = 1), w[0], 0.0) + where(iota([8, 6], axis = 0) - iota([8, 6], axis = 1) == 1, w[1], 0.0)"
            " + where(iota([8, 6], axis = 0) - iota([8, 6], axis = 1) == 2, w[2], 0.0));"),
    (RIGHT, "let d = (w[0] + w[2]) * 0.5; let g = d + w[1] * 0.5; let h = d - w[1] * 0.5; for t in 0..3 { let a = x[:, ds(2 * t, 1)]; let b = x[:, ds(2 * t + 1, 1)]; let c = x[:, ds(2 * t + 2, 1)]; let e = x[:, ds(2 * t + 3, 1)];"
            " o[:, ds(2 * t, 1)] = (a - c) * w[0] + (b + c) * g + (c - b) * h; o[:, ds(2 * t + 1, 1)] = (b + c) * g - (c - b) * h - (b - e) * w[2]; }"),
    (WRONG, "var a: f32[3, 6] = 0; for t in 0..3 { a[...] = a[...] + x[:, ds(t, 6)] * w[2 - t]; } o[...] = a[...];"), (WRONG, "o[...] = x[:, 0:6] * w[0] + x[:, 1:7] * w[1];"), (WRONG, "o[...] = x[:, 0:6] * w[0] + x[:, 1:7] * w[1] + x[:, 1:7] * w[2];"),
    (WRONG, "let d = (w[0] + w[2]) * 0.5; let g = d + w[1] * 0.5; let h = d - w[1] * 0.5; for t in 0..3 { let a = x[:, ds(2 * t, 1)]; let b = x[:, ds(2 * t + 1, 1)]; let c = x[:, ds(2 * t + 2, 1)]; let e = x[:, ds(2 * t + 3, 1)];"
            " o[:, ds(2 * t, 1)] = (a - c) * w[0] + (b + c) * g + (c - b) * h; o[:, ds(2 * t + 1, 1)] = (b + c) * g - (c - b) * h + (b - e) * w[2]; }"),
)


def prove(folder, name, number, signature, words, reference, body):
    kernel = name.replace(" ", "_")
    path = Path(folder) / f"{kernel}{number}.pk"
    path.write_text(f"kernel {kernel}{signature} {{ {body} }}\nreference {kernel} {{ {reference} }}\n", encoding="utf-8")
    run = subprocess.run([PKC, "prove", str(path), *words.split(), "--quiet"], capture_output=True, text=True)
    return run.returncode, (run.stdout + run.stderr).strip()


def main():
    chosen = [word for word in sys.argv[1:] if word != "--verbose"]
    rows = [(name, k, signature, words, reference, *variant) for name, (signature, words, reference, variants) in FORMS.items() for k, variant in enumerate(variants) if not chosen or name in chosen]
    rows = sampled(rows, 60, 60, "variants")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        for row, (status, said) in zip(rows, pool.map(lambda row: prove(folder, *row[:5], row[6]), rows)):
            name, k, _, _, _, right, body = row
            check(f"{name} {k}, `{body}`, exits with {' or '.join(map(str, right))}", status in right, f"exit {status}: {said}")
            if "--verbose" in sys.argv:
                print(name, k, status, said[:300], flush=True)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
