"""A TCP proxy between a client and stepd that cuts connections when it is told to."""
import os
import select
import socket
import struct
import threading


def reset(sock):
    """Closes it with an RST, as a router that forgot the connection does."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass
    sock.close()


class Carried:
    """One connection: `down` to the client, `up` to stepd. Cut by cut(), or after so many bytes of
    the answer."""

    def __init__(self):
        self.wake, self.waker = os.pipe()
        self.lock = threading.Lock()  # of the pipe: its descriptors belong to others when it is closed
        self.answer_left = None  # bytes of the answer that still pass; None: all
        self.is_cut, self.over = False, threading.Event()

    def cut(self):
        """Both sides are gone when it returns."""
        with self.lock:
            if not self.over.is_set():
                os.write(self.waker, b"x")
        self.over.wait(10)

    def cut_answer_after(self, count):
        self.answer_left = count

    def carry(self, down, up):
        end = socket.socket.close  # all that was sent still arrives
        try:
            while self.pass_on(down, up):
                pass
        except OSError:
            end = reset
        if self.is_cut or select.select([self.wake], [], [], 0)[0]:
            end = reset
        end(down)
        end(up)
        self.close()

    def close(self):
        with self.lock:
            self.over.set()
            os.close(self.wake)
            os.close(self.waker)

    def pass_on(self, down, up):
        readable = select.select([down, up, self.wake], [], [])[0]
        for source, sink in ((down, up), (up, down)):
            if source not in readable:
                continue
            data = source.recv(65536)
            if not data:
                if source is down:
                    up.shutdown(socket.SHUT_WR)
                    # The client has gone, or sends no more: the answer may still come.
                    return self.only_answer(down, up)
                down.shutdown(socket.SHUT_WR)
                return False
            if source is up and self.answer_left is not None:
                data, more = data[:self.answer_left], len(data) >= self.answer_left
                self.answer_left -= len(data)
                sink.sendall(data)
                if more:
                    self.is_cut = True
                    return False
                continue
            sink.sendall(data)
        return self.wake not in readable

    def only_answer(self, down, up):
        while not select.select([self.wake], [], [], 0)[0]:
            if select.select([up, self.wake], [], [])[0] == [up]:
                data = up.recv(65536)
                if not data:
                    break
                down.sendall(data)
        return False


class Proxy:
    def __init__(self, target):
        """target: (host, port) of stepd."""
        self.target = target
        self.plans, self.lock = {}, threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            down, (_, port) = self.listener.accept()
            with self.lock:
                carried = self.plans.pop(port, None)
            if carried is None:  # of somebody who looks for whom had this port before
                down.close()
                continue
            try:
                up = socket.create_connection(self.target, timeout=5)
                up.settimeout(None)
            except OSError:
                reset(down)
                carried.close()
                continue
            threading.Thread(target=carried.carry, args=(down, up), daemon=True).start()

    def connect(self, timeout):
        """A socket to stepd through the proxy, and what carries it."""
        carried = Carried()
        sock = socket.socket()
        sock.settimeout(timeout)
        sock.bind(("127.0.0.1", 0))
        with self.lock:
            self.plans[sock.getsockname()[1]] = carried
        sock.connect(self.listener.getsockname())
        return sock, carried
