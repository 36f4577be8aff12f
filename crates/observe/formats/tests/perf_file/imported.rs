//! Files of perf, imported as runs.

use super::PerfFile;
use crate::story::{import_file, story_payloads};
use idlewave_formats::import::{ImportError, Imported, Program};
use idlewave_run::RunReader;
use idlewave_run::tables::*;
use idlewave_units::Pid;
use std::collections::BTreeMap;
use tempfile::TempDir;

/// A run and its directory.
pub struct Run(
    RunReader,
    #[allow(dead_code, reason = "removes the run")] TempDir,
);

impl std::ops::Deref for Run {
    type Target = RunReader;
    fn deref(&self) -> &RunReader {
        &self.0
    }
}

pub fn import(bytes: &[u8]) -> Result<(Imported, Run), ImportError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("perf.data");
    std::fs::write(&path, bytes).unwrap();
    let (imported, run) = import_file(&path, &Program::Busiest)?;
    Ok((imported, Run(run, dir)))
}

/// The story in two rounds, in each of which perf emptied one CPU's buffer after another.
pub fn story_perf(mut file: PerfFile) -> Vec<u8> {
    let story = story_payloads();
    for half in story.chunks(story.len() / 2) {
        for cpu in [1, 0] {
            for (time, _, payload) in half.iter().filter(|event| event.1 == cpu) {
                let thread = u32::from_le_bytes(payload.bytes()[4..8].try_into().unwrap());
                file.sample(*time, cpu, (thread, thread), payload);
            }
        }
        file.round();
    }
    file.write()
}

pub fn tasks(run: &RunReader) -> BTreeMap<Pid, Task> {
    let tasks = run.read::<Tasks>().unwrap();
    tasks.rows().map(|task| (task.pid, task)).collect()
}
