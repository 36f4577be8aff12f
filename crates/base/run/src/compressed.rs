//! Checks on compressed buffers of untrusted record batches, before anything is decompressed:
//! arrow-ipc allocates the length that a buffer declares, and a failed allocation aborts the
//! process.
//!
//! A compressed buffer is its decompressed length (64 bits, -1: not compressed), then an LZ4 frame
//! (Arrow columnar format, "Compression"; LZ4 frame format 1.6.4).

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Largest decompressed size of all buffers of a message. Ours have 16,384 rows of some hundred
/// bytes.
const MOST_TOGETHER: u64 = 256 << 20;
/// One byte of an LZ4 block decompresses to at most 255.
const MOST_TIMES: u64 = 255;

/// Whether the buffers of a message decompress to no more than they declare, and to no more than
/// the limit. `body` starts at this byte of the file.
pub(crate) fn fits(file: &File, message: &arrow_ipc::Message<'_>, begin: u64, body: u64) -> bool {
    let dictionary = message.header_as_dictionary_batch();
    let batch = message
        .header_as_record_batch()
        .or_else(|| dictionary.and_then(|dictionary| dictionary.data()));
    let Some(batch) = batch else {
        return true;
    };
    let Some(compression) = batch.compression() else {
        return true;
    };
    if compression.codec() != arrow_ipc::CompressionType::LZ4_FRAME {
        return false;
    }
    let mut together = 0_u64;
    batch.buffers().into_iter().flatten().all(|buffer| {
        let place = u64::try_from(buffer.offset()).ok();
        let length = u64::try_from(buffer.length()).ok();
        let Some((place, length)) = place.zip(length) else {
            return false;
        };
        if place.checked_add(length).is_none_or(|end| end > body) {
            return false;
        }
        let becomes = match length {
            0 => Some(0),
            _ => length_of(file, begin + place, length),
        };
        together = together.saturating_add(becomes.unwrap_or(u64::MAX));
        together <= MOST_TOGETHER
    })
}

/// Decompressed length of a buffer; `None` if it does not match the declared one.
fn length_of(file: &File, at: u64, length: u64) -> Option<u64> {
    let said = i64::from_le_bytes(bytes(file, at, length, 0)?);
    if said == -1 {
        return Some(length);
    }
    let said = u64::try_from(said).ok()?;
    if said == 0 {
        return Some(0);
    }
    // The blocks of the frame; none may decompress to more than the frame allows.
    let [m0, m1, m2, m3, flags, sizes] = bytes(file, at, length, 8)?;
    if u32::from_le_bytes([m0, m1, m2, m3]) != 0x184d_2204 {
        return None;
    }
    let most_of_block = match (sizes >> 4) & 7 {
        4 => 64 << 10,
        5 => 256 << 10,
        6 => 1 << 20,
        7 => 4 << 20,
        _ => return None,
    };
    let has = |bit: u8| flags & (1 << bit) != 0;
    let mut next = 8 + 7 + 8 * u64::from(has(3)) + 4 * u64::from(has(0));
    let (mut blocks, mut compressed) = (0_u64, 0_u64);
    loop {
        let size = u32::from_le_bytes(bytes(file, at, length, next)?) & 0x7fff_ffff;
        if size == 0 {
            break;
        }
        blocks += 1;
        compressed += u64::from(size);
        next += 4 + u64::from(size) + 4 * u64::from(has(4));
    }
    // All blocks but the last are full.
    let most = blocks * most_of_block;
    let full = most < said + most_of_block && said <= most;
    (full && said <= compressed * MOST_TIMES).then_some(most.min(said + most_of_block))
}

/// `N` bytes of a buffer; `None` if it is shorter.
fn bytes<const N: usize>(file: &File, at: u64, length: u64, from: u64) -> Option<[u8; N]> {
    let mut found = [0; N];
    let inside = from.checked_add(N as u64).is_some_and(|end| end <= length);
    (inside && file.read_exact_at(&mut found, at + from).is_ok()).then_some(found)
}

#[cfg(test)]
mod tests {
    use crate::batches::{BatchReader, BatchWriter, checksum};
    use crate::tables::{Region, RegionKind, Regions};
    use crate::{RunError, Table, TableEntry};
    use idlewave_units::Rank;
    use std::path::Path;

    const ROWS: u64 = 50_000;

    /// A table of regions as a study writes it.
    fn table(directory: &Path) -> TableEntry {
        let mut rows = Regions::default();
        for iteration in 0..ROWS {
            let begin_ns = 1_000_000_000 + 103_000 * iteration + iteration * iteration * 7 % 900;
            rows.push(Region {
                rank: Rank::new(1),
                phase: 2,
                iteration,
                kind: RegionKind::Compute,
                begin_ns,
                end_ns: begin_ns + 100_000 + iteration * 31 % 700,
                bytes: None,
            });
        }
        let mut writer = BatchWriter::create(directory, Regions::NAME, &Regions::schema()).unwrap();
        writer.write(&rows.to_batch()).unwrap();
        writer.finish().unwrap()
    }

    fn rows(mut reader: BatchReader) -> Result<usize, RunError> {
        let mut rows = 0;
        while let Some(batch) = reader.next()? {
            rows += batch.num_rows();
        }
        Ok(rows)
    }

    #[test]
    fn a_table_of_steps_takes_less_than_half_of_its_rows() {
        let directory = tempfile::tempdir().unwrap();
        let entry = table(directory.path());
        // 4 + 4 + 8 + 1 + 8 + 8 + 8 bytes.
        let plain = 41 * ROWS;
        assert!(2 * entry.bytes < plain, "{} of {plain}", entry.bytes);
    }

    /// Every length that a buffer, its frame or its blocks may declare is either true or refused
    /// before it is used.
    #[test]
    fn a_buffer_that_claims_to_become_much_is_refused_before_it_is_decompressed() {
        let directory = tempfile::tempdir().unwrap();
        let mut entry = table(directory.path());
        let path = directory.path().join(&entry.file);
        let whole = std::fs::read(&path).unwrap();
        let frame = whole.windows(4).position(|w| w == [4, 0x22, 0x4d, 0x18]);
        let frame = frame.expect("a compressed buffer");
        let claims = [
            // The decompressed length of the buffer.
            (frame - 8, (1_i64 << 45).to_le_bytes().to_vec()),
            (frame - 8, (1_i64 << 27).to_le_bytes().to_vec()),
            (frame - 8, i64::MAX.to_le_bytes().to_vec()),
            (frame - 8, (-2_i64).to_le_bytes().to_vec()),
            (frame - 8, 1_i64.to_le_bytes().to_vec()),
            // Another frame format, another block size, another length of the first block.
            (frame, 0x184c_2102_u32.to_le_bytes().to_vec()),
            (frame + 5, vec![0x70]),
            (frame + 7, u32::MAX.to_le_bytes().to_vec()),
        ];
        for (at, claim) in claims {
            let mut bytes = whole.clone();
            bytes[at..at + claim.len()].copy_from_slice(&claim);
            std::fs::write(&path, &bytes).unwrap();
            (entry.bytes, entry.crc32) = checksum(&path).unwrap();
            let read = BatchReader::open(path.clone(), &entry).and_then(rows);
            assert!(matches!(read, Err(RunError::Table { .. })), "{claim:?}");
            // A file whose writer was killed ends before it.
            assert_eq!(
                BatchReader::recover(path.clone()).and_then(rows).unwrap(),
                0
            );
        }
        std::fs::write(&path, &whole).unwrap();
        let recovered = BatchReader::recover(path).and_then(rows).unwrap();
        assert_eq!(recovered as u64, ROWS);
    }
}
