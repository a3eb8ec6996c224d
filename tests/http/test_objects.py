"""The object store: signed URLs, put once, whole or not at all."""
import json
import os
import re
import socket
import subprocess
import sys
import time

from daemon import ASAN, BEARER, Stepd, check, finish, read_all
from fault_table import fault
from small_disk import fill

MIB = 1024 * 1024


def sign(stepd, **body):
    status, data = stepd.call("POST", "/v1/objects:sign", body)
    check(status == 200, "sign", status, data)
    return json.loads(data)


def path_of(stepd, url):
    check(url.startswith(stepd.url + "/v1/objects/"), "the URL points here", url)
    return url[len(stepd.url):]


def raw_put(path, length):
    return ("PUT %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: "
            "application/octet-stream\r\nContent-Length: %d\r\n\r\n" % (path, length)).encode()


def put(stepd, path, data):
    answers, _ = stepd.exchange(raw_put(path, len(data)) + data)
    return answers[0].status


def get(stepd, path, method="GET"):
    answers, _ = stepd.exchange(
        ("%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % (method, path)).encode())
    return answers[0]


def files(stepd):
    return sorted(os.listdir(os.path.join(stepd.state, "objects")))


def round_trip(stepd):
    for size in (0, 1, 4096, 300000, 20 * MIB + 7):
        data = os.urandom(size)
        urls = sign(stepd)
        check(set(urls) == {"object", "put_url", "get_url", "expires_at"}, "keys", urls)
        check(re.fullmatch("[0-9a-f]{32}", urls["object"]), "object", urls)
        at = path_of(stepd, urls["put_url"]), path_of(stepd, urls["get_url"])
        check(get(stepd, at[1]).status == 404, "not there before the put")
        check(put(stepd, at[0], data) == 200, "put", size)
        answer = get(stepd, at[1])
        check(answer.status == 200 and answer.body == data, "get", size)
        check(answer.headers["content-type"] == "application/octet-stream", "its type")
        check(put(stepd, at[0], data) == 409, "put once", size)
        check(get(stepd, at[1]).body == data, "the first stays")
        mode = os.stat(os.path.join(stepd.state, "objects", urls["object"])).st_mode & 0o777
        check(mode == 0o600, "mode of the file", oct(mode))
    status, _ = stepd.call("DELETE", "/v1/objects/" + urls["object"])
    check(status == 204 and get(stepd, at[1]).status == 404, "removed")
    check(stepd.call("DELETE", "/v1/objects/" + urls["object"])[0] == 404, "removed once")
    check(stepd.call("DELETE", "/v1/objects/..%2Fobjects.key")[0] == 404, "nothing else is removed")
    check(stepd.call("DELETE", "/v1/objects/x", headers=())[0] == 401, "not without the token")


def signatures(stepd):
    urls = sign(stepd, max_bytes=1000)
    put_path, get_path = path_of(stepd, urls["put_url"]), path_of(stepd, urls["get_url"])
    check(put(stepd, get_path, b"x") == 403, "a GET URL puts nothing")
    check(get(stepd, put_path).status == 403, "a PUT URL gets nothing")
    for name, old, new in [("limit", "limit=1000", "limit=1001"), ("limit", "limit=1000", "limit=01000"),
                           ("limit", "limit=1000", ""), ("id", urls["object"], "0" * 32),
                           ("id", urls["object"], urls["object"].upper()),
                           ("expiry", "expires=", "expires=9"), ("expiry", "expires=", "expires=+"),
                           ("signature", "signature=", "signature=0"), ("signature", "signature=", "x="),
                           ("signature", put_path[-1], "0" if put_path[-1] != "0" else "1")]:
        at = put_path[:-1] + new if old == put_path[-1] else put_path.replace(old, new)
        check(at != put_path and put(stepd, at, b"x") == 403, "a changed " + name, at)
    check(put(stepd, "/v1/objects/" + urls["object"], b"x") == 403, "no signature")
    answers, _ = stepd.exchange(raw_put("/v1/objects/" + urls["object"], 1).replace(
        b"Host: x", b"Host: x\r\n" + BEARER.encode()) + b"x")
    check(answers[0].status == 403, "the token is no signature")
    check(put(stepd, put_path, b"x" * 1001) == 413, "over the limit of the URL")
    check(put(stepd, put_path, b"x" * 1000) == 200, "at the limit")
    again = sign(stepd, object=urls["object"], expires_in=1)
    at = path_of(stepd, again["get_url"])
    check(get(stepd, at).status == 200, "an object signed again")
    time.sleep(2.1)
    check(get(stepd, at).status == 403, "expired")
    check(stepd.call("POST", "/v1/objects:sign", {"object": "0" * 32})[0] == 404, "unknown object")
    check(stepd.call("POST", "/v1/objects:sign", {}, headers=())[0] == 401, "not without the token")
    for body in ({"expires_in": 0}, {"expires_in": 8 * 86400}, {"x": 1}, {"max_bytes": -1},
                 {"object": "../objects.key"}, []):
        check(stepd.call("POST", "/v1/objects:sign", body)[0] == 422, "refused", body)


def framing(stepd):
    at = path_of(stepd, sign(stepd)["put_url"])
    no_length = raw_put(at, 0).replace(b"Content-Length: 0\r\n", b"")
    check(stepd.exchange(no_length)[0][0].status == 411, "no length")
    chunked = raw_put(at, 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    check(stepd.exchange(chunked + b"1\r\nx\r\n0\r\n\r\n")[0][0].status == 411, "chunks")
    before = files(stepd)
    with stepd.connect() as sock:
        sock.sendall(raw_put(at, 1000) + b"x" * 500)
        time.sleep(0.2)
        check(files(stepd) == before, "half an object has no name")
    time.sleep(0.2)
    check(files(stepd) == before, "and leaves nothing when its client goes")
    with stepd.connect() as sock:  # a client that leaves once all is sent: stored all the same
        sock.sendall(raw_put(at, 1000) + b"x" * 1000)
    for _ in range(50):
        if len(files(stepd)) > len(before):
            break
        time.sleep(0.1)
    check(len(files(stepd)) == len(before) + 1, "stored although nobody waits")
    # two at once: one wins
    at = path_of(stepd, sign(stepd)["put_url"])
    with stepd.connect() as one, stepd.connect() as two:
        for sock in (one, two):
            sock.sendall(raw_put(at, 1000) + b"x" * 500)
        time.sleep(0.2)
        for sock in (one, two):
            sock.sendall(b"x" * 500)
        got = sorted(read_all(sock)[0][0].status for sock in (one, two))
        check(got == [200, 409], "two puts at once: one of them", got)


def memory_and_backpressure(stepd):
    size = 64 * MIB
    urls = sign(stepd)
    stepd.call("GET", "/healthz")
    before = stepd.memory("VmHWM")
    check(put(stepd, path_of(stepd, urls["put_url"]), b"x" * size) == 200, "a large put")
    readers = []
    for _ in range(8):  # who asks and does not read costs one piece of it
        sock = stepd.connect()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        sock.sendall(("GET %s HTTP/1.1\r\nHost: x\r\n\r\n" %
                      path_of(stepd, urls["get_url"])).encode())
        readers.append(sock)
    check(len(get(stepd, path_of(stepd, urls["get_url"])).body) == size, "others are served")
    grown = stepd.memory("VmHWM") - before
    print("memory of a put and nine gets of 64 MiB: %d KiB" % grown)
    check(ASAN or grown < 12 * 1024, "constant memory", grown)
    for sock in readers:
        sock.close()


@fault("the object store is full", "507; room again when something is removed")
def space():
    with Stepd(STEPD_OBJECT_SPACE="10000", STEPD_OBJECT_LIMIT="8000") as stepd:
        urls = sign(stepd)
        at = path_of(stepd, urls["put_url"])
        check("limit=8000&" in at, "the limit is the setting's", at)
        check(put(stepd, at, b"x" * 8001) == 413, "larger than any object may be")
        check(put(stepd, at, b"x" * 8000) == 200, "put")
        other = path_of(stepd, sign(stepd)["put_url"])
        check(put(stepd, other, b"x" * 2001) == 507, "the store is full")
        check(put(stepd, other, b"x" * 2000) == 200, "exactly full")
        check(stepd.call("DELETE", "/v1/objects/" + urls["object"])[0] == 204, "removed")
        check(put(stepd, path_of(stepd, sign(stepd)["put_url"]), b"x" * 8000) == 200, "room again")
    with Stepd(STEPD_DISK_RESERVE="8192G") as stepd:
        at = path_of(stepd, sign(stepd)["put_url"])
        check(put(stepd, at, b"x") == 507, "space is left on the disk")


@fault("the disk fills while an object arrives", "507; nothing is left of it")
def full_disk():
    """A disk that fills up while an object arrives, where this machine lets us make one."""
    mount = "mount -t tmpfs -o size=1m,mode=700 tmpfs"
    script = 'set -e; d=$(mktemp -d); %s "$d"; exec python3 "$0" --full "$d"' % mount
    run = subprocess.run(["unshare", "-rm", "sh", "-c", script, __file__], capture_output=True, text=True)
    if "passed" not in run.stdout:
        print("full disk: not tried:", run.stderr.strip()[-200:])
        return
    check(run.returncode == 0 and ", 0 failed" in run.stdout, "full disk", run.stdout, run.stderr)


def on_full_disk(folder):
    with Stepd(state=folder, STEPD_DISK_RESERVE="0") as stepd:
        at = [path_of(stepd, sign(stepd)["put_url"]) for _ in range(2)]
        with stepd.connect() as one:
            one.sendall(raw_put(at[0], 600000) + b"x" * 100000)
            time.sleep(0.2)
            fill(os.path.join(folder, "filler"))
            one.sendall(b"x" * 500000)
            answers, _ = read_all(one)
            check([a.status for a in answers] == [507], "the disk is full", answers)
        check(files(stepd) == [], "nothing is left of it")
        os.remove(os.path.join(folder, "filler"))
        check(put(stepd, at[0], b"x" * 600000) == 200, "and it can be put again")
        check(stepd.call("GET", "/healthz")[0] == 200, "healthy")


def refuses(state, name):
    """stepd does not start on that folder, and says what is wrong with its key."""
    bad = Stepd(state=state, wait=False)
    try:
        status = bad.process.wait(20)
    except subprocess.TimeoutExpired:
        status = "it hangs"
    bad.stop()
    check(status == 1 and "objects.key in STEPD_STATE_DIR" in bad.logged(), name, status)


@fault("stepd is killed with an object half arrived", "whole objects stay, the rest is removed")
def restart():
    with Stepd() as stepd:
        urls = sign(stepd)
        at = path_of(stepd, urls["put_url"]), path_of(stepd, urls["get_url"])
        put(stepd, at[0], b"kept")
        with open(os.path.join(stepd.state, "objects", "x.partial"), "w") as f:
            f.write("rest of a crash")
        key = os.path.join(stepd.state, "objects.key")
        check(os.stat(key).st_mode & 0o777 == 0o600, "mode of the key")
        stepd.process.kill()
        stepd.process.wait()
        with Stepd(state=stepd.state) as again:
            check(get(again, at[1]).body == b"kept", "objects and URLs outlive stepd")
            check(put(again, at[0], b"other") == 409, "and stay put once")
            check("x.partial" not in files(again), "what was never finished is removed")
        os.chmod(key, 0o640)
        refuses(stepd.state, "a key open to others")
        os.chmod(key, 0o600)
        os.truncate(key, 31)
        refuses(stepd.state, "a short key")
        os.remove(key)
        os.mkfifo(key, 0o600)
        refuses(stepd.state, "a key that is a pipe")
        text = stepd.logged()
        stepd.process = again.process
    for secret in (at[0], at[1], at[0].split("signature=")[1], urls["object"]):
        check(secret not in text, "no part of a signed URL is logged")


def tls():
    with Stepd(STEPD_TLS_CERT="auto") as stepd:
        urls = sign(stepd)
        check(urls["put_url"].startswith("https://127.0.0.1:"), "https URLs", urls["put_url"])
        data = os.urandom(5 * MIB)
        check(put(stepd, path_of(stepd, urls["put_url"]), data) == 200, "put over TLS")
        check(get(stepd, path_of(stepd, urls["get_url"])).body == data, "get over TLS")
    with Stepd(STEPD_PUBLIC_URL="https://trainer.example:8443") as stepd:
        url = sign(stepd)["put_url"]
        check(url.startswith("https://trainer.example:8443/v1/objects/"), "public URL", url)
        at = url[len("https://trainer.example:8443"):]
        check(put(stepd, at, b"x") == 200, "put under another name")


def main():
    if len(sys.argv) == 3:
        on_full_disk(sys.argv[2])
        finish()
    with Stepd() as stepd:
        for test in (round_trip, signatures, framing, memory_and_backpressure):
            test(stepd)
    for test in (space, full_disk, restart, tls):
        test()
    finish()


main()
