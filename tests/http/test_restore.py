"""A spool that is gone or changed: a session comes back from what it uploaded, by itself or by
POST /v1/sessions/{id}:restore, and says which steps have to be sent again."""
import glob
import hashlib
import os
import shutil
import time

from daemon import BEARER, check, finish
from fault_table import fault
from faulty_store import SECRET, open_store
from store_edit import read_table, write_table
from tiny_model import make_models, real_worker
from trainer import Trainer

folder = make_models("tiny")
store, reach = open_store(folder)
SETTINGS = real_worker(folder, STEPD_SNAPSHOT_STEPS="1", STEPD_PERSIST_DATA="true", **reach)


class Run:
    """A session of six steps, saved at the third; what it answered."""

    def __init__(self, name, restore_url=None, **settings):
        self.folder, self.settings, self.name = os.path.join(folder, name), {**SETTINGS, **settings}, name
        self.t = Trainer(folder=self.folder, **self.settings)
        self.s = self.t.opened(base_model="tiny", seed=len(name), lora_dropout=0.1)
        self.ids = self.t.datums(self.s, "a", "b", "c")
        self.path = "/ok/" + name
        self.answers = [self.train(i) for i in range(3)]
        body = {"kind": "state", "name": "x", "upload_url": store.url(self.path)}
        if restore_url:
            body["restore_url"] = restore_url
        answer = self.t.ask("POST", "/v1/sessions/%s/artifacts:save" % self.s, body)
        check(answer[0] == 200, "saved", name, answer)
        self.answers += [self.train(i) for i in range(3, 6)]
        check(all(a[0] == 200 for a in self.answers), "trained", name, self.answers)
        self.settled()

    def train(self, number, *headers):
        return self.t.ask("POST", "/v1/sessions/%s/batches:train" % self.s,
                          {"datum_ids": [self.ids[number % 3]], "learning_rate": 1e-2},
                          ["Idempotency-Key: k%d" % number, *headers])

    def train_later(self, number):
        """The same, answered by an operation."""
        status, body, headers = self.train(number, "Prefer: respond-async")
        check(status == 202, "accepted", status, body)
        return self.t.ask("GET", headers["location"] + "?wait=60")

    def settled(self):
        """The snapshot behind the last step is on the disk."""
        until = time.monotonic() + 30
        while self.status()["replay_steps"] > 0 and time.monotonic() < until:
            time.sleep(0.02)

    def status(self):
        return self.t.status(self.s)

    def restart(self, harm):
        """Killed; something happens to the spool; started again."""
        self.t.process.kill()
        self.t.process.wait()
        self.t.log.close()
        self.t.process.stdout.close()
        files = glob.glob(os.path.join(self.folder, "state", "spool", "*"))
        check(len(files) == 1, "one snapshot", self.name, files)
        harm(files[0])
        self.t = Trainer(folder=self.folder, **self.settings)

    def came_to(self, state):
        until = time.monotonic() + 60
        while (st := self.status())["state"] != state and time.monotonic() < until:
            time.sleep(0.02)
        check(st["state"] == state, "comes to " + state, self.name, st)
        return st

    def restore(self, url=None):
        return self.t.ask("POST", "/v1/sessions/%s:restore" % self.s, {"restore_url": url} if url else {})

    def end(self):
        for path in glob.glob(os.path.join(self.folder, "state", "**"), recursive=True):
            if os.path.isfile(path):
                check(SECRET.encode() not in open(path, "rb").read(), "no URL is readable", path)
        self.t.__exit__(None)


def flip(path):
    with open(path, "r+b") as f:
        f.seek(5000)
        byte = f.read(1)
        f.seek(5000)
        f.write(bytes([byte[0] ^ 1]))


def by_itself():
    """With a restore_url nothing is lost: the journal is kept from that upload on."""
    for name, harm in (("gone", os.remove), ("flipped", flip), ("cut", lambda p: os.truncate(p, 100))):
        run = Run(name, restore_url=store.url("/ok/" + name))
        before = run.t.ask("POST", "/v1/sessions/%s/datums:evaluate" % run.s, {"datum_ids": run.ids})[1]
        run.restart(harm)
        st = run.came_to("ready")
        check(st["step"] == 6 and st["replay_differences"] == 0, "every step", name, st)
        check("steps_to_send_again" not in st, "nothing to send again", name, st)
        after = run.t.ask("POST", "/v1/sessions/%s/datums:evaluate" % run.s, {"datum_ids": run.ids})[1]
        check(before == after, "the same bits", name, before, after)
        check(run.train(5)[:2] == run.answers[5][:2], "kept answers hold", name)
        check(run.train(6)[2]["stepd-step"] == "7", "and it goes on", name)
        run.settled()
        run.restart(lambda path: None)
        check(run.came_to("ready")["step"] == 7, "from a new snapshot", name)
        run.end()


def by_request():
    """Without one it is asked for; the steps behind the upload have to be sent again, and their keys
    are good again."""
    other = Run("other-session")
    run = Run("asked")
    check(run.restore()[0] == 409, "nothing to restore", run.restore())
    check(run.t.ask("POST", "/v1/sessions/none:restore", {})[0] == 404, "unknown session")
    check(run.restore("http://example.com/x?y")[0] == 422, "no plain http")
    check(run.t.ask("POST", "/v1/sessions/%s:restore" % run.s, {"url": "x"})[0] == 422, "unknown field")
    check(run.t.save(run.s, store.url("/ok/sampling"), "sampling")[0] == 200, "saved for use, not to go on")
    check(run.t.verify(run.s, store.url("/ok/sampling"), "sampling")[0] == 200, "and verified")
    run.restart(os.remove)
    st = run.came_to("needs_restore")
    check("snapshot" in st["reason"] and not run.t.active(), "says why, holds no device", st)
    status, body, _ = run.train(6)
    check(status == 503 and "restore" in body["detail"], "says what to do", status, body)
    for url, want, words in ((None, 422, "restore_url"), (store.url(other.path), 422, "sha256"),
                             (store.url("/404/x"), 502, "download"), (store.url("/short/x"), 502, "download"),
                             (store.url("/large/x"), 422, "too large")):
        status, body, _ = run.restore(url)
        check(status == want and words in str(body["detail"]), "refused", url, status, body)
        check(run.status()["state"] == "needs_restore" and not run.t.active(), "as before", url, run.status())
    status, body, _ = run.restore(store.url(run.path))
    check(status == 200 and body["state"] == "ready" and body["step"] == 3, "restored", status, body)
    check(body["steps_to_send_again"] == {"from": 4, "to": 6}, "told", body)
    saved = {"step": 3, "kind": "state", "sha256": hashlib.sha256(store.objects[run.path]).hexdigest()}
    check(body["last_saved"] == saved and body["verified_step"] is None, "nothing is told of what is lost", body)
    document = run.t.document()
    [told] = [x for x in document["sessions"] if x["session_id"] == run.s]
    check(told["steps_to_send_again"] == {"from": 4, "to": 6} and
          any(run.s in line and "4 to 6 again" in line for line in document["attention"]), "also to operators", document)
    with run.t.connect(timeout=60) as sock:
        sock.sendall(("GET /v1/sessions/%s/events?after=0 HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" %
                      (run.s, BEARER)).encode())
        text = b""
        while b'"steps_to_send_again":{"from":4,"to":6}' not in text and (piece := sock.recv(65536)):
            text += piece
        check(b"event: restart" in text, "and to those who follow its events", text)
    again = [run.train(i) for i in range(3, 6)]
    check([a[1] for a in again] == [a[1] for a in run.answers[3:]], "the same losses", again, run.answers)
    check([a[2]["stepd-step"] for a in again] == ["4", "5", "6"], "the same steps", again)
    st = run.status()
    check("steps_to_send_again" not in st and st["step"] == 6, "all of them", st)
    check(not any("again" in line for line in run.t.document()["attention"]), "nothing to act on", run.t.document())
    run.settled()
    run.restart(lambda path: None)
    check(run.came_to("ready")["step"] == 6, "from then on as ever")
    run.end()
    other.end()


@fault("a state that was uploaded before its session went back is given to restore it",
       "422: it holds steps that the session did not take")
def other_steps(harm_store):
    """Of two uploads the older one has a restore_url; the journal behind it is damaged, so what follows it is
    lost, and other steps are taken in their place. harm_store: the first try to go back cannot be kept."""
    run = Run("twice-harmed" if harm_store else "twice", restore_url=store.url("/403/dead"))
    check(run.t.save(run.s, store.url("/ok/newer"))[0] == 200, "saved again")

    def damage(path):
        os.remove(path)
        journal = read_table(run.t.state, "journal")
        write_table(run.t.state, "journal", {min(journal): b"\0" + journal[min(journal)][1:]})

    run.restart(damage)
    run.came_to("needs_restore")
    if harm_store:
        data = os.path.join(run.t.state, "store", "data.mdb")
        os.rename(data, data + ".away")
        status, body, _ = run.restore(store.url(run.path))
        check(status == 507, "not kept", status, body)
        os.rename(data + ".away", data)
        st = run.came_to("needs_restore")
        check(st["step"] == 6 and st["last_saved"]["step"] == 6 and "steps_to_send_again" not in st, "as it was", st)
    status, body, _ = run.restore(store.url(run.path))
    check(status == 200 and body["steps_to_send_again"] == {"from": 4, "to": 6}, "restored", status, body)
    for i in (10, 11, 12):
        check(run.train(i)[0] == 200, "other steps", i)
    run.settled()
    before = run.t.evaluate(run.s, *run.ids)[1]
    run.restart(os.remove)
    run.came_to("needs_restore")
    status, body, _ = run.restore(store.url("/ok/newer"))
    check(status == 422 and "sha256" in body["detail"], "not one of its states", status, body)
    status, body, _ = run.restore(store.url(run.path))
    check(status == 200 and body["step"] == 6 and "steps_to_send_again" not in body, "every step", status, body)
    check(run.t.evaluate(run.s, *run.ids)[1] == before, "the same bits")
    run.end()


@fault("steps that were answered by operations have to be sent again, for the spool is gone",
       "each is taken again, once; what was kept of them answers nobody")
def answered_later():
    run = Run("later")
    before = [run.train_later(i) for i in range(6, 9)]
    check([a[2]["stepd-step"] for a in before] == ["7", "8", "9"], "trained", before)
    run.settled()
    run.restart(os.remove)
    run.came_to("needs_restore")
    status, body, _ = run.restore(store.url(run.path))
    check(status == 200 and body["steps_to_send_again"] == {"from": 4, "to": 9}, "restored", status, body)
    again = [run.train_later(i) for i in range(3, 9)]
    check([a[2].get("stepd-step") for a in again] == ["4", "5", "6", "7", "8", "9"], "the same steps", again)
    check([a[1] for a in again] == [a[1] for a in run.answers[3:] + before], "the same losses", again, run.answers, before)
    check(run.status()["step"] == 9, "all of them", run.status())
    check(run.train_later(8)[:2] == again[-1][:2] and run.status()["step"] == 9, "and each once")
    run.settled()
    run.restart(lambda path: None)
    check(run.came_to("ready")["step"] == 9, "from then on as ever")
    run.end()


def dead_url():
    """A restore_url that does not work any more: a fresh one does, and nothing is lost."""
    run = Run("expired", restore_url=store.url("/403/expired"))
    run.restart(os.remove)
    check("fetched" in run.came_to("needs_restore")["reason"], "says why", run.status())
    status, body, _ = run.restore(store.url(run.path))
    check(status == 200 and body["step"] == 6 and "steps_to_send_again" not in body, "whole", status, body)
    check(run.train(6)[2]["stepd-step"] == "7", "and it goes on")
    run.end()


by_itself()
by_request()
other_steps(False)
other_steps(True)
answered_later()
dead_url()
shutil.rmtree(folder)
finish()
