"""Connections: kept, pipelined, slow, many, left; and what a client without the token can cost."""
import json
import os
import signal
import socket
import threading
import time

from daemon import ASAN, BEARER, Stepd, check, finish, read_all, read_answer
from fault_table import fault

MIB = 1024 * 1024
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


def post(path, body, *headers, auth=True):
    lines = ["POST %s HTTP/1.1" % path, "Host: x", "Content-Type: application/json", *headers]
    if auth:
        lines.append(BEARER)
    if not any(h.lower().startswith("content-length") for h in headers):
        lines.append("Content-Length: %d" % len(body))
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def keep_alive(stepd):
    with stepd.connect() as sock:
        file = sock.makefile("rb")
        for i in range(20):
            sock.sendall(HEALTH)
            check(read_answer(file).status == 200, "kept connection, request %d" % i)
        # refusals that leave the framing known keep it too
        for raw, status in [(post("/v1/objects:sign", b"{}", auth=False), 401),
                            (post("/nothing", b"x" * 1000), 404),
                            (post("/healthz", b"x" * 60000), 405),
                            (post("/v1/objects:sign", b"{"), 422), (HEALTH, 200)]:
            sock.sendall(raw)
            answer = read_answer(file)
            check(answer.status == status and answer.headers["connection"] == "keep-alive",
                  "kept after %d" % status, answer)
        sock.sendall(HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        answer = read_answer(file)
        check(answer.headers["connection"] == "close" and file.read() == b"", "closed when asked")
    with stepd.connect() as sock:
        file = sock.makefile("rb")
        for _ in range(2):
            sock.sendall(b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            check(read_answer(file).status == 200, "HTTP/1.0 kept when asked")


def head(stepd):
    with stepd.connect() as sock:
        file = sock.makefile("rb")
        for _ in range(2):
            sock.sendall(HEALTH.replace(b"GET", b"HEAD"))
            answer = read_answer(file, head=True)
            check(answer.status == 200 and int(answer.headers["content-length"]) > 0,
                  "HEAD has the length and no body", answer)
        sock.sendall(HEALTH.replace(b"GET /healthz", b"HEAD /v1/objects:sign"))
        answer = read_answer(file, head=True)
        check(answer.status == 405, "HEAD of a POST", answer)
        sock.sendall(HEALTH)
        check(read_answer(file).status == 200, "the next answer is where it should be")


def headers(stepd):
    answer = stepd.exchange(HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))[0][0]
    for name, value in [("cache-control", "no-store"), ("x-content-type-options", "nosniff"),
                        ("content-type", "application/json"), ("referrer-policy", "no-referrer")]:
        check(answer.headers.get(name) == value, "header " + name, answer)
    check("default-src 'none'" in answer.headers.get("content-security-policy", ""), "CSP", answer)
    check("date" in answer.headers and "server" not in answer.headers, "Date, no Server", answer)
    answer = stepd.exchange(post("/v1/objects:sign", b"{}", "Connection: close", auth=False))[0][0]
    check(answer.headers.get("www-authenticate") == "Bearer", "WWW-Authenticate", answer)
    # Every answer has them, whoever gives it: a refused head, a refused body, a route, the object store.
    urls = json.loads(stepd.call("POST", "/v1/objects:sign", {})[1])
    put, get = ("/" + urls[name].split("/", 3)[3] for name in ("put_url", "get_url"))
    check(stepd.call("PUT", put, headers=("Content-Length: 3\r\n\r\nabc",))[0] in (200, 201), "an object")
    for name, raw in [("400", b"GET\r\n\r\n"), ("413", post("/v1/objects:sign", b"", "Content-Length: 99999999999")),
                      ("404", post("/nothing", b"", "Connection: close")), ("501", b"BREW / HTTP/1.1\r\n\r\n"),
                      ("422", post("/v1/objects:sign", b"[", "Connection: close")),
                      ("401", post("/v1/objects:sign", b"{}", "Connection: close", auth=False)),
                      ("200", ("GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % get).encode())]:
        answer = stepd.exchange(raw)[0][0]
        check(answer.status == int(name), "status", name, answer)
        for header, value in [("cache-control", "no-store"), ("x-content-type-options", "nosniff"),
                              ("x-frame-options", "DENY"), ("referrer-policy", "no-referrer"),
                              ("content-security-policy", "default-src 'none'; frame-ancestors 'none'")]:
            check(answer.headers.get(header) == value, header + " of a " + name, answer)
        check(answer.headers.get("strict-transport-security") == ("max-age=31536000" if stepd.tls else None),
              "HSTS of a %s under TLS, and only there" % name, answer)


def pipelining(stepd):
    with stepd.connect() as sock:
        file = sock.makefile("rb")
        sock.sendall((HEALTH + post("/v1/objects:sign", b"{}") + post("/nothing", b"abc") +
                      post("/v1/objects:sign", b"[]")) * 50)
        got = [read_answer(file).status for _ in range(200)]
        check(got == [200, 200, 404, 422] * 50, "pipelined answers come in order", got)
    # byte by byte, the same
    with stepd.connect() as sock:
        file = sock.makefile("rb")
        for byte in HEALTH + post("/v1/objects:sign", b"{}"):
            sock.sendall(bytes([byte]))
        check([read_answer(file).status for _ in range(2)] == [200, 200], "byte by byte")


def expect_continue(stepd):
    want = ["Expect: 100-continue", "Content-Length: 2"]
    with stepd.connect() as sock:
        file = sock.makefile("rb")
        sock.sendall(post("/v1/objects:sign", b"", *want))
        check(read_answer(file).status == 100, "100 before the body")
        sock.sendall(b"{}")
        check(read_answer(file).status == 200, "the answer after it")
        sock.sendall(HEALTH)
        check(read_answer(file).status == 200, "and the connection is kept")
    for name, raw, status in [
            ("token", post("/v1/objects:sign", b"", *want, auth=False), 401),
            ("route", post("/nothing", b"", *want), 404),
            ("length", post("/v1/objects:sign", b"", want[0], "Content-Length: 99999999999"), 413)]:
        with stepd.connect(5) as sock:
            sock.sendall(raw)
            answers, closed = read_all(sock)
            check([a.status for a in answers] == [status] and closed,
                  "no 100 where the head is refused for its " + name, answers, closed)


def half_close(stepd):
    with stepd.connect() as sock:
        sock.sendall(HEALTH * 3)
        sock.shutdown(socket.SHUT_WR)
        answers, closed = read_all(sock)
        check(len(answers) == 3 and closed, "a client that has only closed its side is answered")
    with stepd.connect() as sock:
        sock.sendall(HEALTH[:-2])
        sock.shutdown(socket.SHUT_WR)
        check(read_all(sock) == ([], True), "half a request and no more: closed")


@fault("slow heads, bodies that stand still, silent connections", "408, or closed, in time")
def deadlines():
    with Stepd(STEPD_HEADER_TIMEOUT="1", STEPD_BODY_TIMEOUT="1", STEPD_IDLE_TIMEOUT="1") as stepd:
        def drip():
            begun = time.monotonic()
            with stepd.connect() as sock:
                try:
                    for byte in b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 200:
                        sock.sendall(bytes([byte]))
                        time.sleep(0.03)
                except OSError:
                    pass
                answers, closed = read_all(sock)
                check([a.status for a in answers] == [408] and closed, "a slow head", answers)
                check(0.8 < time.monotonic() - begun < 8, "a slow head in time")

        dripping = threading.Thread(target=drip)
        dripping.start()
        with stepd.connect() as idle, stepd.connect() as kept, stepd.connect() as stuck:
            kept.sendall(HEALTH)
            stuck.sendall(post("/v1/objects:sign", b"{", "Content-Length: 2"))
            check(read_all(idle) == ([], True), "a connection that says nothing is closed")
            answers, closed = read_all(kept)
            check([a.status for a in answers] == [200] and closed, "an idle one is closed")
            answers, closed = read_all(stuck)
            check([a.status for a in answers] == [408] and closed, "a body that stands still: 408")
        dripping.join()


@fault("more connections than allowed", "the oldest idle one makes room; who is at work stays")
def many():
    with Stepd(STEPD_CONNECTIONS="10") as stepd:
        socks = [stepd.connect() for _ in range(40)]
        for sock in socks[:30]:
            check(sock.recv(1) == b"", "the oldest idle connection makes room")
        check(stepd.call("GET", "/healthz")[0] == 200, "and a new one is served")
        for sock in socks:
            sock.close()
        # who has shown the token once stays before strangers, however many come
        with stepd.connect() as sock:
            file = sock.makefile("rb")
            sock.sendall(post("/v1/objects:sign", b"{}"))
            check(read_answer(file).status == 200, "a client with the token")
            strangers = [stepd.connect() for _ in range(30)]
            check(strangers[5].recv(1) == b"", "strangers make room for strangers")
            sock.sendall(HEALTH)
            check(read_answer(file).status == 200, "and not a client of ours")
            for stranger in strangers:
                stranger.close()
            file.close()
        time.sleep(0.2)
        # strangers who are slow with a body that nobody wants hold no place
        strangers = [stepd.connect() for _ in range(30)]
        for i, stranger in enumerate(strangers):
            kind = (post("/healthz", b"", "Content-Length: 60000", auth=False),
                    post("/x", b"", "Content-Length: 60000", auth=False),
                    HEALTH.replace(b"\r\n\r\n", b"\r\nContent-Length: 60000\r\n\r\n"))[i % 3]
            try:
                stranger.sendall(kind + b" ")
            except OSError:
                pass  # turned out already
        check(stepd.call("POST", "/v1/objects:sign", {})[0] == 200, "strangers who are slow make room")
        for stranger in strangers:
            stranger.close()
        time.sleep(0.2)
        # those at work are not turned out: a body that is coming holds its place
        body = post("/v1/objects:sign", b"{", "Content-Length: 2")
        socks = [stepd.connect() for _ in range(10)]
        for sock in socks:
            sock.sendall(body)
        time.sleep(0.3)
        with stepd.connect() as sock:
            sock.settimeout(5)
            check(sock.recv(1) == b"", "with all of them at work a new one is turned away")
        for sock in socks:
            sock.sendall(b"}")
            check(read_answer(sock.makefile("rb")).status == 200, "and theirs go on")
            sock.close()


@fault("sixteen clients without the token push all they can", "64 KiB of memory for each")
def unauthorized(stepd):
    """Sixteen clients without a token push all they can."""
    stepd.call("GET", "/healthz")
    clients, size = 16, 8 * MIB
    before = stepd.memory("VmHWM")
    paths = ["/v1/objects:sign", "/healthz", "/nothing", "/v1/objects/" + "a" * 32]

    def push(i):
        raw = post(paths[i % 4], b"", "Content-Length: %d" % size, auth=False)
        if i % 3 == 1:
            raw = raw.replace(b"Content-Length: %d" % size, b"Transfer-Encoding: chunked")
        if i % 3 == 2:
            raw = b"POST /x HTTP/1.1\r\n"  # headers without end
        if i % 4 == 3:
            raw = raw.replace(b"POST", b"PUT")
        with stepd.connect() as sock:
            try:
                sock.sendall(raw)
                for _ in range(size // 65536):
                    sock.sendall(b"a" * 65536)
            except OSError:
                return

    threads = [threading.Thread(target=push, args=(i,)) for i in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    grown = stepd.memory("VmHWM") - before
    print("memory of %d clients without a token, 8 MiB each: %d KiB more" % (clients, grown))
    check(ASAN or grown < clients * 64, "at most 64 KiB for each", grown)


@fault("bodies over the limit, together over the memory", "413 and 503; memory is given back")
def body_limits():
    with Stepd(STEPD_BODY_LIMIT="64k", STEPD_BODY_MEMORY="100k") as stepd:
        spaces = b"{" + b" " * 65534 + b"}"
        path = "/v1/objects:sign"
        check(stepd.exchange(post(path, spaces, "Connection: close"))[0][0].status == 200,
              "a body at the limit")
        answers, closed = stepd.exchange(post(path, spaces + b" "), timeout=5)
        check([a.status for a in answers] == [413] and closed, "a byte more", answers)
        check(b"65536" in answers[0].body, "the limit is named", answers)
        chunked = post(path, b"", "Content-Length: 0").replace(
            b"Content-Length: 0", b"Transfer-Encoding: chunked")
        data = b"4000\r\n" + b" " * 0x4000 + b"\r\n"
        answers, closed = stepd.exchange(chunked + data * 5, timeout=5)
        check([a.status for a in answers] == [413] and closed, "chunks over the limit", answers)
        with stepd.connect() as one:
            one.sendall(post(path, b"{", "Content-Length: 60000"))
            time.sleep(0.2)
            answers, _ = stepd.exchange(post(path, spaces, "Connection: close"))
            check(answers[0].status == 503, "memory for bodies is bounded", answers)
        time.sleep(0.2)
        check(stepd.exchange(post(path, spaces, "Connection: close"))[0][0].status == 200,
              "and is given back when a client goes")
        big = b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n"
        check(stepd.exchange(big, timeout=5)[0][0].status == 413, "a body where none is wanted")


@fault("a thousand idle connections", "served, in 8 MiB")
def idle_thousand():
    with Stepd(STEPD_CONNECTIONS="1100") as stepd:
        stepd.call("GET", "/healthz")
        before = stepd.memory()
        socks = [stepd.connect() for _ in range(1000)]
        for sock in socks:
            sock.sendall(HEALTH)
        for sock in socks:
            check(sock.recv(12) == b"HTTP/1.1 200", "one of a thousand")
        grown = stepd.memory() - before
        print("memory of 1000 idle connections: %d KiB" % grown)
        check(ASAN or grown < 8 * 1024, "a thousand idle connections in 8 MiB", grown)
        for sock in socks:
            sock.close()
        with stepd.connect() as sock:
            file = sock.makefile("rb")
            begun, n = time.monotonic(), 0
            while time.monotonic() - begun < 1:
                sock.sendall(HEALTH * 50)
                for _ in range(50):
                    read_answer(file)
                n += 50
            print("healthz over one kept connection, pipelined by 50: %d a second" % n)


def stopping():
    with Stepd() as stepd:
        begun = time.monotonic()
        sock = stepd.connect()
        sock.sendall(HEALTH)
        time.sleep(0.1)
        check(stepd.stop() == 0 and time.monotonic() - begun < 3, "stops at once when idle")
        check(not os.path.exists(os.path.join(stepd.state, "address")), "takes its address back")
        sock.close()
    with Stepd(STEPD_STOP_TIMEOUT="20") as stepd:
        with stepd.connect() as sock:
            sock.sendall(post("/v1/objects:sign", b"{", "Content-Length: 2"))
            time.sleep(0.2)
            stepd.process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            check(stepd.process.poll() is None, "a request under way is waited for")
            with stepd.connect() as other:
                other.sendall(post("/v1/objects:sign", b"{}", "Content-Length: 2"))
                answers, closed = read_all(other)
                check([a.status for a in answers] == [503] and closed, "no new work while stopping", answers)
                check("retry-after" in answers[0].headers, "but when to come again", answers)
            check(stepd.call("GET", "/healthz", headers=())[0] == 200, "and how it is")
            sock.sendall(b"}")
            answers, closed = read_all(sock)
            check([a.status for a in answers] == [200] and closed, "and answered", answers)
        check(stepd.stop(5) == 0, "then it stops")
    with Stepd(STEPD_STOP_TIMEOUT="20") as stepd:
        with stepd.connect() as sock:
            sock.sendall(HEALTH.replace(b"\r\n\r\n", b"\r\nContent-Length: 60000\r\n\r\n"))
            time.sleep(0.2)
            begun = time.monotonic()
            check(stepd.stop() == 0, "stops")
            check(time.monotonic() - begun < 10, "a stranger who is slow is not waited for")
    with Stepd(STEPD_STOP_TIMEOUT="1") as stepd:
        with stepd.connect() as sock:
            sock.sendall(post("/v1/objects:sign", b"{", "Content-Length: 2"))
            time.sleep(0.2)
            begun = time.monotonic()
            check(stepd.stop() == 0, "a client that stands still is not waited for")
            check(0.8 < time.monotonic() - begun < 5, "longer than STEPD_STOP_TIMEOUT")


def main():
    for settings in ({}, {"STEPD_TLS_CERT": "auto"}):
        with Stepd(**settings) as stepd:
            for test in (keep_alive, head, headers, pipelining, expect_continue):
                test(stepd)
            if not settings:
                half_close(stepd)
                unauthorized(stepd)
    deadlines()
    many()
    body_limits()
    idle_thousand()
    stopping()
    finish()


main()
