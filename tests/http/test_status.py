"""The status socket and `stepctl status`: what they say, who may ask, and that they answer when HTTP does not."""
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time

from daemon import BUILD, TOKEN, Stepd, check, finish
from fault_table import fault
from faulty_store import SECRET, Store, certificate
from small_disk import small_disk
from trainer import Trainer, background

STEPCTL = os.path.join(BUILD, "stepctl")
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("STEPD_", "TRAINER_"))}


def socket_of(t):
    return os.path.join(t.state, "status.sock")


def read_document(path):
    """All bytes up to the end of the file."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(path)
        sock.settimeout(30)
        data = b""
        while piece := sock.recv(65536):
            data += piece
    return data


def ask(t):
    return t.document()


def until(condition, seconds=30):
    """Waits for what has to come; the tests' own checks tell what did not."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def stepctl(*args, **env):
    return subprocess.run([STEPCTL, "status", *args], env={**CLEAN, **env}, capture_output=True, text=True,
                          timeout=60)


def of_the_disk(sentences):
    """This machine's own disk may be full."""
    return [s for s in sentences if not s.startswith("the disk of")]


def whole_document():
    with Trainer() as t:
        d = ask(t)
        check(d["schema"] == 1 and d["pid"] == t.process.pid and d["state"] == "running", "the process", d)
        check(d["listeners"] == [{"address": "%s:%d" % (t.host, t.port), "tls": False}], "listeners", d)
        check(d["certificate"] is None and d["durability"] == "disk", "certificate and durability", d)
        with open("/proc/sys/kernel/random/boot_id") as f:
            check(d["boot_id"] == f.read().strip(), "boot id", d["boot_id"])
        check(0 < d["memory"]["rss_bytes"] <= d["memory"]["peak_bytes"], "memory", d["memory"])
        check(d["slots"] == [{"device": "cpu", "state": "free", "session_id": None}], "slots", d["slots"])
        check(d["sessions"] == [], "no session")
        for disk in ("state", "spool", "store"):
            st = os.statvfs(t.state)
            check(d["disks"][disk]["bytes"] == st.f_blocks * st.f_frsize, "bytes of the disk", disk, d["disks"])
            check(d["disks"][disk]["inodes"] == st.f_files, "inodes of the disk", disk, d["disks"])
        check(0 < d["store"]["bytes"] < d["store"]["map_bytes"], "the store", d["store"])
        check(d["store"]["oldest_change_seconds"] == 0, "nothing is late", d["store"])
        s = t.opened()
        t.render(s)
        t.train(s)
        t.train(s)
        t.save(s, t.sign()["put_url"])
        t.train(s)
        t.ask("GET", "/nothing")
        d = ask(t)
        check(d["slots"] == [{"device": "cpu", "state": "taken", "session_id": s}], "taken", d["slots"])
        [x] = d["sessions"]
        check((x["session_id"], x["state"], x["model"], x["device"]) == (s, "ready", "org/model", "cpu"), "who", x)
        check((x["step"], x["saved_step"], x["unsaved_steps"]) == (3, 2, 1), "steps", x)
        check(x["last_loss"] == t.status(s)["last_losses"][-1] and x["last_gradient_norm"] == 0.5, "numbers", x)
        check(x["anchor_step"] + x["replay_steps"] == 3 and x["replay_differences"] == 0, "replay", x)
        check(x["restarts"] == 0 and x["worker_ends"] == {} and x["quarantined_requests"] == 0, "no restarts", x)
        with open("/proc/%d/status" % x["worker"]["pid"]) as f:
            status = f.read()
            check("PPid:\t%d\n" % t.process.pid in status, "its worker", status)
            rss = int(re.search(r"VmRSS:\s*(\d+) kB", status).group(1)) * 1024
        check(0.5 < x["worker"]["rss_bytes"] / rss < 2, "its memory", x["worker"], rss)
        check(x["worker"]["peak_bytes"] >= x["worker"]["rss_bytes"], "and peak", x["worker"])
        check(d["requests"]["4xx"] == 1 and d["requests"]["5xx"] == 0 and d["requests"]["2xx"] >= 6 and
              d["requests"]["answered"] == sum(d["requests"][c] for c in ("1xx", "2xx", "3xx", "4xx", "5xx")),
              "requests", d["requests"])
        check(d["connections"]["limit"] == 1024, "connections", d["connections"])
        check(of_the_disk(d["attention"]) == [], "nothing to act on", d["attention"])
        other = ask(t)
        check(other["settings_digest"] == d["settings_digest"], "settings stay")
        t.close(s, "?force=true")
        d = ask(t)
        check(d["sessions"] == [] and d["sessions_closed"] == 1 and d["slots"][0]["state"] == "free", "closed", d)
        digest = d["settings_digest"]
    check(not os.path.exists(socket_of(t)), "the socket goes with its stepd")
    with Trainer(STEPD_THREADS="3") as t:
        check(ask(t)["settings_digest"] != digest, "other settings, another digest")


def workers_that_end():
    """A worker that is gone is not known, never an error; its end is counted by class."""
    with Trainer() as t:
        s = t.opened()
        t.render(s)
        t.train(s)
        pid = ask(t)["sessions"][0]["worker"]["pid"]
        os.kill(pid, signal.SIGSTOP)
        check(ask(t)["sessions"][0]["worker"]["pid"] == pid, "a stopped worker does not hold it up")
        os.kill(pid, signal.SIGKILL)
        check(until(lambda: ask(t)["sessions"][0]["restarts"] == 1), "it is brought back", ask(t))
        x = ask(t)["sessions"][0]
        check(x["worker_ends"] == {"killed": 1} and x["state"] == "ready", "by class", x)
        check(x["worker"]["pid"] != pid and x["worker"]["rss_bytes"] > 0, "another worker", x)
        t.set_faults("RENDER:1:crash", once=True)
        os.kill(x["worker"]["pid"], signal.SIGKILL)
        check(until(lambda: ask(t)["sessions"][0]["restarts"] == 2), "again", ask(t))
        t.render(s, "other")
        x = ask(t)["sessions"][0]
        check(x["worker_ends"] == {"killed": 2, "signal": 1}, "two classes", x)


def who_may_ask():
    with tempfile.TemporaryDirectory(prefix="stepd-test-") as folder:
        os.chmod(folder, 0o755)
        path = os.path.join(folder, "here.sock")
        with Trainer(STEPD_STATUS_SOCKET=path) as t:
            mode = os.stat(path)
            check(stat.S_ISSOCK(mode.st_mode) and stat.S_IMODE(mode.st_mode) == 0o660, "mode", oct(mode.st_mode))
            check(not os.path.exists(socket_of(t)), "only there")
            check(json.loads(read_document(path))["pid"] == t.process.pid, "its user may ask")
            if os.geteuid() != 0:
                return
            shutil.copy(STEPCTL, os.path.join(folder, "stepctl"))

            def as_user(uid, gid, groups=()):
                return subprocess.run([os.path.join(folder, "stepctl"), "status", "--socket", path, "--json"],
                                      env=CLEAN, capture_output=True, text=True, timeout=60, user=uid, group=gid,
                                      extra_groups=groups, cwd="/")
            refused = as_user(65534, 65534)
            check(refused.returncode == 3 and path in refused.stderr, "the mode keeps others out", refused)
            os.chmod(path, 0o666)
            refused = as_user(65534, 65534)
            check(refused.returncode == 4 and path in refused.stderr and refused.stdout == "", "others", refused)
            check("user 65534" in t.logged(), "which is told")
            for gid, groups in ((os.getegid(), ()), (65534, (12345, os.getegid()))):
                allowed = as_user(65534, gid, groups)
                check(allowed.returncode in (0, 1) and json.loads(allowed.stdout)["pid"] == t.process.pid,
                      "its group", gid, groups, allowed)


def where_it_is():
    with Trainer(STEPD_STATUS_SOCKET="off") as t:
        check(not os.path.exists(socket_of(t)), "off: none")
        off = stepctl(STEPD_STATUS_SOCKET="off")
        check(off.returncode == 2, "off: nothing to ask", off)
    with tempfile.TemporaryDirectory(prefix="stepd-test-") as folder:
        deep = os.path.join(folder, *["d" * 50] * 4)
        os.makedirs(deep)
        path = os.path.join(deep, "status.sock")
        with Trainer(STEPD_STATUS_SOCKET=path) as t:
            told = stepctl("--json", STEPD_STATUS_SOCKET=path)
            check(told.returncode in (0, 1) and json.loads(told.stdout)["pid"] == t.process.pid,
                  "a path longer than an address", told)
        check(os.listdir(deep) == [], "and it goes", os.listdir(deep))
        for bad in (os.path.join(folder, "s" * 108), os.path.join(folder, "no", "x" * 100, "s"), folder + "/"):
            run = subprocess.run([os.path.join(BUILD, "stepd"), "--check"], capture_output=True, text=True,
                                 env={**CLEAN, "TRAINER_TOKEN": TOKEN, "STEPD_STATUS_SOCKET": bad,
                                      "STEPD_WORKER": "/bin/true"})
            check(run.returncode == 2 and "STEPD_STATUS_SOCKET" in run.stderr, "no place for it", bad, run)
        path = os.path.join(folder, "file")
        with open(path, "w") as f:
            f.write("mine")
        with Stepd(wait=False, STEPD_STATUS_SOCKET=path) as t:
            check(t.process.wait(30) == 1 and path in t.logged(), "not over a file", t.logged())
            t.process.returncode = 0
        with open(path) as f:
            check(f.read() == "mine", "which is left as it was")
        path = os.path.join(folder, "two.sock")
        with Trainer(STEPD_STATUS_SOCKET=path) as t:
            with Stepd(wait=False, STEPD_STATUS_SOCKET=path) as other:
                check(other.process.wait(30) == 1 and "somebody else" in other.logged(), "in use", other.logged())
                other.process.returncode = 0
            check(json.loads(read_document(path))["pid"] == t.process.pid, "and still the first one's")
            t.process.kill()
            t.process.wait()
            check(os.path.exists(path), "left behind by a kill")
            with Trainer(STEPD_STATUS_SOCKET=path) as other:
                check(json.loads(read_document(path))["pid"] == other.process.pid, "taken over")
            t.process.returncode = 0


@fault("every connection of HTTP is taken", "the status socket answers")
def without_http():
    """Every connection taken, by requests that hang; and a client that holds a TLS handshake open."""
    with Trainer("TRAIN:1:hang", STEPD_CONNECTIONS="3", STEPD_TLS_CERT="auto", STEPD_STOP_TIMEOUT="600") as t:
        s = t.opened()
        waiting = [background(t.train, s) for _ in range(3)]
        check(until(lambda: ask(t)["sessions"][0]["waiting_requests"] == 2), "all wait", ask(t)["sessions"])
        check(ask(t)["connections"]["open"] == 3, "all are taken", ask(t)["connections"])
        with socket.create_connection((t.host, t.port)) as stranger:
            stranger.settimeout(30)
            check(stranger.recv(1) == b"", "one more is turned away")
        d = ask(t)
        check(d["connections"]["turned_away"] >= 1, "which is counted", d["connections"])
        check(d["sessions"][0]["state"] == "training" and d["sessions"][0]["waiting_requests"] == 2, "it answers", d)
        check(d["listeners"][0]["tls"], "TLS")
        left = d["certificate"]["seconds_left"]
        check(left > 86400 and abs(d["certificate"]["not_after"] - left - time.time()) < 60, "certificate", d)
        t.process.terminate()
        check(until(lambda: ask(t)["state"] == "draining"), "also while it stops")
        check(0 < ask(t)["drain_seconds_left"] <= 600, "how long yet")
        os.kill(d["sessions"][0]["worker"]["pid"], signal.SIGKILL)
        check([wait()[0] for wait in waiting] == [503] * 3, "who waits is told")


def certificate_that_ends():
    with tempfile.TemporaryDirectory(prefix="stepd-test-") as folder:
        cert, key = certificate(folder, "soon")
        with Stepd(wait=False, STEPD_TLS_CERT=cert, STEPD_TLS_KEY=key) as t:
            check(until(lambda: os.path.exists(socket_of(t))), "it starts")
            told = [s for s in ask(t)["attention"] if "certificate" in s]
            check(len(told) == 1 and "7 days" in told[0], "a certificate of two days", told)


@fault("status is asked for and not read", "stepd goes on")
def peers_that_do_not_read():
    with Trainer() as t:
        socks = []
        for _ in range(200):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.connect(socket_of(t))
            socks.append(sock)
        check(ask(t)["pid"] == t.process.pid, "others do not keep it from answering")
        check(t.ask("GET", "/healthz")[0] == 200, "nor stepd from its work")
        for sock in socks:
            sock.close()
        check(until(lambda: ask(t)["open_files"] < 40), "all are let go", ask(t)["open_files"])


def no_secret():
    """No token, no URL, no training text: not in the document, not in what stepctl prints."""
    text = "TheTrainingTextOfTheTest"
    with tempfile.TemporaryDirectory(prefix="stepd-test-") as folder:
        cert, key = certificate(folder, "good")
        store = Store(cert, key)
        with Trainer(STEPD_CA_FILE=cert, STEPD_EGRESS_ALLOW="localhost",
                     STEPD_PUBLIC_URL="https://public.example") as t:
            s = t.opened()
            example = {"example_id": text + "Id", "messages": [{"role": "user", "content": text},
                                                              {"role": "assistant", "content": text}]}
            t.ask("POST", "/v1/sessions/%s/datums:render" % s, {"examples": [example]})
            t.train(s, "datum-" + text + "Id")
            check(t.save(s, store.url("/ok/state"))[0] == 200, "saved")
            t.save(s, store.url("/503/state"))
            t.ask("GET", "/v1/sessions/%s?secret=%s" % (s, text))
            t.ask("GET", "/v1/" + text)
            t.ask("POST", "/v1/sessions/%s/batches:train" % s, {"datum_ids": [text], "learning_rate": 1},
                  ("Idempotency-Key: " + text,))
            document = read_document(socket_of(t)).decode()
            for output in (document, stepctl("--socket", socket_of(t)).stdout):
                check(s in output, "it is the document", output)
                for secret in (text, SECRET, SECRET.split("=")[1], TOKEN, "https://", "public.example", "localhost",
                               "/ok/state"):
                    check(secret not in output, "a secret in it", secret, output)


def command():
    absent = stepctl("--socket", "/nowhere/status.sock")
    check(absent.returncode == 3 and "/nowhere/status.sock" in absent.stderr, "nobody there", absent)
    check(stepctl("x").returncode == 2 and stepctl("--what").returncode == 2, "usage")
    notes = stepctl("--help")
    check(notes.returncode == 0 and "exit codes" in notes.stdout and "95 %" in notes.stdout, "help", notes)
    with tempfile.TemporaryDirectory(prefix="stepd-test-") as folder:
        path = os.path.join(folder, "odd.sock")
        for answer, code in ((b"", 3), (b"not JSON", 4), (b'{"detail":"\\u001b[2J no"}', 4)):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(path)
                listener.listen(1)
                run = background(stepctl, "--socket", path)
                peer = listener.accept()[0]
                peer.sendall(answer)
                peer.close()
                got = run()
                check(got.returncode == code and path in got.stderr and "\x1b" not in got.stderr, "odd answers",
                      answer, got)
            os.unlink(path)
    with Trainer() as t:
        s = t.opened()
        t.train(s)
        t.train(s)
        told = stepctl(STEPD_STATE_DIR=t.state)
        document = json.loads(stepctl("--json", "--socket", socket_of(t)).stdout)
        worker = document["sessions"][0]["worker"]
        check(told.returncode == (1 if document["attention"] else 0), "the exit code", told)
        lines = told.stdout.splitlines()
        check(re.match(r"stepd \S+: running, pid %d, up .*, durability disk, memory " % t.process.pid, lines[0]),
              "the first line", lines[0])
        [slot] = [line.split() for line in lines if line.startswith("0 ")]
        check(slot == ["0", "cpu", "taken", s], "a line a slot", slot)
        [head] = [line.split() for line in lines if line.startswith("SESSION")]
        [row] = [line.split() for line in lines if line.startswith(s)]
        row = dict(zip(head, row))
        check(row["STATE"] == "ready" and row["STEP"] == "2" and row["UNSAVED"] == "2" and row["LOSS"] == "0.5" and
              row["WORKER"] == str(worker["pid"]) and row["ENDS"] == "-" and row["REPLAY"] == "2" and
              row["MODEL"] == "org/model" and row["FORMAT"] == "f32", "a line a session", row)
        check(any(line.startswith("state ") and "%" in line for line in lines), "disks", lines)
        check("sandbox of worker %d: " % worker["pid"] in told.stdout, "the sandbox", told.stdout)
        os.kill(worker["pid"], signal.SIGKILL)
        until(lambda: ask(t)["sessions"][0]["restarts"] == 1)
        check("killed=1" in stepctl("--socket", socket_of(t)).stdout, "how workers ended")


def something_to_act_on():
    """A session that cannot be brought back by itself, and a disk that is nearly full."""
    with Trainer() as t:
        s = t.opened()
        t.render(s)
        t.train(s)
        t.set_faults("OPEN:1:refuse")
        os.kill(ask(t)["sessions"][0]["worker"]["pid"], signal.SIGKILL)
        check(until(lambda: ask(t)["sessions"][0]["state"] == "needs_restore"), "it is given up", ask(t))
        d = ask(t)
        check(d["sessions"][0]["worker"] is None and d["slots"][0]["state"] == "free", "no worker", d)
        told = stepctl("--socket", socket_of(t))
        check(told.returncode == 1 and re.search(r"(?m)^attention: session %s has no worker" % s, told.stdout),
              "it has to be restored", told)
        check(stepctl("--json", "--socket", socket_of(t)).returncode == 1, "also with --json")
    small = small_disk("size=4m,nr_inodes=100")
    if small is None:
        return
    with tempfile.TemporaryDirectory(prefix="stepd-test-") as folder:
        path = os.path.join(folder, "s.sock")
        with Trainer(prefix=small, STEPD_STATUS_SOCKET=path) as t:
            root = "/proc/%d/root%s" % (t.process.pid, t.state)
            check(stepctl("--socket", path).returncode == 0, "half empty")
            names = [os.path.join(root, "filler%d" % i) for i in range(100)]
            made = 0
            for name in names:
                try:
                    open(name, "w").close()
                    made += 1
                except OSError:
                    break
            told = stepctl("--socket", path)
            check(made > 50 and told.returncode == 1 and told.stdout.count("attention: ") == 1 and
                  "inodes" in told.stdout.split("attention: ")[-1], "no inodes", made, told)
            for name in names[1:made]:
                os.unlink(name)
            with open(names[0], "wb") as f:
                try:
                    f.write(b"x" * (4 << 20))
                except OSError:
                    pass
            told = stepctl("--socket", path)
            check(told.returncode == 1 and told.stdout.count("attention: ") == 1 and
                  "the disk of the state is full" in told.stdout, "no bytes", told)
            os.unlink(names[0])
            check(stepctl("--socket", path).returncode == 0, "and room again")


whole_document()
workers_that_end()
who_may_ask()
where_it_is()
without_http()
certificate_that_ends()
peers_that_do_not_read()
no_secret()
command()
something_to_act_on()
finish()
