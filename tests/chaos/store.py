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
        self.done = []  # (time, method, fault)
        self.on_fault = None  # called with method and fault
        self.lock = threading.Lock()
        super().__init__(cert, key)

    def arm(self, method, fault):
        with self.lock:
            self.armed[method].append(fault)

    def failed_since(self, moment):
        with self.lock:
            return any(at >= moment for at, _, _ in self.done)

    def take(self, method):
        with self.lock:
            if not self.armed[method]:
                return None
            return self.armed[method].pop(0)

    def told(self, method, fault):
        with self.lock:
            self.done.append((time.monotonic(), method, fault))
        if self.on_fault is not None:
            self.on_fault(method, fault)

    def answer(self, sock, file):
        method, target, _ = file.readline().decode().split()
        path, length = target.split("?")[0], 0
        while (line := file.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            if name.lower() == "content-length":
                length = int(value)
        fault = self.take(method)
        if fault is not None:
            self.told(method, fault)
        if method == "PUT":
            self.put_or_fail(sock, file, path, length, fault)
        else:
            self.get_or_fail(sock, path, fault)

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
            time.sleep(STALL)
            return
        if fault == "unsaved":
            self.reply(sock, "500 Fault", b"")
            return
        self.objects[path] = data
        self.reply(sock, "200 OK", b"")

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
            time.sleep(STALL)
        if fault != "short":
            sock.shutdown(socket.SHUT_RDWR)  # without the end of TLS
