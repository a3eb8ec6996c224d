"""A stepd with the fault worker and a model that only has a name, and the calls of the contract."""
import json
import os
import shutil
import stat
import tempfile
import threading

from daemon import BEARER, BUILD, Stepd, request

FAULT_WORKER = os.path.abspath(os.path.join(BUILD, "tests", "fault-worker"))
MESSAGES = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
TIMEOUTS = {"STEPD_%s_TIMEOUT" % name: "2"
            for name in ("READY", "LOAD", "RENDER", "TRAIN", "SAVE", "GENERATE", "EVALUATE")}


def step_request(session, *headers, close=True):
    """The bytes of a step, for those who see to their connection themselves."""
    return request("POST", "/v1/sessions/%s/batches:train" % session,
                   {"datum_ids": ["datum-e"], "learning_rate": 1e-4}, (BEARER, *headers), close)


class Trainer(Stepd):
    """faults: "TRAIN:2:kill", ... as tests/http/fault_worker.c has them."""

    def __init__(self, *faults, folder=None, **settings):
        self.folder = folder or tempfile.mkdtemp(prefix="stepd-test-")
        os.makedirs(os.path.join(self.folder, "models", "org", "model"), exist_ok=True)
        open(os.path.join(self.folder, "models", "org", "model", "config.json"), "w").close()
        os.makedirs(os.path.join(self.folder, "state"), mode=0o700, exist_ok=True)
        self.worker = os.path.join(self.folder, "worker")
        self.set_faults(*faults)
        settings = {"STEPD_WORKER": self.worker, "STEPD_END_TIMEOUT": "1",
                    "STEPD_MODEL_DIR": os.path.join(self.folder, "models"), **settings}
        super().__init__(state=os.path.join(self.folder, "state"), **settings)

    def set_faults(self, *faults, once=False):
        """For the workers to come; once: for the next one alone."""
        done = os.path.join(self.folder, "state", "worker.once")  # stepd lets nothing be written elsewhere
        if os.path.isdir(done):
            os.rmdir(done)
        with open(self.worker, "w") as f:
            f.write("#!/bin/sh\n")
            if once:
                f.write('mkdir "%s" 2>/dev/null || exec "%s" "$@"\n' % (done, FAULT_WORKER))
            f.write('exec "%s" %s "$@"\n' % (FAULT_WORKER, " ".join(faults)))
        os.chmod(self.worker, stat.S_IRWXU)

    def end(self, how):
        """Ends the daemon by a signal; its folder stays."""
        self.process.send_signal(how)
        self.process.wait(30)
        self.stop()

    def __exit__(self, *args):
        super().__exit__(*args)
        shutil.rmtree(self.folder)

    def ask(self, method, path, body=None, headers=()):
        """Status, JSON of the answer, headers."""
        answers, _ = self.exchange(request(method, path, body, (BEARER, *headers)), timeout=60)
        if not answers:
            return 0, None, {}
        return answers[0].status, json.loads(answers[0].body), answers[0].headers

    def open(self, **fields):
        body = {"base_model": "org/model", "lora_rank": 8, "seed": 7, **fields}
        return self.ask("POST", "/v1/sessions", body)

    def opened(self, **fields):
        status, body, _ = self.open(**fields)
        if status != 200:
            raise SystemExit("no session: %d %r\n%s" % (status, body, self.logged()))
        return body["session_id"]

    def render(self, session, *names):
        examples = [{"example_id": name, "messages": MESSAGES} for name in names or ("e",)]
        return self.ask("POST", "/v1/sessions/%s/datums:render" % session, {"examples": examples})

    def datums(self, session, *names):
        """The ids of what was rendered."""
        return [datum["datum_id"] for datum in self.render(session, *names)[1]["datums"]]

    def train(self, session, *ids):
        return self.ask("POST", "/v1/sessions/%s/batches:train" % session,
                        {"datum_ids": ids or ["datum-e"], "learning_rate": 1e-4})

    def save(self, session, url, kind="state"):
        return self.ask("POST", "/v1/sessions/%s/artifacts:save" % session,
                        {"kind": kind, "name": "n", "upload_url": url})

    def generate(self, session):
        return self.ask("POST", "/v1/sessions/%s/samples:generate" % session, {"prompt": "p"})

    def evaluate(self, session, *ids):
        return self.ask("POST", "/v1/sessions/%s/datums:evaluate" % session,
                        {"datum_ids": ids or ["datum-e"]})

    def verify(self, session, url, kind="state", **fields):
        return self.ask("POST", "/v1/sessions/%s/artifacts:verify" % session,
                        {"kind": kind, "download_url": url, **fields})

    def do(self, message, session):
        """The call for which its worker is sent that message."""
        if message in ("RENDER", "TRAIN", "GENERATE", "EVALUATE"):
            return getattr(self, message.lower())(session)
        urls = self.sign()
        saved = self.save(session, urls["put_url"])
        return self.verify(session, urls["get_url"]) if message == "VERIFY" else saved

    def close(self, session, query=""):
        return self.ask("DELETE", "/v1/sessions/%s%s" % (session, query))

    def status(self, session):
        return self.ask("GET", "/v1/sessions/%s" % session)[1]

    def sign(self):
        return self.ask("POST", "/v1/objects:sign", {})[1]

    def fetch(self, url):
        """What is at a signed URL of its own store, or None."""
        answers, _ = self.exchange(request("GET", "/" + url.split("/", 3)[3], headers=()))
        return answers[0].body if answers and answers[0].status == 200 else None

    def active(self):
        return self.ask("GET", "/healthz")[1]["active_session"]


def background(call, *args):
    """Runs a call in a thread: a function that waits for its result."""
    result = []
    thread = threading.Thread(target=lambda: result.append(call(*args)))
    thread.start()

    def wait():
        thread.join()
        return result[0]
    return wait
