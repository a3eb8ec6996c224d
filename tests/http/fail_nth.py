"""The page that a test shares with the library that fails (tests/fault/fail_nth.h), and a stepd under
it."""
import errno
import mmap
import os
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
    """Its fields lie as fail_nth.h says."""
    TRACES, CALL, SIZE = 96, struct.Struct("<QQQ"), 96 + (24 << 18)

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as f:
            f.truncate(self.SIZE)
        with open(path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), self.SIZE)

    def field(self, index, form="I"):
        return struct.unpack_from(form, self.map, 4 * index)[0]

    def arm(self, kind, nth, error, chain=0, lasting=False):
        """The n-th call of a class fails, or the n-th of those from a chain; lasting: and all that follow."""
        struct.pack_into("IIiII", self.map, 4, nth, lasting, error, 0, 0)  # what is live stays
        struct.pack_into("=36xQQ8xQ", self.map, 28, 0, 0, chain)
        struct.pack_into("I", self.map, 0, CLASSES.index(kind) + 1)

    def trace(self):
        """From here on every call is traced, until disarm()."""
        struct.pack_into("II", self.map, 80, 1, 0)

    def disarm(self):
        struct.pack_into("I", self.map, 0, 0)
        struct.pack_into("I", self.map, 80, 0)

    def traced(self):
        """The class, chain and site of each call since trace()."""
        count = self.field(21)
        check(self.TRACES + count * self.CALL.size <= self.SIZE, "room for the traces", count)
        for chain, site, kind in self.CALL.iter_unpack(self.map[self.TRACES:self.TRACES + count * self.CALL.size]):
            if kind > 0:
                yield CLASSES[kind - 1], chain, site

    error = property(lambda self: self.field(3, "i"))
    calls = property(lambda self: self.field(4))
    fired = property(lambda self: self.field(5))
    live = property(lambda self: self.field(6, "i"))
    name = property(lambda self: self.map[28:64].split(b"\0")[0].decode())
    met = property(lambda self: struct.unpack_from("QQ", self.map, 64))  # chain and site of what failed


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

    def came_up(self, logged):
        """Whether it listens; False: it ended before. logged: how long the log was."""
        line, end = b"", time.monotonic() + 30
        while not line and time.monotonic() < end:
            if select.select([self.process.stdout], [], [], 0.05)[0]:
                line = self.process.stdout.readline()
                break
            if "standard output is closed" in self.logged()[logged:]:
                with open(os.path.join(self.state, "address"), "rb") as f:
                    line = b"listening on " + f.read()
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
