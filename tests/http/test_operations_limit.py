"""A store that holds more operations than are kept, as one does whose disk took nothing when the oldest
was forgotten: stepd starts, keeps the newest, and the rest goes."""
import signal

from daemon import check, finish
from fault_table import held
from store_edit import read_table, write_table
from trainer import Trainer

MAX = 10000  # OPERATIONS_MAX of supervisor/api/operations.h

t = Trainer()
s = t.opened()
t.render(s, "e")
for i in range(3):
    status, _, headers = t.ask("POST", "/v1/sessions/%s/batches:train" % s,
                               {"datum_ids": ["datum-e"], "learning_rate": 1e-4},
                               ["Prefer: respond-async", "Idempotency-Key: k%d" % i])
    newest = headers["location"]
    answer = t.ask("GET", newest + "?wait=60")[:2]
    check(answer[0] == 200, "done", answer)
t.end(signal.SIGKILL)
records = read_table(t.state, "operations")
first = min(records.values(), key=lambda record: record[3:11])  # u8 version, stage, kind, then the number
write_table(t.state, "operations", {b"%032x" % i: first for i in range(MAX + 300)})
t = Trainer(folder=t.folder)
check(t.ask("GET", newest)[:2] == answer, "the newest is there")
check(t.status(s)["step"] == 3, "every step", t.status(s))
status, _, headers = t.ask("POST", "/v1/sessions/%s/datums:evaluate" % s, {"datum_ids": ["datum-e"]},
                           ["Prefer: respond-async"])
check(status == 202, "another one fits", status)
t.end(signal.SIGTERM)
check(len(read_table(t.state, "operations")) <= MAX, "the rest went")
t = Trainer(folder=t.folder)
check(t.ask("GET", newest)[:2] == answer, "as ever")
t.__exit__(None)
held("the store holds more operations than are kept", "stepd starts; the oldest that are done go")
finish()
