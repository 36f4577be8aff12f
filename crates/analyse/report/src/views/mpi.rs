//! A recorded program: its calls, mostly of MPI.

use super::pieces::{dash, longest, time};
use crate::number::plain;
use crate::screen::{Screen, Style};
use idlewave_explain::program::is_of_mpi;
use idlewave_explain::views::{CallRow, Mpi, Traffic};
use idlewave_units::show::{count, percent};
use idlewave_units::{Bytes, Nanos, Rank};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Ranks up to which traffic is shown as a matrix.
const MATRIX_RANKS: usize = 16;
/// Pairs listed if there are more ranks.
const PAIRS: usize = 20;

/// Calls, communicators, matrices, waits, and what was never completed.
pub(super) fn mpi(screen: &mut Screen, found: &Mpi) {
    if found.calls.is_empty() {
        screen.line(Style::Plain, "no call of an MPI library was recorded");
        return;
    }
    let (calls, world) = match found.calls.iter().any(|row| is_of_mpi(&row.function)) {
        true => ("MPI", "is MPI_COMM_WORLD"),
        false => ("CALLS", "has all ranks"),
    };
    screen.line(
        Style::Heading,
        &format!("{calls} BY FUNCTION AND COMMUNICATOR, all ranks together"),
    );
    let rows: Vec<Vec<String>> = found.calls.iter().map(call).collect();
    screen.table(
        &[
            "function", "comm", "calls", "time", "median", "longest", "gave", "got",
        ],
        &rows,
    );
    screen.line(Style::Heading, &format!("BY COMMUNICATOR (0 {world})"));
    communicators(screen, found);
    traffic(
        screen,
        "BYTES BETWEEN RANKS, point-to-point",
        &found.point_to_point,
        found.ranks,
    );
    match &found.collective {
        Some(cells) => traffic(
            screen,
            "BYTES BETWEEN RANKS, collectives",
            cells,
            found.ranks,
        ),
        None => screen.line(
            Style::Quiet,
            "  collectives between more than 512 ranks are not divided among pairs",
        ),
    }
    waits(screen, found);
    unfinished(screen, found);
}

fn bytes(bytes: Bytes) -> String {
    match bytes.get() {
        0 => dash(),
        _ => bytes.to_string(),
    }
}

fn call(row: &CallRow) -> Vec<String> {
    vec![
        plain(&row.function),
        row.communicator.map_or_else(dash, |c| c.to_string()),
        count(row.calls.count),
        row.calls.total.to_string(),
        time(row.calls.median.as_ref()),
        longest(&row.calls),
        bytes(row.sent),
        bytes(row.received),
    ]
}

fn communicators(screen: &mut Screen, found: &Mpi) {
    let rows = found.communicators.iter().map(|c| {
        vec![
            c.communicator.to_string(),
            c.members.to_string(),
            count(c.calls),
            c.time.to_string(),
            count(c.messages),
            bytes(c.message_bytes),
            bytes(c.collective_bytes),
        ]
    });
    screen.table(
        &[
            "comm",
            "members",
            "calls",
            "time",
            "messages",
            "their bytes",
            "to collectives",
        ],
        &rows.collect::<Vec<_>>(),
    );
    screen.wrap(
        Style::Quiet,
        "  ",
        "gave, got: bytes of collectives. Bytes of point-to-point messages are counted by \
         communicator, at the sender.",
    );
}

fn traffic(screen: &mut Screen, title: &str, cells: &[Traffic], ranks: u32) {
    if cells.is_empty() {
        return;
    }
    screen.line(Style::Heading, title);
    let show = |value: f64| Bytes::new(value.round() as u64).to_string();
    if ranks as usize <= MATRIX_RANKS {
        let columns: BTreeSet<Rank> = cells.iter().map(|c| c.to).collect();
        let lines: BTreeSet<Rank> = cells.iter().map(|c| c.from).collect();
        let heads: Vec<String> = columns.iter().map(|r| format!("to {r}")).collect();
        let mut header = vec!["from"];
        header.extend(heads.iter().map(String::as_str));
        let row = |from: &Rank| {
            let at = |to: &Rank| cells.iter().find(|c| (c.from, c.to) == (*from, *to));
            let cell = |to| at(to).map_or_else(|| ".".to_owned(), |c| show(c.bytes));
            let mut row = vec![from.to_string()];
            row.extend(columns.iter().map(cell));
            row
        };
        screen.table(&header, &lines.iter().map(row).collect::<Vec<_>>());
        return;
    }
    let mut order: Vec<&Traffic> = cells.iter().collect();
    order.sort_by(|a, b| {
        b.bytes
            .total_cmp(&a.bytes)
            .then((a.from, a.to).cmp(&(b.from, b.to)))
    });
    let rows: Vec<Vec<String>> = order
        .iter()
        .take(PAIRS)
        .map(|c| {
            let messages = if c.messages == 0 {
                dash()
            } else {
                count(c.messages)
            };
            vec![format!("{} to {}", c.from, c.to), show(c.bytes), messages]
        })
        .collect();
    screen.table(&["ranks", "bytes", "messages"], &rows);
    if cells.len() > PAIRS {
        let text = format!("  and {} pairs more: --json", cells.len() - PAIRS);
        screen.line(Style::Quiet, &text);
    }
}

fn waits(screen: &mut Screen, found: &Mpi) {
    if found.waits.is_empty() {
        return;
    }
    screen.line(Style::Heading, "WAITS, whole run, all ranks together");
    let all: Nanos = found.waits.iter().map(|w| w.time).sum();
    let mut rows: Vec<_> = found.waits.iter().collect();
    rows.sort_by_key(|w| Reverse(w.time));
    let row = |w: &&idlewave_run::findings::WaitClass| {
        let share = w.time.as_f64() / all.as_f64().max(1.0);
        vec![
            plain(&w.name),
            w.time.to_string(),
            percent(share),
            count(w.count),
        ]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
    screen.table(&["wait", "time", "share", "waits"], &rows);
}

fn unfinished(screen: &mut Screen, found: &Mpi) {
    for rank in &found.unfinished {
        let text = format!(
            "rank {} never entered MPI_Finalize: the last call that it left is {}, after {}. If it \
             hung, it is in the next one, which is recorded only when it is left.",
            rank.rank,
            plain(&rank.last),
            rank.left
        );
        screen.wrap(Style::Alarm, "! ", &text);
    }
    if found.open == 0 {
        return;
    }
    screen.line(
        Style::Heading,
        &format!("SENDS AND RECEIVES NEVER COMPLETED: {}", count(found.open)),
    );
    let rows: Vec<Vec<String>> = found
        .open_transfers
        .iter()
        .map(|t| {
            let what = if t.receives {
                "receive from"
            } else {
                "send to"
            };
            let peer = t.peer.map_or_else(|| "?".to_owned(), |p| p.to_string());
            vec![
                format!("rank {}: {what} {peer}", t.rank),
                t.posted.to_string(),
                t.communicator.to_string(),
                t.tag.to_string(),
            ]
        })
        .collect();
    screen.table(&["what", "started after", "comm", "tag"], &rows);
}
