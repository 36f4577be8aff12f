//! What babeltrace2 lists of a trace, and the same as text of `perf script`.

use crate::common::skip;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// An event that babeltrace2 lists.
#[derive(Clone, Debug)]
pub struct Listed {
    /// As its clock counts.
    pub time: u64,
    pub cpu: u32,
    pub name: String,
    fields: String,
}

impl Listed {
    /// The text of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        let key = format!(" {name} = ");
        let rest = &self.fields[self.fields.rfind(&key)? + key.len()..];
        Some(match rest.strip_prefix('"') {
            Some(text) => &text[..text.find('"')?],
            None => rest.split([',', ' ']).next()?,
        })
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.get(name)?.parse().ok()
    }
}

/// What babeltrace2 prints about a trace; `None` if there is no such program.
fn run(trace: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("babeltrace2");
    match command.arg(trace).args(arguments).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) => {
            skip(&format!("there is no babeltrace2: {error}"));
            None
        }
    }
}

/// Rewrites a trace, as must be done with one in CTF 2; false if there is no babeltrace2.
pub fn written_again(trace: &Path, to: &Path) -> bool {
    let parameters = format!("--params=path=\"{}\"", to.display());
    run(trace, &["--component=sink.ctf.fs", &parameters]).is_some()
}

/// The events in order of time.
pub fn listed(trace: &Path) -> Option<Vec<Listed>> {
    let text = run(trace, &["--clock-cycles", "--no-delta"])?;
    let event = |line: &str| {
        let (time, rest) = line.strip_prefix('[').unwrap().split_once("] ").unwrap();
        let (head, fields) = rest.split_once(": {").unwrap();
        let mut event = Listed {
            time: time.parse().unwrap(),
            cpu: 0,
            // The host may come before it.
            name: head.rsplit(' ').next().unwrap().to_owned(),
            fields: fields.to_owned(),
        };
        event.cpu = event.get("cpu_id").unwrap().parse().unwrap();
        event
    };
    Some(text.lines().map(event).collect())
}

/// Stretches in which events were lost: CPU, start, end, count. Streams are numbered in the order
/// of the files' names, and so by CPU if each CPU has one stream.
pub fn lost(trace: &Path) -> Option<Vec<(u32, u64, u64, u64)>> {
    let parameters = "--params=color=\"never\",compact=yes,with-metadata=no";
    let text = run(trace, &["-c", "sink.text.details", parameters])?;
    let number = |text: &str| text.replace(',', "").parse::<u64>().unwrap();
    // `[CYCLES NS] [CYCLES NS] {TRACE CLASS STREAM} Discarded events (COUNT events)`
    let lines = text
        .lines()
        .filter(|line| line.contains("} Discarded events ("));
    let stretch = |line: &str| {
        let signs = |c: char| "[]{}()".contains(c);
        let parts: Vec<&str> = line.split(signs).map(str::trim).collect();
        let first = |part: &str| number(part.split(' ').next().unwrap());
        let cpu = parts[5].rsplit(' ').next().unwrap();
        (
            cpu.parse().unwrap(),
            first(parts[1]),
            first(parts[3]),
            first(parts[7]),
        )
    };
    Some(lines.map(stretch).collect())
}

/// The events as `perf script --ns` prints them, for the reader of text. Who ran is known from the
/// event or from the switch before.
pub fn text(events: &[Listed]) -> String {
    let mut running: BTreeMap<u32, i64> = BTreeMap::new();
    let mut text = String::new();
    for event in events {
        let name = event.name.rsplit(':').next().unwrap();
        let name = name
            .trim_start_matches("x86_irq_vectors_")
            .trim_start_matches("irq_softirq_");
        let name = match name {
            "entry" | "exit" => format!("softirq_{name}"),
            name => name.to_owned(),
        };
        let one_of = |names: [&str; 2]| names.iter().find_map(|name| event.number(name));
        let known = event.number("common_pid");
        let get = |name: &str| event.get(name).unwrap().to_owned();
        let tid = |of: &str| one_of([&format!("{of}tid"), &format!("{of}pid")]).unwrap();
        let mut by = known.or(running.get(&event.cpu).copied()).unwrap_or(0);
        let body = match name.as_str() {
            "sched_switch" => {
                by = tid("prev_");
                running.insert(event.cpu, tid("next_"));
                format!(
                    "prev_comm={} prev_pid={by} prev_prio=1 prev_state={} ==> next_comm={} next_pid={} next_prio=1",
                    get("prev_comm"),
                    letters(event.number("prev_state").unwrap()),
                    get("next_comm"),
                    tid("next_"),
                )
            }
            "sched_waking" | "sched_wakeup_new" => format!(
                "comm={} pid={} prio=1 target_cpu={}",
                get("comm"),
                tid(""),
                get("target_cpu")
            ),
            "sched_migrate_task" => format!(
                "comm={} pid={} prio=1 orig_cpu={} dest_cpu={}",
                get("comm"),
                tid(""),
                get("orig_cpu"),
                get("dest_cpu")
            ),
            "sched_process_fork" => format!(
                "comm={} pid={} child_comm={} child_pid={}",
                get("parent_comm"),
                tid("parent_"),
                get("child_comm"),
                tid("child_")
            ),
            "irq_handler_entry" => format!("irq={} name={}", get("irq"), get("name")),
            "irq_handler_exit" => format!("irq={} ret=handled", get("irq")),
            "softirq_entry" | "softirq_exit" => format!("vec={} [action=X]", get("vec")),
            _ => "vector=1".to_owned(),
        };
        let (s, ns) = (event.time / 1_000_000_000, event.time % 1_000_000_000);
        let cpu = event.cpu;
        text += &format!("x {by} [{cpu:03}] {s}.{ns:09}: a:{name}: {body}\n");
    }
    text
}

/// The letters of a state (`include/trace/events/sched.h`).
fn letters(state: i64) -> &'static str {
    match state {
        0 => "R",
        0x100 => "R+",
        0x01 => "S",
        0x02 => "D",
        0x10 => "X",
        0x20 => "Z",
        0x80 => "I",
        other => panic!("{other}"),
    }
}
