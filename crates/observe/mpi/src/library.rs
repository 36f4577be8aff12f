//! An opened MPI library.

use crate::abi::{Abi, Family};
use crate::candidate::Candidate;
use crate::search::{Search, candidates};
use crate::{Attempt, MpiError};
use libloading::os::unix::{Library as Opened, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{CStr, c_char, c_int};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

/// An MPI library. It stays open until the process ends: MPI libraries cannot be unloaded.
#[derive(Debug)]
pub struct Library {
    opened: ManuallyDrop<Opened>,
    file: PathBuf,
    family: Family,
}

impl Library {
    /// Opens the first library of the search that works.
    ///
    /// # Errors
    /// No library works, the one that the user named does not, or the named program needs none.
    pub fn open(search: &Search) -> Result<Self, MpiError> {
        let mut attempts = Vec::new();
        for candidate in candidates(search)? {
            match Self::try_open(&candidate) {
                Ok(library) => return Ok(library),
                Err(why) if search.library.is_some() => {
                    return Err(MpiError::Unusable {
                        library: candidate.file,
                        why,
                    });
                }
                Err(why) => attempts.push(Attempt {
                    what: format!("{}, {}", candidate.file.display(), candidate.because),
                    why,
                }),
            }
        }
        Err(match search.program {
            Some(_) => MpiError::NotOfProgram(attempts),
            None => MpiError::NoLibrary(attempts),
        })
    }

    fn try_open(candidate: &Candidate) -> Result<Self, String> {
        // SAFETY: MPI libraries have initialisers that only set up their own state. RTLD_GLOBAL:
        // plug-ins of Open MPI look for symbols of the library (open-mpi/ompi issue 3705).
        let opened = unsafe { Opened::open(Some(&candidate.file), RTLD_NOW | RTLD_GLOBAL) };
        let opened = opened.map_err(|error| reason(&error))?;
        let has = |name: &CStr| address(&opened, name).is_some();
        let soname = candidate
            .file
            .file_name()
            .map(|name| name.to_string_lossy());
        let family = Family::recognise(soname.as_deref(), has).ok_or("no known MPI library")?;
        match candidate.family {
            Some(wanted) if family != wanted && family != Family::Standard => {
                Err(format!("it is {family}, the launcher is of {wanted}"))
            }
            _ => Ok(Self {
                opened: ManuallyDrop::new(opened),
                file: candidate.file.clone(),
                family,
            }),
        }
    }

    /// The file or soname under which it was opened.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Its family.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The tables of its family.
    pub fn abi(&self) -> &'static Abi {
        self.family.abi()
    }

    /// Address of a function or object; `None` if the library has none of that name.
    pub fn address(&self, name: &CStr) -> Option<usize> {
        address(&self.opened, name)
    }

    /// First line of what `MPI_Get_library_version` says, with the file; the file alone if the
    /// library is older than MPI-3. May be called before `MPI_Init`.
    pub fn describe(&self) -> String {
        let file = self.file.display();
        match self.version() {
            Some(version) => format!("{version} ({file})"),
            None => file.to_string(),
        }
    }

    fn version(&self) -> Option<String> {
        type GetLibraryVersion = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
        let function = self.address(c"MPI_Get_library_version")?;
        // SAFETY: that is the signature of the function (MPI 3.0, 8.1.1), whose address is not
        // null.
        let function: GetLibraryVersion = unsafe { std::mem::transmute(function) };
        let mut text = vec![0_u8; self.abi().max_library_version_string as usize + 1];
        let mut length = 0;
        // SAFETY: the buffer has the size that the ABI guarantees to suffice; the call is allowed
        // at any time.
        let result = unsafe { function(text.as_mut_ptr().cast(), &mut length) };
        if result != self.abi().success {
            return None;
        }
        let text = CStr::from_bytes_until_nul(&text).ok()?.to_string_lossy();
        let line = text.lines().find(|line| !line.trim().is_empty())?;
        // Open MPI appends package and host of the build to the version.
        let line = line.split(", package").next().unwrap_or(line);
        Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

fn address(library: &Opened, name: &CStr) -> Option<usize> {
    // SAFETY: the symbol is only taken as an address.
    let symbol = unsafe { library.get::<*mut ()>(name.to_bytes_with_nul()) };
    symbol
        .ok()
        .map(|s| s.into_raw() as usize)
        .filter(|a| *a != 0)
}

/// What the loader says, without the file name, which the message already has.
fn reason(error: &libloading::Error) -> String {
    let text = match error {
        libloading::Error::DlOpen { desc } => format!("{desc:?}"),
        other => other.to_string(),
    };
    let text = text.trim_matches('"');
    let short = text.split_once(": ").map_or(text, |(_, rest)| rest);
    short.to_owned()
}
