//! For tests: the MPI installations of this machine, and how to start programs under each.
//!
//! Debian's are in `PATH` under their alternative names; those that `tests/mpi/install` made are
//! under `target/test-mpi`. Nothing but tests uses this.

use crate::abi::Family;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Seconds after which a test's job is killed: far more than it needs, even on a loaded machine.
const LIMIT: u32 = 600;

/// One MPI installation.
#[derive(Clone, Debug)]
pub struct Installation {
    /// `openmpi4`, `mpich4`, `openmpi5` or `mpich5`.
    pub name: &'static str,
    /// Family of its own library.
    pub family: Family,
    /// The launcher.
    pub mpirun: PathBuf,
    /// Options that let root start more ranks than there are cores.
    pub options: Vec<OsString>,
    /// Environment variables for the same.
    pub environment: Vec<(&'static str, OsString)>,
    /// Its libraries: its own first, then that of the standard ABI if it has one.
    pub libraries: Vec<PathBuf>,
    /// The compiler wrapper for C.
    pub mpicc: Option<PathBuf>,
    /// The compiler wrapper for C and the standard ABI.
    pub mpicc_abi: Option<PathBuf>,
    /// The compiler wrapper for Fortran.
    pub mpifort: Option<PathBuf>,
    /// A Python that has mpi4py for this library.
    pub python: Option<PathBuf>,
}

impl Installation {
    /// The launcher with all options for `ranks` ranks, under a time limit that only a hung job
    /// reaches. The caller adds the program as the next argument, and may change environment and
    /// directory.
    pub fn launch(&self, ranks: u32) -> Command {
        let mut command = Command::new("timeout");
        command.arg("--kill-after=5").arg(LIMIT.to_string());
        command.arg(&self.mpirun).args(&self.options);
        command.args(["-n", &ranks.to_string()]);
        self.prepare(&mut command);
        if ranks as usize > cpus() {
            // Ranks that share a CPU must yield to each other.
            command.env("OMPI_MCA_mpi_yield_when_idle", "1");
        }
        command
    }

    /// Makes a launcher kill ranks without a grace period: Open MPI gives them a second.
    pub fn kill_at_once(command: &mut Command) {
        for prefix in ["OMPI", "PRTE"] {
            command.env(format!("{prefix}_MCA_odls_base_sigkill_timeout"), "0");
        }
    }

    /// Sets the environment that this installation needs, and removes what a launcher around the
    /// test has set.
    pub fn prepare(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if [
                "OMPI_", "PMI", "PMIX_", "SLURM_", "PRTE_", "HYDRA_", "MPIR_",
            ]
            .iter()
            .any(|prefix| name.starts_with(prefix))
            {
                command.env_remove(name.as_ref());
            }
        }
        for (name, value) in &self.environment {
            command.env(name, value);
        }
    }

    /// Compiles a C program. Panics with the compiler's output if that fails; `None` without a
    /// compiler wrapper.
    pub fn compile_c(&self, source: &Path, to: &Path) -> Option<()> {
        compile(self.mpicc.as_deref()?, source, to);
        Some(())
    }

    /// Compiles a Fortran program, as [`compile_c`](Self::compile_c).
    pub fn compile_fortran(&self, source: &Path, to: &Path) -> Option<()> {
        compile(self.mpifort.as_deref()?, source, to);
        Some(())
    }
}

/// Whether Open MPI's launcher failed rather than the job. Version 5 gives one of its own threads
/// two seconds to start. Version 4 can see a rank exit before it learns of the rank's MPI_Finalize,
/// and then names process 0 (open-mpi/ompi issue 9389).
pub fn launcher_failed(words: &str) -> bool {
    let end_overtook = words.contains("with PID 0 on") && words.contains("exiting improperly");
    end_overtook || words.contains("PMIx server's listener thread failed to start")
}

/// Runs a job to its end, and runs it again if the launcher failed, which it does not always
/// report.
pub fn output(launch: &mut Command) -> Output {
    output_of_cleared(launch, || ())
}

/// The same for a job that leaves something behind, which `clear` removes before each attempt.
pub fn output_of_cleared(launch: &mut Command, clear: impl Fn()) -> Output {
    let good = |output: &Output| {
        let words = String::from_utf8_lossy(&output.stderr);
        let nothing = output.stdout.is_empty() && words.is_empty() && !output.status.success();
        !nothing && !launcher_failed(&words)
    };
    let mut run = || {
        clear();
        launch.output().expect("the launcher can be started")
    };
    // A program that fails silently fails in all of these attempts.
    let first = (0..4).map(|_| run()).find(good);
    first.unwrap_or_else(run)
}

fn compile(wrapper: &Path, source: &Path, to: &Path) {
    let done = Command::new(wrapper)
        .args(["-O2", "-g", "-o"])
        .arg(to)
        .arg(source)
        .arg("-lm")
        .output();
    match done {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!(
            "{} failed on {}:\n{}",
            wrapper.display(),
            source.display(),
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => panic!("{} cannot be started: {error}", wrapper.display()),
    }
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// All installations of this machine: Open MPI 4, MPICH 4, Open MPI 5, MPICH 5. A missing one is
/// reported as skipped, or fails the test if `IDLEWAVE_REQUIRE_ALL` is set.
pub fn installations() -> Vec<Installation> {
    let known = [openmpi4(), mpich4(), openmpi5(), mpich5()];
    known.into_iter().filter_map(found).collect()
}

/// One installation, by name.
pub fn installation(name: &str) -> Option<Installation> {
    let candidate = match name {
        "openmpi4" => openmpi4(),
        "mpich4" => mpich4(),
        "openmpi5" => openmpi5(),
        "mpich5" => mpich5(),
        _ => panic!("no installation is called {name}"),
    };
    found(candidate)
}

/// Prints why a test is skipped, or fails it if `IDLEWAVE_REQUIRE_ALL` is set.
pub fn skip(why: &str) {
    assert!(
        std::env::var_os("IDLEWAVE_REQUIRE_ALL").is_none(),
        "IDLEWAVE_REQUIRE_ALL is set, but {why}"
    );
    println!("skipped: {why}");
}

/// Whether tests should try every combination, which takes minutes: if `IDLEWAVE_LONG` is set, as
/// `./check --long` does.
pub fn long() -> bool {
    std::env::var_os("IDLEWAVE_LONG").is_some()
}

/// Two installations that differ in family and generation; `case` decides which pair. [`long`]
/// tests get all installations.
pub fn some_installations(case: &str) -> Vec<Installation> {
    let sum: usize = case.bytes().map(usize::from).sum();
    let pair = [["openmpi4", "mpich5"], ["mpich4", "openmpi5"]][sum % 2];
    let mut all = installations();
    all.retain(|mpi| long() || pair.contains(&mpi.name));
    all
}

fn found(candidate: Result<Installation, &'static str>) -> Option<Installation> {
    match candidate {
        Ok(installation) => Some(installation),
        Err(name) => {
            skip(&format!("{name} is not installed (see tests/mpi/install)"));
            None
        }
    }
}

fn in_path(name: &str) -> Option<PathBuf> {
    Some(crate::in_path(Path::new(name))).filter(|file| file.is_absolute())
}

/// The prefix of an installation from PyPI.
fn prefix(name: &str) -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    let here = std::env::current_dir().ok()?;
    let beside_tests = exe.ancestors().map(|d| d.join("test-mpi").join(name));
    let below_workspace = here
        .ancestors()
        .map(|d| d.join("target/test-mpi").join(name));
    beside_tests
        .chain(below_workspace)
        .find(|prefix| prefix.join("bin/mpirun").is_file())
}

fn root_may(names: &[&'static str]) -> Vec<(&'static str, OsString)> {
    names.iter().map(|name| (*name, "1".into())).collect()
}

const OMPI_ROOT: [&str; 4] = [
    "OMPI_ALLOW_RUN_AS_ROOT",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
    "PRTE_ALLOW_RUN_AS_ROOT",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM",
];

/// Where Debian puts libraries.
fn debian_library(soname: &str) -> Option<PathBuf> {
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    let file = Path::new("/usr/lib").join(triplet).join(soname);
    file.is_file().then_some(file)
}

fn openmpi4() -> Result<Installation, &'static str> {
    let name = "openmpi4";
    Ok(Installation {
        name,
        family: Family::OpenMpi,
        mpirun: in_path("mpirun.openmpi").ok_or(name)?,
        options: vec!["--oversubscribe".into()],
        environment: root_may(&OMPI_ROOT[..2]),
        libraries: vec![debian_library("libmpi.so.40").ok_or(name)?],
        mpicc: in_path("mpicc.openmpi"),
        mpicc_abi: None,
        mpifort: in_path("mpifort.openmpi"),
        python: None,
    })
}

fn mpich4() -> Result<Installation, &'static str> {
    let name = "mpich4";
    Ok(Installation {
        name,
        family: Family::Mpich,
        mpirun: in_path("mpirun.mpich").ok_or(name)?,
        options: Vec::new(),
        environment: Vec::new(),
        libraries: vec![debian_library("libmpich.so.12").ok_or(name)?],
        mpicc: in_path("mpicc.mpich"),
        mpicc_abi: None,
        mpifort: in_path("mpifort.mpich"),
        python: None,
    })
}

fn existing(file: PathBuf) -> Option<PathBuf> {
    file.exists().then_some(file)
}

fn openmpi5() -> Result<Installation, &'static str> {
    let name = "openmpi5";
    let prefix = prefix(name).ok_or(name)?;
    let bin = prefix.join("bin");
    Ok(Installation {
        name,
        family: Family::OpenMpi,
        mpirun: bin.join("mpirun"),
        options: vec!["--map-by".into(), ":OVERSUBSCRIBE".into()],
        environment: root_may(&OMPI_ROOT),
        libraries: vec![prefix.join("lib/libmpi.so.40")],
        mpicc: existing(bin.join("mpicc")),
        mpicc_abi: None,
        mpifort: None,
        python: existing(bin.join("python")),
    })
}

fn mpich5() -> Result<Installation, &'static str> {
    let name = "mpich5";
    let prefix = prefix(name).ok_or(name)?;
    let (bin, lib) = (prefix.join("bin"), prefix.join("lib"));
    Ok(Installation {
        name,
        family: Family::Mpich,
        mpirun: bin.join("mpirun"),
        options: Vec::new(),
        environment: Vec::new(),
        libraries: vec![lib.join("libmpi.so.12"), lib.join("libmpi_abi.so.1")],
        mpicc: existing(bin.join("mpicc")),
        mpicc_abi: existing(bin.join("mpicc_abi")),
        mpifort: None,
        python: existing(bin.join("python")),
    })
}
