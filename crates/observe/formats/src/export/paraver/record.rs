//! Records of the trace, and their lines.
//!
//! A state is `1:CPU:APPL:TASK:THREAD:BEGIN:END:STATE`, an event
//! `2:CPU:APPL:TASK:THREAD:TIME{:TYPE:VALUE}`, a communication
//! `3:CPU:APPL:TASK:THREAD:SENT:SENT:CPU:APPL:TASK:THREAD:POSTED:RECEIVED:BYTES:TAG`; all numbers
//! of objects count from 1, and CPU 0 means unknown.

use crate::export::out::number;
use crate::export::paraver::survey::Survey;
use crate::export::sorter::Sorted;
use crate::export::{ExportError, Job};
use bytemuck::{Pod, Zeroable};
use idlewave_run::tables::Communicators;
use std::collections::BTreeMap;
use std::io::Write;

/// Order of records with equal times: states come before events, as in the traces of Extrae.
pub(super) const STATE: u32 = 0;
pub(super) const EVENT: u32 = 1;
pub(super) const MESSAGE: u32 = 2;

/// A record, small enough to sort many. Objects are indices into [`Objects`].
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(in crate::export) struct Record {
    /// Nanoseconds of CLOCK_MONOTONIC of node 0; the trace is sorted by this.
    pub time: u64,
    /// State: its end. Event: type and value. Message: when the receive was posted and completed.
    pub a: u64,
    pub b: u64,
    /// Event: a second type and value; type 0 for none. Message: bytes and tag.
    pub c: u64,
    pub d: u64,
    pub object: u32,
    /// 0 for unknown.
    pub cpu: u32,
    /// The receiver of a message.
    pub other: u32,
    pub kind: u32,
}

impl Sorted for Record {
    type Key = (u64, u32);

    fn key(&self) -> (u64, u32) {
        (self.time, self.kind)
    }

    fn time(&self) -> u64 {
        self.time
    }
}

impl Record {
    pub(super) fn state(begin: u64, end: u64, object: u32, state: u64) -> Self {
        Self {
            a: end,
            b: state,
            ..Self::new(STATE, begin, object)
        }
    }

    pub(super) fn event(time: u64, object: u32, kind: u32, value: u64) -> Self {
        Self {
            a: kind.into(),
            b: value,
            ..Self::new(EVENT, time, object)
        }
    }

    pub(in crate::export) fn new(kind: u32, time: u64, object: u32) -> Self {
        Self {
            time,
            kind,
            object,
            ..Self::zeroed()
        }
    }

    /// The same event with a second type and value.
    pub(super) fn and(self, kind: u32, value: u64) -> Self {
        Self {
            c: kind.into(),
            d: value,
            ..self
        }
    }

    /// The same on this CPU.
    pub(super) fn on(self, cpu: u32) -> Self {
        Self { cpu, ..self }
    }

    /// Appends the record as a line. Times count from `origin`; `places` are those of
    /// [`Objects::places`](super::objects::Objects::places).
    pub(super) fn line(&self, text: &mut Vec<u8>, places: &[Vec<u8>], origin: u64) {
        let place = |object: u32| places[object as usize].as_slice();
        field(text, self.kind + 1);
        field(text, self.cpu);
        text.extend_from_slice(place(self.object));
        field(text, self.time - origin);
        match self.kind {
            MESSAGE => {
                field(text, self.time - origin);
                field(text, 0_u32);
                text.extend_from_slice(place(self.other));
                field(text, self.a - origin);
                field(text, self.b - origin);
                field(text, self.c);
                // The tag of a message is a signed number.
                number(text, self.d as i64);
            }
            STATE => {
                field(text, self.a - origin);
                number(text, self.b);
            }
            _ => {
                field(text, self.a);
                if self.c != 0 {
                    field(text, self.b);
                    field(text, self.c);
                    number(text, self.d);
                } else {
                    number(text, self.b);
                }
            }
        }
        text.push(b'\n');
    }
}

fn field(text: &mut Vec<u8>, value: impl itoa::Integer) {
    number(text, value);
    text.push(b':');
}

/// The first line, and those of the communicators.
pub(super) fn header(
    text: &mut Vec<u8>,
    job: &Job<'_>,
    survey: &Survey,
    length: u64,
) -> Result<(), ExportError> {
    let mut members: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
    job.run.for_each::<Communicators>(|row| {
        if let Some(object) = survey.objects.rank(row.rank) {
            let task = survey.objects.thread(object).task;
            members
                .entry(row.comm)
                .or_default()
                .push((row.member, task));
        }
    })?;
    let date = date(&job.run.manifest().started);
    let _ = write!(text, "#Paraver ({date}):{length}_ns:");
    survey.objects.header(text);
    if members.is_empty() {
        text.push(b'\n');
        return Ok(());
    }
    let _ = writeln!(text, ",{}", members.len());
    for (comm, mut members) in members {
        members.sort_unstable();
        let _ = write!(text, "c:1:{}:{}", u64::from(comm) + 1, members.len());
        for (_, task) in members {
            let _ = write!(text, ":{task}");
        }
        text.push(b'\n');
    }
    Ok(())
}

/// `2026-01-31T12:00:00Z` as `31/01/2026 at 12:00`.
fn date(started: &str) -> String {
    let part = |range: std::ops::Range<usize>| {
        let digits = started.get(range).unwrap_or_default();
        let good = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        good.then_some(digits)
    };
    let parts = (
        part(8..10),
        part(5..7),
        part(0..4),
        part(11..13),
        part(14..16),
    );
    match parts {
        (Some(day), Some(month), Some(year), Some(hour), Some(minute)) => {
            format!("{day}/{month}/{year} at {hour}:{minute}")
        }
        _ => "01/01/1970 at 00:00".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn a_date_without_digits_does_not_break_the_header() {
        assert_eq!(date("2026-01-31T12:34:56Z"), "31/01/2026 at 12:34");
        assert_eq!(date("):1:1"), "01/01/1970 at 00:00");
    }
}
