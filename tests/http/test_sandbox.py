"""The worker's sandbox: a session of a real worker lives in it, whatever links lead to its model, and a
worker that breaks it is named so."""
import os
import re
import shutil
import signal
import subprocess
import time

from daemon import BUILD, check, finish
from fault_table import fault
from tiny_model import WORKER, make_model
from trainer import Trainer

SHA = "0123456789abcdef0123456789abcdef01234567"


def make_models(folder):
    """One model in every layout: plain, behind a link, as a Hugging Face cache, as links in a folder."""
    outside = os.path.join(folder, "outside")
    models, cache = os.path.join(folder, "models"), os.path.join(folder, "hf", "hub", "models--org--cached")
    for d in (outside, models, os.path.join(cache, "blobs"), os.path.join(cache, "refs"),
              os.path.join(cache, "snapshots", SHA), os.path.join(models, "links")):
        os.makedirs(d)
    make_model(os.path.join(models, "plain"))
    shutil.copytree(os.path.join(models, "plain"), os.path.join(outside, "tiny"))
    os.symlink("../outside/tiny", os.path.join(models, "linked"))
    with open(os.path.join(cache, "refs", "main"), "w") as f:
        f.write(SHA)
    for name in os.listdir(os.path.join(models, "plain")):
        shutil.copy(os.path.join(models, "plain", name), os.path.join(cache, "blobs", "blob-of-" + name))
        os.symlink("../../blobs/blob-of-" + name, os.path.join(cache, "snapshots", SHA, name))
        os.symlink(os.path.join(outside, "tiny", name), os.path.join(models, "links", name))


def live(t, model):
    """Everything that a session does."""
    s = t.opened(base_model=model)
    status, body, _ = t.render(s, "a", "b")
    check(status == 200, model, "render", status, body)
    ids = [d["datum_id"] for d in body["datums"]]
    for _ in range(2):
        status, body, _ = t.train(s, *ids)
        check(status == 200 and body["loss"] > 0, model, "train", status, body)
    for kind in ("state", "sampling"):
        urls = t.sign()
        status, body, _ = t.save(s, urls["put_url"], kind)
        check(status == 200, model, "save", kind, status, body)
        if kind == "state":
            state = urls["get_url"]
    check(t.generate(s)[0] == 200, model, "generate")
    check(t.close(s)[0] == 200, model, "close")
    s = t.opened(base_model=model, resume_download_url=state)
    check(t.status(s)["step"] == 2, model, "resume")
    return s


def proc_status(pid, field):
    with open("/proc/%d/status" % pid) as f:
        return next(line.split()[1] for line in f if line.startswith(field + ":"))


def confined(t):
    """What the kernel says of the worker, from outside."""
    pid = t.worker_pids()[0]
    line = [li for li in t.logged().splitlines() if "sandbox of worker %d" % pid in li][-1]
    holds, _, lacks = line.partition("; without ")
    check(proc_status(pid, "NoNewPrivs") == "1", "no new privileges")
    if "system calls" not in lacks:
        check(proc_status(pid, "Seccomp") == "2", "a filter", line)
    if "network" not in lacks:
        try:
            check(os.readlink("/proc/%d/ns/net" % pid) != os.readlink("/proc/self/ns/net"), "network", line)
        except PermissionError:  # the same user may not look into it either
            check(os.geteuid() != 0, "its own superuser may look")
    kept = int(proc_status(pid, "CapEff"), 16)
    check(kept & ~(1 << 2) == 0, "capabilities", line, hex(kept))
    with open("/proc/%d/limits" % pid) as f:
        check(any(li.split()[:5] == ["Max", "core", "file", "size", "0"] for li in f), "no core")
    for part in ("system calls", "network", "capabilities", "files") + (("user",) if os.geteuid() == 0 else ()):
        check(part in holds or part in lacks, "says of each part", part, line)
    with open("/proc/%d/status" % pid) as f:
        status = f.read()
    if os.geteuid() == 0 and "user" not in lacks:
        for field in ("Uid", "Gid"):
            check(("%s:\t" % field + "\t".join(["65534"] * 4)) in status, "a user of its own", field, status)
        check(re.search(r"^Groups:\s*$", status, re.M) is not None, "in no other group", status)


def sessions_live():
    t = Trainer()
    make_models_at = os.path.join(t.folder, "made")
    make_models(make_models_at)
    t.end(signal.SIGTERM)
    t = Trainer(folder=t.folder, STEPD_MODEL_DIR=os.path.join(make_models_at, "models"),
                HF_HOME=os.path.join(make_models_at, "hf"), STEPD_WORKER=WORKER, STEPD_THREADS="2",
                STEPD_END_TIMEOUT="10")
    with t:
        for model in ("plain", "linked", "links", "org/cached"):
            s = live(t, model)
            confined(t)
            if model != "org/cached":
                t.close(s, "?force=true")
        # It dies with stepd in its sandbox too.
        pid = t.worker_pids()[0]
        t.process.kill()
        t.process.wait()
        until = time.monotonic() + 5
        while os.path.exists("/proc/%d" % pid) and time.monotonic() < until:
            if proc_status(pid, "State") == "Z":
                break
            time.sleep(0.02)
        check(time.monotonic() < until, "the worker dies with stepd")
        t.process.returncode = 0


@fault("a worker makes a forbidden system call",
       "ended and named so; the request is refused the second time")
def violation():
    """A real one, of workers that entered the real sandbox: the request that makes it twice is refused."""
    with Trainer("TRAIN:1:violate") as t:
        s = t.opened()
        t.render(s)
        status, body, _ = t.train(s)
        check(status == 422 and "twice" in body["detail"], "a request that ends two workers is refused", status, body)
        check(": sandbox (signal 31): a forbidden system call: socket" in t.logged(), "the log names it",
              t.logged()[-500:])
        check("ended its worker twice (sandbox)" in t.logged(), "the log names the reason", t.logged()[-500:])
        check(t.status(s)["restarts"] >= 1, "the session came back", t.status(s))


def plain(**settings):
    """A stepd with one model, and its real worker."""
    t = Trainer()
    make_model(os.path.join(t.folder, "models", "plain"))
    t.end(signal.SIGTERM)
    return Trainer(folder=t.folder, **{"STEPD_WORKER": WORKER, "STEPD_END_TIMEOUT": "10", **settings})


def ended():
    """One that stands still is ended, whoever it has become, and another takes the session on."""
    with plain(STEPD_TRAIN_TIMEOUT="3", STEPD_END_TIMEOUT="1") as t:
        s = t.opened(base_model="plain")
        status, body, _ = t.render(s, "a")
        first = t.worker_pids()[0]
        os.kill(first, signal.SIGSTOP)
        status, body, _ = t.train(s, *[d["datum_id"] for d in body["datums"]])
        check(status == 200 and t.worker_pids()[0] != first, "the step is done by another", status, body)
        check(not os.path.exists("/proc/%d" % first), "and the first is gone")
        t.close(s, "?force=true")


def other_users():
    """By number; and one that is not there is refused at the start."""
    if os.geteuid() != 0:
        print("skipped: STEPD_WORKER_USER: not the superuser")
        return
    for user, uid in (("54321", "54321"), ("root", "0")):
        with plain(STEPD_WORKER_USER=user) as t:
            s = t.opened(base_model="plain")
            told = [li for li in t.logged().splitlines() if "sandbox of worker %d" % t.worker_pids()[0] in li][-1]
            check(proc_status(t.worker_pids()[0], "Uid") == uid or "without user" in told, "becomes", user, told)
            t.close(s)
    said = subprocess.run([os.path.join(BUILD, "stepd"), "--check"], capture_output=True, text=True,
                          env={"TRAINER_TOKEN": "t" * 32, "STEPD_STATE_DIR": "/nonexistent",
                               "STEPD_WORKER_USER": "no-such-user"})
    check(said.returncode != 0 and "STEPD_WORKER_USER: no user no-such-user" in said.stderr, "refused", said)


def switched_off():
    with plain(STEPD_SANDBOX="off") as t:
        s = t.opened(base_model="plain")
        pid = t.worker_pids()[0]
        check(proc_status(pid, "Seccomp") == "0", "no filter")
        check("sandbox of worker %d: off" % pid in t.logged(), "said so")
        t.close(s)


sessions_live()
violation()
ended()
other_users()
switched_off()
finish()
