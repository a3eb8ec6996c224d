"""Listening sockets that were handed over, as systemd does it: served, kept over a restart, and judged."""
import os
import re
import socket
import subprocess
import sys

from daemon import BUILD, TOKEN, Stepd, check, finish, read_answer
from fault_table import fault
from trainer import Trainer

LAUNCHER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "activate.py")
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def launcher(kinds):
    return {"prefix": (sys.executable, LAUNCHER, kinds)}


def healthy(host, port):
    with socket.create_connection((host, port), timeout=20) as sock:
        sock.sendall(HEALTH)
        answer = read_answer(sock.makefile("rb"))
        return answer is not None and answer.status == 200


def ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        return True
    except OSError:
        return False


def served():
    with Stepd(**launcher("127.0.0.1:0"), STEPD_LISTEN="127.0.0.1:1") as stepd:
        check(healthy("127.0.0.1", stepd.port), "a socket that was handed over", stepd.url)
        check("STEPD_LISTEN does not count" in stepd.logged(), "the log says so")
        if os.geteuid() == 0:  # others may not look into stepd
            with open("/proc/%d/environ" % stepd.process.pid) as f:
                check("LISTEN_FDS" in f.read(), "handed over by the environment")
    kinds = ["0.0.0.0:0", "127.0.0.1:0"] + (["::1:0"] if ipv6() else [])
    with Stepd(**launcher(",".join(kinds)), STEPD_INSECURE_LISTEN="true") as stepd:
        lines = [re.fullmatch(r"listening on http://(.+):(\d+)\n", stepd.process.stdout.readline().decode())
                 for _ in kinds[1:]]
        check(stepd.host == "0.0.0.0" and healthy("127.0.0.1", stepd.port), "every address", stepd.url)
        for line in lines:
            host = line.group(1).strip("[]")
            check(healthy(host, int(line.group(2))), "and " + host)
        with open(os.path.join(stepd.state, "address")) as f:
            check(f.read() == stepd.url + "\n", "the first is the one in the state folder")
    # A worker gets none of them.
    with Trainer(**launcher("127.0.0.1:0,127.0.0.1:0")) as t:
        s = t.opened()
        check(t.render(s)[0] == 200, "sessions work")
        pid = t.worker_pids()[0]
        fds = {os.readlink("/proc/%d/fd/%s" % (pid, n)) for n in os.listdir("/proc/%d/fd" % pid)}
        check(sum(fd.startswith("socket:") for fd in fds) == 1, "a worker has its channel and no other socket", fds)
        if os.geteuid() == 0:
            mine = {os.readlink("/proc/%d/fd/%d" % (t.process.pid, n)) for n in (3, 4)}
            check(all(m.startswith("socket:") for m in mine) and not mine & fds, "none of stepd's", fds)
        with open("/proc/%d/environ" % pid) as f:
            check("LISTEN_" not in f.read(), "nor hears of them")


@fault("clients come while stepd restarts, with systemd's socket",
       "they wait in line and are served")
def restart():
    """The socket outlives stepd: who connects in between is served by the next one."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        given = dict(launcher("fd:%d" % door.fileno()), pass_fds=(door.fileno(),))
        with Stepd(**given) as stepd:
            check(healthy("127.0.0.1", port), "the first")
            waiting = None
            check(stepd.stop() == 0, "stops")
            waiting = socket.create_connection(("127.0.0.1", port), timeout=20)
            waiting.sendall(HEALTH)
        with Stepd(**given):
            check(read_answer(waiting.makefile("rb")).status == 200, "who came in between is served")
            check(healthy("127.0.0.1", port), "the second")
        waiting.close()


@fault("sockets are handed over that are none to listen on",
       "refused, the descriptor is named")
def refused():
    for kinds, settings, words in [
            ("file", {}, "descriptor 3 is no socket"),
            ("127.0.0.1:0,udp", {}, "descriptor 4 is no TCP socket"),
            ("unix", {}, "descriptor 3 is no TCP socket"),
            ("deaf", {}, "descriptor 3 does not listen"),
            ("127.0.0.1:0,closed,127.0.0.1:0", {}, "descriptor 4 Bad file descriptor"),
            ("127.0.0.1:0", {"LISTEN_FDS": "0"}, 'LISTEN_FDS is "0"'),
            ("127.0.0.1:0", {"LISTEN_FDS": "x"}, 'LISTEN_FDS is "x"'),
            ("127.0.0.1:0", {"LISTEN_FDS": "-1"}, 'LISTEN_FDS is "-1"'),
            ("127.0.0.1:0", {"LISTEN_FDS": "99999999999999999999"}, "not from 1 to 16"),
            ("0.0.0.0:0", {}, "descriptor 3 listens on 0.0.0.0:")]:
        stepd = Stepd(wait=False, **launcher(kinds), **settings)
        code = stepd.process.wait(20)
        check(code == 1 and words in stepd.logged(), kinds, settings, code, stepd.logged())
        stepd.stop()
    # Those of another process are not meant.
    with Stepd(**launcher("127.0.0.1:0"), LISTEN_PID="1") as stepd:
        check(healthy("127.0.0.1", stepd.port) and "handed over" not in stepd.logged(), "not for us")


def by_systemd():
    """What systemd itself makes of it, where its tool is there."""
    tool = "/usr/bin/systemd-socket-activate"
    if not os.path.exists(tool):
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = Stepd(wait=False)
    folder.stop()
    env = {"PATH": os.environ["PATH"], "HOME": folder.state}
    names = {"TRAINER_TOKEN": TOKEN, "STEPD_STATE_DIR": folder.state, "STEPD_WORKER": "/bin/true"}
    process = subprocess.Popen([tool, "-l", "127.0.0.1:%d" % port,
                                *["-E%s=%s" % pair for pair in names.items()], os.path.join(BUILD, "stepd")],
                               env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    line = process.stderr.readline()
    check(b"Listening on" in line, "it listens", line)
    check(healthy("127.0.0.1", port), "started by the first connection")
    process.terminate()
    check(process.wait(30) == 0, "and stops")
    process.communicate()


for test in (served, restart, refused, by_systemd):
    test()
finish()
