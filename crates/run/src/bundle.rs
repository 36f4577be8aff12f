//! A bundle on disk: a directory whose `run.json` is always whole, whatever happens to its writer.

use crate::batches::{BatchReader, file_name};
use crate::findings::Findings;
use crate::{
    Incomplete, Manifest, RunError, RunState, SchemaVersion, Table, TableEntry, TableReader,
    TableWriter,
};
use serde::Deserialize;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

const MANIFEST: &str = "run.json";
const FINDINGS: &str = "findings.json";

/// Whether `path` is the directory of a bundle.
pub fn is_run(path: &Path) -> bool {
    path.join(MANIFEST).is_file()
}

/// A bundle being written. Its manifest is on disk from the start, in state `recording`.
pub struct RunWriter {
    path: PathBuf,
    /// What will be written as `run.json`; change it freely, then [`RunWriter::save`].
    pub manifest: Manifest,
}

impl RunWriter {
    /// Makes the directory, which must not exist or be empty, and writes the manifest.
    pub fn create(path: &Path, manifest: Manifest) -> Result<Self, RunError> {
        let made = match fs::create_dir(path) {
            Ok(()) => true,
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                let mut entries = fs::read_dir(path).map_err(RunError::io("create", path))?;
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
                // Best effort: an empty directory is no run, and the error itself matters more.
                let _ = fs::remove_dir(path);
            }
            return Err(error);
        }
        Ok(writer)
    }

    /// The bundle's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the manifest as it is now; the old one stays if that fails.
    pub fn save(&self) -> Result<(), RunError> {
        write_json(&self.path.join(MANIFEST), &self.manifest)
    }

    /// Starts a table.
    pub fn table<T: Table>(&self) -> Result<TableWriter<T>, RunError> {
        TableWriter::create(&self.path)
    }

    /// Ends a table and enters it into the manifest (not yet saved).
    pub fn finish_table<T: Table>(&mut self, table: TableWriter<T>) -> Result<(), RunError> {
        self.enter(table.finish()?);
        Ok(())
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

    /// Copies what a killed writer left of a table into a whole one, batch by batch, and enters it in the
    /// manifest; `see` is shown every batch. False if the table was whole already or never begun.
    pub fn salvage<T: Table>(&mut self, mut see: impl FnMut(&T)) -> Result<bool, RunError> {
        if self.manifest.tables.iter().any(|t| t.name == T::NAME) {
            return Ok(false);
        }
        let left = self.path.join(file_name(T::NAME));
        // Kept under another name until the copy is whole: a second kill loses nothing either.
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

    /// Marks the run as ended and saves the manifest.
    pub fn close(&mut self, incomplete: Option<Incomplete>) -> Result<(), RunError> {
        self.manifest.state = match incomplete {
            None => RunState::Complete,
            Some(_) => RunState::Incomplete,
        };
        self.manifest.incomplete = incomplete;
        self.save()
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
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(e)
                if matches!(
                    e.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
                ) =>
            {
                return Err(RunError::NotARun(path.to_owned()));
            }
            Err(e) => return Err(RunError::io("read", file)(e)),
        };
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

    /// Calls `visit` with every row of a table, of which one batch is in memory at a time; a run without that table has no rows.
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

    fn batches(&self, table: &str) -> Result<BatchReader, RunError> {
        match self.manifest.tables.iter().find(|t| t.name == table) {
            Some(entry) => {
                // The file name comes from foreign bytes: it must not lead out of the bundle.
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
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(RunError::io("read", path)(e)),
        };
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|e| RunError::Manifest {
                path,
                reason: e.to_string(),
            })
    }

    /// Writes the findings into the bundle, in one step.
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
        reason: e.to_string(),
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
    let mut text = serde_json::to_string_pretty(value).map_err(|e| RunError::Manifest {
        path: path.to_owned(),
        reason: e.to_string(),
    })?;
    text.push('\n');
    let temporary = path.with_extension("json.new");
    let written = File::create(&temporary)
        .and_then(|mut f| f.write_all(text.as_bytes()).and_then(|()| f.sync_data()));
    if let Err(e) = written {
        // Best effort: the temporary file is no part of a bundle and the error itself matters more.
        let _ = fs::remove_file(&temporary);
        return Err(RunError::io("write", path)(e));
    }
    fs::rename(&temporary, path).map_err(RunError::io("write", path))
}
