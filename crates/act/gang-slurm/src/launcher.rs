//! Programs that start ranks or carry their output: those of Slurm, Open MPI 4 and 5, MPICH and
//! Intel MPI, and of ssh. If one stopped, slurmctld, other nodes or the terminal would miss it, so
//! they are never stopped.
//!
//! The name that a process gives itself (`PR_SET_NAME` of prctl(2)) proves nothing: any rank can
//! call itself `srun`. A launcher is recognised by the file that it executes, by its environment,
//! by its children, and by whether it has loaded an MPI library, which launchers do not need.

use std::fs;
use std::path::Path;

/// Names of launcher executables.
pub const LAUNCHERS: [&str; 24] = [
    "slurmstepd",
    "slurmstepd-wlm",
    "srun",
    "salloc",
    "sbatch",
    "sattach",
    "mpirun",
    "mpirun.openmpi",
    "mpirun.mpich",
    "mpiexec",
    "mpiexec.openmpi",
    "mpiexec.mpich",
    "mpiexec.hydra",
    "mpiexec.gforker",
    "orterun",
    "orted",
    "prterun",
    "prun",
    "prte",
    "prted",
    "hydra_pmi_proxy",
    "hydra_bstrap_proxy",
    "sshd",
    "sshd-session",
];

/// What executes scripts: Intel MPI's mpirun is one.
const INTERPRETERS: [&str; 5] = ["sh", "bash", "dash", "ksh", "perl"];
/// Variables by which launchers give a program its rank.
const RANKS: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];
/// File names of MPI libraries.
const LIBRARIES: [&str; 3] = ["/libmpi.so", "/libmpich.so", "/libmpi_abi.so"];

/// Whether a process is a launcher. `directory` is its directory below /proc, `name` its own name
/// for itself. `rank` (whether its environment gives it an MPI rank) and `serves` (whether it has
/// children that belong to its job) are evaluated only if needed.
pub fn is_launcher(
    directory: &Path,
    name: &str,
    rank: impl FnOnce() -> bool,
    serves: impl FnOnce() -> bool,
) -> bool {
    let file = fs::read_link(directory.join("exe")).ok();
    // A file that was replaced while running, as by an update, reads `FILE (deleted)`.
    let file = file.as_deref().and_then(|path| path.file_name()?.to_str());
    let file = file.map(|file| file.strip_suffix(" (deleted)").unwrap_or(file));
    match file {
        Some(file) if LAUNCHERS.contains(&file) => {
            // A daemon that srun started has a rank of its own, and ranks below it.
            (!rank() || serves()) && !has_library(directory)
        }
        Some(file) if INTERPRETERS.contains(&file) || file.starts_with("python") => {
            LAUNCHERS.contains(&name) && !rank()
        }
        Some(_) => false,
        // Without permission to read it, only the name is left, which the kernel truncates.
        None => {
            let cut = |file: &&str| file.get(..15).unwrap_or(file) == name;
            LAUNCHERS.iter().any(cut) && !rank()
        }
    }
}

/// Whether an environment (strings, each terminated by a zero byte) gives an MPI rank.
pub(crate) fn has_rank(environment: &[u8]) -> bool {
    let variable = |name| crate::proc::variable(environment, name);
    RANKS.iter().any(|name| variable(name).is_some())
}

fn has_library(directory: &Path) -> bool {
    let maps = fs::read(directory.join("maps")).unwrap_or_default();
    let maps = String::from_utf8_lossy(&maps);
    LIBRARIES.iter().any(|library| maps.contains(library))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn process(exe: Option<&str>, maps: &str) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        if let Some(exe) = exe {
            symlink(exe, directory.path().join("exe")).unwrap();
        }
        fs::write(directory.path().join("maps"), maps).unwrap();
        directory
    }

    #[test]
    fn a_launcher_is_told_by_its_file_and_not_by_the_name_that_it_gives_itself() {
        let told = |exe, name, rank, serves| {
            is_launcher(process(exe, "").path(), name, || rank, || serves)
        };
        let srun = Some("/usr/bin/srun");
        for (exe, name, rank, serves, launcher) in [
            (srun, "srun", false, false, true),
            (srun, "anything", false, false, true),
            (
                Some("/usr/bin/orted (deleted)"),
                "orted",
                false,
                false,
                true,
            ),
            // Daemons started by srun have a rank, and ranks below them.
            (Some("/usr/bin/orted"), "orted", true, true, true),
            // Ranks that give themselves such a name, or whose file has one.
            (Some("/home/u/app"), "srun", true, false, false),
            (Some("/home/u/app"), "srun", false, true, false),
            (Some("/home/u/srun"), "srun", true, false, false),
            (Some("/usr/bin/python3.11"), "srun", true, false, false),
            // A script, and a process that cannot be read.
            (Some("/bin/bash"), "mpirun", false, true, true),
            (Some("/bin/bash"), "bash", false, true, false),
            (None, "mpirun", false, false, true),
            (None, "mpirun", true, false, false),
        ] {
            let found = told(exe, name, rank, serves);
            assert_eq!(found, launcher, "{exe:?} {name} {rank} {serves}");
        }
    }

    #[test]
    fn what_has_loaded_an_mpi_library_is_a_rank_whatever_its_file_is_called() {
        let maps = "7f00-7f01 r-xp 0 08:01 7 /usr/lib/libmpi.so.40.30.4\n";
        let rank = process(Some("/home/u/srun"), maps);
        assert!(!is_launcher(rank.path(), "srun", || true, || true));
        let other = "7f00-7f01 r-xp 0 08:01 7 /usr/lib/libopen-rte.so.40\n";
        let daemon = process(Some("/usr/bin/orted"), other);
        assert!(is_launcher(daemon.path(), "orted", || true, || true));
    }

    #[test]
    fn an_environment_has_a_rank_if_a_launcher_gave_one() {
        assert!(has_rank(b"A=1\0PMI_RANK=0\0"));
        assert!(!has_rank(b"A=PMI_RANK=0\0SLURM_PROCID=0\0"));
    }
}
