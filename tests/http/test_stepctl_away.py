"""stepctl train while its service goes away: connections cut, answers lost, stepd killed and started again,
its datums with it. The run ends with the very adapter of a run in peace."""
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading

from daemon import BUILD, TOKEN, Stepd, check, finish
from fault_table import fault

STEPCTL = os.path.join(BUILD, "stepctl")
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("STEPD_", "TRAINER_"))}
STEPS = 60


class Relay:
    """Between stepctl and a stepd that may come back at another port. Each answer that arrives while
    `lose` is above 0 is taken away and its connection reset. `rendered` is called as rows have been rendered, before
    stepctl knows it."""

    def __init__(self, stepd):
        self.stepd, self.lose, self.lost = stepd, 0, 0
        self.rendering, self.rendered = False, lambda: None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            down = self.listener.accept()[0]
            down.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            try:
                up = socket.create_connection((self.stepd.host, self.stepd.port))
            except OSError:
                down.close()
                continue
            for pump in (self.requests, self.answers):
                threading.Thread(target=pump, args=(down, up), daemon=True).start()

    def requests(self, down, up):
        try:
            while data := down.recv(65536):
                self.rendering |= b"/datums:render " in data
                up.sendall(data)
            up.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def answers(self, down, up):
        try:
            while data := up.recv(65536):
                if self.rendering:
                    self.rendering = False
                    self.rendered()
                if self.lose > 0:
                    self.lose, self.lost = self.lose - 1, self.lost + 1
                    break
                down.sendall(data)
        except OSError:
            pass
        for sock in (down, up):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            sock.close()


class Run:
    """One stepctl train, whose lines are read as they come."""

    def __init__(self, url, folder, *more):
        self.out = tempfile.mkdtemp(prefix="run-", dir=folder)
        self.said = []
        self.process = subprocess.Popen(
            [STEPCTL, "train", "--data", os.path.join(folder, "rows.jsonl"), "--model", "tiny", "--out", self.out,
             "--batch-size", "2", "--epochs", "20", "--url", url, "--json", *more], env={**CLEAN, "TRAINER_TOKEN": TOKEN},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def until(self, pattern):
        for line in self.process.stderr:
            self.said.append(line)
            if re.match(pattern, line):
                return
        check(False, "stepctl says", pattern, self.said[-10:], self.process.wait())

    def result(self):
        stdout, rest = self.process.communicate(timeout=120)
        return self.process.returncode, stdout, "".join(self.said) + rest

    def adapter(self):
        with open(os.path.join(self.out, "adapter", "adapter_model.safetensors"), "rb") as f:
            return f.read()


def finished(run, name, peace=None):
    code, stdout, stderr = run.result()
    check(code == 0 and json.loads(stdout)["step"] == STEPS, name, code, stdout, stderr[-3000:])
    numbers = re.findall(r"^step (\d+) ", stderr, re.M)
    check(numbers == [str(n + 1) for n in range(STEPS)], name + ": each step once", numbers)
    check(peace is None or run.adapter() == peace, name + ": the adapter of a run in peace")
    return stderr


def in_peace(stepd, folder):
    run = Run(stepd.url, folder)
    finished(run, "in peace")
    return run.adapter()


@fault("stepctl train: answers are lost on their way", "asked again with the same key: each step is done once")
def answers_lost(stepd, folder, peace):
    relay = Relay(stepd)
    run = Run(relay.url, folder)
    for step in (3, 10, 11, 30):
        run.until("step %d " % step)
        relay.lose += 2
    relay.lose += 1
    said = finished(run, "answers lost", peace)
    check(relay.lost >= 8 and said.count("answers again") >= 4, "they were lost", relay.lost, said[-2000:])


@fault("stepctl train: stepd is killed or stopped and started again",
       "it waits, renders the rows again where they are needed, as often as they are, and goes on")
def started_again(start, folder, peace):
    relay = Relay(start())

    def restart(how):
        relay.stepd.process.send_signal(how)
        relay.stepd.process.wait()
        relay.stepd.process.returncode = 0
        relay.stepd.stop()
        relay.stepd = start(relay.stepd.port)  # signed URLs are of that

    def twice():
        if again:
            restart(again.pop())

    run, again = Run(relay.url, folder), []
    for step, how in ((5, signal.SIGKILL), (20, signal.SIGTERM), (40, signal.SIGKILL), (STEPS, signal.SIGKILL)):
        run.until("step %d " % step)
        again += [signal.SIGKILL, signal.SIGTERM]  # while the rows are rendered again, too
        relay.rendered = twice
        restart(how)
    said = finished(run, "started again", peace)
    check(not again and said.count("rendering 6 rows again") >= 10, "rows were rendered again", again, said[-3000:])
    check("answers again" in said, "and it says so", said[-3000:])
    return relay.stepd


def does_not_wait(stepd, folder):
    """Where it was never there; where it shall not; where somebody wants to stop."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        nobody = "http://127.0.0.1:%d" % s.getsockname()[1]
    code, _, stderr = Run(nobody, folder).result()
    check(code == 3 and "trying again" not in stderr, "never there", code, stderr)
    relay = Relay(stepd)
    run = Run(relay.url, folder, "--retry", "0")
    run.until("step 3 ")
    relay.lose = 1 << 30
    code, _, stderr = run.result()
    check(code == 3 and "no answer" in stderr and "trying again" not in stderr, "--retry 0", code, stderr[-2000:])
    relay.lose = 0
    close_all(stepd)
    run = Run(relay.url, folder, "--retry", "1")
    run.until("step 3 ")
    relay.lose = 1 << 30
    code, _, stderr = run.result()
    check(code == 3 and "trying again for 1 s" in stderr, "--retry 1", code, stderr[-2000:])
    relay.lose = 0
    close_all(stepd)
    run = Run(relay.url, folder)
    run.until("step 3 ")
    relay.lose = 1 << 30
    run.until("stepctl: .*trying again")
    run.process.send_signal(signal.SIGINT)
    code, _, stderr = run.result()
    check(code in (3, 130) and "no answer" in stderr, "Ctrl-C while it waits", code, stderr[-2000:])
    relay.lose = 0
    close_all(stepd)


def close_all(stepd):
    for s in json.loads(stepd.call("GET", "/v1/sessions")[1])["sessions"]:
        if s["state"] != "closed":
            stepd.call("DELETE", "/v1/sessions/%s?force=true" % s["session_id"])


def main():
    folder = tempfile.mkdtemp(prefix="stepd-test-")
    state = os.path.join(folder, "state")
    os.mkdir(state, 0o700)
    subprocess.run([sys.executable, "tests/data/models/make_tiny.py", os.path.join(folder, "models", "tiny")],
                   check=True)
    with open(os.path.join(folder, "rows.jsonl"), "w") as f:
        for i in range(6):
            f.write(json.dumps({"prompt": "What is %d plus %d?" % (i, i), "completion": str(2 * i)}) + "\n")

    def start(port=0):
        return Stepd(state=state, STEPD_LISTEN="127.0.0.1:%d" % port, STEPD_MODEL_DIR=os.path.join(folder, "models"),
                     STEPD_THREADS="1", STEPD_CPU_COMPUTE="f32")  # what auto measures is another now and then, and so are the bits

    with start() as stepd:
        peace = in_peace(stepd, folder)
        answers_lost(stepd, folder, peace)
        does_not_wait(stepd, folder)
    with started_again(start, folder, peace):
        pass
    shutil.rmtree(folder)


main()
finish()
