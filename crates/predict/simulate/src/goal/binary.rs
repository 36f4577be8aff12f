//! The binary form, little-endian and packed.
//!
//! Magic number 4223 as 8 bytes; all positions below count from the byte after it. Number of ranks
//! (4), largest CPU (1), largest NIC (1), start and end of every rank's schedule (8 each). A rank's
//! schedule: number of operations (4), number of roots, which wait for nothing (4), the roots (4
//! each), the operations (39 each), the dependents of all of them (4 each). An operation: how many
//! operations it waits for (4), type (1), peer (4), bytes or nanoseconds (8), tag (4), CPU (1), NIC
//! (1), number (4) and first index (4) of the dependents that wait for its end, and of those that
//! wait for its start.
//!
//! The input is untrusted: every position and count is checked against the length of the file
//! before use, and no list is read twice, so that memory is bounded by the length of the file.

use super::build::{OperationId, ScheduleBuilder};
use super::read_error::{BinaryProblem, ReadError};
use super::schedule::{ANY, AT_START, Action, Kind, Operation, Schedule};
use std::io::{self, Write};

/// The first bytes of the binary form.
pub(super) const MAGIC: [u8; 8] = 4223_u64.to_le_bytes();
/// The magic number after LogGOPSim has decremented the counters in the file itself.
pub(super) const USED_UP: [u8; 8] = 2342_u64.to_le_bytes();

/// Ranks, largest CPU and NIC.
const HEADER: u64 = 6;
/// Start and end of a rank's schedule.
const SPAN: u64 = 16;
/// One operation.
const NODE: u64 = 39;

fn error<T>(offset: u64, problem: impl Into<BinaryProblem>) -> Result<T, ReadError> {
    let problem = problem.into();
    Err(ReadError::Binary { offset, problem })
}

/// The file with a read position.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    bytes: &'a [u8],
    /// Position in the whole file.
    at: u64,
}

impl<'a> Cursor<'a> {
    fn take<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ReadError> {
        let at = self.at;
        let found = usize::try_from(at)
            .ok()
            .and_then(|at| self.bytes.get(at..)?.first_chunk());
        match found {
            Some(found) => {
                self.at += N as u64;
                Ok(*found)
            }
            None => self
                .fits(what, at.saturating_add(N as u64))
                .map(|()| [0; N]),
        }
    }

    /// Checks that `end` lies within the file.
    fn fits(&self, what: &'static str, end: u64) -> Result<(), ReadError> {
        let have = self.bytes.len() as u64;
        if end <= have {
            return Ok(());
        }
        error(
            self.at.min(have),
            BinaryProblem::Truncated { what, end, have },
        )
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, ReadError> {
        self.take(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &'static str) -> Result<u64, ReadError> {
        self.take(what).map(u64::from_le_bytes)
    }

    fn u8(&mut self, what: &'static str) -> Result<u8, ReadError> {
        self.take::<1>(what).map(|[byte]| byte)
    }
}

/// An operation as read from the file.
struct Node {
    /// Position in the whole file.
    offset: u64,
    waits_for: u32,
    operation: Operation,
    at_end: (u32, u32),
    at_start: (u32, u32),
}

pub(super) fn read(bytes: &[u8]) -> Result<Schedule, ReadError> {
    let mut cursor = Cursor { bytes, at: 0 };
    match cursor.take::<8>("the magic number")? {
        MAGIC => {}
        USED_UP => return error(0, BinaryProblem::UsedUp),
        _ => return error(0, BinaryProblem::Magic),
    }
    let ranks = cursor.u32("the header")?;
    let most = [cursor.u8("the header")?, cursor.u8("the header")?];
    let spans_end = cursor.at.saturating_add(SPAN * u64::from(ranks));
    cursor.fits("the table of ranks", spans_end)?;
    let mut builder = ScheduleBuilder::new(ranks).or_else(|e| error(MAGIC.len() as u64, e))?;
    // Overlapping schedules would let a small file take a lot of memory.
    let mut left = bytes.len() as u64 - spans_end;
    let mut scratch = Scratch::default();
    for rank in 0..ranks {
        let place = cursor.at;
        let behind = |position: u64| position.saturating_add(MAGIC.len() as u64);
        let begin = behind(cursor.u64("the table of ranks")?);
        let end = behind(cursor.u64("the table of ranks")?);
        let have = bytes.len() as u64;
        if begin < spans_end || begin > end || end > have {
            let problem = BinaryProblem::Span {
                rank,
                begin,
                end,
                have,
            };
            return error(place, problem);
        }
        match left.checked_sub(end - begin) {
            Some(rest) => left = rest,
            None => {
                let what = "the schedules of the ranks";
                return error(place, BinaryProblem::Overlap { what });
            }
        }
        let own = Cursor {
            bytes: &bytes[..end as usize],
            at: begin,
        };
        scratch.rank(own, most, &mut builder)?;
    }
    builder.finish().or_else(|e| error(MAGIC.len() as u64, e))
}

/// Buffers used while a rank is read.
#[derive(Default)]
struct Scratch {
    nodes: Vec<Node>,
    /// How often each operation occurs in a list of dependents.
    listed: Vec<u32>,
}

impl Scratch {
    fn rank(
        &mut self,
        mut cursor: Cursor<'_>,
        most: [u8; 2],
        builder: &mut ScheduleBuilder,
    ) -> Result<(), ReadError> {
        let begin = cursor.at;
        let count = cursor.u32("the schedule of a rank")?;
        let roots = cursor.u32("the schedule of a rank")?;
        let mut root_list = cursor;
        cursor.at = cursor.at.saturating_add(4 * u64::from(roots));
        let nodes_end = cursor.at.saturating_add(NODE * u64::from(count));
        cursor.fits("the list of operations", nodes_end)?;
        let dependents = (cursor.bytes.len() as u64 - nodes_end) / 4;

        self.nodes.clear();
        self.listed.clear();
        self.listed.resize(count as usize, 0);
        let mut listed = 0_u64;
        for _ in 0..count {
            let node = node(&mut cursor, most)?;
            for (number, first) in [node.at_end, node.at_start] {
                listed += u64::from(number);
                if number > 0 && u64::from(first) + u64::from(number) > dependents {
                    let problem = BinaryProblem::Dependents {
                        count: number,
                        first,
                        have: dependents,
                    };
                    return error(node.offset, problem);
                }
            }
            if listed > dependents {
                let what = "the lists of dependents";
                return error(node.offset, BinaryProblem::Overlap { what });
            }
            let pushed = builder.push(node.operation);
            pushed.or_else(|e| error(node.offset, e))?;
            self.nodes.push(node);
        }
        let lists = Cursor {
            at: nodes_end,
            ..cursor
        };
        for (index, node) in self.nodes.iter().enumerate() {
            connect(index as u32, node, lists, &mut self.listed, builder)?;
        }
        for (node, &listed) in self.nodes.iter().zip(&self.listed) {
            if node.waits_for != listed {
                let said = node.waits_for;
                return error(node.offset, BinaryProblem::Count { said, listed });
            }
        }
        let place = root_list.at;
        let free = self.listed.iter().enumerate();
        let mut free = free
            .filter(|(_, listed)| **listed == 0)
            .map(|(at, _)| at as u32);
        for _ in 0..roots {
            let root = root_list.u32("the list of operations that wait for nothing")?;
            if free.next() != Some(root) {
                return error(place, BinaryProblem::Roots);
            }
        }
        if free.next().is_some() {
            return error(place, BinaryProblem::Roots);
        }
        builder.end_rank().or_else(|e| error(begin, e))
    }
}

/// Adds the dependents of one operation.
fn connect(
    index: u32,
    node: &Node,
    lists: Cursor<'_>,
    listed: &mut [u32],
    builder: &mut ScheduleBuilder,
) -> Result<(), ReadError> {
    let rank = builder.rank();
    let have = listed.len() as u32;
    for (at_start, (number, first)) in [(false, node.at_end), (true, node.at_start)] {
        let mut list = lists;
        list.at += 4 * u64::from(first);
        for _ in 0..number {
            let place = list.at;
            let later = list.u32("the list of dependents")?;
            let Some(times) = listed.get_mut(later as usize) else {
                let problem = BinaryProblem::Index {
                    what: "a list of dependents",
                    found: later,
                    have,
                };
                return error(place, problem);
            };
            *times += 1;
            let [later, earlier] = [later, index].map(|i| OperationId::new(rank, i));
            let added = match at_start {
                true => builder.irequires(later, earlier),
                false => builder.requires(later, earlier),
            };
            added.or_else(|e| error(place, e))?;
        }
    }
    Ok(())
}

fn node(cursor: &mut Cursor<'_>, most: [u8; 2]) -> Result<Node, ReadError> {
    const WHAT: &str = "an operation";
    let offset = cursor.at;
    let waits_for = cursor.u32(WHAT)?;
    let kind = cursor.u8(WHAT)?;
    let peer = cursor.u32(WHAT)?;
    let size = cursor.u64(WHAT)?;
    let tag = cursor.u32(WHAT)?;
    let [cpu, nic] = [cursor.u8(WHAT)?, cursor.u8(WHAT)?];
    for (what, found, most) in [("cpu", cpu, most[0]), ("nic", nic, most[1])] {
        if found > most {
            return error(offset, BinaryProblem::Resource { what, found, most });
        }
    }
    let some = |value: u32| (value != ANY).then_some(value);
    let (action, nic) = match kind {
        1 => {
            let (bytes, to) = (size, peer);
            (Action::Send { bytes, to, tag }, nic)
        }
        2 => {
            let (bytes, from, tag) = (size, some(peer), some(tag));
            (Action::Recv { bytes, from, tag }, nic)
        }
        3 => (Action::Calc { ns: size }, 0),
        other => return error(offset, BinaryProblem::Kind(other)),
    };
    Ok(Node {
        offset,
        waits_for,
        operation: Operation { action, cpu, nic },
        at_end: (cursor.u32(WHAT)?, cursor.u32(WHAT)?),
        at_start: (cursor.u32(WHAT)?, cursor.u32(WHAT)?),
    })
}

impl Schedule {
    /// Writes the binary form. Reading it back gives a schedule equal to this one.
    pub fn write_binary(&self, out: &mut impl Write) -> io::Result<()> {
        let mut waits_for = vec![0_u32; self.records.len()];
        for &later in &self.dependents {
            waits_for[(later & !AT_START) as usize] += 1;
        }
        let largest =
            |of: fn(&super::schedule::Record) -> u8| self.records.iter().map(of).max().unwrap_or(0);
        out.write_all(&MAGIC)?;
        out.write_all(&self.ranks().to_le_bytes())?;
        out.write_all(&[largest(|r| r.cpu), largest(|r| r.nic)])?;
        let mut begin = HEADER + SPAN * u64::from(self.ranks());
        for rank in 0..self.ranks() {
            let span = self.span(rank);
            let roots = waits_for[span.clone()].iter().filter(|n| **n == 0).count();
            let dependents: usize = span.clone().map(|i| self.dependents_of(i).len()).sum();
            let end = begin + 8 + 4 * (roots + dependents) as u64 + NODE * span.len() as u64;
            out.write_all(&begin.to_le_bytes())?;
            out.write_all(&end.to_le_bytes())?;
            begin = end;
        }
        for rank in 0..self.ranks() {
            self.write_rank(rank, &waits_for, out)?;
        }
        Ok(())
    }

    fn write_rank(&self, rank: u32, waits_for: &[u32], out: &mut impl Write) -> io::Result<()> {
        let span = self.span(rank);
        let first = span.start;
        let roots = span.clone().filter(|&index| waits_for[index] == 0);
        out.write_all(&(span.len() as u32).to_le_bytes())?;
        out.write_all(&(roots.clone().count() as u32).to_le_bytes())?;
        for root in roots {
            out.write_all(&((root - first) as u32).to_le_bytes())?;
        }
        let mut next = 0_u32;
        for index in span.clone() {
            let record = &self.records[index];
            let kind = match record.kind {
                Kind::Send => 1_u8,
                Kind::Recv => 2,
                Kind::Calc => 3,
            };
            out.write_all(&waits_for[index].to_le_bytes())?;
            out.write_all(&[kind])?;
            out.write_all(&record.peer.to_le_bytes())?;
            out.write_all(&record.size.to_le_bytes())?;
            out.write_all(&record.tag.to_le_bytes())?;
            out.write_all(&[record.cpu, record.nic])?;
            for list in self.lists(index) {
                out.write_all(&(list.len() as u32).to_le_bytes())?;
                out.write_all(&next.to_le_bytes())?;
                next += list.len() as u32;
            }
        }
        for index in span {
            for &later in self.lists(index).into_iter().flatten() {
                let later = (later & !AT_START) as usize - first;
                out.write_all(&(later as u32).to_le_bytes())?;
            }
        }
        Ok(())
    }

    /// The operations that wait for the end of an operation, and those that wait for its start.
    fn lists(&self, index: usize) -> [&[u32]; 2] {
        let all = self.dependents_of(index);
        let (at_start, at_end) = all.split_at(all.partition_point(|d| d & AT_START != 0));
        [at_end, at_start]
    }
}
