//! A bundle on disk: a directory whose `run.json` is always complete, whatever happens to its
//! writer.

use crate::batches::{BatchReader, file_name};
use crate::findings::Findings;
use crate::ordered::{MOST_ROWS, MOST_STRETCHES, Ordered};
use crate::{
    Incomplete, Manifest, RunError, RunState, SchemaVersion, Table, TableEntry, TableReader,
    TableWriter,
};
use idlewave_sys::files;
use idlewave_units::foreign::misfit;
use serde::Deserialize;
use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

const MANIFEST: &str = "run.json";
const FINDINGS: &str = "findings.json";
/// Disk space reserved for the manifest of a recording: see [`RunWriter::note`].
const RESERVE: &str = "reserve";
/// Its least size. The manifest of a small machine takes about 8 KiB.
const LEAST_RESERVE: u64 = 32 << 10;
/// A manifest or findings file longer than this counts as damaged.
const LONGEST: u64 = 1 << 30;

/// Whether `path` is the directory of a bundle.
pub fn is_run(path: &Path) -> bool {
    fs::symlink_metadata(path.join(MANIFEST)).is_ok_and(|there| there.is_file())
}

/// A bundle being written. Its manifest is on disk from the start, in state `recording`.
pub struct RunWriter {
    path: PathBuf,
    /// What will be written as `run.json`; change it freely, then [`RunWriter::save`].
    pub manifest: Manifest,
}

impl RunWriter {
    /// Creates the directory, which must not exist or be empty, and writes the manifest.
    pub fn create(path: &Path, manifest: Manifest) -> Result<Self, RunError> {
        let made = match fs::create_dir(path) {
            Ok(()) => true,
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                let mut entries = match fs::read_dir(path) {
                    Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => {
                        return Err(RunError::Exists(path.to_owned()));
                    }
                    entries => entries.map_err(RunError::io("create", path))?,
                };
                if entries.next().is_some() {
                    return Err(RunError::Exists(path.to_owned()));
                }
                false
            }
            Err(e) => return Err(RunError::io("create", path)(e)),
        };
        let writer = Self {
            path: path.to_owned(),
            manifest,
        };
        if let Err(error) = writer.save() {
            if made {
                // Best effort: an empty directory is not a run, and the original error matters
                // more.
                let _ = fs::remove_dir(path);
            }
            return Err(error);
        }
        Ok(writer)
    }

    /// The same for a recording, which may fill the disk: reserves space to [note](Self::note)
    /// that.
    pub fn record(path: &Path, manifest: Manifest) -> Result<Self, RunError> {
        let writer = Self::create(path, manifest)?;
        let reserve = writer.path.join(RESERVE);
        let text = json(path, &writer.manifest)?;
        let bytes = LEAST_RESERVE.max(2 * text.len() as u64);
        files::reserve(&reserve, bytes).map_err(|error| {
            // Best effort, as above.
            let _ = fs::remove_file(writer.path.join(MANIFEST));
            let _ = fs::remove_dir(path);
            RunError::io("write", reserve)(error)
        })?;
        Ok(writer)
    }

    /// The bundle's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the manifest in its present state; the old one stays if that fails.
    pub fn save(&self) -> Result<(), RunError> {
        write_json(&self.path.join(MANIFEST), &self.manifest)
    }

    /// Saves why a recording stops early, even on a full disk and before its tables are written. If
    /// they never are, recovery finds the reason. The first reason stays.
    pub fn note(&mut self, why: Incomplete) -> Result<(), RunError> {
        if self.manifest.incomplete.is_some() {
            return Ok(());
        }
        self.manifest.incomplete = Some(why);
        self.save_in_reserve()
    }

    /// Writes the manifest, into the reserved space if there is no other.
    fn save_in_reserve(&self) -> Result<(), RunError> {
        let saved = self.save();
        if !saved.as_ref().is_err_and(RunError::is_disk_full) {
            return saved;
        }
        let text = json(&self.path, &self.manifest)?;
        let path = self.path.join(MANIFEST);
        // The first failure says more than a missing reserve.
        files::replace_by(&self.path.join(RESERVE), &path, text.as_bytes()).or(saved)
    }

    /// Starts a table.
    pub fn table<T: Table>(&self) -> Result<TableWriter<T>, RunError> {
        TableWriter::create(&self.path)
    }

    /// Ends a table and adds it to the manifest (not yet saved).
    pub fn finish_table<T: Table>(&mut self, table: TableWriter<T>) -> Result<(), RunError> {
        self.enter(table.finish()?);
        Ok(())
    }

    /// Removes a table that was begun.
    pub fn discard_table<T: Table>(&self, table: TableWriter<T>) -> Result<(), RunError> {
        drop(table);
        let file = self.path.join(file_name(T::NAME));
        fs::remove_file(&file).map_err(RunError::io("remove", file))
    }

    fn enter(&mut self, entry: TableEntry) {
        self.manifest.tables.retain(|t| t.name != entry.name);
        self.manifest.tables.push(entry);
    }

    /// Writes a table that is in memory. An older one stays if that fails.
    pub fn write_table<T: Table>(&mut self, rows: &T) -> Result<(), RunError> {
        let mut table = TableWriter::<T>::replace(&self.path)?;
        table.extend(rows)?;
        self.finish_table(table)
    }

    /// Copies what a killed writer left of a table, batch by batch, into a complete one and adds it
    /// to the manifest; `see` is called with every batch. False if the table was complete already
    /// or never started.
    pub fn salvage<T: Table>(&mut self, mut see: impl FnMut(&T)) -> Result<bool, RunError> {
        if self.manifest.tables.iter().any(|t| t.name == T::NAME) {
            return Ok(false);
        }
        let left = self.path.join(file_name(T::NAME));
        // Kept under another name until the copy is complete, so that a second kill loses nothing
        // either.
        let aside = self.path.join(format!("{}.arrow.killed", T::NAME));
        if !aside.exists() {
            match fs::rename(&left, &aside) {
                Ok(()) => {}
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
                Err(e) => return Err(RunError::io("rename", left)(e)),
            }
        }
        let mut reader = match BatchReader::recover(aside.clone()) {
            Ok(batches) => Some(TableReader::<T>::on(batches)),
            // Killed before the first batch: a table without rows.
            Err(RunError::Table { .. }) => None,
            Err(e) => return Err(e),
        };
        let mut table = self.table::<T>()?;
        let mut rows = T::default();
        while let Some(reader) = &mut reader {
            rows.clear();
            if !reader.next_into(&mut rows)? {
                break;
            }
            see(&rows);
            table.extend(&rows)?;
        }
        self.finish_table(table)?;
        self.save()?;
        fs::remove_file(&aside).map_err(RunError::io("remove", aside))?;
        Ok(true)
    }

    /// Marks the run as ended and saves the manifest. The caller knows a reason that was
    /// [noted](Self::note) before.
    pub fn close(&mut self, incomplete: Option<Incomplete>) -> Result<(), RunError> {
        self.manifest.state = match incomplete {
            None => RunState::Complete,
            Some(_) => RunState::Incomplete,
        };
        self.manifest.incomplete = incomplete;
        self.save_in_reserve()?;
        match fs::remove_file(self.path.join(RESERVE)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(RunError::io("remove", self.path.join(RESERVE))(e))
            }
            _ => Ok(()),
        }
    }
}

/// A bundle being read.
#[derive(Debug)]
pub struct RunReader {
    path: PathBuf,
    manifest: Manifest,
}

impl RunReader {
    /// Opens a bundle. One whose writer was killed opens too, in state `recording`.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        let file = path.join(MANIFEST);
        match fs::symlink_metadata(&file) {
            Err(e)
                if matches!(
                    e.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
                ) =>
            {
                return Err(RunError::NotARun(path.to_owned()));
            }
            _ => {}
        }
        // A bundle may come from someone else and contain links that redirect our writes.
        files::check_tree(path)?;
        let text = files::read_text(&file, LONGEST).map_err(RunError::io("read", &file))?;
        Ok(Self {
            path: path.to_owned(),
            manifest: parse_manifest(&file, &text)?,
        })
    }

    /// The bundle's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Opens a table for reading batch by batch.
    pub fn table<T: Table>(&self) -> Result<TableReader<T>, RunError> {
        self.batches(T::NAME).map(TableReader::on)
    }

    /// Opens a table, or `None` if the run has none by that name.
    pub fn table_if_present<T: Table>(&self) -> Result<Option<TableReader<T>>, RunError> {
        Ok(self.batches_if_present(T::NAME)?.map(TableReader::on))
    }

    /// Calls `visit` with every row of a table, keeping one batch in memory at a time. A run
    /// without the table has no rows.
    pub fn for_each<T: Table>(&self, mut visit: impl FnMut(T::Row)) -> Result<(), RunError> {
        let Some(mut reader) = self.table_if_present::<T>()? else {
            return Ok(());
        };
        let mut batch = T::default();
        while reader.next_into(&mut batch)? {
            batch.rows().for_each(&mut visit);
            batch.clear();
        }
        Ok(())
    }

    /// The rows of a table in rising order of a time of theirs, with one batch per CPU and node in
    /// memory, or about a million rows if the table is in no such order. A run without the table has
    /// no rows.
    pub fn in_order<T: Table>(&self, time: fn(&T::Row) -> u64) -> Result<Ordered<'_, T>, RunError> {
        self.in_order_of(time, (MOST_STRETCHES, MOST_ROWS))
    }

    pub(crate) fn in_order_of<T: Table>(
        &self,
        time: fn(&T::Row) -> u64,
        most: (usize, u64),
    ) -> Result<Ordered<'_, T>, RunError> {
        let verified = Cell::new(false);
        let entry = self.manifest.tables.iter().find(|t| t.name == T::NAME);
        let open = move || match entry.filter(|_| verified.get()) {
            Some(entry) => {
                BatchReader::open_again(self.path.join(&entry.file), entry.bytes).map(Some)
            }
            None => {
                verified.set(true);
                self.batches_if_present(T::NAME)
            }
        };
        Ordered::new(open, time, most)
    }

    fn batches(&self, table: &str) -> Result<BatchReader, RunError> {
        match self.manifest.tables.iter().find(|t| t.name == table) {
            Some(entry) => {
                // The file name comes from untrusted bytes: it must not lead out of the bundle.
                if Path::new(&entry.file).components().count() != 1 || entry.file.starts_with('.') {
                    return Err(RunError::Manifest {
                        path: self.path.join(MANIFEST),
                        reason: format!(
                            "table `{}` has the file name `{}`",
                            entry.name, entry.file
                        ),
                    });
                }
                BatchReader::open(self.path.join(&entry.file), entry)
            }
            None if self.manifest.state == RunState::Recording => {
                BatchReader::recover(self.path.join(file_name(table)))
            }
            None => Err(RunError::NoTable {
                path: self.path.clone(),
                table: table.to_owned(),
            }),
        }
    }

    fn batches_if_present(&self, table: &str) -> Result<Option<BatchReader>, RunError> {
        match self.batches(table) {
            Ok(reader) => Ok(Some(reader)),
            Err(RunError::NoTable { .. }) => Ok(None),
            Err(e) if e.is_missing() && self.manifest.state == RunState::Recording => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// A whole table in memory; an empty one if the run has none by that name.
    pub fn read<T: Table>(&self) -> Result<T, RunError> {
        match self.table_if_present::<T>()? {
            Some(reader) => reader.read_all(),
            None => Ok(T::default()),
        }
    }

    /// The findings, if the run has been explained.
    pub fn findings(&self) -> Result<Option<Findings>, RunError> {
        let path = self.path.join(FINDINGS);
        let text = match files::read_text(&path, LONGEST) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(RunError::io("read", path)(e)),
        };
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|e| RunError::Manifest {
                path,
                reason: misfit(&e.to_string()),
            })
    }

    /// Writes the findings into the bundle atomically.
    pub fn write_findings(&self, findings: &Findings) -> Result<(), RunError> {
        write_json(&self.path.join(FINDINGS), findings)
    }

    /// Reopens the bundle for writing: to recover it, or to add tables of an analysis.
    pub fn into_writer(self) -> RunWriter {
        RunWriter {
            path: self.path,
            manifest: self.manifest,
        }
    }
}

fn parse_manifest(path: &Path, text: &str) -> Result<Manifest, RunError> {
    #[derive(Deserialize)]
    struct SchemaOnly {
        schema: SchemaVersion,
    }
    let bad = |e: serde_json::Error| RunError::Manifest {
        path: path.to_owned(),
        reason: misfit(&e.to_string()),
    };
    let SchemaOnly { schema } = serde_json::from_str(text).map_err(bad)?;
    if schema.major > SchemaVersion::CURRENT.major {
        return Err(RunError::NewerSchema {
            path: path.to_owned(),
            found: schema,
            known: SchemaVersion::CURRENT,
        });
    }
    serde_json::from_str(text).map_err(bad)
}

/// Writes beside the file and renames: readers see the old file or the new one, never a part.
fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), RunError> {
    let text = json(path, value)?;
    files::replace_on_disk(path, text.as_bytes()).map_err(RunError::io("write", path))
}

/// The text of a file at `path`.
fn json(path: &Path, value: &impl serde::Serialize) -> Result<String, RunError> {
    let mut text = serde_json::to_string_pretty(value).map_err(|e| RunError::Manifest {
        path: path.to_owned(),
        reason: e.to_string(),
    })?;
    text.push('\n');
    Ok(text)
}
