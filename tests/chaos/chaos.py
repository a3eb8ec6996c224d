"""make chaos: a training run that everything happens to, beside the same run that nothing happens to.

A client trains with keys and sends again what was not answered. Meanwhile the worker and stepd are killed,
connections are cut, the disk is full, the object store fails. At the end: every step that was acknowledged
is in the adapter, once; losses, norms and all that was saved have the bits of the undisturbed run.
Standard library only.
"""
import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "http"))

import fault_table  # noqa: E402
from client import OverTime  # noqa: E402
from daemon import BUILD, check, failures, finish  # noqa: E402
from disturber import PROMISES  # noqa: E402
from run import Run  # noqa: E402

TINY = os.path.join(HERE, "..", "data", "models", "make_tiny.py")
INSIDE = "CHAOS_INSIDE"  # in the environment: in a user namespace, where a small disk can be mounted


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--faults", type=int, default=260, help="the steps are spread over so many")
    parser.add_argument("--least", type=int, default=200, help="faults that have to have happened")
    parser.add_argument("--seconds", type=int, default=400, help="after that the rest is trained in peace")
    parser.add_argument("--seed", type=int, help="what is drawn; another one each time")
    parser.add_argument("--without", action="append", default=[], help="leave out this fault")
    args = parser.parse_args()
    if args.seed is None:
        args.seed = int.from_bytes(os.urandom(4), "little")
    args.small_disk = os.environ.get(INSIDE) == "1"
    return args


def enter_namespace(args):
    """Starts over with mounts of its own, where that can be."""
    ways = ["unshare", "-rm"]
    if INSIDE in os.environ:
        return
    can = subprocess.run([*ways, "mount", "-t", "tmpfs", "none", "/mnt"], stderr=subprocess.DEVNULL)
    os.environ[INSIDE] = "1" if can.returncode == 0 else "0"
    rest = [*sys.argv, "--seed=%d" % args.seed]  # the last one counts
    command = [*(ways if can.returncode == 0 else []), sys.executable, *rest]
    os.execvp(command[0], command)


def report(args, run, quiet):
    ledger, count = run.ledger, args.steps
    lost = max(ledger.lost, sum(1 for n in ledger.steps if n > run.status["step"]))
    doubled = max(ledger.doubled, run.status["step"] - len(ledger.steps))
    kills = {what: sum(n for name, n in ledger.faults.items() if name.startswith(what))
             for what in ("worker killed", "stepd killed", "stepd stopped")}
    print("faults\t%d" % ledger.count_faults())
    for name in PROMISES:
        print("\t%3d %s" % (ledger.faults.get(name, 0), name))
    print("\tdatums %s" % ("sealed on the disk" if run.sealed else "in memory: rendered again after an end of stepd"))
    print("survived\tkills of the worker %d, kills of stepd %d, stops of stepd %d"
          % (kills["worker killed"], kills["stepd killed"], kills["stepd stopped"]))
    print("steps\t%d acknowledged, %d lost, %d doubled" % (len(ledger.steps), lost, doubled))
    print("losses and norms\t%d of %d with the bits of the undisturbed run"
          % (sum(a == b for a, b in zip(run.answers, quiet.answers)), count))
    print("state\t%d bytes, %s" % (len(run.final), "the same as of the undisturbed run"
                                   if run.final == quiet.final else "NOT those of the undisturbed run"))
    for what in ("worker", "stepd"):
        print("recovery of %s\t%s" % (what, ledger.recovery(what)))
    print("requests sent again\t%d; status read %d times" % (ledger.resent, ledger.reads), flush=True)
    check(len(ledger.steps) == count, "every step was acknowledged", len(ledger.steps))
    check(lost == 0, "no step is lost", lost)
    check(doubled == 0, "no step is doubled", doubled)
    check(run.answers == quiet.answers, "the same losses and norms", *other_answers(run.answers, quiet.answers))
    check(run.final == quiet.final, "the same bytes", *other_bytes(run.final, quiet.final))
    differ = other_artifacts(run.store.objects, quiet.store.objects)
    check(differ == [], "each artifact that was saved meanwhile has the same bytes too", *differ)
    check(ledger.count_faults() >= args.least, "enough faults", ledger.count_faults())


def other_answers(ours, right):
    return ["step %d: %r, undisturbed %r" % (i + 1, a, b) for i, (a, b) in enumerate(zip(ours, right)) if a != b]


def other_bytes(ours, right):
    for what, data in (("disturbed", ours), ("undisturbed", right)):
        yield "%s: %d bytes, SHA-256 %s;" % (what, len(data), hashlib.sha256(data).hexdigest())
    places = [i for i, (a, b) in enumerate(zip(ours, right)) if a != b]
    if places:
        yield "%d differ, from %d to %d" % (len(places), places[0], places[-1])


def other_artifacts(ours, right):
    return ["%s: %s" % (path, " ".join(other_bytes(ours.get(path, b""), right.get(path, b""))))
            for path in sorted(ours.keys() | right.keys()) if ours.get(path) != right.get(path)]


def keep(seed, runs):
    """What a run left that failed, for whoever looks: each in a folder of its own."""
    kept = os.path.join(BUILD, "chaos-logs")
    os.makedirs(kept, exist_ok=True)
    to = tempfile.mkdtemp(prefix="%s-seed-%d-" % (time.strftime("%Y%m%d-%H%M%S"), seed), dir=kept)
    for run in runs:
        name = os.path.join(to, os.path.basename(run.folder))
        shutil.copy(run.log, name + ".log")
        for path, data in list(run.store.objects.items()):
            with open(name + "-" + os.path.basename(path) + ".tar.gz", "wb") as f:
                f.write(data)
    if runs:
        with open(runs[-1].log, errors="replace") as f:
            print(f.read()[-6000:])
    with open(os.path.join(to, "failed"), "w") as f:
        f.writelines(line + "\n" for line in failures)
    print("what the run left: %s" % to)


def both(args, folder, runs):
    quiet = Run("undisturbed", args, folder, random.Random(args.seed), False)
    runs.append(quiet)
    check(quiet.whole() and not quiet.ledger.problems, "the undisturbed run", *quiet.ledger.problems)
    if quiet.final is None:
        return
    run = Run("disturbed", args, folder, random.Random(args.seed + 1), True)
    runs.append(run)
    whole = run.whole()
    check(whole, "the disturbed run came to its end")
    check(run.ledger.problems == [], "no problem", *run.ledger.problems)
    if whole:
        report(args, run, quiet)
    held = whole and not run.ledger.problems and run.final == quiet.final and run.answers == quiet.answers
    for name, promise in PROMISES.items():
        fault_table.tell("chaos", name, promise, held if run.ledger.faults.get(name) else None)


def told_to_stop(number, frame):
    """By timeout(1), say: what is under way ends as one that took too long, and is told."""
    raise OverTime("told to stop by signal %d" % number)


def main():
    args = arguments()
    enter_namespace(args)
    signal.signal(signal.SIGTERM, told_to_stop)
    print("seed\t%d (make chaos SEED=%d draws the same)" % (args.seed, args.seed), flush=True)
    folder = tempfile.mkdtemp(prefix="stepd-chaos-")
    runs = []
    try:
        subprocess.run([sys.executable, TINY, os.path.join(folder, "models", "tiny")], check=True)
        both(args, folder, runs)
    finally:
        if failures or sys.exc_info()[0]:
            keep(args.seed, runs)
        shutil.rmtree(folder, ignore_errors=True)
    finish()


if __name__ == "__main__":
    main()
