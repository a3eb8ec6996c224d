"""What clients were told, and what cannot go together with it. Shared by all threads of a run."""
import os
import statistics
import threading
import time


class Ledger:
    """log: path of the log of stepd, which tells between its lines what was done to it and answered."""

    def __init__(self, log):
        self.log, self.began = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), time.monotonic()
        self.lock = threading.Lock()
        self.problems = []
        self.steps = {}  # number of the step -> (key, body of the answer)
        self.begun = 0  # steps that were asked for
        self.least = 0  # the step that stepd may not fall below: of the last 200
        self.faults = {}  # class -> how often
        self.resent = self.reads = self.full = 0
        self.pending = {}  # "worker", "stepd": when it was killed
        self.dead_worker = None
        self.lost = self.doubled = 0  # at the worst, as the status told it
        self.recoveries = {"worker": [], "stepd": []}

    def note(self, *words):
        line = "chaos: %.3f %s\n" % (time.monotonic() - self.began, " ".join(map(str, words)))
        os.write(self.log, line.encode())

    def problem(self, *words):
        self.note("PROBLEM:", *words)
        with self.lock:
            if len(self.problems) < 50:
                self.problems.append(" ".join(map(str, words)))
                print("problem:", *words, flush=True)

    def fault(self, name):
        self.note("fault:", name)
        with self.lock:
            self.faults[name] = self.faults.get(name, 0) + 1

    def count_faults(self):
        with self.lock:
            return sum(self.faults.values())

    def begin_step(self):
        with self.lock:
            self.begun += 1

    def acknowledge(self, key, number, body):
        """A train call was answered 200: for the first time, or again."""
        with self.lock:
            known = self.steps.get(number)
            if known is None:
                self.steps[number] = (key, body)
                self.least = max(self.least, number)
        if known is not None and known != (key, body):
            self.problem("step %d was told as" % number, known, "and as", (key, body))

    def observe(self, before, status):
        """A status that was asked for when the step was at least `before`."""
        with self.lock:
            most, self.reads = self.begun, self.reads + 1
        with self.lock:
            self.lost = max(self.lost, before - status["step"])
            self.doubled = max(self.doubled, status["step"] - most)
        if status["step"] < before:
            self.problem("lost: step %d was acknowledged, and now it is %d" % (before, status["step"]))
        if status["step"] > most:
            self.problem("doubled: %d steps were asked for, and it is at %d" % (most, status["step"]))
        if status["replay_differences"] != 0:
            self.problem("a step was not the same when it was replayed", status)
        with self.lock:
            told = [body["loss"] for n, (_, body) in sorted(self.steps.items()) if n <= status["step"]]
            known = self.least == status["step"]
        losses = status["last_losses"]
        if known and losses and told[-len(losses):] != losses[-len(told):]:
            self.problem("status tells other losses", losses, "than the answers", told[-len(losses):])

    def killed(self, what, worker=None):
        """worker: process id of the one that was killed."""
        self.note("killed:", what, worker or "")
        with self.lock:
            self.pending[what] = time.monotonic()
            if worker is not None:
                self.dead_worker = worker

    def well(self, since, worker):
        """It serves, by this worker: what was killed before `since` has come back."""
        with self.lock:
            for what, at in list(self.pending.items()):
                if at < since and worker != self.dead_worker:
                    self.recoveries[what].append(time.monotonic() - at)
                    del self.pending[what]

    def recovery(self, what):
        times = self.recoveries[what]
        if not times:
            return "none"
        return "median %.2f s, worst %.2f s, of %d" % (statistics.median(times), max(times), len(times))
