"""The cases of the fail tests: which calls are made to fail, in which order, and what of them was tried.

An undisturbed run of each operation is traced (tests/fault/fail_trace.c): every call that can fail, with the
hash of its chain of return addresses, and the nearest of these in the program itself, its site. Of each
chain the first, the second and the last call is a case, for each error that it may have. Those between them
come from the same instructions at the same depth of the same callers, and fail into the same handling; what
differs is how much a loop has already done, of which nothing, something and all are tried. ALL=1 takes every
call. Neither shows a second failure while the first is handled, calls that an undisturbed run does not come
to, or an order of threads that did not come.
"""
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback

import daemon
from daemon import check
from fail_nth import ERRORS

ALL = os.environ.get("ALL", "0") not in ("", "0")
JOBS = int(os.environ.get("FAIL_JOBS", "3"))
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1
ONLY = sys.argv[3] if len(sys.argv) > 3 else ""
AGAIN = 5  # so often a chain is looked for that was not met
PATIENCE = 2.5  # so many times as long, where the sites are not through by then
COUNTS = 3  # undisturbed runs of an operation: they differ where threads meet
Case = collections.namedtuple("Case", "operation kind nth error chain site")


def seconds(default):
    """For about how long cases are tried; 0: all of them."""
    return float(sys.argv[1]) if len(sys.argv) > 1 else default


def folder_in_memory():
    """A new folder where writing and syncing take no time, if there is one: what the disk does is not asked."""
    shm = "/dev/shm"
    there = os.access(shm, os.W_OK) and not os.statvfs(shm).f_flag & os.ST_NOEXEC
    roomy = there and os.statvfs(shm).f_bavail * os.statvfs(shm).f_bsize > 1 << 30
    return tempfile.mkdtemp(prefix="stepd-test-", dir=shm if roomy else None)


def side_by_side(work, jobs):
    """Calls work(part) in so many processes; their results, and their checks among ours."""
    pipes = []
    for part in range(jobs):
        r, w = os.pipe()
        sys.stdout.flush()
        if os.fork() == 0:
            status = 1
            try:
                daemon.passed = daemon.failed = 0
                result = json.dumps([work(part), daemon.passed, daemon.failed])
                with open(w, "w") as f:
                    f.write(result)
                status = 0
            except BaseException:
                traceback.print_exc(file=sys.stdout)
            finally:
                sys.stdout.flush()
                os._exit(status)
        os.close(w)
        pipes.append(open(r))
    results = []
    for pipe in pipes:
        with pipe:
            said = pipe.read()
        check(os.wait()[1] == 0 and said, "a part came to its end")
        if said:
            result, passed, failed = json.loads(said)
            daemon.passed, daemon.failed = daemon.passed + passed, daemon.failed + failed
            results.append(result)
    return results


class Cases:
    """Of a group of operations. begin() is a context: a service with trace(operation), which gives the class,
    chain and site of each call of an undisturbed run, one(operation, kind, nth, error, chain=0), which tries a
    case and gives whether it met its fault, and the chain and site where, and leave(): the next is the first of
    its session."""

    def __init__(self, group, operations, begin, first=False, counted=False):
        """first: of each chain the first call alone. counted: the n-th call is always the same one, so that it
        is found by counting, which takes less time than looking at each call's chain."""
        self.group, self.operations, self.begin, self.first = group, operations, begin, first
        self.by_chain = not (counted or ALL)
        self.known, self.tried, self.done, self.fired, self.listed, self.calls = {}, set(), 0, 0, 0, 0

    def traced(self, _):
        with self.begin() as run:
            return [[operation, list(run.trace(operation))] for operation in self.operations for _ in range(COUNTS)]

    def count(self):
        """The calls of undisturbed runs: for each (operation, class, chain) the site and each n."""
        found, calls = {}, collections.Counter()
        for operation, trace in side_by_side(self.traced, 1)[0]:
            n, here = collections.Counter(), {}
            for kind, chain, site in trace:
                n[kind] += 1
                here.setdefault((operation, kind, chain), (site, []))[1].append(n[kind])
            for key in here:
                found.setdefault(key, here[key])
            calls[operation] = max(calls[operation], sum(n[kind] * len(ERRORS[kind]) for kind in n))
        self.calls = sum(calls.values())
        self.known.update((key, site) for key, (site, _) in found.items())
        return found

    def list(self, found):
        """In an order from the seed: each site first, then each chain, then the rest; and how many sites."""
        cases = []
        for key, (site, all_n) in found.items():
            if self.by_chain:
                all_n = range(1, len(all_n) + 1)
            chosen = all_n[:1] if self.first else all_n if ALL else sorted({*all_n[:2], all_n[-1]})
            cases += [Case(*key[:2], n, error, key[2], site) for n in chosen for error in ERRORS[key[1]]
                      if ONLY in "%s/%s/%d/%d" % (*key[:2], n, error)]
        random.Random(SEED).shuffle(cases)
        for what in (lambda c: (c.operation, c.kind, c.chain), lambda c: (c.kind, c.chain),
                     lambda c: (c.kind, c.site)):
            seen = set()
            cases.sort(key=lambda c: what(c) in seen or seen.add(what(c)) is not None)
        return cases, len(seen)

    def work(self, cases, sites, again, end, last):
        """Tries cases until the end, the first of each site until the last; what was tried, how many of how many
        were met, and the slowest."""
        tried, slow, fired, done = set(), [], 0, 0
        with self.begin() as run:
            for case in cases:
                if time.monotonic() > (end if done >= sites else last):
                    break
                began = time.monotonic()
                for number in range(AGAIN if again else 1):
                    if number > 0:
                        run.leave()
                    met, (chain, _) = run.one(*case[:4], case.chain if self.by_chain else 0)
                    if met:
                        break
                slow = sorted(slow + [(round(time.monotonic() - began, 1), "%s/%s/%d/%d" % case[:4])])[-5:]
                done, fired = done + 1, fired + met
                if met:
                    tried.add((*case[:2], chain))
                if end > 1e9 and done % 200 == 0:
                    print("  %s: %d of %d" % (self.group, done, len(cases)), flush=True)
        return [[*key] for key in tried], done, fired, slow

    def try_all(self, limit):
        """limit: seconds, or 0 for all, and then again for the chains that were not met."""
        began = time.monotonic()
        end, last, slow = began + (limit or 2e9), began + (limit or 2e9) * PATIENCE, []
        found = self.count()
        for again in (False,) if limit else (False, True):
            self.by_chain, self.first = self.by_chain or again, self.first or again
            cases, sites = self.list({key: ns for key, ns in found.items() if key not in self.tried})
            self.listed += len(cases)
            for tried, done, fired, slowest in side_by_side(
                    lambda part: self.work(cases[part::JOBS], len(range(part, sites, JOBS)), again, end, last),
                    JOBS if cases else 0):
                self.tried.update(tuple(key) for key in tried)
                self.done, self.fired, slow = self.done + done, self.fired + fired, slow + slowest
        check(self.done > 0 or ONLY, "something was tried", self.group)
        self.report(time.monotonic() - began, sorted(slow)[-5:])

    def report(self, took, slow):
        """A chain is tried where it was met, whatever the operation was."""
        chains = {key[1:]: site for key, site in self.known.items()}
        missed = chains.keys() - {key[1:] for key in self.tried}
        sites = {(kind, site) for (kind, _), site in chains.items()}
        away = sites - {(kind, site) for (kind, chain), site in chains.items() if (kind, chain) not in missed}
        print("%s: %d cases of %d (every n: %d), %d of them met their fault; %d of %d call chains, %d of %d call sites; "
              "%.0f s" % (self.group, self.done, self.listed, self.calls, self.fired, len(chains) - len(missed),
                          len(chains), len(sites) - len(away), len(sites), took))
        if took > 60:
            print("  slowest: " + ", ".join("%s s %s" % tuple(pair) for pair in slow))
        if missed and not ONLY:
            where = collections.Counter(kind for kind, _ in missed)
            print("skipped: %s: %d of %d call chains, %d of %d call sites (make fail-nth): %s" % (
                self.group, len(missed), len(chains), len(away), len(sites),
                ", ".join("%s %d" % pair for pair in where.most_common())))


def line_of(program, site):
    """Function, file and line of a site."""
    done = subprocess.run(["addr2line", "-f", "-e", os.path.join(daemon.BUILD, program), hex(site - 1)],
                          capture_output=True, text=True)
    return " ".join(done.stdout.split()) or hex(site)
