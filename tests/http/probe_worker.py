"""A worker that only tries what stepd and its programs have given up, and tells the log: `probe NAME RESULT`,
0 or the name of an errno. Arguments: a folder where it may not write, a process that it may not signal."""
import ctypes
import errno
import os
import platform
import socket
import sys

folder, stranger = sys.argv[1], int(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
X86 = {"ptrace": 101, "process_vm_readv": 310, "kcmp": 312, "setuid": 105, "setregid": 114, "setns": 308,
       "chroot": 161, "mount": 165, "umount2": 166, "open_tree": 428, "fsopen": 430, "init_module": 175,
       "finit_module": 313, "kexec_load": 246, "reboot": 169, "syslog": 103, "bpf": 321, "perf_event_open": 298,
       "userfaultfd": 323, "io_uring_setup": 425, "keyctl": 250, "add_key": 248, "pidfd_getfd": 438}


def tell(name, call, *args):
    try:
        call(*args)
        result = "0"
    except OSError as e:
        result = errno.errorcode.get(e.errno, str(e.errno))
    print("probe", name, result, file=sys.stderr, flush=True)


def system_call(number, *args):
    if libc.syscall(number, *[ctypes.c_long(a) for a in args]) == -1:
        raise OSError(ctypes.get_errno(), "")


def at(*names):
    return os.path.join(folder, *names)


if platform.machine() == "x86_64":
    for name, number in X86.items():
        # arguments that the kernel itself refuses otherwise, or that change nothing
        tell(name, system_call, number, os.getuid() if name == "setuid" else -1, -1, -1, -1, -1, -1)

tell("make", lambda: open(at("new"), "w").close())
tell("append", lambda: open(at("there"), "a").close())
tell("truncate", os.truncate, at("there"), 0)
tell("rename", os.rename, at("there"), at("elsewhere"))
tell("remove", os.unlink, at("there"))
tell("mkdir", os.mkdir, at("folder"))
tell("symlink", os.symlink, "there", at("link"))
tell("mkfifo", os.mkfifo, at("fifo"))
tell("read", lambda: open(at("there")).close())
state = at("state")
tell("make-in-state", lambda: open(os.path.join(state, "new"), "w").close())
tell("mkdir-in-state", os.mkdir, os.path.join(state, "folder"))
tell("rename-in-state", os.rename, os.path.join(state, "new"), os.path.join(state, "folder", "new"))
tell("remove-in-state", os.unlink, os.path.join(state, "folder", "new"))
tell("rmdir-in-state", os.rmdir, os.path.join(state, "folder"))
tell("null", lambda: open("/dev/null", "w").close())
for name, family, kind, protocol in [("inet", socket.AF_INET, socket.SOCK_STREAM, 0),
                                     ("unix", socket.AF_UNIX, socket.SOCK_STREAM, 0),
                                     ("route", socket.AF_NETLINK, socket.SOCK_RAW, 0),
                                     ("netfilter", socket.AF_NETLINK, socket.SOCK_RAW, 12),
                                     ("packet", socket.AF_PACKET, socket.SOCK_RAW, 0),
                                     ("vsock", socket.AF_VSOCK, socket.SOCK_STREAM, 0),
                                     ("alg", socket.AF_ALG, socket.SOCK_SEQPACKET, 0)]:
    tell("socket-" + name, lambda: socket.socket(family, kind, protocol).close())
tell("listen", lambda: socket.create_server(("127.0.0.1", 0)).close())
tell("signal", os.kill, stranger, 0)
tell("signal-self", os.kill, os.getpid(), 0)
tell("programs", lambda: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0))
with open("/proc/self/status") as f:
    for line in f:
        if line.startswith(("Cap", "NoNewPrivs", "Seccomp:")):
            print("probe", line.split(":")[0], line.split()[1], file=sys.stderr, flush=True)
print("probe end 0", file=sys.stderr, flush=True)
