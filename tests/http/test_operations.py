"""Prefer: respond-async: the call is answered later, as it would have been at once; with an
Idempotency-Key it is one operation however often it is sent."""
import json
import socket
import tempfile

from daemon import BEARER, check, finish, request
from fault_table import fault
from later import ASYNC, Later, examples, key, step
from trainer import background


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
        for n in range(20):
            with t.connect() as sock:
                sock.sendall(request("POST", "/v1/sessions/%s/batches:train" % s, step(),
                                     (BEARER, ASYNC, key("k%d" % n))))
                if n % 2:
                    sock.shutdown(socket.SHUT_RDWR)
        for n in range(20):
            answer = t.result(t.accepted(s, "batches:train", step(), key("k%d" % n)))
            check(answer[0] == 200, "sent again", n, answer)
        check(t.status(s)["step"] == 20, "one step a key", t.status(s)["step"])


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


every_call()
refused_at_once()
asking()
one_with_a_key()
clients_that_go()
two_clients()
finish()
