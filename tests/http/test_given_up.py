"""What a session lacked at a start (its model, its spool, a newer stepd) may be there at the next one:
it comes back then, with every step. Nothing of it is removed or changed meanwhile."""
import os
import shutil
import time

from daemon import check, finish
from fault_table import held
from store_edit import read_table, write_table
from trainer import Trainer

SETTINGS = {"STEPD_PERSIST_DATA": "true", "STEPD_SNAPSHOT_STEPS": "2"}


class Run:
    """Three steps of the fault worker; the snapshot is of the second."""

    def __init__(self):
        self.t = Trainer(**SETTINGS)
        self.s = self.t.opened()
        self.t.render(self.s, "e")
        for _ in range(3):
            check(self.t.train(self.s)[0] == 200, "trained")
        self.until(lambda st: st["replay_steps"] == 1)

    def until(self, done):
        end = time.monotonic() + 60
        while not done(st := self.t.status(self.s)) and time.monotonic() < end:
            time.sleep(0.02)
        check(done(st), "it comes to what is waited for", st)
        return st

    def restart(self, between=lambda state: None, faults=(), **settings):
        self.t.process.kill()
        self.t.process.wait()
        self.t.log.close()
        self.t.process.stdout.close()
        between(self.t.state)
        self.t = Trainer(*faults, folder=self.t.folder, **{**SETTINGS, **settings})

    def gives_up(self, why):
        st = self.until(lambda st: st["state"] == "needs_restore")
        check(why in st["reason"], "it says why", why, st)
        check(st["step"] == 3 and not self.t.active(), "it keeps its steps and no device", st)

    def comes_back(self):
        st = self.until(lambda st: st["state"] == "ready")
        check(st["step"] == 3 and st["replay_differences"] == 0, "every step", st)
        status, _, headers = self.t.train(self.s)
        check(status == 200 and headers["stepd-step"] == "4", "and it goes on", status, headers)
        self.t.__exit__(None)


def rename(*names):
    def between(state):
        os.rename(os.path.join(state, names[0]), os.path.join(state, names[1]))
    return between


def without_model():
    run = Run()
    run.restart(STEPD_MODEL_DIR=os.path.join(run.t.folder, "state"))
    run.gives_up("no model")
    run.restart()
    run.comes_back()
    held("a model is not there when stepd starts", "the session waits; it is back when the model is")


def without_spool():
    run = Run()
    run.restart(rename("spool", "away"))
    run.gives_up("spool")

    def back(state):
        shutil.rmtree(os.path.join(state, "spool"), ignore_errors=True)
        os.rename(os.path.join(state, "away"), os.path.join(state, "spool"))
    run.restart(back)
    run.comes_back()
    held("the disk of the spool is not there when stepd starts",
         "the session waits; it is back when the disk is")


def without_store():
    """An empty store beside a full spool is somebody's mistake, and no reason to remove anything."""
    run = Run()
    files = [n for n in os.listdir(os.path.join(run.t.state, "spool")) if n.startswith(run.s)]
    run.restart(rename("store", "away"))
    check(run.t.ask("GET", "/v1/sessions/" + run.s)[0] == 404, "not known")
    run.restart()
    for folder, names in (("spool", files), ("datums", [run.s])):
        there = os.listdir(os.path.join(run.t.state, folder))
        check(set(names) <= set(there), "nothing is removed", folder, names, there)

    def back(state):
        shutil.rmtree(os.path.join(state, "store"))
        os.rename(os.path.join(state, "away"), os.path.join(state, "store"))
    run.restart(back)
    run.comes_back()
    held("the store is not there when stepd starts", "snapshots and datums are left as they are")


def version_bytes(state, table, version):
    """Writes it into every record of a table; what was there before."""
    records = read_table(state, table)
    write_table(state, table, {key: bytes([version]) + record[1:] for key, record in records.items()})
    return list(records.values())


def newer_records():
    """A stepd that is older than the records leaves them; not even :restore goes over them."""
    for table in ("journal", "anchors"):
        run = Run()
        t, s = run.t, run.s
        place = t.sign()
        saved = t.save(s, place["put_url"])
        check(saved[0] == 200, "saved", saved)
        check(t.train(s)[0] == 200, "a step behind it")
        run.restart(lambda state: version_bytes(state, table, 9))
        st = run.until(lambda st: st["state"] == "needs_restore")
        check("newer stepd" in st["reason"] and st["step"] == 4, "it says why", table, st)
        status, body, _ = run.t.ask("POST", "/v1/sessions/%s:restore" % s,
                                    {"restore_url": place["get_url"]})
        check(status == 409 and "newer stepd" in body["detail"], "nothing goes over them", table, body)

        def back(state):
            records = version_bytes(state, table, 1)
            check(records and all(r[0] == 9 for r in records), "untouched", table, records)
        run.restart(back)
        st = run.until(lambda st: st["state"] == "ready")
        check(st["step"] == 4 and st["replay_differences"] == 0, "every step", table, st)
        run.t.__exit__(None)
    held("records of a newer stepd: journal, snapshot", "left as they are, also by :restore")


def datums_of_another():
    """While another session had the device: datums that are on the disk are not rendered again."""
    run = Run()
    place = run.t.sign()
    check(run.t.save(run.s, place["put_url"])[0] == 200, "saved")
    run.restart(faults=("OPEN:1:refuse",))
    run.gives_up("could not be brought back")
    run.t.set_faults()
    other = run.t.opened()
    check(run.t.close(other)[0] == 200, "another came and went")
    status, body, _ = run.t.ask("POST", "/v1/sessions/%s:restore" % run.s, {"restore_url": place["get_url"]})
    check(status == 200 and body["state"] == "ready" and body["step"] == 3, "restored", status, body)
    check(run.t.logged().count("parts of datums are back") == 2, "with its datums", run.t.logged()[-3000:])
    run.comes_back()


without_model()
datums_of_another()
without_spool()
without_store()
newer_records()
finish()
