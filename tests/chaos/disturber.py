"""What is done to a run: each fault a name, what was promised about it, and how it is made."""
import os
import signal
import threading
import time

from client import CUTS
from store import GET_FAULTS, PUT_FAULTS

BACK = 30  # seconds for a worker to appear

PROMISES = {
    "worker killed at work": "the request is answered by the next worker",
    "worker killed on its way back": "another one is tried",
    "worker stopped for longer than a step may take": "it is ended as one that hangs, the next one answers",
    "stepd killed": "its sessions come back by themselves, with every acknowledged step",
    "stepd killed while it starts": "the next one finds everything",
    "stepd stopped and started": "steps under way end, nothing is lost",
    "connection cut before the request is whole": "nothing was done; the same request again does it once",
    "connection cut after the request": "done once; the same key finds the answer",
    "connection cut within the answer": "done once; the same key finds the answer",
    "connection cut after the answer": "done once",
    "disk full": "507: not begun, or undone; again when there is space",
    "object store answers 500 to an upload": "502; the training state is unaffected",
    "object store cuts an upload": "502; the training state is unaffected",
    "object store stalls an upload": "502; the training state is unaffected",
    "object store answers 500 after an upload": "502, not called saved",
    "object store answers 500 to a download": "502; the next try opens the session",
    "object store cuts a download": "502; the next try opens the session",
    "object store stalls a download": "502; the next try opens the session",
    "object store sends a part of a download": "502; the next try opens the session",
}
OF_PUT = dict(zip(PUT_FAULTS, [n for n in PROMISES if "upload" in n]))
OF_GET = dict(zip(GET_FAULTS, [n for n in PROMISES if "download" in n]))
# How often each is drawn, where it is not 1.
WEIGHTS = {"worker killed at work": 12, "worker killed on its way back": 5, "stepd killed": 6,
           "stepd killed while it starts": 2, "stepd stopped and started": 2, "disk full": 2,
           "worker stopped for longer than a step may take": 0.5, "object store stalls an upload": 0.5,
           **{name: 3 for name in PROMISES if name.startswith("connection")}}
NEEDS_STEPD = [name for name in PROMISES if name.startswith("stepd")]
ARMED = 2
KILLS_IN_A_ROW = 3  # without a request that was answered between them


class Disturber:
    """Draws faults until it is told to stop. Downloads are asked for by the client when it resumes, so
    their faults are armed by the run itself."""

    def __init__(self, keeper, connector, store, disk, ledger, rng, without=()):
        self.keeper, self.connector, self.store, self.disk = keeper, connector, store, disk
        self.ledger, self.rng, self.over = ledger, rng, threading.Event()
        self.since_answer, self.hung, self.issued = 0, False, 0
        self.needs_request = False  # a worker stands still, which only a request finds out
        names = [n for n in PROMISES if "download" not in n and n not in without
                 and (n != "disk full" or disk.small)]
        self.first = rng.sample(names, len(names))  # each once
        self.names, self.weights = names, [WEIGHTS.get(n, 1) for n in names]
        self.thread = threading.Thread(target=self.run, daemon=True)

    def start(self):
        self.thread.start()

    def stop(self):
        self.over.set()
        self.thread.join(120)

    def answered(self):
        """The client got somewhere."""
        self.since_answer, self.hung = 0, False

    def run(self):
        try:
            while not self.over.wait(self.rng.uniform(0, 0.4)):
                name = next((n for n in self.first if not self.is_too_much(n)), None)
                name = name or self.rng.choices(self.names, self.weights)[0]
                if self.is_too_much(name) or not self.make(name):
                    continue
                self.issued += 1
                if name in self.first:
                    self.first.remove(name)
        except Exception as error:  # noqa: BLE001: a thread's end is to be seen
            self.ledger.problem("the disturber ended: %r" % error)

    def is_too_much(self, name):
        """Nobody gets anywhere when each worker is killed; a request that meets two workers that hang
        is refused for good, as promised."""
        if name.startswith(("worker", "stepd")):
            if self.since_answer >= KILLS_IN_A_ROW or (self.hung and "longer" in name):
                return True
        # What waits for the client to come by, does not pile up.
        return (name.startswith("connection") and len(self.connector.cuts) >= ARMED or
                name.startswith("object store") and len(self.store.armed["PUT"]) >= ARMED)

    def make(self, name):
        """Whether it was done."""
        if name.startswith("connection cut "):
            self.connector.arm(CUTS[[c for c in range(4) if name.endswith(CUTS[c])][0]])
            return True  # counted when it happens
        if name.startswith("object store"):
            self.store.arm("PUT", next(f for f, n in OF_PUT.items() if n == name))
            return True
        done = {"worker killed at work": self.kill_worker,
                "worker killed on its way back": self.kill_worker_on_its_way,
                "worker stopped for longer than a step may take": self.stop_worker,
                "stepd killed": self.kill_stepd,
                "stepd killed while it starts": self.kill_stepd_starting,
                "stepd stopped and started": self.drain_stepd,
                "disk full": self.fill_disk}[name]()
        if done:
            self.ledger.fault(name)
            if not name.startswith("disk"):
                self.since_answer += 1
        return done

    def kill(self, pid, number=signal.SIGKILL):
        if pid is None:
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False  # it has ended meanwhile
        if number == signal.SIGKILL:
            self.ledger.killed("worker", pid)
        else:
            self.ledger.pending.clear()  # how long that takes is a setting, no measure
        return True

    def kill_worker(self):
        return self.kill(self.keeper.worker())

    def kill_worker_on_its_way(self):
        """One is killed so that another comes, which is killed before it is of use, or just then."""
        first = self.keeper.worker()
        if not self.kill(first):
            return False
        until = time.monotonic() + BACK
        while (pid := self.keeper.worker()) in (None, first) and time.monotonic() < until:
            time.sleep(0.005)
        time.sleep(self.rng.uniform(0, 0.3))
        return self.kill(pid)

    def stop_worker(self):
        pid = self.keeper.worker()
        if not self.kill(pid, signal.SIGSTOP):
            return False
        self.hung = self.needs_request = True
        until = time.monotonic() + 60
        while os.path.exists("/proc/%d" % pid) and not self.over.is_set():
            if time.monotonic() > until:
                self.ledger.problem("a worker that stands still is not ended")
                return True
            time.sleep(0.02)
        self.needs_request = False
        self.kill(pid, signal.SIGCONT)  # at the end of the run: let it go
        return True

    def end_stepd(self, number):
        if not self.keeper.up.wait(BACK) or not self.keeper.signal(number):
            return False
        self.ledger.killed("stepd")
        return True

    def kill_stepd(self):
        return self.end_stepd(signal.SIGKILL)

    def kill_stepd_starting(self):
        starts = self.keeper.starts
        if not self.end_stepd(signal.SIGKILL):
            return False
        until = time.monotonic() + BACK
        while self.keeper.starts == starts and time.monotonic() < until:
            time.sleep(0.002)
        time.sleep(self.rng.uniform(0, 0.15))
        if not self.keeper.signal(signal.SIGKILL):
            return False
        self.ledger.killed("stepd")
        return True

    def drain_stepd(self):
        return self.end_stepd(signal.SIGTERM)

    def fill_disk(self):
        full = self.ledger.full
        self.disk.fill()
        until = time.monotonic() + self.rng.uniform(0.1, 2)
        while time.monotonic() < until and self.ledger.full == full and not self.over.is_set():
            time.sleep(0.02)
        self.disk.free()
        return True
