"""Operations over restarts of stepd: what was done is told again, steps are taken, and what was not begun
says that it has to be sent again."""
import os
import signal

from daemon import check, finish
from fault_table import fault
from later import ASYNC, Later, examples, key, step
from trainer import background


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


started_again()
killed_at_once()
killed_at_either_end()
stopped_with_one_under_way()
finish()
