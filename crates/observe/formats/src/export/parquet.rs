//! Every table of a run as a Parquet file, compressed with LZ4. Types and documentation of the
//! columns are those of the Arrow tables of the bundle.

use crate::export::tables::{Tables, each};
use crate::export::{Export, ExportError, Job, Written};
use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::Compression;
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use arrow_array::RecordBatch;
use arrow_schema::Schema;
use idlewave_sys::files::{self, Replacement};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes the tables into the directory that the job names.
pub fn write(job: &Job<'_>) -> Result<Export, ExportError> {
    files::create_directory(job.output).map_err(ExportError::io(job.output))?;
    let mut to = Files {
        directory: job.output,
        open: None,
        rows: 0,
        export: Export::default(),
    };
    each(job, &mut to)?;
    Ok(to.export)
}

struct Files<'a> {
    directory: &'a Path,
    open: Option<(PathBuf, Replacement, ArrowWriter<File>)>,
    rows: u64,
    export: Export,
}

fn failed(path: &Path) -> impl FnOnce(ParquetError) -> ExportError {
    let path = path.to_owned();
    move |error| ExportError::io(path)(io::Error::other(error))
}

impl Tables for Files<'_> {
    fn begin(&mut self, name: &str, schema: &Schema) -> Result<(), ExportError> {
        let path = self.directory.join(format!("{name}.parquet"));
        let mut new = Replacement::begin(&path).map_err(ExportError::io(&path))?;
        let file = new.file().try_clone().map_err(ExportError::io(&path))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::LZ4_RAW)
            .build();
        let writer = ArrowWriter::try_new(file, Arc::new(schema.clone()), Some(properties));
        let writer = writer.map_err(failed(&path))?;
        self.open = Some((path, new, writer));
        self.rows = 0;
        Ok(())
    }

    fn rows(&mut self, rows: &RecordBatch) -> Result<(), ExportError> {
        let Some((path, _, writer)) = &mut self.open else {
            return Ok(());
        };
        writer.write(rows).map_err(failed(path))?;
        self.rows += rows.num_rows() as u64;
        Ok(())
    }

    fn end(&mut self) -> Result<(), ExportError> {
        let Some((path, new, writer)) = self.open.take() else {
            return Ok(());
        };
        let file = writer.into_inner().map_err(failed(&path))?;
        let bytes = file.metadata().map_err(ExportError::io(&path))?.len();
        new.commit().map_err(ExportError::io(&path))?;
        self.export.files.push(Written {
            path,
            bytes,
            records: Some(self.rows),
        });
        Ok(())
    }
}
