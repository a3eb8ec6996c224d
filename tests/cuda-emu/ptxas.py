#!/usr/bin/env python3
"""What ptxas said of each kernel, from the .ptxas files beside the objects, as a table.

Usage: ptxas.py FOLDER: lines `kernel arch registers shared-bytes stack-bytes`, sorted. A kernel that
spills is told on stderr, and the exit status is 1.
"""
import pathlib
import re
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def demangle(names):
    """name -> `kernel<types>`, without the parameters."""
    out = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    plain = {}
    for name, text in zip(names, out.stdout.splitlines()):
        plain[name] = re.sub(r"^void ", "", text.split("(", 1)[0]).replace(" ", "")
    return plain


def main():
    rows, spilled = [], []
    for path in sorted(pathlib.Path(sys.argv[1]).glob("**/*.ptxas")):
        entry = stack = None
        for line in path.read_text().splitlines():
            if m := ENTRY.search(line):
                entry = m.groups()
            elif m := FRAME.search(line):
                stack = m[1]
                if m[2] != "0" or m[3] != "0":
                    spilled.append((entry, m[0]))
            elif (m := USED.search(line)) and entry:
                shared = SHARED.search(line)
                rows.append((*entry, m[1], shared[1] if shared else "0", stack))
                entry = None
    names = demangle(sorted({r[0] for r in rows}))
    for row in sorted((names[r[0]], *r[1:]) for r in rows):
        print(*row)
    for (name, arch), text in spilled:
        print(f"{name} for {arch} spills: {text}", file=sys.stderr)
    return 1 if spilled else 0


if __name__ == "__main__":
    sys.exit(main())
