"""A session of a real worker for GPUs, of GPU_WORKER, in its sandbox: tests/cuda-emu/test_sandbox.sh runs it with the
emulated one, tests/check_gpu.sh with that of the GPU at hand."""
import os
import signal
import stat
import subprocess
import sys
import tempfile

from daemon import check, finish
from trainer import Trainer

GPU_WORKER = os.path.abspath(os.environ["GPU_WORKER"])
EMULATED = "cuda-emu" in GPU_WORKER
TINY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "models", "make_tiny.py")


def trainer(program, folder=None, **settings):
    t = Trainer(folder=folder, STEPD_WORKER_CUDA=program, STEPD_DEVICES="auto", STEPD_READY_TIMEOUT="60", STEPD_THREADS="1",
                STEPD_END_TIMEOUT="10", **settings)
    t.__enter__()
    return t


def wrapped(folder, name, **environment):
    """The worker with more in its environment than stepd hands on."""
    path = os.path.join(folder, name)
    with open(path, "w") as f:
        f.write("#!/bin/sh\n" + "".join("export %s=%s\n" % pair for pair in environment.items()) +
                'exec "%s" "$@"\n' % GPU_WORKER)
    os.chmod(path, stat.S_IRWXU)
    return path


def worker(t, session):
    return next(s for s in t.document()["sessions"] if s["session_id"] == session)["worker"]


def confined(t, session):
    """What the status says of its sandbox, and what the kernel does, of each of its threads."""
    w = worker(t, session)
    holds, _, lacks = w["sandbox"].partition("; without ")
    for part in ("network", "capabilities", "files", "system calls"):
        check(part in holds or part in lacks, "says of each part", part, w)
    threads = os.listdir("/proc/%d/task" % w["pid"])
    for thread in threads:
        with open("/proc/%d/task/%s/status" % (w["pid"], thread)) as f:  # gVisor's has not all of it
            status = dict(li.split(":\t", 1) for li in f.read().splitlines() if ":\t" in li)
        check("system calls" in lacks or status["Seccomp"] == "2" and int(status.get("Seccomp_filters", 2)) >= 2,
              "a filter on each thread", thread, status)
        check(status.get("NoNewPrivs", "1") == "1" and int(status["CapEff"], 16) & ~(1 << 2) == 0, "no right", thread, status)
    return w["pid"]


def lives(t):
    s = t.opened(base_model="tiny", maximum_datum_tokens=64)
    pid = confined(t, s)
    device = t.status(s)["device"]
    print("a session on %s, sandbox: %s" % (device, worker(t, s)["sandbox"]))
    check(device not in ("", "cpu"), "on the GPU", t.status(s))
    status, body, _ = t.render(s, "a", "b")
    check(status == 200, "render", status, body)
    ids = [d["datum_id"] for d in body["datums"]]
    for _ in range(3):
        status, body, _ = t.train(s, *ids)
        check(status == 200 and body["loss"] > 0, "train", status, body)
    urls = t.sign()
    check(t.save(s, urls["put_url"])[0] == 200, "save")
    check(t.generate(s)[0] == 200, "generate")
    # Another one, on the same GPU, in a sandbox too: with the same bits.
    os.kill(pid, signal.SIGKILL)
    status, body, _ = t.train(s, *ids)
    check(status == 200, "after its worker was killed", status, body)
    check(t.status(s)["replay_differences"] == 0, "the same bits", t.status(s))
    check(confined(t, s) != pid, "the new one has its sandbox")
    check(t.close(s, "?force=true")[0] == 200, "close")
    s = t.opened(base_model="tiny", maximum_datum_tokens=64, resume_download_url=urls["get_url"])
    check(t.status(s)["step"] == 3, "resume", t.status(s))
    t.close(s)


def memory(t):
    """What is free when the session is opened counts, not what the card has."""
    for name, size, code in (("small", 5 << 20, 507), ("large", 1 << 30, 200)):
        u = trainer(wrapped(t.folder, name, EMU_GUARD=0, EMU_MEMORY=size), STEPD_MODEL_DIR=os.path.join(t.folder, "models"))
        status, body, _ = u.open(base_model="tiny", maximum_datum_tokens=2048)
        check(status == code, "memory of a %s card" % name, status, body)
        check(code != 507 or "free" in str(body), "need and free", body)
        u.__exit__(None)


def unknown_driver(t):
    """One that wants what the sandbox does not know: not used, and the log says that it is the sandbox."""
    u = trainer(wrapped(t.folder, "wanting", EMU_OPEN="/etc/passwd"))
    check("not used: it computes, but not in the sandbox of workers (STEPD_SANDBOX): cudaSetDevice: OS call" in u.logged(),
          "told", u.logged())
    check(u.open()[0] == 503, "no session there")
    u.__exit__(None)


folder = tempfile.mkdtemp(prefix="stepd-test-")
# Of the emulation, open to the host: it is not what is tried here, and slow.
t = trainer(wrapped(folder, "open", EMU_GUARD=0) if EMULATED else GPU_WORKER, folder)
subprocess.run([sys.executable, TINY, os.path.join(t.folder, "models", "tiny")], check=True, stdout=subprocess.DEVNULL)
health = t.ask("GET", "/healthz")[1]
check(health["cuda_available"] and health["cuda_verified"], "a GPU that computes in the sandbox", health,
      [li for li in t.logged().splitlines() if "GPU" in li or "sandbox" in li or "forbidden" in li])
if health["cuda_verified"]:
    try:
        lives(t)
    finally:
        # A driver may do more in a step than in a probe: its name is here.
        ended = [li for li in t.logged().splitlines() if "forbidden system call" in li or "does not hold" in li]
        check(ended == [], "what the sandbox ended", ended)
    if EMULATED:
        memory(t)
        unknown_driver(t)
t.__exit__(None)
finish()
