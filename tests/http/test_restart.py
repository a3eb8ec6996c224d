"""A real stepd with a real worker, killed and stopped at random moments of a run: no step is lost, none
is done twice, and the state at the end has the very bytes of a run that nobody disturbed."""
import os
import random
import shutil
import signal
import threading
import time

from daemon import check, finish
from fault_table import held
from faulty_store import open_store
from tiny_model import make_models, real_worker
from trainer import Trainer

STEPS = 40
folder = make_models("tiny")
store, reach = open_store(folder)
SETTINGS = real_worker(folder, STEPD_SNAPSHOT_STEPS="8", STEPD_LOG_LEVEL="info", **reach)
TEXT = "q of the very secret kind"
NAMES = ["e%d" % i for i in range(5)]


class Service:
    """A stepd that is started again whenever it has ended, as systemd would."""

    def __init__(self, name, **settings):
        self.folder, self.settings = os.path.join(folder, name), {**SETTINGS, **settings}
        self.restarts = 0
        self.start()

    def start(self):
        self.t = Trainer(folder=self.folder, **self.settings)

    def ask(self, *args):
        """An answer, whatever it takes."""
        until = time.monotonic() + 120
        while time.monotonic() < until:
            if self.t.process.poll() is not None:
                self.t.log.close()
                self.t.process.stdout.close()
                self.start()
                self.restarts += 1
            try:
                answer = self.t.ask(*args)
            except OSError:
                answer = (0, None, {})
            if answer[0] != 0:
                return answer
            time.sleep(0.05)
        raise SystemExit("no answer: " + self.t.logged()[-3000:])

    def render(self, session):
        messages = [{"role": "user", "content": TEXT}, {"role": "assistant", "content": "a"}]
        examples = [{"example_id": name, "messages": messages} for name in NAMES]
        answer = self.ask("POST", "/v1/sessions/%s/datums:render" % session, {"examples": examples})
        check(answer[0] == 200, "rendered", answer)
        return [d["datum_id"] for d in answer[1]["datums"]]

    def insist(self, session, ids, *call):
        """As a client would: until it is done; datums are rendered again where stepd says so."""
        for _ in range(50):
            answer = self.ask(*call)
            if answer[0] == 200:
                break
            detail = answer[1]["detail"]
            if "render" in detail:
                check(self.settings["STEPD_PERSIST_DATA"] == "false", "only without datums on the disk", detail)
                check(self.render(session) == ids, "the same ids")
            else:
                check(answer[0] == 503, "only 503", answer)
                time.sleep(0.1)
        return answer

    def train(self, session, ids, number):
        body = {"datum_ids": [ids[number % len(ids)], ids[(number * 7 + 1) % len(ids)]],
                "learning_rate": 1e-3}
        return self.insist(session, ids, "POST", "/v1/sessions/%s/batches:train" % session, body,
                           ["Idempotency-Key: step-%d" % number])

    def ready(self, session):
        """Its status when it is brought back."""
        until = time.monotonic() + 60
        while (st := self.ask("GET", "/v1/sessions/" + session)[1])["state"] != "ready" and time.monotonic() < until:
            time.sleep(0.02)
        return st

    def end(self):
        check(self.t.stop() == 0, "stops", self.t.logged()[-2000:])


class Killer:
    """Ends stepd now and then, hard or softly; never twice without a step between."""

    def __init__(self, service, seed):
        self.service, self.random, self.kills, self.over = service, random.Random(seed), 0, threading.Event()
        self.step_done = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.over.wait(self.random.uniform(0.0, 0.5)):
            if not self.step_done.is_set():
                continue
            self.step_done.clear()
            self.service.t.process.send_signal(self.random.choice((signal.SIGKILL, signal.SIGTERM)))
            self.kills += 1

    def stop(self):
        self.over.set()
        self.thread.join()


def whole_run(name, disturb, sealed=False, **resumed):
    service = Service(name, STEPD_PERSIST_DATA="true" if sealed else "false")
    status, body, _ = service.ask("POST", "/v1/sessions", {
        "base_model": "tiny", "lora_rank": 8, "seed": 7, "lora_dropout": 0.1, **resumed})
    check(status == 200, "open", status, body)
    s = body["session_id"]
    at = service.t.status(s)["step"]
    ids = service.render(s)
    killer = Killer(service, len(name)) if disturb else None
    answers = []
    for i in range(STEPS):
        answers.append(service.train(s, ids, i))
        if killer:
            killer.step_done.set()
            time.sleep(0.03)
    if killer:
        killer.stop()
    for i in (0, STEPS // 2, STEPS - 1):
        check(service.train(s, ids, i)[:2] == answers[i][:2], "a lost answer, again", name, i)
    st = service.ask("GET", "/v1/sessions/" + s)[1]
    check(st["step"] == at + STEPS, "every step, once", name, st)
    check(st["replay_differences"] == 0, "replayed to the bit", name, st)
    check([a[2].get("stepd-step") for a in answers] == [str(at + i + 1) for i in range(STEPS)],
          "steps in order", name, answers)
    url = store.url("/ok/" + name)
    answer = service.insist(s, ids, "POST", "/v1/sessions/%s/artifacts:save" % s,
                            {"kind": "state", "name": "x", "upload_url": url})
    check(answer[0] == 200, "saved", answer)
    service.end()
    kept = os.path.join(service.folder, "state", "datums", s)
    check(os.path.exists(kept) == sealed, "datums on the disk", name)
    if sealed:
        data = open(kept, "rb").read()
        check(len(data) > 100 and TEXT.encode() not in data and b"\0\0\0\0\0\0\0\0" not in data[8:], "sealed")
        check(os.stat(kept).st_mode & 0o777 == 0o600, "for nobody else")
    if killer:
        check(killer.kills >= 3 and service.restarts >= 3, "stepd was ended", killer.kills, service.restarts)
        print("%s: %d ends, %d starts" % (name, killer.kills, service.restarts))
    return [a[1] for a in answers], store.objects["/ok/" + name]


def datums_on_disk():
    """What was cut or changed in the file of datums is rendered again; switched off or closed, none is left."""
    service = Service("datums", STEPD_PERSIST_DATA="true")
    s = service.ask("POST", "/v1/sessions", {"base_model": "tiny", "lora_rank": 8, "seed": 7})[1]["session_id"]
    ids = service.render(s)
    kept = os.path.join(service.folder, "state", "datums", s)
    losses = [service.train(s, ids, 0)[1]["loss"]]
    data = open(kept, "rb").read()
    for what, bytes_ in (("a part that a crash cut", data + data[:50]), ("half of it", data[:len(data) // 2]),
                         ("changed", data[:60] + bytes([data[60] ^ 1]) + data[61:]), ("nothing", b"")):
        service.t.process.kill()
        service.t.process.wait()
        with open(kept, "wb") as f:
            f.write(bytes_)
        status, body, _ = service.ask("POST", "/v1/sessions/%s/batches:train" % s,
                                      {"datum_ids": ids[:1], "learning_rate": 1e-3})
        whole = len(bytes_) > len(data)
        check(status == (200 if whole else 503), what, status, body)
        if not whole:
            check("render" in body["detail"], "says what to do", what, body)
            check(service.ask("GET", "/v1/sessions/" + s)[1]["state"] == "needs_restore", "state", what)
            check(service.render(s) == ids, "rendered again", what)
            st = service.ready(s)
            check(st["state"] == "ready" and st["replay_differences"] == 0, "goes on by itself", what, st)
    service.end()
    service.settings["STEPD_PERSIST_DATA"] = "false"
    check(service.ask("GET", "/healthz")[0] == 200 and not os.path.exists(kept), "switched off")
    service.settings["STEPD_PERSIST_DATA"] = "true"
    service.end()
    service.render(s)
    check(service.render(s) == ids and os.path.exists(kept), "on the disk again")
    check(service.ask("DELETE", "/v1/sessions/%s?force=true" % s)[0] == 200, "closed")
    check(not os.path.exists(kept), "closed: nothing is left")
    service.end()


datums_on_disk()
quiet = whole_run("quiet", False)
disturbed = whole_run("disturbed", True)
check(disturbed[0] == quiet[0], "the same losses and norms")
check(disturbed[1] == quiet[1], "the same bytes")
check(whole_run("sealed", True, sealed=True) == disturbed, "the same with datums on the disk")
url = store.url("/ok/quiet")
on_quiet = whole_run("on-quiet", False, resume_download_url=url)
on_disturbed = whole_run("on-disturbed", True, resume_download_url=url)
check(on_disturbed == on_quiet, "also where it goes on from a state")
held("stepd is killed and stopped at random moments of a run", "the losses and the bytes of a run in peace")
shutil.rmtree(folder)
finish()
