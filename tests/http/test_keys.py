"""Idempotency-Key: what was done is answered again and not done again, also to those who lost the
answer, came twice at once, or found stepd started again."""
import json
import signal
import socket
import time

from daemon import BEARER, check, finish
from trainer import Trainer, background


def train(t, session, key, ids=("datum-e",), rate=1e-4):
    return t.ask("POST", "/v1/sessions/%s/batches:train" % session,
                 {"datum_ids": list(ids), "learning_rate": rate}, ["Idempotency-Key: " + key])


def train_and_go(t, session, key):
    """Sends a step and does not wait for its answer."""
    body = json.dumps({"datum_ids": ["datum-e"], "learning_rate": 1e-4}).encode()
    with t.connect() as sock:
        sock.sendall(("POST /v1/sessions/%s/batches:train HTTP/1.1\r\nHost: x\r\n%s\r\nIdempotency-Key: "
                      "%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                      % (session, BEARER, key, len(body))).encode() + body)
        sock.shutdown(socket.SHUT_WR)
        time.sleep(0.2)


def one_step_a_key():
    with Trainer() as t:
        s = t.opened()
        first = train(t, s, "a")
        check(first[0] == 200 and first[2]["stepd-step"] == "1", "a step", first)
        check(first[2]["stepd-durable"] == "disk", "how it is kept", first)
        second = train(t, s, "b")
        check(second[2]["stepd-step"] == "2", "another key, another step", second)
        again = train(t, s, "a")
        check(again[:2] == first[:2] and again[2]["stepd-step"] == "1", "the stored answer", again)
        check(t.status(s)["step"] == 2, "and no step")
        other = train(t, s, "a", rate=2e-4)
        check(other[0] == 422 and "Idempotency-Key" in other[1]["detail"], "another body", other)
        check(train(t, s, "a", ids=("datum-f",))[0] == 422, "other datums")
        check(t.status(s)["step"] == 2, "and no step")
        for key in ("", "x" * 256):
            status, body, _ = train(t, s, key)
            check(status == 422 and "255" in body["detail"], "keys have a length", status, body)
        check(train(t, s, "x" * 255)[0] == 200, "the longest key")
        check(t.train(s)[2]["stepd-step"] == "4", "without a key each is a step")
        refused = train(t, s, "c", ids=("nobody",))
        check(refused[0] == 422, "a refusal", refused)
        check(train(t, s, "c")[0] == 200, "is not kept: nothing was done")
        t.close(s, "?force=true")
        check(train(t, s, "b")[:2] == second[:2], "also of a session that is closed")
        check(train(t, s, "d")[0] == 404, "which does nothing new")


def other_calls():
    with Trainer() as t:
        s = t.opened()
        key = ["Idempotency-Key: k"]
        path = "/v1/sessions/%s/" % s
        body = {"examples": [{"example_id": "e", "messages": [
            {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}]}
        first = t.ask("POST", path + "datums:render", body, key)
        check(first[0] == 200, "render", first)
        check(t.ask("POST", path + "datums:render", body, key)[:2] == first[:2], "and again")
        body["examples"][0]["example_id"] = "f"
        check(t.ask("POST", path + "datums:render", body, key)[0] == 422, "another body")
        check(train(t, s, "k")[0] == 422, "another call")
        url = t.sign()["put_url"]
        body = {"kind": "state", "name": "n", "upload_url": url}
        key = ["Idempotency-Key: s"]
        train(t, s, "t")
        first = t.ask("POST", path + "artifacts:save", body, key)
        check(first[0] == 200, "save", first)
        train(t, s, "u")
        again = t.ask("POST", path + "artifacts:save", body, key)
        check(again[:2] == first[:2], "the same answer", again)
        check(t.status(s)["last_saved"]["step"] == 1, "and nothing is saved again")
        two = ["Idempotency-Key: y", "Idempotency-Key: z"]
        check(t.ask("POST", path + "artifacts:save", body, two)[0] == 422, "one key")


def those_at_once():
    with Trainer("TRAIN:1:slow") as t:
        s = t.opened()
        waits = [background(train, t, s, "a") for _ in range(6)]
        answers = [wait() for wait in waits]
        check(all(a[:2] == answers[0][:2] and a[0] == 200 for a in answers), "the same", answers)
        check(t.status(s)["step"] == 1, "one step")


def answers_that_were_lost():
    with Trainer("TRAIN:1:slow") as t:
        s = t.opened()
        train_and_go(t, s, "a")
        answer = train(t, s, "a")
        check(answer[0] == 200 and answer[2]["stepd-step"] == "1", "sent again", answer)
        check(t.status(s)["step"] == 1, "one step")


def after_a_restart(durability):
    first = Trainer(STEPD_DURABILITY=durability)
    s = first.opened()
    answers = [train(first, s, "k%d" % i) for i in range(5)]
    check(answers[0][2]["stepd-durable"] == durability, "told", answers[0])
    first.end(signal.SIGKILL)  # right after the answer
    with Trainer(folder=first.folder, STEPD_KEY_LIFETIME="3600") as t:
        check(t.status(s)["step"] == 5, "every answered step is there", durability)
        for i, answer in enumerate(answers):
            check(train(t, s, "k%d" % i)[:2] == answer[:2], "the same answer", i)
        check(train(t, s, "k0", rate=1)[0] == 422, "another body")
        t.close(s, "?force=true")


def until_they_are_old():
    with Trainer(STEPD_KEY_LIFETIME="1") as t:
        s = t.opened()
        train(t, s, "a")
        time.sleep(2.1)
        check(train(t, s, "a")[2]["stepd-step"] == "2", "the key is free again")


one_step_a_key()
other_calls()
those_at_once()
answers_that_were_lost()
after_a_restart("disk")
after_a_restart("memory")
until_they_are_old()
finish()
