//! Archives that the real library writes, and what otf2-print lists of an archive, as rows of a
//! run.

#![allow(clippy::unwrap_used)]

use crate::common::{skip, try_export};
use idlewave_formats::export::{Export, ExportError, Format};
use idlewave_run::RunReader;
use idlewave_run::tables::*;
use idlewave_units::{Bytes, Rank};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One call: rank, function, start, end.
pub type CallRow = (u32, String, u64, u64);
/// One end of a message: rank, sends, peer, tag, bytes, posted, wait, completed.
pub type EndRow = (u32, bool, u32, i32, u64, u64, u64, u64);
/// One collective: rank, function, start, root, bytes sent and received.
pub type CollectiveRow = (u32, String, u64, Option<u32>, u64, u64);
/// One marked region: rank, name, start, end.
pub type MarkRow = (u32, String, u64, u64);

/// Rows, each in order.
#[derive(Debug, Default, PartialEq)]
pub struct Rows {
    pub calls: Vec<CallRow>,
    pub ends: Vec<EndRow>,
    pub collectives: Vec<CollectiveRow>,
    pub marks: Vec<MarkRow>,
}

impl Rows {
    fn sorted(mut self) -> Self {
        self.calls.sort();
        self.ends.sort();
        self.collectives.sort();
        self.marks.sort();
        self
    }

    /// Fails at the first row that differs.
    #[track_caller]
    pub fn same_as(&self, other: &Self) {
        same("calls", &self.calls, &other.calls);
        same("ends of messages", &self.ends, &other.ends);
        same("collectives", &self.collectives, &other.collectives);
        same("marks", &self.marks, &other.marks);
    }

    /// The rows of a run.
    pub fn of(run: &RunReader) -> Self {
        let mut rows = Self::default();
        let operations = run.read::<Operations>().unwrap();
        for call in run.read::<Calls>().unwrap().rows() {
            let name = operations.name[call.operation as usize].clone();
            let rank = call.rank.get();
            rows.calls
                .push((rank, name.clone(), call.begin_ns, call.end_ns));
            if let (Some(sent), Some(received)) = (call.sent, call.received) {
                let root = call.root.map(Rank::get);
                rows.collectives.push((
                    rank,
                    name,
                    call.begin_ns,
                    root,
                    sent.get(),
                    received.get(),
                ));
            }
        }
        for end in run.read::<Transfers>().unwrap().rows() {
            rows.ends.push((
                end.rank.get(),
                end.direction == Direction::Send,
                end.peer.unwrap().get(),
                end.tag,
                end.bytes.map_or(0, Bytes::get),
                end.posted_ns,
                end.wait_ns.unwrap(),
                end.completed_ns.unwrap(),
            ));
        }
        for mark in run.read::<Marks>().unwrap().rows() {
            let rank = mark.rank.unwrap().get();
            rows.marks
                .push((rank, mark.name, mark.begin_ns, mark.end_ns.unwrap()));
        }
        rows.sorted()
    }
}

#[track_caller]
fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &[T], expected: &[T]) {
    let differs = found.iter().zip(expected).find(|(a, b)| a != b);
    assert_eq!(differs, None, "{what}");
    assert_eq!(found.len(), expected.len(), "{what}");
}

/// Exports a run into a directory; `None` if the library is not installed.
pub fn exported(run: &RunReader, to: &Path) -> Option<(PathBuf, Export)> {
    match try_export(run, Format::Otf2, to) {
        Ok(export) => Some((to.join("traces.otf2"), export)),
        Err(error @ ExportError::Library { .. }) => {
            skip(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// What otf2-print lists of an archive, which it must accept without a message on standard error;
/// `None` if it is not installed.
#[track_caller]
pub fn listed(anchor: &Path, options: &[&str]) -> Option<String> {
    let output = match Command::new("otf2-print")
        .args(options)
        .arg(anchor)
        .output()
    {
        Ok(output) => output,
        Err(error) => {
            skip(&format!(
                "there is no otf2-print (package otf2-tools): {error}"
            ));
            return None;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// A call or region that is open.
struct Open {
    name: String,
    begin: u64,
    /// Ends of messages that it completes.
    ends: Vec<EndRow>,
}

/// A location in the listing.
#[derive(Default)]
struct Lane {
    open: Vec<Open>,
    /// Open requests: start, and the end of a send.
    requests: HashMap<u64, (u64, Option<EndRow>)>,
}

/// The listing as rows; `rank` gives the rank of a location, `ns` converts ticks to nanoseconds.
pub fn rows(listing: &str, rank: impl Fn(u64) -> u32, ns: impl Fn(u64) -> u64) -> Rows {
    let mut rows = Rows::default();
    let mut lanes: BTreeMap<u64, Lane> = BTreeMap::new();
    for line in listing.lines() {
        let mut words = line.split_whitespace();
        let kind = words.next().unwrap_or_default();
        let numbers = (words.next().map(str::parse), words.next().map(str::parse));
        let (Some(Ok(location)), Some(Ok(ticks))) = numbers else {
            continue;
        };
        let (own, time) = (rank(location), ns(ticks));
        // Ranks are those of the communicator; their locations follow them: `1 ("name" <7>)`.
        let world = |line: &str, who: &str| {
            let (_, behind) = line.split_once(who).unwrap();
            let (_, location) = behind.split_once("\" <").unwrap();
            rank(location.split_once('>').unwrap().0.parse().unwrap())
        };
        let lane = lanes.entry(location).or_default();
        let begin = lane.open.last().map_or(time, |open| open.begin);
        let end = |sends| {
            let who = if sends { "Receiver: " } else { "Sender: " };
            let peer = world(line, who);
            let (tag, bytes) = (number(line, "Tag: ") as i32, number(line, "Length: "));
            (own, sends, peer, tag, bytes, begin, begin, 0)
        };
        match kind {
            "ENTER" => lane.open.push(Open {
                name: region(line),
                begin: time,
                ends: Vec::new(),
            }),
            "LEAVE" => {
                let open = lane.open.pop().unwrap();
                for mut end in open.ends {
                    end.7 = time;
                    rows.ends.push(end);
                }
                match open.name.starts_with("MPI_") {
                    true => rows.calls.push((own, open.name, open.begin, time)),
                    false => rows.marks.push((own, open.name, open.begin, time)),
                }
            }
            "MPI_SEND" => lane.open.last_mut().unwrap().ends.push(end(true)),
            "MPI_RECV" => lane.open.last_mut().unwrap().ends.push(end(false)),
            "MPI_ISEND" => {
                let request = number(line, "Request: ");
                lane.requests.insert(request, (begin, Some(end(true))));
            }
            "MPI_IRECV_REQUEST" => {
                let request = number(line, "Request: ");
                lane.requests.insert(request, (begin, None));
            }
            "MPI_ISEND_COMPLETE" | "MPI_IRECV" => {
                let request = number(line, "Request: ");
                let (posted, sent) = lane.requests.remove(&request).unwrap();
                let mut end = sent.unwrap_or_else(|| end(false));
                (end.5, end.6) = (posted, begin);
                lane.open.last_mut().unwrap().ends.push(end);
            }
            "MPI_COLLECTIVE_END" => {
                let name = lane.open.last().unwrap().name.clone();
                let root = line.contains("Root: NONE");
                let root = (!root).then(|| world(line, "Root: "));
                let bytes = (number(line, "Sent: "), number(line, "Received: "));
                rows.collectives
                    .push((own, name, begin, root, bytes.0, bytes.1));
            }
            _ => {}
        }
    }
    rows.sorted()
}

/// Each enter and leave of a region that is listed for a location: name and time.
pub fn regions(listing: &str, location: u64) -> Vec<(bool, String, u64)> {
    let mut found = Vec::new();
    for line in listing.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["ENTER" | "LEAVE", of, time, ..] = words[..] {
            if of == location.to_string() {
                found.push((words[0] == "ENTER", region(line), time.parse().unwrap()));
            }
        }
    }
    found
}

/// The name of the region in a line; it may contain quotes.
fn region(line: &str) -> String {
    let (_, name) = line.split_once("Region: \"").unwrap();
    name.rsplit_once("\" <").unwrap().0.to_owned()
}

/// The number after a word of a line.
fn number(line: &str, word: &str) -> u64 {
    let rest = line.split(word).nth(1).unwrap();
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
    digits.unwrap().parse().unwrap()
}

/// How often each kind of event is listed.
pub fn kinds(listing: &str) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for line in listing.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() >= 3 && words[1].parse::<u64>().is_ok() && words[2].parse::<u64>().is_ok() {
            *kinds.entry(words[0].to_owned()).or_default() += 1;
        }
    }
    kinds
}
