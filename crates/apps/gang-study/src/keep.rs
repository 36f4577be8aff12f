//! Runs of a study in a file, so that an interrupted study goes on where it was.
//!
//! A line of JSON each: first what the study is, then one run per line. A last line without its end,
//! of a study that was killed while it wrote, is dropped.

use crate::bench::Trial;
use crate::case::Case;
use crate::error::TrialError;
use idlewave_sys::files;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A run in the file.
#[derive(Serialize, Deserialize)]
struct Line {
    repeat: u32,
    case: Case,
    trial: Trial,
}

/// The runs that a file keeps.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    file: File,
    runs: HashMap<(u32, Case), Trial>,
}

impl Kept {
    /// Opens the file of a study, or starts one with what `begin` says of it. Returns the study as the
    /// file has it.
    ///
    /// # Errors
    /// The file cannot be read or written, holds something else, or `begin` fails.
    pub fn open<S: Serialize + for<'a> Deserialize<'a>>(
        path: &Path,
        begin: impl FnOnce() -> Result<S, TrialError>,
    ) -> Result<(Self, S), TrialError> {
        let mut file = match files::open_to_change(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // Nothing is left of a study that cannot begin.
                let study = begin()?;
                let file = files::create(path).map_err(TrialError::io("create", path))?;
                let mut kept = Self {
                    path: path.to_owned(),
                    file,
                    runs: HashMap::new(),
                };
                kept.append(&study)?;
                return Ok((kept, study));
            }
            Err(error) => return Err(TrialError::io("open", path)(error)),
        };
        let mut text = String::new();
        file.read_to_string(&mut text)
            .map_err(TrialError::io("read", path))?;
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        let mut lines = text[..whole].lines();
        let wrong = |what: String| TrialError::NotKept {
            path: path.to_owned(),
            what,
        };
        let first = lines
            .next()
            .ok_or_else(|| wrong("it has no complete line".to_owned()))?;
        let study = serde_json::from_str(first).map_err(|e| wrong(e.to_string()))?;
        let mut runs = HashMap::new();
        for line in lines {
            let line: Line = serde_json::from_str(line).map_err(|e| wrong(e.to_string()))?;
            runs.insert((line.repeat, line.case), line.trial);
        }
        file.set_len(whole as u64)
            .and_then(|()| file.seek(SeekFrom::End(0)))
            .map_err(TrialError::io("write", path))?;
        let path = path.to_owned();
        Ok((Self { path, file, runs }, study))
    }

    pub(crate) fn get(&self, repeat: u32, case: &Case) -> Option<&Trial> {
        self.runs.get(&(repeat, case.clone()))
    }

    pub(crate) fn add(
        &mut self,
        repeat: u32,
        case: &Case,
        trial: &Trial,
    ) -> Result<(), TrialError> {
        self.append(&Line {
            repeat,
            case: case.clone(),
            trial: trial.clone(),
        })
    }

    fn append(&mut self, line: &impl Serialize) -> Result<(), TrialError> {
        let written = serde_json::to_vec(line).map_err(std::io::Error::from);
        let written = written.and_then(|mut bytes| {
            bytes.push(b'\n');
            self.file.write_all(&bytes)
        });
        written.map_err(TrialError::io("write", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Program, Treatment};

    #[test]
    fn runs_are_there_again_and_a_torn_line_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs");
        let case = Case::together(&[Program::Compute], Treatment::Alone);
        let trial = Trial {
            programs: Vec::new(),
            switches: None,
        };
        let open = |says: &str| {
            let says = says.to_owned();
            Kept::open(&path, move || Ok(says))
        };
        let (mut kept, study) = open("first").unwrap();
        assert_eq!((study.as_str(), kept.runs.len()), ("first", 0));
        kept.add(0, &case, &trial).unwrap();
        drop(kept);
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, whole + "{\"repeat\":1,").unwrap();
        let (mut kept, study) = open("second").unwrap();
        assert_eq!(study, "first");
        assert_eq!(kept.get(0, &case), Some(&trial));
        assert_eq!(kept.get(1, &case), None);
        kept.add(1, &case, &trial).unwrap();
        let (kept, _) = open("third").unwrap();
        assert_eq!(kept.runs.len(), 2);
    }

    #[test]
    fn a_file_of_something_else_is_refused_and_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs");
        std::fs::write(&path, "dear diary\n").unwrap();
        let error = Kept::open(&path, || Ok(String::new())).unwrap_err();
        assert!(error.to_string().contains("runs"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "dear diary\n");
    }
}
