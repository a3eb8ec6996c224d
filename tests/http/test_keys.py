"""Idempotency-Key: what was done is answered again and not done again, also to those who lost the
answer, came twice at once, or found stepd started again."""
import signal
import socket
import struct
import time

from daemon import BEARER, check, finish, request
from fault_table import fault
from trainer import Trainer, background, step_request


def train(t, session, key, ids=("datum-e",), rate=1e-4):
    return t.ask("POST", "/v1/sessions/%s/batches:train" % session,
                 {"datum_ids": list(ids), "learning_rate": rate}, ["Idempotency-Key: " + key])


def train_and_go(t, session, key):
    """Sends a step and does not wait for its answer."""
    with t.connect() as sock:
        sock.sendall(step_request(session, "Idempotency-Key: " + key))
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


@fault("the same request six times at once", "one step, one answer")
def those_at_once():
    with Trainer("TRAIN:1:slow") as t:
        s = t.opened()
        waits = [background(train, t, s, "a") for _ in range(6)]
        answers = [wait() for wait in waits]
        check(all(a[:2] == answers[0][:2] and a[0] == 200 for a in answers), "the same", answers)
        check(t.status(s)["step"] == 1, "one step")


@fault("a client goes before its answer", "the same key gets it; one step")
def answers_that_were_lost():
    with Trainer("TRAIN:1:slow") as t:
        s = t.opened()
        train_and_go(t, s, "a")
        answer = train(t, s, "a")
        check(answer[0] == 200 and answer[2]["stepd-step"] == "1", "sent again", answer)
        check(t.status(s)["step"] == 1, "one step")


@fault("stepd is killed after five answers (STEPD_DURABILITY={0})",
       "every step and every answer is there")
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


def send_and_cut(t, session, key, where):
    """A step whose connection is cut before, within or after its answer."""
    whole = step_request(session, "Idempotency-Key: " + key)
    with t.connect() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # cut: a reset
        sock.sendall(whole[:-1] if where == "before" else whole)
        if where == "after":
            sock.recv(1)


@fault("connections cut before, within and after the answer, then two at once with the key",
       "each step is taken once, and both get its answer")
def cut_connections():
    """Every step is taken once, whatever becomes of its connection, and however often it is sent."""
    with Trainer() as t:
        s = t.opened()
        for n in range(30):
            key = "k%d" % n
            send_and_cut(t, s, key, ("before", "within", "after")[n % 3])
            waits = [background(train, t, s, key) for _ in range(2)]
            answers = [wait() for wait in waits]
            check(all(a[0] == 200 and a[1]["loss"] == 1.0 / (n + 1) for a in answers), "the step", n, answers)
            check(all(a[2]["stepd-step"] == str(n + 1) for a in answers), "and which", n, answers)
        check(t.status(s)["step"] == 30, "one step a key", t.status(s)["step"])
        check(t.status(s)["last_losses"][-1] == 1.0 / 30, "the losses", t.status(s)["last_losses"])


@fault("stepd is killed with a step on its way, then two at once with its key",
       "the step is taken once, and both get its answer")
def killed_under_way():
    """stepd is killed with a step on its way; its next start and two who send it again agree."""
    t = Trainer()
    folder, s = t.folder, t.opened()
    check(t.render(s)[0] == 200, "datums")
    for n in range(8):
        key = "k%d" % n
        send_and_cut(t, s, key, ("within", "after")[n % 2])
        t.end(signal.SIGKILL)
        t = Trainer(folder=folder)
        check(t.render(s)[0] == 200, "the datums again", n)
        waits = [background(train, t, s, key) for _ in range(2)]
        answers = [wait() for wait in waits]
        check(all(a[0] == 200 and a[1]["loss"] == 1.0 / (n + 1) for a in answers), "the step", n, answers)
        check(t.status(s)["step"] == n + 1, "once", n, t.status(s)["step"])
    with t:
        t.close(s, "?force=true")


@fault("the answer to a step is lost, and it had no key",
       "the session tells its step and its last losses")
def without_a_key():
    """The answer is lost: what became of the step can be found."""
    with Trainer("TRAIN:2:slow") as t:
        s = t.opened()
        check(t.train(s)[0] == 200, "a step")
        with t.connect() as sock:
            sock.sendall(step_request(s))
            while t.status(s)["state"] != "training":
                pass
        for _ in range(600):
            found = t.status(s)
            if found["step"] == 2:
                break
            time.sleep(0.05)
        check(found["step"] == 2 and found["last_losses"] == [1.0, 0.5], "it was taken", found)


@fault("a client goes during an upload, then three at once with its key",
       "the object is put once, and all get its answer")
def saves():
    """An upload is made once, whatever becomes of the connection of its request."""
    with Trainer("SAVE:1:slow") as t:
        s = t.opened()
        t.train(s)
        body = {"kind": "state", "name": "n", "upload_url": t.sign()["put_url"]}
        path = "/v1/sessions/%s/artifacts:save" % s
        with t.connect() as sock:
            sock.sendall(request("POST", path, body, (BEARER, "Idempotency-Key: s")))
            while t.status(s)["state"] != "saving":
                pass
        waits = [background(t.ask, "POST", path, body, ["Idempotency-Key: s"]) for _ in range(3)]
        answers = [wait() for wait in waits]
        check(all(a[0] == 200 and a[1] == answers[0][1] for a in answers), "the object is put once", answers)
        check(t.status(s)["last_saved"]["sha256"] == answers[0][1]["sha256"], "it is what was saved")


def closings():
    with Trainer() as t:
        s = t.opened()
        t.train(s)
        key = ["Idempotency-Key: c"]
        path = "/v1/sessions/%s" % s
        check(t.ask("DELETE", path, None, ["Idempotency-Key: " + "x" * 256])[0] == 422, "keys have a length")
        check(t.ask("DELETE", path, None, key)[0] == 409, "unsaved steps")
        first = t.ask("DELETE", path + "?force=true", None, key)
        check(first[0] == 200 and first[1]["state"] == "closed", "close", first)
        again = t.ask("DELETE", path + "?force=true", None, key)
        check(again[0] == 200 and again[1]["state"] == "closed", "and again", again)
        other = t.ask("DELETE", path, None, key)
        check(other[0] == 422 and "Idempotency-Key" in other[1]["detail"], "another query", other)
        check(train(t, s, "c")[0] == 422, "another call")
        check(train(t, s, "d")[0] == 404, "another key")


def sign_with(t, key, **fields):
    return t.ask("POST", "/v1/objects:sign", fields, ["Idempotency-Key: " + key])


def signing():
    with Trainer() as t:
        waits = [background(sign_with, t, "a") for _ in range(6)]
        pairs = [wait() for wait in waits]
        check(all(p[0] == 200 and p[1] == pairs[0][1] for p in pairs), "the same pair", pairs)
        check(sign_with(t, "a")[1] == pairs[0][1], "and again")
        check(sign_with(t, "b")[1]["object"] != pairs[0][1]["object"], "another key")
        check(t.sign()["object"] != t.sign()["object"], "without one each is another")
        check(sign_with(t, "a", expires_in=60)[0] == 422, "another body")
        check(sign_with(t, "x" * 256)[0] == 422, "keys have a length")
        s = t.opened()
        check(t.save(s, pairs[0][1]["put_url"])[0] == 200, "it is good for an upload")
        check(sign_with(t, "a")[1] == pairs[0][1], "the same after it")
        check(t.save(s, pairs[0][1]["put_url"])[0] == 502, "put once")
        one = sign_with(t, "c", object=pairs[0][1]["object"], expires_in=1)
        check(one[0] == 200 and one[1]["object"] == pairs[0][1]["object"], "of an object that is there", one)
        path = "/v1/sessions/%s/samples:generate" % s
        check(t.ask("POST", path, {"prompt": "p"}, ["Idempotency-Key: " + "x" * 256])[0] == 422,
              "generating takes a key, which has a length")
        check(t.ask("POST", path, {"prompt": "p"}, ["Idempotency-Key: g"])[0] == 200, "and changes nothing")


def removing():
    with Trainer() as t:
        s = t.opened()
        places = [t.sign() for _ in range(2)]
        for place in places:
            check(t.save(s, place["put_url"])[0] == 200, "an object")

        def remove(place, key):
            lines = [BEARER, "Idempotency-Key: " + key]
            return t.call("DELETE", "/v1/objects/" + place["object"], headers=lines)[0]
        check(remove(places[0], "x" * 256) == 422, "keys have a length")
        check(remove({"object": "0" * 32}, "a") == 404, "no object: a refusal, which is not kept")
        check([remove(places[0], "a") for _ in range(3)] == [204] * 3, "removed, however often it is sent")
        check(remove(places[1], "a") == 422, "another object")
        check(remove(places[0], "b") == 404, "it is gone")
        waits = [background(remove, places[1], "c") for _ in range(4)]
        check([wait() for wait in waits] == [204] * 4, "at once")


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
cut_connections()
killed_under_way()
without_a_key()
saves()
closings()
signing()
removing()
until_they_are_old()
finish()
