"""The table of every fault that the tests try: what was promised, and what happened.

A test tells a fault by @fault("what is done", "what was promised") over the function that tries it, or by
held() after the checks of one fault of several; each program leaves its lines in $STEPD_BUILD/fault-table/. Run as a program it gathers them to
$STEPD_BUILD/fault-table.md and compares that with the kept tests/faults.md: the same faults and promises,
each held. --write keeps what was gathered; --only TEST compares what one test told.
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


told, judged = [], 0


def tell(test, fault, promise, held):
    """held: None where it could not be tried."""
    os.makedirs(FOLDER, exist_ok=True)
    happened = NOT_TRIED if held is None else "held" if held else "NOT HELD"
    told.append((fault, promise, happened, test))
    with open(os.path.join(FOLDER, test), "w") as f:
        f.writelines("\t".join(line) + "\n" for line in told)


def of_program():
    return os.path.basename(sys.argv[0]).removeprefix("test_").removesuffix(".py")


def held(what, promise):
    """Of the checks since the line before this one: it held if none of them failed."""
    global judged
    tell(of_program(), what, promise, daemon.failed == judged)
    judged = daemon.failed


def not_tried(what, promise):
    tell(of_program(), what, promise, None)


def fault(what, promise):
    """Over a function: it held if no check in it failed; it may return NOT_TRIED. {0} in the words is its
    first argument."""
    def decorate(function):
        @functools.wraps(function)
        def tried(*args):
            global judged
            before = daemon.failed
            result = function(*args)
            held = None if result == NOT_TRIED else daemon.failed == before
            tell(of_program(), what.format(*args), promise.format(*args), held)
            judged = daemon.failed
            return result
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


def compare(lines, only=None):
    kept = {}
    with open(KEPT) as f:
        for text in f.read().removeprefix(HEAD).splitlines():
            what, promise, happened, test = text.strip("| ").split(" | ")
            kept[(test, what)] = (promise, happened)
    now = {(test, what): (promise, happened) for what, promise, happened, test in lines}
    if only is not None:
        kept, now = ({key: of[key] for key in of if key[0] == only} for of in (kept, now))
    for key in sorted(kept.keys() | now.keys()):
        if key in now and now[key][1] == NOT_TRIED:
            print(*key, NOT_TRIED)
            continue
        daemon.check(kept.get(key) == now.get(key), key, "tests/faults.md has", kept.get(key), "and now", now.get(key))
    if daemon.failed:
        print("where the tests are right, tests/http/fault_table.py --write keeps what they told")


if __name__ == "__main__":
    made = gathered()
    with open(os.path.join(daemon.BUILD, "fault-table.md"), "w") as out:
        out.write(markdown(made))
    if "--write" in sys.argv:
        with open(KEPT, "w") as out:
            out.write(markdown([[w, p, "held" if h == NOT_TRIED else h, t] for w, p, h, t in made]))
    compare(made, sys.argv[2] if sys.argv[1:2] == ["--only"] else None)
    daemon.finish()
