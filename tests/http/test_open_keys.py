"""Idempotency-Key of an opening: one session however often it is sent, also to those who lost the answer,
came at once, or found stepd started again."""
import os
import signal
import time

from daemon import BEARER, check, finish, request
from fault_table import fault
from trainer import Trainer, background


def open_with(t, key, **fields):
    body = {"base_model": "org/model", "lora_rank": 8, "seed": 7, **fields}
    return t.ask("POST", "/v1/sessions", body, ["Idempotency-Key: " + key])


def sign_with(t, key, **fields):
    return t.ask("POST", "/v1/objects:sign", fields, ["Idempotency-Key: " + key])


@fault("the same opening five times at once", "one session, one answer")
def openings():
    with Trainer("OPEN:1:slow") as t:
        waits = [background(open_with, t, "a") for _ in range(5)]
        while not t.ask("GET", "/v1/sessions")[1]["sessions"]:
            pass
        check(open_with(t, "a", seed=8)[0] == 422, "another body while it is loading")
        answers = [wait() for wait in waits]
        check(all(a[0] == 200 and a[1] == answers[0][1] for a in answers), "one session", answers)
        s = answers[0][1]["session_id"]
        check(len(t.ask("GET", "/v1/sessions")[1]["sessions"]) == 1, "and no other")
        again = open_with(t, "a")
        check(again[:2] == answers[0][:2] and again[2]["stepd-step"] == "0", "the same again", again)
        check(open_with(t, "a", seed=8)[0] == 422, "another body")
        check(open_with(t, "b")[0] == 409, "another key")
        for key in ("", "x" * 256):
            status, body, _ = open_with(t, key)
            check(status == 422 and "255" in body["detail"], "keys have a length", status, body)
        t.train(s)
        check(open_with(t, "a")[1] == {"session_id": s}, "whatever became of it")
        t.close(s, "?force=true")
        check(open_with(t, "a")[1] == {"session_id": s}, "also when it is closed")
        new = open_with(t, "b")
        check(new[0] == 200 and new[1]["session_id"] != s, "a refusal was not kept", new)


@fault("a client goes while its session is loading",
       "its key finds the session; without a key the device is free again")
def openings_that_were_lost():
    """Nobody read the answer: the session is not lost, and the device not taken for nobody."""
    with Trainer("OPEN:1:slow") as t:
        body = {"base_model": "org/model", "lora_rank": 8, "seed": 7}
        with t.connect() as sock:
            sock.sendall(request("POST", "/v1/sessions", body, (BEARER, "Idempotency-Key: a")))
            while not t.ask("GET", "/v1/sessions")[1]["sessions"]:
                pass
        first = t.ask("GET", "/v1/sessions")[1]["sessions"][0]["session_id"]
        answer = open_with(t, "a")
        check(answer[:2] == (200, {"session_id": first}), "sent again", answer)
        t.close(first)
        t.set_faults("OPEN:1:hang")
        with t.connect() as sock:  # without a key nobody could ever learn of it
            sock.sendall(request("POST", "/v1/sessions", body))
            while not t.active():
                pass
        while t.active():
            time.sleep(0.05)
        t.set_faults()
        failed = open_with(t, "f", resume_download_url="https://127.0.0.1:1/x?token=geheim")
        check(failed[0] == 502, "an opening that fails", failed)
        failed = open_with(t, "f", resume_download_url="https://127.0.0.1:1/x?token=geheim")
        check(failed[0] == 502, "is tried again", failed)
        check(open_with(t, "f")[0] == 200, "and the key is free")


@fault("stepd is killed after the answer to an opening",
       "the same key gets the same session")
def openings_after_a_restart():
    first = Trainer()
    url = save_and_close(first)
    answer = open_with(first, "a", resume_download_url=url)
    check(answer[0] == 200 and answer[2]["stepd-step"] == "1", "open", answer)
    pair = sign_with(first, "p")
    first.end(signal.SIGKILL)  # right after the answer
    with open(os.path.join(first.state, "store", "data.mdb"), "rb") as f:
        kept = f.read()
    check(b"signature=" not in kept and b"/v1/objects/" not in kept, "no URL is in the store")
    with Trainer(folder=first.folder, STEPD_LISTEN=first.url.split("//")[1]) as t:
        again = open_with(t, "a", resume_download_url=url)
        check(again[:2] == answer[:2] and again[2]["stepd-step"] == "1", "the same session", again)
        check(open_with(t, "a")[0] == 422, "another body")
        check(sign_with(t, "p")[:2] == pair[:2], "the same pair of URLs")
        t.close(answer[1]["session_id"], "?force=true")


def save_and_close(t):
    s = t.opened()
    t.train(s)
    urls = t.sign()
    check(t.save(s, urls["put_url"])[0] == 200, "save")
    t.close(s)
    return urls["get_url"]


@fault("an opening fails while others wait with its key",
       "they are told, nothing is held, and the key is free")
def openings_that_fail_together():
    """Those that waited for an opening that fails are told, and the key is free again."""
    with Trainer("OPEN:1:slow", "LOAD:1:refuse") as t:
        url = save_and_close(t)
        waits = [background(lambda: open_with(t, "a", resume_download_url=url)) for _ in range(3)]
        answers = sorted((wait() for wait in waits), key=lambda a: a[0])
        check(answers[0][0] == 422 and "fault" in answers[0][1]["detail"], "the first", answers)
        check(all(a[0] in (422, 503, 409) for a in answers[1:]), "and the others", answers)
        check(not t.active(), "nothing is held")
        t.set_faults()
        check(open_with(t, "a")[0] == 200, "the key is free")


openings()
openings_that_were_lost()
openings_after_a_restart()
openings_that_fail_together()
finish()
