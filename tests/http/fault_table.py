"""The table of every fault that the tests try: what was promised, and what happened.

A test tells a fault by @fault("what is done", "what was promised") over the function that tries it, or by
tell(); each program leaves its lines in $STEPD_BUILD/fault-table/. Run as a program it gathers them to
$STEPD_BUILD/fault-table.md and compares that with the kept tests/faults.md: the same faults and promises,
each held. `fault_table.py --write` keeps what was gathered.
"""
import functools
import os
import sys

import daemon

FOLDER = os.path.join(daemon.BUILD, "fault-table")
KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "faults.md")
NOT_TRIED = "not tried here"
HEAD = """# Faults

Made by `make test`: what is done to stepd and its workers, what is promised then, and what happened. `chaos`
is `make chaos`, of which `make test` runs a minute. Each line is written by the test that it names.

| fault | promised | happened | test |
| --- | --- | --- | --- |
"""


told = []


def tell(test, fault, promise, held):
    """held: None where it could not be tried."""
    os.makedirs(FOLDER, exist_ok=True)
    happened = NOT_TRIED if held is None else "held" if held else "NOT HELD"
    told.append((fault, promise, happened, test))
    with open(os.path.join(FOLDER, test), "w") as f:
        f.writelines("\t".join(line) + "\n" for line in told)


def of_program():
    return os.path.basename(sys.argv[0]).removeprefix("test_").removesuffix(".py")


def fault(what, promise):
    """Over a function: it held if no check in it failed. {0} in the words is its first argument."""
    def decorate(function):
        @functools.wraps(function)
        def tried(*args):
            before = daemon.failed
            try:
                return function(*args)
            finally:
                held = daemon.failed == before and sys.exc_info()[0] is None
                tell(of_program(), what.format(*args), promise.format(*args), held)
        return tried
    return decorate


def gathered():
    lines = []
    for name in sorted(os.listdir(FOLDER)) if os.path.isdir(FOLDER) else []:
        with open(os.path.join(FOLDER, name)) as f:
            lines += [line.rstrip("\n").split("\t") for line in f]
    return lines


def markdown(lines):
    return HEAD + "".join("| %s |\n" % " | ".join(line) for line in lines)


def compare(lines):
    kept = {}
    with open(KEPT) as f:
        for text in f.read().removeprefix(HEAD).splitlines():
            what, promise, happened, test = text.strip("| ").split(" | ")
            kept[(test, what)] = (promise, happened)
    now = {(test, what): (promise, happened) for what, promise, happened, test in lines}
    for key in sorted(kept.keys() | now.keys()):
        if key in now and now[key][1] == NOT_TRIED:
            print(*key, NOT_TRIED)
            continue
        daemon.check(kept.get(key) == now.get(key), key, "tests/faults.md has", kept.get(key), "and now", now.get(key))


if __name__ == "__main__":
    made = gathered()
    with open(os.path.join(daemon.BUILD, "fault-table.md"), "w") as out:
        out.write(markdown(made))
    if "--write" in sys.argv:
        with open(KEPT, "w") as out:
            out.write(markdown([[w, p, "held" if h == NOT_TRIED else h, t] for w, p, h, t in made]))
    compare(made)
    daemon.finish()
