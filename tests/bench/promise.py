"""What it costs that no acknowledged step is lost: the journal, and coming back. Standard library only."""
import json
import os
import shutil
import socket
import statistics
import tempfile
import time

from service import Service, Session, resident

REPLAYED = 20  # steps of the journal that are done again
CONNECTIONS = 1000


def fsync_time(folder):
    """Milliseconds of one write of a page and its way to the disk: the median of 50."""
    times = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as f:
        for _ in range(50):
            f.seek(0)
            f.write(os.urandom(4096))
            start = time.monotonic()
            os.fdatasync(f.fileno())
            times.append(time.monotonic() - start)
    return statistics.median(times) * 1e3


def median_call(call, count=100):
    times = []
    for _ in range(count):
        start = time.monotonic()
        call()
        times.append(time.monotonic() - start)
    return statistics.median(times) * 1e3


def journal_step(build, line):
    """A train call of a worker without maths, less a call that the journal does not know."""
    models = tempfile.mkdtemp(prefix="stepd-bench-models-")
    os.makedirs(os.path.join(models, "org", "model"))
    open(os.path.join(models, "org", "model", "config.json"), "w").close()
    service = Service(build, models, STEPD_WORKER=os.path.abspath(os.path.join(build, "tests", "fault-worker")),
                      STEPD_SNAPSHOT_STEPS="1000000", STEPD_FAILURE_INTERVAL="31536000")
    try:
        session = Session(service, "org/model")
        body = json.dumps({"prompt": "p"})
        plain = train = float("inf")
        for _ in range(3):
            plain = min(plain, median_call(lambda: service.raw("POST", session.path + "/samples:generate", body)))
            train = min(train, median_call(lambda: session.train(["datum-e"])))
        line("disk_fsync", fsync_time(service.state), "ms", "a page to the disk of the state folder, median of 50")
        line("journal_step", train - plain, "ms", "two commits on the disk: a train call without maths %.2f ms, a call without the journal %.2f ms" % (train, plain))
    finally:
        service.stop()
        shutil.rmtree(models)


def short_datum(session):
    messages = [{"role": "user", "content": "What is two plus two?"}, {"role": "assistant", "content": "4"}]
    return [session.render([{"example_id": "e", "messages": messages}])[0]["datum_id"]]


def recovery(build, models, model, line):
    """From the kill to the next answered step, REPLAYED steps being in the journal only; beside what the
    same work takes by itself in this run: opening, and the steps."""
    service = Service(build, models, STEPD_CPU_COMPUTE="f32", STEPD_SNAPSHOT_STEPS="1000000", STEPD_FAILURE_INTERVAL="31536000", STEPD_PERSIST_DATA="true")
    try:
        start = service.started
        opened = time.monotonic()
        session = Session(service, model)
        opening, starting = time.monotonic() - opened, opened - start
        ids = short_datum(session)
        session.train(ids)  # the first one finds its memory
        begun = time.monotonic()
        for _ in range(REPLAYED - 1):
            session.train(ids)
        step = (time.monotonic() - begun) / (REPLAYED - 1)

        os.kill(service.worker(), 9)
        killed = time.monotonic()
        session.train(ids)
        taken, floor = time.monotonic() - killed, opening + (REPLAYED + 1) * step
        line("recover_worker", taken, "s", "%d steps of %.3f s replayed, and the next one" % (REPLAYED, step))
        line("recover_worker_vs_floor", taken / floor, "x", "opening %.2f s and %d steps by themselves" % (opening, REPLAYED + 1))

        killed = time.monotonic()
        service.kill()
        service.start()
        session.train(ids)
        taken, floor = time.monotonic() - killed, starting + opening + (REPLAYED + 2) * step
        line("recover_stepd", taken, "s", "kill -9, start, %d steps replayed, and the next one" % (REPLAYED + 1))
        line("recover_stepd_vs_floor", taken / floor, "x", "start %.2f s, opening and %d steps by themselves" % (starting, REPLAYED + 2))
        status = service.call("GET", session.path)
        assert status["replay_differences"] == 0 and status["step"] == REPLAYED + 2, status
    finally:
        service.stop()


def idle_memory(build, models, line):
    """Connections that did a handshake and a request, and stay."""
    service = Service(build, models, STEPD_CONNECTIONS=str(CONNECTIONS + 100), STEPD_IDLE_TIMEOUT="600")
    socks = []
    try:
        before = resident(service.process.pid)
        request = b"GET /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + service.token.encode() + b"\r\n\r\n"
        for _ in range(CONNECTIONS):
            sock = socket.create_connection((service.address.hostname, service.address.port))
            socks.append(service.context.wrap_socket(sock, server_hostname=service.address.hostname))
            socks[-1].sendall(request)
            assert socks[-1].recv(12) == b"HTTP/1.1 200"
        line("idle_memory", resident(service.process.pid) / 1e6, "MB", "stepd with %d idle TLS connections; %.1f MB without" % (CONNECTIONS, before / 1e6))
    finally:
        for sock in socks:
            sock.close()
        service.stop()


def measure(build, models, model, line):
    journal_step(build, line)
    recovery(build, models, model, line)
    idle_memory(build, models, line)
