"""GPUs as stepd knows them: what a probe tells, and what becomes of one that hangs, lies or fails."""
import json
import os
import shutil
import signal
import stat
import tempfile
import time

from daemon import BUILD, check, finish
from fault_table import held
from trainer import FAULT_WORKER, Trainer

UUIDS = ["GPU-00000000-0000-0000-0000-00000000000%d" % i for i in range(3)] + ["MIG-aa-bb", "MIG-cc-dd"]


SCRIPT = """#!/bin/sh
if [ "$1" = --probe ]; then
	tr "\\0" "\\n" </proc/$$/environ >FOLDER/state/probe.env
	ls /proc/self/fd >FOLDER/state/probe.fds
	echo probe >>FOLDER/state/probes
	what=answer
	[ "$STEPD_SANDBOX" = off ] && [ -e FOLDER/answer.off ] && what=answer.off
	[ -n "$CUDA_VISIBLE_DEVICES" ] && [ -e "FOLDER/answer.$CUDA_VISIBLE_DEVICES" ] && what=answer.$CUDA_VISIBLE_DEVICES
	cat FOLDER/$what
	AFTER
	exit
fi
tr "\\0" "\\n" </proc/$$/environ >FOLDER/state/gpu.$CUDA_VISIBLE_DEVICES
exec "FAULT_WORKER" $(cat FOLDER/faults) "$@"
"""


def device(index, error=None, **other):
    return {"index": index, "name": "Card %d" % index, "uuid": UUIDS[index], "pci_bus_id": "0000:3%d:00.0" % index, "memory_bytes": 24 << 30,
            "memory_free_bytes": 23 << 30, "compute_capability": "8.6", "driver": 12040, "runtime": 12040,
            "verified": error is None, "error": error, **other}


def answer(*devices, **other):
    return json.dumps({"backend": "cuda", "error": None, "devices": list(devices), **other})


class Gpus(Trainer):
    """A worker for GPUs that probes as told, and else is the fault worker. Both leave their environment. `outside`:
    what a probe says outside of the sandbox; `parts`: what it says where it sees that part of a GPU alone."""

    def __init__(self, say, after="", folder=None, outside=None, parts=None, **settings):
        folder = folder or tempfile.mkdtemp(prefix="stepd-test-")
        self.cuda = os.path.join(folder, "worker-cuda")
        with open(self.cuda, "w") as f:
            f.write(SCRIPT.replace("FOLDER", folder).replace("AFTER", after).replace("FAULT_WORKER", FAULT_WORKER))
        os.chmod(self.cuda, stat.S_IRWXU)
        for name, words in [("answer", say), ("answer.off", outside)] + [("answer." + p, w) for p, w in (parts or {}).items()]:
            if words is not None:
                with open(os.path.join(folder, name), "w") as f:
                    f.write(words)
        open(os.path.join(folder, "faults"), "w").close()
        super().__init__(folder=folder, STEPD_WORKER_CUDA=self.cuda, **{"STEPD_READY_TIMEOUT": "30", "STEPD_DEVICES": "auto", **settings})

    def health(self):
        h = self.ask("GET", "/healthz")[1]
        return h["cuda_available"], h["cuda_verified"]

    def say(self, name, words):
        """What the probes to come say, or the faults of workers to come."""
        with open(os.path.join(self.folder, name + ".new"), "w") as f:
            f.write(words)
        os.rename(os.path.join(self.folder, name + ".new"), os.path.join(self.folder, name))

    def slots(self):
        return [(slot["device"], slot["state"]) for slot in self.document()["slots"]]

    def until_slots(self, *wanted):
        """Waits for them: the loop answers meanwhile."""
        end = time.monotonic() + 60
        while self.slots() != list(wanted) and time.monotonic() < end:
            time.sleep(0.02)
        check(self.slots() == list(wanted), "slots", wanted, self.slots(), self.logged()[-2000:])

    def look(self, words, *wanted):
        self.say("answer", words)
        self.process.send_signal(signal.SIGHUP)
        self.until_slots(*wanted)

    def attention(self):
        return [a for a in self.document()["attention"] if "GPU" in a]

    def probed(self):
        return self.left("probes").count("probe")

    def left(self, name):
        with open(os.path.join(self.state, name)) as f:
            return f.read()


with Gpus(answer(device(0), device(1)), SECRET_OF_TEST="s") as t:
    check(t.health() == (True, True), "two GPUs", t.health())
    for i in (0, 1):
        check("GPU %d: Card %d, %s, 24576 MiB, compute capability 8.6" % (i, i, UUIDS[i]) in t.logged(), "told", i)
    check("TOKEN" not in t.left("probe.env") and "SECRET" not in t.left("probe.env"), "the environment is clean")
    check("CUDA_DEVICE_ORDER=PCI_BUS_ID\n" in t.left("probe.env"), "counted as nvidia-smi does")
    # ls has the folder open itself
    check(t.left("probe.fds").split() == ["0", "1", "2", "3"], "no descriptor but three", t.left("probe.fds"))

with Gpus(answer(device(0, "0 of 561 elements of a product are right"))) as t:
    check(t.health() == (True, False), "a check that failed", t.health())
    check("GPU 0: Card 0, %s: not used: 0 of 561" % UUIDS[0] in t.logged(), "told")

with Gpus(answer({"index": 0, "verified": False, "error": "no such device\n\x1b[2J"}, device(1))) as t:
    check(t.health() == (True, True), "one of two", t.health())
    check("no such device  [2J" in t.logged(), "no control character in the log")

WRONG = {
    "hangs": (answer(device(0)), "exec sleep 600", "had not ended within"),
    "closes its answer and hangs": (answer(device(0)), "exec >&-; exec sleep 600", "had not ended within"),
    "ignores TERM and hangs": ("", "trap '' TERM; while :; do sleep 1; done", "had not ended within"),
    "leaves a child that hangs": (answer(device(0)), "sleep 600 & exit 0", "had not ended within"),
    "fails": (answer(device(0)), "exit 3", "it failed"),
    "is killed": (answer(device(0)), "kill -9 $$", "it failed"),
    "says nothing": ("", "", "not the answer"),
    "prints garbage": ("\0\xff{", "", "not the answer"),
    "prints two answers": (answer(device(0)) * 2, "", "not the answer"),
    "does not stop": (answer(device(0)), "while :; do echo; done", "not the answer"),
    "says too much": (answer(device(0)) + " " * 65536, "", "not the answer"),
    "is deep": ("[" * 30000, "", "not the answer"),
    "has words before": ("hello\n" + answer(device(0)), "", "not the answer"),
    "has a list": ("[]", "", "not the answer"),
    "has no devices": (json.dumps({"backend": "cuda", "error": None}), "", "not the answer"),
    "has another backend": (answer(device(0), backend="cpu"), "", "not the answer"),
    "has too many": (answer(*[dict(device(0), index=i, uuid="GPU-%d" % i) for i in range(17)]), "", "not the answer"),
    "has one twice": (answer(device(0), device(1, uuid=UUIDS[0])), "", "not the answer"),
    "skips an index": (answer(device(1)), "", "not the answer"),
    "has an id that is none": (answer(device(0, uuid="GPU-0,GPU-1")), "", "not the answer"),
    "has no id": (answer(device(0, uuid="")), "", "not the answer"),
    "has a long id": (answer(device(0, uuid="GPU-" + "0" * 60)), "", "not the answer"),
    "is verified with an error": (answer(device(0, verified=True, error="wrong")), "", "not the answer"),
    "is wrong without an error": (answer(device(0, verified=False)), "", "not the answer"),
    "verifies by a number": (answer(device(0, verified=1)), "", "not the answer"),
    "has memory below nothing": (answer(device(0, memory_bytes=-1)), "", "not the answer"),
}
for name, (say, after, words) in WRONG.items():
    slow = {"STEPD_READY_TIMEOUT": "1"} if "hangs" in name else {}
    with Gpus(say, after, **slow) as t:
        check(t.health() == (False, False) and words in t.logged(), "a probe that " + name, t.health(), t.logged())
        check(t.open()[0] == 200 if name == "hangs" else True, "the CPU trains")

held("a driver hangs, ends or lies when it is asked for GPUs",
     "no GPU is used, and the log says why; stepd starts, and the CPU trains")

with Gpus(answer(error="no driver")) as t:
    check(t.health() == (False, False) and "there is no GPU: no driver" in t.logged(), "none")
    check(t.left("probes") == "probe\n", "asked once")
with Gpus(answer(device(0)), STEPD_DEVICES="cpu") as t:
    check(t.health() == (False, False) and not os.path.exists(os.path.join(t.state, "probe.env")),
          "cpu: nobody is asked")
missing = Trainer(STEPD_WORKER_CUDA="/no/such/program", wait=False)
check(missing.process.wait(30) == 2 and "STEPD_WORKER_CUDA is no program" in missing.logged(), "refused", missing.logged())
missing.stop()
missing.set_faults()
folders = Trainer(folder=missing.folder, STEPD_WORKER_CUDA=missing.folder, wait=False)
check(folders.process.wait(30) == 2 and folders.logged().count("STEPD_WORKER_CUDA is no program") == 2, "no folder either",
      folders.logged())
folders.stop()

# Where GPUs are asked for and the program for them was not built.
alone = os.path.join(missing.folder, "stepd")
shutil.copy(os.path.join(BUILD, "stepd"), alone)
with Trainer(folder=missing.folder, STEPD_DEVICES="0", prefix=("sh", "-c", 'exec "%s"' % alone)) as t:
    check("there is no stepd-worker-cuda beside stepd (make cuda builds it)" in t.logged(), "told", t.logged())
    check(t.open()[0] == 503 and any("no session can be opened" in a for a in t.document()["attention"]), "attention",
          t.document())

def closed(*sessions):
    for s in sessions:
        check(t.close(s, "?force=true")[0] in (200, 204), "closes", s)


# One session a GPU, and each worker sees its own.
with Gpus(answer(device(0), device(1)), CUDA_VISIBLE_DEVICES="0,1,5") as t:
    a, b = t.opened(), t.opened()
    check(t.open()[0] == 409, "the third")
    for s, i in (a, 0), (b, 1):
        env = t.left("gpu." + UUIDS[i]).splitlines()
        check([e for e in env if e.startswith("CUDA_VISIBLE")] == ["CUDA_VISIBLE_DEVICES=" + UUIDS[i]], "one GPU", env)
        check([e for e in env if e.startswith("STEPD_GPU")] == ["STEPD_GPU_BUS=0000:3%d:00.0" % i], "its place", env)
        check(not any("TOKEN" in e for e in env), "no token", env)
        check(t.status(s)["device"] == "Card %d" % i, "its name", t.status(s))
        t.render(s, "e")
        check(t.train(s)[0] == 200, "it trains")
    check([(x["device"], x["state"]) for x in t.document()["slots"]] == [(UUIDS[0], "taken"), (UUIDS[1], "taken")],
          "slots", t.document()["slots"])
    closed(a)
    c = t.opened()
    check(t.status(c)["device"] == "Card 0" and t.open()[0] == 409, "the slot of one that was closed")
    closed(b, c)

with Gpus(answer(device(0), device(1), device(2, "wrong")), STEPD_DEVICES="2,%s" % UUIDS[1]) as t:
    a = t.opened()
    check(t.status(a)["device"] == "Card 1" and t.open()[0] == 409, "by UUID; not one that failed", t.status(a))
    closed(a)

with Gpus(answer(device(0, uuid=UUIDS[3])), STEPD_DEVICES=UUIDS[3]) as t:
    closed(t.opened())
    check("CUDA_VISIBLE_DEVICES=" + UUIDS[3] in t.left("gpu." + UUIDS[3]), "a part of a GPU")

# Asked for, and none computes.
for name, say, wanted in (("auto, failed", answer(device(0, "wrong")), "auto"),
                          ("named, failed", answer(device(0, "wrong")), "0"),
                          ("named, none found", answer(), UUIDS[0]),
                          ("named, no answer", "garbage", "0")):
    with Gpus(say, STEPD_DEVICES=wanted) as t:
        status, body, _ = t.open()
        check(status == 503 and body == {"detail": "accelerator unavailable"}, name, status, body)

# A part of a GPU that is named has a probe of its own; CUDA shows the first one to a program that names none.
ONE, OTHER = UUIDS[3:]
with Gpus(answer(device(0, uuid=ONE)), parts={OTHER: answer(device(0, uuid=OTHER, name="Part"))}, STEPD_DEVICES=ONE + "," + OTHER) as t:
    a, b = t.opened(), t.opened()
    check([t.status(s)["device"] for s in (a, b)] == ["Card 0", "Part"], "both parts")
    check("CUDA_VISIBLE_DEVICES=" + OTHER in t.left("gpu." + OTHER), "a part sees itself")
    closed(a, b)
t = Gpus(answer(device(0, uuid=ONE)), parts={OTHER: answer()}, STEPD_DEVICES=OTHER, wait=False)
check(t.process.wait(30) == 1 and '"%s" is not there' % OTHER in t.logged(), "a part that is not there", t.logged())
t.stop()
shutil.rmtree(t.folder)

# What computes outside of the sandbox alone is not used, and the log says why.
WORDS = "it computes, but not in the sandbox of workers (STEPD_SANDBOX): "
for name, inside, after, why in (
        ("a device fails", answer(device(0, "cudaMalloc: no")), "", "cudaMalloc: no"),
        ("no device", answer(error="cuInit: no", driver_loaded=True), "", "cuInit: no"),
        ("it is ended", "", '[ "$STEPD_SANDBOX" = off ] || kill -SYS $$', "the probe failed")):
    with Gpus(inside, after, outside=answer(device(0))) as t:
        check("GPU 0: Card 0, %s: not used: %s%s" % (UUIDS[0], WORDS, why) in t.logged(), name, t.logged())
        check(t.health() == (True, False) and t.open()[0] == 503, name)
        check(t.left("probes") == "probe\n" * 2, "asked twice")
with Gpus(answer(device(0, "cudaMalloc: no")), outside=answer(device(0, "cudaMalloc: no"))) as t:
    check("not used: cudaMalloc: no" in t.logged() and WORDS not in t.logged(), "it never computes", t.logged())
with Gpus(answer(device(0, "wrong")), STEPD_SANDBOX="off") as t:
    check(t.left("probes") == "probe\n", "nothing to compare")
with Gpus(answer(error="no\x1bdevice", driver_loaded=True), outside=answer()) as t:
    check("no GPU is used: no device" in t.logged() and "nvidia-modprobe -c0 -u" in t.logged(), "nodes", t.logged())
    closed(t.opened())

held("a driver does what the sandbox of workers does not know",
     "its GPU is not used, and the log says that it computes outside only")

# 2: what makes no sense whatever GPUs there are.
for wanted, code, word in (("1", 1, '"1" is not there'), (UUIDS[2][:-1], 1, '"%s" is not there' % UUIDS[2][:-1]),
                           ("0,0", 2, "only once"), ("0,", 2, '"" is not'), ("00", 2, '"00" is not'), ("0,cpu", 2, '"cpu" is not'),
                           ("gpu", 2, '"gpu" is not'), ("0," + UUIDS[0], 1, "only once")):
    t = Gpus(answer(device(0)), STEPD_DEVICES=wanted, wait=False)
    check(t.process.wait(30) == code and "STEPD_DEVICES: " in t.logged() and word in t.logged(), "refused: " + wanted,
          t.logged())
    t.stop()
    shutil.rmtree(t.folder)

# A session stays on its kind of device, and waits for it.
KEEP = {"STEPD_PERSIST_DATA": "true"}


def again(t, say, **settings):
    t.end(signal.SIGKILL)
    return Gpus(say, folder=t.folder, **KEEP, **settings)


def until(t, s, state):
    end = time.monotonic() + 60
    while (st := t.status(s))["state"] != state and time.monotonic() < end:
        time.sleep(0.02)
    check(st["state"] == state and st["step"] == 1, "it comes to " + state, st)
    return st


t = Gpus(answer(device(0)), **KEEP)
s = t.opened()
t.render(s, "e")
check(t.train(s)[0] == 200, "a step on a GPU")
t = again(t, answer())
check("was on a GPU" in until(t, s, "needs_restore")["reason"], "no GPU: not on the CPU", t.status(s))
other = t.opened()
check(t.status(other)["device"] == "cpu", "the CPU is free for others")
t.render(other, "e")
check(t.train(other)[0] == 200, "a step on the CPU")
t = again(t, answer(device(0, uuid=UUIDS[2], name="New")))
check(until(t, s, "ready")["device"] == "New", "another GPU: it is back", t.status(s))
check("was on the CPU" in until(t, other, "needs_restore")["reason"], "the other waits", t.status(other))
check(t.train(s)[2].get("stepd-step") == "2", "and goes on")
t.__exit__(None)

# GPUs come and go while stepd runs.
A, B = UUIDS[:2]
with Gpus(answer(device(0))) as t:
    check(t.slots() == [(A, "free")] and t.attention() == [], "one", t.slots(), t.attention())
    t.look(answer(device(0), device(1)), (A, "free"), (B, "free"))
    a = t.opened()
    # One that a session has is not computed on.
    t.look(answer(device(0, "a session has it", held=True), device(1, "cudaMalloc: no")), (A, "taken"), (B, "closed"))
    check("STEPD_GPUS_HELD=%s\n" % A in t.left("probe.env"), "held", t.left("probe.env"))
    check(t.attention() == ["GPU 1 (Card 1, %s) is not used: cudaMalloc: no" % B], "attention", t.attention())
    check(t.health() == (True, True), "the other one computes")
    check(t.open()[0] == 409, "no other session")
    t.look(answer(device(0, "a session has it", held=True), device(1)), (A, "taken"), (B, "free"))
    check(t.attention() == [], "no attention", t.attention())
    b = t.opened()
    check(t.status(b)["device"] == "Card 1", "it has sessions again", t.status(b))
    t.render(a, "e")
    # A session stays, also where its GPU is gone.
    t.look(answer(device(0, "a session has it", held=True)), (A, "taken"), (B, "taken"))
    check(t.train(a)[0] == 200, "and works")
    closed(a, b)
    t.until_slots((A, "free"), (B, "closed"))
    check(t.attention() == ["GPU %s, Card 1, is gone" % B], "gone", t.attention())
    t.look(answer(), (A, "closed"), (B, "closed"))
    check(t.health() == (False, False) and t.open()[0] == 503, "none is left")
    t.look("garbage", (A, "closed"), (B, "closed"))
    t.look(answer(device(0, uuid=B)), (A, "closed"), (B, "free"))
    t.look(answer(device(0, uuid=B), device(1, uuid=UUIDS[2])), (A, "closed"), (B, "free"), (UUIDS[2], "free"))
    closed(t.opened(), t.opened())

with Gpus(answer(device(0), device(1)), STEPD_DEVICES="1") as t:
    t.look(answer(device(0), device(1), device(2)), (B, "free"))
    check(t.attention() == [], "others are not meant")

# An index stays with its GPU: when one has gone, the driver counts anew.
with Gpus(answer(device(0), device(1), device(2)), STEPD_DEVICES="0,1") as t:
    t.look(answer(device(0, uuid=B), device(1, uuid=UUIDS[2], error="wrong")), (A, "closed"), (B, "free"))
    check(t.attention() == ["GPU %s, Card 0, is gone" % A], "others are not meant", t.attention())
    t.look(answer(device(0, uuid=B), device(1, uuid=UUIDS[2])), (A, "closed"), (B, "free"))
    t.look(answer(device(0), device(1), device(2)), (A, "free"), (B, "free"))

# One that failed while the machine was off does not keep the others from their sessions.
with Gpus(answer(device(0, uuid=B)), STEPD_DEVICES="%s,%s" % (A, B)) as t:
    check(t.slots() == [(B, "free")] and "GPU %s is not there" % A in t.logged(), "the others", t.slots(), t.logged())
    check(t.attention() == ["GPU %s of STEPD_DEVICES is not there" % A], "attention", t.attention())
    closed(t.opened())
    t.look(answer(device(0), device(1)), (B, "free"), (A, "free"))
    check(t.attention() == [], "it came", t.attention())

with Gpus(answer()) as t:
    cpu = t.opened()
    t.look(answer(device(0)), ("cpu", "taken"), (A, "free"))
    gpu = t.opened()
    check(t.status(gpu)["device"] == "Card 0" and t.open()[0] == 409, "the first GPU", t.status(gpu))
    t.render(cpu, "e")
    check(t.train(cpu)[0] == 200, "the CPU's session stays")
    closed(cpu, gpu)
    t.until_slots(("cpu", "closed"), (A, "free"))
    check(t.attention() == [], "no attention", t.attention())

# Who finds no slot has it looked for, but not each time.
with Gpus(answer(device(0))) as t:
    a = t.opened()
    t.say("answer", answer(device(0, "a session has it", held=True), device(1)))
    check(t.open()[0] == 409, "no slot")
    t.until_slots((A, "taken"), (B, "free"))
    b = t.opened()
    check(t.open()[0] == t.open()[0] == 409 and t.probed() == 2, "looked for once", t.probed())
    closed(a, b)

# Who opens a session while its GPU is looked at does not share its memory with the probe, which ends and begins
# again without that GPU; what it found there is no fault of the GPU.
folder = tempfile.mkdtemp(prefix="stepd-test-")
hold = os.path.join(folder, "hold")
with Gpus(answer(device(0)), 'while [ -e "%s" ]; do sleep 0.05; done' % hold, folder=folder) as t:
    open(hold, "w").close()
    t.say("answer", answer(device(0, "cudaMalloc: no memory")))
    t.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 60
    while t.probed() < 2 and time.monotonic() < end:
        time.sleep(0.02)
    a = t.opened()
    while t.probed() < 3 and time.monotonic() < end:
        time.sleep(0.02)
    check(t.probed() == 3 and "STEPD_GPUS_HELD=%s\n" % A in t.left("probe.env"), "begun again", t.probed(), t.left("probe.env"))
    t.process.send_signal(signal.SIGHUP)
    os.unlink(hold)
    # each search asks twice about a GPU that fails: outside of the sandbox too
    while t.probed() < 6 and time.monotonic() < end:
        time.sleep(0.02)
    found = t.probed(), t.slots(), t.attention()
    check(found == (6, [(A, "taken")], []), "nothing to act on", found)
    check(t.health() == (True, True) and "not used" not in t.logged(), "it computes", t.health(), t.logged()[-1000:])
    t.say("answer", answer(device(0)))
    closed(a)
    t.until_slots((A, "free"))

# A worker that cannot use its GPU: looked at when it is given back.
with Gpus(answer(device(0))) as t:
    t.say("faults", "OPEN:1:device")
    t.say("answer", answer(device(0, "cudaSetDevice: no")))
    status, body, _ = t.open()
    check(status == 503 and "by the fault" in body["detail"], "told", status, body)
    t.until_slots((A, "closed"))
    check(t.open()[0] == 503, "not a second time")

held("GPUs come, fail and go while stepd runs",
     "they have slots, open or closed, whatever index the others have then; sessions stay where they are")
held("one of the GPUs that STEPD_DEVICES names is not there", "the others are used; the log and stepctl status say it")

# A driver that hangs holds nobody up, nor a stop.
def hang(t):
    with open(t.cuda) as f:
        script = f.read()
    t.say("worker-cuda", script.replace("\tcat ", "\texec sleep 600 # "))
    os.chmod(t.cuda, stat.S_IRWXU)
    t.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 60
    while t.probed() < 2 and time.monotonic() < end:
        time.sleep(0.02)
    check(t.probed() == 2 and t.health() == (True, True), "it answers")


with Gpus(answer(device(0)), STEPD_READY_TIMEOUT="1") as t:
    hang(t)
    t.until_slots((A, "closed"))
    check("had not ended within" in t.logged(), "told", t.logged())
with Gpus(answer(device(0)), STEPD_READY_TIMEOUT="600") as t:
    hang(t)
held("a driver hangs while GPUs are looked for again",
     "requests are answered, its slots are closed, a stop does not wait for it")
finish()
