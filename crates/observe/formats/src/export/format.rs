//! The formats that runs are exported to, by name.

use crate::export::{
    Export, ExportError, Job, chrome, csv, otf2, paraver, perfetto, selfish, trace_dat,
};
use std::fs;
use std::path::{Path, PathBuf};

/// A format of exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Paraver's .prv with .pcf, .row and .cfg files.
    Paraver,
    /// An OTF2 archive.
    Otf2,
    /// A Perfetto trace.
    Perfetto,
    /// Trace events in JSON, as Chrome's viewer reads them.
    Chrome,
    /// The kernel's trace for KernelShark and trace-cmd.
    TraceDat,
    /// A directory with a CSV file for every table.
    Csv,
    /// A directory with a Parquet file for every table.
    #[cfg(feature = "parquet")]
    Parquet,
    /// Files of detours as the selfish benchmark writes them, one per CPU.
    Selfish,
}

impl Format {
    /// All formats of this build.
    pub const ALL: &'static [Self] = &[
        Self::Paraver,
        Self::Otf2,
        Self::Perfetto,
        Self::Chrome,
        Self::TraceDat,
        Self::Csv,
        #[cfg(feature = "parquet")]
        Self::Parquet,
        Self::Selfish,
    ];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paraver => "paraver",
            Self::Otf2 => "otf2",
            Self::Perfetto => "perfetto",
            Self::Chrome => "chrome",
            Self::TraceDat => "trace.dat",
            Self::Csv => "csv",
            #[cfg(feature = "parquet")]
            Self::Parquet => "parquet",
            Self::Selfish => "selfish",
        }
    }

    /// What it is, in a few words, for help texts.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Paraver => "trace for Paraver, with views",
            Self::Otf2 => "archive of OTF2 for Vampir, Scalasca and TAU; needs its library",
            Self::Perfetto => "trace for ui.perfetto.dev",
            Self::Chrome => "trace events for Chrome's viewer, JSON",
            Self::TraceDat => "the kernel's trace for KernelShark and trace-cmd",
            Self::Csv => "every table as a CSV file",
            #[cfg(feature = "parquet")]
            Self::Parquet => "every table as a Parquet file",
            Self::Selfish => "the noise of each CPU as a file of detours",
        }
    }

    /// Suffix that turns the name of a run into that of the output: a file, or a directory if the
    /// format has several files.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Paraver => ".prv",
            Self::Otf2 => "-otf2",
            Self::Perfetto => ".pftrace",
            Self::Chrome => ".json",
            Self::TraceDat => ".dat",
            Self::Csv => "-csv",
            #[cfg(feature = "parquet")]
            Self::Parquet => "-parquet",
            Self::Selfish => "-selfish",
        }
    }

    /// The format with this name.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|format| format.name() == name)
    }

    /// Where the run in this directory is exported to by default: beside it.
    pub fn place(self, run: &Path) -> PathBuf {
        let mut name = run.file_name().unwrap_or("run".as_ref()).to_owned();
        name.push(self.ending());
        run.with_file_name(name)
    }

    /// The files and directories that an export to `output` creates.
    ///
    /// # Errors
    /// The tools that read the format refuse a file of this name.
    pub fn places(self, output: &Path) -> Result<Vec<PathBuf>, ExportError> {
        match self {
            Self::Paraver => paraver::places(output),
            _ => Ok(vec![output.to_owned()]),
        }
    }

    /// Exports a run. After an error, nothing of the export is left.
    ///
    /// # Errors
    /// The run cannot be read, a file cannot be written or exists already, the run has nothing for
    /// this format, or the user asked to stop.
    pub fn write(self, job: &Job<'_>) -> Result<Export, ExportError> {
        let places = self.places(job.output)?;
        if let Some(there) = places.iter().find(|p| fs::symlink_metadata(p).is_ok()) {
            return Err(ExportError::Exists(there.clone()));
        }
        let written = self.write_new(job);
        if written.is_err() {
            // Half an export would pass for a whole one. A failed removal matters less than why the
            // export failed.
            for place in &places {
                let _ = match place.is_dir() {
                    true => fs::remove_dir_all(place),
                    false => fs::remove_file(place),
                };
            }
        }
        written
    }

    fn write_new(self, job: &Job<'_>) -> Result<Export, ExportError> {
        match self {
            Self::Paraver => paraver::write(job),
            Self::Otf2 => otf2::write(job),
            Self::Perfetto => perfetto::write(job),
            Self::Chrome => chrome::write(job),
            Self::TraceDat => trace_dat::write(job),
            Self::Csv => csv::write(job),
            #[cfg(feature = "parquet")]
            Self::Parquet => crate::export::parquet::write(job),
            Self::Selfish => selfish::write(job),
        }
    }
}
