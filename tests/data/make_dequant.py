#!/usr/bin/env python3
"""Writes tests/unit/dequant_values.h: a block or two of every type with what gguf-py makes of it.

Needs the packages gguf and numpy. Usage: make_dequant.py > tests/unit/dequant_values.h
"""
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

NAMES = "F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K".split()
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2],
          "Q6_K": [208]}


def rows(items, form, width):
    for i in range(0, len(items), width):
        print("\t" + ", ".join(form % x for x in items[i:i + width]) + ",")


print("/* clang-format off */")
print("/* Made by tests/data/make_dequant.py with gguf-py: raw blocks and the bits of their values. */")
rng = np.random.default_rng(20261201)
for name in NAMES:
    kind = GGMLQuantizationType[name]
    block, size = GGML_QUANT_SIZES[kind]
    count = {1: 64, 32: 2, 256: 1}[block]
    raw = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in HALVES.get(name, []):  # scales as models have them: finite, small, one negative
        scale = rng.uniform(-0.05, 0.05, count).astype(np.float16)
        raw[:, at:at + 2] = scale.view(np.uint8).reshape(count, 2)
    if name == "F16":
        raw = np.array([0, 0x8000, 1, 0x83ff, 0x400, 0x3c00, 0x7bff, 0xfbff, 0x7c00, 0xfc00] +
                       list(rng.integers(0, 0x7c00, 54)), dtype=np.uint16).view(np.uint8).reshape(64, 2)
        values = raw.reshape(-1).view(np.float16).astype(np.float32)
    elif name == "BF16":
        raw = (rng.normal(0, 1, 64).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        raw = raw.view(np.uint8).reshape(64, 2)
        values = quants.dequantize(raw.reshape(1, -1), kind).ravel()
    else:
        values = quants.dequantize(raw.reshape(1, -1), kind).ravel()
    print("static const unsigned char raw_%s[] = {" % name)
    rows(raw.ravel().tolist(), "0x%02x", 16)
    print("};\nstatic const uint32_t values_%s[] = {" % name)
    rows(np.ascontiguousarray(values, dtype=np.float32).view(np.uint32).tolist(), "0x%08x", 8)
    print("};")
