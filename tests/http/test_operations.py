"""Prefer: respond-async: the call is answered later, as it would have been at once, also to who asks
after a restart; with an Idempotency-Key it is one operation however often it is sent."""
import json
import os
import signal
import socket
import tempfile
import time

from daemon import BEARER, check, finish
from fault_table import NOT_TRIED, fault
from small_disk import fill, small_disk
from trainer import MESSAGES, Trainer, background

ASYNC = "Prefer: respond-async"
LATER = ("stepd-step", "stepd-durable", "content-type")


def key(text):
    return "Idempotency-Key: " + text


def examples(*names):
    return {"examples": [{"example_id": name, "messages": MESSAGES} for name in names]}


def step(*ids, rate=1e-4):
    return {"datum_ids": ids or ("datum-e",), "learning_rate": rate}


class Later(Trainer):
    def post(self, session, call, body, *headers):
        return self.ask("POST", "/v1/sessions/%s/%s" % (session, call), body, headers)

    def accepted(self, session, call, body, *headers):
        """Where the operation is."""
        answer = self.post(session, call, body, ASYNC, *headers)
        return self.place(answer)

    def place(self, answer):
        status, body, headers = answer
        check(status == 202 and headers.get("preference-applied") == "respond-async", "accepted", answer)
        check(headers.get("location") == "/v1/operations/%s" % body.get("operation_id"), "Location", answer)
        return headers.get("location", "/v1/operations/none")

    def result(self, place, wait=60):
        return self.ask("GET", place + ("?wait=%s" % wait if wait else ""))

    def same(self, answer, other, name):
        """The same answer, but for what belongs to the exchange."""
        check(answer[0] == other[0] and answer[1] == other[1], name, answer, other)
        for header in LATER:
            check(answer[2].get(header) == other[2].get(header), name + ": " + header, answer, other)


def every_call():
    with Later() as t:
        body = {"base_model": "org/model", "lora_rank": 8, "seed": 7}
        answer = t.ask("POST", "/v1/sessions", body, [ASYNC])
        opened = t.result(t.place(answer))
        check(opened[0] == 200 and list(opened[1]) == ["session_id"], "open", opened)
        s = opened[1]["session_id"]
        check(t.status(s)["state"] == "ready", "and it is")
        rendered = t.result(t.accepted(s, "datums:render", examples("e", "f")))
        t.same(rendered, t.post(s, "datums:render", examples("e", "f"), key("r")), "render")
        place = t.accepted(s, "batches:train", step())
        trained = t.result(place)
        check(trained[0] == 200 and trained[1]["loss"] == 1.0, "train", trained)
        check(trained[2]["stepd-step"] == "1" and trained[2]["stepd-durable"] == "disk", "headers", trained)
        t.same(t.result(place), trained, "as often as it is asked")
        t.same(t.result(place, None), trained, "without waiting")
        urls = t.sign()
        save = {"kind": "state", "name": "n", "upload_url": urls["put_url"]}
        saved = t.result(t.accepted(s, "artifacts:save", save))
        check(saved[0] == 200 and saved[1]["size_bytes"] == 1 << 20, "save", saved)
        check(t.status(s)["last_saved"]["sha256"] == saved[1]["sha256"], "it is what was saved")
        generated = t.result(t.accepted(s, "samples:generate", {"prompt": "p"}))
        t.same(generated, t.generate(s), "generate")
        body = {"datum_ids": ["datum-e"]}
        t.same(t.result(t.accepted(s, "datums:evaluate", body)), t.post(s, "datums:evaluate", body), "evaluate")
        verified = t.result(t.accepted(s, "artifacts:verify", {"kind": "state", "download_url": urls["get_url"]}))
        check(verified[0] == 200, "verify", verified)
        refused = t.result(t.accepted(s, "batches:train", step("nobody")))
        t.same(refused, t.train(s, "nobody"), "a refusal of the worker")
        check(refused[0] == 422, "which is one", refused)
        closed = t.result(t.place(t.ask("DELETE", "/v1/sessions/%s?force=true" % s, None, [ASYNC])))
        check(closed[0] == 200 and closed[1]["state"] == "closed", "close", closed)
        check(not t.active(), "the device is free")


def refused_at_once():
    with Later() as t:
        s = t.opened()
        for path, body, status in (("batches:train", {"datum_ids": []}, 422), ("batches:train", None, 422),
                                   ("artifacts:save", {"kind": "state"}, 422)):
            answer = t.post(s, path, body, ASYNC)
            check(answer[0] == status and "location" not in answer[2], "the body is judged first", answer)
            t.same(answer, t.post(s, path, body), "as ever")
        answer = t.post("0" * 32, "batches:train", step(), ASYNC)
        check(answer[0] == 404 and answer[1]["detail"] == "training session not found", "no session", answer)
        answer = t.post("0" * 500, "batches:train", step(), ASYNC)
        check(answer[0] == 404, "no such session id", answer)
        answer = t.post(s, "batches:train", step(), ASYNC, key("x" * 256))
        check(answer[0] == 422 and "255" in answer[1]["detail"], "a long key", answer)
        check(t.ask("POST", "/v1/sessions", {"base_model": "org/model", "lora_rank": 8, "seed": 7},
                    [ASYNC])[0] == 409, "no device")
        check(t.status(s)["step"] == 0, "nothing was done")
        for prefer in ("respond-async", "return=minimal, respond-async", "Respond-Async; foo=1,x"):
            check(t.post(s, "batches:train", step(), "Prefer: " + prefer)[0] == 202, "preferred", prefer)
        check(t.post(s, "batches:train", step(), "Prefer: x", ASYNC)[0] == 202, "in two lines")
        for prefer in ("respond-asynchronous", "wait=10", "x-respond-async", ""):
            check(t.post(s, "batches:train", step(), "Prefer: " + prefer)[0] == 200, "not preferred", prefer)


def asking():
    with Later("TRAIN:1:slow") as t:
        s = t.opened()
        check(t.ask("GET", "/v1/operations/" + "0" * 32)[0] == 404, "unknown")
        check(t.ask("GET", "/v1/operations/x")[0] == 404, "no id")
        check(t.ask("POST", "/v1/operations/x", {})[0] == 405, "only asked")
        place = t.accepted(s, "batches:train", step())
        for wait in ("", "x", "-1", "301", "1e3", "nan", "0x10", " 1", "1,5", "9" * 400):
            status, body, _ = t.ask("GET", place + "?wait=" + wait.replace(" ", "%20"))
            check(status == 422 and body["detail"][0]["loc"] == ["query", "wait"], "wait", wait, body)
        for wait in ("0", "0.01", "0.0"):
            status, body, headers = t.ask("GET", place + "?wait=" + wait)
            check(status == 202 and body["done"] is False and body["session_id"] == s, "not done", body)
            check(body["call"] == "POST /v1/sessions/{id}/batches:train", "what it is", body)
            check("loss" not in body, "nothing of the answer", body)
        waits = [background(t.result, place) for _ in range(8)]
        with t.connect() as sock:  # who goes away while waiting disturbs nobody
            sock.sendall(("GET %s?wait=60 HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % (place, BEARER)).encode())
        answers = [wait() for wait in waits]
        check(all(a[0] == 200 and a[1] == answers[0][1] for a in answers), "those who wait", answers)
        check(t.result(place, 300)[0] == 200, "the longest wait")
        status, body = t.call("GET", place, headers=())
        check(status == 401, "the token is needed", status)


def one_with_a_key():
    with Later("TRAIN:1:slow") as t:
        s = t.opened()
        places = [background(t.accepted, s, "batches:train", step(), key("a")) for _ in range(6)]
        places = [wait() for wait in places]
        check(len(set(places)) == 1, "the same operation", places)
        patient = background(t.post, s, "batches:train", step(), key("a"))
        done = t.result(places[0])
        t.same(patient(), done, "who waits with the same key")
        check(t.status(s)["step"] == 1, "one step")
        check(t.accepted(s, "batches:train", step(), key("a")) == places[0], "also when it is done")
        t.same(t.post(s, "batches:train", step(), key("a")), done, "the same answer at once")
        other = t.post(s, "batches:train", step(rate=2e-4), ASYNC, key("a"))
        check(other[0] == 422 and "Idempotency-Key" in other[1]["detail"], "another body", other)
        check(t.post(s, "datums:render", examples("e"), ASYNC, key("a"))[0] == 422, "another call")
        first = t.post(s, "batches:train", step(), key("b"))
        again = t.post(s, "batches:train", step(), key("b"), ASYNC)
        t.same(again, first, "what was answered before is answered at once")
        check("preference-applied" not in again[2], "which is told", again)
        refused = t.accepted(s, "batches:train", step("nobody"), key("c"))
        check(t.result(refused)[0] == 422, "refused")
        check(t.accepted(s, "batches:train", step("nobody"), key("c")) != refused, "and judged anew")
        render = t.accepted(s, "datums:render", examples("e"), key("r"))
        t.result(render)
        check(t.accepted(s, "datums:render", examples("e"), key("r")) == render, "render")
        check(t.status(s)["step"] == 2, "two steps")


@fault("connections cut before the 202 is read", "the same key finds the operation; one step each")
def clients_that_go():
    """The connection is cut after the request, before the 202 is read."""
    with Later() as t:
        s = t.opened()
        body = json.dumps(step()).encode()
        for n in range(20):
            with t.connect() as sock:
                sock.sendall(("POST /v1/sessions/%s/batches:train HTTP/1.1\r\nHost: x\r\n%s\r\n%s\r\n%s\r\n"
                              "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                              % (s, BEARER, ASYNC, key("k%d" % n), len(body))).encode() + body)
                if n % 2:
                    sock.shutdown(socket.SHUT_RDWR)
        for n in range(20):
            answer = t.result(t.accepted(s, "batches:train", step(), key("k%d" % n)))
            check(answer[0] == 200, "sent again", n, answer)
        check(t.status(s)["step"] == 20, "one step a key", t.status(s)["step"])


@fault("stepd is killed with operations done and under way",
       "what was done is told again, the rest says to send it again")
def started_again():
    first = Later("TRAIN:2:hang", STEPD_TRAIN_TIMEOUT="600")
    s = first.opened()
    done = first.accepted(s, "batches:train", step(), key("a"))
    trained = first.result(done)
    keyless = first.accepted(s, "datums:render", examples("secret-name"))
    rendered = first.result(keyless)
    check(rendered[0] == 200, "render", rendered)
    refused = first.accepted(s, "artifacts:save", {"kind": "state", "name": "n",
                                                   "upload_url": "https://127.0.0.1:1/x?token=geheim"})
    failed = first.result(refused)
    check(failed[0] == 502, "an upload that fails", failed)
    begun = first.accepted(s, "batches:train", step(), key("b"))
    waiting = [first.accepted(s, "datums:render", examples("secret-name")),
               first.accepted(s, "samples:generate", {"prompt": "p"}),
               first.accepted(s, "artifacts:save", {"kind": "state", "name": "n",
                                                    "upload_url": first.sign()["put_url"]})]
    last = first.accepted(s, "batches:train", step(rate=3e-4))
    first.end(signal.SIGKILL)
    store = os.path.join(first.state, "store", "data.mdb")
    with open(store, "rb") as f:
        kept = f.read()
    for text in (b"secret-name", b"geheim", b"signature="):
        check(text not in kept, "is not in the store", text)
    with Later(folder=first.folder) as t:
        first.same(t.result(done), trained, "what was done is answered again")
        check(t.accepted(s, "batches:train", step(), key("a")) == done, "also to its key")
        first.same(t.result(refused), failed, "a refusal too")
        for place in [keyless] + waiting:
            answer = t.result(place)
            check(answer[0] == 503 and "again" in answer[1]["detail"], "is to be sent again", answer)
        check("at step 1" in t.result(waiting[1])[1]["detail"], "and where the session is")
        for place, number in ((begun, "2"), (last, "3")):
            answer = t.result(place)
            check(answer[0] == 200 and answer[2]["stepd-step"] == number, "steps are taken then", answer)
        check(t.accepted(s, "batches:train", step(), key("b")) == begun, "and were with their key")
        check(t.status(s)["step"] == 3, "each once")
        t.close(s, "?force=true")


@fault("stepd is killed right after a 202", "the operation is there, and says what became of it")
def killed_at_once():
    """stepd is killed right after the 202: the operation is there, and says what became of it."""
    for _ in range(6):
        first = Later()
        s = first.opened()
        place = first.accepted(s, "batches:train", step())
        first.end(signal.SIGKILL)
        with Later(folder=first.folder) as t:
            answer = t.result(place)
            check(answer[0] == 200 and answer[2]["stepd-step"] == "1", "it is done", answer)
            check(t.status(s)["step"] == 1, "once", t.status(s))
            t.close(s, "?force=true")


@fault("stepd is killed right after the 202 of an opening, and of closing",
       "the session is open or not there at all; it is closed")
def killed_at_either_end():
    body = {"base_model": "org/model", "lora_rank": 8, "seed": 7}
    for _ in range(4):
        first = Later()
        place = first.place(first.ask("POST", "/v1/sessions", body, [ASYNC, key("open")]))
        first.end(signal.SIGKILL)
        second = Later(folder=first.folder)
        answer = second.result(place)
        listed = [st["session_id"] for st in second.ask("GET", "/v1/sessions")[1]["sessions"]]
        if answer[0] == 200:
            check(listed == [answer[1]["session_id"]], "open", answer, listed)
        else:
            check(answer[0] == 503 and "again" in answer[1]["detail"] and not listed, "not there", answer, listed)
        again = second.result(second.place(second.ask("POST", "/v1/sessions", body, [ASYNC, key("open")])))
        check(again[0] == 200 and answer[0] in (503, 200), "sent again", again)
        check(answer[0] == 503 or again[1] == answer[1], "the same session", answer, again)
        s = again[1]["session_id"]
        check(second.train(s)[0] == 200, "it trains")
        place = second.place(second.ask("DELETE", "/v1/sessions/%s?force=true" % s, None, [ASYNC]))
        second.end(signal.SIGKILL)
        with Later(folder=first.folder) as t:
            answer = t.result(place)
            check(answer[0] == 200 and answer[1]["state"] == "closed", "closed", answer)
            check(t.status(s)["state"] == "closed" and not t.active(), "and it is")


@fault("stepd is stopped with an operation under way", "it is finished, and told after the start")
def stopped_with_one_under_way():
    first = Later("TRAIN:1:slow")
    s = first.opened()
    place = first.accepted(s, "batches:train", step())
    wait = background(first.result, place)
    later = first.accepted(s, "batches:train", step())
    check(first.stop() == 0, "stepd stops")
    check(wait()[0] in (200, 202), "nobody waits for the end", wait())
    with Later(folder=first.folder) as t:
        answer = t.result(place)
        check(answer[0] == 200 and answer[2]["stepd-step"] == "1", "what was under way was finished", answer)
        answer = t.result(later)
        check(answer[0] == 200 and answer[2]["stepd-step"] == "2", "and the next one later", answer)
        t.close(s, "?force=true")


def until_they_are_old():
    with Later(STEPD_KEY_LIFETIME="1") as t:
        s = t.opened()
        place = t.accepted(s, "batches:train", step(), key("a"))
        check(t.result(place)[0] == 200, "done")
        time.sleep(2.1)
        check(t.result(place)[0] == 404, "forgotten")
        again = t.accepted(s, "batches:train", step(), key("a"))
        check(again != place and t.result(again)[2]["stepd-step"] == "2", "the key is free again")


def two_clients():
    """By names of their own: what they open with the same key is not shared."""
    with tempfile.NamedTemporaryFile("w") as f:  # of mode 0600
        f.write("one one-token-of-the-tests\ntwo two-token-of-the-tests\n")
        f.flush()
        with Later(STEPD_TOKENS_FILE=f.name) as t:
            body = {"base_model": "org/model", "lora_rank": 8, "seed": 7}

            def open_as(name, *headers):
                lines = ["Authorization: Bearer %s-token-of-the-tests" % name, key("same"), *headers]
                status, answer = t.call("POST", "/v1/sessions", body, lines)
                return status, json.loads(answer)
            first = open_as("one")
            check(first[0] == 200 and open_as("one") == first, "one", first)
            check(open_as("two")[0] == 409 and open_as("two", ASYNC)[0] == 409, "two", open_as("two"))


@fault("more answers of operations than memory for them", "the oldest go, and say that they have to be sent again")
def bounded_memory():
    """Answers that are in memory only have a bound: the oldest go, and say so."""
    with Later() as t:
        s = t.opened()
        body = examples(*["%0256d" % n for n in range(10000)])
        check(t.result(t.accepted(s, "datums:render", examples("e")))[0] == 200, "a small one")
        before = len(os.listdir("/proc/%d/fd" % t.process.pid))
        for _ in range(50):
            check(t.result(t.accepted(s, "datums:render", examples("e")))[0] == 200, "small ones")
        after = len(os.listdir("/proc/%d/fd" % t.process.pid))
        check(after <= before + 2, "hold no descriptors", before, after)
        places = []
        for n in range(20):
            places.append(t.accepted(s, "datums:render", body, key("k%d" % n)))
            last = t.result(places[-1])
        check(last[0] == 200 and len(last[1]["datums"]) == 10000, "the newest is there", last[0])
        first = t.result(places[0])
        check(first[0] == 503 and "again" in first[1]["detail"], "the oldest has to be sent again", first[0])
        again = t.accepted(s, "datums:render", body, key("k0"))
        check(again != places[0] and t.result(again)[0] == 200, "and can be")
        check(t.accepted(s, "datums:render", body, key("k19")) == places[19], "as the newest need not")


@fault("the disk has no room for an operation", "507, and no operation; the client waits for small ones itself")
def no_space():
    """Where the store cannot hold an operation there is none: the client waits for the answer itself."""
    small = small_disk("size=2m")
    if small is None:
        return NOT_TRIED
    with Later(prefix=small, STEPD_DISK_RESERVE="0") as t:
        s = t.opened()
        done = t.accepted(s, "batches:train", step())
        check(t.result(done)[0] == 200, "with space", t.result(done))
        filler = "/proc/%d/root%s/filler" % (t.process.pid, t.state)
        fill(filler)
        steps, told = 1, set()
        for _ in range(60):
            answer = t.post(s, "batches:train", step(*["datum-e"] * 8000), ASYNC)
            if answer[0] == 202:
                answer = t.result(t.place(answer))
            else:
                check("location" not in answer[2], "there is no operation", answer)
            steps += answer[0] == 200
            told.add(answer[0])
        check(told <= {200, 507} and 507 in told, "without", told)
        check(t.status(s)["step"] == steps, "each once", t.status(s), steps)
        generated = t.post(s, "samples:generate", {"prompt": "p"}, ASYNC)
        if generated[0] == 202:  # what is small finds place for a while
            generated = t.result(t.place(generated))
        check(generated[1] == {"text": "once"}, "what needs no space is answered", generated)
        os.unlink(filler)
        again = t.result(t.accepted(s, "batches:train", step()))
        check(again[0] == 200 and again[2]["stepd-step"] == str(steps + 1), "with space again", again)


@fault("more operations than may wait", "503 at once; all the others are done, in their order")
def many():
    """More than may wait for a session: told at once, and all the others are answered."""
    with Later() as t:
        s = t.opened()
        with open("/proc/%d/task/%d/children" % (t.process.pid, t.process.pid)) as f:
            worker = int(f.read().split()[0])
        os.kill(worker, signal.SIGSTOP)
        answers = [t.post(s, "batches:train", step(), ASYNC) for _ in range(260)]
        full = [a for a in answers if a[0] != 202]
        check(len(full) == 3, "one under way and 256 that wait", len(full))
        check(all(a[0] == 503 and "too many" in a[1]["detail"] for a in full), "the line is full", full)
        os.kill(worker, signal.SIGCONT)
        done = [t.result(a[2]["location"]) for a in answers if a[0] == 202]
        check(all(a[0] == 200 for a in done), "all the others are done")
        check([a[2]["stepd-step"] for a in done] == [str(n + 1) for n in range(257)], "in their order")


every_call()
refused_at_once()
asking()
one_with_a_key()
clients_that_go()
started_again()
killed_at_once()
killed_at_either_end()
stopped_with_one_under_way()
until_they_are_old()
two_clients()
bounded_memory()
no_space()
many()
finish()
