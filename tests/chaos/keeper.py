"""Starts stepd, and starts it again when it ends, as systemd would; and the small disk that it lives on."""
import os
import select
import signal
import socket
import subprocess
import threading
import time

READY = 30  # seconds for a start, also on a busy machine


def free_port(rng):
    """Below the ports that others get by chance: stepd comes back to it."""
    while True:
        port = rng.randrange(20000, 32000)
        try:
            socket.create_server(("127.0.0.1", port)).close()
            return port
        except OSError:
            pass


class Disk:
    """A small file system for the state folder, that can be filled. Not there: nothing is filled."""
    SIZE = 24 << 20

    def __init__(self, folder, wanted):
        self.folder, self.periods, self.filler = folder, [], os.path.join(folder, "filler")
        self.small = wanted and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=%d,mode=700" % self.SIZE, "none", folder]).returncode == 0

    def fill(self):
        self.periods.append([time.monotonic(), None])
        with open(self.filler, "wb", buffering=0) as f:
            for size in (1 << 20, 4096):
                try:
                    while f.write(b"\0" * size) == size:
                        pass
                except OSError:
                    pass

    def free(self):
        os.unlink(self.filler)
        self.periods[-1][1] = time.monotonic()

    def was_full(self, since):
        return any(end is None or end >= since for _, end in self.periods)

    def end(self):
        if self.small:
            subprocess.run(["umount", "-l", self.folder])


class Keeper:
    """One stepd after the other, on one port. `settings` gives each its environment."""

    def __init__(self, program, settings, log, port, disk, ledger):
        self.program, self.settings, self.disk, self.port = program, settings, disk, port
        self.ledger = ledger
        self.address = ("127.0.0.1", port)
        self.log = open(log, "ab")
        self.lock = threading.Lock()
        self.process, self.tls, self.up = None, False, threading.Event()
        self.down_periods = [[time.monotonic(), None]]
        self.asked, self.ending = [], False  # signals that this one got
        self.problems, self.starts = [], 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ending:
            status = self.one_life()
            self.ledger.note("stepd ended with status", status, "after the signals", self.asked)
            if self.ending:
                break
            with self.lock:
                asked, self.asked = self.asked, []
            right = (status == -signal.SIGKILL and signal.SIGKILL in asked or
                     status == 0 and signal.SIGTERM in asked)
            if not right and not self.disk.was_full(self.started):
                self.problems.append("stepd ended with status %r, after the signals %s" % (status, asked))
            time.sleep(0.1)  # RestartSec

    def one_life(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("STEPD_", "TRAINER_", "CHAOS_"))}
        env.update(self.settings())
        env["STEPD_LISTEN"] = "127.0.0.1:%d" % self.port
        self.started = time.monotonic()
        process = subprocess.Popen([self.program], env=env, stdout=subprocess.PIPE, stderr=self.log)
        with self.lock:
            self.process = process
        self.starts += 1
        self.ledger.note("stepd started:", process.pid)
        if not select.select([process.stdout], [], [], READY)[0]:
            self.problems.append("stepd did not start in %d s" % READY)
            process.kill()
        line = process.stdout.readline()
        self.ledger.note("stepd says:", line.decode(errors="replace").strip())
        with self.lock:
            # One that was killed meanwhile is not up, although it said so.
            if line.startswith(b"listening on ") and not self.asked:
                self.tls = line.startswith(b"listening on https")
                self.down_periods[-1][1] = time.monotonic()
                self.up.set()
        status = process.wait()
        self.went_down()
        process.stdout.close()
        return status

    def went_down(self):
        self.up.clear()
        if self.down_periods[-1][1] is not None:
            self.down_periods.append([time.monotonic(), None])

    def was_down(self, since):
        return any(end is None or end >= since for _, end in self.down_periods)

    def there_for(self):
        end = self.down_periods[-1][1]
        return 0 if end is None else time.monotonic() - end

    def signal(self, number):
        """Ends the stepd that is there; the next one follows. Whether there was one."""
        with self.lock:
            if self.process is None or self.process.poll() is not None:
                return False
            self.asked.append(number)
            self.went_down()
            self.ledger.note("signal", number, "to stepd", self.process.pid)
            self.process.send_signal(number)
            return True

    def worker(self):
        """Process id of the worker that is there, or None."""
        process = self.process
        try:
            with open("/proc/%d/task/%d/children" % (process.pid, process.pid)) as f:
                return int(f.read().split()[0])
        except (AttributeError, OSError, IndexError):
            return None

    def end(self):
        """The last one ends by SIGTERM: its status."""
        self.up.wait(READY)  # where one was killed just now, the next one is meant
        self.ending = True
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.thread.join(90)
        if self.thread.is_alive():
            self.process.kill()
            return "it did not stop"
        self.log.close()
        return self.process.returncode
