"""Detours as `idlewave measure detour` reports them, for the scripts beside this file."""

import json
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def add_options(parser):
    parser.add_argument("--idlewave", default=os.path.join(ROOT, "target", "release", "idlewave"))


def need_program(path, how_to_get_it):
    """The path of a program; ends with one line if it is not there."""
    found = shutil.which(path)
    if not found:
        sys.exit(f"no {path}: {how_to_get_it}")
    return found


def allowed_cpus():
    return sorted(os.sched_getaffinity(0))


def start(command):
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process, seconds):
    """The output of a program that must end within this time."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        sys.exit(f"{' '.join(process.args)}: still running after {seconds:.0f} s; try again on a quieter machine")
    if process.returncode:
        sys.exit(f"{' '.join(process.args)}: exit code {process.returncode}\n{err or out}")
    return out


class Measured:
    """A run of `measure detour` with its detours per CPU."""

    def __init__(self, idlewave, cpus, seconds):
        listed = ",".join(map(str, cpus))
        command = [idlewave, "measure", "detour", "--cpus", listed, "--duration", f"{seconds * 1000:.0f}ms", "--no-trace", "--json"]
        document = json.loads(finish(start(command), seconds + 60))
        self.busy = document["header"]["measured"]["contaminated"]
        self.cpus = {cpu["cpu"]: cpu["detours"] for cpu in document["cpus"]}

    def rate_from(self, cpu, length_us):
        """Detours of at least this length per second."""
        classes = self.cpus[cpu]["classes"]
        assert length_us * 1000 in [c["from"] for c in classes], f"no class of lengths begins at {length_us} us"
        return sum(c["per_second"] for c in classes if c["from"] >= length_us * 1000)

    def class_of(self, cpu, length_ns):
        """The class of detours of this length."""
        return max((c for c in self.cpus[cpu]["classes"] if c["from"] <= length_ns), key=lambda c: c["from"])

    def stolen_by(self, cpu, starts_ns):
        """Share of the time that detours of the classes with these least lengths took."""
        shares = [c["share"] for c in self.cpus[cpu]["classes"] if c["from"] in starts_ns]
        return self.cpus[cpu]["stolen"]["value"] * sum(shares)
