"""What stepd has given up: told in its log, seen by the kernel, tried by a program that it started; and that
stepd and its workers do all their work without it."""
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile

from daemon import ASAN, Stepd, check, finish
from fault_table import fault
from tiny_model import WORKER, make_model
from trainer import Trainer

HERE = os.path.dirname(os.path.abspath(__file__))
NOBODY = 65534
ROOT = os.geteuid() == 0
READ_SEARCH, KILL, SETGID, SETUID, SYS_ADMIN = (1 << bit for bit in (2, 5, 6, 7, 21))
CALLS = ("ptrace process_vm_readv kcmp setuid setregid setns chroot mount umount2 open_tree fsopen init_module "
         "finit_module kexec_load reboot syslog bpf perf_event_open userfaultfd io_uring_setup keyctl add_key "
         "pidfd_getfd").split()
WRITES = ("make", "append", "truncate", "rename", "remove", "mkdir", "symlink", "mkfifo")


def proc_status(pid):
    with open("/proc/%d/status" % pid) as f:
        return dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)


def given_up(t):
    """The line of the log: what holds, what the kernel lacks."""
    line = re.search(r"privileges given up: (.*)", t.logged()).group(1).split("; kept: ")[0]
    holds, _, lacks = line.partition("; without ")
    return holds, lacks


def from_outside(t, root, status=None):
    holds, lacks = given_up(t)
    s = proc_status(t.process.pid)
    check(holds.startswith("closed memory, no new privileges, capabilities"), "the log's line", holds, lacks)
    if root == ROOT:  # others may not ask
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(status or os.path.join(t.state, "status.sock"))
            document = b"".join(iter(lambda: sock.recv(65536), b""))
        told = json.loads(document)["privileges"]
        check(told.startswith(holds), "status has it too", told)
    check(s["NoNewPrivs"] == "1", "no new privileges", s)
    if "system calls" not in lacks:
        check(s["Seccomp"] == "2", "a filter", s)
    kept = READ_SEARCH | KILL | SETGID | SETUID | SYS_ADMIN if root else 0
    permitted, effective = int(s["CapPrm"], 16), int(s["CapEff"], 16)
    check(permitted & ~kept == 0, "capabilities permitted", s)
    check(effective & ~(READ_SEARCH | KILL if root else 0) == 0, "capabilities in effect", s)
    check(int(s["CapInh"], 16) == int(s["CapAmb"], 16) == 0, "none handed on", s)
    if root:
        check(int(s["CapBnd"], 16) & ~kept == 0, "bounding set", s)
        check("superuser" in t.logged() and "kept: " in t.logged(), "a warning for the superuser")
    with open("/proc/%d/limits" % t.process.pid) as f:
        check(re.search(r"^Max core file size +0 +0 ", f.read(), re.M) is not None, "no core file")
    for name in os.listdir("/proc/%d/task" % t.process.pid):
        with open("/proc/%d/task/%s/status" % (t.process.pid, name)) as f:
            text = f.read()
        check("NoNewPrivs:\t1" in text and ("system calls" in lacks or "Seccomp:\t2" in text), "every thread", text)


def probes(**settings):
    """What a program that stepd started could do: name to result."""
    t = Trainer(**settings)
    with t:
        with open(os.path.join(t.folder, "there"), "w") as f:
            f.write("x")
        with open(t.worker, "w") as f:
            f.write('#!/bin/sh\nexec "%s" "%s" "%s" %d\n' % (
                sys.executable, os.path.join(HERE, "probe_worker.py"), t.folder, os.getpid()))
        os.chmod(t.worker, stat.S_IRWXU)
        check(t.open()[0] == 503, "no worker to train with")
        got = dict(re.findall(r"^probe (\S+) (\S+)$", t.logged(), re.M))
        check(got.get("end") == "0", "the probes ran", t.logged()[-3000:])
        if not settings:
            from_outside(t, ROOT)
            with open(os.path.join(t.folder, "there")) as f:
                check(f.read() == "x", "untouched")
        return got, given_up(t) if not settings else None


@fault("a program in stepd's place traces, mounts, listens, writes elsewhere",
       "each is refused by the kernel")
def from_inside():
    got, (_, lacks) = probes()
    free, _ = probes(STEPD_SANDBOX="off")
    check(free["make"] == "0" and free["NoNewPrivs"] == "1" and free["Seccomp"] == "0", "off is off", free)
    calls = [name for name in free if name in CALLS]
    if "system calls" not in lacks:
        for name in calls:
            check(got[name] == "EPERM" or (ASAN and name in ("ptrace", "process_vm_readv")),
                  "system call", name, got[name], "without", free[name])
        told_apart = [name for name in calls if free[name] != "EPERM"]
        check(not calls or len(told_apart) >= 8, "and it is the filter that says so", told_apart)
        check(not calls or free["setuid"] == "0", "as here", free["setuid"])
        for family in ("netfilter", "packet", "vsock", "alg"):
            check(got["socket-" + family] == "EAFNOSUPPORT", "socket", family, got)
    for family in ("inet", "unix", "route"):
        check(got["socket-" + family] == "0", "socket", family, got)
    check(got["null"] == got["read"] == got["programs"] == got["signal-self"] == "0", "what has to work", got)
    for name in ("make", "mkdir", "rename", "remove", "rmdir"):
        check(got[name + "-in-state"] == "0", "the state folder", name, got)
    if "files" not in lacks:
        for name in WRITES:
            want = {"rename": ("EACCES", "EXDEV"), "mkfifo": ("EACCES", "EPERM")}.get(name, ("EACCES",))
            check(got[name] in want and free["make"] == "0", "files elsewhere", name, got[name])
        abi = landlock_version()
        if abi >= 4:
            check(got["listen"] == "EACCES" and free["listen"] == "0", "no further listeners", got["listen"])
        if abi >= 6:
            check(got["signal"] == "EPERM" and free["signal"] == "0", "no signals to others", got["signal"])


def landlock_version():
    import ctypes
    return ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1)


@fault("a whole session as a user without rights",
       "it works")
def as_a_user():
    """Its own user, as systemd's unit has it: a real worker in its own sandbox works under all of this."""
    folder = tempfile.mkdtemp(prefix="stepd-test-")
    models, state = os.path.join(folder, "models"), os.path.join(folder, "state")
    make_model(os.path.join(models, "tiny"))
    os.mkdir(state, 0o700)
    prefix = ()
    if ROOT:
        if subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "test", "-x", WORKER],
                          stderr=subprocess.DEVNULL).returncode != 0:
            shutil.rmtree(folder)
            return  # nobody may not come here
        os.chmod(folder, 0o755)
        os.chown(state, NOBODY, NOBODY)
        prefix = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    door = os.path.join(folder, "door")
    os.mkdir(door)
    if ROOT:
        os.chown(door, NOBODY, NOBODY)
    with Stepd(state=state, prefix=prefix, STEPD_MODEL_DIR=models, STEPD_WORKER=WORKER, STEPD_THREADS="2", HOME=state,
               SSLKEYLOGFILE=os.path.join(state, "keys"), STEPD_TLS_CERT="auto", STEPD_LISTEN="localhost:0",
               STEPD_STATUS_SOCKET=os.path.join(door, "status.sock")) as t:
        from_outside(t, False, os.path.join(door, "status.sock"))
        s = proc_status(t.process.pid)
        check(ROOT is False or s["Uid"].split()[0] == str(NOBODY), "as nobody", s["Uid"])
        if not ASAN:
            check(os.stat("/proc/%d/fd" % t.process.pid).st_uid == 0, "its memory is closed to its own user")
        check(stat.S_ISSOCK(os.stat(os.path.join(door, "status.sock")).st_mode), "the status socket elsewhere")
        session(t)
        line = re.findall(r"sandbox of worker \d+: (.*)", t.logged())[-1]
        check("system calls" in line.split("; without")[0], "the worker's sandbox", line)
        if not ROOT or "Operation not permitted" not in t.logged():
            check("network" in line.split("; without")[0], "with a network of its own", line)
    shutil.rmtree(folder)


def session(t):
    """Open, render, train, save, resume."""
    def ask(method, path, body=None):
        status, answer = t.call(method, path, body)
        check(status == 200, method, path, status, answer)
        return json.loads(answer)

    s = ask("POST", "/v1/sessions", {"base_model": "tiny", "lora_rank": 4, "seed": 1})["session_id"]
    turns = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    datums = ask("POST", "/v1/sessions/%s/datums:render" % s, {"examples": [{"example_id": "e", "messages": turns}]})
    ids = [d["datum_id"] for d in datums["datums"]]
    ask("POST", "/v1/sessions/%s/batches:train" % s, {"datum_ids": ids, "learning_rate": 1e-4})
    urls = ask("POST", "/v1/objects:sign", {})
    ask("POST", "/v1/sessions/%s/artifacts:save" % s, {"kind": "state", "name": "n", "upload_url": urls["put_url"]})
    ask("DELETE", "/v1/sessions/%s" % s)
    ask("POST", "/v1/sessions", {"base_model": "tiny", "lora_rank": 4, "seed": 1,
                                 "resume_download_url": urls["get_url"]})


def switched_off():
    with Trainer(STEPD_SANDBOX="off") as t:
        s = proc_status(t.process.pid)
        check(s["NoNewPrivs"] == "0" and s["Seccomp"] == "0", "off", s)
        check("privileges are kept" in t.logged(), "and the log says so")


def on(*lacking):
    """In front of a program on a kernel without these."""
    return sys.executable, os.path.join(HERE, "older_kernel.py"), ",".join(lacking)


@fault("the kernel has no Landlock and no later action of a filter (Linux 5.9, gVisor)",
       "a whole session works, without the files' part; calls are filtered")
def on_an_older_kernel():
    folder = tempfile.mkdtemp(prefix="stepd-test-")
    make_model(os.path.join(folder, "tiny"))
    with Stepd(prefix=on("landlock", "actions"), STEPD_MODEL_DIR=folder, STEPD_WORKER=WORKER, STEPD_THREADS="2",
               STEPD_TLS_CERT="auto", STEPD_LISTEN="localhost:0") as t:
        holds, lacks = given_up(t)
        check("system calls" in holds and "files (Function not implemented)" in lacks, "stepd's", holds, lacks)
        session(t)
        holds, _, lacks = re.findall(r"sandbox of worker \d+: (.*)", t.logged())[-1].partition("; without ")
        check("system calls" in holds and "files (Function not implemented)" in lacks, "the worker's", holds, lacks)
    shutil.rmtree(folder)


@fault("the kernel lacks calls by which workers are started (before Linux 5.9)",
       "stepd does not start and says which Linux it needs")
def on_a_kernel_too_old():
    for call in "pidfd_open", "close_range":
        t = Stepd(prefix=on(call), wait=False)
        check(t.process.wait(20) == 1 and "stepd needs Linux 5.9 or newer" in t.logged(), call, t.logged())
        t.stop()
        shutil.rmtree(t.state)


for test in (from_inside, as_a_user, switched_off, on_an_older_kernel, on_a_kernel_too_old):
    test()
finish()
