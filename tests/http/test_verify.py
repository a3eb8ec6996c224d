"""artifacts:verify with a real worker: what was uploaded is downloaded again and judged; whatever is wrong
with it is one sentence, and neither the session nor its worker is touched."""
import hashlib
import io
import json
import os
import shutil
import signal
import struct
import tarfile
import time

from daemon import check, finish
from fault_table import fault
from faulty_store import SECRET, open_store
from tiny_model import make_models, real_worker
from trainer import TIMEOUTS, Trainer, background

HERE = os.path.dirname(os.path.abspath(__file__))
folder = make_models("tiny", "other")
store, reach = open_store(folder)
transfers = {"STEPD_STALL_TIMEOUT": "2", "STEPD_CONNECT_TIMEOUT": "2", **reach}
settings = real_worker(folder, **transfers)
KEYS = {"state": ["verified", "kind", "sha256", "size_bytes", "step", "tensor_count", "element_count", "finite"],
        "sampling": ["verified", "kind", "sha256", "size_bytes", "tensor_count", "element_count", "finite"]}
FAILED = {"detail": "the trainer artifact download failed"}


def sha(data):
    return hashlib.sha256(data).hexdigest()


def parse(data):
    """Header of a safetensors file, and its bytes behind it."""
    size, = struct.unpack("<Q", data[:8])
    return json.loads(data[8:8 + size]), data[8 + size:]


def pack(header, rest):
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + rest


def counts(header):
    shapes = [t["shape"] for name, t in header.items() if name != "__metadata__"]
    return len(shapes), sum(a * b for a, b in shapes)


def unpack(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}


def repack(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def begin(t, **fields):
    """A session two steps in, and what a step needs."""
    s = t.opened(base_model="tiny", **fields)
    ids = t.datums(s, "a", "b")
    for _ in range(2):
        check(t.train(s, *ids)[0] == 200, "train")
    return s, ids


def verify(t, s, path, kind="state", **fields):
    status, body, _ = t.verify(s, store.url(path), kind, **fields)
    return status, body


def right():
    with Trainer(**settings) as t:
        s, ids = begin(t)
        check(verify(t, s, "/ok/state") ==
              (422, {"detail": "the session has saved no state artifact: sha256 has to say what is expected"}),
              "nothing to compare with")
        saved = {}
        for kind in ("state", "sampling"):
            saved[kind] = t.save(s, store.url("/ok/" + kind), kind)[1]
        check(t.status(s)["verified_step"] is None, "not verified yet", t.status(s))
        for kind in ("sampling", "state"):
            data = store.objects["/ok/" + kind]
            tensors = parse(data if kind == "state" else unpack(data)["adapter/adapter_model.safetensors"])[0]
            want = counts(tensors)
            status, body = verify(t, s, "/ok/" + kind, kind)
            check(status == 200 and list(body) == KEYS[kind], kind, status, body)
            check(body["verified"] is True and body["finite"] is True and body["kind"] == kind, kind, body)
            check((body["sha256"], body["size_bytes"]) == (sha(data), len(data)), "digest and size", body)
            check((body["tensor_count"], body["element_count"]) == want, "counts", kind, body, want)
            check(body.get("step", 2) == 2, "step", body)
            check(t.status(s)["verified_step"] == 2, "in the status", t.status(s))
        nothing_changed(t, s, ids, saved["state"]["sha256"])
        older(t, s, ids, saved["state"])


def nothing_changed(t, s, ids, digest):
    """The state is the same to the byte, and the session goes on."""
    before = t.status(s)
    check(verify(t, s, "/ok/state")[0] == 200, "again")
    check(t.save(s, store.url("/ok/again"))[1]["sha256"] == digest, "the same state")
    after = t.status(s)
    check(after["step"] == before["step"] == 2 and after["verified_step"] == 2, "status", before, after)


@fault("an artifact in the store is replaced by an older one", "422 with both digests")
def older(t, s, ids, first):
    """A later save is verified when it is downloaded, and an older artifact stays what it is."""
    t.train(s, *ids)
    t.save(s, store.url("/ok/third"))
    status, body = verify(t, s, "/ok/state")
    check(status == 422 and "truncated" not in body["detail"] and first["sha256"] in body["detail"],
          "not what was saved last", status, body)
    status, body = verify(t, s, "/ok/state", sha256=first["sha256"], size_bytes=first["size_bytes"])
    check(status == 200 and body["step"] == 2, "by its digest", status, body)
    check(t.status(s)["verified_step"] == 2, "the newest is not")
    check(verify(t, s, "/ok/third")[1]["step"] == 3, "now it is")
    check(t.status(s)["verified_step"] == 3, "in the status")
    verify(t, s, "/ok/state", sha256=first["sha256"])
    check(t.status(s)["verified_step"] == 3, "an older one does not undo it")
    check(t.evaluate(s, *ids)[1]["loss"] == t.train(s, *ids)[1]["loss"], "the worker goes on as ever")


def own_objects():
    """By our own object store, over plain HTTP; known also after a restart, and where a session began."""
    first = Trainer(**settings)
    s, ids = begin(first)
    urls = first.sign()
    first.save(s, urls["put_url"])
    check(first.verify(s, urls["get_url"])[0] == 200, "our own object")
    check(first.status(s)["verified_step"] == 2, "noted")
    cut = first.sign()
    status, body, _ = first.verify(s, cut["get_url"])
    check((status, body) == (502, FAILED), "an object that is not there", status, body)
    status, body, _ = first.verify(s, urls["get_url"] + "0")
    check((status, body) == (502, FAILED), "a signature that is not ours", status, body)
    check(first.verify(s, "http://x.example/a")[0] == 422, "plain http to others")
    first.end(signal.SIGTERM)
    with Trainer(folder=first.folder, **settings) as t:
        check(t.status(s)["verified_step"] == 2, "kept over a restart", t.status(s))
        get = t.ask("POST", "/v1/objects:sign", {"object": urls["object"]})[1]["get_url"]
        t.close(s, "?force=true")
        s = t.opened(base_model="tiny", resume_download_url=get)
        check(t.status(s)["verified_step"] is None, "a new session")
        check(t.verify(s, get)[0] == 200 and t.status(s)["verified_step"] == 2, "what it began from")


def edited(data, name, change):
    """A state with another entry for a tensor (or the metadata), and the name's place in the data."""
    header, rest = parse(data)
    change(header[name])
    return pack(header, rest)


def with_value(data, name, value):
    header, rest = parse(data)
    at = header[name]["data_offsets"][0]
    return pack(header, rest[:at] + struct.pack("<f", value) + rest[at + 4:])


@fault("artifacts are changed, cut, hold NaN or other shapes, are hostile files",
       "422 with what is wrong; one worker judges them all and lives")
def wrong():
    with Trainer(**settings) as t:
        s, ids = begin(t)
        for kind in ("state", "sampling"):
            t.save(s, store.url("/ok/" + kind), kind)
        state, sampling = store.objects["/ok/state"], store.objects["/ok/sampling"]
        worker = t.worker_pids()

        def refused(name, data, sentence, kind="state", whole=False, **fields):
            store.objects["/ok/wrong"] = data
            if whole:
                fields["sha256"] = sha(data)
            status, body = verify(t, s, "/ok/wrong", kind, **fields)
            good = body["detail"] == sentence if sentence[-1] != "…" else body["detail"].startswith(sentence[:-1])
            check(status == 422 and good, name, status, body)

        def judged(name, data, sentence, kind="state"):
            refused(name, data, sentence, kind, whole=True)

        names = [n for n in parse(state)[0] if n.startswith("adapter.") and "lora_A" in n]
        name, shape = names[0], parse(state)[0][names[0]]["shape"]
        changed = state[:-1] + bytes([state[-1] ^ 1])
        refused("a bit", changed, "the artifact's sha256 is %s, not %s" % (sha(changed), sha(state)))
        refused("cut", state[:-1], "the artifact is truncated: it has %d of %d bytes" % (len(state) - 1, len(state)))
        refused("nothing", b"", "the artifact is truncated: it has 0 of %d bytes" % len(state))
        refused("more", state + b"x", "the artifact is too large: it has more than %d bytes" % len(state))
        judged("cut, with its digest", state[:-1], "the state cannot be read: …")
        judged("empty, with its digest", b"", "the artifact is empty")
        for value in (float("nan"), float("inf"), float("-inf")):
            judged("not finite", with_value(state, name, value),
                   "the state holds a value in %s, at 0, that is not finite" % name)
        judged("a negative square", with_value(state, "exp_avg_sq." + name[len("adapter."):], -1.0), "the state…")

        def turn(t):
            t["shape"].reverse()
        judged("shape", edited(state, name, turn), "the state holds %s as %d x %d, not as %d x %d"
               % (name, shape[1], shape[0], shape[0], shape[1]))

        def flat(t):
            t["shape"] = [shape[0] * shape[1]]
        judged("flat", edited(state, name, flat), "the state holds %s as %d, not as %d x %d"
               % (name, shape[0] * shape[1], shape[0], shape[1]))
        header, rest = parse(state)
        header["adapter.more"] = header.pop(name)
        judged("another tensor", pack(header, rest), "the state has no tensor " + name)
        judged("sampling is no state", sampling, "the state cannot be read: …")
        judged("state is no sampling", state, "the archive…", "sampling")
        files = unpack(sampling)
        weights = files["adapter/adapter_model.safetensors"]
        name = next(n for n in parse(weights)[0] if "lora_B" in n)
        judged("the adapter's value", repack({**files, "adapter/adapter_model.safetensors":
                                              with_value(weights, name, float("nan"))}),
               "the adapter holds a value in %s, at 0, that is not finite" % name, "sampling")
        del files["adapter/adapter_config.json"]
        judged("no config", repack(files), "the archive has no adapter/adapter_config.json", "sampling")
        for base in ("state", "archive", "safetensors"):
            corpus = os.path.join(HERE, "..", "fuzz", "corpus", base)
            for name in sorted(os.listdir(corpus)):
                with open(os.path.join(corpus, name), "rb") as f:
                    judged(base + " " + name, f.read(), "…", "sampling" if base == "archive" else "state")
        check(t.worker_pids() == worker and t.status(s)["restarts"] == 0, "one worker judged them all")
        check(t.status(s)["verified_step"] is None, "nothing was verified")
        check(verify(t, s, "/ok/state")[0] == 200, "what is right is still right")
        check(t.train(s, *ids)[2]["stepd-step"] == "3", "it goes on")
        check(SECRET not in t.logged(), "no URL in the log")
    others(state, sampling)


@fault("artifacts of another model, rank or seed are verified", "422 names the field")
def others(state, sampling):
    """Artifacts of other sessions."""
    store.objects.update({"/ok/state": state, "/ok/sampling": sampling})
    for field, fields, both in (("seed", {"seed": 8}, False), ("lora_rank", {"lora_rank": 4}, True),
                                ("base_model", {"base_model": "other"}, True)):
        with Trainer(**settings) as t:
            s = t.opened(**{"base_model": "tiny", **fields})
            status, body = verify(t, s, "/ok/state", sha256=sha(state))
            check(status == 422 and body["detail"].startswith("the state does not match %s: it has \"" % field),
                  "other", field, status, body)
            status, body = verify(t, s, "/ok/sampling", "sampling", sha256=sha(sampling))
            check(status == (422 if both else 200), "other adapter", field, status, body)
            check(t.status(s)["verified_step"] is None, "not this session's", field)


def bodies():
    with Trainer(**transfers) as t:
        s = t.opened()
        path = "/v1/sessions/%s/artifacts:verify"
        good = {"kind": "state", "download_url": store.url("/ok/x")}
        for change, loc, kind in (({"kind": "other"}, "kind", "literal_error"),
                                  ({"kind": None}, "kind", "literal_error"),
                                  ({"download_url": "http://h/x"}, "download_url", "value_error"),
                                  ({"download_url": "nothing"}, "download_url", "url_parsing"),
                                  ({"sha256": "A" * 64}, "sha256", "string_pattern_mismatch"),
                                  ({"sha256": "a" * 63}, "sha256", "string_pattern_mismatch"),
                                  ({"size_bytes": 0}, "size_bytes", "greater_than"),
                                  ({"size_bytes": 1.5}, "size_bytes", "int_from_float"),
                                  ({"upload_url": "https://h/x"}, "upload_url", "extra_forbidden")):
            status, body, _ = t.ask("POST", path % s, {**good, **change})
            check(status == 422 and [(e["loc"], e["type"]) for e in body["detail"]] == [(["body", loc], kind)],
                  "body", change, status, body)
        check(t.ask("POST", path % s, {})[0] == 422, "nothing")
        check(t.ask("POST", path % "nobody", good)[:2] == (404, {"detail": "training session not found"}), "nobody")
        check(t.ask("POST", path % "nobody", {})[0] == 422, "fields before session")


@fault("an object store fails in every way at artifacts:verify", "502, or 422 where it sends too much")
def downloads():
    with Trainer(**transfers) as t:
        s = t.opened()
        t.train(s)
        t.save(s, store.url("/ok/state"))
        for fault in ("403", "500", "301", "redirect", "short", "open-end", "hang", "cut", "ok"):
            status, body = verify(t, s, "/%s/missing" % fault)
            check((status, body) == (502, FAILED), fault, status, body)
        store.hanging = 0
        for fault in ("large", "endless"):
            status, body = verify(t, s, "/%s/x" % fault)
            check(status == 422 and "too large" in body["detail"], fault, status, body)
        status, body, headers = t.ask("POST", "/v1/sessions/%s/artifacts:verify" % s,
                                      {"kind": "state", "download_url": store.url("/ok/state")},
                                      ["Prefer: respond-async", "Idempotency-Key: k"])
        check(status == 202, "answered later", status, body)
        status, body, _ = t.ask("GET", headers["location"] + "?wait=60")
        check(status == 200 and body["step"] == 1, "by its operation", status, body)
        check(verify(t, s, "/ok/state")[1]["tensor_count"] == 6, "verified")
        check(SECRET not in t.logged(), "no URL in the log")


def connected():
    """Waits until the store has a connection whose request hangs."""
    until = time.monotonic() + 20
    while store.hanging == 0 and time.monotonic() < until:
        time.sleep(0.01)
    check(store.hanging > 0, "connected")
    store.hanging = 0


@fault("a worker dies while an artifact is downloaded, or at it twice",
       "the next worker judges it; or 422, and it is not tried again")
def worker_dies_meanwhile():
    """While it is downloaded: another worker judges it. At it, twice: refused, and not tried again."""
    with Trainer(**transfers) as t:
        s = t.opened()
        t.train(s)
        t.save(s, store.url("/ok/state"))
        waiting = background(verify, t, s, "/hang/x")
        connected()
        t.kill_workers()
        check(waiting() == (502, FAILED), "the download failed")
        check(verify(t, s, "/ok/state")[0] == 200 and t.status(s)["restarts"] == 1, "another worker")
    with Trainer("VERIFY:1:crash", **transfers, **TIMEOUTS) as t:
        s = t.opened()
        t.train(s)
        t.save(s, store.url("/ok/state"))
        for _ in range(2):
            status, body = verify(t, s, "/ok/state")
            check(status == 422 and "twice" in body["detail"], "poison", status, body)
        t.set_faults()
        restarts = t.status(s)["restarts"]
        store.objects["/ok/second"] = b"state 7"
        check(verify(t, s, "/ok/state")[0] == 422, "not tried again")
        check(t.status(s)["restarts"] == restarts, "by no worker")
        t.train(s)
        check(verify(t, s, "/ok/second", sha256=sha(b"state 7"))[0] == 200, "another artifact is")


def datums_awaited():
    """A session that waits for its datums after a restart judges its artifacts as ever: what it saved last
    where nothing else is said, and not what ended two workers."""
    for faults, how in ((("VERIFY:1:crash",), "poison"), ((), "right")):
        t = Trainer(**transfers)
        s = t.opened()
        t.render(s)
        t.train(s)
        t.save(s, store.url("/ok/state"))
        t.train(s)
        t.end(signal.SIGKILL)
        with Trainer("TRAIN:1:unknown", *faults, folder=t.folder, **transfers) as t:
            until = time.monotonic() + 30
            while t.status(s)["state"] != "needs_restore" and time.monotonic() < until:
                time.sleep(0.01)
            check(t.status(s)["state"] == "needs_restore", "it waits", t.status(s))
            for _ in range(2):
                status, body = verify(t, s, "/ok/state")
                if how == "right":
                    check(status == 200 and body["step"] == 1, "what was saved last", status, body)
                    continue
                check(status == 422 and "twice" in body["detail"], how, status, body)
                check(t.document()["sessions"][0]["worker_ends"] == {"signal": 2}, "by two workers", t.document())


@fault("stepd is stopped while an artifact is downloaded to be verified", "503; the stop does not wait")
def stops():
    """A stop does not wait for a download."""
    t = Trainer(**{**transfers, "STEPD_STALL_TIMEOUT": "60", "STEPD_STOP_TIMEOUT": "50"})
    s = t.opened()
    t.train(s)
    t.save(s, t.sign()["put_url"])
    waiting = background(verify, t, s, "/hang/x")
    connected()
    check(t.stop() == 0, "stops")
    check(waiting() == (503, {"detail": "the trainer is stopping"}), "told")
    shutil.rmtree(t.folder)


right()
own_objects()
wrong()
bodies()
downloads()
worker_dies_meanwhile()
datums_awaited()
stops()
shutil.rmtree(folder)
finish()
