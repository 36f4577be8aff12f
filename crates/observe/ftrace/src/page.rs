//! Decoder of sub-buffers: the pages of the kernel's trace ring buffer.
//!
//! A sub-buffer is a header ([`HeaderPage`]) followed by records. A record begins with a 32-bit
//! word: 5 bits type or length, 27 bits time since the previous record.
//!
//! | type | meaning |
//! |---|---|
//! | 0 | data; the next word is the length in bytes, itself included |
//! | 1 to 28 | data of that many words |
//! | 29 | padding: to the end if the time is 0, else the next word says how many bytes to skip |
//! | 30 | time extend: the next word holds 2^27 ns units to add |
//! | 31 | absolute time stamp, 59 bits in both words |
//!
//! Source: `include/linux/ring_buffer.h` and `kernel/trace/ring_buffer.c`.

use crate::format::HeaderPage;

/// Bits of the header's count: bytes used.
const COMMIT_MASK: u64 = (1 << 27) - 1;
/// Flag of the header's count: events were lost before this sub-buffer.
const MISSED: u64 = 1 << 31;
/// Flag of the header's count: the number of lost events follows the records.
const MISSED_STORED: u64 = 1 << 30;
/// An absolute time stamp has 59 bits; the higher ones are those of the time before it.
const STAMP_BITS: u32 = 59;

/// What the ring buffer says about events lost just before a sub-buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// None.
    No,
    /// This many.
    Count(u64),
    /// Some: there was no room for the count.
    Some,
}

/// Damage in a sub-buffer. Offsets are bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// Shorter than its own header.
    #[error("sub-buffer of {have} bytes is shorter than its header of {need}")]
    NoHeader {
        /// Bytes present.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// The header counts more bytes than a sub-buffer has room for.
    #[error("sub-buffer claims {says} used bytes, but holds at most {room}")]
    TooLong {
        /// Bytes by the header's count.
        says: usize,
        /// Bytes available.
        room: usize,
    },
    /// A record reaches beyond the bytes in use.
    #[error("record at offset {offset} reaches beyond the end of its sub-buffer")]
    Overrun {
        /// Where the record begins.
        offset: usize,
    },
    /// A record's length is less than the word that holds it.
    #[error("record at offset {offset} has the invalid length {length}")]
    Length {
        /// Where the record begins.
        offset: usize,
        /// The length it claims.
        length: u32,
    },
}

/// One data record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Time in nanoseconds of the trace clock.
    pub time_ns: u64,
    /// Offset of the record in its sub-buffer.
    pub offset: usize,
    /// The event, from `common_type` on; a multiple of 4 bytes.
    pub payload: &'a [u8],
}

/// A sub-buffer whose header has been read.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// Time to which the first record's delta is added.
    pub time_ns: u64,
    /// What was lost just before it.
    pub missed: Missed,
    /// Whether bytes in use are missing at the end: the recorder was killed while it wrote.
    pub cut: bool,
    begin: usize,
    data: &'a [u8],
}

impl<'a> Page<'a> {
    /// Reads the header. `bytes` shorter than `page_size` are a sub-buffer that was cut short.
    pub fn parse<const LE: bool>(
        bytes: &'a [u8],
        page_size: usize,
        header: &HeaderPage,
    ) -> Result<Self, PageError> {
        let begin = header.data as usize;
        let short = PageError::NoHeader {
            have: bytes.len(),
            need: begin,
        };
        let time_ns = read_u64::<LE>(bytes, header.timestamp as usize).ok_or(short)?;
        let commit =
            read_long::<LE>(bytes, header.commit as usize, header.commit_size).ok_or(short)?;
        let room = bytes.get(begin..).ok_or(short)?;
        let says = (commit & COMMIT_MASK) as usize;
        if says > page_size.max(bytes.len()) - begin {
            return Err(PageError::TooLong {
                says,
                room: page_size.max(bytes.len()) - begin,
            });
        }
        let missed = if commit & MISSED == 0 {
            Missed::No
        } else if commit & MISSED_STORED == 0 {
            Missed::Some
        } else {
            read_long::<LE>(room, says, header.commit_size).map_or(Missed::Some, Missed::Count)
        };
        Ok(Self {
            time_ns,
            missed,
            cut: says > room.len(),
            begin,
            data: &room[..says.min(room.len())],
        })
    }

    /// The data records in order. After an error there are no more.
    pub fn records<const LE: bool>(&self) -> Records<'a, LE> {
        Records {
            data: self.data,
            at: 0,
            begin: self.begin,
            time_ns: self.time_ns,
        }
    }
}

/// Iterator over the data records of a sub-buffer.
#[derive(Clone, Debug)]
pub struct Records<'a, const LE: bool> {
    data: &'a [u8],
    at: usize,
    begin: usize,
    time_ns: u64,
}

impl<'a, const LE: bool> Records<'a, LE> {
    #[cold]
    fn fail(&mut self, error: PageError) -> Option<Result<Record<'a>, PageError>> {
        self.at = self.data.len();
        Some(Err(error))
    }
}

impl<'a, const LE: bool> Iterator for Records<'a, LE> {
    type Item = Result<Record<'a>, PageError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = self.at;
            if at >= self.data.len() {
                return None;
            }
            let offset = self.begin + at;
            let overrun = PageError::Overrun { offset };
            let Some(head) = read_u32::<LE>(self.data, at) else {
                return self.fail(overrun);
            };
            // The two are bit fields of one word. Compilers lay them out from the low end on
            // little-endian machines, from the high end on others.
            let (kind, delta) = if LE {
                (head & 31, u64::from(head >> 5))
            } else {
                (head >> 27, u64::from(head & 0x07ff_ffff))
            };
            if (1..=28).contains(&kind) {
                let end = at + 4 + kind as usize * 4;
                let Some(payload) = self.data.get(at + 4..end) else {
                    return self.fail(overrun);
                };
                self.at = end;
                self.time_ns = self.time_ns.wrapping_add(delta);
                return Some(Ok(Record {
                    time_ns: self.time_ns,
                    offset,
                    payload,
                }));
            }
            if kind == 29 && delta == 0 {
                self.at = self.data.len();
                return None;
            }
            let Some(word) = read_u32::<LE>(self.data, at + 4) else {
                return self.fail(overrun);
            };
            match kind {
                30 => {
                    let wide = (u64::from(word) << 27) + delta;
                    self.time_ns = self.time_ns.wrapping_add(wide);
                    self.at = at + 8;
                }
                31 => {
                    self.time_ns = absolute(self.time_ns, (u64::from(word) << 27) + delta);
                    self.at = at + 8;
                }
                _ => {
                    if word < 4 {
                        return self.fail(PageError::Length {
                            offset,
                            length: word,
                        });
                    }
                    self.time_ns = self.time_ns.wrapping_add(delta);
                    // `word` bytes follow the first word, the length itself included.
                    let Some(end) = aligned(word).and_then(|n| n.checked_add(at + 4)) else {
                        return self.fail(overrun);
                    };
                    let Some(payload) = self.data.get(at + 8..end) else {
                        return self.fail(overrun);
                    };
                    self.at = end;
                    if kind == 0 {
                        return Some(Ok(Record {
                            time_ns: self.time_ns,
                            offset,
                            payload,
                        }));
                    }
                }
            }
        }
    }
}

/// Records begin at multiples of 4 bytes.
fn aligned(length: u32) -> Option<usize> {
    (length as usize).checked_next_multiple_of(4)
}

/// An absolute stamp completed by the high bits of the time before it (`rb_fix_abs_ts`).
fn absolute(before: u64, stamp: u64) -> u64 {
    let low = (1 << STAMP_BITS) - 1;
    let time = (before & !low) | (stamp & low);
    if time < before {
        time.wrapping_add(1 << STAMP_BITS)
    } else {
        time
    }
}

/// The 16-bit number at an offset, little-endian if `LE`, else big-endian; `None` beyond the end.
#[inline]
pub fn read_u16<const LE: bool>(bytes: &[u8], at: usize) -> Option<u16> {
    let word = bytes.get(at..)?.first_chunk::<2>()?;
    Some(if LE {
        u16::from_le_bytes(*word)
    } else {
        u16::from_be_bytes(*word)
    })
}

/// The 32-bit number at an offset, little-endian if `LE`, else big-endian; `None` beyond the end.
#[inline]
pub fn read_u32<const LE: bool>(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk::<4>()?;
    Some(if LE {
        u32::from_le_bytes(*word)
    } else {
        u32::from_be_bytes(*word)
    })
}

/// The 64-bit number at an offset, little-endian if `LE`, else big-endian; `None` beyond the end.
#[inline]
pub fn read_u64<const LE: bool>(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..)?.first_chunk::<8>()?;
    Some(if LE {
        u64::from_le_bytes(*word)
    } else {
        u64::from_be_bytes(*word)
    })
}

fn read_long<const LE: bool>(bytes: &[u8], at: usize, size: u32) -> Option<u64> {
    match size {
        4 => read_u32::<LE>(bytes, at).map(u64::from),
        _ => read_u64::<LE>(bytes, at),
    }
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
