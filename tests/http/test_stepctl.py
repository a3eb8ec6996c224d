"""stepctl from outside: its verbs and exit codes on a tiny model, and Ctrl-C at every phase."""
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

from daemon import BUILD, TOKEN, Stepd, check, finish
from tiny_model import make_model

STEPCTL = os.path.join(BUILD, "stepctl")
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("STEPD_", "TRAINER_"))}


def run(*args, **env):
    return subprocess.run([STEPCTL, *args], env={**CLEAN, **env}, capture_output=True, text=True,
                          timeout=300)


def write_rows(path, count=6):
    with open(path, "w") as f:
        for i in range(count):
            f.write(json.dumps({"prompt": "What is %d plus %d?" % (i, i), "completion": str(2 * i)}
                    if i % 2 else {"messages": [{"role": "user", "content": "The cat sat %d" % i},
                                                {"role": "assistant", "content": "on the mat"}]}))
            f.write("\n\n" if i == 1 else "\n")
    return path


def users_of(folder):
    """Command lines of processes that have the folder in their environment or arguments."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % pid, "rb") as f, open("/proc/%s/cmdline" % pid, "rb") as g:
                line = g.read()
                if folder.encode() in f.read() + line and int(pid) != os.getpid():
                    found.append(line)
        except OSError:
            pass
    return found


def nothing_left(folder, name):
    deadline = time.monotonic() + 20
    while users_of(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    check(not users_of(folder), name + ": no process is left", users_of(folder))
    left = [n for n in os.listdir(folder) if n.startswith(".stepd")]
    check(not left, name + ": no state folder is left", left)


def usage():
    text = run("--help")
    check(text.returncode == 0 and "exit codes:" in text.stdout, "--help", text)
    for verb in ("train", "sessions", "generate", "verify", "status"):
        own = run(verb, "--help")
        check(own.returncode == 0 and verb in text.stdout and "--json" in own.stdout, "help of " + verb)
        check(run(verb, "--no-such").returncode == 2, verb + ": an unknown option")
    check(run("--version").stdout.startswith("stepctl "), "--version")
    for args in ([], ["fly"], ["verify"], ["sessions"], ["train", "--out", "x"], ["generate"]):
        check(run(*args, TRAINER_TOKEN=TOKEN).returncode == 2, "usage", args)


def bad_rows(folder, model):
    """A bad row is named by file and line, and nothing is sent: not even the folder is made."""
    out = os.path.join(folder, "never")
    for line, word in [('{"x": 1}', "messages"), ("{", "JSON"), ('{"prompt": "a"}', "completion"),
                       ('{"messages": [{"role": "user", "content": "a"}]}', "two"),
                       ('{"messages": [{"role": "king", "content": "a"}, {"role": "assistant", '
                        '"content": "b"}]}', "role"), ('{"prompt": "\\u0000", "completion": "b"}', "U+0000")]:
        path = write_rows(os.path.join(folder, "bad.jsonl"), 2)
        with open(path, "a") as f:
            f.write(line + "\n")
        got = run("train", "--data", path, "--model", model, "--out", out)
        check(got.returncode == 2 and path + ":4: " in got.stderr and word in got.stderr, "bad row", line, got)
    path = write_rows(os.path.join(folder, "bad.jsonl"), 2)
    with open(path, "ab") as f:
        f.write(bytes(100) + b"\n")
    got = run("train", "--data", path, "--model", model, "--out", out)
    check(got.returncode == 2 and path + ":4: " in got.stderr, "NULs are no blank line", got)
    got = run("train", "--data", "/dev/zero", "--model", model, "--out", out)
    check(got.returncode == 2 and "/dev/zero:1: the line is too long" in got.stderr, "a row without end", got)
    check(not os.path.exists(out), "nothing was made")
    os.mkfifo(os.path.join(folder, "pipe"))
    got = run("verify", os.path.join(folder, "pipe"))
    check(got.returncode == 1 and "no file" in got.stdout, "verify of a pipe", got)
    got = run("train", "--data", os.path.join(folder, "none"), "--model", model, "--out", out)
    check(got.returncode == 2, "no such rows", got)


def strange_service():
    """Whatever answers: its words do not command the terminal, and no list is not an empty one."""
    listing = ("sessions",)
    speaking = ("generate", "--session", "x", "--prompt", "p", "--adapter", "on")
    for call, status, body, code, word in [
            (listing, "422 No", b'{"detail": "\\u001b[31m\\u009b1mred"}', 4, "?[31m?1mred (HTTP 422)"),
            (listing, "422 No", b'{"detail": [{"loc": ["\x7fa"]}]}', 4, '["?a"]: ?'),
            (speaking, "200 OK", b'{"text": "\\u001b]0;a\\u0007red\\n\\tb\\u009b"}', 0, "on:\n?]0;a?red\n\tb?\n"),
            (listing, "200 OK", b'{"sessions": [{"session_id": "\\u0007x", "model": "a\\nb"}]}', 0, "?x "),
            (listing, "200 OK", b"{}", 4, "no list"), (listing, "200 OK", b"<html>", 4, "no list"),
            (listing, "200 OK", b'{"sessions": {}}', 4, "no list")]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def answer():
                sock, _ = listener.accept()
                with sock:
                    sock.recv(65536)
                    sock.sendall(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s"
                                 % (status.encode(), len(body), body))
            thread = threading.Thread(target=answer)
            thread.start()
            got = run(*call, "--url", "http://127.0.0.1:%d" % listener.getsockname()[1],
                      TRAINER_TOKEN=TOKEN)
            thread.join()
        both = got.stdout + got.stderr
        check(got.returncode == code and word in both, "a strange service", status, body, got)
        check(not set(both) & set("\x1b\x07\x7f\x9b"), "nothing for the terminal", both)


def private_run(folder, model, rows):
    """Train, go on from the state, verify, generate: each with a stepd of its own."""
    out = os.path.join(folder, "out")
    got = run("train", "--data", rows, "--model", model, "--out", out, "--batch-size", "2", "--epochs", "2",
              "--json")
    check(got.returncode == 0 and len(re.findall(r"^step \d+  .*loss .*tokens/s .*left$", got.stderr, re.M)) == 6,
          "six plain lines of progress", got)
    told = json.loads(got.stdout)
    check(told["step"] == 6 and told["first_loss"] > told["last_loss"] > 0 and not told["interrupted"],
          "outcome", told)
    nothing_left(out, "train")
    state = os.path.join(out, "state.safetensors")
    on = run("train", "--data", rows, "--model", model, "--out", out, "--batch-size", "2", "--epochs", "3",
             "--resume", state)
    check(on.returncode == 0 and "step 7 " in on.stderr and "step 9 " in on.stderr and
          "step 6 " not in on.stderr, "goes on", on)
    done = run("train", "--data", rows, "--model", model, "--out", out, "--batch-size", "2", "--resume", state)
    check(done.returncode == 2 and "nothing is left" in done.stderr, "nothing left to do", done)

    good = run("verify", out, state)
    check(good.returncode == 0 and good.stdout.count("PASS") == 3, "verify", good)
    cut = os.path.join(folder, "cut")
    shutil.copytree(out, cut)
    os.truncate(os.path.join(cut, "state.safetensors"), 5000)
    bad = run("verify", cut)
    check(bad.returncode == 1 and "PASS" in bad.stdout and "FAIL" in bad.stdout, "verify a cut state", bad)
    before = set(os.listdir(tempfile.gettempdir()))
    spoken = run("generate", "--model", model, "--state", state, "--prompt", "The cat", "--tokens", "4")
    check(spoken.returncode == 0 and "adapter off:" in spoken.stdout and "adapter on:" in spoken.stdout,
          "generate", spoken)
    left = [n for n in set(os.listdir(tempfile.gettempdir())) - before if n in (".stepd", "stepd.log")]
    check(not left, "generate leaves no file", left)
    other = run("generate", "--model", model, "--state", state, "--prompt", "x", "--rank", "4")
    check(other.returncode == 4 and "rank" in other.stderr, "generate: another rank", other)
    for name, code in [(os.path.join(folder, "none"), 2), ("path/to/model", 2), ("no.gguf", 2), ("org/none", 4)]:
        bad = run("train", "--data", rows, "--model", name, "--out", out)
        check(bad.returncode == code and (code == 4 or name in bad.stderr), "no such model", name, bad)
    refused = os.path.join(folder, "models", "refused")
    shutil.copytree(model, refused)
    with open(os.path.join(refused, "tokenizer_config.json")) as f:
        config = json.load(f)
    with open(os.path.join(refused, "tokenizer_config.json"), "w") as f:
        json.dump({**config, "chat_template": "{{ 1 }}\n{% import 'x' as y %}"}, f)
    bad = run("train", "--data", rows, "--model", refused, "--out", os.path.join(folder, "refused"))
    check(bad.returncode == 4 and "chat template: line 2: 'import' is not supported" in bad.stderr, "template", bad)
    with open(os.path.join(out, "adapter", "README.md")) as f:
        card = f.read()
    check('AutoModelForCausalLM.from_pretrained("tiny")' in card and "base_model: \"tiny\"\n" in card, "card", card)
    return out


def verify_finds(folder, out):
    """NaN, a lost partner, another rank, a cut file, no LoRA: each is a FAIL and exit code 1."""
    source = os.path.join(out, "adapter")
    with open(os.path.join(source, "adapter_model.safetensors"), "rb") as f:
        data = f.read()
    size = struct.unpack("<Q", data[:8])[0]
    with open(os.path.join(source, "adapter_config.json")) as f:
        config = f.read()
    nan = data[:8 + size] + b"\0\0\xc0\x7f" + data[12 + size:]
    alone = data.replace(b"base_model.model.model.layers.0.mlp.up_proj.lora_B", b"base_model.model.model.layers.9.mlp.up_proj.lora_B")
    stray = data.replace(b"base_model.model.model.layers.0.mlp.up_proj.lora_", b"base_model.madel.model.layers.0.mlp.up_proj.lora_")
    assert alone != data and stray != data
    for name, tensors, text in [("NaN", nan, config), ("partner", alone, config), ("stray", stray, config),
                                ("cut", data[:-4], config), ("empty", b"", config),
                                ("rank", data, re.sub(r'"r": ?\d+', '"r": 5', config)),
                                ("type", data, config.replace("LORA", "IA3")), ("JSON", data, config[:-2])]:
        bad = os.path.join(folder, "bad-" + name)
        os.mkdir(bad)
        with open(os.path.join(bad, "adapter_model.safetensors"), "wb") as f:
            f.write(tensors)
        with open(os.path.join(bad, "adapter_config.json"), "w") as f:
            f.write(text)
        got = run("verify", bad, "--json")
        check(got.returncode == 1 and json.loads(got.stdout)["pass"] is False, "verify " + name, got)
    check(run("verify", os.path.join(folder, "none")).returncode == 1, "verify nothing")


def with_service(folder, model, rows):
    """The verbs against a service that runs, and what they say when it refuses or is not there."""
    with Stepd(STEPD_MODEL_DIR=os.path.dirname(model), STEPD_TLS_CERT="auto") as s:
        service = dict(STEPD_URL=s.url, TRAINER_TOKEN=TOKEN)
        ca = ["--ca", os.path.join(s.state, "tls-cert.pem")]
        check(run("sessions", *ca, **service).stdout == "no sessions\n", "no sessions")
        check(run("sessions", **service).returncode == 3, "a certificate that is not trusted")
        wrong = run("sessions", *ca, **{**service, "TRAINER_TOKEN": TOKEN + "x"})
        check(wrong.returncode == 4 and TOKEN not in wrong.stderr, "a wrong token", wrong)
        status, body = s.call("POST", "/v1/sessions", {"base_model": "tiny", "lora_rank": 4, "seed": 0})
        check(status in (200, 201), "open", body)
        listed = run("sessions", *ca, **service)
        check(listed.returncode == 0 and "step 0" in listed.stdout and "tiny" in listed.stdout, "sessions", listed)
        session = json.loads(run("sessions", "--json", *ca, **service).stdout)["sessions"][0]["session_id"]
        busy = run("train", "--data", rows, "--model", "tiny", "--out", os.path.join(folder, "far"), *ca, **service)
        check(busy.returncode == 4 and "active" in busy.stderr, "a session is open already", busy)
        said = run("generate", "--session", session, "--prompt", "The", "--tokens", "2", "--json", *ca, **service)
        check(said.returncode == 0 and len(said.stdout.splitlines()) == 2, "generate in a session", said)
        s.call("DELETE", "/v1/sessions/%s?force=true" % session)
        got = run("train", "--data", rows, "--model", "tiny", "--out", os.path.join(folder, "far"),
                  "--batch-tokens", "60", "--max-steps", "2", *ca, **service)
        check(got.returncode == 0 and "step 2 " in got.stderr and "step 3 " not in got.stderr, "train there", got)
        check(run("verify", os.path.join(folder, "far")).returncode == 0, "verify what came back")
        states = [x["state"] for x in json.loads(run("sessions", "--json", *ca, **service).stdout)["sessions"]]
        check(set(states) <= {"closed"}, "it closed its session", states)
    gone = run("sessions", *ca, **service)
    check(gone.returncode == 3, "no service", gone)


def interrupt(args, when, signals, out):
    """Runs stepctl in a process group, as a terminal does, and presses Ctrl-C when it says `when`."""
    process = subprocess.Popen([STEPCTL, *args], env={**CLEAN, "TMPDIR": out}, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
    said = ""
    while when and when not in said:
        line = process.stderr.readline()
        if not line:
            break
        said += line
    time.sleep(0 if when else 0.15)
    for _ in range(signals):
        try:
            os.killpg(process.pid, signal.SIGINT)
        except ProcessLookupError:
            pass
        time.sleep(0.03)
    stdout, rest = process.communicate(timeout=120)
    return process.returncode, stdout, said + rest


def interrupts(folder, model, rows):
    """What is said to be saved is there and good, and nothing else stays, whenever Ctrl-C comes."""
    for phase in ("loading the model", "rendering", "step 1 ", "saving"):
        for signals in (1, 2):
            name = "Ctrl-C %d times at %r" % (signals, phase)
            out = tempfile.mkdtemp(prefix="int-", dir=folder)
            code, stdout, stderr = interrupt(["train", "--data", rows, "--model", model, "--out", out, "--epochs",
                                              "1" if phase == "saving" else "20000", "--batch-size", "1"], phase,
                                             signals, out)
            check(code == 130, name, code, stdout, stderr[-2000:])
            told = "adapter  " in stdout
            check(signals == 2 or told == ("step 1 " in stderr), name + ": told what is saved", stdout, stderr)
            if told:
                good = run("verify", out, os.path.join(out, "state.safetensors"))
                check(good.returncode == 0, name + ": what is saved is good", good)
            nothing_left(out, name)
            left = [n for n in os.listdir(out) if n.endswith(".part") and signals == 1]
            check(not left, name + ": no half file", left)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        out = tempfile.mkdtemp(prefix="int-", dir=folder)
        process = subprocess.Popen([STEPCTL, "train", "--data", rows, "--model", model, "--out", out, "--epochs",
                                    "20000"], env=CLEAN, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   restore_signals=True, start_new_session=True)
        while "step 1 " not in process.stderr.readline():
            pass
        process.stderr.close()  # as if `| tee log` had ended first, by the same Ctrl-C
        process.send_signal(number)
        check(process.wait(60) == 130, "saves though nobody listens", number, process.returncode)
        process.stdout.close()
        check(run("verify", out, os.path.join(out, "state.safetensors")).returncode == 0, "it is saved", number)
        nothing_left(out, "signal %d" % number)
    out = tempfile.mkdtemp(prefix="int-", dir=folder)
    code, _, _ = interrupt(["generate", "--model", model, "--prompt", "a", "--tokens", "1500"], "", 1, out)
    check(code in (0, 130), "Ctrl-C in generate", code)
    nothing_left(out, "generate")
    check(not os.listdir(out), "generate leaves nothing", os.listdir(out))


with tempfile.TemporaryDirectory(prefix="stepd-test-") as folder:
    model = os.path.join(folder, "models", "tiny")
    make_model(model)
    rows = write_rows(os.path.join(folder, "rows.jsonl"))
    usage()
    bad_rows(folder, model)
    strange_service()
    verify_finds(folder, private_run(folder, model, rows))
    with_service(folder, model, rows)
    interrupts(folder, model, rows)
finish()
