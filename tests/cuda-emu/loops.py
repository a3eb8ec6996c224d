#!/usr/bin/env python3
"""What the tensor-core loops of compiled kernels consist of, read from their machine code.

Usage: loops.py OBJECT...: lines `kernel arch instructions HMMA LDSM LDGSTS MUFU share`, sorted: of each
kernel's loop with the most products, its cheapest way that does all of them and all copies, and the
share of HMMA in its instructions. A loop is bound by its tensor cores where that share is above that
of the cycles between two HMMA of a scheduler: 1/16 for sm_86 and sm_89, 1/8 for sm_80, about 1/6 for
sm_90, and all its other units keep up.

An instruction has 16 bytes, its operation is the lowest 12 bits, the 4 above are the predicate it is
executed under; as cuobjdump and nvdisasm show them, which are not in every toolkit.
"""
import pathlib
import struct
import sys

from ptxas import demangle

HMMA, LDSM, LDGSTS, MUFU = 0x23C, 0x83B, 0xFAE, 0x308
BRA, EXIT, NOP = 0x947, 0x94D, 0x918
ALWAYS = 7


def cubins(data):
    """The images of machine code in an object's fat binary."""
    at = data.find(b"\x7fELF", 1)
    while at >= 0:
        yield data[at:]
        at = data.find(b"\x7fELF", at + 1)


def texts(image):
    """(architecture, {kernel: its words}) of one image."""
    sections, flags = struct.unpack_from("<Q", image, 40)[0], struct.unpack_from("<I", image, 48)[0]
    size, count, names = struct.unpack_from("<HHH", image, 58)
    heads = [struct.unpack_from("<IIQQQQ", image, sections + i * size) for i in range(count)]
    found = {}
    for name, _, _, _, offset, length in heads:
        at = heads[names][4] + name
        text = image[at : image.index(b"\0", at)].decode()
        if text.startswith(".text."):
            words = struct.unpack_from(f"<{length // 8}Q", image, offset)
            found[text[len(".text.") :]] = list(zip(words[::2], words[1::2]))
    return flags, found


def target(arch, at, word):
    """The index of the instruction that the branch at `at` goes to."""
    high = word >> 32
    high -= (high >> 31) << 32
    offset = (high >> 2 << 8 | word >> 16 & 0xFF) * 4 if arch >= 90 else high
    return at + 1 + offset // 16


def way(arch, code, first, last):
    """The operations of the cheapest way from `first` to the branch `last` back, with most products."""
    best = {first: ((0, 0, 0), None)}

    def go(to, score, at):
        if first < to <= last and (to not in best or score > best[to][0]):
            best[to] = (score, at)

    for at in range(first, last):
        if at not in best:
            continue
        low, high = code[at]
        op, always = low & 0xFFF, low >> 12 & 0xF == ALWAYS and high >> 23 & 0xF == ALWAYS
        products, copies, cost = best[at][0]
        score = (products + (op == HMMA), copies + (op == LDGSTS), cost - (op != NOP))
        if op == BRA:
            to = target(arch, at, low)
            if to > at:
                go(to, score, at)
        if not (op in (BRA, EXIT) and always):
            go(at + 1, score, at)
    at, ops = last if last in best else None, []
    while at is not None:
        ops.append(code[at][0] & 0xFFF)
        at = best[at][1]
    return [op for op in ops if op != NOP]


def main():
    rows = set()
    for path in sys.argv[1:]:
        for image in cubins(pathlib.Path(path).read_bytes()):
            flags, kernels = texts(image)
            arch = flags >> 8 & 0xFF
            for name, code in kernels.items():
                loops = [
                    way(arch, code, target(arch, at, low), at)
                    for at, (low, _) in enumerate(code)
                    if low & 0xFFF == BRA and target(arch, at, low) < at
                ]
                loop = max(loops, key=lambda ops: (ops.count(HMMA), -len(ops)), default=[])
                if HMMA in loop:
                    counts = [loop.count(op) for op in (HMMA, LDSM, LDGSTS, MUFU)]
                    share = f"{100 * counts[0] / len(loop):.1f}%"
                    rows.add((name, f"sm_{arch}", len(loop), *counts, share))
    names = demangle(sorted({row[0] for row in rows}))
    for row in sorted((names[row[0]], *row[1:]) for row in rows):
        print(*row)
    return 0 if rows else 1


sys.exit(main())
