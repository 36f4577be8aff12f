//! Traces written by hand, in every format.

use crate::common::import_of;
use idlewave_formats::import::{ImportError, Imported, Program};
use idlewave_ftrace::testing::{Payload, format_text, header_page_text, pages};
use idlewave_ftrace::{EVENTS, STANDS_IN};
use idlewave_run::RunReader;
use idlewave_run::tables::{Bursts, Interrupts, Migrations, Sources, Table, Tasks, Wakeups};
use std::io::Write;
use std::path::{Path, PathBuf};

pub const PAGE: usize = 4096;

/// Imports `file` into a run beside it.
pub fn import_file(file: &Path, program: &Program) -> Result<(Imported, RunReader), ImportError> {
    let output = PathBuf::from(format!("{}.run", file.display()));
    let imported = import_of(file, &output, program)?;
    Ok((imported, RunReader::open(&output)?))
}

/// All tables of a run as lines in order of CPU and time, with sources by name instead of number.
pub fn lines(run: &RunReader) -> Vec<String> {
    let sources = run.read::<Sources>().unwrap();
    let mut out = Vec::new();
    for b in run.read::<Bursts>().unwrap().rows() {
        let (reason, sure) = (b.end_reason.code(), b.certain);
        out.push(format!(
            "burst {} {} {} {} r{reason} {sure}",
            b.cpu, b.begin_ns, b.end_ns, b.pid
        ));
    }
    for i in run.read::<Interrupts>().unwrap().rows() {
        let name = &sources.name[i.source as usize];
        let (depth, sure) = (i.depth, i.certain);
        out.push(format!(
            "{name} {} {} {} {} d{depth} {sure}",
            i.cpu, i.begin_ns, i.end_ns, i.pid
        ));
    }
    for w in run.read::<Wakeups>().unwrap().rows() {
        out.push(format!(
            "wake {} {} {} {} {}",
            w.cpu, w.time_ns, w.waker, w.pid, w.target_cpu
        ));
    }
    for m in run.read::<Migrations>().unwrap().rows() {
        out.push(format!("move {} {} {} {}", m.time_ns, m.pid, m.from, m.to));
    }
    for t in run.read::<Tasks>().unwrap().rows() {
        out.push(format!("task {} {} {}", t.pid, t.name, t.kind.code()));
    }
    out.sort();
    out
}

pub fn losses(run: &RunReader) -> Vec<(String, u64)> {
    let entries = run.manifest().losses.entries().iter();
    entries.map(|l| (l.what.clone(), l.count)).collect()
}

/// How to record with a clock that programs can read, if the trace has another one.
pub fn clock_advice(run: &RunReader) -> Option<&str> {
    let mut entries = run.manifest().losses.entries().iter();
    let of_clock = entries.find(|l| l.what == "a trace clock that programs can read")?;
    Some(&of_clock.advice)
}

/// One event, for every format.
pub enum Happens {
    Switch((u32, &'static str), &'static str, (u32, &'static str)),
    Wake(u32, (u32, &'static str), u32),
    Number(&'static str, u32, u32),
}

/// What happens on two CPUs: time in ns (whole microseconds), CPU, event.
pub fn story() -> Vec<(u64, u32, Happens)> {
    use Happens::{Number, Switch, Wake};
    const SOLVER: (u32, &str) = (70, "solver");
    const OTHER: (u32, &str) = (71, "solver");
    const DAEMON: (u32, &str) = (9, "my daemon");
    vec![
        (1_000_000, 0, Switch((0, "swapper/0"), "R", SOLVER)),
        (1_002_000, 1, Switch((0, "swapper/1"), "R", OTHER)),
        (1_500_000, 0, Number("local_timer_entry", 70, 236)),
        (1_507_000, 0, Number("local_timer_exit", 70, 236)),
        (1_508_000, 0, Number("softirq_entry", 70, 7)),
        (1_511_000, 0, Number("softirq_exit", 70, 7)),
        (1_600_000, 1, Wake(71, DAEMON, 1)),
        (1_604_000, 1, Switch(OTHER, "R+", DAEMON)),
        (1_704_000, 1, Switch(DAEMON, "S", OTHER)),
        (2_000_000, 0, Switch(SOLVER, "S", (0, "swapper/0"))),
        (2_100_000, 1, Switch(OTHER, "Z", (5, "kworker/1:0"))),
        (
            2_103_000,
            1,
            Switch((5, "kworker/1:0"), "I", (0, "swapper/1")),
        ),
    ]
}

/// What the story must become, worked out by hand: CPU 0 has the solver from 1.0 to 2.0 ms, CPU 1
/// its other process until 2.1 ms except for the daemon's 100 us. Before the first switch and after
/// the last one, nothing is known.
pub fn story_lines() -> Vec<String> {
    let mut lines = [
        "burst 0 1000000 2000000 70 r1 true",
        "burst 1 1002000 1604000 71 r0 true",
        "burst 1 1604000 1704000 9 r1 true",
        "burst 1 1704000 2100000 71 r4 true",
        "burst 1 2100000 2103000 5 r1 true",
        "timer tick 0 1500000 1507000 70 d0 true",
        "SCHED 0 1508000 1511000 70 d0 true",
        "wake 1 1600000 71 9 1",
        "task 0 idle 0",
        "task 5 kworker/1:0 1",
        "task 9 my daemon 2",
        "task 70 solver 6",
        "task 71 solver 6",
    ]
    .map(str::to_owned)
    .to_vec();
    lines.sort();
    lines
}

/// The bits of a state from its letters.
pub fn bits(letters: &str) -> u64 {
    match letters {
        "R" => 0,
        "R+" => 0x100,
        "S" => 1,
        "Z" => 0x20,
        "I" => 0x80,
        _ => panic!("the tests use no other"),
    }
}

/// Which events of a wake-up are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakes {
    /// Its start.
    Begun,
    /// Its end.
    Finished,
    /// Both; the CPU that is stored first has the end of a wake-up, but no start.
    Both,
}

/// The story as the kernel records it: time, CPU, payload.
pub fn story_payloads() -> Vec<(u64, u32, Payload)> {
    story_payloads_with(Wakes::Begun)
}

fn story_payloads_with(wakes: Wakes) -> Vec<(u64, u32, Payload)> {
    let payload = |event| match event {
        Happens::Switch(prev, state, next) => Payload::switch(prev, bits(state), next),
        Happens::Wake(by, (pid, name), cpu) => match wakes {
            Wakes::Finished => Payload::wakeup(by, pid, name, cpu),
            _ => Payload::waking(by, pid, name, cpu),
        },
        Happens::Number(event, pid, n) => Payload::number(event, pid, n),
    };
    let events = story().into_iter();
    events
        .map(|(time, cpu, event)| (time, cpu, payload(event)))
        .collect()
}

/// The sub-buffers of both CPUs.
pub fn story_pages() -> [Vec<u8>; 2] {
    story_pages_with(Wakes::Begun)
}

/// The same with these wake-up events.
pub fn story_pages_with(wakes: Wakes) -> [Vec<u8>; 2] {
    [0, 1].map(|cpu| {
        let of_cpu = story_payloads_with(wakes).into_iter();
        let of_cpu = of_cpu.filter(|(_, c, _)| *c == cpu);
        let mut events: Vec<_> = of_cpu.map(|(time, _, payload)| (time, payload)).collect();
        if wakes == Wakes::Both {
            let (time, by, pid) = [(1_000_500, 70, 71), (1_601_000, 71, 9)][cpu as usize];
            events.push((time, Payload::wakeup(by, pid, "woken", 1)));
            events.sort_by_key(|(time, _)| *time);
        }
        pages(PAGE, &events)
    })
}

/// The layouts of text.
#[derive(Clone, Copy, Debug)]
pub enum Layout {
    Tracefs,
    Report,
    Perf,
}

/// The story as text.
pub fn story_text(layout: Layout) -> String {
    let mut text = match layout {
        Layout::Tracefs => "# tracer: nop\n#\n".to_owned(),
        Layout::Report => "cpus=2\n".to_owned(),
        Layout::Perf => "# hostname : n17\n# os release : 6.1.0\n#\n".to_owned(),
    };
    for (time, cpu, event) in story() {
        let (name, pid, event, body) = match event {
            Happens::Switch((prev, from), state, (next, to)) => {
                let body = match layout {
                    Layout::Report => {
                        // trace-cmd's plugin prints W where today's kernels have I.
                        let state = if state == "I" { "W" } else { state };
                        format!("{from}:{prev} [120] {state} ==> {to}:{next} [120]")
                    }
                    _ => format!(
                        "prev_comm={from} prev_pid={prev} prev_prio=120 prev_state={state} ==> \
                         next_comm={to} next_pid={next} next_prio=120"
                    ),
                };
                (from, prev, "sched_switch", body)
            }
            Happens::Wake(by, (pid, name), cpu) => {
                let body = format!("comm={name} pid={pid} prio=120 target_cpu={cpu:03}");
                ("solver", by, "sched_waking", body)
            }
            Happens::Number(event, pid, n) if event.starts_with("softirq") => {
                ("solver", pid, event, format!("vec={n} [action=SCHED]"))
            }
            Happens::Number(event, pid, n) => ("solver", pid, event, format!("vector={n}")),
        };
        let name = if pid == 0 { "<idle>" } else { name };
        let (s, us) = (time / 1_000_000_000, time % 1_000_000_000 / 1_000);
        text += &match layout {
            Layout::Tracefs => {
                format!("{name:>16}-{pid:<7} [{cpu:03}] d..2. {s:5}.{us:06}: {event}: {body}\n")
            }
            Layout::Report => {
                format!("{name:>16}-{pid:<5} [{cpu:03}] {s:5}.{us:06}: {event}:         {body}\n")
            }
            Layout::Perf => {
                format!("{name:>16} {pid:5} [{cpu:03}] {s:5}.{us:06}:   system:{event}: {body}\n")
            }
        };
    }
    text
}

/// Writes a trace.dat as trace-cmd.dat.v6(5) and v7(5) describe the formats.
pub struct Dat {
    pub version: u32,
    /// Name of the compression, for version 7.
    pub packing: &'static str,
    pub clock: &'static str,
    /// Data of the option that converts stamps: multiplier, shift, offset.
    pub scale: Option<(u32, u32, u64)>,
}

impl Default for Dat {
    fn default() -> Self {
        Self {
            version: 6,
            packing: "none",
            clock: "mono",
            scale: None,
        }
    }
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn sized(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

fn option(id: u16, data: &[u8]) -> Vec<u8> {
    let size = (data.len() as u32).to_le_bytes();
    [&id.to_le_bytes()[..], &size, data].concat()
}

impl Dat {
    fn header_info() -> Vec<u8> {
        let page = sized(&header_page_text(PAGE as u32));
        [b"header_page\0", &page[..], b"header_event\0", &sized("x")].concat()
    }

    fn event_formats() -> Vec<u8> {
        let all = || EVENTS.iter().chain([&STANDS_IN]);
        let mut systems: Vec<&str> = EVENTS.iter().map(|e| e.0).collect();
        systems.dedup();
        let mut out = (systems.len() as u32).to_le_bytes().to_vec();
        for system in systems {
            out.extend([system.as_bytes(), b"\0"].concat());
            let of: Vec<_> = all().filter(|e| e.0 == system).collect();
            out.extend((of.len() as u32).to_le_bytes());
            of.iter().for_each(|e| out.extend(sized(&format_text(e.1))));
        }
        out
    }

    fn options(&self) -> Vec<u8> {
        let mut out = option(4, format!("local [{}] boot\n\0", self.clock).as_bytes());
        out.extend(option(5, b"Linux n17 6.1.0 #1 SMP x86_64\0"));
        if let Some((mult, shift, offset)) = self.scale {
            let data = [
                &mult.to_le_bytes()[..],
                &shift.to_le_bytes(),
                &offset.to_le_bytes(),
            ];
            out.extend(option(14, &data.concat()));
        }
        out
    }

    /// The file.
    pub fn write(&self, cpus: &[Vec<u8>]) -> Vec<u8> {
        let mut out = b"\x17\x08\x44tracing".to_vec();
        out.extend(format!("{}\0", self.version).as_bytes());
        out.extend([0, 8]);
        out.extend((PAGE as u32).to_le_bytes());
        match self.version {
            6 => self.v6(out, cpus),
            _ => self.v7(out, cpus),
        }
    }

    fn v6(&self, mut out: Vec<u8>, cpus: &[Vec<u8>]) -> Vec<u8> {
        out.extend(Self::header_info());
        out.extend(0_u32.to_le_bytes());
        out.extend(Self::event_formats());
        out.extend([0; 8]);
        out.extend(sized("70 solver\n"));
        out.extend((cpus.len() as u32).to_le_bytes());
        out.extend(b"options  \0");
        out.extend(self.options());
        out.extend([0, 0]);
        out.extend(b"flyrecord\0");
        let mut offset = (out.len() + 16 * cpus.len()).next_multiple_of(PAGE);
        for cpu in cpus {
            out.extend((offset as u64).to_le_bytes());
            out.extend((cpu.len() as u64).to_le_bytes());
            offset += cpu.len();
        }
        out.resize(out.len().next_multiple_of(PAGE), 0);
        cpus.iter().for_each(|cpu| out.extend(cpu));
        out
    }

    /// Appends a section and returns its position.
    fn section(&self, out: &mut Vec<u8>, id: u16, data: &[u8]) -> u64 {
        let place = out.len() as u64;
        let packed = self.packing != "none" && id != 0;
        let body = match packed {
            true => {
                let inside = zlib(data);
                let sizes = [inside.len() as u32, data.len() as u32].map(u32::to_le_bytes);
                [&sizes.concat()[..], &inside].concat()
            }
            false => data.to_vec(),
        };
        out.extend(id.to_le_bytes());
        out.extend(u16::from(packed).to_le_bytes());
        out.extend([0; 4]);
        out.extend((body.len() as u64).to_le_bytes());
        out.extend(body);
        place
    }

    fn v7(&self, mut out: Vec<u8>, cpus: &[Vec<u8>]) -> Vec<u8> {
        out.extend(format!("{}\x001\0", self.packing).as_bytes());
        let first = out.len();
        out.extend([0; 8]);
        let header = self.section(&mut out, 16, &Self::header_info());
        let events = self.section(&mut out, 18, &Self::event_formats());
        let names = self.section(&mut out, 21, &sized("70 solver\n"));
        let data = out.len() as u64;
        let packed = self.packing != "none";
        out.extend(3_u16.to_le_bytes());
        out.extend(u16::from(packed).to_le_bytes());
        out.extend([0; 12]);
        let mut buffer = data.to_le_bytes().to_vec();
        buffer.extend(b"\0");
        buffer.extend(format!("{}\0", self.clock).as_bytes());
        buffer.extend((PAGE as u32).to_le_bytes());
        buffer.extend((cpus.len() as u32).to_le_bytes());
        for (n, cpu) in cpus.iter().enumerate() {
            let begin = out.len();
            match packed {
                true => {
                    // Two chunks, as trace-cmd makes several; the first one ends within the events.
                    let (a, b) = cpu.split_at(100.min(cpu.len()));
                    let chunks: Vec<&[u8]> = [a, b].into_iter().filter(|c| !c.is_empty()).collect();
                    out.extend((chunks.len() as u32).to_le_bytes());
                    for chunk in chunks {
                        let inside = zlib(chunk);
                        out.extend((inside.len() as u32).to_le_bytes());
                        out.extend((chunk.len() as u32).to_le_bytes());
                        out.extend(inside);
                    }
                }
                false => out.extend(cpu),
            }
            buffer.extend((n as u32).to_le_bytes());
            buffer.extend((begin as u64).to_le_bytes());
            // trace-cmd's size leaves out the count of chunks.
            let size = out.len() - begin - if packed { 4 } else { 0 };
            buffer.extend((size as u64).to_le_bytes());
        }
        let second = [option(3, &buffer), option(0, &0_u64.to_le_bytes())].concat();
        let second = self.section(&mut out, 0, &second);
        let mut options = self.options();
        for (id, place) in [(16, header), (18, events), (21, names)] {
            options.extend(option(id, &place.to_le_bytes()));
        }
        options.extend(option(0, &second.to_le_bytes()));
        let options = self.section(&mut out, 0, &options);
        out[first..first + 8].copy_from_slice(&options.to_le_bytes());
        out
    }
}
