//! Finds the program in the command line of a launcher, and builds the same command with something
//! before the program or in its place.

use crate::launch_options::{Launcher, Output, Values, output_option, values};
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A launcher's command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The launcher.
    pub launcher: Launcher,
    /// The programs with their arguments: one, or several separated by `:`. The ranges are
    /// ascending, and none is empty.
    pub programs: Vec<Range<usize>>,
    /// Whether a program's position was guessed because of an unknown option before it.
    pub guessed: bool,
}

/// Why the program was not found in a launcher's command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// There are only options, or what follows an unknown option is not a program.
    #[error(
        "find the program in the command of {launcher}{after}; give its position: `--at N`, where N counts the \
         words before it, the launcher included"
    )]
    NoProgram {
        /// The launcher as it was called.
        launcher: String,
        /// "after the unknown option ...", or nothing.
        after: String,
    },
    /// The programs are named in a file.
    #[error(
        "find the programs of {launcher}: they are given in a file ({option}); write them into the command, separated \
         by `:`"
    )]
    InFile {
        /// The launcher as it was called.
        launcher: String,
        /// The option.
        option: String,
    },
    /// A launcher started `idlewave record` itself, once per rank.
    #[error(
        "record each of {size} ranks by itself: {launcher} has started `idlewave record` {size} times; put it before the \
         launcher instead: idlewave record -- {example} -n {size} PROGRAM"
    )]
    Inside {
        /// The launcher.
        launcher: &'static str,
        /// Ranks.
        size: u32,
        /// An example of its use.
        example: &'static str,
    },
    /// No number for the recording is available.
    #[error("start a recording on several nodes: {0}")]
    Job(String),
    /// `--at` is outside the command.
    #[error(
        "use word {at} of the command as the program: it has {words} words; --at takes the number of words before the program"
    )]
    At {
        /// The given position.
        at: usize,
        /// Number of words.
        words: usize,
    },
}

/// Queries to the machine; a trait object in tests.
pub trait Programs {
    /// Whether `word` can be started: a path to, or the name in PATH of, an executable file.
    fn can_be_started(&self, word: &OsStr) -> bool;
    /// The file of `word` after following links.
    fn real_path(&self, word: &OsStr) -> Option<PathBuf>;
}

/// The file system and PATH of this process.
#[derive(Clone, Copy, Debug)]
pub struct Machine;

impl Machine {
    /// The executable file of `word`, as a shell would find it.
    pub fn find(word: &OsStr) -> Option<PathBuf> {
        let path = Path::new(word);
        if path.components().count() > 1 || path.is_absolute() {
            return executable(path).then(|| path.to_owned());
        }
        std::env::split_paths(&std::env::var_os("PATH")?)
            .map(|directory| directory.join(path))
            .find(|file| executable(file))
    }
}

fn executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

impl Programs for Machine {
    fn can_be_started(&self, word: &OsStr) -> bool {
        Self::find(word).is_some()
    }
    fn real_path(&self, word: &OsStr) -> Option<PathBuf> {
        Self::find(word)?.canonicalize().ok()
    }
}

/// Programs that start the rest of their command line, so that a launcher may follow them.
const PREFIXES: &str = "env timeout nice ionice taskset numactl stdbuf time setsid nohup chrt unshare salloc sudo strace";

/// The launcher's command within `command`: `None` if none of its words is a known launcher.
///
/// `at` is the position of the program as given by the user.
///
/// # Errors
/// The command is a launcher's, but its program cannot be found.
pub fn find_launch(
    command: &[OsString],
    at: Option<usize>,
    machine: &dyn Programs,
) -> Result<Option<Launch>, LaunchError> {
    let Some((place, launcher)) = find_launcher(command, machine) else {
        return match at {
            None => Ok(None),
            Some(at) => given(command, at, Launcher::Other).map(Some),
        };
    };
    if let Some(at) = at {
        return given(command, at, launcher).map(Some);
    }
    let name = command[place].to_string_lossy().into_owned();
    let mut launch = Launch {
        launcher,
        programs: Vec::new(),
        guessed: false,
    };
    let mut next = place + 1;
    while next < command.len() {
        let (begin, guessed) = find_program(command, next, launcher, &name, machine)?;
        let end = (begin..command.len())
            .find(|&i| command[i] == ":")
            .unwrap_or(command.len());
        launch.programs.push(begin..end);
        launch.guessed |= guessed;
        next = end + 1;
    }
    if launch.programs.is_empty() {
        return Err(LaunchError::NoProgram {
            launcher: name,
            after: String::new(),
        });
    }
    Ok(Some(launch))
}

fn given(command: &[OsString], at: usize, launcher: Launcher) -> Result<Launch, LaunchError> {
    if at == 0 || at >= command.len() {
        return Err(LaunchError::At {
            at,
            words: command.len(),
        });
    }
    let end = (at..command.len())
        .find(|&i| command[i] == ":")
        .unwrap_or(command.len());
    Ok(Launch {
        launcher,
        programs: std::iter::once(at..end).collect(),
        guessed: false,
    })
}

fn find_launcher(command: &[OsString], machine: &dyn Programs) -> Option<(usize, Launcher)> {
    let first = command.first()?;
    if let Some(launcher) = launcher_of(first, machine) {
        return Some((0, launcher));
    }
    PREFIXES
        .split(' ')
        .any(|prefix| base_name(first) == prefix)
        .then_some(())?;
    command
        .iter()
        .enumerate()
        .skip(1)
        .find_map(|(place, word)| Some((place, launcher_of(word, machine)?)))
}

fn base_name(word: &OsStr) -> String {
    Path::new(word)
        .file_name()
        .unwrap_or(word)
        .to_string_lossy()
        .into_owned()
}

/// `mpirun` and `mpiexec` are ambiguous: the target of a link, or files beside it, identify the
/// launcher.
pub(crate) fn launcher_of(word: &OsStr, machine: &dyn Programs) -> Option<Launcher> {
    let by_name = |name: &str| match name {
        "orterun" | "prterun" | "mpirun.openmpi" | "mpiexec.openmpi" => Some(Launcher::OpenMpi),
        "mpiexec.hydra" | "mpirun.mpich" | "mpiexec.mpich" => Some(Launcher::Hydra),
        "srun" => Some(Launcher::Slurm),
        _ => None,
    };
    let name = base_name(word);
    if let Some(launcher) = by_name(&name) {
        return Some(launcher);
    }
    if name != "mpirun" && name != "mpiexec" {
        return None;
    }
    let Some(real) = machine.real_path(word) else {
        return Some(Launcher::OpenMpi);
    };
    if let Some(launcher) = by_name(&base_name(real.as_os_str())) {
        return Some(launcher);
    }
    let hydra = real.with_file_name("mpiexec.hydra");
    Some(if machine.can_be_started(hydra.as_os_str()) {
        Launcher::Hydra
    } else {
        Launcher::OpenMpi
    })
}

/// Position of the program in the part of the command that starts at `from`, and whether it was
/// guessed.
fn find_program(
    command: &[OsString],
    from: usize,
    launcher: Launcher,
    name: &str,
    machine: &dyn Programs,
) -> Result<(usize, bool), LaunchError> {
    let mut at = from;
    while at < command.len() && command[at] != ":" {
        let word = command[at].to_string_lossy();
        if !word.starts_with('-') || word == "-" {
            return Ok((at, false));
        }
        let next = command.get(at + 1).map(|word| word.to_string_lossy());
        match values(launcher, &word, next.as_deref()) {
            Values::Next(count) => at += 1 + count,
            Values::InFile => {
                return Err(LaunchError::InFile {
                    launcher: name.to_owned(),
                    option: word.into_owned(),
                });
            }
            Values::Unknown => {
                return (at + 1..command.len())
                    .take_while(|&i| command[i] != ":")
                    .find(|&i| {
                        !command[i].to_string_lossy().starts_with('-')
                            && machine.can_be_started(&command[i])
                    })
                    .map(|i| (i, true))
                    .ok_or_else(|| LaunchError::NoProgram {
                        launcher: name.to_owned(),
                        after: format!(" after the unknown option {word}"),
                    });
            }
        }
    }
    Err(LaunchError::NoProgram {
        launcher: name.to_owned(),
        after: String::new(),
    })
}

/// Rejects a process that a launcher has started as one of several ranks. `variable` reads the
/// environment.
///
/// # Errors
/// This process is one of several.
pub fn refuse_inside(variable: impl Fn(&str) -> Option<String>) -> Result<(), LaunchError> {
    // A batch script of Slurm, where recordings are started, has no step.
    for (of, launcher, example) in [
        ("OMPI_COMM_WORLD_SIZE", "mpirun of Open MPI", "mpirun"),
        ("PMI_SIZE", "mpiexec of MPICH", "mpiexec"),
        ("SLURM_STEP_NUM_TASKS", "srun", "srun"),
    ] {
        let size: Option<u32> = variable(of).and_then(|size| size.parse().ok());
        if let Some(size) = size.filter(|&size| size > 1) {
            return Err(LaunchError::Inside {
                launcher,
                size,
                example,
            });
        }
    }
    Ok(())
}

impl Launch {
    /// The command with `shim` before each program.
    pub fn with_shim(&self, command: &[OsString], shim: &[OsString]) -> Vec<OsString> {
        self.rewrite(command, |program, out| {
            out.extend_from_slice(shim);
            out.extend_from_slice(program);
        })
    }

    /// The command with each program and its arguments replaced by `other`.
    pub fn with_instead(&self, command: &[OsString], other: &[OsString]) -> Vec<OsString> {
        self.rewrite(command, |_, out| out.extend_from_slice(other))
    }

    /// The command without options that prefix its output lines or redirect them. `command` is this
    /// launch's, with anything in place of its programs.
    pub fn without_output_options(&self, command: Vec<OsString>) -> Vec<OsString> {
        let Some(first) = self.programs.first() else {
            return command;
        };
        // Only options before the first program: later ones concern only their programs.
        let mut out = Vec::new();
        let mut at = 0;
        while at < first.start.min(command.len()) {
            match output_option(self.launcher, &command[at].to_string_lossy()) {
                Output::No => out.push(command[at].clone()),
                Output::Whole { values } => at += values,
                Output::Rest(word) => out.push(word.into()),
            }
            at += 1;
        }
        out.extend(command.into_iter().skip(at));
        out
    }

    fn rewrite(
        &self,
        command: &[OsString],
        mut put: impl FnMut(&[OsString], &mut Vec<OsString>),
    ) -> Vec<OsString> {
        let mut out = Vec::new();
        let mut done = 0;
        for program in &self.programs {
            out.extend_from_slice(&command[done..program.start]);
            put(&command[program.clone()], &mut out);
            done = program.end;
        }
        out.extend_from_slice(&command[done..]);
        out
    }
}

#[cfg(test)]
#[path = "launch_tests.rs"]
mod tests;
