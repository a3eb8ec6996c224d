"""A state folder on a small file system of its own, and files that fill one."""
import os
import signal
import subprocess

from daemon import children_of


def small_disk(options, starts=1, folder=""):
    """What stepd is started with (prefix=) to have one, by tmpfs's mount options ("size=2m"), or only its
    state's "/folder" on it; and again on the same one each time that it ends. None, with a line that says
    so, where none can be made."""
    if subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"],
                      stderr=subprocess.DEVNULL).returncode != 0:
        print("no small file system can be made here")
        return None
    script = ('d=$STEPD_STATE_DIR%s; mkdir -p "$d" && mount -t tmpfs -o %s none "$d" || exit; %sexec "$@"' %
              (folder, options, '"$@"; ' * (starts - 1)))
    return ("unshare", "-rm", "sh", "-c", script, "sh")


def kill_stepd(t):
    """Kills the stepd of a small_disk that starts another, and waits for that."""
    for pid in children_of(t.process.pid):
        os.kill(pid, signal.SIGKILL)
    t.ready()


def fill(path):
    """Writes the file until there is no room for a page more."""
    with open(path, "wb", buffering=0) as f:
        try:
            while f.write(b"x" * 4096):
                pass
        except OSError:
            pass
