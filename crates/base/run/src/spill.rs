//! The spill: records of the measuring threads, as counter readings, in the order in which they
//! were gathered.
//!
//! Building tables costs CPU time, and all CPUs may be under measurement. So while a phase runs,
//! its records are copied to one file as they are. They become tables when the recording is over,
//! or when it is recovered after its writer was killed.
//!
//! The file `spill` is a sequence of blocks. A block is a header of eight words, then its records
//! of [`RecordKind::words`] words each. A word is 64 bits in the byte order of the recording
//! machine.
//!
//! | word | holds |
//! |---|---|
//! | 0 | the bytes `IWSPILL1` |
//! | 1 | [`RecordKind`], as its number |
//! | 2 | index of the phase |
//! | 3 | CPU in the low half, rank in the high half (0 where the kind has none) |
//! | 4 | number of records |
//! | 5, 6 | the same moment as counter reading and as CLOCK_MONOTONIC in ns, taken after the records |
//! | 7 | exclusive or of the words 0 to 6 |

use crate::RunError;
use idlewave_sys::files;
use idlewave_units::{Cpu, Rank};
use std::fs::File;
use std::io::{self, BufReader, IoSlice, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const FILE: &str = "spill";
const MAGIC: u64 = u64::from_le_bytes(*b"IWSPILL1");
const HEADER: usize = 8;

/// What the records of a block are; all times in counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum RecordKind {
    /// Of a detour loop: start, length.
    Detour = 1,
    /// A fixed work quantum: start, end.
    Quantum = 2,
    /// Of a lockstep run: start, arrival. A rank's records follow each other from its first
    /// iteration on, and each iteration ends where the next one starts; the last record only ends
    /// the one before.
    Iteration = 3,
    /// A gap in a rank's iteration: start, length.
    RankGap = 4,
    /// A step of the Lennard-Jones run: start of the step, of the exchange, of the rebuild of the
    /// list and of the forces. Ends like an [`Iteration`](Self::Iteration).
    MdStep = 5,
    /// A fixed time quantum: start, end, units of work that ended in it.
    TimedQuantum = 6,
    /// State of a program's ring: `recording` defines its words. The block's `rank` is the number
    /// of the ring.
    RingState = 16,
    /// Records of a program's ring, as it holds them. The block's `rank` is the number of the ring.
    RingRecord = 17,
}

impl RecordKind {
    /// Words of one record.
    pub const fn words(self) -> usize {
        match self {
            Self::Detour | Self::Quantum | Self::Iteration | Self::RankGap => 2,
            Self::TimedQuantum => 3,
            Self::MdStep => 4,
            Self::RingState => 48,
            Self::RingRecord => 8,
        }
    }

    fn of(number: u64) -> Option<Self> {
        [
            Self::Detour,
            Self::Quantum,
            Self::Iteration,
            Self::RankGap,
            Self::MdStep,
            Self::TimedQuantum,
            Self::RingState,
            Self::RingRecord,
        ]
        .into_iter()
        .find(|&kind| kind as u64 == number)
    }
}

/// What a block says about its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// What they are.
    pub kind: RecordKind,
    /// Index of their phase.
    pub phase: u32,
    /// CPU of the thread that recorded them.
    pub cpu: Cpu,
    /// Its rank; 0 in phases without ranks.
    pub rank: Rank,
    /// A counter reading taken after the records, and the same moment in nanoseconds of
    /// CLOCK_MONOTONIC.
    pub counts: u64,
    /// See `counts`.
    pub ns: u64,
}

/// Appends blocks. What a call has written survives the end of the process.
#[derive(Debug)]
pub struct SpillWriter {
    file: File,
    path: PathBuf,
}

impl SpillWriter {
    /// Starts the spill of a bundle.
    pub fn create(bundle: &Path) -> Result<Self, RunError> {
        let path = bundle.join(FILE);
        let file = files::create_over(&path).map_err(RunError::io("create", &path))?;
        Ok(Self { file, path })
    }

    /// Resumes the spill of a killed writer after its last whole block, or starts one.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn resume(bundle: &Path) -> Result<Self, RunError> {
        let Some(mut reader) = SpillReader::open(bundle)? else {
            return Self::create(bundle);
        };
        let all = reader.left;
        let mut whole = 0;
        while reader.next(None)?.is_some() {
            whole = all - reader.left;
        }
        let path = bundle.join(FILE);
        let open = || {
            let mut file = files::open_to_change(&path)?;
            file.set_len(whole)?;
            file.seek(SeekFrom::End(0))?;
            Ok(file)
        };
        let file = open().map_err(RunError::io("write", &path))?;
        Ok(Self { file, path })
    }

    /// Appends `words`, whole records of `block`.
    pub fn write(&mut self, block: &Block, words: &[u64]) -> Result<(), RunError> {
        debug_assert_eq!(words.len() % block.kind.words(), 0);
        if words.is_empty() {
            return Ok(());
        }
        let mut header = [
            MAGIC,
            block.kind as u64,
            u64::from(block.phase),
            u64::from(block.cpu.get()) | u64::from(block.rank.get()) << 32,
            (words.len() / block.kind.words()) as u64,
            block.counts,
            block.ns,
            0,
        ];
        header[HEADER - 1] = check(&header);
        let (header, words): (&[u8], &[u8]) =
            (bytemuck::cast_slice(&header), bytemuck::cast_slice(words));
        let all = header.len() + words.len();
        let mut written = self
            .file
            .write_vectored(&[IoSlice::new(header), IoSlice::new(words)])
            .map_err(RunError::io("write", &self.path))?;
        // Usually everything is written at once.
        while written < all {
            let rest = if written < header.len() {
                &header[written..]
            } else {
                &words[written - header.len()..]
            };
            match self.file.write(rest) {
                Ok(0) => {
                    return Err(RunError::io("write", &self.path)(
                        io::ErrorKind::WriteZero.into(),
                    ));
                }
                Ok(n) => written += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(RunError::io("write", &self.path)(e)),
            }
        }
        Ok(())
    }
}

/// Exclusive or of all words but the last.
fn check(header: &[u64; HEADER]) -> u64 {
    header[..HEADER - 1].iter().fold(0, |x, word| x ^ word)
}

/// Reads blocks up to the last whole one.
#[derive(Debug)]
pub struct SpillReader {
    file: BufReader<File>,
    path: PathBuf,
    /// Bytes left to read.
    left: u64,
}

impl SpillReader {
    /// Opens the spill of a bundle; `None` if it has none.
    pub fn open(bundle: &Path) -> Result<Option<Self>, RunError> {
        let path = bundle.join(FILE);
        let opened = files::open(&path).and_then(|file| {
            let left = file.metadata()?.len();
            Ok((file, left))
        });
        match opened {
            Ok((file, left)) => Ok(Some(Self {
                file: BufReader::with_capacity(1 << 16, file),
                path,
                left,
            })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(RunError::io("read", path)(e)),
        }
    }

    /// The next block with its records, or without them (`words` is `None`). `None` at the end, or
    /// where the writer was killed within a block.
    ///
    /// # Errors
    /// The file cannot be read, or no valid block starts here.
    pub fn next(&mut self, words: Option<&mut Vec<u64>>) -> Result<Option<Block>, RunError> {
        match words {
            Some(words) => Ok(self.next_where(words, |_| true)?.map(|(block, _)| block)),
            None => {
                let next = self.next_where(&mut Vec::new(), |_| false)?;
                Ok(next.map(|(block, _)| block))
            }
        }
    }

    /// The next block and the number of its records, with the records if `want` says so; `words`
    /// is empty otherwise.
    ///
    /// # Errors
    /// Like [`next`](Self::next).
    pub fn next_where(
        &mut self,
        words: &mut Vec<u64>,
        want: impl FnOnce(&Block) -> bool,
    ) -> Result<Option<(Block, u64)>, RunError> {
        let mut header = [0_u64; HEADER];
        let size = size_of_val(&header) as u64;
        words.clear();
        if self.left < size {
            return Ok(None);
        }
        self.read(bytemuck::cast_slice_mut(&mut header))?;
        let at = self.left;
        let kind = RecordKind::of(header[1])
            .filter(|_| header[0] == MAGIC && header[HEADER - 1] == check(&header));
        let (Some(kind), Ok(phase)) = (kind, u32::try_from(header[2])) else {
            let reason = if header[0] == MAGIC.swap_bytes() {
                "recorded on a machine with the other byte order; explain it there".to_owned()
            } else {
                format!("no valid block starts {at} bytes before its end")
            };
            return Err(RunError::Table {
                path: self.path.clone(),
                reason,
            });
        };
        let bytes = header[4].saturating_mul(8 * kind.words() as u64);
        if self.left < bytes {
            return Ok(None);
        }
        let block = Block {
            kind,
            phase,
            cpu: Cpu::new(header[3] as u32),
            rank: Rank::new((header[3] >> 32) as u32),
            counts: header[5],
            ns: header[6],
        };
        if want(&block) {
            // At most what the file holds.
            words.resize((bytes / 8) as usize, 0);
            self.read(bytemuck::cast_slice_mut(words))?;
        } else {
            self.file
                .seek_relative(bytes as i64)
                .map_err(RunError::io("read", &self.path))?;
            self.left -= bytes;
        }
        Ok(Some((block, header[4])))
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<(), RunError> {
        self.file
            .read_exact(bytes)
            .map_err(RunError::io("read", &self.path))?;
        self.left -= bytes.len() as u64;
        Ok(())
    }

    /// Goes back to the first block.
    pub fn rewind(&mut self) -> Result<(), RunError> {
        let at = self
            .file
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.file.get_ref().metadata());
        self.left = at.map_err(RunError::io("read", &self.path))?.len();
        Ok(())
    }
}

/// Removes the spill, if there is one: its records are in tables.
pub fn remove(bundle: &Path) -> Result<(), RunError> {
    let path = bundle.join(FILE);
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(RunError::io("remove", path)(e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(kind: RecordKind, phase: u32) -> Block {
        Block {
            kind,
            phase,
            cpu: Cpu::new(3),
            rank: Rank::new(7),
            counts: 1_000,
            ns: 2_000,
        }
    }

    fn all(dir: &Path) -> Result<Vec<(Block, Vec<u64>)>, RunError> {
        let mut reader = SpillReader::open(dir)?.expect("a spill");
        let mut blocks = Vec::new();
        let mut words = Vec::new();
        while let Some(block) = reader.next(Some(&mut words))? {
            blocks.push((block, words.clone()));
        }
        reader.rewind()?;
        let mut heads = Vec::new();
        while let Some(block) = reader.next(None)? {
            heads.push(block);
        }
        assert!(blocks.iter().map(|b| b.0).eq(heads));
        Ok(blocks)
    }

    fn written(dir: &Path) -> Vec<(Block, Vec<u64>)> {
        let blocks = vec![
            (block(RecordKind::Iteration, 2), (0..4_000).collect()),
            (block(RecordKind::RankGap, 2), vec![5, 6]),
            (block(RecordKind::Detour, 0), vec![u64::MAX; 20]),
        ];
        let mut writer = SpillWriter::create(dir).unwrap();
        writer.write(&blocks[0].0, &blocks[0].1).unwrap();
        writer.write(&block(RecordKind::Quantum, 1), &[]).unwrap();
        writer.write(&blocks[1].0, &blocks[1].1).unwrap();
        writer.write(&blocks[2].0, &blocks[2].1).unwrap();
        blocks
    }

    #[test]
    fn blocks_are_read_as_written_and_empty_ones_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let blocks = written(dir.path());
        assert_eq!(all(dir.path()).unwrap(), blocks);
        remove(dir.path()).unwrap();
        remove(dir.path()).unwrap();
        assert!(SpillReader::open(dir.path()).unwrap().is_none());
    }

    #[test]
    fn a_file_cut_anywhere_gives_its_whole_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let blocks = written(dir.path());
        let path = dir.path().join(FILE);
        let bytes = std::fs::read(&path).unwrap();
        let ends: Vec<usize> = blocks
            .iter()
            .scan(0, |end, b| {
                *end += 64 + 8 * b.1.len();
                Some(*end)
            })
            .collect();
        for cut in [
            0,
            1,
            63,
            64,
            65,
            32_063,
            32_064,
            32_065,
            32_143,
            32_144,
            bytes.len() - 1,
        ] {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let whole = ends.iter().filter(|&&end| end <= cut).count();
            assert_eq!(all(dir.path()).unwrap(), blocks[..whole], "cut at {cut}");
            let mut writer = SpillWriter::resume(dir.path()).unwrap();
            writer.write(&blocks[1].0, &blocks[1].1).unwrap();
            let mut expected = blocks[..whole].to_vec();
            expected.push(blocks[1].clone());
            assert_eq!(all(dir.path()).unwrap(), expected, "resumed at {cut}");
        }
    }

    #[test]
    fn damage_in_any_header_byte_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let blocks = written(dir.path());
        let path = dir.path().join(FILE);
        let bytes = std::fs::read(&path).unwrap();
        for at in 0..64 {
            let mut bad = bytes.clone();
            bad[at] ^= 1 << (at % 8);
            std::fs::write(&path, &bad).unwrap();
            let error = all(dir.path()).unwrap_err();
            assert!(matches!(error, RunError::Table { .. }), "{at}: {error}");
        }
        let mut swapped = bytes.clone();
        swapped[..8].reverse();
        std::fs::write(&path, &swapped).unwrap();
        assert!(
            all(dir.path())
                .unwrap_err()
                .to_string()
                .contains("byte order")
        );
        assert_eq!(blocks.len(), 3);
    }
}
