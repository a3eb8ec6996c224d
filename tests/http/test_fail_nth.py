"""Every call that can fail fails once: the n-th of its class while one operation runs, for each n until
the operation goes through; and all of its class for up to a second. Never a false success, a lost or doubled
step, a leak of memory, descriptors or files, or a dead stepd.

For a while; all cases: make fail-nth. Which there are, and what they do not show: fail_cases.py. Arguments:
seconds (0 = all), seed, and what case names have to contain ("train/STORE")."""
import contextlib
import hashlib
import os
import re
import shutil
import threading
import time

import daemon
from daemon import ASAN, check, finish
from fail_cases import Cases, folder_in_memory, line_of, seconds
from fail_nth import Failing, Hang, until_done
from fail_nth_later import Later
from fault_table import held
from faulty_store import open_store

SECONDS = seconds(22)
LEFT = 100  # allocations that libraries keep
KEPT = {"session": 2, "operation": 4}  # those that a closed session and an operation keep
if ASAN:
    print("the library that fails and AddressSanitizer both replace malloc")
    finish()


def saved_step(st):
    return (st.get("last_saved") or {}).get("step")


class Run(Later):
    """One stepd, its session, and what was acknowledged."""

    def __init__(self, t, store):
        self.t, self.store, self.lasting = t, store, False
        self.session, self.step, self.number, self.operations = None, 0, 0, 0

    def path(self, call=""):
        return "/v1/sessions/%s%s" % (self.session, call)

    def until(self, condition, seconds=15):
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end:
            time.sleep(0.01)
        return condition()

    def ensure(self):
        """An open session that is ready."""
        if self.session is None:
            self.close_unknown()
            check(self.until(lambda: not self.t.active()), "the slot becomes free")
            self.session, self.step = self.t.opened(), 0

    def leave(self):
        if self.session is not None:
            check(self.t.close(self.session, "?force=true")[0] == 200, "closed at the end")
        self.session = None

    def next(self):
        self.number += 1
        return self.number

    def ask_train(self, key):
        return self.t.try_ask("POST", self.path("/batches:train"),
                              {"datum_ids": ["datum-e"], "learning_rate": 1e-4},
                              ["Idempotency-Key: " + key])

    def check_step(self, name):
        st = self.t.status(self.session)
        check(st is not None and st["step"] == self.step, "every step, once", name, self.step, st)

    # operations: begin (undisturbed), act (disturbed; its answer), judge (undisturbed)

    def begin_train(self):
        self.ensure()
        self.key = "key-%d" % self.next()

    def act_train(self):
        return self.ask_train(self.key)

    def judge_train(self, name, answer):
        again = until_done(self.ask_train, self.key)
        self.step += 1
        check(again[0] == 200 and again[1]["loss"] == 1.0 / self.step, "the step, again", name,
              answer, again)
        check(answer[0] != 200 or answer[1] == again[1], "the same answer", name, answer, again)
        self.check_step(name)

    def begin_render(self):
        self.ensure()
        self.key = "key-%d" % self.next()

    def ask_render(self):
        return self.t.try_ask("POST", self.path("/datums:render"), {"examples": [
            {"example_id": "e%d" % self.number, "messages": [
                {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}]})

    act_render = ask_render

    def judge_render(self, name, answer):
        right = {"datums": [{"datum_id": "datum-e%d" % self.number, "example_id": "e%d" % self.number,
                             "supervised_token_count": 1}]}
        check(answer[0] != 200 or answer[1] == right, "rendered", name, answer)
        check(until_done(self.ask_render)[1] == right, "rendered again", name, answer)
        self.check_step(name)

    def begin_generate(self):
        self.ensure()

    def act_generate(self):
        return self.t.try_ask("POST", self.path("/samples:generate"), {"prompt": "p"})

    def judge_generate(self, name, answer):
        check(answer[0] != 200 or answer[1] == {"text": "once"}, "generated", name, answer)
        check(until_done(self.act_generate)[0] == 200, "generated again", name)

    def begin_save(self):
        self.ensure()
        self.ask_train("key-%d" % self.next())
        self.step += 1
        self.urls = self.t.sign()

    def ask_save(self):
        return self.t.try_ask("POST", self.path("/artifacts:save"),
                              {"kind": "state", "name": "n", "upload_url": self.urls["put_url"]})

    act_save = ask_save

    def saved(self):
        """What the object store has at the URL, or None."""
        return self.t.fetch(self.urls["get_url"])

    def judge_save(self, name, answer):
        st = self.t.status(self.session)
        if answer[0] == 200 or saved_step(st) == self.step:
            data = self.saved()
            check(data is not None and data.startswith(b"state %d\0" % self.step), "the object", name,
                  answer, data and data[:20])
            digest = hashlib.sha256(data or b"").hexdigest()
            check(answer[0] != 200 or answer[1] == {"sha256": digest, "size_bytes": len(data)},
                  "its digest", name, answer)
            check(saved_step(st) == self.step, "the session knows it", name, st)
        self.urls = self.new_urls()
        check(until_done(self.ask_save)[0] == 200, "saved again", name, answer)
        check(self.saved() is not None, "and there", name)
        self.check_step(name)

    def new_urls(self):
        if "localhost" in self.urls["get_url"]:
            url = self.store.url("/ok/%d" % self.next())
            return {"put_url": url, "get_url": url}
        return self.t.sign()

    def begin_upload(self):
        self.begin_save()
        self.urls["get_url"] = "https://localhost"
        self.urls = self.new_urls()
        self.saved = lambda: self.store.objects.get(self.urls["get_url"].split("?")[0]
                                                    .split("/", 3)[3].join(("/", "")))

    act_upload = ask_save

    def judge_upload(self, name, answer):
        self.judge_save(name, answer)
        del self.saved

    def begin_close(self):
        self.ensure()

    def act_close(self):
        return self.t.try_ask("DELETE", self.path("?force=true"))

    def judge_close(self, name, answer):
        if answer[0] == 200:
            check(self.t.status(self.session)["state"] == "closed", "closed", name, answer)
        again = until_done(self.act_close)
        check(again[0] == 200 and self.t.status(self.session)["state"] == "closed", "closed again", name,
              answer, again)
        self.session = None

    def begin_open(self):
        self.leave()
        self.close_unknown()
        self.resume = {}
        check(self.until(lambda: not self.t.active()), "the slot is free")

    def begin_resume(self):
        self.begin_open()
        self.store.objects["/ok/resume"] = b"state 7\0" + b"." * 100000
        self.resume = {"resume_download_url": self.store.url("/ok/resume")}

    def act_open(self):
        return self.t.try_ask("POST", "/v1/sessions", {
            "base_model": "org/model", "lora_rank": 8, "seed": 7, **self.resume})

    act_resume = act_open

    def judge_open(self, name, answer):
        if answer[0] == 200:
            self.session, self.step = answer[1]["session_id"], 7 if self.resume else 0
        else:
            self.close_unknown()
            check(self.until(lambda: not self.t.active()), "the slot becomes free", name, answer)
            again = until_done(self.act_open)
            check(again[0] == 200, "opened again", name, answer, again)
            self.session, self.step = again[1]["session_id"], 7 if self.resume else 0
        self.begin_train()
        self.judge_train(name, (0,))

    judge_resume = judge_open

    def close_unknown(self):
        """A session whose answer was lost is in the list; its client closes it there."""
        for st in self.t.ask("GET", "/v1/sessions")[1]["sessions"]:
            if st["state"] != "closed":
                self.t.close(st["session_id"], "?force=true")

    def begin_recover(self):
        """With steps to replay, and datums to give a new worker again."""
        self.ensure()
        check(until_done(self.ask_render)[0] == 200, "rendered before")
        check(until_done(self.ask_train, "key-%d" % self.next())[0] == 200, "trained before")
        self.step += 1
        self.key = "key-%d" % self.next()

    def act_recover(self):
        self.t.kill_workers()
        return self.ask_train(self.key)

    judge_recover = judge_train

    begin_restart = begin_recover

    def act_restart(self):
        """It stops, and is started again: it comes up, or says why not and ends."""
        t = self.t
        t.process.terminate()
        ended = self.until(lambda: not t.alive(), 40)
        check(ended and t.process.returncode in (0, 1), "it stops", t.page.name,
              t.process.poll(), t.logged()[-300:])
        if not ended:
            t.process.kill()
            t.process.wait()
        logged = os.path.getsize(t.log_path)
        t.again(wait=False)
        if not t.came_up(logged):
            words = t.logged()[logged:]
            ended = self.until(lambda: not t.alive(), 10)
            check(ended, "a start that failed ends", t.page.name, words)
            if not ended:
                t.process.kill()
            status = t.process.wait(5)
            check(status in (1, 2) and re.search("^stepd: (?!warning: |info: ).", words, re.M),
                  "a start that fails says why", t.page.name, status, words)
            t.page.disarm()
            t.again()
        return (0,)

    judge_restart = judge_train

    def one(self, operation, kind, nth, error, chain=0):
        """One case. Whether the fault was met, and where."""
        t, page = self.t, self.t.page
        name = "%s/%s/%d/%d" % (operation, kind, nth, error)
        failed, logged = daemon.failed, os.path.getsize(t.log_path)
        try:
            getattr(self, "begin_" + operation)()
            page.arm(kind, nth, error, chain, self.lasting)
            lift = threading.Timer(1 if self.lasting else 60, page.disarm)
            lift.start()
            answer = getattr(self, "act_" + operation)()
            lift.cancel()
            page.disarm()
            name += "/" + page.name
            getattr(self, "judge_" + operation)(name, answer)
        except (TypeError, KeyError, IndexError, ConnectionError) as e:
            check(not t.alive(), "judged", name, repr(e))
        except Hang as e:
            check(False, "answered", name, page.name, e)
            print("   ", t.ask("GET", self.path())[1], flush=True)
            t.process.kill()
            t.process.wait()
        page.disarm()
        met = page.fired > 0, page.met
        if not t.alive():
            check(False, "stepd is alive", name, t.process.returncode, t.logged()[-300:])
            t.again()
            self.session = None
        if daemon.failed > failed:
            print("  in %s at %s; the log:\n    %s" % (name, line_of("stepd", met[1][1]), "    ".join(
                t.logged()[logged:].splitlines(True)[-12:])), flush=True)
            self.session = None  # the next case has one of its own
        return met

    def trace(self, operation):
        getattr(self, "begin_" + operation)()
        self.t.page.trace()
        answer = getattr(self, "act_" + operation)()
        self.t.page.disarm()
        getattr(self, "judge_" + operation)("traced/" + operation, answer)
        return self.t.page.traced()

    def files(self):
        """Those of sessions that are in the state folder without a line in the log that they stay there."""
        names = [name for folder in ("spool", "datums") for name in os.listdir(os.path.join(self.t.state, folder))]
        told = re.findall(r"the spool file (\S+) stays|session (\S+): its datums stay", self.t.logged())
        return [name for name in names if not any(name in pair for pair in told)]

    def settle(self):
        """Ends what is open; descriptors that are left, and allocations beyond what is kept."""
        self.leave()
        self.until(lambda: not self.t.active())
        sessions = len(self.t.ask("GET", "/v1/sessions")[1]["sessions"])
        time.sleep(1.2)  # connections that can only end by their deadline
        return self.t.descriptors(), self.t.page.live - KEPT["session"] * sessions - KEPT["operation"] * self.operations


OPERATIONS = ("train", "render", "generate", "save", "upload", "close", "open", "resume", "recover",
              "later", "later_render", "key_open", "key_sign")


@contextlib.contextmanager
def begun():
    """A stepd and what its user knows of it."""
    folder = folder_in_memory()
    store, reach = open_store(folder)
    # As under systemd. Where that is not heeded there is another folder.
    where = {"STEPD_STATE_DIR": None, "STATE_DIRECTORY": os.path.join(folder, "state"), "HOME": folder}
    with Failing(folder, STEPD_DISK_RESERVE="0", **where, **reach) as t:
        run = Run(t, store)
        for operation in OPERATIONS * 2:  # so that what is made once is made
            run.one(operation, "SEND", 1 << 31, 0)
        yield run
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def lasting():
    with begun() as run:
        run.lasting = True
        yield run


@contextlib.contextmanager
def serving():
    with begun() as run:
        process, before = run.t.process, run.settle()
        yield run
        after = run.settle()
        check(run.files() == [], "no file is left", run.files())
        print("  descriptors %d -> %d, allocations %d -> %d" % (before[0], after[0], before[1], after[1]), flush=True)
        if run.t.process == process:
            check(after[0] <= before[0], "no descriptor is left", before, after)
            check(after[1] <= before[1] + LEFT, "no allocation is left", before, after)


Cases("serving", OPERATIONS, serving).try_all(SECONDS * 0.4)
held("the n-th call of any kind fails while stepd serves",
     "no false success, no step lost or doubled, nothing left behind; stepd goes on")
Cases("lasting", OPERATIONS, lasting, first=True).try_all(SECONDS * 0.2)
held("all calls of a kind fail for up to a second while stepd serves",
     "no false success, no step lost or doubled; stepd goes on, and so do its sessions")
Cases("restarting", ["restart"], begun).try_all(SECONDS * 0.4)
held("the n-th call of any kind fails while stepd stops and starts",
     "it starts, or says why not; then all is there")
finish()
