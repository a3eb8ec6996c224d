"""One run: its stepd, its client and, where it is disturbed, those who disturb it."""
import os
import random
import threading
import time

from client import TOKEN, Client, Connector, Lost, OverTime
from daemon import BUILD
from disturber import OF_GET, OF_PUT, Disturber
from faulty_store import certificate
from keeper import Disk, Keeper, free_port
from ledger import Ledger
from proxy import Proxy
from store import GET_FAULTS, LyingStore

WORKER_SECONDS = "6"  # for whatever a worker is asked: it takes milliseconds, but the machine may be busy
IN_PEACE = 150  # seconds for what is left when the disturbance is over


class Reader:
    """Reads the status all the time: it never goes back, and never ahead of what was asked for."""

    def __init__(self, client, keeper, ledger):
        self.client, self.keeper, self.ledger = client, keeper, ledger
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over.wait(0.02 if self.ledger.pending else 0.1):
            before, session, began = self.ledger.least, self.client.session, time.monotonic()
            worker = self.keeper.worker()
            try:
                answer = self.client.connector.once("GET", "/v1/sessions/" + session, None, None)
            except Lost:
                continue
            except OverTime:
                return  # the client says so
            if answer.status != 200:
                if not self.client.allowed(answer, began):
                    self.ledger.problem("status is answered by", answer.status, answer.body)
                continue
            self.ledger.observe(before, answer.body)
            if worker is not None and answer.body["state"] in ("ready", "training", "saving"):
                self.ledger.well(began, worker)

    def stop(self):
        self.over.set()
        self.thread.join(90)


class Run:
    """The plan (what is trained, rendered and saved) follows from the seed, so that two runs do the
    same; everything else is drawn from rng."""

    def __init__(self, name, args, folder, rng, disturbed):
        self.args, self.rng = args, rng
        self.folder = os.path.join(folder, name)
        self.state, self.models = os.path.join(self.folder, "state"), os.path.join(folder, "models")
        os.makedirs(self.state, mode=0o700)
        self.log = os.path.join(self.folder, "stepd.log")
        self.certificate, key = certificate(self.folder, "store")
        self.store, self.ledger = LyingStore(self.certificate, key), Ledger(self.log)
        self.disk = Disk(self.state, disturbed and args.small_disk)
        # The seconds are for the disturbance; what comes after it is bounded too.
        deadline = time.monotonic() + (args.seconds if disturbed else 0) + IN_PEACE
        port = free_port(rng)
        # Sealed on the disk, datums need never be rendered again, whatever happens to stepd.
        self.sealed, self.starts = rng.random() < 0.5, random.Random(rng.random())
        self.keeper = Keeper(os.path.join(BUILD, "stepd"), self.settings, self.log, port, self.disk,
                             self.ledger)
        self.connector = Connector(self.keeper, Proxy(("127.0.0.1", port)), self.ledger, rng, self.state,
                                   deadline)
        self.client = Client(self.connector, self.store, self.disk, self.ledger, self.sealed)
        self.disturber = self.reader = None
        if disturbed:
            self.store.on_fault = lambda method, fault: self.ledger.fault(
                (OF_PUT if method == "PUT" else OF_GET)[fault])
            self.disturber = Disturber(self.keeper, self.connector, self.store, self.disk, self.ledger,
                                       random.Random(rng.random()), args.without)
        self.trained, self.answers, self.final, self.status = [], [], None, None

    def settings(self):
        """Of the next stepd."""
        values = {"STEPD_STATE_DIR": self.state, "STEPD_MODEL_DIR": self.models, "TRAINER_TOKEN": TOKEN,
                  "STEPD_CA_FILE": self.certificate, "STEPD_EGRESS_ALLOW": "localhost",
                  "STEPD_WORKER": os.path.abspath(os.path.join(BUILD, "stepd-worker")),
                  "STEPD_THREADS": "1", "STEPD_CPU_COMPUTE": "f32", "STEPD_SNAPSHOT_STEPS": "8",
                  "STEPD_STALL_TIMEOUT": "2", "STEPD_TRANSFER_TIMEOUT": "4", "STEPD_END_TIMEOUT": "2",
                  "STEPD_DISK_RESERVE": "0", "STEPD_LOG_LEVEL": "debug"}
        for what in ("READY", "LOAD", "RENDER", "TRAIN", "SAVE"):
            values["STEPD_%s_TIMEOUT" % what] = WORKER_SECONDS
        values["STEPD_PERSIST_DATA"] = "true" if self.sealed else "false"
        if self.starts.random() < 0.5:
            values["STEPD_TLS_CERT"] = "auto"
        return values

    def whole(self):
        """False: it did not come to its end; the ledger says why."""
        try:
            if not self.keeper.up.wait(60):
                raise RuntimeError("stepd did not start")
            self.steps()
        except (OverTime, RuntimeError) as error:
            self.ledger.problem(str(error))
        finally:
            if self.disturber is not None:
                self.disturber.stop()
            if self.reader is not None:
                self.reader.stop()
            status = self.keeper.end()
            self.disk.end()
        for problem in self.keeper.problems:
            self.ledger.problem(problem)
        if status != 0:
            self.ledger.problem("the last stepd ended with status %r" % status)
        return self.final is not None

    def steps(self):
        client, plan, count = self.client, random.Random(self.args.seed), self.args.steps
        names = ["word-%d" % i for i in range(5)]
        client.open("open-1", base_model="tiny")
        client.render("render-0", *names)
        self.reader = Reader(client, self.keeper, self.ledger)
        if self.disturber is not None:
            self.disturber.start()
        began = time.monotonic()
        for i in range(count):
            if self.disturber is not None:
                self.pace(i, began)
            if i == count // 2:
                self.resume(names)
            if i % 10 == 9:
                names.append("word-%d" % len(names))
                client.render("render-%d" % i, names[-1])
            if i % 10 == 4:
                self.save("save-%d" % i, plan.choice(("state", "sampling")))
            self.step(i, plan.sample(names, 2))
        if self.disturber is not None:
            self.disturber.stop()
        self.again()
        self.save("final", "state")
        self.reader.stop()
        self.status = client.status()
        client.close()
        self.final = self.store.objects.get("/saved/final")

    def step(self, i, names):
        self.ledger.begin_step()
        number, body = self.client.train("step-%d" % i, names)
        if number != i + 1:
            self.ledger.problem("the step after %d was told as %d" % (i, number))
        self.trained.append(names)
        self.answers.append(body)
        if self.disturber is not None:
            self.disturber.answered()

    def pace(self, i, began):
        """Faults are spread over the steps, for as long as there is time for them."""
        while self.disturber.issued < i * self.args.faults / self.args.steps:
            if time.monotonic() - began > self.args.seconds:
                self.disturber.stop()
            if self.disturber.over.is_set() or self.disturber.needs_request:
                return
            time.sleep(0.02)

    def save(self, name, kind):
        saved = self.client.save(name, kind, name)
        data = self.store.objects.get("/saved/" + name)
        if data is None or len(data) != saved["size_bytes"]:
            self.ledger.problem("called saved, but the store does not have it:", name, saved)

    def resume(self, names):
        """Goes on in another session, from what was saved, through a store that fails."""
        self.save("half", "state")
        self.client.close()
        if self.disturber is not None and not self.disturber.over.is_set():
            for fault in GET_FAULTS:
                self.store.arm("GET", fault)
        self.client.open("open-2", base_model="tiny", resume_download_url=self.store.url("/saved/half"))
        self.client.render("render-again", *names)

    def again(self):
        """Every key of the session once more: the same answers, and no step."""
        for i in range(self.args.steps // 2, self.args.steps):
            if self.client.train("step-%d" % i, self.trained[i]) != (i + 1, self.answers[i]):
                self.ledger.problem("the key of step %d has another answer now" % (i + 1))
