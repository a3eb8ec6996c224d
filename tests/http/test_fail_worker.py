"""The real worker while its own calls fail one by one: it may refuse or end, but every step that is
acknowledged is the one of a run that nobody disturbed, to the last byte of its state.

For a while; which cases there are, and what they do not show: fail_cases.py. Arguments: seconds (0 = all),
seed, part of the case's name."""
import contextlib
import os
import shutil
import stat

import daemon
from daemon import ASAN, check, finish
from fail_cases import Cases, folder_in_memory, line_of, seconds
from fail_nth import CLASSES, LIBRARY, Page, until_done
from fault_table import held
from tiny_model import WORKER, make_models, real_worker
from trainer import Trainer

KINDS = [kind for kind in CLASSES if kind not in ("STORE", "CURL", "EVENT", "NAME")]
if ASAN:
    print("the library that fails and AddressSanitizer both replace malloc")
    finish()
folder = make_models("tiny")
SETTINGS = real_worker(folder, STEPD_LOG_LEVEL="info", STEPD_SNAPSHOT_STEPS="5")


class Run:
    """A session of the tiny model, and the losses that were acknowledged."""

    def __init__(self, t, page=None):
        self.t, self.page, self.number, self.losses = t, page, 0, []
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
        self.t.kill_workers()
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

    def one(self, operation, kind, nth, error, chain=0):
        """One case. Whether the fault was met, and where."""
        failed, page = daemon.failed, self.page
        self.number += 1
        page.arm(kind, nth, error, chain)
        answer = getattr(self, operation)()
        page.disarm()
        met, name = (page.fired > 0, page.met), "%s/%s/%d/%d/%s" % (operation, kind, nth, error, page.name)
        check(answer[0] == 200 or answer[0] >= 400 and answer[1]["detail"], "answered", name, answer)
        self.judge(operation, name, answer)
        if daemon.failed > failed:
            print("  in %s at %s" % (name, line_of("stepd-worker", met[1][1])), flush=True)
        return met

    def leave(self):
        """What is made once for a session is made again when it recovers."""

    def trace(self, operation):
        self.number += 1
        self.page.trace()
        answer = getattr(self, operation)()
        self.page.disarm()
        self.judge(operation, "traced/" + operation, answer)
        return (call for call in self.page.traced() if call[0] in KINDS)


OPERATIONS = ("train", "render", "save", "recover")


@contextlib.contextmanager
def begun():
    """A session whose worker fails; its end is compared with one whose worker does not."""
    own = folder_in_memory()
    os.mkdir(os.path.join(own, "state"), 0o700)
    page = Page(os.path.join(own, "state", "page"))  # where stepd and its workers may still write
    worker = os.path.join(own, "preloaded-worker")
    with open(worker, "w") as f:
        f.write('#!/bin/sh\nLD_PRELOAD="%s" FAIL_NTH="%s" exec "%s" "$@"\n' % (LIBRARY, page.path, WORKER))
    os.chmod(worker, stat.S_IRWXU)
    with Trainer(folder=own, **{**SETTINGS, "STEPD_WORKER": worker}) as t:
        run = Run(t, page)
        for operation in OPERATIONS * 2:  # what is made once is made; by recovering it is made again
            run.one(operation, "SEND", 1 << 31, 0)
        yield run
        state = run.state()
    with Trainer(folder=folder_in_memory(), **SETTINGS) as t:
        quiet = Run(t)
        for _ in run.losses:
            quiet.number += 1
            quiet.losses.append(quiet.train()[1]["loss"])
        check(quiet.losses == run.losses, "the losses of a run that nobody disturbed")
        check(quiet.state() == state, "and the bytes of its state")


Cases("worker", OPERATIONS, begun, counted=True).try_all(seconds(20))
held("the n-th call of any kind fails in the worker", "it may refuse or end; every step is there, once, to the bit")
shutil.rmtree(folder)
finish()
