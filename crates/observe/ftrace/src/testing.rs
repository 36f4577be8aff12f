//! Writer of synthetic sub-buffers, format files and captures, for tests and benchmarks.

use crate::event::Decoder;
use crate::format::{EventFormat, HeaderPage};
use crate::ledger::Account;
use crate::stream::PageDecoder;
use crate::timeline::{Sink, Timeline};
use crate::{CpuStats, EVENTS, RawCapture, RawTask, SYSCALLS, understood};
use idlewave_run::tables::{Bursts, Interrupts, Migrations, Wakeups};
use idlewave_units::{Cpu, NodeId, Pid};
use std::fs;
use std::path::Path;

/// Text of `header_page` on a 64-bit kernel with sub-buffers of `page_size` bytes.
pub fn header_page_text(page_size: u32) -> String {
    let data = page_size - HeaderPage::LONG64.data;
    format!(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
         \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
         \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
         \tfield: char data;\toffset:16;\tsize:{data};\tsigned:0;\n"
    )
}

/// Number of an event in synthetic captures: its place among all that are read, counted from 100.
pub fn event_id(event: &str) -> u16 {
    let place = understood().position(|(_, e)| e == event);
    100 + place.expect("tests name events of the list") as u16
}

/// Text of the `format` file of an event, as Linux 6.18 has it on x86-64.
pub fn format_text(event: &str) -> String {
    let fields: &[(&str, u32, u32, u32)] = match event {
        "sched_switch" => &[
            ("char prev_comm[16]", 8, 16, 0),
            ("pid_t prev_pid", 24, 4, 1),
            ("int prev_prio", 28, 4, 1),
            ("long prev_state", 32, 8, 1),
            ("char next_comm[16]", 40, 16, 0),
            ("pid_t next_pid", 56, 4, 1),
            ("int next_prio", 60, 4, 1),
        ],
        "sched_waking" | "sched_wakeup_new" | "sched_wakeup" => &[
            ("char comm[16]", 8, 16, 0),
            ("pid_t pid", 24, 4, 1),
            ("int prio", 28, 4, 1),
            ("int target_cpu", 32, 4, 1),
        ],
        "sched_migrate_task" => &[
            ("__data_loc char[] comm", 8, 4, 0),
            ("pid_t pid", 12, 4, 1),
            ("int prio", 16, 4, 1),
            ("int orig_cpu", 20, 4, 1),
            ("int dest_cpu", 24, 4, 1),
        ],
        "sched_process_fork" => &[
            ("__data_loc char[] parent_comm", 8, 4, 0),
            ("pid_t parent_pid", 12, 4, 1),
            ("__data_loc char[] child_comm", 16, 4, 0),
            ("pid_t child_pid", 20, 4, 1),
        ],
        "irq_handler_entry" => &[("int irq", 8, 4, 1), ("__data_loc char[] name", 12, 4, 0)],
        "irq_handler_exit" => &[("int irq", 8, 4, 1), ("int ret", 12, 4, 1)],
        "softirq_entry" | "softirq_exit" => &[("unsigned int vec", 8, 4, 0)],
        "nmi_handler" => &[
            ("void * handler", 8, 8, 0),
            ("s64 delta_ns", 16, 8, 1),
            ("int handled", 24, 4, 1),
        ],
        "page_fault_user" | "page_fault_kernel" => &[
            ("unsigned long address", 8, 8, 0),
            ("unsigned long ip", 16, 8, 0),
            ("unsigned long error_code", 24, 8, 0),
        ],
        "sys_enter" => &[("long id", 8, 8, 1), ("unsigned long args[6]", 16, 48, 0)],
        "sys_exit" => &[("long id", 8, 8, 1), ("long ret", 16, 8, 1)],
        "ipi_entry" | "ipi_exit" => &[("const char * reason", 8, 8, 0)],
        _ => &[("int vector", 8, 4, 1)],
    };
    let mut text = format!(
        "name: {event}\nID: {}\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
         \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n",
        event_id(event)
    );
    for (declaration, offset, size, signed) in fields {
        text +=
            &format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n");
    }
    text + "\nprint fmt: \"\"\n"
}

/// The formats of all events.
pub fn formats() -> Vec<EventFormat> {
    let parse = |(_, event): (&str, &str)| {
        EventFormat::parse(Path::new(event), &format_text(event)).expect("the text is a format")
    };
    understood().map(parse).collect()
}

/// A record's payload under construction.
#[derive(Clone, Debug)]
pub struct Payload(Vec<u8>);

impl Payload {
    /// Begins the payload of an event recorded while `pid` ran.
    pub fn new(event: &str, pid: u32) -> Self {
        let mut bytes = event_id(event).to_le_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(pid.to_le_bytes());
        Self(bytes)
    }
    /// Appends a 32-bit field.
    pub fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }
    /// Appends a 64-bit field.
    pub fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }
    /// Appends a name of 16 bytes.
    pub fn comm(mut self, name: &str) -> Self {
        let mut bytes = [0; 16];
        let length = name.len().min(15);
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        self.0.extend(bytes);
        self
    }
    /// Appends a text after the fields and writes its location into the field at `field`.
    pub fn text_at(mut self, field: usize, text: &str) -> Self {
        let loc = ((text.len() as u32 + 1) << 16) | self.0.len() as u32;
        self.0[field..field + 4].copy_from_slice(&loc.to_le_bytes());
        self.0.extend(text.as_bytes());
        self.0.push(0);
        self
    }
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// `sched_switch`; `state` as the kernel writes it, 0 for runnable.
    pub fn switch(prev: (u32, &str), state: u64, next: (u32, &str)) -> Self {
        Self::new("sched_switch", prev.0)
            .comm(prev.1)
            .u32(prev.0)
            .u32(120)
            .u64(state)
            .comm(next.1)
            .u32(next.0)
            .u32(120)
    }
    /// `sched_waking` by `waker`.
    pub fn waking(waker: u32, pid: u32, name: &str, cpu: u32) -> Self {
        Self::new("sched_waking", waker)
            .comm(name)
            .u32(pid)
            .u32(120)
            .u32(cpu)
    }
    /// `sched_wakeup`, on the CPU of `by`.
    pub fn wakeup(by: u32, pid: u32, name: &str, cpu: u32) -> Self {
        let fields = Self::new("sched_wakeup", by).comm(name).u32(pid);
        fields.u32(120).u32(cpu)
    }
    /// `sched_migrate_task`.
    pub fn migrate(mover: u32, pid: u32, from: u32, to: u32) -> Self {
        let fields = Self::new("sched_migrate_task", mover)
            .u32(0)
            .u32(pid)
            .u32(120);
        fields.u32(from).u32(to).text_at(8, "moved")
    }
    /// `sched_process_fork`.
    pub fn fork(parent: u32, child: u32, name: &str) -> Self {
        let fields = Self::new("sched_process_fork", parent).u32(0).u32(parent);
        fields
            .u32(0)
            .u32(child)
            .text_at(8, "parent")
            .text_at(16, name)
    }
    /// `irq_handler_entry`.
    pub fn irq_entry(pid: u32, irq: u32, name: &str) -> Self {
        Self::new("irq_handler_entry", pid)
            .u32(irq)
            .u32(0)
            .text_at(12, name)
    }
    /// An event whose only field is a number: vectors, softirqs, `irq_handler_exit`.
    pub fn number(event: &str, pid: u32, number: u32) -> Self {
        Self::new(event, pid).u32(number)
    }
    /// `nmi_handler` that took `duration` nanoseconds.
    pub fn nmi(pid: u32, duration: u64) -> Self {
        Self::new("nmi_handler", pid).u64(0).u64(duration).u32(1)
    }
    /// `sys_enter`, or `sys_exit` if it `returned`.
    pub fn syscall(pid: u32, number: i64, returned: bool) -> Self {
        let number = number as u64;
        match returned {
            false => (0..6).fold(Self::new("sys_enter", pid).u64(number), |p, _| p.u64(0)),
            true => Self::new("sys_exit", pid).u64(number).u64(0),
        }
    }
    /// `page_fault_user`.
    pub fn fault(pid: u32) -> Self {
        Self::new("page_fault_user", pid).u64(0).u64(0).u64(0)
    }
}

/// A sub-buffer being written: 64-bit, little-endian.
#[derive(Clone, Debug)]
pub struct PageWriter {
    bytes: Vec<u8>,
    size: usize,
    time_ns: u64,
    flags: u64,
    missed: Option<u64>,
}

impl PageWriter {
    /// An empty sub-buffer whose first record follows `time_ns`.
    pub fn new(size: usize, time_ns: u64) -> Self {
        let mut bytes = time_ns.to_le_bytes().to_vec();
        bytes.extend([0; 8]);
        Self {
            bytes,
            size,
            time_ns,
            flags: 0,
            missed: None,
        }
    }
    /// Bytes that can still be written.
    pub fn room(&self) -> usize {
        self.size - self.bytes.len()
    }
    fn word(&mut self, kind: u32, delta: u64) {
        self.bytes
            .extend(((delta as u32) << 5 | kind).to_le_bytes());
    }
    /// Writes an event in the form the kernel would choose; `false` if it does not fit.
    pub fn event(&mut self, time_ns: u64, payload: &[u8]) -> bool {
        let length = payload.len().next_multiple_of(4);
        let delta = time_ns - self.time_ns;
        let extend = delta >= 1 << 27;
        let long = length > 28 * 4;
        if self.room() < 4 + length + usize::from(extend) * 8 + usize::from(long) * 4 {
            return false;
        }
        if extend {
            self.extend_time(delta);
        }
        let rest = if extend { 0 } else { delta };
        if long {
            self.word(0, rest);
            self.bytes.extend((length as u32 + 4).to_le_bytes());
        } else {
            self.word(length as u32 / 4, rest);
        }
        self.bytes.extend(payload);
        self.bytes
            .resize(self.bytes.len() + length - payload.len(), 0);
        self.time_ns = time_ns;
        true
    }
    /// Writes a time extend of `delta` nanoseconds.
    pub fn extend_time(&mut self, delta: u64) {
        self.word(30, delta & ((1 << 27) - 1));
        self.bytes.extend(((delta >> 27) as u32).to_le_bytes());
        self.time_ns += delta;
    }
    /// Writes an absolute stamp.
    pub fn stamp(&mut self, time_ns: u64) {
        let low = time_ns & ((1 << 59) - 1);
        self.word(31, low & ((1 << 27) - 1));
        self.bytes.extend(((low >> 27) as u32).to_le_bytes());
        self.time_ns = time_ns;
    }
    /// Writes a discarded event of `length` bytes, at least 4 and a multiple of 4.
    pub fn discarded(&mut self, delta: u64, length: u32) {
        self.word(29, delta);
        self.bytes.extend(length.to_le_bytes());
        self.bytes
            .resize(self.bytes.len() + length as usize - 4, 0xaa);
        self.time_ns += delta;
    }
    /// Writes the padding that ends a sub-buffer, and garbage after it.
    pub fn end_padding(&mut self) {
        self.word(29, 0);
        self.bytes.extend([0xee; 12]);
    }
    /// Marks events as lost before this sub-buffer; `None`: without a count.
    pub fn missed(mut self, count: Option<u64>) -> Self {
        self.flags = 1 << 31 | u64::from(count.is_some()) << 30;
        self.missed = count;
        self
    }
    /// The whole sub-buffer.
    pub fn finish(mut self) -> Vec<u8> {
        let commit = (self.bytes.len() - 16) as u64 | self.flags;
        self.bytes[8..16].copy_from_slice(&commit.to_le_bytes());
        if let Some(count) = self.missed {
            self.bytes.extend(count.to_le_bytes());
        }
        assert!(self.bytes.len() <= self.size, "the sub-buffer is too full");
        self.bytes.resize(self.size, 0);
        self.bytes
    }
}

/// Sub-buffers of `size` bytes that hold these events, in time order.
pub fn pages(size: usize, events: &[(u64, Payload)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut page = PageWriter::new(size, events.first().map_or(0, |e| e.0));
    for (time, payload) in events {
        if !page.event(*time, payload.bytes()) {
            out.extend(page.finish());
            page = PageWriter::new(size, *time);
            assert!(
                page.event(*time, payload.bytes()),
                "an event exceeds a sub-buffer"
            );
        }
    }
    out.extend(page.finish());
    out
}

/// A thread for the list of a capture: a user thread that is its own process.
pub fn task(pid: u32, name: &str) -> RawTask {
    RawTask {
        pid: Pid::new(pid),
        process: Some(Pid::new(pid)),
        name: name.to_owned(),
        kernel: false,
        rank: false,
        own: false,
        program: false,
    }
}

/// What one CPU's sub-buffers decode to, without files.
#[derive(Debug, Default)]
pub struct CpuTables {
    /// Events read.
    pub events: u64,
    /// Holes, unmatched entries, unmatched exits and events out of order.
    pub misfits: [u64; 4],
    /// Table `bursts`.
    pub bursts: Bursts,
    /// Table `interrupts`.
    pub interrupts: Interrupts,
    /// Table `wakeups`.
    pub wakeups: Wakeups,
    /// Table `migrations`.
    pub migrations: Migrations,
}

/// Decodes the sub-buffers of a CPU that was recorded from `on_ns` to `off_ns`.
pub fn decode_pages<const LE: bool>(
    decoder: &Decoder,
    header: &HeaderPage,
    page_size: usize,
    bytes: &[u8],
    (on_ns, off_ns): (u64, Option<u64>),
) -> CpuTables {
    let cpu = Cpu::new(0);
    let mut sink = Sink::default();
    let mut account = Account::new(cpu, None);
    let mut timeline = Timeline::new(NodeId::new(0), cpu, Some(on_ns));
    let pages = PageDecoder {
        page_size,
        header: *header,
        decoder: decoder.clone(),
        scale: None,
    };
    let decode = |page| pages.page::<LE>(page, &mut timeline, &mut account, &mut sink);
    let events = bytes.chunks(page_size).map(decode).sum();
    timeline.end(off_ns, &mut sink);
    sink.wakes.end(&mut sink.rows.wakeups);
    let m = timeline.misfits;
    CpuTables {
        events,
        misfits: [m.holes, m.unmatched_entries, m.unmatched_exits, m.backwards],
        bursts: sink.rows.bursts,
        interrupts: sink.rows.interrupts,
        wakeups: sink.rows.wakeups,
        migrations: sink.rows.migrations,
    }
}

/// Writes a capture with all formats, in which CPU n recorded `cpus[n]` without loss.
pub fn write_capture(
    raw_dir: &Path,
    (on_ns, off_ns): (u64, Option<u64>),
    cpus: &[Vec<u8>],
    tasks: Vec<RawTask>,
) -> RawCapture {
    let number = |n: usize| Cpu::new(n as u32);
    let stats = |(n, bytes): (usize, &Vec<u8>)| CpuStats {
        cpu: number(n),
        overrun: 0,
        commit_overrun: 0,
        dropped: 0,
        bytes: bytes.len() as u64,
    };
    let capture = RawCapture {
        page_size: 4096,
        clock: "mono".to_owned(),
        cpus: (0..cpus.len()).map(number).collect(),
        little_endian: true,
        long_bytes: 8,
        on_ns,
        off_ns,
        stats: match off_ns {
            Some(_) => cpus.iter().enumerate().map(stats).collect(),
            None => Vec::new(),
        },
        tasks,
    };
    let written = "the test's own directory can be written";
    capture.save(raw_dir).expect(written);
    fs::write(crate::header_page_path(raw_dir), header_page_text(4096)).expect(written);
    for (system, event) in EVENTS.iter().chain(SYSCALLS) {
        let path = crate::format_path(raw_dir, system, event);
        fs::create_dir_all(path.parent().expect("it has a parent")).expect(written);
        fs::write(path, format_text(event)).expect(written);
    }
    for (n, bytes) in cpus.iter().enumerate() {
        fs::write(crate::pages_path(raw_dir, number(n)), bytes).expect(written);
    }
    capture
}
