#!/usr/bin/env python3
"""`pkc check --tpu`: one kernel for each rule, with the finding it must give and no other; and kernels that must give none.

Ends with the line "N passed, N failed".
"""
import os
import re
import subprocess
import sys
import tempfile

from suite import PKC

KERNEL = "kernel k({inputs}) -> ({outputs}) {{\n{body}\n}}\n"

# name, inputs, outputs, body, sizes, chip, code (None: no finding), part of the message
CASES = [
    ("rows that are not a multiple of 8", "x: f32[M, 256]", "o: f32[M, 256]",
     "grid (i in cdiv(M, 5)); block x: [5, 256] at (i, 0); block o: [5, 256] at (i, 0); o[...] = x[...];", "M=20", "v5e",
     "E0701", "axis 0: 5 elements are neither a multiple of 8 nor the whole axis of 20; the nearest that is: 8"),
    ("columns that are not a multiple of 128", "x: f32[8, N]", "o: f32[8, N]",
     "grid (j in cdiv(N, 100) parallel); block x, o: [8, 100] at (0, j); o[...] = x[...];", "N=1000", "v4", "E0701",
     "axis 1: 100 elements are neither a multiple of 128 nor the whole axis of 1000; the nearest that is: 128"),
    ("whole axes are fine", "x: f32[M, N]", "o: f32[M, N]", "o[...] = x[...];", "M=3 N=5", "v5e", None, ""),
    ("a vector", "x: f32[N]", "o: f32[N]", "grid (i in cdiv(N, 96)); block x, o: [96] at (i); o[...] = x[...];", "N=960", "v5e",
     "E0701", "96 elements of a vector"),
    ("a vector of 256", "x: f32[N]", "o: f32[N]", "grid (i in cdiv(N, 256)); block x, o: [256] at (i); o[...] = x[...];", "N=960",
     "v5e", None, ""),
    ("rank 0 in VMEM", "x: f32, y: f32[8, 128]", "o: f32[8, 128]", "o[...] = y[...] * x;", "", "v5e", "E0701", "has rank 0"),
    ("f16", "x: f16[8, 128]", "o: f16[8, 128]", "o[...] = x[...];", "", "v5e", "E0702", "f16 is not a dtype of arrays on a TPU"),
    ("f64", "x: f64[8, 128]", "o: f32[8, 128]", "o[...] = 0;", "", "v5e", "E0702", "a TPU has no arrays of f64; it has those of bf16 or f32"),
    ("u64", "x: u64[8, 128]", "o: f32[8, 128]", "o[...] = 0;", "", "7x", "E0702", "a TPU has no arrays of u64; it has those of i32 or u32"),
    ("f64 between", "x: f32[8, 128]", "o: f32[8, 128]", "o[...] = cast(cast(x[...], f64), f32);", "", "v5e", "E0702",
     "cast gives f64: a TPU has lanes of 32 bits"),
    ("arithmetic on i8", "x: i8[32, 128]", "o: i8[32, 128]", "o[...] = x[...] + 1;", "", "v6e", "E0702",
     "add of i8: no tensor core supports it; cast to i32 first"),
    ("a sum of u32", "x: u32[8, 128]", "o: u32[8, 1]", "o[...] = reduce_sum(x[...], axis = 1);", "", "v5e", "E0702", "reduce_sum of u32"),
    ("argmax of i32", "x: i32[8, 128]", "o: i32[8, 1]", "o[...] = argmax(x[...], axis = 1);", "", "v5e", "E0702", "argmax of i32"),
    ("argmax of f32", "x: f32[8, 128]", "o: i32[8, 1]", "o[...] = argmax(x[...], axis = 1);", "", "v5e", None, ""),
    ("i8 products", "x: i8[32, 128], y: i8[128, 128]", "o: i32[32, 128]", "o[...] = dot(x[...], y[...]);", "", "v5e", None, ""),
    ("i8 products before generation 5", "x: i8[32, 128], y: i8[128, 128]", "o: i32[32, 128]", "o[...] = dot(x[...], y[...]);", "",
     "v4", "E0702", "dot of i8 and i8: the matrix unit of v4 does not take them"),
    ("u8 products", "x: u8[32, 128], y: u8[128, 128]", "o: i32[32, 128]", "o[...] = dot(x[...], y[...]);", "", "v5e", "E0702",
     "cast to a signed dtype"),
    ("e4m3 before generation 7", "x: f8e4m3fn[32, 128], y: f8e4m3fn[128, 128]", "o: f32[32, 128]", "o[...] = dot(x[...], y[...]);",
     "", "v6e", "E0702", "dot of f8e4m3fn"),
    ("bf16 by i8 on generation 4", "x: bf16[32, 128], y: i8[128, 128]", "o: f32[32, 128]", "o[...] = dot(x[...], y[...]);", "", "v4",
     None, ""),
    ("i8 by bf16 on generation 4", "x: i8[32, 128], y: bf16[128, 128]", "o: f32[32, 128]", "o[...] = dot(x[...], y[...]);", "", "v4",
     "E0702", "dot of i8 and bf16: the matrix unit of v4 does not take them; cast to bf16 or f32"),
    ("bf16 by i8 on generation 5", "x: bf16[32, 128], y: i8[128, 128]", "o: f32[32, 128]", "o[...] = dot(x[...], y[...]);", "", "v5e",
     "E0702", "dot of bf16 and i8: the matrix unit of v5e does not take them; cast to bf16 or f32"),
    ("the same after a cast", "x: bf16[32, 128], y: i8[128, 128]", "o: f32[32, 128]", "o[...] = dot(x[...], cast(y[...], bf16));", "",
     "v5e", None, ""),
    ("f32 by i8 on generation 4", "x: f32[32, 128], y: i8[128, 128]", "o: f32[32, 128]", "o[...] = dot(x[...], y[...]);", "", "v4",
     None, ""),
    ("f32 by bf16", "x: f32[32, 128], y: bf16[128, 128]", "o: f32[32, 128]", "o[...] = dot(x[...], y[...]);", "", "v4", None, ""),
    ("f32 by bf16 on generation 3", "x: f32[32, 128], y: bf16[128, 128]", "o: f32[32, 128]", "o[...] = dot(x[...], y[...]);", "",
     "v3", "E0702", "cast to f32"),
    ("bf16 by e5m2 on generation 4", "x: bf16[32, 128], y: f8e5m2[128, 128]", "o: f32[32, 128]", "o[...] = dot(x[...], y[...]);", "",
     "v4", "E0702", "dot of bf16 and f8e5m2"),
    ("bf16 by e5m2 on generation 5", "x: bf16[32, 128], y: f8e5m2[128, 128]", "o: f32[32, 128]", "o[...] = dot(x[...], y[...]);", "",
     "v5p", None, ""),
    ("bf16 by e4m3b11 on generation 6", "x: bf16[64, 128], y: f8e4m3b11fnuz[128, 128]", "o: f32[64, 128]",
     "o[...] = dot(x[...], y[...]);", "", "v6e", None, ""),
    ("the same on generation 7", "x: bf16[64, 128], y: f8e4m3b11fnuz[128, 128]", "o: f32[64, 128]", "o[...] = dot(x[...], y[...]);",
     "", "7x", "E0702", "dot of bf16 and f8e4m3b11fnuz"),
    ("bf16 by e4m3 on generation 7", "x: bf16[32, 128], y: f8e4m3fn[128, 128]", "o: f32[32, 128]", "o[...] = dot(x[...], y[...]);", "",
     "7x", None, ""),
    ("e4m3 by bf16 on generation 7", "x: f8e4m3fn[32, 128], y: bf16[128, 128]", "o: f32[32, 128]", "o[...] = dot(x[...], y[...]);", "",
     "7x", "E0702", "dot of f8e4m3fn and bf16"),
    ("bf16 by i4 on generation 7", "x: bf16[64, 128], y: i4[128, 128]", "o: f32[64, 128]", "o[...] = dot(x[...], y[...]);", "", "7x",
     "E0702", "dot of bf16 and i4"),
    ("bf16 by i4 on generation 8", "x: bf16[64, 128], y: i4[128, 128]", "o: f32[64, 128]", "o[...] = dot(x[...], y[...]);", "", "8i",
     None, ""),
    ("i4 products", "x: i4[64, 128], y: i4[128, 128]", "o: i32[64, 128]", "o[...] = dot(x[...], y[...]);", "", "v6e", None, ""),
    ("i8 by i4", "x: i8[64, 128], y: i4[128, 128]", "o: i32[64, 128]", "o[...] = dot(x[...], y[...]);", "", "v6e", "E0702",
     "cast both to i8"),
    ("a cumulative sum", "x: f32[8, 128]", "o: f32[8, 128]", "o[...] = cumsum(x[...], axis = 1);", "", "v5e", "E0703",
     "`cumsum` is not supported on the tensor core; write dot with a triangular matrix"),
    ("sorting", "x: f32[8, 128]", "o: f32[8, 128]", "o[...] = sort(x[...], axis = 1);", "", "7x", "E0703", "`sort` is not supported on the tensor core"),
    ("too much VMEM", "x: f32[8, 128]", "o: f32[8, 128]", "scratch s: vmem f32[4096, 2048];\no[...] = x[...]; s[...] = 0;", "", "v4",
     "E0704", "VMEM: 33562624 bytes of buffers in whole tiles, 16785408 more than the 16777216 of v4"),
    ("the same on a larger chip", "x: f32[8, 128]", "o: f32[8, 128]", "scratch s: vmem f32[4096, 2048];\no[...] = x[...]; s[...] = 0;",
     "", "v5e", None, ""),
    ("padding counts", "x: f32[8, 128]", "o: f32[8, 128]", "scratch s: vmem f32[4096, 9, 1];\no[...] = x[...]; s[...] = 0;", "", "v4",
     "E0704", "VMEM: 33562624 bytes"),
    ("three buffers of the grid", "x: f32[M, 128]", "o: f32[M, 128]",
     "grid (i in cdiv(M, 8)); block x: [8, 128] at (i, 0) buffers 3; block o: [8, 128] at (i, 0); o[...] = x[...];", "M=64", "v5e",
     "E0705", "the grid's pipeline has 1 or 2"),
    ("an output that a parallel axis does not move", "x: f32[M, 128]", "o: f32[8, 128]",
     "grid (i in cdiv(M, 8) parallel); o[...] = x[0:8, :];", "M=64", "v4", "E0709",
     "the parallel axis `i` does not move the blocks of `o`: both cores of v4 take its steps"),
    ("the same on one core", "x: f32[M, 128]", "o: f32[8, 128]",
     "grid (i in cdiv(M, 8) parallel); o[...] = x[0:8, :];", "M=64", "v5e", None, ""),
    ("the same along an arbitrary axis", "x: f32[M, 128]", "o: f32[8, 128]",
     "grid (i in cdiv(M, 8) arbitrary); o[...] = x[0:8, :];", "M=64", "v4", None, ""),
    ("independent steps in order on a megacore", "x: f32[M, N]", "o: f32[M, N]",
     "grid (i in cdiv(M, 8), j in cdiv(N, 128));\nblock x, o: [8, 128] at (i, j); o[...] = x[...];", "M=64 N=256", "v4", "E0710",
     "k.pk:2:7: warning: one core of v4 executes all steps, though those along `i` provably do not depend on each other"),
    ("independent steps along the second axis alone", "x: f32[M, N]", "o: f32[M, N]",
     "grid (i in cdiv(M, 8), j in cdiv(N, 128));\nblock x, o: [8, 128] at (i, j); o[...] = x[...];", "M=8 N=256", "v5p", "E0710",
     "k.pk:2:24: warning: one core of v5p executes all steps, though those along `j`"),
    ("independent steps, and another axis is parallel", "x: f32[M, N]", "o: f32[M, N]",
     "grid (i in cdiv(M, 8), j in cdiv(N, 128) parallel);\nblock x, o: [8, 128] at (i, j); o[...] = x[...];", "M=64 N=256", "v4", None, ""),
    ("one step on a megacore", "x: f32[M, N]", "o: f32[M, N]",
     "grid (i in cdiv(M, 8));\nblock x, o: [8, N] at (i, 0); o[...] = x[...];", "M=8 N=256", "v4", None, ""),
    ("independent steps on a chip of one core", "x: f32[M, N]", "o: f32[M, N]",
     "grid (i in cdiv(M, 8));\nblock x, o: [8, N] at (i, 0); o[...] = x[...];", "M=64 N=256", "v5e", None, ""),
    ("a grid whose length is data, on a megacore", "x: f32[M, N]", "o: f32[M, N]",
     "prefetch n: i32[1]; grid (i in n[0]);\nblock x, o: [8, N] at (i, 0); o[...] = x[...];", "M=64 N=256 n=const:2", "v4", None, ""),
    ("a running sum on a megacore", "x: f32[M, 128]", "o: f32[M, 128]",
     "grid (i in cdiv(M, 8));\nblock x, o: [8, 128] at (i, 0); scratch s: vmem f32[8, 128];"
     "when i == 0 { s[...] = 0.0; } s[...] += x[...]; o[...] = s[...];", "M=64", "v4", None, ""),
    ("vectors in scalar memory", "x: f32[4]", "o: f32[1, 4]", "block x: smem; o[...] = x[...][None, :];", "", "v5e", "E0706",
     "scalar memory is read and written by single elements"),
    ("scalars in vector memory", "x: f32[8, 128]", "o: f32[8, 128]", "o[...] = x[...]; o[0, 0] = 1;", "", "v5e", "E0706",
     "a scalar is not stored to VMEM: write `o[0:1, 0:1] = ..`"),
    ("a masked load", "x: f32[8, 128]", "o: f32[8, 128]", "o[...] = load(x[...], mask = x[...] > 0, other = 0);", "", "v5e", "E0706",
     "the tensor core has no masked loads"),
    ("a masked store of bf16", "x: bf16[16, 128]", "o: bf16[16, 128]",
     "o[...] = x[...]; store(o[...], x[...] + x[...], mask = x[...] > 0);", "", "v5e", "E0706", "a masked store takes 32-bit elements"),
    ("a slice of bf16 rows", "x: bf16[64, 128], n: i32[1]", "o: bf16[16, 128]",
     "block n: smem; o[...] = x[ds(n[0], 16), :];", "n=zeros", "v5e", "E0707", "load of `x`, axis 0: its start is not known to be a multiple"),
    ("a slice of f32 rows", "x: f32[64, 128], n: i32[1]", "o: f32[8, 128]", "block n: smem; o[...] = x[ds(n[0], 8), :];", "n=zeros",
     "v5e", None, ""),
    ("a copy of five rows", "x: f32[64, 128]", "o: f32[8, 128]",
     "block x: any; scratch b: vmem f32[8, 128], s: sem dma;\nb[...] = 0; async_copy(x[3:8, :] -> b[0:5, :], s).start();"
     "async_copy(x[3:8, :] -> b[0:5, :], s).wait(); o[...] = b[...];", "", "v5e", "E0707", "a copy from a slice of `x`, axis 0: its start is not known"),
    ("a copy of a multiple", "x: f32[M, 128]", "o: f32[8, 128]",
     "block x: any; scratch b: vmem f32[8, 128], s: sem dma;\nlet i = M / 16; async_copy(x[ds(i * 8, 8), :] -> b[...], s).start();"
     "async_copy(x[ds(i * 8, 8), :] -> b[...], s).wait(); o[...] = b[...];", "M=32", "v5e", None, ""),
    ("slices at quarters that are whole tiles", "x: f32[M, 128]", "o: f32[8, 128]",
     "block x: any; scratch s: sem dma; for i in 0..4 { let c = async_copy(x[ds(i * (M / 4), 8), :] -> o[...], s); c.start(); c.wait(); }", "M=64", "v5e", None, ""),
    ("slices at quarters that are not", "x: f32[M, 128]", "o: f32[8, 128]",
     "block x: any; scratch s: sem dma; for i in 0..4 { let c = async_copy(x[ds(i * (M / 4), 8), :] -> o[...], s); c.start(); c.wait(); }", "M=48", "v5e",
     "E0707", "a copy from a slice of `x`, axis 0: its start is not known to be a multiple"),
    ("a reshape across lanes", "x: f32[8, 128]", "o: f32[4, 256]", "o[...] = reshape(x[...], [4, 256]);", "", "v5e", "E0708",
     "fold the axes before it into it, or split it: this one does none of these; use two reshapes"),
    ("the same in two steps", "x: f32[8, 128]", "o: f32[4, 256]", "o[...] = reshape(reshape(x[...], [4, 2, 128]), [4, 256]);", "", "v4", None, ""),
    ("lanes split into whole tiles", "x: bf16[16, 256]", "o: bf16[16, 2, 128]", "o[...] = reshape(x[...], [16, 2, 128]);", "", "v4", None, ""),
    ("lanes split into 120", "x: f32[8, 240]", "o: f32[8, 2, 120]", "o[...] = reshape(x[...], [8, 2, 120]);", "", "v4", "E0708",
     "splits the last axis into parts of 120 lanes, which is not a multiple of 128: supported from generation 5 on, not on v4"),
    ("the same on generation 5", "x: f32[8, 240]", "o: f32[8, 2, 120]", "o[...] = reshape(x[...], [8, 2, 120]);", "", "v5e", None, ""),
    ("lanes split into three axes, others joined", "x: f32[4, 4, 1024]", "o: f32[16, 2, 4, 128]",
     "o[...] = reshape(x[...], [16, 2, 4, 128]);", "", "v4", None, ""),
    ("rows folded into lanes", "x: f32[5, 3, 200]", "o: f32[5, 600]", "o[...] = reshape(x[...], [5, 600]);", "", "v4", None, ""),
    ("rows of a size folded into lanes", "x: f32[M, 4, 128]", "o: f32[M, 512]", "o[...] = reshape(x[...], [M, 512]);", "M=16", "v5e", None, ""),
    ("bytes folded into one axis", "x: i8[32, 128]", "o: i8[4096]", "o[...] = reshape(x[...], [4096]);", "", "v4", "E0708",
     "a reshape of i8 to one axis: supported from generation 5 on, not on v4"),
    *(("%s of i16 on %s" % (op, chip), "x: i16[16, 128]", "o: i16[16, 128]", "o[...] = %s;" % op, "", chip, code, "")
      for op in ("-x[...]", "x[...] - x[...]", "x[...] * x[...]", "sign(x[...])") for chip, code in (("v3", "E0702"), ("v4", None), ("v6e", None))),
    ("argmax along lanes on generation 4", "x: f32[8, 128]", "o: i32[8, 1]", "o[...] = argmax(x[...], axis = 1);", "", "v4", None, ""),
    ("a cast through i64", "x: f32[8, 128]", "o: f32[8, 128]", "o[...] = cast(cast(x[...], i64), f32);", "", "v5e", "E0702", "cast gives i64"),
    ("an index of 64 bits", "x: f32[8, 128]", "o: f32[8, 128]",
     "grid (i in 1); let r = i * 8 + iota([8, 128], axis = 0); o[...] = where(r < 3, x[...], 0);", "", "v5e", None, ""),
    ("a cast through f16", "x: f32[8, 128]", "o: f32[8, 128]", "o[...] = cast(cast(x[...], f16), f32);", "", "v5e", "E0702", "cast gives f16"),
    ("a run-time slice of a vector", "x: f32[512]", "o: f32[N]",
     "grid (i in 4); block x: [512] at (0); block o: [128] at (i); o[...] = x[ds(i * 128, 128)];", "N=512", "v5e", "E0707",
     "not to be a multiple of 1024"),
    ("a run-time slice of whole tiles of a vector", "x: f32[4096]", "o: f32[N]",
     "grid (i in 4); block x: [4096] at (0); block o: [1024] at (i); o[...] = x[ds(i * 1024, 1024)];", "N=4096", "v5e", None, ""),
    ("a run-time lane", "x: f32[8, 512], n: i32[1]", "o: f32[8, 128]", "block n: smem; o[...] = x[:, ds(n[0], 128)];", "n=zeros", "v5e",
     "E0707", "axis 1: its start is known only at run time"),
    ("run-time lanes in whole registers", "x: f32[8, 512], n: i32[1]", "o: f32[8, 128]",
     "block n: smem; o[...] = x[:, ds(n[0] * 128, 128)];", "n=zeros", "v5e", None, ""),
    ("a strided load of f32 rows", "x: f32[16, 128]", "o: f32[8, 128]", "o[...] = x[ds(0, 8, 2), :];", "", "v5e", None, ""),
    ("a strided load of bf16 rows", "x: bf16[32, 128]", "o: bf16[16, 128]", "o[...] = x[ds(0, 16, 2), :];", "", "v5e", "E0706",
     "a strided load takes 32-bit elements"),
    ("a stride along lanes", "x: f32[8, 256]", "o: f32[8, 128]", "o[...] = x[:, ds(0, 128, 2)];", "", "v5e", "E0706",
     "has a stride along its last axis"),
    ("a gather within a register", "x: f32[8, 128], i: i32[8, 128]", "o: f32[8, 128]", "o[...] = take_along_axis(x[...], i[...], axis = 1);",
     "i=zeros", "v5e", None, ""),
    ("a gather beyond a register", "x: f32[8, 256], i: i32[8, 256]", "o: f32[8, 256]", "o[...] = take_along_axis(x[...], i[...], axis = 1);",
     "i=zeros", "v5e", "E0703", "take_along_axis reads 256 elements along axis 1: one vector register holds 128"),
    ("values too large for VMEM", "x: f32[4096, 4096]", "o: f32[4096, 4096]",
     "let y = x[...] * 2; let z = dot(y, y); o[...] = z - reduce_max(z, axis = 1);", "", "v5e", "E0704", "bytes of buffers and values"),
    ("copies before generation 4", "x: f32[8, 128]", "o: f32[8, 128]",
     "block x: any; scratch b: vmem f32[8, 128], s: sem dma;\nb[...] = 0; async_copy(x[...] -> b[...], s).start();"
     "async_copy(x[...] -> b[...], s).wait(); o[...] = b[...];", "", "v3", "E0706", "from generation 4 on"),
]

WARNINGS = {"E0709", "E0710"}  # the kernel runs

# A kernel for each row of codegen/tpu/rules.def; the first generation of the row accepts it, and the one before refuses it.
CHIPS = {2: "v2", 3: "v3", 4: "v4", 5: "v5e", 6: "v6e", 7: "7x"}
BODIES = {
    "ARITHMETIC": ("", "{t}[64, 128]", "x[...] {op} x[...]"),
    "ADD": ("", "{t}[64, 128]", "max(x[...], x[...])"),
    "COMPARE": ("", "f32[64, 128]", "where(x[...] {less} x[...], 1.0, 0.0)"),
    "REDUCE": ("", "{t}[64, 1]", "{reduce}(x[...], axis = 1)"),
    "ARG_REDUCE": ("", "i32[64, 1]", "argmax(x[...], axis = 1)"),
    "GATHER_LANES": (", i: {i}[64, 128]", "{t}[64, 128]", "take_along_axis(x[...], i[...], axis = 1)"),
    "GATHER_SUBLANES": (", i: {i}[{n}, 128]", "{t}[{n}, 128]", "take_along_axis(x[...], i[...], axis = 0)"),
}


def rows():
    with open(os.path.join(os.path.dirname(__file__), "..", "codegen", "tpu", "rules.def"), encoding="utf-8") as f:
        return re.findall(r"^RULE\((\w+), (\w+), (\w+), \w+\)", f.read(), re.M)


def probes():
    for group, dtype, since in rows():
        t = dtype.lower()
        bits = {"bool": 32}.get(t) or int(re.search(r"\d+", t).group())
        if bits == 64 or t == "bool":
            continue
        words = {"t": t, "op": "/", "less": "<", "reduce": "reduce_sum", "i": {32: "i32", 16: "i16", 8: "i8"}.get(bits, "i32"), "n": 8 * 32 // bits}
        more, out, value = (text.format(**words) for text in BODIES[group])
        rows_in = words["n"] if group == "GATHER_SUBLANES" else 64
        for generation, chip in CHIPS.items():
            good = since != "NEVER" and generation >= int(since)
            yield (f"{group} {t} on {chip}", f"x: {t}[{rows_in}, 128]{more}", f"o: {out}", f"o[...] = {value};", "", chip,
                   None if good else "E0702", "")


# The dtypes of the matrix unit of each generation, by JAX's is_matmul_supported; Pallas refuses unsigned operands.
FLOATS5, FLOATS7 = {"f32", "bf16", "f8e5m2", "f8e4m3b11fnuz"}, {"f8e5m2", "f8e4m3fn"}
PAIRS = {
    3: [({"f32"}, {"f32"})],
    4: [({"f32", "bf16"}, {"f32", "bf16", "i8"})],
    5: [(FLOATS5, FLOATS5), ({"i8"}, {"i8"}), ({"i4"}, {"i4"})],
    6: [(FLOATS5, FLOATS5), ({"i8"}, {"i8"}), ({"i4"}, {"i4"})],
    7: [({"f32", "bf16"}, {"f32", "bf16"} | FLOATS7), (FLOATS7, FLOATS7)],
    8: [({"f32", "bf16"}, {"f32", "bf16", "i4"} | FLOATS7), (FLOATS7, FLOATS7 | {"i4"})],
}


def products():
    dtypes = ["f32", "bf16", "f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz", "i8", "i4"]
    for generation, pairs in PAIRS.items():
        for left in dtypes:
            for right in dtypes:
                out = "i32" if left[0] == right[0] == "i" else "f32"
                good = any(left in a and right in b for a, b in pairs)
                chip = {**CHIPS, 8: "8t"}[generation]
                yield (f"dot of {left} and {right} on {chip}", f"x: {left}[64, 128], y: {right}[128, 128]", f"o: {out}[64, 128]",
                       "o[...] = dot(x[...], y[...]);", "", chip, None if good else "E0702", "")


def check(case, folder):
    name, inputs, outputs, body, sizes, chip, code, text = case
    path = os.path.join(folder, "k.pk")
    with open(path, "w", encoding="utf-8") as f:
        f.write(KERNEL.format(inputs=inputs, outputs=outputs, body=body))
    run = subprocess.run([PKC, "check", path, "--tpu", chip, *sizes.split()], capture_output=True, text=True)
    codes = re.findall(r"\[(E07\d\d)\]", run.stderr)
    good = set(codes) == ({code} if code else set()) and text in run.stderr and run.returncode == (3 if code and code not in WARNINGS else 0)
    if not good:
        said = " / ".join((run.stdout + run.stderr).strip().splitlines())
        print(f"FAIL {name}: expected {code}, exit status {run.returncode}: {said}; reproduce: tests/tpu_rules.py")
    return good


def main():
    with tempfile.TemporaryDirectory() as folder:
        results = [check(case, folder) for case in [*CASES, *probes(), *products()]]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return not all(results)


if __name__ == "__main__":
    sys.exit(main())
