//! What can go wrong before the first message.

use std::path::PathBuf;

/// A place where the library was looked for, and why it was not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The file or name.
    pub what: String,
    /// Why it was not usable.
    pub why: String,
}

/// Why MPI cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MpiError {
    /// No library was found in any of the places.
    #[error("open an MPI library: name it with --mpi-lib, or put its mpirun into the PATH; looked at {}", list(.0))]
    NoLibrary(Vec<Attempt>),
    /// The library that the user named is not a known MPI library, or cannot be opened.
    #[error("open {} as an MPI library: {why}", library.display())]
    Unusable {
        /// The file.
        library: PathBuf,
        /// Why.
        why: String,
    },
    /// The program whose MPI library is wanted needs none.
    #[error("find an MPI library: {} is not linked with one{}", program.display(), unseen(missing))]
    NotNeeded {
        /// The program.
        program: PathBuf,
        /// Libraries that it needs but that are not where the loader looks: what they need is
        /// unknown.
        missing: Vec<String>,
    },
    /// None of the MPI libraries that the program needs can be opened.
    #[error("open the MPI library of a program: {}", list(.0))]
    NotOfProgram(Vec<Attempt>),
    /// A function of MPI-3 that the library should have is missing.
    #[error("use {library}: it has no function {function}")]
    NoFunction {
        /// The library.
        library: String,
        /// The function.
        function: String,
    },
    /// The launcher started several processes, but the library of each says that it is alone.
    #[error(
        "join {launched} ranks: {launcher} started them, but the MPI library in use, {library}, finds itself alone; \
         start with the mpirun of that library, or name the library of that launcher with --mpi-lib"
    )]
    WrongPair {
        /// The launcher.
        launcher: String,
        /// How many processes it started.
        launched: u32,
        /// The library.
        library: String,
    },
    /// An MPI call failed.
    #[error("call {call}: {text}")]
    Call {
        /// The function.
        call: &'static str,
        /// What the library says.
        text: String,
    },
    /// A file is not an ELF file, or cannot be read.
    #[error("read {} as an ELF file: {why}", file.display())]
    Elf {
        /// The file.
        file: PathBuf,
        /// Why.
        why: String,
    },
}

fn unseen(missing: &[String]) -> String {
    if missing.is_empty() {
        return String::new();
    }
    format!(", as far as is known without {}", missing.join(", "))
}

fn list(attempts: &[Attempt]) -> String {
    let texts: Vec<String> = attempts
        .iter()
        .map(|a| format!("{} ({})", a.what, a.why))
        .collect();
    texts.join(", ")
}
