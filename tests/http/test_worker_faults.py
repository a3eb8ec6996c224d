"""A worker that fails, in every phase and every way: the request says so, stepd and the next session
are unharmed."""
import os
import signal
import time

from daemon import check, finish
from trainer import TIMEOUTS, Trainer, background

# What a worker's end is called in the log.
ENDS = {"kill": "killed", "crash": "signal", "sandbox": "sandbox", "exit": "exited",
        "clean": "exited", "words": "device_oom", "garbage": "bad_frame", "number": "bad_frame",
        "type": "bad_frame", "cut": "bad_frame", "status": "bad_frame", "hang": "hang",
        "stubborn": "hang", "close": "hang"}
BAD_ANSWERS = {"RENDER": ("nofd", "lie", "unsealed"), "TRAIN": ("skip", "nan"), "SAVE": ("size",),
               "GENERATE": ("nofd",)}


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


def call(t, message, session, url):
    if message == "RENDER":
        return t.render(session)
    if message == "TRAIN":
        return t.train(session)
    if message == "GENERATE":
        return t.generate(session)
    return t.save(session, url)


def while_working(message):
    with Trainer(**TIMEOUTS) as t:
        for fault in list(ENDS) + list(BAD_ANSWERS[message]):
            # The second message of its kind, so that there is something to lose.
            t.set_faults("%s:2:%s" % (message, fault))
            s = t.opened()
            t.train(s) if message != "TRAIN" else None
            url = t.sign()["put_url"]
            check(call(t, message, s, url)[0] == 200, "before it", message, fault)
            step = t.status(s)["step"]
            status, body, headers = call(t, message, s, t.sign()["put_url"])
            check(status == 503 and "step %d" % step in body["detail"], "503 says the step", message,
                  fault, status, body)
            check(headers["stepd-step"] == str(step), "the step is what it was", message, fault)
            st = t.status(s)
            check(st["state"] == "needs_restore" and st["step"] == step, "state", message, fault, st)
            check(st["reason"], "the reason is told", st)
            check(not t.active(), "the slot is free", message, fault)
            check(t.train(s)[0] == 503 and t.render(s)[0] == 503, "afterwards too", message, fault)
        check(no_worker_left(t), "no worker is left", message)
        check(os.listdir(os.path.join(t.state, "spool")) == [], "no spool file is left", message)


def answers_before_death():
    """What was done counts, although the worker is gone by the time it is read."""
    with Trainer("TRAIN:2:last") as t:
        s = t.opened()
        t.train(s)
        status, body, headers = t.train(s)
        check(status == 200 and headers["stepd-step"] == "2", "the step counts", status, body)
        check(t.train(s)[0] == 503, "then it is gone")
        check(t.status(s)["step"] == 2, "at its last step")


def one_that_reads_nothing():
    """Stopped or killed before it took its request: told as what it was, not as a bad message."""
    with Trainer(**TIMEOUTS) as t:
        for number, reason in ((signal.SIGSTOP, "did not answer in time"), (signal.SIGKILL, "killed from outside")):
            s = t.opened()
            with open("/proc/%d/task/%d/children" % (t.process.pid, t.process.pid)) as f:
                worker = int(f.read().split()[0])
            os.kill(worker, signal.SIGSTOP)
            step = background(t.train, s)
            time.sleep(0.3)
            os.kill(worker, number)
            status, body, _ = step()
            check(status == 503 and reason in body["detail"], "it read nothing", number, status, body)
            check(reason in t.status(s)["reason"], "reason", number, t.status(s))


def those_who_wait():
    with Trainer("TRAIN:1:slow", "TRAIN:2:kill") as t:
        s = t.opened()
        waits = []
        for _ in range(4):
            waits.append(background(t.train, s))
            time.sleep(0.1)
        answers = [wait() for wait in waits]
        check([a[0] for a in answers] == [200, 503, 503, 503], "each is answered", answers)


def idle_worker_dies():
    with Trainer() as t:
        s = t.opened()
        children = open("/proc/%d/task/%d/children" % (t.process.pid, t.process.pid)).read().split()
        check(len(children) == 1, "one worker", children)
        os.kill(int(children[0]), 9)
        until = time.monotonic() + 5
        while t.active() and time.monotonic() < until:
            time.sleep(0.02)
        st = t.status(s)
        check(st["state"] == "needs_restore" and "killed" in st["reason"], "noticed", st)
        check(t.train(s)[0] == 503, "and told")


def daemon_dies():
    """Nothing outlives stepd."""
    t = Trainer("TRAIN:1:hang")
    s = t.opened()
    step = background(t.train, s)
    time.sleep(0.3)
    worker = int(open("/proc/%d/task/%d/children" % (t.process.pid, t.process.pid)).read().split()[0])
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
for name in ("RENDER", "TRAIN", "SAVE", "GENERATE"):
    while_working(name)
answers_before_death()
one_that_reads_nothing()
those_who_wait()
idle_worker_dies()
daemon_dies()
refused_and_alive()
finish()
