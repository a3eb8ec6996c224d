"""The life of a session over HTTP: opening, the calls, their order, closing, restarts."""
import hashlib
import signal
import socket
import time

from daemon import check, finish, read_all, request
from fault_table import fault
from trainer import Trainer, background, step_request

ABSENT = {"detail": "training session not found"}
ACTIVE = {"detail": "a training session is already active"}


def whole_life():
    with Trainer() as t:
        check(t.ask("GET", "/v1/sessions")[:2] == (200, {"sessions": []}), "no session yet")
        check(not t.active(), "idle")
        status, body, headers = t.open()
        check(status == 200 and set(body) == {"session_id"}, "open", status, body)
        check(headers["stepd-step"] == "0", "step of open", headers)
        s = body["session_id"]
        check(t.active(), "active")
        check(t.open()[:2] == (409, ACTIVE), "one at a time")
        check(t.open(base_model="nothing/here")[:2] == (409, ACTIVE), "slot before model")
        check(t.open(lora_rank=0)[0] == 422, "fields before slot")
        status, body, headers = t.render(s, "a", "b")
        check(status == 200 and body == {"datums": [
            {"datum_id": "datum-a", "example_id": "a", "supervised_token_count": 1},
            {"datum_id": "datum-b", "example_id": "b", "supervised_token_count": 1}]},
            "render", status, body)
        status, body, headers = t.train(s, "datum-a", "datum-b")
        check(status == 200 and body == {"loss": 1.0, "gradient_norm": 0.5, "input_token_count": 20,
                                         "supervised_token_count": 2}, "train", status, body)
        check(headers["stepd-step"] == "1", "step of train", headers)
        status, body, headers = t.train(s, "nobody")
        check((status, body) == (422, {"detail": "the batch names an unknown rendered datum"}),
              "unknown datum", status, body)
        check(headers["stepd-step"] == "1", "step after a refusal", headers)
        check(t.generate(s)[:2] == (200, {"text": "once"}), "generate")
        st = t.status(s)
        check(st["state"] == "ready" and st["step"] == 1 and st["unsaved_steps"] == 1, "status", st)
        check(st["model"] == "org/model" and st["device"] == "cpu", "model and device", st)
        check(st["tokens_seen"] == 20 and st["last_losses"] == [1.0], "progress", st)
        check(st["last_saved"] is None, "nothing saved", st)
        check(t.close(s)[0] == 409, "unsaved steps")
        check(t.close(s, "?force=maybe")[0] == 422, "force is a bool")
        urls = t.sign()
        status, body, headers = t.save(s, urls["put_url"])
        data = b"state 1" + b"\0" + b"." * ((1 << 20) - 8)
        want = {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": 1 << 20}
        check((status, body) == (200, want), "save", status, body)
        st = t.status(s)
        check(st["unsaved_steps"] == 0 and st["last_saved"] == {
            "step": 1, "kind": "state", "sha256": want["sha256"]}, "saved", st)
        status, body, headers = t.close(s)
        check(status == 200 and body["state"] == "closed", "close", status, body)
        check(not t.active(), "idle again")
        for answer in (t.render(s), t.train(s), t.save(s, "https://x.example/"), t.generate(s)):
            check(answer[:2] == (404, ABSENT), "closed", answer)
        check(t.close(s)[0] == 200, "closing again")
        check(t.status(s)["state"] == "closed", "still listed")
        resume(t, urls["get_url"], want["sha256"])


def resume(t, url, digest):
    s = t.opened(resume_download_url=url)
    st = t.status(s)
    check(st["step"] == 1 and st["unsaved_steps"] == 0, "resumed", st)
    check(st["last_saved"]["sha256"] == digest, "digest of what was resumed", st)
    check(t.train(s)[2]["stepd-step"] == "2", "goes on")
    check(t.close(s, "?force=true")[0] == 200, "close by force")
    check(t.open(resume_download_url=url + "0")[:2] ==
          (502, {"detail": "the trainer state download failed"}), "a URL that was changed")
    check(t.open(sampling_download_url=url + "0")[:2] ==
          (502, {"detail": "the trainer sampling adapter download failed"}), "also of an adapter")
    check(not t.active(), "failed openings leave nothing")
    check(len(t.ask("GET", "/v1/sessions")[1]["sessions"]) == 2, "nor in the list")


def order_of_checks():
    with Trainer() as t:
        for call in ("datums:render", "batches:train", "artifacts:save"):
            path = "/v1/sessions/nobody/" + call
            check(t.ask("POST", path, {"x": 1})[0] == 422, "fields before session", call)
        for answer in (t.render("nobody"), t.train("nobody"), t.generate("nobody"),
                       t.save("nobody", "https://x.example/"), t.close("nobody")):
            check(answer[:2] == (404, ABSENT), "unknown", answer)
        check(t.ask("GET", "/v1/sessions/nobody")[:2] == (404, ABSENT), "unknown to GET")
        for name in ("nothing/here", "../models/org/model", "/etc", "org/model/config.json"):
            status, body, _ = t.open(base_model=name)
            check(status == 422 and "base_model" in str(body), "no such model", name, status, body)
        status, body, _ = t.open(model_revision="0" * 40)
        check(status == 422 and "revision" in str(body), "no such revision", status, body)
        check(not t.active(), "nothing is held")
        s = t.opened()
        check(t.ask("POST", "/v1/sessions/%s/datums:render" % s, None)[0] == 422, "no body")
        check(t.save(s, "http://x.example/")[0] == 422, "plain http")


def in_their_order():
    with Trainer("TRAIN:1:slow") as t:
        s = t.opened()
        first = background(t.train, s)
        time.sleep(0.3)
        check(t.status(s)["state"] == "training", "training is told")
        later = []
        for _ in range(5):
            later.append(background(t.train, s))
            time.sleep(0.05)
        check(t.status(s)["waiting_requests"] == 5, "they wait")
        steps = [wait()[2]["stepd-step"] for wait in [first] + later]
        check(steps == ["1", "2", "3", "4", "5", "6"], "in order", steps)


@fault("a client goes before its turn", "nothing is done for it")
def who_goes_is_not_waited_for():
    """A request that has not begun is dropped with its client; the one under way is finished."""
    with Trainer("TRAIN:1:slow") as t:
        s = t.opened()
        socks = []
        for headers in ((), (), (), ("Idempotency-Key: k",), ()):
            sock = socket.create_connection((t.host, t.port), timeout=20)
            sock.sendall(step_request(s, *headers, close=False))
            socks.append(sock)
            time.sleep(0.1)
        last = background(t.train, s)
        time.sleep(0.1)
        check(t.status(s)["waiting_requests"] == 5, "they wait")
        for i in (0, 1, 4, 3):
            socks[i].close()
        socks[2].shutdown(socket.SHUT_WR)
        answers, _ = read_all(socks[2])
        check([a.status for a in answers] == [503], "half closed: told so", answers)
        check(t.status(s)["waiting_requests"] == 2, "who went does not wait")
        status, _, headers = last()
        check((status, headers["stepd-step"]) == (200, "3"), "the first, the one with a key, and the last",
              status, headers)


def closing_waits_its_turn():
    with Trainer("TRAIN:1:slow") as t:
        s = t.opened()
        step = background(t.train, s)
        time.sleep(0.3)
        closed = background(t.close, s, "?force=true")
        time.sleep(0.1)
        after = background(t.train, s)
        check(step()[0] == 200, "the step is finished")
        check(closed()[0] == 200, "then closed")
        check(after()[0] == 404, "and what came later is told so")
        t.opened()


@fault("a client goes while its session opens", "the device is free again")
def opener_who_goes():
    with Trainer("OPEN:1:slow") as t:
        body = {"base_model": "org/model", "lora_rank": 8, "seed": 7}
        sock = socket.create_connection((t.host, t.port))
        sock.sendall(request("POST", "/v1/sessions", body, close=False))
        time.sleep(0.5)
        check(t.active() and t.open()[0] == 409, "held while it loads")
        check(t.ask("GET", "/v1/sessions")[1]["sessions"][0]["state"] == "loading", "loading")
        sock.close()
        until = time.monotonic() + 5
        while t.active() and time.monotonic() < until:
            time.sleep(0.05)
        check(not t.active(), "given up when its client goes")
        t.set_faults()
        t.opened()


@fault("stepd ends by {0.name} between steps", "the session is there again by itself, at its step")
def restarts(how):
    """The session is there again by itself, at its step; without being asked for, and where it was not
    drained by doing the journal again."""
    first = Trainer()
    s = first.opened()
    first.render(s)
    for _ in range(3):
        first.train(s)
    first.end(how)
    t = Trainer(folder=first.folder)
    check(t.active(), "has its device", how)
    check(t.open()[:2] == (409, ACTIVE), "which nobody else gets", how)
    status, body, headers = t.train(s)
    check(status == 200 and body["loss"] == 0.25, "goes on", how, status, body)
    check(headers["stepd-step"] == "4", "with the next step", how, headers)
    st = t.status(s)
    check(st["state"] == "ready" and st["step"] == 4 and st["replay_differences"] == 0, "status", st)
    check(("0 of them from the journal" if how == signal.SIGTERM else "3 of them from the journal")
          in t.logged(), "replayed", how, t.logged()[-600:])
    check(t.close(s)[0] == 409, "its steps are unsaved")
    check(t.close(s, "?force=true")[0] == 200, "closed")
    check(t.status(s)["state"] == "closed", "closed")
    t.end(how)
    with Trainer(folder=first.folder) as again:
        check(again.status(s)["state"] == "closed" and not again.active(), "for good", how)


def drains():
    t = Trainer("TRAIN:1:slow")
    s = t.opened()
    step = background(t.train, s)
    time.sleep(0.5)
    t.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    status, body, headers = t.train(s)
    check((status, body) == (503, {"detail": "the trainer is stopping"}), "no new work", status, body)
    check(headers.get("retry-after") == "30", "but later", headers)
    check(t.status(s)["state"] == "training", "how it is can be seen")
    status = t.process.wait(30)
    check(status == 0, "stops", status, t.logged())
    answer = step()
    check(answer[0] == 200, "after the step under way", answer)
    t.stop()


def old_ones_are_forgotten():
    t = Trainer(STEPD_LOG_LEVEL="warning")
    first = t.opened()
    t.close(first)
    for _ in range(258):
        last = t.opened()
        t.close(last)
    listed = [s["session_id"] for s in t.ask("GET", "/v1/sessions")[1]["sessions"]]
    check(listed[0] == last and first not in listed, "newest first, the oldest forgotten")
    check(len(listed) == 257, "so many are kept", len(listed))
    t.end(signal.SIGTERM)
    with Trainer(folder=t.folder) as again:
        kept = [s["session_id"] for s in again.ask("GET", "/v1/sessions")[1]["sessions"]]
        check(sorted(kept) == sorted(listed), "the store forgets with it", len(kept))


whole_life()
order_of_checks()
in_their_order()
who_goes_is_not_waited_for()
closing_waits_its_turn()
opener_who_goes()
restarts(signal.SIGTERM)
restarts(signal.SIGKILL)
drains()
old_ones_are_forgotten()
finish()
