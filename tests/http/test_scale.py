"""Many at once: a thousand connections kept, ten thousand requests over them without an error and without growth,
and clients that drip their headers while a step is trained. Figures are printed; what is judged is counted."""
import json
import multiprocessing
import os
import re
import resource
import selectors
import socket
import ssl
import time

from daemon import ASAN, BEARER, check, finish
from fault_table import fault
from trainer import MESSAGES, Trainer, background

CONNECTIONS, REQUESTS, DRIPPING = 1000, 10000, 500
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


def descriptors(t):
    """As stepd counts them: nobody else may look."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(os.path.join(t.state, "status.sock"))
        sock.settimeout(60)
        document = b""
        while piece := sock.recv(65536):
            document += piece
    return json.loads(document)["open_files"]


def settled(t, want):
    """Descriptors, when they are no more than wanted: closing takes its time."""
    until = time.monotonic() + 20
    while descriptors(t) > want and time.monotonic() < until:
        time.sleep(0.02)
    return descriptors(t)


def request(method, path, body=None):
    data = b"" if body is None else json.dumps(body).encode()
    head = "%s %s HTTP/1.1\r\nHost: x\r\n%s\r\n" % (method, path, BEARER)
    if body is not None:
        head += "Content-Type: application/json\r\nContent-Length: %d\r\n" % len(data)
    return head.encode() + b"\r\n" + data


class Client:
    """One kept connection that sends its requests one after the other."""

    def __init__(self, sock, requests):
        self.sock, self.requests, self.buffer, self.statuses = sock, requests, b"", []
        self.next()

    def next(self):
        if self.requests:
            self.sock.sendall(self.requests.pop())

    def take(self, piece):
        """Returns whether more is to come."""
        self.buffer += piece
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        if not end:
            return True
        length = int(re.search(rb"Content-Length: (\d+)", head).group(1))
        if len(rest) < length:
            return True
        self.statuses.append(int(head[9:12]))
        self.buffer = rest[length:]
        more = bool(self.requests)
        self.next()
        return more


def drive(clients):
    """Until all have their answers, or nothing comes any more."""
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.sock, selectors.EVENT_READ, client)
        left = len(clients)
        while left > 0:
            ready = selector.select(60)
            if not ready:
                return
            for key, _ in ready:
                piece = key.fileobj.recv(65536)
                if not piece or not key.data.take(piece):
                    selector.unregister(key.fileobj)
                    left -= 1


@fault("10,000 requests over 1,000 connections",
       "no error, no growth, under 30 MB")
def thousand():
    with Trainer(STEPD_CONNECTIONS="1100", STEPD_IDLE_TIMEOUT="600", STEPD_LOG_LEVEL="info") as t:
        s = t.opened()
        example = {"example_id": "e", "messages": MESSAGES}
        status = request("GET", "/v1/sessions/%s" % s)
        render = request("POST", "/v1/sessions/%s/datums:render" % s, {"examples": [example]})
        check(t.render(s)[0] == 200 and t.train(s)[0] == 200, "a session")
        before = descriptors(t)
        socks = [t.connect() for _ in range(CONNECTIONS)]
        memories = []
        for part in range(4):
            per = REQUESTS // CONNECTIONS // 4 + (part < REQUESTS // CONNECTIONS % 4)
            # 200 renders at a time: a session lets 256 wait in line
            clients = [Client(sock, [status if i % 5 else render] * per) for i, sock in enumerate(socks)]
            begun = time.monotonic()
            drive(clients)
            answers = [code for c in clients for code in c.statuses]
            check(len(answers) == per * CONNECTIONS and set(answers) == {200}, "every answer is there and good",
                  len(answers), set(answers))
            print("%d requests, a fifth of them renders, over %d connections: %.0f a second; %.1f MB resident" % (
                len(answers), CONNECTIONS, len(answers) / (time.monotonic() - begun), t.memory() / 1000))
            memories.append(t.memory())
        check(ASAN or memories[0] < 30000, "under 30 MB with a thousand connections", memories)
        check(ASAN or memories[-1] - memories[1] < 1024, "no growth from the second part to the last", memories)
        check(descriptors(t) <= before + CONNECTIONS + 8, "a descriptor a connection", descriptors(t) - before)
        check(t.train(s)[0] == 200, "and it trains")
        for sock in socks:
            sock.close()
        check(settled(t, before) <= before, "every descriptor is given back", before, descriptors(t))
        check(t.status(s)["step"] == 2, "the step that it is at")


@fault("1,000 idle connections by TLS",
       "less than 20 KB each")
def thousand_by_tls():
    with Trainer(STEPD_CONNECTIONS="1100", STEPD_IDLE_TIMEOUT="600", STEPD_TLS_CERT="auto",
                 STEPD_LOG_LEVEL="info") as t:
        t.ask("GET", "/healthz")
        before, opened = t.memory(), descriptors(t)
        context = ssl.create_default_context(cafile=os.path.join(t.state, "tls-cert.pem"))
        socks = [context.wrap_socket(socket.create_connection((t.host, t.port), timeout=60), server_hostname=t.host)
                 for _ in range(CONNECTIONS)]
        for sock in socks:
            sock.sendall(HEALTH)
            check(sock.recv(12) == b"HTTP/1.1 200", "one of a thousand")
        memory = t.memory()
        print("%d idle connections by TLS: %.1f MB resident, %.1f KB each" % (
            CONNECTIONS, memory / 1000, (memory - before) / CONNECTIONS))
        check(ASAN or memory - before < 20 * CONNECTIONS, "less than 20 KB each", memory, before)
        for sock in socks:
            sock.close()
        check(settled(t, opened) <= opened, "every descriptor is given back", opened, descriptors(t))


class Drip:
    """Connections that send a header a byte at a time for as long as they are let, in a process of their own."""

    def __init__(self, port):
        self.begun, self.stop = multiprocessing.Event(), multiprocessing.Event()
        self.bytes, self.rounds, self.closed = (multiprocessing.Value("l", 0, lock=False) for _ in range(3))
        self.process = multiprocessing.Process(target=self.run, args=(port,))
        self.process.start()

    def run(self, port):
        socks = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(DRIPPING)]
        for sock in socks:
            sock.setblocking(False)
            sock.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: ")
        while not self.stop.is_set() and socks:
            for sock in list(socks):
                try:
                    sock.send(b"a")
                    self.bytes.value += 1
                except OSError:
                    self.closed.value += 1
                    sock.close()
                    socks.remove(sock)
            self.rounds.value += 1
            self.begun.set()
            self.stop.wait(0.2)

    def end(self):
        self.stop.set()
        self.process.join()


@fault("500 clients that drip headers while steps are trained",
       "every step is answered; they are turned out in time")
def slowloris():
    with Trainer(STEPD_HEADER_TIMEOUT="30") as t:
        s = t.opened()
        t.render(s)
        alone = []
        for _ in range(20):
            start = time.monotonic()
            check(t.train(s)[0] == 200, "a step alone")
            alone.append(time.monotonic() - start)
        drip = Drip(t.port)
        check(drip.begun.wait(60), "all of them drip")
        among, rounds = [], drip.rounds.value
        while len(among) < 20 or (drip.rounds.value < rounds + 5 and len(among) < 100000):
            start = time.monotonic()
            check(t.train(s)[0] == 200, "a step among drips")
            among.append(time.monotonic() - start)
        check(drip.closed.value == 0 and descriptors(t) > DRIPPING, "they dripped all the while", descriptors(t))
        drip.end()
        alone.sort()
        among.sort()
        print("a step: %.2f ms alone, %.2f ms among %d connections that drip (medians; %d bytes dripped)" % (
            alone[10] * 1000, among[len(among) // 2] * 1000, DRIPPING, drip.bytes.value))
        check(t.status(s)["step"] == 20 + len(among), "every step once")
    # They are turned out when their time is over, and the step is not.
    with Trainer("TRAIN:1:slow", STEPD_HEADER_TIMEOUT="1", STEPD_TRAIN_TIMEOUT="60") as t:
        s = t.opened()
        t.render(s)
        step = background(t.train, s)
        drip = Drip(t.port)
        check(step()[0] == 200, "a step that takes longer than they may")
        drip.process.join(60)
        drip.end()
        check(drip.closed.value == DRIPPING, "all who drip are turned out", drip.closed.value)
        check(t.logged().count(" 408 ") == DRIPPING, "and told why", t.logged().count(" 408 "))


def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    begun = time.monotonic()
    for test in (thousand, thousand_by_tls, slowloris):
        test()
    print("%.0f s" % (time.monotonic() - begun))
    finish()


main()
