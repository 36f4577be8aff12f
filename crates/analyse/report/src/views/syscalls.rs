//! System calls.

use super::pieces::{self, dash, longest, thread, time};
use crate::number::plain;
use crate::screen::{Screen, Style};
use idlewave_explain::views::{SyscallRow, Syscalls};
use idlewave_units::show::count;

/// System calls by name and by thread.
pub(super) fn syscalls(screen: &mut Screen, found: &Syscalls, several: bool) {
    if found.calls.is_empty() {
        let text = "no system call was recorded here. Record those of an MPI program's ranks as root: idlewave \
                    record --syscalls -- mpirun ... ./app";
        screen.wrap(Style::Plain, "", text);
        return;
    }
    screen.line(
        Style::Heading,
        "SYSTEM CALLS, all threads together, most time first",
    );
    let header = [
        "call", "calls", "time", "on CPU", "median", "longest", "open",
    ];
    let rows: Vec<Vec<String>> = found.calls.iter().map(call).collect();
    pieces::table(screen, &header, &rows);
    screen.line(Style::Heading, "BY THREAD, most time first");
    let header = ["thread", "calls", "time", "on CPU"];
    let by_thread = found.threads.iter().map(|row| {
        vec![
            thread(&row.thread, several),
            count(row.calls),
            row.time.to_string(),
            row.on_cpu.to_string(),
        ]
    });
    pieces::table(screen, &header, &by_thread.collect::<Vec<_>>());
    screen.wrap(
        Style::Quiet,
        "  ",
        "on CPU: the part of the time that the threads ran; the rest they were blocked, or ready \
         without a CPU. open: calls that were not seen to return.",
    );
}

fn call(row: &SyscallRow) -> Vec<String> {
    vec![
        plain(&row.call),
        count(row.lengths.count),
        row.lengths.total.to_string(),
        row.on_cpu.to_string(),
        time(row.lengths.median.as_ref()),
        longest(&row.lengths),
        match row.not_returned {
            0 => dash(),
            open => count(open),
        },
    ]
}
