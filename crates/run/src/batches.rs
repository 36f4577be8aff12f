//! Record batches in files, whatever table they belong to: an Arrow IPC file, and what is left of one.
//!
//! None of this is generic over the table, so that it is compiled once and not again in each crate that reads one.

use crate::{RunError, TableEntry};
use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, Schema};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Once;

/// Rows of a batch on disk.
pub(crate) const BATCH_ROWS: usize = 16_384;

/// Where a table lies in a bundle.
pub(crate) fn file_name(table: &str) -> String {
    format!("{table}.arrow")
}

/// Writes the batches of one table.
pub(crate) struct BatchWriter {
    path: PathBuf,
    table: &'static str,
    writer: FileWriter<BufWriter<File>>,
    rows: u64,
    /// Written beside its place, which it takes when it is whole.
    beside: Option<Beside>,
}

/// A file that is removed unless it takes its place.
struct Beside(PathBuf);

impl Drop for Beside {
    fn drop(&mut self) {
        // It is no part of the bundle, whether it can be removed or not.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl BatchWriter {
    /// Begins `table` in its place, where what has been written survives the end of this process.
    pub(crate) fn create(
        directory: &Path,
        table: &'static str,
        schema: &Schema,
    ) -> Result<Self, RunError> {
        Self::begin(directory.join(file_name(table)), None, table, schema)
    }

    /// Begins `table`, which replaces an older one when it is whole.
    pub(crate) fn replace(
        directory: &Path,
        table: &'static str,
        schema: &Schema,
    ) -> Result<Self, RunError> {
        let path = directory.join(format!("{}.new", file_name(table)));
        Self::begin(path.clone(), Some(Beside(path)), table, schema)
    }

    fn begin(
        path: PathBuf,
        beside: Option<Beside>,
        table: &'static str,
        schema: &Schema,
    ) -> Result<Self, RunError> {
        let out = File::create(&path).map_err(RunError::io("create", &path))?;
        let writer = FileWriter::try_new_buffered(out, schema)
            .map_err(|e| arrow_error("write", &path, e))?;
        Ok(Self {
            path,
            table,
            writer,
            rows: 0,
            beside,
        })
    }

    /// Adds `rows` in batches of at most [`BATCH_ROWS`].
    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<(), RunError> {
        let mut at = 0;
        while at < rows.num_rows() {
            let part = rows.slice(at, BATCH_ROWS.min(rows.num_rows() - at));
            self.writer
                .write(&part)
                .map_err(|e| arrow_error("write", &self.path, e))?;
            at += part.num_rows();
        }
        self.rows += rows.num_rows() as u64;
        Ok(())
    }

    /// Hands what was written to the kernel, so that it survives the end of this process.
    pub(crate) fn flush(&mut self) -> Result<(), RunError> {
        self.writer
            .get_mut()
            .flush()
            .map_err(RunError::io("write", &self.path))
    }

    /// Ends the table; the entry belongs into the manifest.
    pub(crate) fn finish(mut self) -> Result<TableEntry, RunError> {
        self.writer
            .finish()
            .map_err(|e| arrow_error("write", &self.path, e))?;
        let out = self
            .writer
            .into_inner()
            .map_err(|e| arrow_error("write", &self.path, e))?;
        drop(out);
        let (bytes, crc32) = checksum(&self.path)?;
        let file = file_name(self.table);
        if self.beside.is_some() {
            let place = self.path.with_file_name(&file);
            std::fs::rename(&self.path, &place).map_err(RunError::io("write", place))?;
        }
        Ok(TableEntry {
            name: self.table.to_owned(),
            file,
            rows: self.rows,
            bytes,
            crc32,
        })
    }
}

/// Reads the batches of one table.
pub(crate) struct BatchReader {
    path: PathBuf,
    batches: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>,
    /// A damaged end is the end, not an error: the writer was killed.
    tolerant: bool,
}

impl BatchReader {
    /// A table whose entry is in the manifest: size and checksum are verified first.
    pub(crate) fn open(path: PathBuf, entry: &TableEntry) -> Result<Self, RunError> {
        let (bytes, crc32) = checksum(&path)?;
        if bytes != entry.bytes {
            return Err(damaged(
                &path,
                format!("has {bytes} bytes, the manifest says {}", entry.bytes),
            ));
        }
        if crc32 != entry.crc32 {
            return Err(damaged(
                &path,
                "does not match its checksum in the manifest".to_owned(),
            ));
        }
        let mut file = File::open(&path).map_err(RunError::io("read", &path))?;
        if !guard(&path, || Ok(blocks_fit(&mut file, bytes)))? {
            return Err(damaged(&path, "is not a well-formed Arrow file"));
        }
        let reader = guard(&path, || FileReader::try_new_buffered(file, None))?;
        Ok(Self {
            path,
            batches: Box::new(reader),
            tolerant: false,
        })
    }

    /// A table whose writer was killed: whole batches up to the first damage.
    pub(crate) fn recover(path: PathBuf) -> Result<Self, RunError> {
        let mut file = File::open(&path).map_err(RunError::io("read", &path))?;
        let (begin, end) = whole_messages(&mut file).map_err(RunError::io("read", &path))?;
        file.seek(SeekFrom::Start(begin))
            .map_err(RunError::io("read", &path))?;
        let whole = BufReader::new(file).take(end - begin);
        let reader = guard(&path, || StreamReader::try_new(whole, None))?;
        Ok(Self {
            path,
            batches: Box::new(reader),
            tolerant: true,
        })
    }

    /// The next batch; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<RecordBatch>, RunError> {
        match caught(|| self.batches.next()) {
            Some(None) => Ok(None),
            Some(Some(Ok(batch))) => Ok(Some(batch)),
            Some(Some(Err(_))) | None if self.tolerant => Ok(None),
            Some(Some(Err(e))) => Err(self.damaged(e.to_string())),
            None => Err(self.damaged("is not a well-formed Arrow file")),
        }
    }

    /// The error of a file whose batches do not say what they should.
    pub(crate) fn damaged(&self, reason: impl Into<String>) -> RunError {
        damaged(&self.path, reason)
    }
}

fn arrow_error(action: &'static str, path: &Path, error: arrow_schema::ArrowError) -> RunError {
    match error {
        arrow_schema::ArrowError::IoError(_, source) => RunError::Io {
            action,
            path: path.to_owned(),
            source,
        },
        other => damaged(path, other.to_string()),
    }
}

fn damaged(path: &Path, reason: impl Into<String>) -> RunError {
    RunError::Table {
        path: path.to_owned(),
        reason: reason.into(),
    }
}

/// Size and CRC-32 of a file.
fn checksum(path: &Path) -> Result<(u64, u32), RunError> {
    let mut file = File::open(path).map_err(RunError::io("read", path))?;
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        let n = file.read(&mut buffer).map_err(RunError::io("read", path))?;
        if n == 0 {
            return Ok((bytes, hasher.finalize()));
        }
        hasher.update(&buffer[..n]);
        bytes += n as u64;
    }
}

/// Whether all blocks that the footer of a file of `size` bytes names lie in the file: arrow-ipc allocates by these
/// lengths, and a failed allocation ends the process.
///
/// A file ends with its footer, the length of the footer as 32 bits, and `ARROW1` (Arrow columnar format, "IPC File
/// Format").
fn blocks_fit(file: &mut File, size: u64) -> bool {
    const TAIL: u64 = 10;
    let mut footer = |size: u64| -> Option<Vec<u8>> {
        let mut tail = [0; TAIL as usize];
        file.seek(SeekFrom::Start(size.checked_sub(TAIL)?)).ok()?;
        file.read_exact(&mut tail).ok()?;
        let length = arrow_ipc::reader::read_footer_length(tail).ok()? as u64;
        let begin = (size - TAIL).checked_sub(length)?;
        let mut bytes = vec![0; length as usize];
        file.seek(SeekFrom::Start(begin)).ok()?;
        file.read_exact(&mut bytes).ok()?;
        Some(bytes)
    };
    let Some(bytes) = footer(size) else {
        return false;
    };
    let Ok(footer) = arrow_ipc::root_as_footer(&bytes) else {
        return false;
    };
    let blocks = [footer.recordBatches(), footer.dictionaries()];
    blocks.into_iter().flatten().flatten().all(|block| {
        let parts = [
            block.offset(),
            block.metaDataLength().into(),
            block.bodyLength(),
        ];
        let end = parts.into_iter().try_fold(0_u64, |sum, part| {
            sum.checked_add(u64::try_from(part).ok()?)
        });
        end.is_some_and(|end| end <= size)
    })
}

/// The largest metadata of one message: our widest schema takes some kilobytes.
const MAX_METADATA: u64 = 1 << 20;

/// Begin and end of the whole messages at the start of a file that may lack its end.
///
/// An Arrow IPC file begins with `ARROW1`, padded to the writer's alignment (8 to 64 bytes); then
/// come encapsulated messages: 0xFFFFFFFF, the length of the metadata, the metadata, the body
/// (Arrow columnar format, "Encapsulated message format"). Lengths are checked against the file
/// before anything is allocated by them.
fn whole_messages(file: &mut File) -> io::Result<(u64, u64)> {
    let size = file.metadata()?.len();
    let mut begin = 0;
    for candidate in (8..=64).step_by(8) {
        let mut marker = [0; 4];
        if candidate + 4 > size {
            break;
        }
        file.seek(SeekFrom::Start(candidate))?;
        file.read_exact(&mut marker)?;
        if marker == [0xff; 4] {
            begin = candidate;
            break;
        }
    }
    let mut at = begin;
    while begin > 0 && at + 8 <= size {
        let mut head = [0; 8];
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(&mut head)?;
        let [a, b, c, d, length @ ..] = head;
        let metadata = u64::from(u32::from_le_bytes(length));
        if [a, b, c, d] != [0xff; 4] || metadata == 0 || metadata > MAX_METADATA.min(size - at - 8)
        {
            break;
        }
        let mut bytes = vec![0; metadata as usize];
        file.read_exact(&mut bytes)?;
        let Ok(message) = arrow_ipc::root_as_message(&bytes) else {
            break;
        };
        let Ok(body) = u64::try_from(message.bodyLength()) else {
            break;
        };
        if body > size - at - 8 - metadata {
            break;
        }
        at += 8 + metadata + body;
    }
    Ok((begin, at))
}

/// Opens with a reader of arrow-ipc, which may panic on bytes that no writer made, and turns that into an error.
fn guard<R>(
    path: &Path,
    open: impl FnOnce() -> Result<R, arrow_schema::ArrowError>,
) -> Result<R, RunError> {
    match caught(open) {
        Some(Ok(reader)) => Ok(reader),
        // The file itself has been read before: such an error is about what it holds.
        Some(Err(arrow_schema::ArrowError::IoError(..))) | None => {
            Err(damaged(path, "is not a well-formed Arrow file"))
        }
        Some(Err(e)) => Err(damaged(path, e.to_string())),
    }
}

/// Runs `work`; `None` if it panics, which is then not shown to the user.
fn caught<R>(work: impl FnOnce() -> R) -> Option<R> {
    thread_local! {
        static CATCHING: Cell<bool> = const { Cell::new(false) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !CATCHING.get() {
                usual(info);
            }
        }));
    });
    CATCHING.set(true);
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    CATCHING.set(false);
    done.ok()
}
