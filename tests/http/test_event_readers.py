"""Those who listen to events and do not read, in a network whose buffers are small: what waits for them is bounded,
who reads again is sent all of it, who takes nothing is cut, and nobody else waits for them."""
import own_network

own_network.enter()

import socket  # noqa: E402
import time  # noqa: E402

from daemon import ASAN, BEARER, check, finish, read_answer  # noqa: E402
from trainer import Trainer, step_request  # noqa: E402

PACE = 20  # steps on a connection at a time

own_network.up()
try:
    for name in ("tcp_wmem", "tcp_rmem"):
        with open("/proc/sys/net/ipv4/" + name, "w") as f:
            f.write("4096 4096 4096")
except OSError as e:
    print("the buffers of connections cannot be made small here: %s" % e)
    finish()


def listen(t, session, query=""):
    """A connection on which nothing is read yet."""
    sock = socket.create_connection((t.host, t.port), timeout=60)
    sock.sendall(("GET /v1/sessions/%s/events%s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % (session, query, BEARER)).encode())
    return sock


def listeners(t):
    return t.document()["connections"]["event_listeners"]


def read_to_end(sock):
    """All that comes, and whether the answer ended as one."""
    data = b""
    try:
        while piece := sock.recv(65536):
            data += piece
            if data.endswith(b"\r\n0\r\n\r\n"):
                return data, True
    except OSError:
        pass
    return data, False


def train(t, session, count):
    one = step_request(session, close=False)
    done = 0
    with t.connect(timeout=120) as sock, sock.makefile("rb") as file:
        for _ in range(count // PACE):
            sock.sendall(one * PACE)
            done += sum(read_answer(file).status == 200 for _ in range(PACE))
    check(done == count, "steps are done, whoever listens", done, count)


with Trainer(STEPD_DURABILITY="memory", STEPD_BODY_TIMEOUT="300") as t:
    s = t.opened()
    t.render(s)
    train(t, s, 100)
    before = t.memory()
    slow = [listen(t, s, "?after=0") for _ in range(60)]
    train(t, s, 900)
    grown = t.memory() - before
    print("memory for 60 listeners who do not read and 1000 events: %d KiB" % grown)
    check(ASAN or grown < 60 * 100 + 2000, "what waits for them is bounded", grown)
    t.close(s, "?force=true")
    text, ended = read_to_end(slow[0])
    check(ended and text.count(b"event: step") + text.count(b"event: gap") > 1 and b'"state":"closed"' in text,
          "who reads again is sent what there is", text.count(b"event: step"), ended)
    for sock in slow:
        sock.close()

with Trainer(STEPD_DURABILITY="memory", STEPD_BODY_TIMEOUT="2") as t:
    s = t.opened()
    t.render(s)
    slow, patient = listen(t, s), listen(t, s)
    train(t, s, 400)
    deadline = time.monotonic() + 60
    while b"" == (seen := patient.recv(65536)) and time.monotonic() < deadline:
        pass
    while time.monotonic() < deadline and b'"step":400,' not in seen:
        seen += patient.recv(65536)
    check(b'"step":400,' in seen, "who reads is told all")
    # the other one took nothing meanwhile; its connection ends without the end of an answer
    while listeners(t) > 1 and time.monotonic() < deadline:
        time.sleep(0.1)
    check(listeners(t) == 1, "who takes nothing is cut", listeners(t))
    text, ended = read_to_end(slow)
    check(not ended and text.startswith(b"HTTP/1.1 200"), "which it sees: the answer has no end", ended)
    again = listen(t, s, "?after=0")
    t.close(s, "?force=true")
    check(read_to_end(again)[1], "and may come again")
finish()
