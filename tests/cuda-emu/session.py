"""A session of a GPU, whose worker computes with the emulated CUDA kernels: how it chooses, and that
what it chose at its opening holds for all of its workers."""
import os
import stat
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "http"))
from daemon import BUILD, check, finish
from trainer import Trainer

WORKER = os.path.abspath(os.path.join(BUILD, "cuda-emu", "served", "stepd-worker"))


class Gpu(Trainer):
    """A stepd of one GPU. set_device tells the emulation what the device of the workers to come is."""

    def __init__(self, folder=None, **settings):
        folder = folder or tempfile.mkdtemp(prefix="stepd-test-")
        self.cuda = os.path.join(folder, "worker-cuda")
        models = os.path.join(folder, "models")
        if not os.path.isdir(models):
            subprocess.run([sys.executable, os.path.join(ROOT, "data", "models", "make_tiny.py"),
                            os.path.join(models, "tiny")], check=True)
        self.set_device()
        super().__init__(folder=folder, **{"STEPD_WORKER_CUDA": self.cuda, "STEPD_DEVICES": "0", "STEPD_SANDBOX": "off",
                                           "STEPD_THREADS": "1", "STEPD_LOG_LEVEL": "info", **settings})

    def set_device(self, **settings):
        with open(self.cuda, "w") as f:
            f.write("#!/bin/sh\n%s exec \"%s\" \"$@\"\n" % (
                " ".join("%s=%s" % s for s in {"EMU_GUARD": 0, **settings}.items()), WORKER))
        os.chmod(self.cuda, stat.S_IRWXU)


# bfloat16 by rule; float32 where it is asked for, also where a CPU is told otherwise.
for settings, compute in ({}, "bf16"), ({"STEPD_GPU_COMPUTE": "f32", "STEPD_CPU_COMPUTE": "bf16"}, "f32"):
    with Gpu(**settings) as t:
        s = t.opened(base_model="tiny")
        status = t.status(s)
        check(status["compute"] == compute and status["device"] == "emulated device", "auto", settings, status)
        t.close(s, "?force=true")

finish()
