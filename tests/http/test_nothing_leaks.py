"""A run in which much goes wrong, and then a search: no token, no signed URL and no training text in any log, file,
answer of status, refusal, environment or command line; and nothing of it can get into a core file."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

from daemon import BUILD, Stepd, check, finish
from fault_table import fault
from faulty_store import Store, certificate
from tiny_model import WORKER, make_model
from trainer import Trainer, background

TOKENS = {"own": "own-token-Kq7vZ2mXw9", "alice": "alice-token-Rt5uYp8sLd", "wrong": "wrong-token-Hn3jGf6bVc"}
TEXTS = {name: "%s-%s" % (name, code) for name, code in [
    ("question", "quokka-8141"), ("answer", "ocelot-9265"), ("call", "marmot-3589"), ("refused", "lemming-7932"),
    ("unknown", "wombat-3846"), ("cut", "dugong-2643"), ("prompt", "numbat-3832"), ("long", "tapir-7950"),
    ("evaluated", "gerbil-2884"), ("twice", "jerboa-1971")]}
URLS = {name: "%s-%s" % (name, code) for name, code in [
    ("upload", "path-6939"), ("failed", "path-9375"), ("resume", "path-1058"), ("restore", "path-2097"),
    ("plain", "path-4944"), ("inside", "path-5923"), ("user", "path-0781"), ("verify", "path-6406")]}
SIGNATURE = "5ec7e75167a7u7e6286208"
BEARERS = [TOKENS["own"], TOKENS["alice"]]


class Watched(Trainer):
    """A real worker on a tiny model; remembers every refusal and every answer of status."""

    def __init__(self, folder, **settings):
        self.kept, self.signed = [], []
        super().__init__(folder=folder, STEPD_WORKER=WORKER,
                         STEPD_THREADS="2", STEPD_END_TIMEOUT="10", TRAINER_TOKEN=None,
                         TRAINER_TOKEN_FILE=os.path.join(folder, "secrets", "one"),
                         STEPD_TOKENS_FILE=os.path.join(folder, "secrets", "several"), **settings)

    def __exit__(self, *args):
        """The folder is searched, and started in, again."""
        Stepd.__exit__(self, *args)

    def raw(self, method, path, data=b"", headers=(), token=None):
        lines = ["%s %s HTTP/1.1" % (method, path), "Host: x", "Connection: close",
                 "Authorization: Bearer " + (token or BEARERS[len(self.kept) % 2]), *headers]
        if data:
            lines += ["Content-Type: application/json", "Content-Length: %d" % len(data)]
        answers, _ = self.exchange("\r\n".join(lines).encode() + b"\r\n\r\n" + data, timeout=60)
        if not answers:
            return 0, b"", {}
        a = answers[-1]
        if a.status >= 400 or method == "GET":
            self.kept.append(("%s %s" % (method, path.split("?")[0]), str(a.headers).encode() + a.body))
        return a.status, a.body, a.headers

    def ask(self, method, path, body=None, headers=(), token=None):
        data = b"" if body is None else json.dumps(body).encode()
        status, answer, headers = self.raw(method, path, data, headers, token)
        answer = json.loads(answer) if answer else None
        if path == "/v1/objects:sign" and status == 200:
            self.signed += [answer["put_url"].split("signature=")[1], answer["get_url"].split("signature=")[1]]
        return status, answer, headers


def example(name, *texts):
    return {"example_id": name, "messages": [{"role": "user", "content": "ask " + texts[0]},
                                             {"role": "assistant", "content": "say " + texts[-1]}]}


def wrong_tokens(t):
    for path in ("/v1/sessions", "/v1/objects:sign", "/v1/sessions/x/batches:train", "/v1/operations/x"):
        for form in ("Bearer " + TOKENS["wrong"], "Basic " + TOKENS["own"], TOKENS["alice"],
                     "bearer " + TOKENS["own"], "Bearer " + TOKENS["own"] + TOKENS["wrong"]):
            raw = "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: %s\r\n\r\n" % (path, form)
            answers, _ = t.exchange(raw.encode())
            t.kept.append((path, answers[0].body))
            check(answers[0].status in (401, 405), "a wrong token", path, answers)
    for path in ("/v1/sessions?token=" + TOKENS["own"], "/" + TOKENS["own"], "/v1/sessions/" + TOKENS["alice"],
                 "/v1/operations/" + TOKENS["alice"], "/v1/objects/" + TOKENS["own"] + "?signature=" + SIGNATURE):
        t.raw("GET", path)
        t.raw("DELETE", path)
    # what is no HTTP at all
    for raw in ("%s\r\n\r\n" % TOKENS["own"], "GET / HTTP/1.1\r\nAuthorization : Bearer %s\r\n\r\n" % TOKENS["own"],
                "GET /%s HTTP/9.9\r\n\r\n" % TOKENS["own"]):
        t.kept.append(("refused", t.exchange(raw.encode())[0][0].body))


def refused_bodies(t, s):
    render = "/v1/sessions/%s/datums:render" % s
    turns = example("x", TEXTS["refused"])["messages"]
    for body in ({"examples": [{"example_id": "x", "messages": turns[:1]}]},
                 {"examples": [{"example_id": "x", "messages": [{"role": TEXTS["refused"], "content": "c"}] * 2}]},
                 {"examples": [{"example_id": 7, "messages": turns}]},
                 {"examples": [{"example_id": "x", "messages": turns, "more": TEXTS["unknown"]}]},
                 {"examples": [{"example_id": "x", "messages": [{**turns[0], "content": [TEXTS["unknown"]]}, turns[1]]}]},
                 {"examples": TEXTS["refused"]}, TEXTS["refused"], [TEXTS["refused"]],
                 {"examples": [example("x", TEXTS["refused"])] * 2},
                 {"examples": [{"example_id": "x", "messages": [turns[0], {
                     "role": "assistant", "content": "c", "tool_calls": [{"type": TEXTS["refused"], "id": "i", "function":
                      {"name": "f", "arguments": TEXTS["refused"]}}]}]}]}):
        check(t.ask("POST", render, body)[0] in (400, 422), "refused", body)
    whole = json.dumps({"examples": [example("x", TEXTS["cut"])]}).encode()
    for data in (whole[:-3], whole.replace(b"ask", b"\xff"), whole + b"x", whole.replace(b"ask", b"\\ud800"),
                 whole.replace(b'"ask', b'"\\u0000')):
        check(t.raw("POST", render, data)[0] in (400, 422), "broken JSON", data)
    long = [example("x", *[(TEXTS["long"] + " ") * 400] * 2)]
    check(t.ask("POST", render, {"examples": long})[0] == 422, "longer than the session takes")
    check(t.raw("POST", render, headers=["Content-Type: application/json", "Transfer-Encoding: chunked\r\n\r\n" +
                                         "20\r\n" + TEXTS["cut"]])[0] in (0, 400, 408), "a chunk that is none")
    check(t.ask("POST", "/v1/sessions/%s/samples:generate" % s, {"prompt": TEXTS["prompt"], "x": 1})[0] == 422, "prompt")
    t.ask("POST", "/v1/sessions/%s/samples:generate" % s, {"prompt": TEXTS["prompt"]})
    t.ask("POST", "/v1/sessions/%s/batches:train" % s, {"datum_ids": [TEXTS["refused"]], "learning_rate": 1e-4})
    t.ask("POST", "/v1/sessions/%s/batches:train" % s, {"datum_ids": ["x"], "learning_rate": TEXTS["refused"]})


def transfers(t, s, store):
    save = "/v1/sessions/%s/artifacts:save" % s

    def url(fault, name):
        return store.url("/%s/%s?signature=%s" % (fault, URLS[name], SIGNATURE))

    def put(address, **fields):
        return t.ask("POST", save, {"kind": "state", "name": "n", "upload_url": address, **fields})

    for fault in ("403", "500", "cut", "hang", "redirect"):
        check(put(url(fault, "failed"))[0] == 502, "a failed upload", fault)
    for address in ("http://x/%s?%s" % (URLS["plain"], SIGNATURE), "https://u:%s@x/%s" % (SIGNATURE, URLS["user"]),
                    "ftp://x/" + URLS["plain"], "https:///" + URLS["plain"], URLS["plain"],
                    "https://x y/%s?%s" % (URLS["plain"], SIGNATURE), "https://x/" + URLS["plain"] + "a" * 5000,
                    "https://10.0.0.1/%s?%s" % (URLS["inside"], SIGNATURE),
                    "https://nowhere.invalid/%s?%s" % (URLS["inside"], SIGNATURE)):
        check(put(address)[0] in (422, 502), "a URL that cannot be", address)
    check(put(url("ok", "upload"), restore_url=url("ok", "restore"))[0] == 200, "a good one")
    for fault in ("404", "short", "ok", "redirect"):
        t.ask("POST", "/v1/sessions/%s/artifacts:verify" % s, {"kind": "state", "download_url": url(fault, "verify")})
    return url("ok", "upload")


def resume(t, store, good):
    for fault in ("404", "cut", "short", "ok"):
        status, _, _ = t.open(base_model="tiny", lora_rank=4, resume_download_url=store.url(
            "/%s/%s?signature=%s" % (fault, URLS["resume"], SIGNATURE)))
        check(status in (502, 422), "a failed download", fault, status)
    store.objects["/ok/" + URLS["resume"]] = b"no state " + TEXTS["question"].encode()
    check(t.open(base_model="tiny", lora_rank=4, resume_download_url=store.url("/ok/%s?signature=%s" % (
        URLS["resume"], SIGNATURE)))[0] == 422, "a file that is no state")
    return t.open(base_model="tiny", lora_rank=4, resume_download_url=good)


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


def search(t, when):
    """Every place that others may look at."""
    places = [(name, data) for name, data in t.kept]
    for base, _, names in os.walk(t.state):
        places += [(os.path.join(base, n), read(os.path.join(base, n))) for n in names
                   if os.path.isfile(os.path.join(base, n))]
    if t.process.poll() is None:
        for path in ("/healthz", "/v1/sessions"):
            t.raw("GET", path)
        for path in re.findall(r'"session_id": ?"([0-9a-f]+)"', " ".join(str(d) for _, d in t.kept)):
            t.raw("GET", "/v1/sessions/" + path)
        places += t.kept[-8:]
        told = subprocess.run([os.path.join(BUILD, "stepctl"), "status", "--json", "--socket",
                               os.path.join(t.state, "status.sock")], capture_output=True)
        check(told.returncode in (0, 1) and b'"sessions"' in told.stdout, "status is told", told)  # 1: an alarm
        places.append(("stepctl status", told.stdout + told.stderr))
        for pid in [t.process.pid] + t.worker_pids():
            for name in ("cmdline", "environ", "comm"):
                places.append(("%s of %d" % (name, pid), read("/proc/%d/%s" % (pid, name))))
            check(re.search(rb"^Max core file size +0 +0 ", read("/proc/%d/limits" % pid), re.M) is not None,
                  "no core file of", pid)
    words = [*TOKENS.values(), *TEXTS.values(), *URLS.values(), SIGNATURE, *t.signed]
    for name, data in places:
        # JSON of another hand, or a string of two bytes a letter, hides nothing either
        found = [w for w in words if w.encode() in data or w.encode("utf-16-le") in data]
        check(not found, when + ": nothing leaks", name, found)
    check(len(places) > 20, "there was something to search", len(places))
    return len(places)


def run(persist, store, cert, folder):
    settings = {"STEPD_CA_FILE": cert, "STEPD_EGRESS_ALLOW": "localhost,127.0.0.1", "STEPD_STALL_TIMEOUT": "1",
                "STEPD_CONNECT_TIMEOUT": "1", "STEPD_TRANSFER_TIMEOUT": "2", "STEPD_PERSIST_DATA": persist,
                "STEPD_BODY_TIMEOUT": "1", "STEPD_HEADER_TIMEOUT": "2"}
    with Watched(folder, **settings) as t:
        wrong_tokens(t)
        s = t.opened(base_model="tiny", lora_rank=4, maximum_datum_tokens=200)
        tool = {"example_id": "c", "messages": [
            {"role": "user", "content": "ask " + TEXTS["question"]},
            {"role": "assistant", "content": "say " + TEXTS["answer"]}]}
        status, body, _ = t.ask("POST", "/v1/sessions/%s/datums:render" % s, {"examples": [
            example("a", TEXTS["question"], TEXTS["answer"]), tool, example("e", TEXTS["evaluated"])]},
            ["Idempotency-Key: render"])
        check(status == 200, "rendered", status, body)
        ids = [d["datum_id"] for d in body["datums"]]
        t.ask("POST", "/v1/sessions/%s/datums:render" % s, {"examples": [{"example_id": "d", "messages": [
            {"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "tool_calls": [
                {"type": "function", "id": "i", "function": {"name": "f", "arguments": TEXTS["call"]}}]}]}]})
        refused_bodies(t, s)
        for key in ("one", "one", "two"):
            check(t.ask("POST", "/v1/sessions/%s/batches:train" % s, {"datum_ids": ids, "learning_rate": 1e-4},
                        ["Idempotency-Key: " + key])[0] == 200, "trained", key)
        check(t.ask("POST", "/v1/sessions/%s/datums:render" % s, {"examples": [example("z", TEXTS["twice"])]},
                    ["Idempotency-Key: render"])[0] == 422, "the key of another body")
        t.ask("POST", "/v1/sessions/%s/datums:evaluate" % s, {"datum_ids": ids[2:]})
        good = transfers(t, s, store)
        status, _, headers = t.ask("POST", "/v1/sessions/%s/datums:render" % s, {"examples": [
            example("y", TEXTS["twice"])]}, ["Prefer: respond-async", "Idempotency-Key: later"])
        check(status == 202, "answered later", status)
        check(t.raw("GET", headers["location"] + "?wait=20")[0] == 200, "and told")
        for key in ("sign", "sign", "other"):
            t.ask("POST", "/v1/objects:sign", {}, ["Idempotency-Key: " + key])
        urls = t.sign()
        check(t.save(s, urls["put_url"])[0] == 200, "saved at home")
        t.raw("PUT", "/" + urls["put_url"].split("/", 3)[3])  # once only
        t.raw("GET", "/v1/objects/" + urls["object"] + "?expires=1&signature=" + SIGNATURE)
        print("%d places searched" % search(t, "in the middle"))
        # The worker dies with a step in it, then stepd does.
        step = background(t.ask, "POST", "/v1/sessions/%s/batches:train" % s,
                          {"datum_ids": ids, "learning_rate": 1e-4})
        t.kill_workers()
        check(step()[0] in (200, 503), "a step whose worker is killed")
        check(t.ask("POST", "/v1/sessions/%s/batches:train" % s, {"datum_ids": ids, "learning_rate": 1e-4})[0] in (
            200, 422, 503), "and one after it")
        search(t, "after a killed worker")
        t.process.kill()
        t.process.wait()
        t.process.returncode = 0
        search(t, "after a killed stepd")
        kept, signed = t.kept, t.signed
    with Watched(folder, **settings) as t:
        t.signed = signed
        until = time.monotonic() + 20
        while t.status(s)["state"] in ("loading", "restoring") and time.monotonic() < until:
            time.sleep(0.05)
        t.ask("POST", "/v1/sessions/%s/batches:train" % s, {"datum_ids": ids, "learning_rate": 1e-4})
        search(t, "after a restart")
        check(t.close(s, "?force=true")[0] in (200, 204), "closed")
        status, body, _ = resume(t, store, good)
        check(status == 200, "a session from the upload", status, body)
        search(t, "at the end")
        check(t.stop() == 0, "it stops")
        search(t, "after the end")
        check(len(kept) > 60 and "token alice" in t.logged() and "422" in t.logged(), "much went wrong", len(kept))


@fault("much goes wrong at the level of debug",
       "no token, signed URL or training text in logs, files, status, refusals, environments")
def main():
    things = tempfile.mkdtemp(prefix="stepd-test-")
    cert, key = certificate(things, "good")
    store = Store(cert, key)
    for persist in ("false", "true"):
        folder = tempfile.mkdtemp(prefix="stepd-test-")
        os.mkdir(os.path.join(folder, "secrets"))
        make_model(os.path.join(folder, "models", "tiny"))
        for name, text in (("one", TOKENS["own"]), ("several", "alice %s\n" % TOKENS["alice"])):
            with open(os.open(os.path.join(folder, "secrets", name), os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
                f.write(text)
        run(persist, store, cert, folder)
        shutil.rmtree(folder)
    shutil.rmtree(things)


main()
finish()
