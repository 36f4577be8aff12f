//! The records of a perf ring (perf_event_open(2); include/uapi/linux/perf_event.h of the kernel).

/// What a ring says about its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Put on a CPU.
    In { time_ns: u64, cpu: u32 },
    /// Taken off it; preempted if it was still runnable.
    Out {
        time_ns: u64,
        cpu: u32,
        preempted: bool,
    },
    /// The thread ended.
    Exit { time_ns: u64, cpu: u32 },
    /// The ring was full: this many records before the next one are missing.
    Lost { records: u64 },
}

const HEADER: usize = 8;
/// What `sample_id_all` appends to every record: process, thread; time; CPU, reserved.
const TRAILER: usize = 24;

const LOST: u32 = 2;
const EXIT: u32 = 4;
const SWITCH: u32 = 14;
const SWITCH_OUT: u16 = 1 << 13;
const SWITCH_OUT_PREEMPT: u16 = 1 << 14;

/// Splits drained bytes into records. Other kinds are skipped; an invalid record ends the parsing,
/// and the remaining bytes count as one lost record.
pub(crate) fn parse(mut bytes: &[u8], mut each: impl FnMut(Event)) {
    while !bytes.is_empty() {
        let Some(record) = first(bytes) else {
            each(Event::Lost { records: 1 });
            return;
        };
        bytes = &bytes[record.len()..];
        if let Some(event) = event(record) {
            each(event);
        }
    }
}

/// The bytes of the first record.
fn first(bytes: &[u8]) -> Option<&[u8]> {
    let size = usize::from(u16::from_ne_bytes(bytes.get(6..8)?.try_into().ok()?));
    bytes.get(..size).filter(|record| record.len() >= HEADER)
}

fn event(record: &[u8]) -> Option<Event> {
    let kind = u32_at(record, 0)?;
    let flags = u16::from_ne_bytes(record.get(4..6)?.try_into().ok()?);
    if kind == LOST {
        return Some(Event::Lost {
            records: u64_at(record, HEADER + 8)?,
        });
    }
    let trailer = record
        .len()
        .checked_sub(TRAILER)
        .filter(|at| *at >= HEADER)?;
    let (time_ns, cpu) = (u64_at(record, trailer + 8)?, u32_at(record, trailer + 16)?);
    match kind {
        SWITCH if flags & SWITCH_OUT == 0 => Some(Event::In { time_ns, cpu }),
        SWITCH => Some(Event::Out {
            time_ns,
            cpu,
            preempted: flags & SWITCH_OUT_PREEMPT != 0,
        }),
        EXIT => Some(Event::Exit { time_ns, cpu }),
        _ => None,
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A record as the kernel writes it.
    fn record(kind: u32, flags: u16, body: &[u64], time_ns: u64, cpu: u32) -> Vec<u8> {
        let size = u16::try_from(HEADER + body.len() * 8 + TRAILER).unwrap();
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        bytes.extend(body.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend([7u32, 8].iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(time_ns.to_ne_bytes());
        bytes.extend([cpu, 0].iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    fn events(bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        parse(bytes, |event| events.push(event));
        events
    }

    #[test]
    fn switches_losses_and_the_end_of_a_thread_are_read() {
        let ring = [
            record(SWITCH, 0, &[], 100, 3),
            record(SWITCH, SWITCH_OUT, &[], 110, 3),
            record(SWITCH, SWITCH_OUT | SWITCH_OUT_PREEMPT, &[], 120, 1),
            record(LOST, 0, &[99, 12], 125, 1),
            record(7, 0, &[1, 2, 3], 126, 1),
            record(EXIT, 0, &[0, 0, 130], 130, 1),
        ];
        let expected = [
            Event::In {
                time_ns: 100,
                cpu: 3,
            },
            Event::Out {
                time_ns: 110,
                cpu: 3,
                preempted: false,
            },
            Event::Out {
                time_ns: 120,
                cpu: 1,
                preempted: true,
            },
            Event::Lost { records: 12 },
            Event::Exit {
                time_ns: 130,
                cpu: 1,
            },
        ];
        assert_eq!(events(&ring.concat()), expected);
    }

    #[test]
    fn a_broken_record_is_a_loss() {
        let mut bytes = record(SWITCH, 0, &[], 100, 3);
        bytes.truncate(20);
        assert_eq!(events(&bytes), [Event::Lost { records: 1 }]);
        assert_eq!(events(&[0; 8]), [Event::Lost { records: 1 }]);
    }

    proptest! {
        #[test]
        fn foreign_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), size in 0u16..64) {
            events(&bytes);
            let mut bytes = bytes;
            if bytes.len() >= 8 {
                bytes[..4].copy_from_slice(&SWITCH.to_ne_bytes());
                bytes[6..8].copy_from_slice(&size.to_ne_bytes());
            }
            events(&bytes);
        }
    }
}
