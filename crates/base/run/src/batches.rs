//! Record batches of any table in files: writing an Arrow IPC file, and reading one that may be
//! truncated.
//!
//! None of this is generic over the table, so it is compiled once, not again in every crate that
//! reads a table.

use crate::{RunError, TableEntry, compressed};
use arrow_array::RecordBatch;
use arrow_ipc::CompressionType;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{ArrowError, Schema};
use idlewave_sys::files;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
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
    /// Written beside the final path and renamed once complete.
    beside: Option<Beside>,
}

/// A file that is removed unless it is renamed to its final path.
struct Beside(PathBuf);

impl Drop for Beside {
    fn drop(&mut self) {
        // The file is not part of the bundle even if it cannot be removed.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl BatchWriter {
    /// Starts `table` at its final path; what has been written survives the end of this process.
    pub(crate) fn create(
        directory: &Path,
        table: &'static str,
        schema: &Schema,
    ) -> Result<Self, RunError> {
        let path = directory.join(file_name(table));
        let out = files::create_over(&path).map_err(RunError::io("create", &path))?;
        Self::begin(out, path, None, table, schema)
    }

    /// Starts `table`, which replaces an older one once it is complete.
    pub(crate) fn replace(
        directory: &Path,
        table: &'static str,
        schema: &Schema,
    ) -> Result<Self, RunError> {
        let place = directory.join(file_name(table));
        let (out, path) = files::create_beside(&place).map_err(RunError::io("create", place))?;
        Self::begin(out, path.clone(), Some(Beside(path)), table, schema)
    }

    fn begin(
        out: File,
        path: PathBuf,
        beside: Option<Beside>,
        table: &'static str,
        schema: &Schema,
    ) -> Result<Self, RunError> {
        let writer = IpcWriteOptions::default()
            .try_with_compression(Some(CompressionType::LZ4_FRAME))
            .and_then(|options| {
                FileWriter::try_new_with_options(BufWriter::new(out), schema, options)
            })
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

    /// Ends the table and returns its entry for the manifest.
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

/// Where batches come from.
enum Batches {
    /// A complete file, whose footer lists them.
    File(Box<FileReader<BufReader<File>>>),
    /// A file without its end.
    Stream(Box<StreamReader<io::Take<BufReader<File>>>>),
}

impl Batches {
    fn next(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        match self {
            Batches::File(reader) => reader.next(),
            Batches::Stream(reader) => reader.next(),
        }
    }
}

/// Reads the batches of one table.
pub(crate) struct BatchReader {
    path: PathBuf,
    batches: Batches,
    /// Damage marks the end and is not an error: the writer was killed.
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
        Self::open_again(path, bytes)
    }

    /// The same table once more: its checksum is not computed again.
    pub(crate) fn open_again(path: PathBuf, bytes: u64) -> Result<Self, RunError> {
        let mut file = files::open(&path).map_err(RunError::io("read", &path))?;
        if !guard(&path, || Ok(blocks_fit(&mut file, bytes)))? {
            return Err(damaged(&path, "is not a well-formed Arrow file"));
        }
        let reader = guard(&path, || FileReader::try_new_buffered(file, None))?;
        Ok(Self {
            path,
            batches: Batches::File(Box::new(reader)),
            tolerant: false,
        })
    }

    /// A table whose writer was killed: whole batches up to the first damage.
    pub(crate) fn recover(path: PathBuf) -> Result<Self, RunError> {
        let mut file = files::open(&path).map_err(RunError::io("read", &path))?;
        let (begin, end) = whole_messages(&mut file).map_err(RunError::io("read", &path))?;
        file.seek(SeekFrom::Start(begin))
            .map_err(RunError::io("read", &path))?;
        let whole = BufReader::new(file).take(end - begin);
        let reader = guard(&path, || StreamReader::try_new(whole, None).map(Box::new))?;
        Ok(Self {
            path,
            batches: Batches::Stream(reader),
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

    /// Leaves out `count` batches at the start: `next` has not been called yet.
    pub(crate) fn skip(&mut self, count: usize) -> Result<(), RunError> {
        match &mut self.batches {
            Batches::File(reader) => reader
                .set_index(count)
                .map_err(|e| damaged(&self.path, e.to_string())),
            Batches::Stream(_) => {
                for _ in 0..count {
                    self.next()?;
                }
                Ok(())
            }
        }
    }

    /// An error for a file whose batches are not what they should be.
    pub(crate) fn damaged(&self, reason: impl Into<String>) -> RunError {
        damaged(&self.path, reason)
    }
}

/// Calls `each` with every batch of an Arrow IPC file that need not be part of a bundle.
///
/// # Errors
/// The file cannot be read or is damaged, or `each` says what is wrong with a batch.
pub fn for_each_batch(
    path: &Path,
    mut each: impl FnMut(&RecordBatch) -> Result<(), String>,
) -> Result<(), RunError> {
    let file = files::open(path).map_err(RunError::io("read", path))?;
    let bytes = file.metadata().map_err(RunError::io("read", path))?.len();
    drop(file);
    let mut batches = BatchReader::open_again(path.to_owned(), bytes)?;
    while let Some(batch) = batches.next()? {
        each(&batch).map_err(|reason| batches.damaged(reason))?;
    }
    Ok(())
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
pub(crate) fn checksum(path: &Path) -> Result<(u64, u32), RunError> {
    let mut file = files::open(path).map_err(RunError::io("read", path))?;
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

/// Whether all blocks that the footer of a file of `size` bytes lists lie within the file, and
/// their buffers decompress to the lengths they declare. arrow-ipc allocates these lengths, and a
/// failed allocation aborts the process.
///
/// A file ends with its footer, the length of the footer as 32 bits, and `ARROW1` (Arrow columnar
/// format, "IPC File Format").
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
        let [Ok(at), Ok(metadata), Ok(body)] = parts.map(u64::try_from) else {
            return false;
        };
        let sum = at.checked_add(metadata).and_then(|s| s.checked_add(body));
        if sum.is_none_or(|end| end > size) || !(8..=MAX_METADATA).contains(&metadata) {
            return false;
        }
        let mut bytes = vec![0; metadata as usize];
        if file.read_exact_at(&mut bytes, at).is_err() || bytes[..4] != [0xff; 4] {
            return false;
        }
        let message = arrow_ipc::root_as_message(&bytes[8..]);
        message.is_ok_and(|message| compressed::fits(file, &message, at + metadata, body))
    })
}

/// Largest metadata of one message. Our widest schema takes a few kilobytes.
const MAX_METADATA: u64 = 1 << 20;

/// Start and end of the whole messages at the start of a file that may be truncated.
///
/// An Arrow IPC file begins with `ARROW1`, padded to the writer's alignment (8 to 64 bytes); then
/// come encapsulated messages: 0xFFFFFFFF, the length of the metadata, the metadata, the body
/// (Arrow columnar format, "Encapsulated message format"). Lengths are checked against the file
/// before anything is allocated.
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
        let place = at + 8 + metadata;
        if body > size - place || !compressed::fits(file, &message, place, body) {
            break;
        }
        at += 8 + metadata + body;
    }
    Ok((begin, at))
}

/// Opens with a reader of arrow-ipc, which may panic on malformed bytes, and turns a panic into an
/// error.
fn guard<R>(
    path: &Path,
    open: impl FnOnce() -> Result<R, arrow_schema::ArrowError>,
) -> Result<R, RunError> {
    match caught(open) {
        Some(Ok(reader)) => Ok(reader),
        // The file has been read before, so an I/O error here is about its content.
        Some(Err(arrow_schema::ArrowError::IoError(..))) | None => {
            Err(damaged(path, "is not a well-formed Arrow file"))
        }
        Some(Err(e)) => Err(damaged(path, e.to_string())),
    }
}

/// Runs `work`; `None` if it panics. The panic message is suppressed.
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
