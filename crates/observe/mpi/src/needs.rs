//! Which libraries an ELF file needs, and where the loader would look for them.

use crate::MpiError;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, ReadCache, ReadRef, StringTable};
use std::path::{Path, PathBuf};

/// What the dynamic section of a program or library says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Names of the libraries that it needs (`DT_NEEDED`), in order.
    pub libraries: Vec<String>,
    /// Directories searched first, for the file and for all that it loads (`DT_RPATH`), with
    /// `$ORIGIN` expanded. Empty if there is a `DT_RUNPATH`: the loader then ignores these.
    pub rpath: Vec<PathBuf>,
    /// Directories searched after `LD_LIBRARY_PATH`, for this file only (`DT_RUNPATH`), with
    /// `$ORIGIN` expanded.
    pub runpath: Vec<PathBuf>,
}

impl Needs {
    /// Reads the dynamic section of a 64-bit ELF file. A statically linked program needs nothing.
    ///
    /// # Errors
    /// The file cannot be read or is not a 64-bit ELF file.
    pub fn of(file: &Path) -> Result<Self, MpiError> {
        let failed = |why: String| MpiError::Elf {
            file: file.to_owned(),
            why,
        };
        let opened = std::fs::File::open(file).map_err(|error| failed(error.to_string()))?;
        let origin = std::fs::canonicalize(file).ok();
        let origin = origin.as_deref().and_then(Path::parent);
        // Reads only the parts it needs, however large the program.
        Self::read(&ReadCache::new(opened), origin).map_err(|error| failed(error.to_string()))
    }

    fn read<'d>(
        data: impl ReadRef<'d>,
        origin: Option<&Path>,
    ) -> Result<Self, object::read::Error> {
        let header = FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        let segments = header.program_headers(endian, data)?;
        let mut needs = Self::default();
        for segment in segments {
            let Some(entries) = segment.dynamic(endian, data)? else {
                continue;
            };
            let of = |tag: i64| {
                let entry = entries.iter().find(|e| e.tag(endian) == tag);
                entry.map(|e| e.d_val(endian))
            };
            let (Some(address), Some(size)) =
                (of(object::elf::DT_STRTAB), of(object::elf::DT_STRSZ))
            else {
                continue;
            };
            let place = segments.iter().find_map(|s| {
                let begin = s.p_vaddr(endian);
                let inside = s.p_type(endian) == object::elf::PT_LOAD
                    && (begin..begin.saturating_add(s.p_filesz(endian))).contains(&address);
                inside.then(|| s.p_offset(endian).saturating_add(address - begin))
            });
            let Some(place) = place else { continue };
            let strings = StringTable::new(data, place, place.saturating_add(size));
            for entry in entries {
                let text = match entry.tag(endian) {
                    DT_NEEDED | DT_RPATH | DT_RUNPATH => entry.string(endian, strings)?,
                    _ => continue,
                };
                let text = String::from_utf8_lossy(text);
                let directories = text.split(':').filter(|d| !d.is_empty());
                let directories = directories.map(|d| expand(d, origin));
                match entry.tag(endian) {
                    DT_NEEDED => needs.libraries.push(text.into_owned()),
                    DT_RPATH => needs.rpath.extend(directories),
                    _ => needs.runpath.extend(directories),
                }
            }
        }
        if !needs.runpath.is_empty() {
            needs.rpath.clear();
        }
        Ok(needs)
    }
}

fn expand(directory: &str, origin: Option<&Path>) -> PathBuf {
    let origin = origin.map_or_else(String::new, |o| o.to_string_lossy().into_owned());
    PathBuf::from(
        directory
            .replace("${ORIGIN}", &origin)
            .replace("$ORIGIN", &origin),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn this_program_needs_the_c_library() {
        let needs = Needs::of(&std::env::current_exe().unwrap()).unwrap();
        assert!(
            needs.libraries.iter().any(|l| l.starts_with("libc.so")),
            "{needs:?}"
        );
    }

    #[test]
    fn what_is_no_elf_file_is_refused_with_its_name() {
        let error = Needs::of(Path::new("/proc/self/status")).unwrap_err();
        assert!(error.to_string().contains("/proc/self/status"), "{error}");
        assert!(Needs::of(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn a_file_cut_anywhere_is_an_error_or_needs_less_but_no_panic() {
        let data = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for cut in (0..4_096).chain([10_000, 100_000]) {
            let _ = Needs::read(&data[..cut.min(data.len())], None);
        }
    }

    #[test]
    fn origin_is_the_directory_of_the_file() {
        assert_eq!(
            expand("$ORIGIN/../lib", Some(Path::new("/a/bin"))),
            Path::new("/a/bin/../lib")
        );
        assert_eq!(expand("${ORIGIN}", Some(Path::new("/a"))), Path::new("/a"));
    }
}
