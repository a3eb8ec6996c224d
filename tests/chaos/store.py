"""An object store that fails as it is told, without the client's URL saying so."""
import os
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "http"))
from faulty_store import Store  # noqa: E402

# What a PUT can meet ("unsaved" says 500 after it took everything), and a GET.
PUT_FAULTS = ("500", "cut", "stall", "unsaved")
GET_FAULTS = ("500", "cut", "stall", "short")
STALL = 8  # longer than STEPD_STALL_TIMEOUT of the run


class LyingStore(Store):
    def __init__(self, cert, key):
        self.armed = {"PUT": [], "GET": []}
        self.periods = []  # [begin, end] of each fault; end: None while it goes on
        self.on_fault = None  # called with method and fault
        self.lock = threading.Lock()
        super().__init__(cert, key)

    def arm(self, method, fault):
        with self.lock:
            self.armed[method].append(fault)

    def failed_since(self, moment):
        with self.lock:
            return any(end is None or end >= moment for _, end in self.periods)

    def take(self, method):
        with self.lock:
            if not self.armed[method]:
                return None
            return self.armed[method].pop(0)

    def begin_fault(self, method, fault):
        period = [time.monotonic(), None]
        with self.lock:
            self.periods.append(period)
        if self.on_fault is not None:
            self.on_fault(method, fault)
        return period

    def answer(self, sock, file):
        method, target, _ = file.readline().decode().split()
        path, length = target.split("?")[0], 0
        while (line := file.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            if name.lower() == "content-length":
                length = int(value)
        fault = self.take(method)
        period = [] if fault is None else self.begin_fault(method, fault)
        try:
            if method == "PUT":
                self.put_or_fail(sock, file, path, length, fault)
            else:
                self.get_or_fail(sock, path, fault)
        finally:
            period[1:] = [time.monotonic()]

    def put_or_fail(self, sock, file, path, length, fault):
        if fault == "500":
            self.reply(sock, "500 Fault", b"<Error>no</Error>")
            return
        if fault == "cut":
            file.read(min(length, 1000))
            sock.shutdown(socket.SHUT_RDWR)
            return
        data = file.read(length)
        if len(data) < length:
            return  # stepd has gone meanwhile
        if fault == "stall":
            self.stall(sock)
            return
        if fault == "unsaved":
            self.reply(sock, "500 Fault", b"")
            return
        self.objects[path] = data
        self.reply(sock, "200 OK", b"")

    def stall(self, sock):
        """Until the other side goes."""
        sock.settimeout(STALL)
        try:
            while sock.recv(4096):
                pass
        except OSError:
            pass

    def get_or_fail(self, sock, path, fault):
        data = self.objects.get(path)
        if fault == "500" or data is None:
            self.reply(sock, "500 Fault" if fault else "404 Not Found", b"")
            return
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(data)
        if fault is None:
            sock.sendall(head + data)
            return
        sock.sendall(head + data[:len(data) // 2])
        if fault == "stall":
            self.stall(sock)
        if fault != "short":
            sock.shutdown(socket.SHUT_RDWR)  # without the end of TLS
