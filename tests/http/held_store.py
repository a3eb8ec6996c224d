"""The thread of a stepd that writes its store, stopped: what waits for the disk waits until it is let go."""
import ctypes
import os

LIBC = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000


def ptrace(request, tid):
    LIBC.ptrace.argtypes = (ctypes.c_long,) * 4
    if LIBC.ptrace(request, tid, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class HeldStore:
    """Stops it where it holds no lock: it sleeps, and has nothing to do. OSError: that is not allowed here."""

    def __init__(self, t):
        tasks = "/proc/%d/task" % t.process.pid
        for name in os.listdir(tasks):
            with open(os.path.join(tasks, name, "comm")) as f:
                if f.read() == "store\n":
                    self.tid = int(name)
        ptrace(PTRACE_SEIZE, self.tid)
        while True:
            idle = t.document()["store"]["changes_waiting"] == 0
            with open(os.path.join(tasks, str(self.tid), "stat")) as f:
                if idle and f.read().rpartition(")")[2].split()[0] == "S":
                    break
        ptrace(PTRACE_INTERRUPT, self.tid)
        os.waitpid(self.tid, WALL)

    def let_go(self):
        ptrace(PTRACE_DETACH, self.tid)
