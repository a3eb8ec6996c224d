"""A network and a name service of a test's own: `enter()` puts the process and all that it starts into fresh
namespaces, where any address can be this machine's and any name is what the test says."""
import ctypes
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading

from fcntl import ioctl

MARK = "STEPD_TEST_OWN_NETWORK"
MS_BIND = 4096
LIBC = ctypes.CDLL(None, use_errno=True)


def enter():
    """Starts this program again inside; returns there. Says so and ends where the kernel does not let it."""
    if os.environ.pop(MARK, None):
        return
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    inside = ["unshare", *user, "--mount", "--net"]
    if subprocess.run([*inside, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        print("skipped: no namespaces for this user")
        print("0 passed, 0 failed")
        sys.exit(0)
    os.environ[MARK] = "1"
    os.execvp(inside[0], [*inside, sys.executable, *sys.argv])


def add_address(number, text):
    """text is an address of the loopback from now on (the number-th)."""
    if ":" in text:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
            ioctl(sock, 0x8916, socket.inet_pton(socket.AF_INET6, text) + struct.pack("=Ii", 128, 1))  # SIOCSIFADDR
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        name = ("lo:%d" % number).encode().ljust(16, b"\0")
        address = struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(text))
        ioctl(sock, 0x8916, name + address + b"\0" * 8)


def up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        ioctl(sock, 0x8914, struct.pack("=16sH22x", b"lo", 1 | 64))  # SIOCSIFFLAGS: up, running


def replace(path, text):
    """The file has that text, for this process and what it starts."""
    if not os.path.exists(path):
        raise SystemExit("no " + path)
    with tempfile.NamedTemporaryFile("w", delete=False) as f:
        f.write(text)
    if LIBC.mount(f.name.encode(), os.path.realpath(path).encode(), None, MS_BIND, None) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    os.unlink(f.name)


class Names:
    """A name service on 127.0.0.1: answers[name] is a list of answers, each a list of addresses; each lookup
    takes the next, the last one stays."""

    def __init__(self):
        self.answers, self.asked = {}, []
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 53))
        replace("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:5\n")
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        turn = {}
        while True:
            query, client = self.sock.recvfrom(512)
            labels, at = [], 12
            while query[at]:
                labels.append(query[at + 1:at + 1 + query[at]].decode())
                at += 1 + query[at]
            kind = struct.unpack(">H", query[at + 1:at + 3])[0]
            name = ".".join(labels).lower()
            self.asked.append((name, kind))
            answers = self.answers.get(name, [[]])
            now = turn.get((name, kind), 0)
            turn[name, kind] = now + 1
            family, length = (socket.AF_INET6, 16) if kind == 28 else (socket.AF_INET, 4)
            found = [a for a in answers[min(now, len(answers) - 1)] if (":" in a) == (kind == 28)]
            head = query[:2] + struct.pack(">HHHHH", 0x8180, 1, len(found), 0, 0)
            records = b"".join(struct.pack(">HHHIH", 0xc00c, kind, 1, 0, length) + socket.inet_pton(family, a)
                               for a in found)
            self.sock.sendto(head + query[12:at + 5] + records, client)
