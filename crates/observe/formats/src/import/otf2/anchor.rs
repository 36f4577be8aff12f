//! The anchor of an archive, and where its other files are.

use super::bytes::Bytes;
use crate::import::error::ImportError;
use crate::otf2;
use idlewave_sys::files;
use std::fs;
use std::path::{Path, PathBuf};

/// Longest anchor; one with a thousand properties has some 100 KB.
const LONGEST: u64 = 16 << 20;
/// The sizes of chunks that OTF2 allows (OTF2_CHUNK_SIZE_MIN, OTF2_CHUNK_SIZE_MAX).
const CHUNKS: std::ops::RangeInclusive<u64> = 256 << 10..=16 << 20;

/// What the anchor says.
#[derive(Debug)]
pub(crate) struct Anchor {
    path: PathBuf,
    /// Bytes of a chunk of events, and of definitions.
    pub(super) chunk: u64,
    pub(super) definition_chunk: u64,
}

/// Whether a file with these first bytes is an anchor.
pub(crate) fn is_anchor(start: &[u8]) -> bool {
    Bytes::of_file(start).and_then(|mut bytes| bytes.text()) == Some(b"OTF2")
}

/// Whether a file with these first bytes belongs to an archive, as its anchor or otherwise.
pub(crate) fn is_part(start: &[u8]) -> bool {
    Bytes::of_file(start).is_some()
}

/// The anchors in a directory, in order of their names.
pub(crate) fn inside(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "otf2") && path.is_file())
        .collect();
    found.sort_unstable();
    found
}

impl Anchor {
    pub(super) fn read(path: &Path) -> Result<Self, ImportError> {
        let file = files::read(path, LONGEST).map_err(ImportError::io(path))?;
        let damaged = |left: usize| ImportError::Damaged {
            path: path.to_owned(),
            offset: (file.len() - left) as u64,
            reason: "the anchor ends or contradicts itself".to_owned(),
        };
        let mut bytes = Bytes::of_file(&file).ok_or_else(|| damaged(file.len()))?;
        let fields = Fields::of(&mut bytes);
        let left = bytes.len();
        let fields = fields.ok_or_else(|| damaged(left))?;
        if ![fields.chunk, fields.definition_chunk]
            .iter()
            .all(|size| CHUNKS.contains(size))
        {
            return Err(damaged(left));
        }
        let refused = |reason: &str, next: &str| ImportError::Format {
            path: path.to_owned(),
            reason: reason.to_owned(),
            next: next.to_owned(),
        };
        if fields.substrate != otf2::SINGLE_FILES {
            let next = "record without SIONlib, with files for each location";
            return Err(refused("SIONlib has packed its files into one", next));
        }
        if fields.compression != otf2::NOT_COMPRESSED {
            let next = "record without compression";
            return Err(refused("its files are compressed", next));
        }
        Ok(Self {
            path: path.to_owned(),
            chunk: fields.chunk,
            definition_chunk: fields.definition_chunk,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file of global definitions.
    pub(super) fn definitions(&self) -> PathBuf {
        self.path.with_extension("def")
    }

    /// The file of a location, with this ending.
    pub(super) fn of_location(&self, location: u64, ending: &str) -> PathBuf {
        let directory = self.path.with_extension("");
        directory.join(format!("{location}.{ending}"))
    }

    /// The name of the program: that of the archive, or that of its directory if the archive has
    /// the name that Score-P gives to all.
    pub(super) fn program(&self) -> String {
        let stem = self.path.file_stem().unwrap_or_default();
        let directory = self.path.parent().and_then(|parent| {
            let whole = fs::canonicalize(parent).ok()?;
            Some(whole.file_name()?.to_string_lossy().into_owned())
        });
        let stem = stem.to_string_lossy().into_owned();
        match directory {
            Some(directory) if stem == "traces" => directory,
            _ => stem,
        }
    }
}

/// Fields of the anchor that matter here.
struct Fields {
    chunk: u64,
    definition_chunk: u64,
    substrate: u8,
    compression: u8,
}

impl Fields {
    fn of(bytes: &mut Bytes<'_>) -> Option<Self> {
        if bytes.text()? != b"OTF2" {
            return None;
        }
        // Versions of the anchor and of the trace, and the three numbers of the library's.
        for _ in 0..5 {
            bytes.u8()?;
        }
        let (chunk, definition_chunk) = (bytes.full_u64()?, bytes.full_u64()?);
        let (substrate, compression) = (bytes.u8()?, bytes.u8()?);
        Some(Self {
            chunk,
            definition_chunk,
            substrate,
            compression,
        })
    }
}
