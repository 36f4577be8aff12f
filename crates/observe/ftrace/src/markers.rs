//! Lines that programs wrote to `trace_marker`: `print` events of the recorder's own instance, into
//! which kernels since Linux 6.15 copy what is written to the top-level file.

use crate::format::EventFormat;
use crate::page::{read_u16, read_u32};
use idlewave_units::Pid;

/// The event, as (system, event). It is always on and has no switch.
pub const MARKER_EVENT: (&str, &str) = ("ftrace", "print");

/// The most lines kept from one capture.
const MOST_LINES: usize = 1 << 16;
/// The most bytes kept of one line.
const LONGEST: usize = 256;

/// A line that a thread wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkerLine {
    /// When, CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The thread, if recorded.
    pub thread: Option<Pid>,
    /// Its text, cut after 256 bytes, without the line end.
    pub text: String,
}

/// Where the parts of an event are.
#[derive(Clone, Copy, Debug)]
struct Layout {
    id: u16,
    pid: Option<usize>,
    text: usize,
}

/// Collects lines.
#[derive(Debug, Default)]
pub(crate) struct Markers {
    layout: Option<Layout>,
    pub(crate) lines: Vec<MarkerLine>,
    /// Lines dropped because there were too many.
    pub(crate) dropped: u64,
}

impl Markers {
    /// From the recorded kernel's format; without one, it finds no lines.
    pub(crate) fn new(format: Option<&EventFormat>) -> Self {
        let layout = format.and_then(|format| {
            let kind = format.field("common_type")?;
            let pid = format.field("common_pid").filter(|field| field.size == 4);
            (kind.offset == 0 && kind.size == 2).then_some(Layout {
                id: format.id,
                pid: pid.map(|field| field.offset as usize),
                text: format.field("buf")?.offset as usize,
            })
        });
        Self {
            layout,
            ..Self::default()
        }
    }

    /// Takes the payload of an event; `false` if it is not a line.
    pub(crate) fn take<const LE: bool>(&mut self, time_ns: u64, payload: &[u8]) -> bool {
        let Some(layout) = self.layout else {
            return false;
        };
        if read_u16::<LE>(payload, 0) != Some(layout.id) {
            return false;
        }
        if self.lines.len() == MOST_LINES {
            self.dropped += 1;
            return true;
        }
        let thread = layout.pid.and_then(|at| read_u32::<LE>(payload, at));
        let text = payload.get(layout.text..).unwrap_or(&[]);
        let text = text.split(|byte| *byte == 0).next().unwrap_or(&[]);
        let text = &text[..text.len().min(LONGEST)];
        self.lines.push(MarkerLine {
            time_ns,
            thread: thread.map(Pid::new),
            text: String::from_utf8_lossy(text).trim_end().to_owned(),
        });
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::path::Path;

    const FORMAT: &str = "name: print\nID: 5\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n\n\
        print fmt: \"%ps: %s\", (void *)REC->ip, REC->buf\n";

    fn payload(id: u16, text: &[u8]) -> Vec<u8> {
        let mut bytes = id.to_le_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(42_u32.to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend(text);
        bytes
    }

    fn markers() -> Markers {
        let format = EventFormat::parse(Path::new("print"), FORMAT).unwrap();
        Markers::new(Some(&format))
    }

    #[test]
    fn a_line_is_read_with_its_thread_and_without_what_follows_it() {
        let mut markers = markers();
        assert!(markers.take::<true>(7, &payload(5, b"step 3\n\0\xEE\xEE")));
        let line = MarkerLine {
            time_ns: 7,
            thread: Some(Pid::new(42)),
            text: "step 3".to_owned(),
        };
        assert_eq!(markers.lines, [line]);
    }

    #[test]
    fn other_events_and_captures_without_the_format_have_no_lines() {
        let mut with = markers();
        assert!(!with.take::<true>(7, &payload(6, b"step 3\n\0")));
        assert!(!with.take::<true>(7, &[5]));
        let mut without = Markers::new(None);
        assert!(!without.take::<true>(7, &payload(5, b"step 3\n\0")));
        assert!(with.lines.is_empty() && without.lines.is_empty());
    }

    #[test]
    fn events_cut_anywhere_are_lines_with_less() {
        let whole = payload(5, &[b'x'; 400]);
        for length in 2..whole.len() {
            let mut markers = markers();
            assert!(markers.take::<true>(7, &whole[..length]));
            assert!(markers.lines[0].text.len() <= LONGEST);
        }
    }

    #[test]
    fn lines_beyond_the_most_are_counted() {
        let mut markers = markers();
        for time in 0..MOST_LINES as u64 + 3 {
            markers.take::<true>(time, &payload(5, b"x\0"));
        }
        assert_eq!((markers.lines.len(), markers.dropped), (MOST_LINES, 3));
    }
}
