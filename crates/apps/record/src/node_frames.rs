//! A bundle as lines of text, sent from a node through the launcher's output among other lines,
//! prefixes and the lines of other nodes.
//!
//! A line is `IWF1:NODE:NUMBER:CRC:DATA`: the node's name, the line's number from 0, the CRC-32
//! (IEEE) of node, number and data, and base64. The data of all lines of a node are one deflate
//! stream; an empty one is the end. Within the stream a file is the length of its name (4 bytes,
//! little endian), the name, its size (8 bytes), its bytes and their CRC-32. Every line has 1024
//! bytes, including the newline, or ends the stream: launchers forward pieces of 1024 to 65536
//! bytes, and do not tear lines that fit.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use flate2::Compression;
use flate2::write::{DeflateDecoder, DeflateEncoder};
use idlewave_sys::files;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

const MARK: &str = "IWF1:";
/// Bytes of a line with its newline.
const LINE: usize = 1_024;
const MAX_NAME: usize = 255;

/// Whether a name can be a file in a bundle, or a node, without leading out of the directory.
pub(crate) fn is_plain(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'@');
    !name.is_empty() && name.len() <= MAX_NAME && !name.starts_with('.') && name.bytes().all(fits)
}

/// Turns bytes into lines.
struct Lines<W: Write> {
    out: W,
    node: String,
    number: u64,
    pending: Vec<u8>,
}

impl<W: Write> Lines<W> {
    /// Bytes that fit into the line with this number: base64 turns 3 bytes into 4 characters.
    fn room(&self) -> usize {
        let head = MARK.len() + self.node.len() + 1 + digits(self.number) + 1 + 8 + 1;
        (LINE - 1 - head) / 4 * 3
    }

    fn line(&mut self, data: &[u8]) -> io::Result<()> {
        let text = STANDARD_NO_PAD.encode(data);
        let crc = checksum(&self.node, self.number, &text);
        let mut line = format!("{MARK}{}:{}:{crc:08x}:{text}", self.node, self.number);
        // Blanks after the data pad the line and are not part of it.
        while !data.is_empty() && line.len() < LINE - 1 {
            line.push(' ');
        }
        line.push('\n');
        self.number += 1;
        self.out.write_all(line.as_bytes())
    }
}

fn digits(n: u64) -> usize {
    n.checked_ilog10().map_or(1, |d| d as usize + 1)
}

fn checksum(node: &str, number: u64, text: &str) -> u32 {
    crc32fast::hash(format!("{node}:{number}:{text}").as_bytes())
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        while self.pending.len() >= self.room() {
            let room = self.room();
            let data: Vec<u8> = self.pending.drain(..room).collect();
            self.line(&data)?;
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes the files below `bundle` as lines of `node`.
///
/// # Errors
/// A file cannot be read, or the reader is gone.
pub fn send(bundle: &Path, node: &str, out: impl Write) -> io::Result<()> {
    let lines = Lines {
        out,
        node: node.to_owned(),
        number: 0,
        pending: Vec::new(),
    };
    let mut stream = DeflateEncoder::new(lines, Compression::fast());
    for (name, path) in files(bundle)? {
        let mut file = BufReader::new(files::open(&path)?);
        let size = file.get_ref().metadata()?.len();
        stream.write_all(&(name.len() as u32).to_le_bytes())?;
        stream.write_all(name.as_bytes())?;
        stream.write_all(&size.to_le_bytes())?;
        let mut hasher = crc32fast::Hasher::new();
        let mut left = size;
        let mut buffer = vec![0; 1 << 16];
        while left > 0 {
            let most = buffer
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            let n = file.read(&mut buffer[..most])?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            hasher.update(&buffer[..n]);
            stream.write_all(&buffer[..n])?;
            left -= n as u64;
        }
        stream.write_all(&hasher.finalize().to_le_bytes())?;
    }
    let mut lines = stream.finish()?;
    let rest = std::mem::take(&mut lines.pending);
    if !rest.is_empty() {
        lines.line(&rest)?;
    }
    lines.line(&[])?;
    lines.out.flush()
}

/// Files of a bundle by their names in it: `directory@file` for those in a directory.
fn files(bundle: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    let mut directories = vec![(String::new(), bundle.to_owned())];
    while let Some((prefix, directory)) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                directories.push((format!("{name}@"), entry.path()));
            } else if is_plain(&name) {
                found.push((name, entry.path()));
            } else {
                return Err(bad(&format!("a file in the bundle has the name {name}")));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Writes the files of a stream into a directory.
struct Files {
    directory: PathBuf,
    state: State,
    /// Partial header or checksum.
    partial: Vec<u8>,
}

enum State {
    NameLength,
    Name(usize),
    Size(String),
    Bytes {
        file: File,
        left: u64,
        hasher: crc32fast::Hasher,
    },
    Checksum(u32),
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

impl Files {
    /// Collects up to `size` bytes for a header; true when complete.
    fn collect(&mut self, bytes: &mut &[u8], size: usize) -> bool {
        let n = bytes.len().min(size - self.partial.len());
        self.partial.extend_from_slice(&bytes[..n]);
        *bytes = &bytes[n..];
        self.partial.len() == size
    }

    fn number<const N: usize>(&mut self) -> [u8; N] {
        let mut number = [0; N];
        number.copy_from_slice(&self.partial[..N]);
        self.partial.clear();
        number
    }

    fn begin(&self, name: &str) -> io::Result<File> {
        let mut path = self.directory.clone();
        for part in name.split('@') {
            if !is_plain(part) {
                return Err(bad("name of a file"));
            }
            path.push(part);
        }
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        files::create(&path)
    }

    fn take(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match &mut self.state {
                State::NameLength => {
                    if self.collect(&mut bytes, 4) {
                        let length = u32::from_le_bytes(self.number()) as usize;
                        if length == 0 || length > MAX_NAME {
                            return Err(bad("length of a name"));
                        }
                        self.state = State::Name(length);
                    }
                }
                State::Name(length) => {
                    let length = *length;
                    if self.collect(&mut bytes, length) {
                        let name = String::from_utf8_lossy(&self.partial).into_owned();
                        self.partial.clear();
                        if !is_plain(&name) {
                            return Err(bad("name of a file"));
                        }
                        self.state = State::Size(name);
                    }
                }
                State::Size(name) => {
                    let name = name.clone();
                    if self.collect(&mut bytes, 8) {
                        let left = u64::from_le_bytes(self.number());
                        let (file, hasher) = (self.begin(&name)?, crc32fast::Hasher::new());
                        self.state = match left {
                            0 => State::Checksum(hasher.finalize()),
                            _ => State::Bytes { file, left, hasher },
                        };
                    }
                }
                State::Bytes { file, left, hasher } => {
                    let n = bytes
                        .len()
                        .min(usize::try_from(*left).unwrap_or(usize::MAX));
                    file.write_all(&bytes[..n])?;
                    hasher.update(&bytes[..n]);
                    *left -= n as u64;
                    bytes = &bytes[n..];
                    if *left == 0 {
                        self.state = State::Checksum(hasher.clone().finalize());
                    }
                }
                State::Checksum(expected) => {
                    let expected = *expected;
                    if self.collect(&mut bytes, 4) {
                        if u32::from_le_bytes(self.number()) != expected {
                            return Err(bad("checksum of a file"));
                        }
                        self.state = State::NameLength;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Write for Files {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.take(bytes)?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Data received from one node.
pub struct Receiver {
    stream: DeflateDecoder<Files>,
    next: u64,
    whole: bool,
}

impl Receiver {
    /// Files go below `directory`, which is created.
    ///
    /// # Errors
    /// The directory cannot be created, or exists already.
    pub fn new(directory: &Path) -> io::Result<Self> {
        fs::create_dir(directory)?;
        let files = Files {
            directory: directory.to_owned(),
            state: State::NameLength,
            partial: Vec::new(),
        };
        Ok(Self {
            stream: DeflateDecoder::new(files),
            next: 0,
            whole: false,
        })
    }

    /// Takes the next line of this node.
    ///
    /// # Errors
    /// A line is missing, the stream is damaged, or a file cannot be written.
    pub fn take(&mut self, line: &Line) -> io::Result<()> {
        if self.whole || line.number != self.next {
            return Err(bad("a line is missing"));
        }
        self.next += 1;
        if !line.data.is_empty() {
            return self.stream.write_all(&line.data);
        }
        self.stream.try_finish()?;
        let files = self.stream.get_ref();
        self.whole = matches!(files.state, State::NameLength) && files.partial.is_empty();
        if self.whole {
            Ok(())
        } else {
            Err(bad("the stream ends within a file"))
        }
    }

    /// Whether everything has arrived.
    pub fn is_whole(&self) -> bool {
        self.whole
    }
}

/// One line of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The node's name.
    pub node: String,
    /// Number from 0.
    pub number: u64,
    /// Piece of the stream; empty at its end.
    pub data: Vec<u8>,
}

/// The line of a node within a line of the launcher's output, which may have a prefix.
///
/// # Errors
/// The text has such a line, but it is damaged.
pub fn parse(text: &str) -> io::Result<Option<Line>> {
    let Some(at) = text.find(MARK) else {
        return Ok(None);
    };
    let damaged = || bad("a line is damaged");
    let mut fields = text[at + MARK.len()..].trim_end().split(':');
    let mut field = || fields.next().ok_or_else(damaged);
    let (node, number, crc, data) = (field()?, field()?, field()?, field()?);
    let number: u64 = number.parse().map_err(|_| damaged())?;
    // Compare as text: parsing would accept digits in either case.
    if !is_plain(node) || crc != format!("{:08x}", checksum(node, number, data)) {
        return Err(damaged());
    }
    let data = STANDARD_NO_PAD.decode(data).map_err(|_| damaged())?;
    Ok(Some(Line {
        node: node.to_owned(),
        number,
        data,
    }))
}

#[cfg(test)]
#[path = "node_frames_tests.rs"]
mod tests;
