"""Becomes a program that sees an older kernel: older_kernel.py NAME[,NAME...] PROGRAM [ARGUMENT...].

landlock, pidfd_open, close_range: there is no such call. actions: seccomp does not tell which actions it knows, so
that none that came later is used (Linux before 4.14, gVisor).
"""
import ctypes
import errno
import os
import struct
import sys

CALLS = {"landlock": (444, 445, 446), "pidfd_open": (434,), "close_range": (436,)}
SECCOMP, GET_ACTION_AVAIL = 317, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF: a word of the call, a jump, the verdict
ALLOW, REFUSE = 0x7fff0000, 0x00050000
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, FILTER = 22, 38, 2


def program(names):
    code = [(LOAD, 0, 0, 0)]
    for name in names:
        for number in CALLS.get(name, ()):
            code += [(EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE | errno.ENOSYS)]
    if "actions" in names:
        code += [(EQUAL, 0, 3, SECCOMP), (LOAD, 0, 0, 16), (EQUAL, 0, 1, GET_ACTION_AVAIL),
                 (RETURN, 0, 0, REFUSE | errno.EINVAL)]
    return b"".join(struct.pack("=HBBI", *line) for line in code + [(RETURN, 0, 0, ALLOW)])


def main():
    code = program(sys.argv[1].split(","))
    text = ctypes.create_string_buffer(code)
    libc = ctypes.CDLL(None, use_errno=True)
    whole = ctypes.create_string_buffer(struct.pack("=H6xQ", len(code) // 8, ctypes.addressof(text)))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or libc.prctl(PR_SET_SECCOMP, FILTER, whole, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
