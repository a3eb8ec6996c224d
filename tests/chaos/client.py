"""A client as the README asks for: keys, the same request again until it is answered, datums rendered
again where stepd says so. Each try may be cut; whatever else goes wrong without a cause is a problem."""
import http.client
import json
import os
import re
import socket
import ssl
import threading
import time

TOKEN = "token-of-the-tests-0123456789"
# What may be said when something was disturbed. 503: again, with the same key.
SENTENCES = {
    503: ("the session has no worker", "the trainer is stopping", "the worker of the session",
          "the session was stopped while it was loading", "the client went before its turn",
          "the opening that came before with this key failed", "stepd was started again before this", "the answer was in memory only and is gone"),
    507: ("the trainer has no disk space", "the trainer has no place to write",
          "no space is left for the artifact", "the artifact could not be written: No space"),
    502: ("the trainer artifact upload failed", "the trainer state download failed"),
}
CUTS = ("before the request is whole", "after the request", "within the answer", "after the answer")


LATER = "Prefer: respond-async"


class OverTime(Exception):
    pass


class Lost(Exception):
    """No answer, for a reason that the harness knows."""


class Answer:
    def __init__(self, status, body, headers):
        self.status, self.body, self.headers = status, body, headers


class Connector:
    """Tries: connections to the stepd that there is just now, straight or through the proxy."""

    def __init__(self, keeper, proxy, ledger, rng, state, deadline):
        self.keeper, self.proxy, self.ledger, self.rng = keeper, proxy, ledger, rng
        self.state, self.deadline = state, deadline
        self.cuts, self.lock = [], threading.Lock()
        self.last = threading.local()  # .way: of the last try of this thread, to be told

    def arm(self, cut):
        with self.lock:
            self.cuts.append(cut)

    def take(self, method):
        with self.lock:
            if not self.cuts or (method == "GET" and self.rng.random() < 0.8):
                return None
            return self.cuts.pop(0)

    def connect(self, cut):
        self.last.way = "tls" if self.keeper.tls else "plain"
        if cut is None and self.rng.random() < 0.5:
            self.last.way += ", straight"
            sock, carried = socket.create_connection(self.keeper.address, timeout=60), None
        else:
            sock, carried = self.proxy.connect(60)
        if self.keeper.tls:
            try:
                context = ssl.create_default_context(cafile=os.path.join(self.state, "tls-cert.pem"))
                sock = context.wrap_socket(sock, server_hostname="127.0.0.1")
            except (OSError, ValueError):
                sock.close()
                raise
        return sock, carried

    def once(self, method, path, body, key, *more):
        """One try. Lost: there is no answer, and the harness or a restart is the reason."""
        if time.monotonic() > self.deadline:
            raise OverTime("%s %s is not answered" % (method, path))
        cut, began = self.take(method), time.monotonic()
        try:
            answer = self.exchange(cut, method, path, body, key, *more)
            self.note_answer(began, method, path, key, answer)
            return answer
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.ledger.note(method, path, key or "", "lost after %.3f s:" % (time.monotonic() - began),
                             cut or "not cut", repr(error))
            if cut is None and not self.keeper.was_down(began):
                self.ledger.problem("no answer to %s %s, without a cause: %r %s; after %.3f s, stepd is there for %.1f s" % (
                    method, path, error, self.last.way, time.monotonic() - began, self.keeper.there_for()))
            raise Lost(repr(error)) from error

    def note_answer(self, began, method, path, key, answer):
        if method == "GET" and answer.status == 200:
            return  # there are many
        step = answer.headers.get("stepd-step")
        self.ledger.note(method, path, key or "", "answered after %.3f s:" % (time.monotonic() - began),
                         answer.status, "step %s" % step if step else "", str(answer.body)[:300])

    def exchange(self, cut, method, path, body, key, *more):
        data = b"" if body is None else json.dumps(body).encode()
        head = ["%s %s HTTP/1.1" % (method, path), "Host: x", "Authorization: Bearer " + TOKEN, *more]
        if self.rng.random() < 0.5:
            head.append("Connection: close")
        if key is not None:
            head.append("Idempotency-Key: " + key)
        if body is not None:
            head += ["Content-Type: application/json", "Content-Length: %d" % len(data)]
        raw = "\r\n".join(head).encode() + b"\r\n\r\n" + data
        sock, carried = self.connect(cut)
        try:
            return self.send_and_read(sock, carried, cut, method, raw)
        finally:
            sock.close()

    def send_and_read(self, sock, carried, cut, method, raw):
        if cut == CUTS[0]:
            sock.sendall(raw[:self.rng.randrange(len(raw))])
            carried.cut()
            self.ledger.fault("connection cut " + cut)
            raise ConnectionResetError(cut)
        if cut == CUTS[2]:
            carried.cut_answer_after(self.rng.randrange(150))
            self.ledger.fault("connection cut " + cut)
        sock.sendall(raw)
        if cut == CUTS[1]:
            time.sleep(self.rng.random() * 0.05)
            carried.cut()
            self.ledger.fault("connection cut " + cut)
            raise ConnectionResetError(cut)
        response = http.client.HTTPResponse(sock, method=method)
        response.begin()
        if response.getheader("Content-Length") is None:
            raise http.client.IncompleteRead(b"")
        text = response.read()
        if cut == CUTS[3]:
            carried.cut()
            self.ledger.fault("connection cut " + cut)
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, json.loads(text), headers)


class Client:
    """A session, or after a resume the next one, and the calls on it."""

    def __init__(self, connector, store, disk, ledger, sealed):
        self.connector, self.store, self.disk, self.ledger = connector, store, disk, ledger
        self.sealed = sealed
        self.session, self.ids = None, {}
        self.rendered = time.monotonic()  # all of ids, by the stepd that was there then

    def allowed(self, answer, began):
        """Is this refusal one that may be met, for what was done to stepd since then?"""
        sentence = str(answer.body.get("detail", "")) if isinstance(answer.body, dict) else ""
        if not sentence.startswith(SENTENCES.get(answer.status, ())) or answer.status not in SENTENCES:
            return False
        if answer.status == 502:
            return self.store.failed_since(began - 1) or self.connector.keeper.was_down(began - 1)
        if answer.status == 507:
            self.ledger.full += 1
            return self.disk.was_full(began - 1)
        return True

    def call(self, method, path, body=None, key=None, others=()):
        """Again and again until it is 200, or a status of `others`."""
        tries = 0
        while True:
            began = time.monotonic()
            later = key is not None and "/sessions/" in path and self.connector.rng.random() < 0.3
            try:
                answer = self.connector.once(method, path, body, key, *([LATER] if later else []))
            except Lost:
                answer = None
            if answer is not None and answer.status == 202 and later:
                answer = self.result(answer.headers["location"])
            if answer is not None and answer.status in (200, *others):
                return answer
            if answer is not None and self.wants_datums(answer) and not path.endswith(":render"):
                self.render_again()
            elif answer is not None and not self.allowed(answer, began):
                raise RuntimeError("%s %s: %d %r" % (method, path, answer.status, answer.body))
            tries += 1
            self.ledger.resent += 1
            # Retry-After says tens of seconds, for people; who is impatient is served too.
            time.sleep(min(0.05 * 2 ** min(tries, 4), 0.5))

    def result(self, operation):
        """What a call that is answered later comes to, asked for until it is known."""
        while True:
            try:
                answer = self.connector.once("GET", operation + "?wait=5", None, None)
            except Lost:
                time.sleep(0.1)
                continue
            if answer.status != 202:
                return answer

    def wants_datums(self, answer):
        """They went with the stepd before: 503 where steps are to be replayed, else the contract's 422."""
        detail = str(answer.body.get("detail", "")) if isinstance(answer.body, dict) else ""
        if self.sealed:
            return False
        if answer.status == 422 and detail == "the batch names an unknown rendered datum":
            return self.connector.keeper.was_down(self.rendered)
        return answer.status == 503 and re.search("render.* again", detail) is not None

    def path(self, call=""):
        return "/v1/sessions/" + self.session + call

    def open(self, key, **fields):
        """A session; where the answer was lost, the one that nobody knows is closed first."""
        body = {"lora_rank": 8, "seed": 7, "lora_dropout": 0.1, **fields}
        while True:
            answer = self.call("POST", "/v1/sessions", body, key, others=(409,))
            if answer.status == 200:
                break
            for s in self.call("GET", "/v1/sessions").body["sessions"]:
                if s["state"] != "closed" and s["session_id"] != self.session:
                    self.call("DELETE", "/v1/sessions/%s?force=true" % s["session_id"], others=(404,))
            time.sleep(0.05)
        self.session, self.ids = answer.body["session_id"], {}
        return self.session

    def render(self, key, *names):
        """names -> the text of each is made from its name."""
        examples = [{"example_id": name, "messages": [
            {"role": "user", "content": "What is " + name + "?"},
            {"role": "assistant", "content": "It is " + name + "."}]} for name in names]
        answer = self.call("POST", self.path("/datums:render"), {"examples": examples}, key)
        ids = {d["example_id"]: d["datum_id"] for d in answer.body["datums"]}
        if sorted(ids) != sorted(names):
            self.ledger.problem("other datums than were asked for", names, answer.body)
        for name, datum in ids.items():
            if self.ids.setdefault(name, datum) != datum:
                self.ledger.problem("rendered again, %s has another id" % name)

    def render_again(self):
        began = time.monotonic()
        self.render(None, *self.ids)
        self.rendered = began

    def train_body(self, names):
        return {"datum_ids": [self.ids[name] for name in names], "learning_rate": 1e-3}

    def train(self, key, names):
        """The number that the step was told to have, and the answer."""
        answer = self.call("POST", self.path("/batches:train"), self.train_body(names), key)
        self.ledger.acknowledge(key, int(answer.headers["stepd-step"]), answer.body)
        return int(answer.headers["stepd-step"]), answer.body

    def save(self, key, kind, name):
        url = self.store.url("/saved/" + name)
        body = {"kind": kind, "name": name, "upload_url": url}
        return self.call("POST", self.path("/artifacts:save"), body, key).body

    def status(self):
        return self.call("GET", self.path()).body

    def close(self):
        self.call("DELETE", self.path("?force=true"))
