//! Threads, processes and machines: `ProcessTree` and `SystemInfo`.

use super::event::pid_of;
use super::record::{Record, System};
use crate::export::perfetto::people::{process, system, thread, tree};
use crate::wire::{Fields, Value, WireError};

/// Reads a list of processes and threads.
pub(super) fn read_tree<'a>(
    machine: u32,
    bytes: &'a [u8],
    give: &mut dyn FnMut(Record<'a>),
) -> Result<(), WireError> {
    for field in Fields::of(bytes) {
        match field? {
            (tree::PROCESS, Value::Bytes(found)) => give(read_process(machine, found)?),
            (tree::THREAD, Value::Bytes(found)) => give(read_thread(machine, found)?),
            _ => {}
        }
    }
    Ok(())
}

fn read_process(machine: u32, bytes: &[u8]) -> Result<Record<'_>, WireError> {
    let (mut pid, mut parent, mut name, mut kernel) = (0, None, None, None);
    let mut is_comm = false;
    for field in Fields::of(bytes) {
        match field? {
            (process::PID, Value::Uint(number)) => pid = number,
            (process::PARENT, Value::Uint(number)) => parent = Some(pid_of(number)),
            // The words of a command line; the first one is the program.
            (process::CMDLINE, Value::Bytes(word)) => name = name.or(Some(word)),
            (process::IS_KTHREAD, Value::Uint(flag)) => kernel = Some(flag != 0),
            (process::CMDLINE_IS_COMM, Value::Uint(flag)) => is_comm = flag != 0,
            _ => {}
        }
    }
    let name = name.unwrap_or_default();
    let program = name.rsplit(|byte| *byte == b'/').next();
    Ok(Record::Process {
        machine,
        pid: pid_of(pid),
        parent,
        name: program.filter(|_| !is_comm).unwrap_or(name),
        kernel,
    })
}

fn read_thread(machine: u32, bytes: &[u8]) -> Result<Record<'_>, WireError> {
    let (mut pid, mut of, mut name) = (0, None, &[][..]);
    for field in Fields::of(bytes) {
        match field? {
            (thread::TID, Value::Uint(number)) => pid = number,
            (thread::TGID, Value::Uint(number)) => of = Some(pid_of(number)),
            (thread::NAME, Value::Bytes(found)) => name = found,
            _ => {}
        }
    }
    Ok(Record::Thread {
        machine,
        pid: pid_of(pid),
        process: of,
        name,
    })
}

/// Reads the description of a machine.
pub(super) fn read_system(machine: u32, bytes: &[u8]) -> Result<Record<'_>, WireError> {
    let mut found = System::default();
    for field in Fields::of(bytes) {
        match field? {
            (system::MACHINE_NAME, Value::Bytes(name)) => found.name = name,
            (system::UTSNAME, Value::Bytes(inside)) => {
                for field in Fields::of(inside) {
                    match field? {
                        (system::RELEASE, Value::Bytes(text)) => found.release = text,
                        (system::VERSION, Value::Bytes(text)) => found.build = text,
                        (system::MACHINE, Value::Bytes(text)) => found.architecture = text,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Ok(Record::System {
        machine,
        system: found,
    })
}
