"""A model small enough to be trained within a test, and stepd with its real worker on it."""
import os
import subprocess
import sys
import tempfile

from daemon import BUILD

WORKER = os.path.abspath(os.path.join(BUILD, "stepd-worker"))
MAKE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "models", "make_tiny.py")


def make_model(folder):
    subprocess.run([sys.executable, MAKE, folder], check=True, stdout=subprocess.DEVNULL)


def make_models(*names):
    """A new folder for a test, with the model under each name in its folder "models"."""
    folder = tempfile.mkdtemp(prefix="stepd-test-")
    for name in names:
        make_model(os.path.join(folder, "models", name))
    return folder


def real_worker(folder, **more):
    """The settings of a stepd that trains the models of that folder, to the same bits each time."""
    return {"STEPD_MODEL_DIR": os.path.join(folder, "models"), "STEPD_WORKER": WORKER,
            "STEPD_THREADS": "1", "STEPD_CPU_COMPUTE": "f32", **more}
