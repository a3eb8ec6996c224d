"""SIGTERM while a session waits for its store: whatever the wait is for, who asked is answered, and the stop
does not wait for its deadline."""
import glob
import os
import shutil
import signal
import tempfile
import time

from daemon import check, finish
from fault_table import NOT_TRIED, fault
from faulty_store import Store, certificate
from held_store import HeldStore
from trainer import Trainer, background

folder = tempfile.mkdtemp(prefix="stepd-test-")
cert, key = certificate(folder, "good")
store = Store(cert, key)
SETTINGS = {"STEPD_CA_FILE": cert, "STEPD_EGRESS_ALLOW": "localhost", "STEPD_STOP_TIMEOUT": "50"}
STOPPING = {"detail": "the trainer is stopping"}


def until(what, condition):
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    check(condition(), what)


class Held:
    """A trainer at step 2 whose upload of step 1 is known; a request that waits for its store."""

    def __init__(self, **settings):
        self.t = Trainer(**{**SETTINGS, **settings})
        self.s = self.t.opened()
        self.t.render(self.s)
        for path in ("/ok/state", None):
            check(self.t.train(self.s)[0] == 200, "trained")
            check(path is None or self.t.save(self.s, store.url(path))[0] == 200, "saved")

    def restarted_without_spool(self):
        """The same, without a worker: the spool is gone, and the journal behind the upload."""
        until("a snapshot", lambda: self.t.status(self.s)["replay_steps"] == 0)
        self.t.end(signal.SIGKILL)
        for path in glob.glob(os.path.join(self.t.folder, "state", "spool", "*")):
            os.remove(path)
        self.t = Trainer(folder=self.t.folder, **SETTINGS)
        until("it needs somebody", lambda: self.t.status(self.s)["state"] == "needs_restore")

    def worker(self):
        return self.t.document()["sessions"][0]["worker"]

    def stopped_during(self, name, wanted, call, *args, kill=False):
        """The answer to a call that waits for the store when SIGTERM comes."""
        held = HeldStore(self.t)
        answer = background(call, *args)
        until("the store is asked: " + name, lambda: self.t.document()["store"]["changes_waiting"] > 0)
        if kill:
            os.kill(self.worker()["pid"], signal.SIGKILL)
            until("the worker is gone: " + name, lambda: self.worker() is None)
        self.t.process.send_signal(signal.SIGTERM)
        until("it stops: " + name, lambda: "Terminated: stopping" in self.t.logged())
        held.let_go()
        self.t.process.wait(60)  # not stop(), which would hurry it
        check(self.t.stop() == 0, "ends with 0", name)
        status, body, headers = answer()
        check(status == wanted, "answered", name, status, body)
        check(status != 503 or headers.get("retry-after") == "30", "says when to try again", name, headers)
        check("did not finish in time" not in self.t.logged(), "nobody was left behind", name, self.t.logged()[-2000:])
        return body

    def ended(self, step):
        """Started again, it is where it was."""
        self.t = Trainer(folder=self.t.folder, **SETTINGS)
        st = self.t.status(self.s)
        check(st["step"] == step, "the step", st)
        self.t.__exit__(None)


@fault("stepd is stopped while a session waits for its disk: to begin a step, keep an answer, upload, close, open or "
       "go back", "who asked is answered; the stop does not wait for its deadline")
def waits():
    try:
        h = Held()
        HeldStore(h.t).let_go()
    except OSError as e:
        print("the store's thread cannot be stopped here: %s" % e)
        return NOT_TRIED
    h.stopped_during("a step", 200, h.t.train, h.s)
    h.ended(3)
    h = Held()
    body = h.stopped_during("a step without its worker", 503, h.t.train, h.s, kill=True)
    check("the next stepd brings it back" in body["detail"], "says what comes", body)
    h.ended(2)
    h = Held()
    keyed = (h.t.ask, "POST", "/v1/sessions/%s/datums:render" % h.s,
             {"examples": [{"example_id": "x", "messages": [{"role": "user", "content": "q"},
                                                            {"role": "assistant", "content": "a"}]}]},
             ["Idempotency-Key: k"])
    h.stopped_during("an answer", 200, *keyed)
    h.ended(2)
    h = Held()
    h.stopped_during("an upload", 200, h.t.save, h.s, store.url("/ok/again"))
    h.ended(2)
    h = Held()
    h.stopped_during("closing", 200, h.t.close, h.s, "?force=true")
    shutil.rmtree(h.t.folder)
    h = Held()
    h.t.close(h.s, "?force=true")
    h.stopped_during("opening", 200, h.t.open)
    shutil.rmtree(h.t.folder)
    h = Held(STEPD_SNAPSHOT_STEPS="1")
    h.restarted_without_spool()
    body = h.stopped_during("going back", 503, h.t.ask, "POST", "/v1/sessions/%s:restore" % h.s,
                            {"restore_url": store.url("/ok/state")})
    check(body == STOPPING, "told", body)
    h.ended(1)
    return None


@fault("stepd has no time left to stop, or is told twice, while requests are under way",
       "each is answered with 503 and when to try again; the key that was sent takes its step once, later")
def hurries():
    for name, seconds in (("a deadline", "1"), ("a second signal", "600")):
        t = Trainer("TRAIN:2:hang", STEPD_STOP_TIMEOUT=seconds)
        s = t.opened()
        t.render(s)
        check(t.train(s)[0] == 200, "trained")
        call = ("POST", "/v1/sessions/%s/batches:train" % s, {"datum_ids": ["datum-e"], "learning_rate": 1e-4})
        waiting = [background(t.ask, *call, ["Idempotency-Key: k%d" % i]) for i in range(3)]
        until("they wait", lambda: t.status(s)["waiting_requests"] == 2)
        t.process.send_signal(signal.SIGTERM)
        until("it stops", lambda: "Terminated: stopping" in t.logged())
        if seconds == "600":
            t.process.send_signal(signal.SIGTERM)
        check(t.process.wait(60) == 0, "ends with 0", name)
        t.stop()
        for wait in waiting:
            status, body, headers = wait()
            check(status == 503 and "send it again" in body["detail"], "told", name, status, body)
            check(headers.get("retry-after") == "30", "and when", name, headers)
        with Trainer(folder=t.folder) as t:
            until("it is back", lambda: t.status(s)["state"] == "ready")
            check(t.status(s)["step"] == 1, "no step was taken", t.status(s))
            for i in range(3):
                status, body, headers = t.ask(*call, ["Idempotency-Key: k%d" % i])
                check((status, headers.get("stepd-step")) == (200, str(i + 2)), "then it is, once", name, status, headers)


waits()
hurries()
shutil.rmtree(folder)
finish()
