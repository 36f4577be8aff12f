//! Records of the trace, and their lines.
//!
//! A state is `1:CPU:APPL:TASK:THREAD:BEGIN:END:STATE`, an event
//! `2:CPU:APPL:TASK:THREAD:TIME{:TYPE:VALUE}`, a communication
//! `3:CPU:APPL:TASK:THREAD:SENT:SENT:CPU:APPL:TASK:THREAD:POSTED:RECEIVED:BYTES:TAG`; all numbers
//! of objects count from 1, and CPU 0 is an unknown one.

use crate::export::out::number;
use crate::export::paraver::objects::Objects;
use crate::export::paraver::survey::Survey;
use crate::export::sorter::Sorted;
use crate::export::{ExportError, Job};
use bytemuck::{Pod, Zeroable};
use idlewave_run::tables::Communicators;
use std::collections::BTreeMap;
use std::io::Write;

/// Order of records of one time: states come before events, as in the traces of Extrae.
pub(super) const STATE: u32 = 0;
pub(super) const EVENT: u32 = 1;
pub(super) const MESSAGE: u32 = 2;

/// A record, small enough to sort many. Objects are indices into [`Objects`].
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(in crate::export) struct Record {
    /// Nanoseconds of CLOCK_MONOTONIC of node 0: by this the trace is sorted.
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

    /// Appends the record as a line. Times count from `origin`.
    pub(super) fn line(&self, text: &mut Vec<u8>, objects: &Objects, origin: u64) {
        let mut field = |value: u64, last: bool| {
            number(text, value);
            text.push(if last { b'\n' } else { b':' });
        };
        let object = objects.thread(self.object);
        for value in [
            self.kind + 1,
            self.cpu,
            object.appl,
            object.task,
            object.thread,
        ] {
            field(value.into(), false);
        }
        field(self.time - origin, false);
        match self.kind {
            MESSAGE => {
                let other = objects.thread(self.other);
                field(self.time - origin, false);
                for value in [0, other.appl, other.task, other.thread] {
                    field(value.into(), false);
                }
                for value in [self.a - origin, self.b - origin, self.c] {
                    field(value, false);
                }
                // The tag of a message is a signed number.
                let tag = self.d as i64;
                if tag < 0 {
                    text.push(b'-');
                }
                number(text, tag.unsigned_abs());
                text.push(b'\n');
            }
            EVENT if self.c != 0 => {
                for value in [self.a, self.b, self.c] {
                    field(value, false);
                }
                field(self.d, true);
            }
            STATE => {
                field(self.a - origin, false);
                field(self.b, true);
            }
            _ => {
                field(self.a, false);
                field(self.b, true);
            }
        }
    }
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
