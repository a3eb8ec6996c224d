"""What systemd is told: READY, STATUS, STOPPING, RELOADING, WATCHDOG; and that its unit is a valid one."""
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from daemon import BUILD, TOKEN, Stepd, check, finish
from fault_table import NOT_TRIED, fault
from held_store import HeldStore
from trainer import Trainer, background

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Manager:
    """The other end of $NOTIFY_SOCKET: every datagram, in order, as a dict."""

    def __init__(self, name):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind("\0" + name[1:] if name.startswith("@") else name)
        self.name, self.told = name, []

    def next(self, seconds):
        if not select.select([self.sock], [], [], max(0, seconds))[0]:
            return None
        text = self.sock.recv(65536).decode()
        self.told.append(dict(line.split("=", 1) for line in text.splitlines()))
        return self.told[-1]

    def wait(self, condition, seconds=60):
        """The next message of that kind, or None."""
        deadline = time.monotonic() + seconds
        while (message := self.next(deadline - time.monotonic())) is not None:
            if condition(message):
                return message
        return None

    def drain(self):
        while self.next(0) is not None:
            pass


def ready_and_stopping(name):
    manager = Manager(name)
    with Trainer("TRAIN:1:slow", NOTIFY_SOCKET=name) as t:
        message = manager.wait(lambda m: m.get("READY") == "1")
        check(message is not None and len(manager.told) == 1, "ready is the first thing told", manager.told)
        check(message["STATUS"] == "listening on %s:%d, 0 of 1 slots taken" % (t.host, t.port), "status", message)
        check(t.ask("GET", "/healthz")[0] == 200, "and it is")
        s = t.opened()
        message = manager.wait(lambda m: "STATUS" in m)
        check("1 of 1 slots taken" in message["STATUS"] and "READY" not in message, "status when it changes", message)
        step = background(t.train, s)
        deadline = time.monotonic() + 60
        while t.status(s)["state"] != "training" and time.monotonic() < deadline:
            time.sleep(0.02)
        t.process.terminate()
        message = manager.wait(lambda m: m.get("STOPPING") == "1")
        check(message is not None and int(message["EXTEND_TIMEOUT_USEC"]) >= 10000000, "stopping", message)
        check(message["STATUS"].startswith("stopping"), "status of that", message)
        check(step()[0] == 200, "the step is finished")
        check(t.process.wait(60) == 0, "and it ends")
        manager.drain()
        check(sum("STOPPING" in m for m in manager.told) == 1, "told once", manager.told)
        check(int(manager.told[-1].get("EXTEND_TIMEOUT_USEC", 0)) >= 10000000, "time for the end", manager.told)
        check(not any("WATCHDOG" in m for m in manager.told), "no watchdog was wanted", manager.told)
        check(TOKEN not in str(manager.told) and s not in str(manager.told), "no secret", manager.told)
    manager.sock.close()


def not_ready(name):
    """Neither without the listener nor without the store."""
    for what in ("listener", "store"):
        manager = Manager(name)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            state = tempfile.mkdtemp(prefix="stepd-test-")
            settings = {"STEPD_LISTEN": "127.0.0.1:%d" % taken.getsockname()[1]} if what == "listener" else {}
            if what == "store":
                open(os.path.join(state, "store"), "w").close()
            with Stepd(state=state, wait=False, NOTIFY_SOCKET=name, **settings) as t:
                check(t.process.wait(60) == 1, "no " + what, t.logged())
                t.process.returncode = 0
            shutil.rmtree(state)
        manager.drain()
        check(not any("READY" in m for m in manager.told), "not ready without its " + what, manager.told)
        manager.sock.close()
        if not name.startswith("@"):
            os.unlink(name)


def reload(name):
    manager = Manager(name)
    with Stepd(NOTIFY_SOCKET=name) as t:
        manager.wait(lambda m: m.get("READY") == "1")
        before = time.monotonic()
        t.process.send_signal(signal.SIGHUP)
        message = manager.wait(lambda m: "RELOADING" in m)
        check(message is not None and message["RELOADING"] == "1", "reloading", manager.told)
        check(before <= int(message["MONOTONIC_USEC"]) / 1e6 + 1e-3 and
              int(message["MONOTONIC_USEC"]) / 1e6 <= time.monotonic() + 1e-3, "when it began", message, before)
        check(manager.wait(lambda m: m.get("READY") == "1") is not None, "ready again", manager.told)
    manager.sock.close()


def odd_sockets():
    """Nobody there, or a name that is none: it runs all the same."""
    for name in ("/nowhere/notify", "vsock:2:1234", "relative", "/" + "x" * 200):
        with Stepd(NOTIFY_SOCKET=name, WATCHDOG_USEC="50000") as t:
            check(t.call("GET", "/healthz")[0] == 200, "it runs", name)


@fault("the store's thread or the event loop stands still", "systemd is given no sign of life")
def watchdog(name):
    """Signs of life come while the loop turns and the store's thread works; they stop with either."""
    manager = Manager(name)
    with Trainer(NOTIFY_SOCKET=name, WATCHDOG_USEC="400000", WATCHDOG_PID="1") as t:
        manager.wait(lambda m: m.get("READY") == "1")
        t.opened()
        check(manager.wait(lambda m: "WATCHDOG" in m, 1) is None, "for another process", manager.told)
    with Trainer(NOTIFY_SOCKET=name, WATCHDOG_USEC="400000") as t:
        for _ in range(4):
            check(manager.wait(lambda m: m.get("WATCHDOG") == "1") is not None, "a sign of life", manager.told)
        t.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, t.process.pid, os.WSTOPPED | os.WNOWAIT)
        manager.drain()
        check(manager.wait(lambda m: True, 1) is None, "none from a loop that stands still")
        t.process.send_signal(signal.SIGCONT)
        check(manager.wait(lambda m: m.get("WATCHDOG") == "1") is not None, "and again")
        s = t.opened()
        try:
            held = HeldStore(t)
        except OSError as e:
            print("the store's thread cannot be stopped here: %s" % e)
            return NOT_TRIED
        step = background(t.train, s)
        message = manager.wait(lambda m: "the store does not answer" in m.get("STATUS", ""))
        check(message is not None, "a store that stands still is told", manager.told[-5:])
        check(manager.wait(lambda m: "WATCHDOG" in m, 1.5) is None, "and no sign of life", manager.told[-5:])
        check(t.ask("GET", "/healthz")[0] == 200, "though the loop turns")
        check(t.document()["store"]["changes_waiting"] > 0, "status answers too", t.document()["store"])
        held.let_go()
        check(step()[0] == 200, "the step is done when it goes on")
        check(manager.wait(lambda m: m.get("WATCHDOG") == "1") is not None, "and there is life again")
        check("the store has not finished a change" in t.logged(), "the log says so")
    manager.sock.close()
    return None


def unit():
    """The unit as it is installed, of a program that is there."""
    with open(os.path.join(TOP, "systemd", "stepd.service")) as f:
        text = f.read()
    check(re.search(r"(?m)^Type=notify$", text) and re.search(r"(?m)^WatchdogSec=\d", text), "notify, watchdog")
    if shutil.which("systemd-analyze") is None:
        print("systemd-analyze is not here: the units were not verified")
        return
    with tempfile.TemporaryDirectory(prefix="stepd-test-") as folder:
        units = [n for n in sorted(os.listdir(os.path.join(TOP, "systemd"))) if n.endswith((".service", ".socket"))]
        for name in units:
            with open(os.path.join(TOP, "systemd", name)) as f:
                text = f.read()
            with open(os.path.join(folder, name), "w") as f:
                f.write(text.replace("/usr/local/bin/stepd", os.path.abspath(os.path.join(BUILD, "stepd"))).replace(
                    "/usr/local/share/doc/stepd/README.md", os.path.join(TOP, "README.md")))
        for name in units:
            run = subprocess.run(["systemd-analyze", "verify", "--man=no", os.path.join(folder, name)],
                                 capture_output=True, text=True, timeout=60)
            said = [line for line in run.stderr.splitlines() if "stepd" in line]
            check(run.returncode == 0 and said == [], "systemd-analyze verify", name, run)


with tempfile.TemporaryDirectory(prefix="stepd-test-") as folder:
    ready_and_stopping(os.path.join(folder, "ready"))
    ready_and_stopping("@stepd-test-%d" % os.getpid())
    not_ready(os.path.join(folder, "not"))
    reload(os.path.join(folder, "reload"))
    odd_sockets()
    watchdog(os.path.join(folder, "watchdog"))
unit()
finish()
