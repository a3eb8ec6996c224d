"""A stepd of one GPU whose worker computes with the emulated CUDA kernels, whose calls fail as a page says."""
import collections
import mmap
import os
import re
import signal
import stat
import struct
import tempfile
import time

from daemon import BUILD, check
from tiny_model import make_model
from trainer import Trainer

WORKER = os.path.abspath(os.path.join(BUILD, "cuda-emu", "served", "stepd-worker"))
UUID = "GPU-00112233-4455-6677-8899-aabbccddeeff"
HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cuda-emu", "fail.h")
CLASSES = re.findall(r"\tX\(\w+, \"(\w+)\",", open(HEADER).read())


class Page:
    """As tests/cuda-emu/fail.h has it. A fault is a class, an error of CUDA's, and when it is told."""
    NOTED = 108
    SIZE = NOTED + 8 * 65536

    def __init__(self, path):
        self.path = path
        if not os.path.exists(path):
            with open(path, "wb") as f:
                f.truncate(self.SIZE)
        with open(path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), self.SIZE)

    def arm(self, kind, nth, error, late=False, only="", every=False):
        struct.pack_into("IIiII", self.map, 4, nth, late, error, 0, 0)
        struct.pack_into("32sI", self.map, 64, only.encode(), every)
        struct.pack_into("I", self.map, 0, CLASSES.index(kind) + 1)

    def disarm(self):
        struct.pack_into("I", self.map, 0, 0)

    def note(self):
        """From here on every call is counted, by its class."""
        struct.pack_into("II", self.map, 100, True, 0)

    def noted(self):
        calls = struct.iter_unpack("II", self.map[self.NOTED:self.NOTED + 8 * self.field(26)])
        struct.pack_into("I", self.map, 100, False)
        return collections.Counter(CLASSES[kind - 1] for kind, _ in calls)

    def field(self, index):
        return struct.unpack_from("I", self.map, 4 * index)[0]

    def lose(self, lost):
        """Whether processes that begin find no device."""
        struct.pack_into("I", self.map, 24, lost)

    fired = property(lambda self: self.field(5))
    name = property(lambda self: self.map[28:64].split(b"\0")[0].decode())


class Gpu(Trainer):
    """set_device() tells the emulation what the device of the workers to come is."""

    def __init__(self, folder=None, **settings):
        folder = folder or tempfile.mkdtemp(prefix="stepd-test-")
        models, state = os.path.join(folder, "models"), os.path.join(folder, "state")
        if not os.path.isdir(models):
            make_model(os.path.join(models, "tiny"))
        os.makedirs(state, mode=0o700, exist_ok=True)
        self.page = Page(os.path.join(state, "emu-page"))  # where stepd and its workers may write
        self.cuda = os.path.join(folder, "worker-cuda")
        self.set_device()
        super().__init__(folder=folder, **{"STEPD_WORKER_CUDA": self.cuda, "STEPD_DEVICES": UUID, "STEPD_THREADS": "1",
                                           "STEPD_LOG_LEVEL": "info", "STEPD_SNAPSHOT_STEPS": "5",
                                           "STEPD_PERSIST_DATA": "true", "STEPD_END_TIMEOUT": "10", **settings})

    def set_device(self, **settings):
        environment = {"EMU_GUARD": 0, "EMU_FAIL_PAGE": '"%s"' % self.page.path, **settings}
        with open(self.cuda, "w") as f:
            f.write('#!/bin/sh\n%s exec "%s" "$@"\n' % (" ".join("%s=%s" % s for s in environment.items()), WORKER))
        os.chmod(self.cuda, stat.S_IRWXU)

    def ends(self, session):
        return next(s for s in self.document()["sessions"] if s["session_id"] == session)["worker_ends"]

    def slot(self):
        return self.document()["slots"][0]["state"]


class Run:
    """One session of a Gpu: every step with a key, sent until it is done."""

    def __init__(self, t, **fields):
        self.t, self.number, self.losses = t, 0, []
        self.hurries = False  # has a device that failed looked for at once, however often it failed
        self.session = t.opened(**{"base_model": "tiny", "lora_rank": 2, "lora_dropout": 0.1, "maximum_datum_tokens": 64, **fields})
        self.ids = t.datums(self.session, "first", "second")

    def call(self, path, body):
        return self.t.ask("POST", "/v1/sessions/%s/%s" % (self.session, path), body,
                          ["Idempotency-Key: key-%d" % self.number])

    def train(self):
        return self.call("batches:train", {"datum_ids": self.ids, "learning_rate": 1e-3})

    def evaluate(self):
        return self.call("datums:evaluate", {"datum_ids": self.ids})

    def generate(self):
        return self.call("samples:generate", {"prompt": "p"})

    def render(self):
        return self.call("datums:render", {"examples": [{"example_id": "e", "messages": [
            {"role": "user", "content": "q"}, {"role": "assistant", "content": "an answer"}]}]})

    def save(self):
        self.urls = self.t.sign()
        return self.call("artifacts:save", {"kind": "state", "name": "n", "upload_url": self.urls["put_url"]})

    def recover(self):
        self.t.kill_workers()
        return self.train()

    def until_done(self, call):
        until = time.monotonic() + 120
        while (answer := call())[0] in (0, 503, 507) and time.monotonic() < until:
            if self.hurries and "computes again" in answer[1]["detail"]:
                self.t.process.send_signal(signal.SIGHUP)
            time.sleep(0.05)
        return answer

    def step(self, answer=None):
        """One step, of which `answer` may be the first that was told."""
        if answer is None:
            self.number += 1
        again = self.until_done(self.train)
        check(again[0] == 200 and (answer is None or answer[0] != 200 or answer[1] == again[1]), "the step", answer, again)
        self.losses.append(again[1].get("loss"))
        st = self.t.status(self.session)
        check(st["step"] == len(self.losses) and st["replay_differences"] == 0, "once", st)

    def state(self):
        """The bytes of the state as it is."""
        self.number += 1
        check(self.until_done(self.save)[0] == 200, "saved")
        return self.t.fetch(self.urls["get_url"])
