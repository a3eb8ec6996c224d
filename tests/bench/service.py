"""A stepd for a measurement: started on a free port, spoken to over HTTPS, stopped. Standard library only."""
import http.client
import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
from urllib.parse import urlsplit


class Service:
    """stepd with settings from keyword arguments (STEPD_ and others as they are named)."""

    def __init__(self, build, model_dir, **settings):
        self.state = tempfile.mkdtemp(prefix="stepd-bench-")
        self.token = secrets.token_hex(32)
        self.environment = dict(os.environ, STEPD_LISTEN="127.0.0.1:0", STEPD_TLS_CERT="auto", STEPD_STATE_DIR=self.state,
                                STEPD_MODEL_DIR=os.path.abspath(model_dir), TRAINER_TOKEN=self.token, **settings)
        self.program, self.log = os.path.join(build, "stepd"), open(os.path.join(self.state, "log"), "wb")
        self.start()

    def start(self):
        self.started = time.monotonic()
        self.process = subprocess.Popen([self.program], env=self.environment, stderr=self.log, stdout=self.log)
        self.connection = None
        address = os.path.join(self.state, "address")
        while not os.path.exists(address) or not open(address).read().endswith("\n"):
            if self.process.poll() is not None or time.monotonic() - self.started > 30:
                raise RuntimeError("stepd did not start: " + open(self.log.name).read()[-2000:])
            time.sleep(0.002)
        self.address = urlsplit(open(address).read().strip())
        self.context = ssl.create_default_context(cafile=os.path.join(self.state, "tls-cert.pem"))

    def kill(self):
        """As by kill -9; start() makes the next one of the same state."""
        self.process.kill()
        self.process.wait()
        os.unlink(os.path.join(self.state, "address"))

    def raw(self, method, path, body=None):
        """(status, body bytes) over a kept connection."""
        if self.connection is None:
            self.connection = http.client.HTTPSConnection(self.address.hostname, self.address.port, context=self.context, timeout=900)
        headers = {"Authorization": "Bearer " + self.token}
        if body is not None:
            headers["Content-Type"] = "application/json"
        self.connection.request(method, path, body, headers)
        response = self.connection.getresponse()
        return response.status, response.read()

    def call(self, method, path, body=None):
        status, data = self.raw(method, path, None if body is None else json.dumps(body))
        if status != 200:
            raise RuntimeError("%s %s: HTTP %d %s" % (method, path.split("?")[0], status, data[:500]))
        return json.loads(data) if data else None

    def worker(self):
        """Process id of the one worker."""
        with open("/proc/%d/task/%d/children" % (self.process.pid, self.process.pid)) as children:
            return int(children.read().split()[0])

    def stop(self):
        if self.connection is not None:
            self.connection.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.state, ignore_errors=True)


class Session:
    """An open session and the calls on it."""

    def __init__(self, service, model, rank=8, seed=0, limit=None):
        self.service = service
        body = {"base_model": model, "lora_rank": rank, "seed": seed, "maximum_datum_tokens": limit}
        self.id = service.call("POST", "/v1/sessions", body)["session_id"]
        self.path = "/v1/sessions/" + self.id

    def render(self, examples):
        return self.service.call("POST", self.path + "/datums:render", {"examples": examples})["datums"]

    def train(self, ids, rate=1e-4):
        return self.service.call("POST", self.path + "/batches:train", {"datum_ids": ids, "learning_rate": rate})

    def save(self, kind):
        place = self.service.call("POST", "/v1/objects:sign", {})
        return self.service.call("POST", self.path + "/artifacts:save", {"kind": kind, "name": kind, "upload_url": place["put_url"]})

    def close(self):
        self.service.call("DELETE", self.path + "?force=true")


def resident(pid):
    """Resident bytes of a process."""
    with open("/proc/%d/status" % pid) as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0
