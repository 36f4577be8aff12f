//! CTF traces: written as lttng-modules 2.13 writes them, recorded ones, and what babeltrace2 finds
//! in them.

pub mod listed;
pub mod own;
pub mod writer;

use crate::common::unpacked;
use crate::story::{Happens, bits, import_file, story};
use idlewave_formats::import::{ImportError, Imported, Program};
use idlewave_run::RunReader;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use writer::Bits;

/// Files of recorded traces, by path.
///
/// `plain`, `lost` and `beside` are from LTTng 2.13, of a program whose events are named like the
/// kernel's: 64-bit, with headers for many events, the latter two with contexts, the last with a
/// second channel. `perf` has what perf 6.1 makes of files in perf_data.tar.zst. `lttng/record`
/// records them again.
pub fn recorded() -> BTreeMap<String, Vec<u8>> {
    unpacked(include_bytes!("recorded.tar.zst"))
}

/// Writes the recorded files below this path into a directory. With `hide_domain`, the metadata of
/// programs gets an unknown domain, so that it is imported.
pub fn unpack(name: &str, to: &Path, hide_domain: bool) {
    for (path, mut bytes) in recorded() {
        let Some(rest) = path.strip_prefix(name).and_then(|r| r.strip_prefix('/')) else {
            continue;
        };
        let domain = b"domain = \"ust\"";
        let place = bytes.windows(domain.len()).position(|w| w == domain);
        if let Some(place) = place.filter(|_| hide_domain) {
            bytes[place..place + 6].copy_from_slice(b"hidden");
        }
        let path = to.join(rest);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// A type of field: bits, whether it has a sign, and how many there are.
type Of = (u64, bool, u64);

const PID: Of = (32, true, 1);
const INT: Of = (32, true, 1);
const UNSIGNED: Of = (32, false, 1);
const LONG: Of = (64, true, 1);
const COMM: Of = (8, true, 16);

/// Names and fields of the events, as lttng-modules declares them.
const EVENTS: &[(&str, &[(&str, Of)])] = &[
    (
        "sched_switch",
        &[
            ("prev_comm", COMM),
            ("prev_tid", PID),
            ("prev_prio", INT),
            ("prev_state", LONG),
            ("next_comm", COMM),
            ("next_tid", PID),
            ("next_prio", INT),
        ],
    ),
    (
        "sched_waking",
        &[
            ("comm", COMM),
            ("tid", PID),
            ("prio", INT),
            ("target_cpu", INT),
        ],
    ),
    ("x86_irq_vectors_local_timer_entry", &[("vector", INT)]),
    ("x86_irq_vectors_local_timer_exit", &[("vector", INT)]),
    ("irq_softirq_entry", &[("vec", UNSIGNED)]),
    ("irq_softirq_exit", &[("vec", UNSIGNED)]),
    (
        "lttng_statedump_process_state",
        &[
            ("tid", PID),
            ("pid", PID),
            ("ppid", PID),
            ("name", COMM),
            ("type", INT),
            ("mode", INT),
            ("submode", INT),
            ("status", INT),
            ("cpu", UNSIGNED),
            ("file_table_address", (64, false, 1)),
        ],
    ),
    ("sched_stat_runtime", &[("comm", COMM), ("tid", PID)]),
    (
        "sched_process_fork",
        &[
            ("parent_comm", COMM),
            ("parent_tid", PID),
            ("parent_pid", PID),
            ("child_comm", COMM),
            ("child_tid", PID),
            ("child_pid", PID),
        ],
    ),
    ("syscall_entry_newfstat", &[("fd", UNSIGNED)]),
    (
        "syscall_exit_newfstat",
        &[("ret", LONG), ("statbuf", (64, false, 1))],
    ),
    (
        "syscall_entry_unknown",
        &[("id", INT), ("args", (64, false, 1))],
    ),
    ("compat_syscall_entry_read", &[("fd", UNSIGNED)]),
];

/// The value of a field.
#[derive(Clone)]
pub enum Value {
    Number(i64),
    Text(String),
}

/// An event: time, CPU, name, values in the order of the fields.
pub type Event = (u64, u32, &'static str, Vec<Value>);

/// The switch of a CPU from one thread, which is left in this state, to another.
pub fn switch(
    time: u64,
    cpu: u32,
    (prev, from): (u32, &str),
    state: i64,
    (next, to): (u32, &str),
) -> Event {
    let number = |n: u32| Value::Number(i64::from(n));
    let text = |text: &str| Value::Text(text.to_owned());
    let prio = || Value::Number(20);
    let state = Value::Number(state);
    let (from, to) = (text(from), text(to));
    let values = vec![from, number(prev), prio(), state, to, number(next), prio()];
    (time, cpu, "sched_switch", values)
}

/// The story as LTTng's events.
pub fn story_events() -> Vec<Event> {
    use Value::{Number, Text};
    let number = |n: u32| Number(i64::from(n));
    let text = |text: &str| Text(text.to_owned());
    let events = story().into_iter().map(|(time, cpu, event)| match event {
        Happens::Switch((prev, from), state, (next, to)) => {
            switch(time, cpu, (prev, from), bits(state) as i64, (next, to))
        }
        Happens::Wake(_, (pid, name), target) => {
            let values = vec![text(name), number(pid), Number(20), number(target)];
            (time, cpu, "sched_waking", values)
        }
        Happens::Number(name, _, n) => {
            let same = |known: &&(&str, &[_])| known.0.ends_with(name);
            let (name, _) = EVENTS.iter().find(same).unwrap();
            (time, cpu, *name, vec![number(n)])
        }
    });
    events.collect()
}

/// What LTTng notes about a thread when the recording begins.
pub fn noted(
    time: u64,
    cpu: u32,
    (tid, pid, ppid): (u32, u32, u32),
    name: &str,
    kernel: bool,
) -> Event {
    use Value::Number;
    let number = |n: u32| Number(i64::from(n));
    let mut values = vec![number(tid), number(pid), number(ppid)];
    values.push(Value::Text(name.to_owned()));
    values.push(Number(i64::from(kernel)));
    values.resize(10, Number(5));
    (time, cpu, "lttng_statedump_process_state", values)
}

/// Imports a trace that is written into a directory.
pub fn written(lttng: &Lttng) -> (TempDir, Result<(Imported, RunReader), ImportError>) {
    let dir = tempfile::tempdir().unwrap();
    let session = dir.path().join("session");
    lttng.write(&session);
    let imported = import_file(&session, &Program::Busiest);
    (dir, imported)
}

/// Writes kernel traces as lttng-modules 2.13 lays them out.
#[derive(Clone)]
pub struct Lttng {
    /// Headers for up to 31 events, or for more.
    pub compact: bool,
    /// From a big-endian machine.
    pub big: bool,
    /// Numbers are aligned to their size, as on machines that need it.
    pub aligned: bool,
    /// Metadata in packets.
    pub packets: bool,
    /// Process and thread of each event, as `lttng add-context --kernel --type=pid --type=tid` adds them.
    pub contexts: bool,
    /// Counts per second of the clock, and its name.
    pub clock: (u64, &'static str),
    /// Events per packet.
    pub events: usize,
    /// Minimum size of a packet, in bytes.
    pub bytes: u64,
    /// Events discarded up to the end of each packet, by CPU.
    pub discarded: Vec<Vec<u64>>,
    /// Packets that are left out, by CPU and number.
    pub missing: Vec<(u32, u64)>,
    pub more: Vec<Event>,
}

impl Default for Lttng {
    fn default() -> Self {
        Self {
            compact: true,
            big: false,
            aligned: false,
            packets: true,
            contexts: false,
            clock: (1_000_000_000, "monotonic"),
            events: 3,
            bytes: 0,
            discarded: Vec::new(),
            missing: Vec::new(),
            more: Vec::new(),
        }
    }
}

const UUID: &str = "d231e6a8-036b-4fc1-b735-4ae60aad3b90";

pub fn uuid() -> Vec<u8> {
    let digits = UUID.replace('-', "");
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..32).step_by(2).map(byte).collect()
}

impl Lttng {
    fn align(&self, size: u64) -> u64 {
        if self.aligned { size } else { 8 }
    }

    /// The files of the trace by name.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        files.insert("metadata".to_owned(), self.packed(&self.metadata()));
        let events = self.all();
        for cpu in [0, 1] {
            let of_cpu: Vec<&Event> = events.iter().filter(|event| event.1 == cpu).collect();
            files.insert(format!("channel0_{cpu}"), self.stream(cpu, &of_cpu));
        }
        files
    }

    fn all(&self) -> Vec<Event> {
        let mut events = [self.more.clone(), story_events()].concat();
        events.sort_by_key(|event| event.0);
        events
    }

    /// The thread that an event comes from.
    fn by(&self, (time, cpu, name, values): &Event) -> i64 {
        const PREV: usize = 1;
        const NEXT: usize = 5;
        let number = |values: &[Value], at: usize| match values[at] {
            Value::Number(number) => number,
            Value::Text(_) => unreachable!(),
        };
        if *name == "sched_switch" {
            return number(values, PREV);
        }
        let all = self.all();
        let before = all
            .iter()
            .rfind(|e| e.0 < *time && e.1 == *cpu && e.2 == "sched_switch");
        before.map_or(0, |switch| number(&switch.3, NEXT))
    }

    /// Writes the trace to where LTTng has the kernel's part of a session.
    pub fn write(&self, session: &Path) {
        let kernel = session.join("kernel");
        fs::create_dir_all(kernel.join("index")).unwrap();
        fs::write(kernel.join("index/channel0_0.idx"), b"\xc1\xf1\xdc\xc1").unwrap();
        for (name, bytes) in self.files() {
            fs::write(kernel.join(name), bytes).unwrap();
        }
    }

    /// The metadata as text; the types of numbers depend on the machine.
    pub fn metadata(&self) -> String {
        let align = |size| self.align(size);
        let (rate, clock) = self.clock;
        let mut text = include_str!("lttng/kernel.tsdl").to_owned();
        for (mark, value) in [
            ("@a16@", align(16).to_string()),
            ("@a32@", align(32).to_string()),
            ("@a64@", align(64).to_string()),
            ("@rate@", rate.to_string()),
            ("@clock@", clock.to_owned()),
            ("@order@", if self.big { "be" } else { "le" }.to_owned()),
            (
                "@header@",
                if self.compact { "compact" } else { "large" }.to_owned(),
            ),
            ("@contexts@", self.contexts()),
            ("@UUID@", UUID.to_owned()),
        ] {
            text = text.replace(mark, &value);
        }
        for (id, (name, fields)) in EVENTS.iter().enumerate() {
            text += &format!("event {{\n\tname = \"{name}\";\n\tid = {id};\n\tstream_id = 0;\n");
            text += "\tfields := struct {\n";
            for (name, (size, signed, count)) in *fields {
                let (signed, align) = (u8::from(*signed), align(*size));
                let text_of = if *count > 1 { "UTF8" } else { "none" };
                let row = if *count > 1 {
                    format!("[{count}]")
                } else {
                    String::new()
                };
                text += &format!(
                    "\t\tinteger {{ size = {size}; align = {align}; signed = {signed}; \
                     encoding = {text_of}; base = 10; }} _{name}{row};\n"
                );
            }
            text += "\t};\n};\n\n";
        }
        text
    }

    fn contexts(&self) -> String {
        let of = format!(
            "integer {{ size = 32; align = {}; signed = 1; }}",
            self.align(32)
        );
        match self.contexts {
            true => format!("\tevent.context := struct {{ {of} _pid; {of} _tid; }};\n"),
            false => String::new(),
        }
    }

    /// The text in packets of metadata, of at most 4096 bytes each.
    fn packed(&self, text: &str) -> Vec<u8> {
        if !self.packets {
            return text.as_bytes().to_vec();
        }
        let mut out = Vec::new();
        for part in text.as_bytes().chunks(4096 - 37) {
            let mut head = Bits {
                big: self.big,
                ..Bits::default()
            };
            head.number(0x75D1_1D57, 32, 8);
            for byte in uuid() {
                head.number(u64::from(byte), 8, 8);
            }
            let content = (part.len() as u64 + 37) * 8;
            for number in [0, content, 4096 * 8] {
                head.number(number, 32, 8);
            }
            for byte in [0, 0, 0, 1, 8] {
                head.number(byte, 8, 8);
            }
            let begin = out.len();
            out.extend(head.bytes);
            out.extend(part);
            out.resize(begin + 4096, 0);
        }
        out
    }

    /// The stream of a CPU.
    fn stream(&self, cpu: u32, events: &[&Event]) -> Vec<u8> {
        let mut out = Vec::new();
        for (number, events) in events.chunks(self.events).enumerate() {
            let number = number as u64;
            if !self.missing.contains(&(cpu, number)) {
                let discarded = self.discarded.get(cpu as usize);
                let discarded = discarded.and_then(|all| all.get(number as usize));
                out.extend(self.packet(cpu, number, *discarded.unwrap_or(&0), events));
            }
        }
        out
    }

    fn packet(&self, cpu: u32, number: u64, discarded: u64, events: &[&Event]) -> Vec<u8> {
        let (begin, end) = (events[0].0, events[events.len() - 1].0 + 10);
        // Twice: the first time to learn how long it is.
        let mut content = 0;
        loop {
            let mut out = Bits {
                big: self.big,
                ..Bits::default()
            };
            let size = (content / 8 + 100).max(self.bytes) / 64 * 64 * 8 + 64 * 8;
            out.number(0xC1FC_1FC1, 32, 8);
            for byte in uuid() {
                out.number(u64::from(byte), 8, 8);
            }
            out.number(0, 32, self.align(32));
            out.number(u64::from(cpu), 64, self.align(64));
            for number in [begin, end, content, size, number, discarded] {
                out.number(number, 64, self.align(64));
            }
            out.number(u64::from(cpu), 32, self.align(32));
            let mut last = begin;
            for event in events {
                self.event(&mut out, event, last);
                last = event.0;
            }
            if out.at == content {
                out.align(8);
                out.bytes.resize((size / 8) as usize, 0);
                return out.bytes;
            }
            content = out.at;
        }
    }

    fn event(&self, out: &mut Bits, event: &Event, last: u64) {
        let (time, _, name, values) = event;
        let id = EVENTS.iter().position(|(known, _)| known == name).unwrap();
        let fields = EVENTS[id].1;
        let (sizes, unit) = match self.compact {
            true => ([5, 27], 32),
            false => ([16, 32], 16),
        };
        out.align(self.align(unit));
        let at = |align: u64| {
            if align == 27 || align == 5 {
                1
            } else {
                self.align(align)
            }
        };
        if time - last < 1 << sizes[1] {
            out.number(id as u64, sizes[0], at(sizes[0]));
            out.number(*time & ((1 << sizes[1]) - 1), sizes[1], at(sizes[1]));
        } else {
            out.number((1 << sizes[0]) - 1, sizes[0], at(sizes[0]));
            out.number(id as u64, 32, self.align(32));
            out.number(*time, 64, self.align(64));
        }
        if self.contexts {
            let tid = self.by(event) as u64;
            // The second thread of the solver belongs to the first.
            let pid = if tid == 71 { 70 } else { tid };
            out.number(pid, 32, self.align(32));
            out.number(tid, 32, self.align(32));
        }
        let aligns = fields.iter().map(|(_, of)| self.align(of.0));
        out.align(aligns.max().unwrap());
        assert_eq!(values.len(), fields.len(), "{name}");
        for (value, (_, (size, _, count))) in values.iter().zip(fields) {
            match value {
                Value::Number(number) => out.number(*number as u64, *size, self.align(*size)),
                Value::Text(text) => out.text(text, *count as usize),
            }
        }
    }
}
