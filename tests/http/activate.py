"""Starts a program with listening sockets, as systemd does: activate.py KIND,KIND... program [args].
A KIND is host:port, fd:N (of the caller's), or one of the wrong ones: unix, udp, file, deaf, closed."""
import os
import socket
import sys

FIRST = 3


def make(kind):
    if kind.startswith("fd:"):
        return int(kind[3:])
    if kind == "unix":
        sock = socket.socket(socket.AF_UNIX)
        sock.bind("\0stepd-test-%d" % os.getpid())
        sock.listen()
    elif kind == "udp":
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind(("127.0.0.1", 0))
    elif kind == "deaf":
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
    elif kind == "file":
        return os.open("/dev/null", os.O_RDONLY)
    else:
        host, _, port = kind.rpartition(":")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.create_server((host, int(port)), family=family)
    return sock.detach()


kinds = sys.argv[1].split(",")
# Out of the way first, then where they belong.
made = [None if kind == "closed" else os.dup2(make(kind), 100 + i) for i, kind in enumerate(kinds)]
for i, fd in enumerate(made):
    if fd is None:
        os.close(os.dup2(0, FIRST + i))
    else:
        os.dup2(fd, FIRST + i)
        os.close(fd)
os.environ.setdefault("LISTEN_FDS", str(len(kinds)))
os.environ.setdefault("LISTEN_PID", str(os.getpid()))
os.environ["LISTEN_FDNAMES"] = ":".join("door" for _ in kinds)
os.execv(sys.argv[2], sys.argv[2:])
