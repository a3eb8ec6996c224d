"""Uploads and downloads against a store that fails in every way; where they may go; and that no
signed URL shows up anywhere."""
import hashlib
import os
import socket
import ssl
import subprocess
import tempfile
import threading

from daemon import check, finish
from fault_table import fault, held
from faulty_store import SECRET, Store, certificate
from trainer import Trainer

UPLOAD = {"detail": "the trainer artifact upload failed"}
# How the store fails, in the table of faults.
STORE = {"hang": "silence", "stall": "silence after all was taken", "cut": "a cut", "early": "a yes before it was sent",
         "redirect": "a redirect", "slow": "a trickle", "short": "a part of it", "open-end": "no end",
         "partial": "a 206", "drip": "a drip", "ok": "a 404 for this object"}
STATE = {"detail": "the trainer state download failed"}
ADAPTER = {"detail": "the trainer sampling adapter download failed"}

folder = tempfile.mkdtemp(prefix="stepd-test-")
cert, key = certificate(folder, "good")
store = Store(cert, key)
settings = {"STEPD_CA_FILE": cert, "STEPD_EGRESS_ALLOW": "localhost,127.0.0.1",
            "STEPD_STALL_TIMEOUT": "2", "STEPD_CONNECT_TIMEOUT": "2", "STEPD_TRANSFER_TIMEOUT": "4"}


def nothing_leaks(t):
    """No part of a signed URL in the log or in any file of the state folder."""
    words = (SECRET, SECRET.split("=")[1], "/ok/the-path", "/403/", "/hang/")
    for base, _, names in os.walk(t.folder):
        for name in names:
            if not os.path.isfile(os.path.join(base, name)):
                continue  # a socket
            with open(os.path.join(base, name), "rb") as f:
                data = f.read()
            for word in words:
                check(word.encode() not in data, "a URL leaks", word, os.path.join(base, name))
    maps = open("/proc/%d/cmdline" % t.process.pid, "rb").read()
    check(SECRET.encode() not in maps, "or in the command line")
    check(os.listdir(os.path.join(t.state, "spool")) == [], "no spool file is left")


def uploads():
    with Trainer(**settings) as t:
        s = t.opened()
        t.train(s)
        data = b"state 1" + b"\0" + b"." * ((1 << 20) - 8)
        digest = hashlib.sha256(data).hexdigest()
        status, body, _ = t.save(s, store.url("/ok/the-path"))
        check((status, body) == (200, {"sha256": digest, "size_bytes": 1 << 20}), "upload", status, body)
        path, headers, got = store.puts[-1]
        check(path == "/ok/the-path" and got == digest, "the very bytes", path, got)
        check(headers["content-length"] == str(1 << 20), "its length", headers)
        check(headers["content-type"] == "application/octet-stream", "its type", headers)
        check("transfer-encoding" not in headers and "expect" not in headers, "plain", headers)
        check("authorization" not in headers and "cookie" not in headers, "no token", headers)
        check(t.save(s, store.url("/flood/x"))[:2] == (502, UPLOAD), "an answer without end")
        before = t.status(s)["last_saved"]
        t.train(s)
        for fault in ("403", "500", "301", "hang", "stall", "cut", "early", "redirect", "slow"):
            status, body, _ = t.save(s, store.url("/%s/x" % fault))
            check((status, body) == (502, UPLOAD), fault, status, body)
            held("an upload meets: %s" % STORE.get(fault, fault), "502; the training state is unaffected")
        check("/ok/moved" not in store.objects, "redirects are not followed")
        st = t.status(s)
        check(st["state"] == "ready" and st["step"] == 2 and st["unsaved_steps"] == 1, "unharmed", st)
        check(st["last_saved"] == before, "and nothing counts as saved", st)
        check(t.save(s, "https://localhost:9/x")[:2] == (502, UPLOAD), "nobody listens")
        check(t.save(s, "https://objects.invalid/x")[:2] == (502, UPLOAD), "no such host")
        check(t.save(s, store.url("/ok/again"))[0] == 200, "and the next one works")
        check(t.close(s)[0] == 200, "saved, so it closes")
        nothing_leaks(t)


@fault("an artifact changes on the disk before it is sent", "502, not called saved")
def damaged_on_disk():
    with Trainer("SAVE:1:digest", **settings) as t:
        s = t.opened()
        check(t.save(s, store.url("/ok/x"))[:2] == (502, UPLOAD), "not what the worker wrote")
        check(t.status(s)["last_saved"] is None, "is not called saved")


def downloads():
    store.objects["/ok/state"] = b"state 3" + b"\0" + os.urandom(3000000)
    with Trainer(**settings) as t:
        s = t.opened(resume_download_url=store.url("/ok/state"))
        st = t.status(s)
        check(st["step"] == 3 and st["last_saved"]["sha256"] ==
              hashlib.sha256(store.objects["/ok/state"]).hexdigest(), "download", st)
        t.close(s)
        store.objects["/ok/none"] = b""
        status, body, _ = t.open(resume_download_url=store.url("/ok/none"))
        check((status, body) == (422, {"detail": "the trainer state is invalid"}), "empty", body)
        for fault in ("404", "403", "302", "redirect", "hang", "cut", "short", "open-end", "partial",
                      "drip", "ok"):
            url = store.url("/%s/nothing-here" % fault)
            answer = t.open(resume_download_url=url)
            check(answer[:2] == (502, STATE), "state", fault, answer)
            check(not t.active(), "the slot is free", fault)
            held("a download meets: %s" % STORE.get(fault, fault), "502; the device is free again")
        check(t.open(sampling_download_url=store.url("/404/x"))[:2] == (502, ADAPTER), "adapter")
        status, body, _ = t.open(resume_download_url=store.url("/large/x"))
        check((status, body) == (422, {"detail": "the trainer state is too large"}), "8 GiB", body)
        check(t.ask("GET", "/v1/sessions")[1]["sessions"][0]["session_id"] == s, "none is listed")
        nothing_leaks(t)
    with Trainer(STEPD_ARTIFACT_LIMIT="1M", **settings) as t:
        status, body, _ = t.open(resume_download_url=store.url("/endless/x"))
        check((status, body) == (422, {"detail": "the trainer state is too large"}), "endless", body)
        status, body, _ = t.open(sampling_download_url=store.url("/endless/x"))
        check(body == {"detail": "the trainer sampling adapter is too large"}, "adapter", body)
        check(t.memory() < 100000, "in constant memory", t.memory())


@fault("the object store has a wrong certificate, or TLS 1.1 only", "502; nothing is sent")
def wrong_certificates():
    for name, args in (("of another host", ("other", "other.example")), ("unknown", ("unknown",))):
        other = Store(*certificate(folder, *args))
        trusted = settings if name == "unknown" else {
            **settings, "STEPD_CA_FILE": os.path.join(folder, "other.pem")}
        with Trainer(**trusted) as t:
            s = t.opened()
            check(t.save(s, other.url("/ok/x"))[:2] == (502, UPLOAD), name)
            check(other.puts == [], "nothing was sent", name)
            t.close(s)
            check(t.open(resume_download_url=other.url("/ok/x"))[:2] == (502, STATE), name)
    try:
        old = Store(cert, key, ssl.TLSVersion.TLSv1_1)
    except (ssl.SSLError, ValueError):
        return
    with Trainer(**settings) as t:
        s = t.opened()
        check(t.save(s, old.url("/ok/x"))[:2] == (502, UPLOAD), "TLS 1.1")


def nobody_came(listener):
    listener.settimeout(0.1)
    try:
        check(False, "nobody connects", listener.accept())
    except TimeoutError:
        check(True, "nobody connects")
    listener.close()


@fault("a URL of an address of this machine, in thirteen spellings", "nobody is connected to")
def addresses():
    """Without leave, nothing on this machine is connected to, however it is written."""
    inside = dict(settings, STEPD_EGRESS_ALLOW=None)
    listener = socket.create_server(("127.0.0.1", 0))
    listener6 = socket.create_server(("::1", 0), family=socket.AF_INET6)
    ports = listener.getsockname()[1], listener6.getsockname()[1]
    with Trainer(**inside) as t:
        s = t.opened()
        for host in ("localhost", "127.0.0.1", "127.0.0.2", "0.0.0.0", "2130706433", "0x7f000001",
                     "017700000001", "127.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]",
                     "[64:ff9b::7f00:1]", socket.gethostname()):
            status, body, _ = t.save(s, "https://%s:%d/x" % (host, ports[0]))
            check(status in (502, 422) and body != {}, "refused", host, status, body)
        for host in ("localhost", "[::1]"):
            check(t.save(s, "https://%s:%d/x" % (host, ports[1]))[0] == 502, "refused", host)
        check("the address is not allowed" in t.logged(), "the log says why")
    for sock in (listener, listener6):
        nobody_came(sock)
    with Trainer(**dict(settings, STEPD_EGRESS_ALLOW="127.0.0.0/8")) as t:
        s = t.opened()
        check(t.save(s, store.url("/ok/a", "127.0.0.1"))[0] == 200, "a network that is allowed")
    bad = Trainer(wait=False, **dict(settings, STEPD_EGRESS_ALLOW="10.0.0.0/33"))
    check(bad.process.wait(20) != 0 and "10.0.0.0/33" in bad.logged(), "a bad entry is named")
    bad.stop()


@fault("proxies in the environment", "not used")
def proxies():
    trap = socket.create_server(("127.0.0.1", 0))
    proxy = "http://127.0.0.1:%d" % trap.getsockname()[1]
    names = {name: proxy for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")}
    with Trainer(**settings, **names) as t:
        s = t.opened()
        check(t.save(s, store.url("/ok/direct"))[0] == 200, "no proxy is used")
    nobody_came(trap)


def own_objects():
    """URLs of our own store work without leave, and move no byte over the network."""
    with Trainer(**dict(settings, STEPD_EGRESS_ALLOW=None)) as t:
        s = t.opened()
        t.train(s)
        urls = t.sign()
        status, body, _ = t.save(s, urls["put_url"])
        check(status == 200, "put", status, body)
        check(t.save(s, urls["put_url"])[:2] == (502, UPLOAD), "put once")
        check(t.save(s, urls["get_url"])[:2] == (502, UPLOAD), "the other URL")
        t.close(s)
        again = t.opened(resume_download_url=urls["get_url"])
        check(t.status(again)["last_saved"]["sha256"] == body["sha256"], "get")
        t.close(again)
        check(t.open(resume_download_url=urls["put_url"])[:2] == (502, STATE), "the other way")
        changed = urls["get_url"][:-1] + ("0" if urls["get_url"][-1] != "0" else "1")
        check(t.open(resume_download_url=changed)[:2] == (502, STATE), "changed")
        signature = urls["get_url"].split("signature=")[1].encode()
        for base, _, names in os.walk(t.folder):
            for name in names:
                if not os.path.isfile(os.path.join(base, name)):
                    continue  # a socket
                with open(os.path.join(base, name), "rb") as f:
                    check(signature not in f.read(), "a URL leaks", name)


@fault("a large download", "nobody is held up; memory stays bounded")
def large_and_alive():
    """A large transfer holds nobody up."""
    store.objects["/ok/big"] = b"state 1" + b"\0" * (64 << 20)
    with Trainer(**dict(settings, STEPD_STALL_TIMEOUT="30", STEPD_TRANSFER_TIMEOUT="60")) as t:
        answered, done = 0, []
        thread = threading.Thread(target=lambda: done.append(
            t.open(resume_download_url=store.url("/ok/big"))))
        thread.start()
        while not done:
            t.active()
            answered += not done
        check(done[0][0] == 200, "large", done)
        check(answered >= 5, "others are answered meanwhile", answered)
        check(t.memory("VmHWM") < 150000, "constant memory", t.memory("VmHWM"))


uploads()
damaged_on_disk()
downloads()
wrong_certificates()
addresses()
proxies()
own_objects()
large_and_alive()
subprocess.run(["rm", "-rf", folder], check=True)
finish()
