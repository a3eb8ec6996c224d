"""GET /v1/sessions/{id}/events: what is told, in which order, under which ids; resuming, gaps, ends."""
import json
import signal
import socket
import time

from daemon import BEARER, check, finish, read_answer
from fault_table import fault
from trainer import Trainer, background, step_request

KEPT = 1024  # events of a session


class Stream:
    """A listener: the head at once, then events as they come."""

    def __init__(self, t, session, query="", headers=(), version="1.1", method="GET"):
        self.sock = t.connect(timeout=60)
        lines = ["%s /v1/sessions/%s/events%s HTTP/%s" % (method, session, query, version), "Host: x", BEARER, *headers]
        self.sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        self.file = self.sock.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers, self.text, self.ended, self.comments = {}, "", False, 0
        while (line := self.file.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().partition(":")
            self.headers[name.lower()] = value.strip()

    def read(self):
        """The next piece; False at the proper end."""
        if self.headers.get("transfer-encoding") == "chunked":
            size = int(self.file.readline().strip() or b"-1", 16)
            piece = self.file.read(size) if size > 0 else b""
            self.ended = size == 0 and self.file.readline() == b"\r\n"
            if size > 0:
                self.file.readline()
        else:
            piece = self.file.readline()
            self.ended = piece == b""
        self.text += piece.decode()
        return piece != b""

    def next(self):
        """The next event as (id, name, data), or None at the end."""
        while True:
            while "\n\n" not in self.text:
                if not self.read():
                    return None
            block, _, self.text = self.text.partition("\n\n")
            fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":") and line)
            self.comments += block.startswith(":")
            if "event" in fields:
                return int(fields["id"]), fields["event"], json.loads(fields["data"])

    def take(self, count):
        return [self.next() for _ in range(count)]

    def rest(self):
        events = []
        while (event := self.next()) is not None:
            events.append(event)
        return events

    def until(self, name, **data):
        """All events up to one of that name with these values."""
        events = []
        while (event := self.next()) is not None:
            events.append(event)
            if event[1] == name and all(event[2].get(k) == v for k, v in data.items()):
                break
        return events

    def close(self):
        self.file.close()
        self.sock.close()


def names(events):
    return [(e[1], e[2].get("state")) if e[1] == "state" else e[1] for e in events]


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def listeners(t):
    return t.document()["connections"]["event_listeners"]


def whole_life(t):
    s = t.opened()
    live = Stream(t, s)
    check(live.status == 200 and live.headers["content-type"] == "text/event-stream" and
          live.headers["cache-control"] == "no-store" and "content-length" not in live.headers, "head", live.headers)
    first = live.next()
    check(first[1] == "state" and first[2]["state"] == "ready" and first[2]["step"] == 0, "the present", first)
    t.render(s)
    answers = [t.train(s)[1], t.train(s)[1]]
    saved = t.save(s, t.sign()["put_url"])[1]
    t.set_faults()
    steps = live.take(2)
    for n, (event, answer) in enumerate(zip(steps, answers)):
        data = dict(event[2])
        check(event[1] == "step" and data.pop("step") == n + 1 and data.pop("at").endswith("Z") and data == answer,
              "a step as it was answered", event, answer)
    save = live.next()
    check(save[1] == "save" and set(save[2]) == {"step", "kind", "sha256", "size_bytes", "at"} and
          save[2]["step"] == 2 and save[2]["kind"] == "state" and save[2]["sha256"] == saved["sha256"] and
          save[2]["size_bytes"] == saved["size_bytes"], "a save", save, saved)
    t.train(s)
    t.train(s, "nobody")
    t.kill_workers()
    back = live.until("state", state="ready")
    check(names(back) == ["step", ("state", "restoring"), "restart", ("state", "ready")], "brought back", back)
    check(back[1][2]["reason"] == "was killed from outside", "why", back)
    restart = back[2][2]
    check(restart["class"] == "killed" and restart["step"] == 3 and restart["replayed_steps"] == 3 - anchor_of(t, s),
          "class and steps done again", restart)
    t.close(s, "?force=true")
    last = live.rest()
    check(names(last) == [("state", "closed")] and live.ended, "closed, and the answer ends as one", last)
    events = steps + [save] + back + last
    ids = [e[0] for e in events]
    check(ids == sorted(set(ids)) and first[0] < ids[0], "ids grow", first, ids)
    return s, first, events


def anchor_of(t, session):
    """The step that replaying began at."""
    st = t.status(session)
    return st["step"] - st["replay_steps"]


def telling():
    with Trainer() as t:
        s, first, events = whole_life(t)
        check("http" not in json.dumps(events), "no URL in it")
        # the session is closed: what is kept is told, then 204
        every = Stream(t, s, "?after=0").rest()
        check(names(every[:2]) == [("state", "loading"), ("state", "ready")] and every[2:] == events, "from the start",
              names(every))
        check(every[1][0] == first[0], "the present had the id of the newest", first, every[1])
        for i in (0, 3, len(events) - 2):
            for query, headers in (("?after=%d" % events[i][0], ()), ("", ("Last-Event-ID: %d" % events[i][0],)),
                                   ("?after=0", ("Last-Event-ID: %d" % events[i][0],))):
                check(Stream(t, s, query, headers).rest() == events[i + 1:], "resumed", i, query, headers)
        over = Stream(t, s, "?after=%d" % events[-1][0])
        check(over.status == 204, "nothing more will come", over.status)
        beyond = Stream(t, s, "?after=%d" % (events[-1][0] + 10 ** 9)).rest()
        check(beyond[0][1] == "gap" and beyond[1:] == every, "an id that was never given out", beyond[0])


def calls():
    with Trainer() as t:
        s = t.opened()
        path = "/v1/sessions/%s/events" % s
        check(t.ask("GET", "/v1/sessions/nobody/events")[0] == 404, "unknown")
        check(t.call("GET", path, headers=())[0] == 401, "no token")
        check(t.call("POST", path)[0] == 405, "not to be posted")
        for bad in ("x", "-1", "1.5", "99999999999999999999", "%20"):
            status, body, _ = t.ask("GET", path + "?after=" + bad)
            check(status == 422 and body["detail"][0]["loc"] == ["query", "after"], "after", bad, status, body)
        status, body, _ = t.ask("GET", path, headers=("Last-Event-ID: nine",))
        check(status == 422 and body["detail"][0]["loc"] == ["header", "last-event-id"], "the header", status, body)
        check(t.ask("GET", "/healthz")[0] == 200, "still up")
        head = Stream(t, s, method="HEAD")
        check(head.status == 200 and head.headers["content-type"] == "text/event-stream", "HEAD", head.headers)
        head.sock.sendall(("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").encode())
        answer = read_answer(head.file)
        check(answer.status == 200, "the connection is kept after it", answer)
        old = Stream(t, s, version="1.0")
        check(old.status == 200 and "transfer-encoding" not in old.headers and old.headers["connection"] == "close",
              "HTTP/1.0", old.headers)
        check(old.next()[2]["state"] == "ready", "the present")
        t.train(s)
        check(old.next()[1] == "step", "a step")
        one = Stream(t, s, "?after=0", ("Last-Event-ID:",))
        check(names(one.take(3)) == [("state", "loading"), ("state", "ready"), "step"], "an empty header is none")
        one.sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        t.close(s, "?force=true")
        check(names(old.rest()) == [("state", "closed")], "its end is the connection's")
        check(names(one.rest()) == [("state", "closed")] and read_answer(one.file).status == 200,
              "and what was sent ahead is answered then")


def forgotten():
    """More than is kept: a gap, which says so, then all that there is."""
    with Trainer(STEPD_DURABILITY="memory") as t:
        s = t.opened()
        early = Stream(t, s)
        begun = early.next()
        one = step_request(s, close=False)
        t.render(s)
        done, steps = 0, KEPT + 100
        with t.connect(timeout=120) as sock, sock.makefile("rb") as file:
            while done < steps:
                sock.sendall(one * 20)
                done += sum(read_answer(file).status == 200 for _ in range(20))
        check(done >= steps, "steps", done)
        followed = early.take(done)
        check([e[2]["step"] for e in followed] == list(range(1, done + 1)), "who listens misses none")
        late = Stream(t, s, "?after=%d" % begun[0])
        gap = late.next()
        check(gap[1] == "gap" and gap[2] == {"step": done, "after": begun[0]}, "a gap", gap)
        kept = late.take(KEPT)
        check(kept == followed[-KEPT:], "then the newest", len(kept), kept[:1], followed[-KEPT:][:1])
        check(gap[0] == followed[-KEPT - 1][0], "the gap's id is that of the last one lost", gap)
        again = Stream(t, s, "?after=%d" % gap[0])
        check(again.take(2) == kept[:2], "so it is resumed from there")
        t.train(s)
        check(late.next()[2]["step"] == done + 1, "and it goes on")
        t.close(s, "?force=true")
        check(names(late.rest()) == [("state", "closed")], "to the end")
        few = Stream(t, s, "?after=0").rest()
        check(few[0][1] == "gap" and 1 < len(few) < 40, "of a closed session fewer are kept", len(few))


@fault("stepd killed or stopped under one who follows events", "its id is good after it: a gap, then what comes")
def starts():
    """Ids grow over the starts of stepd, also after kill -9; what was told before is a gap."""
    t = Trainer()
    s = t.opened()
    t.render(s)
    before = Stream(t, s, "?after=0").take(2)
    t.train(s)
    for how in (signal.SIGKILL, signal.SIGTERM):
        t.end(how)
        t = Trainer(folder=t.folder)
        resumed = Stream(t, s, "?after=%d" % before[-1][0])
        gap, first = resumed.take(2)
        check(gap[1] == "gap" and gap[0] > before[-1][0] and gap[2]["step"] == 1 and first[0] > gap[0], "a gap",
              how, before, gap, first)
        check(Stream(t, s, "?after=%d" % gap[0]).next() == first, "resumed after it")
        before = [first]
        resumed.close()
    with t:
        beyond = Stream(t, s, "?after=%d" % 10 ** 18)
        check(beyond.next()[1] == "gap" and beyond.next() == first, "an id that was never given out")


@fault("more listeners to events than fit, and listeners that go", "503 for those, requests of others are answered")
def who_goes():
    with Trainer(STEPD_CONNECTIONS="8") as t:
        s = t.opened()
        for _ in range(3):
            streams = [Stream(t, s) for _ in range(4)]
            check([x.next()[2]["state"] for x in streams] == ["ready"] * 4, "as many as half of the connections")
            one = t.exchange(("GET /v1/sessions/%s/events HTTP/1.1\r\nHost: x\r\n%s\r\nConnection: close\r\n\r\n" %
                              (s, BEARER)).encode())[0][0]
            check(one.status == 503 and int(one.headers["retry-after"]) > 0, "no more", one)
            check(t.train(s)[0] == 200, "who trains has the others")
            streams[0].sock.shutdown(socket.SHUT_WR)
            check([e[1] for e in streams[0].rest()] == ["step"], "who sends nothing more is done")
            for x in streams[1:]:
                x.close()
            check(wait_for(lambda: listeners(t) == 0), "who goes is forgotten", listeners(t))


def session_that_does_not_open():
    with Trainer("OPEN:1:hang", STEPD_LOAD_TIMEOUT="2") as t:
        opening = background(t.open)
        check(wait_for(lambda: t.ask("GET", "/v1/sessions")[1]["sessions"]), "it loads")
        s = t.ask("GET", "/v1/sessions")[1]["sessions"][0]["session_id"]
        stream = Stream(t, s)
        check(names([stream.next()]) == [("state", "loading")], "loading")
        check(opening()[0] == 503, "it does not open")
        rest = stream.rest()
        check(rest == [] and stream.ended, "the stream ends with it", rest, stream.ended, stream.text)
        check(t.ask("GET", "/v1/sessions/%s/events" % s)[0] == 404, "nobody knows it")


def stopping():
    """A stop ends the streams at once, each as an answer ends."""
    with Trainer("TRAIN:1:slow", STEPD_STOP_TIMEOUT="300", STEPD_TLS_CERT="auto") as t:
        t.host = "localhost"
        s = t.opened()
        streams = [Stream(t, s) for _ in range(5)]
        check(len([x.next() for x in streams]) == 5, "they listen")
        step = background(t.train, s)
        check(wait_for(lambda: t.status(s)["state"] == "training"), "at work")
        t.process.terminate()
        check([x.rest() for x in streams] == [[]] * 5 and all(x.ended for x in streams), "they end")
        check(step()[0] == 200, "the step is finished")
        check(t.process.wait(60) == 0 and "did not finish in time" not in t.logged(), "nobody is waited for")


def heartbeat():
    with Trainer() as t:
        s = t.opened()
        stream = Stream(t, s)
        stream.next()
        while stream.comments == 0 and "\n\n" not in stream.text and stream.read():
            stream.comments += stream.text.startswith(":")
        check(stream.comments == 1, "a comment, where nothing happens", stream.text)


telling()
calls()
forgotten()
starts()
who_goes()
session_that_does_not_open()
stopping()
heartbeat()
finish()
