"""What tests/chaos is made of, judged by itself: a harness that errs would look like a fault of stepd's."""
import contextlib
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

from daemon import BUILD, check, finish

HERE = os.path.dirname(os.path.abspath(__file__))
CHAOS = os.path.join(HERE, "..", "chaos")
sys.path.insert(0, CHAOS)

from proxy import Proxy  # noqa: E402


class Echo:
    """Says again what it is told, until the other side sends no more."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            sock, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        with sock, contextlib.suppress(OSError):  # cut
            while data := sock.recv(100):
                sock.sendall(data)


def says(sock, text):
    try:
        sock.sendall(text)
        return sock.recv(100)
    except OSError as error:
        return repr(error)


def test_late_cut(proxy):
    """A cut that comes when its connection is over touches nothing, whosever its descriptors are now."""
    sock, carried = proxy.connect(10)
    check(says(sock, b"x") == b"x", "the proxy carries")
    sock.close()
    check(carried.over.wait(10), "a connection that is closed is over")
    time.sleep(0.2)
    others = [end for _ in range(50) for end in socket.socketpair()]
    carried.cut()
    touched = select.select(others, [], [], 0)[0]
    check(touched == [], "a cut after its connection's end touches nobody", [end.recv(100) for end in touched])
    for end in others:
        end.close()


def test_cut(proxy):
    sock, carried = proxy.connect(10)
    check(says(sock, b"x") == b"x", "the proxy carries")
    carried.cut()
    check(says(sock, b"x") != b"x", "a connection that is cut is gone")
    sock.close()


def test_stranger(proxy):
    """Who calls at the port of the proxy by mistake does not end it."""
    with socket.create_connection(proxy.listener.getsockname(), timeout=10) as stranger:
        got = says(stranger, b"x")
        check(got == b"" or "reset" in str(got), "a stranger is sent away", got)
    sock, _ = proxy.connect(10)
    check(says(sock, b"x") == b"x", "the proxy carries after a stranger")
    sock.close()


def fail_chaos(build):
    """A run of two steps that cannot meet what is asked of it: what it printed, and where its logs are."""
    run = subprocess.run([sys.executable, os.path.join(CHAOS, "chaos.py"), "--steps", "2", "--faults", "1", "--least",
                          "1000000", "--seconds", "0"],
                         env={**os.environ, "STEPD_BUILD": build}, capture_output=True, text=True, timeout=300)
    lines = run.stdout.splitlines()
    check(run.returncode == 1, "a run that fails says so", run.returncode, run.stderr)
    last = lines[lines.index("what failed:"):]
    check(last[1].startswith("failed: enough faults ") and last[1].split()[-1].isdigit(),
          "the last lines say what failed, and what there was instead", last)
    check(len(last) == 3, "and nothing else", last)
    return next(line.split(": ")[1] for line in lines if line.startswith("what the run left: "))


def test_what_is_kept():
    """What a failed run leaves is there for who looks, and the next one does not write over it."""
    build = tempfile.mkdtemp(prefix="stepd-test-")
    for name in ("stepd", "stepd-worker"):
        os.symlink(os.path.abspath(os.path.join(BUILD, name)), os.path.join(build, name))
    kept = [fail_chaos(build) for _ in range(2)]
    check(kept[0] != kept[1], "each run has a folder of its own", kept)
    for folder in kept:
        names = os.listdir(folder)
        for name in ("undisturbed.log", "disturbed.log", "undisturbed-final.tar.gz", "disturbed-final.tar.gz"):
            check(name in names, "the run leaves its logs and states", folder, names)
        with open(os.path.join(folder, "disturbed.log")) as f:
            check("batches:train step-1 answered" in f.read(), "the log has what the client was answered")
        with open(os.path.join(folder, "failed")) as f:
            check(f.read().startswith("failed: enough faults"), "and what failed")
    shutil.rmtree(build)


def main():
    echo = Echo()
    proxy = Proxy(echo.address)
    test_cut(proxy)
    test_late_cut(proxy)
    test_stranger(proxy)
    test_what_is_kept()
    finish()


main()
