#!/usr/bin/env python3
"""What the emulation's headers declare, as C++ that the toolkit's own headers have to agree with.

Usage: headers.py FILE...: on stdout, an assertion for each number and each function once more, for a
compiler that finds the toolkit's headers.
"""
import pathlib
import re
import sys

NUMBER = re.compile(r"\b((?:cuda|CUBLAS_|CUDA_R_)\w+) = (-?\d+)")
DEFAULT = re.compile(r" = \w+(?=[,)])")  # of a parameter: not to be said twice
FUNCTIONS = re.compile(r'extern "C" \{(.*?)\n\}', re.S)


def main():
    print("#include <cublas_v2.h>\n#include <cuda_runtime.h>")
    for path in sys.argv[1:]:
        text = pathlib.Path(path).read_text()
        for name, value in NUMBER.findall(text):
            print(f'static_assert((int){name} == {value}, "{name}");')
        for functions in FUNCTIONS.findall(text):
            print('extern "C" {' + DEFAULT.sub("", functions) + "\n}")


main()
