"""A minute of `make chaos`: as many faults as it allows, its steps and bytes those of a run in peace."""
import os
import subprocess
import sys

CHAOS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "chaos", "chaos.py")
sys.exit(subprocess.run([sys.executable, CHAOS, "--steps", "60", "--faults", "80", "--least", "10", "--seconds", "40"]).returncode)
