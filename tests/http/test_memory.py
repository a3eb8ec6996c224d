"""STEPD_WORKER_MEMORY: with a control group that is delegated to stepd a worker that takes more is ended, alone and
named so; without one its allocations fail and the request is refused with words."""
import json
import os
import re
import shutil
import subprocess
import time

from daemon import ASAN, BUILD, check, finish
from fault_table import NOT_TRIED, fault
from tiny_model import WORKER, make_models
from trainer import Trainer

STEPCTL = os.path.join(BUILD, "stepctl")
MIB = 1 << 20
NOBODY = 65534


def status_of(t, *options):
    return subprocess.run([STEPCTL, "status", "--socket", os.path.join(t.state, "status.sock"), *options],
                          capture_output=True, text=True, timeout=60).stdout


def until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def worker_of(t):
    return json.loads(status_of(t, "--json"))["sessions"][0]["worker"]


def train_text(t, session, name, text):
    """Renders one example and trains on it: the answer of the step."""
    status, body, _ = t.ask("POST", "/v1/sessions/%s/datums:render" % session, {"examples": [
        {"example_id": name, "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": text}]}]})
    check(status == 200, "render", name, status, str(body)[:300])
    return t.train(session, body["datums"][0]["datum_id"]) if status == 200 else (0, body, {})


def read(*path):
    with open(os.path.join(*path)) as f:
        return f.read()


@fault("a step needs more memory than STEPD_WORKER_MEMORY, without a control group",
       "507 with words; the same worker goes on")
def real_worker_by_rlimit():
    if ASAN:  # its shadow is private memory too, of terabytes
        return NOT_TRIED
    folder = make_models("plain")
    with Trainer(folder=folder, STEPD_WORKER=WORKER, STEPD_WORKER_MEMORY="384M", STEPD_THREADS="2",
                 STEPD_END_TIMEOUT="10") as t:
        check("kept by RLIMIT_DATA" in t.logged(), "stepd says that there is no group")
        status, body, _ = t.open(base_model="plain", maximum_datum_tokens=10_000_000)
        words = re.fullmatch(r"the session needs (\d+) bytes \(\d+ of weights, \d+ of adapter, gradients and moments, \d+ "
                             r"for a datum of 10000000 tokens\) and (\d+) are free: the largest maximum_datum_tokens "
                             r"that fits is (\d+)", body.get("detail", ""))
        check(status == 507 and words, "a session that cannot fit is refused", status, body)
        need, free, most = (int(n) for n in words.groups()) if words else (0, 0, 0)
        check(need > free == 384 * MIB and 1000 < most < 10_000_000, "its figures", body)
        check(t.open(base_model="plain", maximum_datum_tokens=most + 1)[0] == 507, "one token more than that")
        t.close(t.opened(base_model="plain", maximum_datum_tokens=most), "?force=true")
        s = t.opened(base_model="plain")
        before = worker_of(t)
        check(before["memory_limit"] == {"by": "rlimit", "bytes": 384 * MIB, "peak_bytes": None}, "status", before)
        check("; memory: 402.7MB by rlimit" in status_of(t), "the plain line", status_of(t))
        check("memory held to %d bytes by rlimit" % (384 * MIB) in t.logged(), "the log")
        with open("/proc/%d/limits" % before["pid"]) as f:
            check(any(li.split()[:4] == ["Max", "data", "size", str(384 * MIB)] for li in f), "the kernel's word")
        status, body, _ = train_text(t, s, "small", "a b c")
        check(status == 200, "a step that fits", status, body)
        status, body, _ = train_text(t, s, "large", "one two three " * 60000)
        check(status == 507 and "memory" in body["detail"], "a step that does not", status, body)
        status, body, headers = train_text(t, s, "small", "a b c")
        check(status == 200 and headers.get("stepd-step") == "2", "the next one that fits", status, body, headers)
        check(worker_of(t)["pid"] == before["pid"] and t.status(s)["restarts"] == 0, "by the same worker")
        t.close(s, "?force=true")


@fault("a worker takes memory without end, without a control group", "its allocations fail, the machine is spared")
def eater_by_rlimit():
    if ASAN:
        return NOT_TRIED
    with Trainer("TRAIN:1:eat", STEPD_WORKER_MEMORY="64M") as t:
        s = t.opened()
        t.render(s)
        status, body, _ = t.train(s)
        check(status == 507, "refused", status, body)
        check(t.train(s)[0] == 200 and t.status(s)["restarts"] == 0, "and goes on", t.status(s))
        peak = worker_of(t)["peak_bytes"]
        check(peak < 96 * MIB, "it had no more", peak)


def no_limit():
    """0 is none: nothing is said, nothing set."""
    with Trainer() as t:
        t.opened()
        w = worker_of(t)
        check(w["memory_limit"] in ({"by": None, "bytes": None, "peak_bytes": None},) or
              w["memory_limit"]["by"] == "cgroup", "no limit", w)
        check("memory held" not in t.logged() and "RLIMIT_DATA" not in t.logged(), "no word of it")


def why_no_group():
    """None where this test can make control groups of version 2, else the reason."""
    mount = next((li.split()[4] for li in open("/proc/self/mountinfo") if " - cgroup2 " in li), None)
    if mount is None:
        return "no cgroup of version 2"
    if os.geteuid() != 0:
        return "only root can make one"
    if "memory" not in read(mount, "cgroup.subtree_control").split():
        return "the memory controller is not in version 2, or not handed on"
    try:
        with Group(mount):
            return None
    except OSError as error:
        return str(error)


class Group:
    """A control group as systemd delegates it; a string with its folder."""

    made = 0

    def __init__(self, mount=None):
        mount = mount or next(li.split()[4] for li in open("/proc/self/mountinfo") if " - cgroup2 " in li)
        Group.made += 1
        self.folder = os.path.join(mount, "stepd-test-%d-%d" % (os.getpid(), Group.made))

    def __enter__(self):
        os.mkdir(self.folder)
        try:
            os.setxattr(self.folder, "user.delegate", b"1")
        except OSError:
            os.rmdir(self.folder)
            raise
        return self.folder

    def __exit__(self, *_):
        """Groups go when their processes have."""
        deadline = time.monotonic() + 10
        for folder, _, _ in list(os.walk(self.folder, topdown=False)):
            while time.monotonic() < deadline:
                try:
                    os.rmdir(folder)
                    break
                except OSError:
                    time.sleep(0.05)


def in_group(group):
    return ["/bin/sh", "-c", 'echo $$ >"$0"/cgroup.procs && exec "$@"', group]


@fault("a worker takes more memory than its control group has",
       "ended and named host_oom; the session comes back, the request is refused the second time")
def eater_by_group(reason):
    if reason is not None:
        return NOT_TRIED
    with Group() as group, Trainer("TRAIN:2:eat", prefix=in_group(group), STEPD_WORKER_MEMORY="64M") as t:
        check("workers have a control group each" in t.logged(), "claimed", t.logged())
        check(read("/proc/%d/cgroup" % t.process.pid).strip().endswith("/supervisor"), "stepd is in one of its own")
        s = t.opened()
        w = worker_of(t)
        here = read("/proc/%d/cgroup" % w["pid"]).strip()
        check(here.rsplit("/", 1)[1].startswith("worker-"), "its worker too", here)
        own = os.path.join(group, here.rsplit("/", 1)[1])
        check(read(own, "memory.max") == "%d\n" % (64 * MIB), "memory.max")
        check(read(own, "memory.oom.group") == "1\n", "memory.oom.group")
        if os.path.exists(os.path.join(own, "memory.swap.max")):
            check(read(own, "memory.swap.max") == "0\n", "no swap")
        if os.path.exists(os.path.join(own, "pids.max")):
            check(int(read(own, "pids.max")) > 0, "a bound of threads")
        limit = w["memory_limit"]
        check(limit["by"] == "cgroup" and limit["bytes"] == 64 * MIB, "status", w)
        if os.path.exists(os.path.join(own, "memory.peak")):
            check(0 < limit["peak_bytes"] <= 64 * MIB, "the peak", w)
        check("; memory: 67.1MB by cgroup" in status_of(t), "the plain line", status_of(t))
        t.render(s)
        check(t.train(s)[0] == 200, "a step that fits")
        status, body, _ = t.train(s)
        check(status == 422 and "twice" in body["detail"], "a request that ends two workers", status, body)
        check(": host_oom (signal 9)" in t.logged(), "the log names it", t.logged()[-1500:])
        check("ended its worker twice (host_oom)" in t.logged(), "the log names the reason", t.logged()[-1500:])
        x = json.loads(status_of(t, "--json"))["sessions"][0]
        check(x["worker_ends"] == {"host_oom": 2} and x["step"] >= 1, "ends by class", x)
        t.set_faults()
        check(t.generate(s)[0] == 200, "the session goes on")
        check(not os.path.exists(own), "its group went with it", os.listdir(group))
        # Killed from outside it is not taken for that.
        os.kill(worker_of(t)["pid"], 9)
        check(t.evaluate(s)[0] == 200, "again")
        x = json.loads(status_of(t, "--json"))["sessions"][0]
        check(x["worker_ends"] == {"host_oom": 2, "killed": 1}, "another class", x)
        t.close(s, "?force=true")
        check(until(lambda: not [d for d in os.listdir(group) if d.startswith("worker-")]), "no group is left",
              os.listdir(group))


def real_worker_by_group(user):
    """The service as it is installed: a user of its own, to whom systemd gives the group."""
    become = ["setpriv", "--reuid=%d" % user, "--regid=%d" % user, "--clear-groups"] if user else []
    if user and (shutil.which("setpriv") is None or subprocess.run([*become, "test", "-x", WORKER]).returncode != 0):
        print("not tried: groups of another user: nobody cannot start", WORKER)
        return
    folder = make_models("plain")
    os.chmod(folder, 0o755)
    os.mkdir(os.path.join(folder, "state"), 0o700)
    os.chown(os.path.join(folder, "state"), user, user)
    with Group() as group:
        for name in ("", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
            os.chown(os.path.join(group, name), user, user)
        with Trainer(folder=folder, prefix=in_group(group) + become, STEPD_WORKER=WORKER, HOME=folder,
                     STEPD_WORKER_MEMORY="384M", STEPD_THREADS="2", STEPD_END_TIMEOUT="10") as t:
            check(os.stat("/proc/%d" % t.process.pid).st_uid in (0, user), "its user")
            s = t.opened(base_model="plain")
            w = worker_of(t)
            check(w["memory_limit"]["by"] == "cgroup", "by its group", w, t.logged())
            check(train_text(t, s, "small", "a b c")[0] == 200, "a real step in a group")
            with open(os.path.join(group, "worker-1", "memory.max")) as f:
                check(f.read() == "%d\n" % (384 * MIB), "its limit")
            t.close(s, "?force=true")


def not_delegated():
    """What nobody marked as stepd's is not touched, though root could."""
    with Group() as group:
        os.removexattr(group, "user.delegate")
        with Trainer(prefix=in_group(group), STEPD_WORKER_MEMORY="64M") as t:
            check("stepd's is not delegated to it" in t.logged(), "said", t.logged())
            check(not [d for d in os.listdir(group) if os.path.isdir(os.path.join(group, d))], "untouched",
                  os.listdir(group))
            t.opened()
            check(worker_of(t)["memory_limit"]["by"] == "rlimit", "the other limit", worker_of(t))


def not_alone():
    """Somebody else in it: it cannot have groups below, and nothing is left behind."""
    with Group() as group:
        other = subprocess.Popen([*in_group(group), "sleep", "1000"])
        check(until(lambda: str(other.pid) in read(group, "cgroup.procs").split()), "somebody else is in it")
        with Trainer(prefix=in_group(group), STEPD_WORKER_MEMORY="64M") as t:
            check("workers have no control group each (Device or resource busy)" in t.logged(), "said", t.logged())
            check(not os.path.exists(os.path.join(group, "supervisor")), "undone", os.listdir(group))
        other.kill()
        other.wait()


real_worker_by_rlimit()
eater_by_rlimit()
no_limit()
reason = why_no_group()
if reason is not None:
    print("not tried: control groups of workers:", reason)
eater_by_group(reason)
if reason is None:
    if not ASAN:
        real_worker_by_group(0)
        real_worker_by_group(NOBODY)
    not_delegated()
    not_alone()
finish()
