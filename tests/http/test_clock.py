"""The wall clock jumps, days ahead and back: no key grows old by that, so nothing is done twice; and an
answer is forgotten when its time is over, as ever."""
import mmap
import os
import signal
import struct
import subprocess
import tempfile
import time

import daemon
from daemon import check, finish
from fault_table import held
from trainer import Trainer

SHIM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile long long *jump;

__attribute__((constructor)) static void
begin(void)
{
	int fd = open(getenv("CLOCK_JUMP"), O_RDONLY | O_CLOEXEC);
	void *page = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	if (fd >= 0)
		close(fd);
	jump = page == MAP_FAILED ? NULL : page;
}

int
clock_gettime(clockid_t clock, struct timespec *out)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, out);

	if (rc == 0 && clock == CLOCK_REALTIME && jump != NULL)
		out->tv_sec += *jump;
	return rc;
}

time_t
time(time_t *out)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (out != NULL)
		*out = now.tv_sec;
	return now.tv_sec;
}
"""
DAY = 86400


def library(folder):
    source, built = os.path.join(folder, "jump.c"), os.path.join(folder, "jump.so")
    with open(source, "w") as f:
        f.write(SHIM)
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o", built, source], check=True)
    return built


class Clock:
    def __init__(self, folder):
        self.path = os.path.join(folder, "jump")
        with open(self.path, "wb") as f:
            f.write(bytes(4096))
        with open(self.path, "r+b") as f:
            self.page = mmap.mmap(f.fileno(), 4096)

    def jump(self, seconds):
        self.page[:8] = struct.pack("q", seconds)


def step(t, s, key, *headers):
    """The session's step that the answer tells."""
    status, body, told = t.ask("POST", "/v1/sessions/%s/batches:train" % s,
                               {"datum_ids": ["datum-e"], "learning_rate": 1e-4},
                               ["Idempotency-Key: " + key, *headers])
    if status == 202:
        status, body, told = t.ask("GET", told["location"] + "?wait=60")
    check(status == 200, "answered", key, status, body)
    return told.get("stepd-step")


def sign(t, key):
    status, pair, _ = t.ask("POST", "/v1/objects:sign", {}, ["Idempotency-Key: " + key])
    check(status == 200, "signed", status, pair)
    return pair


def jumps(folder, built):
    clock = Clock(folder)
    settings = {"LD_PRELOAD": built, "CLOCK_JUMP": clock.path, "STEPD_KEY_LIFETIME": str(DAY)}
    t = Trainer(**settings)
    s = t.opened()
    t.render(s, "e")
    check(step(t, s, "plain") == "1" and step(t, s, "later", "Prefer: respond-async") == "2", "two steps")
    for days in (30, -30, 365 * 20, 0):
        clock.jump(days * DAY)
        shown = t.ask("GET", "/healthz")[2]["date"]
        pair = sign(t, "pair%d" % days)
        time.sleep(1.1)  # URLs of another second are others
        check(sign(t, "pair%d" % days) == pair, "the same pair of URLs", days, shown, pair)
        check(step(t, s, "plain") == "1", "the same answer", days, shown)
        check(step(t, s, "later", "Prefer: respond-async") == "2", "of operations too", days, shown)
        if days != -30:
            continue
        t.end(signal.SIGKILL)
        clock.jump(60 * DAY)
        t = Trainer(folder=t.folder, **settings)
        check(step(t, s, "plain") == "1", "after a start too", t.status(s))
    check(t.status(s)["step"] == 2, "no third step", t.status(s))
    year = t.ask("GET", "/healthz")[2]["date"].split()[3]
    clock.jump(365 * 20 * DAY)
    until = time.monotonic() + 10  # the Date of answers is made once a second
    while t.ask("GET", "/healthz")[2]["date"].split()[3] == year and time.monotonic() < until:
        time.sleep(0.1)
    check(t.ask("GET", "/healthz")[2]["date"].split()[3] != year, "and the clock did jump")
    t.__exit__(None)


def grows_old():
    with Trainer(STEPD_KEY_LIFETIME="1") as t:
        s = t.opened()
        t.render(s, "e")
        check(step(t, s, "k") == "1", "a step")
        until = time.monotonic() + 30
        while step(t, s, "k") == "1" and time.monotonic() < until:
            time.sleep(0.2)
        check(t.status(s)["step"] >= 2, "its answer was forgotten", t.status(s))


if daemon.ASAN:
    print("skipped: a library is preloaded")
else:
    with tempfile.TemporaryDirectory(prefix="stepd-test-") as folder:
        jumps(folder, library(folder))
    held("the wall clock jumps by days and years, also while stepd is started again",
         "no key grows old by it; nothing is done twice")
grows_old()
finish()
