"""The program from outside: its options, its settings, its folder, TLS."""
import json
import os
import re
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import tempfile
import warnings

from daemon import BUILD, TOKEN, Stepd, check, finish

STEPD = os.path.join(BUILD, "stepd")


def run(*args, timeout=30, **settings):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("STEPD_", "TRAINER_"))}
    env.update(TRAINER_TOKEN=TOKEN, STEPD_WORKER="/bin/true", STEPD_LISTEN="127.0.0.1:0")
    env.update({k: v for k, v in settings.items() if v is not None})
    for name in [k for k, v in settings.items() if v is None]:
        env.pop(name, None)
    try:
        return subprocess.run([STEPD, *args], env=env, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired as e:
        return subprocess.CompletedProcess(e.args, "timeout", "", "")


def options(folder):
    help_text = run("--help")
    check(help_text.returncode == 0 and "STEPD_LISTEN" in help_text.stdout, "--help")
    table = run("--help", "--markdown").stdout.splitlines()
    check(len(table) > 20 and table[1] == "| --- | --- | --- | --- |", "--help --markdown")
    for line in table[2:]:
        check(line.split("`")[1] in help_text.stdout, "--help has " + line)
    version = run("--version")
    check(version.stdout.startswith("stepd ") and version.returncode == 0, "--version")
    parsed = json.loads(run("--version", "--json").stdout)
    check("stepd " + parsed["version"] == version.stdout.strip(), "--version --json", parsed)
    for args in (["--chek"], ["x"], ["--check", "x"], ["--help", "--html"], ["--version", "json"]):
        bad = run(*args)
        check(bad.returncode == 2 and "usage" in bad.stderr, "usage", args, bad)
    state = os.path.join(folder, "none")
    good = run("--check", STEPD_STATE_DIR=state, STEPD_THREADS="3")
    check(good.returncode == 0 and "STEPD_THREADS=3\n" in good.stdout, "--check", good)
    check(run("--check", STEPD_URL="https://localhost:8321").returncode == 0, "stepctl's own setting may be there")
    check("TRAINER_TOKEN=(hidden)" in good.stdout and TOKEN not in good.stdout, "secrets hidden")
    check(not os.path.exists(state), "--check makes nothing")
    check(good.stdout.count("\n") == len(table) - 2, "--check prints every setting")


def refusals(folder):
    key = os.path.join(folder, "key.pem")
    cert = os.path.join(folder, "cert.pem")
    os.close(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600))
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo, 0o600)
    for name, settings in [
            ("TRAINER_TOKEN", {"TRAINER_TOKEN": None}),
            ("TRAINER_TOKEN_FILE", {"TRAINER_TOKEN": None, "TRAINER_TOKEN_FILE": fifo}),
            ("TRAINER_TOKEN", {"TRAINER_TOKEN": "short"}),
            ("STEPD_TYPO", {"STEPD_TYPO": "1"}),
            ("STEPD_EGRESS_ALLOW", {"STEPD_EGRESS_ALLOW": "localhost,10.0.0.0/33"}),
            ("STEPD_CA_FILE", {"STEPD_CA_FILE": "/etc/passwd"}),
            ("STEPD_LISTEN", {"STEPD_LISTEN": "0.0.0.0:0"}),
            ("STEPD_LISTEN", {"STEPD_LISTEN": "[::]:0"}),
            ("STEPD_LISTEN", {"STEPD_LISTEN": ":0"}),
            ("STEPD_LISTEN", {"STEPD_LISTEN": "127.0.0.1"}),
            ("STEPD_LISTEN", {"STEPD_LISTEN": "127.0.0.1:70000"}),
            ("STEPD_LISTEN", {"STEPD_LISTEN": "::1:80"}),
            ("STEPD_LISTEN", {"STEPD_LISTEN": "no-such-host.invalid:80"}),
            ("STEPD_DEVICES", {"STEPD_DEVICES": "CPU"}),
            ("STEPD_MODEL_DIR", {"STEPD_MODEL_DIR": "/no/such/folder"}),
            ("STEPD_CA_FILE", {"STEPD_CA_FILE": "/no/such/file"}),
            ("STEPD_WORKER", {"STEPD_WORKER": "/no/such/program"}),
            ("STEPD_WORKER", {"STEPD_WORKER": "/usr"}),
            ("STEPD_TLS_KEY", {"STEPD_TLS_CERT": cert}),
            ("STEPD_TLS_KEY", {"STEPD_TLS_CERT": cert, "STEPD_TLS_KEY": "/no/such/key"}),
            ("STEPD_TLS_CERT", {"STEPD_TLS_CERT": "/no/such/cert", "STEPD_TLS_KEY": key})]:
        for args in (["--check"], []):
            bad = run(*args, STEPD_STATE_DIR=os.path.join(folder, "none"), **settings)
            check(bad.returncode == 2 and name in bad.stderr and TOKEN not in bad.stderr,
                  "refused and named: %s" % settings, args, bad)
    check(run("--check", STEPD_LISTEN="0.0.0.0:0", STEPD_INSECURE_LISTEN="true").returncode == 0,
          "plain HTTP for everybody where asked for")
    check(run("--check", STEPD_LISTEN="0.0.0.0:0", STEPD_TLS_CERT="auto").returncode == 0,
          "TLS for everybody")


def folder_rules(folder):
    state = os.path.join(folder, "a", "state")
    with Stepd(state=state_made(state)) as stepd:
        mode = stat.S_IMODE(os.stat(state).st_mode)
        check(mode == 0o700, "the state folder is closed to others", oct(mode))
        with open(os.path.join(state, "address")) as f:
            check(f.read().strip() == stepd.url, "its address is in the folder")
        second = run(STEPD_STATE_DIR=state)
        check(second.returncode == 1 and "another stepd" in second.stderr, "one stepd a folder", second)
        third = run(STEPD_STATE_DIR=os.path.join(folder, "other"), STEPD_LISTEN="127.0.0.1:1",
                    PORT=str(stepd.port))
        check(third.returncode == 1 and "in use" in third.stderr, "the port is taken, by PORT", third)
    with Stepd() as stepd:
        stepd.process.send_signal(signal.SIGINT)
        check(stepd.process.wait(20) == 0, "stops by Ctrl-C")
    with Stepd(LORA_R="8") as stepd:
        check("LORA_R is set, but has no effect" in stepd.logged(), "told what has no effect")


def state_made(path):
    os.makedirs(path, mode=0o755)
    return path


def tls(folder):
    warnings.simplefilter("ignore", DeprecationWarning)  # TLS 1.1 is asked for on purpose
    with Stepd(STEPD_TLS_CERT="auto") as stepd:
        check(stepd.url.startswith("https://127.0.0.1:"), "https", stepd.url)
        check(stepd.call("GET", "/healthz")[0] == 200, "verified by tls-cert.pem")
        for name, mode in (("tls-key.pem", 0o600), ("tls-cert.pem", 0o644)):
            got = stat.S_IMODE(os.stat(os.path.join(stepd.state, name)).st_mode)
            check(got == mode, "mode of " + name, oct(got))
            shutil.copy(os.path.join(stepd.state, name), os.path.join(folder, name))
        context = ssl.create_default_context(cafile=os.path.join(stepd.state, "tls-cert.pem"))
        for host, good in (("localhost", True), ("127.0.0.1", True), ("example.org", False)):
            try:
                context.wrap_socket(connect(stepd), server_hostname=host).close()
                check(good, "certificate for " + host)
            except ssl.SSLCertVerificationError as e:
                check(not good, "certificate for " + host, e)
        context.set_alpn_protocols(["h2", "http/1.1"])
        sock = context.wrap_socket(connect(stepd), server_hostname="localhost")
        check(sock.selected_alpn_protocol() == "http/1.1", "ALPN")
        check(sock.version() == "TLSv1.3", "TLS 1.3", sock.version())
        sock.close()
        for version, good in ((ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_1, False)):
            context = ssl.create_default_context(cafile=os.path.join(stepd.state, "tls-cert.pem"))
            context.set_ciphers("DEFAULT:@SECLEVEL=0")
            try:
                context.minimum_version = context.maximum_version = version
                context.wrap_socket(connect(stepd), server_hostname="localhost").close()
                check(good, version)
            except (ssl.SSLError, OSError) as e:
                check(not good, version, e)
        with connect(stepd) as sock:
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            try:
                got = sock.recv(100)
            except ConnectionResetError:
                got = b""
            check(b"HTTP" not in got, "no plain HTTP on the TLS port")
        check(stepd.call("GET", "/healthz")[0] == 200, "and it goes on")
        with open(os.path.join(stepd.state, "tls-cert.pem")) as f:
            first = f.read()
        check(stepd.stop() == 0, "stops")
        with Stepd(state=stepd.state, STEPD_TLS_CERT="auto") as again:
            with open(os.path.join(stepd.state, "tls-cert.pem")) as f:
                check(f.read() == first, "the certificate stays the same")
            check(again.call("GET", "/healthz")[0] == 200, "and serves")
    own = {"STEPD_TLS_CERT": os.path.join(folder, "tls-cert.pem"),
           "STEPD_TLS_KEY": os.path.join(folder, "tls-key.pem")}
    check(run("--check", **own).returncode == 0, "a certificate of one's own")
    os.chmod(own["STEPD_TLS_KEY"], 0o640)
    bad = run("--check", **own)
    check(bad.returncode == 2 and "0640" in bad.stderr, "a key open to others", bad)


def installed(folder):
    """What `make install` puts down runs, and systemd's unit gives stepd all that it needs."""
    prefix = os.path.join(folder, "prefix")
    made = subprocess.run(["make", "-s", "install", "BUILD=" + BUILD, "PREFIX=/opt/x", "DESTDIR=" + prefix],
                          capture_output=True, text=True)
    check(made.returncode == 0, "make install", made)
    for name in ("stepd", "stepctl", "stepd-worker"):
        told = subprocess.run([os.path.join(prefix, "opt/x/bin", name), "--version"], capture_output=True, text=True)
        check(told.returncode == 0 and told.stdout.startswith(name + " "), "installed", name, told)
    gpus = [os.path.exists(os.path.join(where, "stepd-worker-cuda")) for where in (BUILD, os.path.join(prefix, "opt/x/bin"))]
    check(gpus[0] == gpus[1], "the worker for GPUs, where it was built", gpus)
    with open(os.path.join(prefix, "opt/x/lib/systemd/system/stepd.service")) as f:
        unit = f.read()
    check("\nExecStart=/opt/x/bin/stepd\n" in unit and "/usr/local" not in unit, "the unit's prefix", unit)
    with open(os.path.join(prefix, "opt/x/lib/systemd/system/stepd.socket")) as f:
        check("\nListenStream=127.0.0.1:8321\n" in f.read(), "its socket")
    credential, _ = re.search(r"^LoadCredential=(.*):(.*)$", unit, re.M).groups()
    with open(os.path.join(folder, credential), "w") as f:
        f.write(TOKEN + "\n")
    with open(os.path.join(prefix, "opt/x/share/doc/stepd/stepd.env.example")) as f:
        env = dict(re.findall(r"^([A-Z_]+)=(.*)$", f.read(), re.M))
    env.update(TRAINER_TOKEN=None, CREDENTIALS_DIRECTORY=folder, STATE_DIRECTORY="/var/lib/stepd",
               STEPD_MODEL_DIR=folder)
    good = run("--check", **env)
    check(good.returncode == 0 and "STEPD_STATE_DIR=/var/lib/stepd\n" in good.stdout, "the unit's settings", good)


def connect(stepd):
    return socket.create_connection(("127.0.0.1", stepd.port), timeout=20)


def main():
    folder = tempfile.mkdtemp(prefix="stepd-test-")
    try:
        for test in (options, refusals, folder_rules, tls, installed):
            test(folder)
    finally:
        shutil.rmtree(folder)
    finish()


main()
