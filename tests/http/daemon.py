"""What the black-box tests share: a real stepd of its own for each test, raw sockets, and counting."""
import json
import os
import re
import select
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile

BUILD = os.environ.get("STEPD_BUILD", "build")
ASAN = "STEPD_ASAN" in os.environ
TOKEN = "token-of-the-tests-0123456789"
BEARER = "Authorization: Bearer " + TOKEN

passed = failed = 0
failures = []  # the checks that failed, by name, with what there was instead


def check(condition, name, *details):
    global passed, failed
    if condition:
        passed += 1
    else:
        failed += 1
        failures.append(" ".join(["failed:", *map(str, (name, *details))]))
        print(failures[-1], flush=True)


def finish():
    """The last lines say what failed, where much was printed since."""
    if failures:
        print("what failed:", *failures, sep="\n")
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(failed != 0)


def request(method, path, body=None, headers=(BEARER,), close=True):
    """The bytes of an ordinary call, with a body of JSON."""
    data = b"" if body is None else json.dumps(body).encode()
    lines = ["%s %s HTTP/1.1" % (method, path), "Host: x", *headers]
    if close:
        lines.append("Connection: close")
    if body is not None:
        lines += ["Content-Type: application/json", "Content-Length: %d" % len(data)]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def children_of(pid):
    """The pids of those that a process's first thread has started; of stepd, its workers."""
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        return [int(child) for child in f.read().split()]


class Stepd:
    """A daemon on a free port with its own state folder; use it in a with statement."""

    def __init__(self, state=None, wait=True, prefix=(), pass_fds=(), **settings):
        self.own = state is None
        self.state = state or tempfile.mkdtemp(prefix="stepd-test-")
        self.log_path = os.path.join(self.state, "test.log")
        env = {k: v for k, v in os.environ.items() if not k.startswith(("STEPD_", "TRAINER_"))}
        env.update(STEPD_LISTEN="127.0.0.1:0", STEPD_STATE_DIR=self.state, TRAINER_TOKEN=TOKEN,
                   STEPD_LOG_LEVEL="debug", STEPD_DEVICES="cpu")
        if not os.path.exists(os.path.join(BUILD, "stepd-worker")):
            env["STEPD_WORKER"] = "/bin/true"
        env.update({k: v for k, v in settings.items() if v is not None})
        for name in [k for k, v in settings.items() if v is None]:
            env.pop(name, None)
        self.log = open(self.log_path, "ab")
        self.process = subprocess.Popen([*prefix, os.path.join(BUILD, "stepd")], env=env,
                                        stdout=subprocess.PIPE, stderr=self.log, pass_fds=pass_fds)
        self.url = self.host = self.port = None
        if wait:
            self.ready()

    def ready(self, seconds=60):
        out = self.process.stdout
        line = b""
        if select.select([out], [], [], seconds)[0]:
            line = out.readline()
        match = re.fullmatch(r"listening on (https?)://(.+):(\d+)\n", line.decode())
        if match is None:
            raise SystemExit("stepd does not listen: %r\n%s" % (line, self.logged()))
        self.url = line.decode().split()[-1]
        self.tls = match.group(1) == "https"
        self.host, self.port = match.group(2), int(match.group(3))

    def logged(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def worker_pids(self):
        return children_of(self.process.pid)

    def kill_workers(self):
        for pid in self.worker_pids():
            os.kill(pid, signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, exception, *_):
        status = self.stop()
        if exception is not None:
            print(self.logged()[-8000:], flush=True)
        check(status == 0, "stepd ends with status 0", status, self.logged()[-2000:])
        if self.own:
            shutil.rmtree(self.state)

    def stop(self, seconds=60):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = "killed: it did not stop"
        self.log.close()
        self.process.stdout.close()
        return status

    def connect(self, timeout=20):
        sock = socket.create_connection((self.host, self.port), timeout=timeout)
        if self.tls:
            context = ssl.create_default_context(cafile=os.path.join(self.state, "tls-cert.pem"))
            sock = context.wrap_socket(sock, server_hostname=self.host)
        return sock

    def exchange(self, raw, timeout=20):
        """One connection with those bytes; its answers and whether it was closed after them."""
        with self.connect(timeout) as sock:
            try:
                sock.sendall(raw)
            except OSError:
                pass
            return read_all(sock)

    def call(self, method, path, body=None, headers=(BEARER,)):
        """One ordinary call: status and body."""
        answers, _ = self.exchange(request(method, path, body, headers))
        return answers[0].status, answers[0].body

    def document(self, path=None):
        """What the status socket says."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.connect(path or os.path.join(self.state, "status.sock"))
            sock.settimeout(60)
            data = b""
            while piece := sock.recv(65536):
                data += piece
        return json.loads(data)

    def memory(self, field="VmRSS"):
        """KiB of resident memory, or its high-water mark (VmHWM)."""
        with open("/proc/%d/status" % self.process.pid) as f:
            return int(re.search(field + r":\s*(\d+) kB", f.read()).group(1))


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def __repr__(self):
        return "%d %r %r" % (self.status, self.headers, self.body[:200])


def read_answer(file, head=False):
    """The next answer of a connection's file, or None at its end."""
    line = file.readline()
    if not line:
        return None
    status = int(re.fullmatch(rb"HTTP/1\.1 (\d\d\d) [^\r\n]+\r\n", line).group(1))
    headers = {}
    while (line := file.readline()) not in (b"\r\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    length = 0 if head or status in (100, 204) else int(headers["content-length"])
    return Answer(status, headers, file.read(length))


def read_all(sock):
    """Every answer up to the connection's end (True), or until nothing comes (False)."""
    answers = []
    file = sock.makefile("rb")
    try:
        while (answer := read_answer(file)) is not None:
            answers.append(answer)
    except TimeoutError:
        return answers, False
    except OSError:
        pass
    return answers, True
