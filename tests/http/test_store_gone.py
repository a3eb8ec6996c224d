"""The store's file is taken away from under a stepd that runs, or another is put in its place: what would be
written there no start would find. Nothing is done then, and whoever asks is told."""
import json
import os
import shutil
import socket

from daemon import check, finish
from fault_table import fault
from trainer import Trainer


def attention(t):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(os.path.join(t.state, "status.sock"))
        return json.loads(b"".join(iter(lambda: sock.recv(65536), b"")))["attention"]


def move_away(data):
    os.rename(data, data + ".away")


def put_another(data):
    shutil.copy(data, data + ".copy")
    os.rename(data, data + ".away")
    os.rename(data + ".copy", data)


def remove(data):
    os.link(data, data + ".away")
    os.unlink(data)


def put_back(data):
    if os.path.exists(data):
        os.unlink(data)
    os.rename(data + ".away", data)


@fault("the store's file is removed, moved or replaced while stepd runs ({0.__name__})",
       "507: no step is done that no start would find; with the file back it goes on")
def taken(take):
    t = Trainer()
    with t:
        data = os.path.join(t.state, "store", "data.mdb")
        s = t.opened()
        t.render(s, "e")
        check(t.train(s)[0] == 200 and not attention(t), "as ever")
        take(data)
        status, body, _ = t.train(s)
        check(status == 507, "no step", take, status, body)
        check(t.status(s)["step"] == 1, "and none is told", t.status(s))
        check(any("the store's file" in a for a in attention(t)), "somebody has to act", attention(t))
        check(t.save(s, t.sign()["put_url"])[0] == 507, "nothing else is kept")
        put_back(data)
        status, body, headers = t.train(s)
        check(status == 200 and headers["stepd-step"] == "2", "it goes on", status, body)
        check(not attention(t), "nothing to act on", attention(t))
        t.process.kill()
        t.process.wait()
        t.process.returncode = 0
        t.stop()
        again = Trainer(folder=t.folder)
        check(again.status(s)["step"] == 2, "every acknowledged step", again.status(s))
        again.stop()


for way in (move_away, put_another, remove):
    taken(way)
finish()
