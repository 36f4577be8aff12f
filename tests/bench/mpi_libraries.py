"""The MPI libraries that the benchmarks here can use."""

import os
import shutil
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def installations():
    """Launcher, compiler and options of each MPI library that is there."""
    env_openmpi = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    test_mpi = os.path.join(ROOT, "target", "test-mpi")
    known = [
        ("Open MPI 4", "mpirun.openmpi", "mpicc.openmpi", env_openmpi, ["--bind-to", "core"]),
        ("MPICH 4", "mpirun.mpich", "mpicc.mpich", {}, ["-bind-to", "core"]),
        ("Open MPI 5", f"{test_mpi}/openmpi5/bin/mpirun", f"{test_mpi}/openmpi5/bin/mpicc", env_openmpi, ["--bind-to", "core"]),
        ("MPICH 5", f"{test_mpi}/mpich5/bin/mpirun", f"{test_mpi}/mpich5/bin/mpicc", {}, ["-bind-to", "core"]),
    ]
    for name, mpirun, mpicc, env, options in known:
        if shutil.which(mpirun) and shutil.which(mpicc):
            yield name, mpirun, mpicc, env, options
        else:
            print(f"skipped: {name}: no {mpirun}")


def add_option(parser):
    parser.add_argument("--libraries", help='of the MPI libraries these, such as "Open MPI 4,MPICH 4" [all that are installed]')


def chosen(options):
    """The installations to measure; ends the program if one that was asked for is missing."""
    there = list(installations())
    wanted = options.libraries.split(",") if options.libraries else None
    missing = [name for name in wanted or [] if name not in (installed[0] for installed in there)]
    if missing:
        sys.exit(f"no {', '.join(missing)}: there are {', '.join(installed[0] for installed in there)}")
    return [installed for installed in there if wanted is None or installed[0] in wanted]
