"""The real worker while its own calls fail one by one: it may refuse or end, but every step that is
acknowledged is the one of a run that nobody disturbed, to the last byte of its state.

For a while, in an order from a seed. Arguments: seconds (0 = all cases), seed, part of the case's name."""
import os
import shutil
import stat
import sys
import tempfile

from daemon import ASAN, check, finish
from fail_nth import CLASSES, ERRORS, LIBRARY, Page, in_order, until_done
from fault_table import held
from tiny_model import WORKER, make_models, real_worker
from trainer import Trainer

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 15
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1
ONLY = sys.argv[3] if len(sys.argv) > 3 else ""
KINDS = [kind for kind in CLASSES if kind not in ("STORE", "CURL", "EVENT", "NAME")]
if ASAN:
    print("the library that fails and AddressSanitizer both replace malloc")
    finish()
folder = make_models("tiny")
worker = os.path.join(folder, "preloaded-worker")
own = tempfile.mkdtemp(prefix="stepd-test-")
os.mkdir(os.path.join(own, "state"), 0o700)
page = Page(os.path.join(own, "state", "page"))  # where stepd and its workers may still write
with open(worker, "w") as f:
    f.write('#!/bin/sh\nLD_PRELOAD="%s" FAIL_NTH="%s" exec "%s" "$@"\n' % (LIBRARY, page.path, WORKER))
os.chmod(worker, stat.S_IRWXU)
settings = real_worker(folder, STEPD_LOG_LEVEL="info", STEPD_SNAPSHOT_STEPS="5")


class Run:
    """A session of the tiny model, and the losses that were acknowledged."""

    def __init__(self, t):
        self.t, self.number, self.losses = t, 0, []
        self.session = t.opened(base_model="tiny", lora_rank=2, lora_dropout=0.1)
        self.ids = t.datums(self.session, "first")

    def call(self, path, body):
        return self.t.ask("POST", "/v1/sessions/%s/%s" % (self.session, path), body,
                          ["Idempotency-Key: key-%d" % self.number])

    def train(self):
        return self.call("batches:train", {"datum_ids": self.ids, "learning_rate": 1e-3})

    def render(self):
        return self.call("datums:render", {"examples": [{"example_id": "e", "messages": [
            {"role": "user", "content": "q"}, {"role": "assistant", "content": "an answer"}]}]})

    def save(self):
        self.urls = self.t.sign()
        return self.call("artifacts:save", {"kind": "state", "name": "n", "upload_url": self.urls["put_url"]})

    def recover(self):
        with open("/proc/%d/task/%d/children" % (self.t.process.pid, self.t.process.pid)) as f:
            for child in f.read().split():
                os.kill(int(child), 9)
        return self.train()

    def step_is_done(self, name, answer):
        again = until_done(self.train)
        check(again[0] == 200 and (answer[0] != 200 or answer[1] == again[1]), "the step", name, answer, again)
        self.losses.append(again[0] == 200 and again[1]["loss"])
        st = self.t.status(self.session)
        check(st["step"] == len(self.losses) and st["replay_differences"] == 0, "once", name, st)

    def judge(self, operation, name, answer):
        if operation in ("train", "recover"):
            self.step_is_done(name, answer)
        elif operation == "render":
            again = until_done(self.render)
            check(again[0] == 200 and (answer[0] != 200 or answer[1] == again[1]), "rendered", name, answer, again)
        else:
            self.number += 1
            check(until_done(self.save)[0] == 200, "saved", name, answer)

    def state(self):
        """The bytes of the state as it is."""
        self.number += 1
        check(until_done(self.save)[0] == 200, "saved at the end")
        return self.t.fetch(self.urls["get_url"])


def one(run, operation, kind, nth, error):
    run.number += 1
    page.arm(kind, nth, error)
    answer = getattr(run, operation)()
    page.disarm()
    fired, name = page.fired, "%s/%s/%d/%d/%s" % (operation, kind, nth, error, page.name)
    check(answer[0] == 200 or answer[0] >= 400 and answer[1]["detail"], "answered", name, answer)
    run.judge(operation, name, answer)
    return fired > 0


with Trainer(folder=own, **{**settings, "STEPD_WORKER": worker}) as t:
    run = Run(t)
    cases, done, fired = [], 0, 0
    for operation in ("train", "render", "save", "recover"):
        for kind in KINDS:
            one(run, operation, kind, 1 << 31, 0)
            cases += [(operation, kind, nth, error) for nth in range(1, page.calls + 1) for error in ERRORS[kind]
                      if ONLY in "%s/%s/%d/%d" % (operation, kind, nth, error)]
    for case in in_order(cases, SEED, SECONDS, kind_of=lambda c: c[:2]):
        done += 1
        fired += one(run, *case)
    check(len(cases) > 0 or ONLY, "calls were counted")
    print("%d cases of %d, %d of them met their fault, %d steps" % (done, len(cases), fired, len(run.losses)))
    state = run.state()
with Trainer(**settings) as t:
    quiet = Run(t)
    for _ in run.losses:
        quiet.number += 1
        quiet.losses.append(quiet.train()[1]["loss"])
    check(quiet.losses == run.losses, "the losses of a run that nobody disturbed")
    check(quiet.state() == state, "and the bytes of its state")
held("the n-th call of any kind fails in the worker", "it may refuse or end; every step is there, once, to the bit")
shutil.rmtree(folder, ignore_errors=True)
finish()
