"""Several tokens by name, their rotation and the certificate's by SIGHUP, and what guessing costs."""
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time

from daemon import BUILD, TOKEN, Stepd, check, finish, read_answer
from fault_table import fault
from faulty_store import certificate

ALICE, BOB, CAROL = ("token-of-%s-9f8e7d6c5b4a" % name for name in ("alice", "bob", "carol"))
EVERY = (TOKEN, ALICE, BOB, CAROL)
folder = tempfile.mkdtemp(prefix="stepd-test-")
tokens = os.path.join(folder, "tokens")


def write(text, path=tokens, mode=0o600):
    """Whole or not at all, as a careful operator replaces it."""
    with open(path + ".new", "w") as f:
        f.write(text)
    os.chmod(path + ".new", mode)
    os.rename(path + ".new", path)


def status(stepd, token):
    return stepd.call("GET", "/v1/sessions", headers=["Authorization: Bearer " + token])[0]


def who(stepd):
    """Which of the tokens pass."""
    return [t for t in EVERY if status(stepd, t) == 200]


def logged_after(stepd, start, *words):
    """Waits for a line of the log, beyond that many characters, that has one of the words."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        log = stepd.logged()[start:]
        if any(w in log for w in words):
            return log
        time.sleep(0.01)
    raise SystemExit("not logged: %r\n%s" % (words, stepd.logged()))


def reload(stepd, *words):
    start = len(stepd.logged())
    stepd.process.send_signal(signal.SIGHUP)
    return logged_after(stepd, start, *words or ("the tokens stay", "tokens read again"))


def nothing_told(text, name):
    check(not any(t in text or t[:12] in text for t in EVERY), "no token is told: " + name, text)


def names():
    write("# who is who\n\nalice %s\n\t bob\t %s \t\r\n  # carol %s\n" % (ALICE, BOB, CAROL))
    with Stepd(STEPD_TOKENS_FILE=tokens) as stepd:
        check(who(stepd) == [TOKEN, ALICE, BOB], "the file beside TRAINER_TOKEN", who(stepd))
        log = stepd.logged()
        for name in ("TRAINER_TOKEN", "alice", "bob"):
            check("200" in log and ", token %s\n" % name in log, "the log has the name", name)
        check(status(stepd, ALICE + "x") == 401 and status(stepd, "alice") == 401, "whole tokens only")
        nothing_told(stepd.logged(), "log")
    with Stepd(STEPD_TOKENS_FILE=tokens, TRAINER_TOKEN=None) as stepd:
        check(who(stepd) == [ALICE, BOB], "the file alone", who(stepd))
    shutil.copy(tokens, os.path.join(folder, "trainer_tokens"))
    os.chmod(os.path.join(folder, "trainer_tokens"), 0o440)  # systemd has them so
    with Stepd(CREDENTIALS_DIRECTORY=folder, TRAINER_TOKEN=None) as stepd:
        check(who(stepd) == [ALICE, BOB], "a credential of systemd", who(stepd))
    with open(os.path.join(folder, "trainer_token"), "w") as f:
        f.write(CAROL + "\n")
    with Stepd(CREDENTIALS_DIRECTORY=folder, TRAINER_TOKEN=None) as stepd:
        check(who(stepd) == [ALICE, BOB, CAROL], "both credentials", who(stepd))


BAD = [
    ("no token", "alice\n", "line 1"), ("three words", "alice %s x\n" % ALICE, "line 1"),
    ("short", "alice short\n", "line 1"), ("long", "alice %s\n" % ("x" * 513), "line 1"),
    ("bad name", "# c\n\nal/ice %s\n" % ALICE, "line 3"),
    ("long name", "%s %s\n" % ("a" * 65, ALICE), "line 1"),
    ("Latin", "alice %s\xe9\n" % ALICE, "line 1"), ("control", "alice %s\x7f\n" % ALICE, "line 1"),
    ("twice the name", "alice %s\nalice %s\n" % (ALICE, BOB), "line 2"),
    ("twice the token", "alice %s\nbob %s\n" % (ALICE, ALICE), "line 2"),
    ("the name of the other", "TRAINER_TOKEN %s\n" % ALICE, "line 1"),
    ("TRAINER_TOKEN again", "alice %s\n" % TOKEN, "line 1"),
    ("NUL", "alice %s\0\n" % ALICE, "not text"),
    ("too many", "".join("a%d %s%d\n" % (i, ALICE, i) for i in range(300)), "line 256"),
    ("too large", "#" * 300000, "too long"),
]


def run(**settings):
    env = dict(PATH=os.environ["PATH"], HOME=folder, TRAINER_TOKEN=TOKEN, STEPD_TOKENS_FILE=tokens,
               STEPD_WORKER="/bin/true")
    env.update(settings)
    env = {k: v for k, v in env.items() if v is not None}
    return subprocess.run([os.path.join(BUILD, "stepd"), "--check"], env=env, capture_output=True, text=True)


@fault("a token file that is wrong, or open to others", "refused by name; no token is told")
def bad_files():
    for name, text, words in BAD:
        write(text)
        got = run()
        check(got.returncode == 2 and "STEPD_TOKENS_FILE" in got.stderr and words in got.stderr, name, got)
        nothing_told(got.stderr, name)
    write("alice %s\n" % ALICE, mode=0o640)
    check("0640" in run().stderr, "a file open to others")
    write("alice %s\n" % ALICE)
    good = run()
    check(good.returncode == 0 and "STEPD_TOKENS_FILE=%s\n" % tokens in good.stdout, "a good one", good)
    nothing_told(good.stdout, "--check")
    write("# nobody\n")
    check("no token" in run(TRAINER_TOKEN=None).stderr, "an empty file alone")
    check(run().returncode == 0, "an empty file beside TRAINER_TOKEN")
    got = run(TRAINER_TOKEN=None, STEPD_TOKENS_FILE=None)
    check(got.returncode == 2 and "STEPD_TOKENS_FILE" in got.stderr, "neither of both", got)
    check(run(STEPD_TOKENS_FILE=os.path.join(folder, "none")).returncode == 2, "no file")


@fault("tokens change while clients work", "nobody is cut off")
def rotation():
    write("alice %s\nbob %s\n" % (ALICE, BOB))
    with Stepd(STEPD_TOKENS_FILE=tokens) as stepd, stepd.connect() as sock:
        file = sock.makefile("rb")

        def kept(token):
            """On a connection that was there before."""
            sock.sendall(("GET /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n" % token)
                         .encode())
            return read_answer(file).status

        check(kept(BOB) == 200, "bob may")
        write("alice %s\ncarol %s\n" % (ALICE, CAROL))
        check(who(stepd) == [TOKEN, ALICE, BOB], "nothing changes by itself")
        check("tokens read again: 3" in reload(stepd), "read again")
        check(who(stepd) == [TOKEN, ALICE, CAROL], "bob is out, carol in", who(stepd))
        check(kept(BOB) == 401 and kept(CAROL) == 200, "on old connections too")
        for name, text, words in BAD[:6]:
            write(text)
            log = reload(stepd)
            check("stay as they are" in log and words in log, "a bad file: " + name, log)
            nothing_told(log, name)
        os.unlink(tokens)
        check("stay as they are" in reload(stepd), "a file that is gone")
        check(who(stepd) == [TOKEN, ALICE, CAROL], "the old ones stay in force", who(stepd))
        write("alice %s\n" % BOB)
        reload(stepd)
        check(who(stepd) == [TOKEN, BOB], "a new token by an old name", who(stepd))
    one = os.path.join(folder, "one")
    write(ALICE, one)
    with Stepd(TRAINER_TOKEN=None, TRAINER_TOKEN_FILE=one) as stepd:
        write(BOB, one)
        reload(stepd)
        check(who(stepd) == [BOB], "TRAINER_TOKEN_FILE turns too", who(stepd))


def fingerprint(sock):
    return sock.getpeercert(binary_form=True)


@fault("certificate and key change while clients are connected",
       "old connections go on, new ones get the new; a pair that is none changes nothing")
def new_certificate():
    """The pair of an operator is replaced while a connection and its request are under way."""
    first, second = certificate(folder, "first"), certificate(folder, "second")
    cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")

    def put(pair):
        for source, to in zip(pair, (cert, key)):
            with open(source) as f:
                write(f.read(), to)

    def connect(stepd, trusted):
        context = ssl.create_default_context(cafile=trusted[0])
        sock = socket.create_connection(("127.0.0.1", stepd.port), timeout=20)
        return context.wrap_socket(sock, server_hostname="localhost")

    def healthy(sock):
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        return read_answer(sock.makefile("rb")).status == 200

    put(first)
    with Stepd(STEPD_TLS_CERT=cert, STEPD_TLS_KEY=key) as stepd:
        old = connect(stepd, first)
        check(healthy(old), "the first certificate")
        put((first[0], second[1]))
        log = reload(stepd, "certificate stays", "certificate read")
        check("certificate stays as it is: STEPD_TLS_KEY" in log, "a pair that is none", log)
        connect(stepd, first).close()
        write("nonsense", cert)
        check("certificate stays" in reload(stepd, "certificate stays", "certificate read"), "no certificate")
        put(second)
        os.chmod(key, 0o644)
        check("0644" in reload(stepd, "certificate stays", "certificate read"), "a key open to others")
        connect(stepd, first).close()
        os.chmod(key, 0o600)
        reload(stepd, "certificate read again")
        with connect(stepd, second) as sock:
            check(healthy(sock), "the second for new connections")
        try:
            connect(stepd, first).close()
            check(False, "the first is gone")
        except ssl.SSLCertVerificationError:
            check(True, "the first is gone")
        check(healthy(old), "an old connection goes on")
        old.close()
    with Stepd(STEPD_TLS_CERT="auto") as stepd:
        with stepd.connect() as sock:
            before = fingerprint(sock)
        reload(stepd, "certificate read again")
        with stepd.connect() as sock:
            check(fingerprint(sock) == before, "one that stepd made itself is kept while it is good")
        os.unlink(os.path.join(stepd.state, "tls-cert.pem"))
        reload(stepd, "certificate read again")
        with stepd.connect() as sock:
            check(fingerprint(sock) != before, "and made anew when it is not there")


@fault("old versions and weak ciphers of TLS are asked for",
       "refused")
def ciphers():
    """Only TLS 1.2 and 1.3, forward secret and authenticated."""
    weak = ["AES128-SHA", "AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA384",
            "AECDH-AES128-SHA", "ECDHE-ECDSA-NULL-SHA"]
    good = ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"]
    with Stepd(STEPD_TLS_CERT="auto") as stepd:
        def try_with(version, cipher):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            try:
                context.set_ciphers((cipher or "ALL") + ":@SECLEVEL=0")
            except ssl.SSLError:
                return None  # this OpenSSL has no such cipher to offer
            context.minimum_version = context.maximum_version = version
            try:
                sock = socket.create_connection(("127.0.0.1", stepd.port), timeout=20)
                with context.wrap_socket(sock) as sock:
                    return sock.cipher()
            except OSError:
                return None

        v = ssl.TLSVersion
        for cipher in weak:
            check(try_with(v.TLSv1_2, cipher) is None, "refused: " + cipher)
        for cipher in good:
            check((try_with(v.TLSv1_2, cipher) or [""])[0] == cipher, "taken: " + cipher)
        got = try_with(v.TLSv1_3, None)
        check(got is not None and got[1] == "TLSv1.3" and got[2] >= 128, "TLS 1.3", got)
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        for version in (v.TLSv1, v.TLSv1_1):
            check(try_with(version, None) is None, "refused: %s" % version)


@fault("tokens are guessed", "answered later and later; the owner passes at once")
def guessing():
    """A guesser waits; the owner, from the same address, does not wait in its line."""
    with Stepd(STEPD_CONNECTIONS="64") as stepd:
        for _ in range(20):
            check(status(stepd, ALICE) == 401, "the first wrong ones are told at once")
        check("wrong tokens" not in stepd.logged(), "and are nobody's business")
        begun = time.monotonic()
        waits = []
        for _ in range(4):
            start = time.monotonic()
            check(status(stepd, ALICE) == 401, "then the answer waits, and is the same")
            waits.append(time.monotonic() - start)
            check(status(stepd, TOKEN) == 200, "a right token passes, always")
        print("answers to wrong tokens after %s s" % ", ".join("%.2f" % w for w in waits))
        check(time.monotonic() - begun >= 0.05 + 0.1 + 0.2 + 0.4, "no sooner than they should", waits)
        check(stepd.logged().count("wrong tokens from 127.0.0.1") == 1, "the log says it once")
        check(stepd.call("GET", "/healthz", headers=())[0] == 200, "what needs no token does not wait")

        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(os.path.join(stepd.state, "status.sock"))
            document = b"".join(iter(lambda: sock.recv(65536), b""))
        told = json.loads(document)["tokens"]
        check(told == {"known": 1, "wrong": 24}, "status counts them", told)

        # Those that wait make room for others: no more guessers than connections, and all for nothing.
        raw = b"GET /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\n\r\n"
        guessers = []
        for _ in range(200):
            guessers.append(stepd.connect())
            guessers[-1].sendall(raw)
        check(status(stepd, TOKEN) == 200, "the owner comes through 200 of them")
        before = stepd.memory()
        done = threading.Event()

        def guess():
            while not done.is_set():
                try:
                    with stepd.connect() as sock:
                        sock.sendall(raw)
                        sock.settimeout(0.2)
                        sock.recv(1)
                except OSError:
                    pass
        threads = [threading.Thread(target=guess) for _ in range(8)]
        for t in threads:
            t.start()
        for _ in range(100):
            check(status(stepd, TOKEN) == 200, "the owner comes through")
        done.set()
        for t in threads:
            t.join()
        check(stepd.memory() - before < 4096, "in bounded memory", stepd.memory() - before)
        for sock in guessers:
            sock.close()
        nothing_told(stepd.logged(), "log")
        check("Bearer wrong" not in stepd.logged(), "not even a wrong one")


def main():
    try:
        for test in (names, bad_files, rotation, new_certificate, ciphers, guessing):
            test()
    finally:
        shutil.rmtree(folder)
    finish()


main()
