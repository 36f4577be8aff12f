//! Records of a Perfetto trace as lines, for the reader's own tests and those of the crate.

use super::Record;
use idlewave_ftrace::event::{Comm, Event, Handler};

/// What a record says.
pub fn line(record: Record<'_>) -> String {
    match record {
        Record::Lost { cpu, .. } => format!("{cpu} lost"),
        Record::Leaves {
            cpu,
            time_ns,
            prev,
            prev_state,
            ..
        } => format!("{cpu} {time_ns} {prev} leaves {prev_state:?}"),
        Record::Gets {
            cpu,
            time_ns,
            next,
            next_comm,
            ..
        } => format!("{cpu} {time_ns} {next} {} gets it", name(next_comm)),
        Record::System { system, .. } => {
            let words = [system.name, system.release, system.architecture];
            format!(
                "system {}",
                words
                    .map(|w| String::from_utf8_lossy(w).into_owned())
                    .join(" ")
            )
        }
        Record::Process {
            pid,
            parent,
            name,
            kernel,
            ..
        } => {
            let name = String::from_utf8_lossy(name);
            format!("process {pid} {name} of {parent:?}, kernel: {kernel:?}")
        }
        Record::Thread {
            pid, process, name, ..
        } => {
            let name = String::from_utf8_lossy(name);
            format!("thread {pid} {name} of {process:?}")
        }
        Record::Event {
            cpu,
            time_ns,
            by,
            event,
            ..
        } => {
            let by = by.map_or("-".to_owned(), |pid| pid.to_string());
            format!("{cpu} {time_ns} {by} {}", of_event(event))
        }
    }
}

fn of_event(event: Event<'_>) -> String {
    match event {
        Event::Switch {
            prev,
            prev_state,
            next,
            next_comm,
            ..
        } => format!("{prev} -> {next} {} {prev_state:?}", name(next_comm)),
        Event::Wake { pid, cpu, .. } => format!("wake {pid} on {cpu}"),
        Event::Woken { pid, cpu, new, .. } => format!("woken {pid} on {cpu}, new: {new}"),
        Event::Migrate { pid, from, to } => format!("move {pid} {from} -> {to}"),
        Event::Enter {
            handler: Handler::Irq(irq),
            name,
        } => format!("enter irq {irq} {}", String::from_utf8_lossy(name)),
        Event::Enter { handler, .. } => format!("enter {handler:?}"),
        Event::Syscall { number, returned } => {
            format!("{} {number:?}", if returned { "returns" } else { "calls" })
        }
        Event::Leave { handler } => format!("leave {handler:?}"),
        other => format!("{other:?}"),
    }
}

fn name(comm: Option<Comm>) -> String {
    let name = comm.map(|comm| String::from_utf8_lossy(&comm).into_owned());
    name.map_or("?".to_owned(), |name| {
        name.trim_end_matches('\0').to_owned()
    })
}
