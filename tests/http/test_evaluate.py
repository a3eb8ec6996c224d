"""datums:evaluate with a real worker: the losses of the next step to the bit, adapter on and off, and
nothing changed by looking."""
import shutil

from daemon import check, finish
from fault_table import fault
from tiny_model import make_models, real_worker
from trainer import Trainer, background

folder = make_models("tiny")
settings = real_worker(folder)
del settings["STEPD_CPU_COMPUTE"]  # each test says which
KEYS = ["loss", "base_loss", "input_token_count", "supervised_token_count", "datums"]
TEXTS = {"short": ("q", "a"), "sum": ("What is two plus two?", "4"),
         "long": ("Who wrote this?", "It was written by hand, on paper, in the winter. " * 8)}


def render(t, s, names=TEXTS):
    examples = [{"example_id": n, "messages": [{"role": "user", "content": TEXTS[n][0]},
                                               {"role": "assistant", "content": TEXTS[n][1]}]} for n in names]
    status, body, _ = t.ask("POST", "/v1/sessions/%s/datums:render" % s, {"examples": examples})
    check(status == 200, "render", status, body)
    return [d["datum_id"] for d in body["datums"]], [d["supervised_token_count"] for d in body["datums"]]


def train(t, s, ids, rate=1e-2):
    return t.ask("POST", "/v1/sessions/%s/batches:train" % s, {"datum_ids": ids, "learning_rate": rate})


def state_digest(t, s):
    status, body, _ = t.save(s, t.sign()["put_url"])
    check(status == 200, "save", status, body)
    return body["sha256"]


def weighted(datums, key, counts):
    return sum(d[key] * n for d, n in zip(datums, counts)) / sum(counts)


def the_next_loss(compute):
    with Trainer(STEPD_CPU_COMPUTE=compute, **settings) as t:
        s = t.opened(base_model="tiny")
        ids, counts = render(t, s)
        status, first, headers = t.evaluate(s, *ids)
        check(status == 200 and list(first) == KEYS, "keys", status, first)
        check(headers["stepd-step"] == "0", "the step", headers)
        check(first["loss"] == first["base_loss"], "step 0: on is off", first)
        check(all(d["loss"] == d["base_loss"] for d in first["datums"]), "of each datum too")
        check([d["datum_id"] for d in first["datums"]] == ids, "in the order of the request")
        check([d["supervised_token_count"] for d in first["datums"]] == counts, "counted as rendered")
        check(all(set(d) == {"datum_id", "loss", "base_loss", "supervised_token_count"}
                  for d in first["datums"]), "keys of a datum")
        for step in range(4):
            looked = t.evaluate(s, *ids)[1]
            stepped = train(t, s, ids)[1]
            for key in ("loss", "input_token_count", "supervised_token_count"):
                check(looked[key] == stepped[key], "what the step tells", compute, step, key, looked, stepped)
            check(looked["base_loss"] == first["base_loss"], "the base model stays", step)
            for key in ("loss", "base_loss"):
                mean = weighted(looked["datums"], key, counts)
                check(abs(mean - looked[key]) < 1e-12 * looked[key], "the mean of tokens", key, mean, looked[key])
        last = t.evaluate(s, *ids)[1]
        check(last["loss"] < first["loss"] - 0.1, "it learnt", first["loss"], last["loss"])
        twice = t.evaluate(s, ids[2], ids[0], ids[2])[1]
        check([d["datum_id"] for d in twice["datums"]] == [ids[2], ids[0], ids[2]], "duplicates", twice)
        check(twice["supervised_token_count"] == 2 * counts[2] + counts[0], "are counted", twice)
        check(abs(twice["datums"][0]["loss"] - twice["datums"][2]["loss"]) < 1e-5, "alike", twice)
        check(twice["loss"] == train(t, s, [ids[2], ids[0], ids[2]])[1]["loss"], "as a step counts them")


def nothing_changes():
    """Two sessions, one of which is looked at all the time: the same bytes."""
    digests = []
    for look in (False, True):
        with Trainer(STEPD_CPU_COMPUTE="f32", **settings) as t:
            s = t.opened(base_model="tiny", lora_dropout=0.3)
            ids, _ = render(t, s)
            for step in range(3):
                if look:
                    before = state_digest(t, s), t.status(s)
                    first, again = t.evaluate(s, *ids)[1], t.evaluate(s, *ids)[1]
                    check(first == again and "loss" in first, "the same again", first, again)
                    after = state_digest(t, s), t.status(s)
                    for st in (before[1], after[1]):
                        del st["changed_at"], st["replay_steps"]
                    check(before == after, "nothing changed", before, after)
                check(train(t, s, ids)[0] == 200, "a step")
            digests.append(state_digest(t, s))
    check(digests[0] == digests[1], "the masks of dropout are as if nobody had looked", digests)


def refused():
    with Trainer(**settings) as t:
        path = "/v1/sessions/%s/datums:evaluate"
        s = t.opened(base_model="tiny")
        ids, _ = render(t, s)
        unknown = {"detail": "the batch names an unknown rendered datum"}
        check(t.evaluate(s, ids[0], "nobody")[:2] == (422, unknown), "unknown datum")
        for body, loc, kind in (({}, ["body", "datum_ids"], "missing"),
                                ({"datum_ids": []}, ["body", "datum_ids"], "too_short"),
                                ({"datum_ids": "x"}, ["body", "datum_ids"], "tuple_type"),
                                ({"datum_ids": [1]}, ["body", "datum_ids", 0], "string_type"),
                                ({"datum_ids": ids, "learning_rate": 1}, ["body", "learning_rate"],
                                 "extra_forbidden")):
            status, answer, _ = t.ask("POST", path % s, body)
            check(status == 422 and answer["detail"][0]["loc"] == loc and answer["detail"][0]["type"] == kind,
                  "body", body, status, answer)
        check(t.ask("POST", path % "nobody", {"datum_ids": ids})[:2] ==
              (404, {"detail": "training session not found"}), "no session")
        check(t.ask("POST", path % "nobody", {})[0] == 422, "fields before session")
        key = ["Idempotency-Key: k"]
        a = t.ask("POST", path % s, {"datum_ids": ids[:1]}, key)
        b = t.ask("POST", path % s, {"datum_ids": ids[1:]}, key)
        check(a[0] == b[0] == 200 and len(b[1]["datums"]) == 2, "a key is taken, and nothing kept", a, b)
        status, body, headers = t.ask("POST", path % s, {"datum_ids": ids}, ["Prefer: respond-async"])
        check(status == 202, "answered later", status, body)
        status, body, _ = t.ask("GET", headers["location"] + "?wait=60")
        check(status == 200 and list(body) == KEYS, "by its operation", status, body)
        not_finite(t, s, ids)


@fault("weights overflow", "datums:evaluate answers 422 with the first datum that is not finite; so does a step")
def not_finite(t, s, ids):
    """Weights that overflow: an answer that is JSON, the datum by its name; the base model is as ever."""
    base = t.evaluate(s, *ids)[1]["base_loss"]
    for _ in range(3):
        train(t, s, ids, 3e37)
    status, body, _ = t.evaluate(s, *ids)
    check(status == 422 and body["detail"].startswith("the loss of datum %s is not finite (" % ids[0]),
          "names the datum", status, body)
    check(t.status(s)["state"] == "ready" and train(t, s, ids)[0] == 422, "as a step is refused")
    s = close_and_open(t, s)
    check(t.evaluate(s, *render(t, s)[0])[1]["base_loss"] == base, "the base model is as ever")


def close_and_open(t, s):
    t.close(s, "?force=true")
    return t.opened(base_model="tiny")


def many():
    """A list that no datagram holds; the worker's memory stays that of micro-batches."""
    with Trainer(STEPD_CPU_COMPUTE="f32", **settings) as t:
        s = t.opened(base_model="tiny")
        ids, _ = render(t, s)
        one = t.evaluate(s, ids[0])[1]
        status, body, _ = t.evaluate(s, *ids[:1] * 5000)
        check(status == 200 and len(body["datums"]) == 5000, "all of them", status)
        check(all(abs(d["loss"] - one["loss"]) < 1e-5 for d in body["datums"]), "packed as alone")
        check(body["supervised_token_count"] == 5000 * one["supervised_token_count"], "counted")


def waits_in_line():
    with Trainer("EVALUATE:1:slow") as t:
        s = t.opened()
        looked = background(t.evaluate, s)
        step = background(t.train, s)
        check(looked()[:2] == (200, {"loss": 1.5}), "looked")
        check(step()[2]["stepd-step"] == "1", "then the step")


the_next_loss("f32")
the_next_loss("bf16")
nothing_changes()
refused()
many()
waits_in_line()
shutil.rmtree(folder)
finish()
