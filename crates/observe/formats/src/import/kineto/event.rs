//! The parts of an event that matter.

use crate::import::kineto::value::{Any, Fields, Ranks};
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess};

/// An event of the list `traceEvents`.
#[derive(Clone, Debug, Default)]
pub(super) struct Event {
    /// The field `ph`: `X` is an event with a length.
    pub phase: String,
    /// The field `cat`.
    pub category: String,
    pub name: String,
    /// The process, or the number of a GPU. Some are words, which belong to no process.
    pub pid: Option<f64>,
    /// The thread, or the stream of a GPU.
    pub tid: Option<f64>,
    /// Start, in microseconds.
    pub ts: Option<f64>,
    /// Length, in microseconds.
    pub dur: Option<f64>,
    pub args: Args,
}

/// The arguments of an event that matter.
#[derive(Clone, Debug, Default)]
pub(super) struct Args {
    /// Of a metadata event: the name of a thread or process.
    pub name: String,
    pub collective: String,
    pub dtype: String,
    pub group: String,
    /// Members of the process group.
    pub members: Ranks,
    pub elements_in: Option<f64>,
    pub elements_out: Option<f64>,
    /// The arguments of an operator, in order; `None` for those that are no numbers.
    pub inputs: Vec<Option<f64>>,
}

#[derive(Deserialize)]
#[serde(field_identifier)]
pub(super) enum EventField {
    #[serde(rename = "ph")]
    Phase,
    #[serde(rename = "cat")]
    Category,
    #[serde(rename = "name")]
    Name,
    #[serde(rename = "pid")]
    Pid,
    #[serde(rename = "tid")]
    Tid,
    #[serde(rename = "ts")]
    Ts,
    #[serde(rename = "dur")]
    Dur,
    #[serde(rename = "args")]
    Args,
    #[serde(other)]
    Other,
}

impl<'de> Fields<'de> for Event {
    type Field = EventField;
    fn take<M: MapAccess<'de>>(&mut self, field: EventField, map: &mut M) -> Result<(), M::Error> {
        match field {
            EventField::Phase => map.next_value_seed(Any(&mut self.phase)),
            EventField::Category => map.next_value_seed(Any(&mut self.category)),
            EventField::Name => map.next_value_seed(Any(&mut self.name)),
            EventField::Pid => map.next_value_seed(Any(&mut self.pid)),
            EventField::Tid => map.next_value_seed(Any(&mut self.tid)),
            EventField::Ts => map.next_value_seed(Any(&mut self.ts)),
            EventField::Dur => map.next_value_seed(Any(&mut self.dur)),
            EventField::Args => map.next_value_seed(Any(&mut self.args)),
            EventField::Other => map.next_value::<IgnoredAny>().map(|_| ()),
        }
    }
}

#[derive(Deserialize)]
#[serde(field_identifier)]
pub(super) enum ArgField {
    #[serde(rename = "name")]
    Name,
    #[serde(rename = "Collective name")]
    Collective,
    #[serde(rename = "dtype")]
    Dtype,
    #[serde(rename = "Process Group Name")]
    Group,
    #[serde(rename = "Process Group Ranks")]
    Members,
    #[serde(rename = "In msg nelems")]
    ElementsIn,
    #[serde(rename = "Out msg nelems")]
    ElementsOut,
    #[serde(rename = "Concrete Inputs")]
    Inputs,
    #[serde(other)]
    Other,
}

impl<'de> Fields<'de> for Args {
    type Field = ArgField;
    fn take<M: MapAccess<'de>>(&mut self, field: ArgField, map: &mut M) -> Result<(), M::Error> {
        match field {
            ArgField::Name => map.next_value_seed(Any(&mut self.name)),
            ArgField::Collective => map.next_value_seed(Any(&mut self.collective)),
            ArgField::Dtype => map.next_value_seed(Any(&mut self.dtype)),
            ArgField::Group => map.next_value_seed(Any(&mut self.group)),
            ArgField::Members => map.next_value_seed(Any(&mut self.members)),
            ArgField::ElementsIn => map.next_value_seed(Any(&mut self.elements_in)),
            ArgField::ElementsOut => map.next_value_seed(Any(&mut self.elements_out)),
            ArgField::Inputs => map.next_value_seed(Any(&mut self.inputs)),
            ArgField::Other => map.next_value::<IgnoredAny>().map(|_| ()),
        }
    }
}

impl Event {
    /// Clears it for the next event.
    pub(super) fn clear(&mut self) {
        let Self {
            phase,
            category,
            name,
            pid,
            tid,
            ts,
            dur,
            args,
        } = self;
        for text in [phase, category, name] {
            text.clear();
        }
        for number in [pid, tid, ts, dur] {
            *number = None;
        }
        let Args {
            name,
            collective,
            dtype,
            group,
            members,
            elements_in,
            elements_out,
            inputs,
        } = args;
        for text in [name, collective, dtype, group] {
            text.clear();
        }
        members.clear();
        inputs.clear();
        (*elements_in, *elements_out) = (None, None);
    }

    /// Start and end in nanoseconds, from the base of the file; `None` if they are missing or no
    /// times.
    ///
    /// Kineto writes microseconds with three decimals. The nearest double of such a number is
    /// within half a nanosecond up to 2^52 ns, 52 days from the base.
    pub(super) fn times(&self) -> Option<(u64, u64)> {
        let begin = nanoseconds(self.ts?)?;
        Some((
            begin,
            begin.checked_add(nanoseconds(self.dur.unwrap_or(0.0))?)?,
        ))
    }
}

/// Microseconds as whole nanoseconds.
fn nanoseconds(us: f64) -> Option<u64> {
    let ns = (us * 1e3).round();
    // Half of the range, so that no sum of two overflows.
    (0.0..(u64::MAX / 2) as f64)
        .contains(&ns)
        .then_some(ns as u64)
}

/// A number as an integer, if it is one.
pub(super) fn whole(number: Option<f64>) -> Option<u32> {
    let number = number.filter(|n| n.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(n));
    number.map(|n| n as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_decimals_of_a_microsecond_are_exact() {
        for ns in (0..200_000).chain(4_777_603_499_190_525..4_777_603_499_190_900) {
            let text = format!("{}.{:03}", ns / 1_000, ns % 1_000);
            assert_eq!(nanoseconds(text.parse().unwrap()), Some(ns));
        }
        assert_eq!(nanoseconds(-0.001), None);
        assert_eq!(nanoseconds(f64::INFINITY), None);
        assert_eq!(nanoseconds(f64::NAN), None);
        assert_eq!(nanoseconds(1e16), None);
    }
}
