"""The calls of a session with Prefer: respond-async, and what becomes of their operations."""
from daemon import check
from trainer import MESSAGES, Trainer

ASYNC = "Prefer: respond-async"
LATER = ("stepd-step", "stepd-durable", "content-type")


def key(text):
    return "Idempotency-Key: " + text


def examples(*names):
    return {"examples": [{"example_id": name, "messages": MESSAGES} for name in names]}


def step(*ids, rate=1e-4):
    return {"datum_ids": ids or ("datum-e",), "learning_rate": rate}


class Later(Trainer):
    def post(self, session, call, body, *headers):
        return self.ask("POST", "/v1/sessions/%s/%s" % (session, call), body, headers)

    def accepted(self, session, call, body, *headers):
        """Where the operation is."""
        answer = self.post(session, call, body, ASYNC, *headers)
        return self.place(answer)

    def place(self, answer):
        status, body, headers = answer
        check(status == 202 and headers.get("preference-applied") == "respond-async", "accepted", answer)
        check(headers.get("location") == "/v1/operations/%s" % body.get("operation_id"), "Location", answer)
        return headers.get("location", "/v1/operations/none")

    def result(self, place, wait=60):
        return self.ask("GET", place + ("?wait=%s" % wait if wait else ""))

    def same(self, answer, other, name):
        """The same answer, but for what belongs to the exchange."""
        check(answer[0] == other[0] and answer[1] == other[1], name, answer, other)
        for header in LATER:
            check(answer[2].get(header) == other[2].get(header), name + ": " + header, answer, other)
