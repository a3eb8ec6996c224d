"""The page that a test shares with the library that fails (tests/fault/fail_nth.h), and a stepd under
it."""
import errno
import itertools
import mmap
import os
import random
import re
import select
import struct
import time

from daemon import BUILD, check
from trainer import Trainer

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault", "fail_nth.h")
LIBRARY = os.path.abspath(os.path.join(BUILD, "tests", "libfail-nth.so"))
CLASSES = re.findall(r"\tX\((\w+), ", open(HEADER).read())
SHORT, MAP_FULL = -1, -30792  # a write by half; LMDB's own
ERRORS = {"MEMORY": (errno.ENOMEM,), "WRITE": (errno.ENOSPC, errno.EIO, errno.EDQUOT, SHORT),
          "READ": (errno.EIO,), "SYNC": (errno.EIO, errno.ENOSPC),
          "NAME": (errno.EIO, errno.ENOSPC), "MAP": (errno.ENOMEM,),
          "SEND": (errno.ENOBUFS, errno.EPIPE), "OPEN": (errno.EMFILE, errno.ENOMEM),
          "SIZE": (errno.ENOSPC,), "PROCESS": (errno.EAGAIN,),
          "STORE": (errno.ENOSPC, MAP_FULL, errno.EIO), "CURL": (0,), "EVENT": (0,)}


class Page:
    def __init__(self, path):
        self.path = path
        with open(path, "wb") as f:
            f.write(bytes(4096))
        with open(path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), 4096)

    def field(self, index, form="I"):
        return struct.unpack_from(form, self.map, 4 * index)[0]

    def arm(self, kind, nth, error, forever=False):
        struct.pack_into("IIiII36x", self.map, 4, nth, forever, error, 0, 0)
        struct.pack_into("I", self.map, 0, CLASSES.index(kind) + 1)

    def disarm(self):
        struct.pack_into("I", self.map, 0, 0)

    error = property(lambda self: self.field(3, "i"))
    calls = property(lambda self: self.field(4))
    fired = property(lambda self: self.field(5))
    live = property(lambda self: self.field(6, "i"))
    name = property(lambda self: self.map[28:64].split(b"\0")[0].decode())


def in_order(cases, seed, seconds, kind_of):
    """The cases for so many seconds (0: all of them), in an order from the seed; the first of each kind
    come first."""
    cases = list(cases)
    random.Random(seed).shuffle(cases)
    seen = set()
    cases.sort(key=lambda case: kind_of(case) in seen or seen.add(kind_of(case)) is not None)
    end = time.monotonic() + (seconds or 1e9)
    return itertools.takewhile(lambda _: time.monotonic() <= end, cases)


def until_done(call, *args):
    """The call again, until the session is back."""
    for _ in range(60):
        answer = call(*args)
        if answer[0] not in (0, 503):
            break
        time.sleep(0.05)
    return answer


class Hang(Exception):
    """A call that is not answered."""


class Failing(Trainer):
    """A stepd whose calls fail when its page says so, with the fault worker."""

    def __init__(self, folder, prefix=(), **settings):
        self.page = Page(os.path.join(folder, "page"))
        timeouts = {"STEPD_%s_TIMEOUT" % name: "5"
                    for name in ("READY", "LOAD", "RENDER", "TRAIN", "SAVE", "GENERATE")}
        # A connection that libevent has no memory to write on ends by its deadline.
        timeouts.update(("STEPD_%s_TIMEOUT" % name, "1") for name in ("HEADER", "BODY", "IDLE"))
        settings = {**timeouts, "STEPD_LOG_LEVEL": "info", "STEPD_SNAPSHOT_STEPS": "3",
                    "STEPD_PERSIST_DATA": "true",
                    "LD_PRELOAD": LIBRARY, "FAIL_NTH": self.page.path, **settings}
        self.settings = settings
        super().__init__(folder=folder, prefix=prefix, **settings)

    def again(self, wait=True):
        """Another one in the place of this one, which has ended."""
        self.log.close()
        self.process.stdout.close()
        Trainer.__init__(self, folder=self.folder, wait=wait, **self.settings)

    def came_up(self):
        """Whether it listens; False: it ended before."""
        line = self.process.stdout.readline() if select.select([self.process.stdout], [], [], 30)[0] \
            else b""
        match = re.fullmatch(rb"listening on (https?)://(.+):(\d+)\n", line)
        if match is None:
            return False
        self.host, self.port = match.group(2).decode(), int(match.group(3))
        return True

    def alive(self):
        return self.process.poll() is None

    def exchange(self, raw, timeout=20):
        answers, ended = super().exchange(raw, min(timeout, 10))
        # One that was cut is none.
        return [a for a in answers if len(a.body) == int(a.headers["content-length"])], ended

    def descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.process.pid))

    def try_ask(self, *args):
        """As ask, but a connection that breaks is an answer too: status 0. A malformed one is not."""
        begun = time.monotonic()
        try:
            answer = self.ask(*args)
        except (OSError, ValueError, AttributeError, KeyError) as e:
            if not isinstance(e, OSError):
                check(False, "a malformed answer", args, repr(e))
            answer = (0, None, {})
        if time.monotonic() - begun > 9:
            raise Hang("%s %s" % args[:2])
        return answer
