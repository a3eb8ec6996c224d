"""The threads of workers: STEPD_THREADS, else by the processors and the control group's quota; a session keeps the
number that it opened with, for another one rounds otherwise."""
import json
import os
import signal
import socket
import time

from daemon import check, finish
from fault_table import fault
from tiny_model import WORKER, make_models
from trainer import Trainer

TEXT = "one two three " * 200  # long enough to be worth more threads than one


def start(folder=None, **settings):
    if folder is None:
        folder = make_models("plain")
    # What auto measures is another format now and then, and so are the bits.
    return Trainer(folder=folder, STEPD_WORKER=WORKER, STEPD_END_TIMEOUT="10", STEPD_PERSIST_DATA="true",
                   STEPD_CPU_COMPUTE="f32", **settings)


def read(*path):
    with open(os.path.join(*path)) as f:
        return f.read()


def step(t, session):
    status, body, _ = t.ask("POST", "/v1/sessions/%s/datums:render" % session, {"examples": [
        {"example_id": "e", "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": TEXT}]}]})
    check(status == 200, "render", status, body)
    status, body, _ = t.train(session, body["datums"][0]["datum_id"])
    check(status == 200, "train", status, body)
    return body["loss"]


def threads_of(t):
    return len(os.listdir("/proc/%d/task" % t.worker_pids()[0]))


def told(t):
    """What the status says of the one session's threads."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(os.path.join(t.state, "status.sock"))
        sock.settimeout(30)
        return json.loads(sock.makefile().read())["sessions"][0]["threads"]


def restored(t, session):
    deadline = time.monotonic() + 60
    while (now := t.status(session))["state"] != "ready" and time.monotonic() < deadline:
        time.sleep(0.05)
    return now


@fault("stepd is killed and started with another STEPD_THREADS", "its sessions keep their threads, and their bits")
def kept_over_a_restart():
    with start(STEPD_THREADS="1") as t:
        s = t.opened(base_model="plain")
        other = [step(t, s), step(t, s)]
        t.close(s, "?force=true")
    t = start(STEPD_THREADS="3")
    s = t.opened(base_model="plain")
    losses = [step(t, s), step(t, s)]
    check(threads_of(t) == 3, "as it was told", threads_of(t))
    if losses == other:
        print("other threads round alike on this processor: only their number is told apart")
    t.end(signal.SIGKILL)
    with start(t.folder, STEPD_THREADS="1") as t:
        now = restored(t, s)
        check(now["state"] == "ready" and now["step"] == 2, "back", now)
        check(now["replay_differences"] == 0, "to the bit", now)
        check("replayed differs" not in t.logged(), "no difference", now)
        check(threads_of(t) == 3 and told(t) == 3, "with its threads", threads_of(t))
        t.close(s, "?force=true")
        s = t.opened(base_model="plain")
        check(step(t, s) == other[0] and threads_of(t) == 1, "a new one with the new number", threads_of(t))
        t.close(s, "?force=true")


def quota():
    """A control group with the time of one processor."""
    mount = next((li.split()[4] for li in open("/proc/self/mountinfo") if " - cgroup2 " in li), None)
    if mount is None or os.geteuid() != 0 or "cpu" not in read(mount, "cgroup.subtree_control").split():
        print("not tried: a quota of processors: only root can, where version 2 hands the controller on")
        return
    group = os.path.join(mount, "stepd-test-%d" % os.getpid())
    try:
        os.mkdir(group)
        with open(os.path.join(group, "cpu.max"), "w") as f:
            f.write("100000 100000")
    except OSError as error:
        print("not tried: a quota of processors:", error)
        return
    try:
        enter = ["/bin/sh", "-c", 'echo $$ >"$0"/cgroup.procs && exec "$@"', group]
        with start(prefix=enter, STEPD_THREADS="0") as t:
            s = t.opened(base_model="plain")
            step(t, s)
            check(threads_of(t) == 1, "as many threads as the quota", threads_of(t))
            check(told(t) == 1, "and says so")
            t.close(s, "?force=true")
    finally:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                os.rmdir(group)
                break
            except OSError:
                time.sleep(0.05)


def all_processors():
    with start(STEPD_THREADS="0") as t:
        s = t.opened(base_model="plain")
        step(t, s)
        check(1 <= threads_of(t) <= len(os.sched_getaffinity(0)), "as many as may run", threads_of(t))
        t.close(s, "?force=true")


kept_over_a_restart()
all_processors()
quota()
finish()
