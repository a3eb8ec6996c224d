"""A worker that fails, in every phase and every way: the request says so, stepd and the next session
are unharmed."""
import os
import signal
import time

from daemon import check, finish
from fault_table import fault, held
from trainer import TIMEOUTS, Trainer, background

# What a worker's end is called in the log.
ENDS = {"kill": "killed", "crash": "signal", "sandbox": "sandbox", "exit": "exited",
        "clean": "exited", "words": "device_oom", "garbage": "bad_frame", "number": "bad_frame",
        "type": "bad_frame", "cut": "bad_frame", "status": "bad_frame", "hang": "hang",
        "stubborn": "hang", "close": "hang"}
# And in the table of faults.
WORDS = {"kill": "is killed", "crash": "crashes", "sandbox": "breaks its sandbox", "exit": "exits with 3",
         "clean": "exits with 0", "words": "has no device memory", "garbage": "sends garbage",
         "number": "answers another request", "type": "answers in another kind", "cut": "sends a part of a message",
         "status": "refuses with a status that there is not", "hang": "hangs", "stubborn": "hangs and ignores SIGTERM",
         "close": "closes its channel", "nofd": "answers without its data", "lie": "lies about a length",
         "unsealed": "sends data that it could still change", "skip": "skips a step", "nan": "answers with NaN",
         "size": "lies about a file", "protocol": "speaks another version"}
BAD_ANSWERS = {"RENDER": ("nofd", "lie", "unsealed"), "TRAIN": ("skip", "nan"), "SAVE": ("size",),
               "GENERATE": ("nofd",), "EVALUATE": ("nofd",), "VERIFY": ()}


def no_worker_left(t):
    """No process of this test's worker, not even a zombie."""
    left = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid) as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == t.process.pid:
            left.append(pid)
    return not left


def while_opening():
    faults = [("READY", fault) for fault in ("exit", "hang", "protocol", "kill")]
    faults += [("OPEN", fault) for fault in ENDS]
    with Trainer(**TIMEOUTS) as t:
        for message, fault in faults:
            t.set_faults("%s:1:%s" % (message, fault))
            status, body, _ = t.open()
            check(status == 503 and "worker" in body["detail"], message, fault, status, body)
            check(not t.active(), "the slot is free", message, fault)
            held("a worker %s at %s" % (WORDS[fault], message), "503; the device is free again")
        t.set_faults("OPEN:1:refuse")
        for _ in range(3):
            check(t.open()[:2] == (422, {"detail": "refused by the fault"}), "refused")
        check(t.ask("GET", "/v1/sessions")[1] == {"sessions": []}, "none is remembered")
        check(no_worker_left(t), "no worker is left")
        t.set_faults()
        s = t.opened()
        check(t.train(s)[0] == 200, "and the next one works")
        for name in set(ENDS.values()) | {"start_failed"}:
            check(": " + name + " (" in t.logged(), "the log has the class", name)
        check("no memory for 4 GiB of activations" in t.logged(), "and the last words")


def while_working(message):
    """The session is brought back, and what was under way is done."""
    with Trainer(**TIMEOUTS) as t:
        for fault in list(ENDS) + list(BAD_ANSWERS[message]):
            # The second message of its kind, so that there is something to lose.
            t.set_faults("%s:2:%s" % (message, fault), once=True)
            s = t.opened()
            t.render(s) if message != "RENDER" else None
            t.train(s) if message != "TRAIN" else None
            first = t.do(message, s)
            check(first[0] == 200, "before it", message, fault)
            step = t.status(s)["step"]
            status, body, headers = t.do(message, s)
            check(status == 200, "answered by the next worker", message, fault, status, body)
            want = step + (message == "TRAIN")
            check(headers["stepd-step"] == str(want), "the step", message, fault, headers)
            st = t.status(s)
            check(st["state"] == "ready" and st["step"] == want, "state", message, fault, st)
            check(st["restarts"] == 1 and st["replay_differences"] == 0, "one restart", fault, st)
            check(t.train(s)[2]["stepd-step"] == str(want + 1), "it goes on", message, fault)
            held("a worker %s at %s" % (WORDS[fault], message), "the next worker answers; no step lost or doubled")
            t.close(s, "?force=true")
        check(no_worker_left(t), "no worker is left", message)
        check(os.listdir(os.path.join(t.state, "spool")) == [], "no spool file is left", message)


@fault("a request that crashes two workers", "422, also when it is sent again; others go on")
def poison():
    """A request that ends its worker twice is not tried a third time, nor when it is sent again."""
    with Trainer("TRAIN:3:crash", **TIMEOUTS) as t:
        s = t.opened()
        t.train(s)
        t.train(s)
        status, body, headers = t.train(s, "datum-poison")
        check(status == 422 and "twice" in body["detail"], "refused", status, body)
        check(headers["stepd-step"] == "2", "nothing was done", headers)
        t.set_faults()
        restarts = t.status(s)["restarts"]
        check(t.train(s, "datum-poison")[0] == 422, "and again")
        check(t.train(s)[2]["stepd-step"] == "3", "others are served")
        check(t.status(s)["restarts"] <= restarts + 1, "without another worker")


@fault("every worker of a request is killed",
       "after some tries 503 with the step; sent again it is done")
def killed_from_outside():
    """Not the request's doing: it is tried more often, and may be sent again."""
    with Trainer("TRAIN:2:kill", **TIMEOUTS) as t:
        s = t.opened()
        t.train(s)
        status, body, headers = t.train(s)
        check(status == 503 and "step 1" in body["detail"], "503 says the step", status, body)
        check(headers["stepd-step"] == "1", "in the header too", headers)
        t.set_faults()
        check(t.train(s)[2]["stepd-step"] == "2", "sent again")


@fault("a worker dies and the next ones refuse to load",
       "503 with the step; the session waits without a device, closes only by force")
def nothing_to_come_back_to():
    """Workers that do not open again: after some tries the session gives up, and says so."""
    with Trainer("TRAIN:2:kill", **TIMEOUTS) as t:
        s = t.opened()
        t.train(s)
        t.set_faults("OPEN:1:refuse")
        os.kill(worker_of(t), 9)
        status, body, _ = t.train(s)
        check(status == 503 and "step 1" in body["detail"], "told", status, body)
        st = t.status(s)
        check(st["state"] == "needs_restore" and st["reason"], "state", st)
        check(not t.active(), "the slot is free")
        check(t.close(s)[0] == 409, "its step is unsaved")
        check(t.close(s, "?force=true")[0] == 200, "closed")


@fault("a worker does not do a step of the journal again", "told in the status and in the log")
def replay_differs():
    """A worker that does not do the same again is found out."""
    with Trainer("TRAIN:3:kill") as t:
        s = t.opened()
        t.train(s)
        t.train(s)
        t.set_faults("TRAIN:2:wrong")
        check(t.train(s)[0] == 200, "answered")
        st = t.status(s)
        check(st["replay_differences"] == 1, "told", st)
        check("step 2 replayed differs" in t.logged(), "and logged")


@fault("a worker dies long after the start", "back from the snapshot; the replay is bounded")
def snapshots():
    """The journal to replay stays short, and what is behind the snapshot is not needed."""
    with Trainer(STEPD_SNAPSHOT_STEPS="4") as t:
        s = t.opened()
        for _ in range(9):
            t.train(s)
        until = time.monotonic() + 5
        while t.status(s)["replay_steps"] > 4 and time.monotonic() < until:
            time.sleep(0.02)
        st = t.status(s)
        check(st["replay_steps"] <= 4, "replay is bounded", st)
        check(len(os.listdir(os.path.join(t.state, "spool"))) == 1, "one snapshot")
        os.kill(worker_of(t), 9)
        check(t.train(s)[2]["stepd-step"] == "10", "from the snapshot on")
        check(t.status(s)["replay_differences"] == 0, "the same")
        t.close(s, "?force=true")
        check(os.listdir(os.path.join(t.state, "spool")) == [], "closed: no snapshot")


@fault("a worker dies right after its answer", "the step counts, once")
def answers_before_death():
    """What was done counts, although the worker is gone by the time it is read."""
    with Trainer() as t:
        t.set_faults("TRAIN:2:last", once=True)
        s = t.opened()
        t.train(s)
        status, body, headers = t.train(s)
        check(status == 200 and headers["stepd-step"] == "2", "the step counts", status, body)
        check(t.train(s)[2]["stepd-step"] == "3", "the next one too")


@fault("a worker is stopped before it reads its request",
       "ended as one that hangs; the next one answers")
def one_that_reads_nothing():
    """Stopped or killed before it took its request: told as what it was, not as a bad message."""
    with Trainer(**TIMEOUTS) as t:
        for number, end in ((signal.SIGSTOP, "hang"), (signal.SIGKILL, "killed")):
            s = t.opened()
            worker = t.worker_pids()[0]
            os.kill(worker, signal.SIGSTOP)
            step = background(t.train, s)
            time.sleep(0.3)
            os.kill(worker, number)
            status, body, _ = step()
            check(status == 200, "the next one did it", number, status, body)
            check("worker %d: %s (" % (worker, end) in t.logged(), "told in the log", number)
            check(t.status(s)["restarts"] == 1, "one restart", number, t.status(s))
            t.close(s, "?force=true")


@fault("a worker dies while others wait in line", "all are answered, in their order")
def those_who_wait():
    with Trainer() as t:
        t.set_faults("TRAIN:1:slow", "TRAIN:2:kill", once=True)
        s = t.opened()
        waits = []
        for _ in range(4):
            waits.append(background(t.train, s))
            time.sleep(0.1)
        answers = [wait() for wait in waits]
        check([a[2]["stepd-step"] for a in answers] == ["1", "2", "3", "4"], "in order", answers)


def worker_of(t):
    pids = t.worker_pids()
    check(len(pids) == 1, "one worker", pids)
    return pids[0]


@fault("a worker dies while a snapshot becomes the anchor", "brought back, no step lost")
def killed_while_an_anchor_changes():
    """A snapshot becomes the anchor, and the journal up to it goes, while a worker is brought back to
    the one before it."""
    with Trainer(STEPD_SNAPSHOT_STEPS="3") as t:
        s = t.opened()
        for i in range(60):
            t.train(s)
            os.kill(worker_of(t), signal.SIGKILL)
            answer = t.train(s)
            if answer[0] != 200:
                break
        check(answer[0] == 200 and t.status(s)["step"] == 120, "brought back each time", i, answer)


@fault("an idle worker dies", "brought back without being asked")
def idle_worker_dies():
    with Trainer() as t:
        s = t.opened()
        t.render(s)
        t.train(s)
        os.kill(worker_of(t), 9)
        until = time.monotonic() + 5
        while t.status(s)["restarts"] == 0 and time.monotonic() < until:
            time.sleep(0.02)
        st = t.status(s)
        check(st["state"] == "ready" and st["restarts"] == 1, "brought back by itself", st)
        check(t.train(s)[2]["stepd-step"] == "2", "and goes on")


@fault("stepd is stopped while a worker does not come back", "it stops; who waits gets 503")
def stops_while_restoring():
    """A stop does not wait for workers that do not come."""
    t = Trainer("TRAIN:1:kill", STEPD_STOP_TIMEOUT="20")
    s = t.opened()
    t.set_faults("OPEN:1:hang")
    step = background(t.train, s)
    time.sleep(0.7)
    check(t.status(s)["state"] == "restoring", "told", t.status(s))
    check(t.stop() == 0, "stops")
    check(step()[0] == 503, "and tells who waits")


@fault("stepd dies while a worker hangs", "no worker outlives it")
def daemon_dies():
    """Nothing outlives stepd."""
    t = Trainer("TRAIN:1:hang")
    s = t.opened()
    step = background(t.train, s)
    time.sleep(0.3)
    worker = t.worker_pids()[0]
    t.process.kill()
    t.stop()
    until = time.monotonic() + 5
    while os.path.exists("/proc/%d" % worker) and time.monotonic() < until:
        try:
            if ") Z" in open("/proc/%d/stat" % worker).read():
                break  # dead; nobody in this container reaps it
        except OSError:
            break
        time.sleep(0.02)
    check(time.monotonic() < until, "the worker died with stepd")
    step()


@fault("a worker has no space, or refuses",
       "507 or 422; nothing changed, the next request is served")
def refused_and_alive():
    """Refusals change nothing, a full disk neither."""
    with Trainer("SAVE:1:full", "TRAIN:2:refuse") as t:
        s = t.opened()
        t.train(s)
        status, body, _ = t.save(s, t.sign()["put_url"])
        check((status, body) == (507, {"detail": "no space is left for the artifact"}), "full",
              status, body)
        check(t.train(s)[:2] == (422, {"detail": "refused by the fault"}), "refused")
        check(t.train(s)[2]["stepd-step"] == "2", "goes on")
        check(t.save(s, t.sign()["put_url"])[0] == 200, "saves when there is space")
        answers, _ = t.exchange(
            ("POST /v1/sessions/%s/datums:render HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
             "Authorization: Bearer token-of-the-tests-0123456789\r\nContent-Type: application/json"
             "\r\nContent-Length: 3\r\n\r\n{x}" % s).encode())
        check(answers[0].status == 422 and b'[{"type":"json_invalid","loc":["body",0],' in
              answers[0].body, "a list of faults comes through", answers)


while_opening()
for name in ("RENDER", "TRAIN", "SAVE", "GENERATE", "EVALUATE", "VERIFY"):
    while_working(name)
poison()
killed_from_outside()
nothing_to_come_back_to()
replay_differs()
snapshots()
stops_while_restoring()
answers_before_death()
one_that_reads_nothing()
those_who_wait()
killed_while_an_anchor_changes()
idle_worker_dies()
daemon_dies()
refused_and_alive()
finish()
