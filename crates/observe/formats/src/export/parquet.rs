//! Every table of a run as a Parquet file, compressed with LZ4. Types and documentation of the
//! columns are those of the Arrow tables of the bundle.

use crate::export::tables::{self, TableFile};
use crate::export::{Export, ExportError, Job, Written};
use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::Compression;
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use arrow_array::RecordBatch;
use arrow_schema::Schema;
use idlewave_sys::files::Replacement;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes the tables into the directory that the job names.
pub fn write(job: &Job<'_>) -> Result<Export, ExportError> {
    tables::write(job, begin)
}

fn begin(directory: &Path, name: &str, schema: &Schema) -> Result<Box<dyn TableFile>, ExportError> {
    let path = directory.join(format!("{name}.parquet"));
    let mut new = Replacement::begin(&path).map_err(ExportError::io(&path))?;
    let file = new.file().try_clone().map_err(ExportError::io(&path))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::LZ4_RAW)
        .build();
    let writer = ArrowWriter::try_new(file, Arc::new(schema.clone()), Some(properties));
    let writer = writer.map_err(failed(&path))?;
    Ok(Box::new(Parquet { path, new, writer }))
}

fn failed(path: &Path) -> impl FnOnce(ParquetError) -> ExportError {
    let path = path.to_owned();
    move |error| ExportError::io(path)(io::Error::other(error))
}

struct Parquet {
    path: PathBuf,
    new: Replacement,
    writer: ArrowWriter<File>,
}

impl TableFile for Parquet {
    fn rows(&mut self, rows: &RecordBatch) -> Result<(), ExportError> {
        self.writer.write(rows).map_err(failed(&self.path))
    }

    fn finish(self: Box<Self>, rows: u64) -> Result<Written, ExportError> {
        let Self { path, new, writer } = *self;
        let file = writer.into_inner().map_err(failed(&path))?;
        let bytes = file.metadata().map_err(ExportError::io(&path))?.len();
        new.commit().map_err(ExportError::io(&path))?;
        Ok(Written {
            path,
            bytes,
            records: Some(rows),
        })
    }
}
