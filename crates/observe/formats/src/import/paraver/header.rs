//! The first line of a trace and its communicators.
//!
//! `#Paraver (DATE):END[_ns|_us|_ms]:NODES:APPLICATIONS:APPLICATION{:APPLICATION}[,COMMUNICATORS]`;
//! NODES is 0, a number, or a number with the CPUs of each node in parentheses. An application is a
//! number with THREADS:NODE of each task in parentheses. Times without a unit are microseconds.

use crate::import::error::ImportError;
use crate::import::paraver::lines::Lines;

/// A task: its threads, and its node from 1, or 0 if that is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub threads: u32,
    pub node: u32,
}

/// What the first lines say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// The date, as written.
    pub date: String,
    /// The end in units of the trace.
    pub end: u64,
    /// Nanoseconds per unit.
    pub unit: u64,
    /// How many CPUs each node has.
    pub cpus: Vec<u32>,
    /// Tasks of the applications.
    pub applications: Vec<Vec<Task>>,
    /// Communicators of the first application: number and tasks, both from 1.
    pub communicators: Vec<(u32, Vec<u32>)>,
}

/// Limit on the CPUs of all nodes together.
const MOST_CPUS: u64 = 1 << 20;
/// Limit on the nodes.
const MOST_NODES: u32 = 1 << 16;

/// A piece of text that is read from its start.
struct Text<'a>(&'a [u8]);

impl Text<'_> {
    fn is(&mut self, byte: u8) -> bool {
        match self.0.split_first() {
            Some((&first, rest)) if first == byte => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn number(&mut self) -> Option<u64> {
        let digits = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        let (number, rest) = self.0.split_at(digits);
        self.0 = rest;
        std::str::from_utf8(number).ok()?.parse().ok()
    }

    fn small(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }
}

impl Header {
    pub(super) fn read(lines: &mut Lines) -> Result<Self, ImportError> {
        let first = lines.line()?.unwrap_or_default();
        let Some(rest) = first.strip_prefix(b"#Paraver (") else {
            return Err(lines.wrong("a Paraver trace begins with `#Paraver (`"));
        };
        let read = parse(rest);
        let (mut header, communicators) = read.map_err(|reason| lines.wrong(reason))?;
        for _ in 0..communicators {
            let line = lines.line()?.unwrap_or_default();
            let read = communicator(line);
            let Some((application, number, tasks)) = read else {
                return Err(lines.wrong("not a communicator like `c:1:1:2:1:2`"));
            };
            if application == 1 {
                header.communicators.push((number, tasks));
            }
        }
        Ok(header)
    }

    /// The end of the trace in nanoseconds.
    pub(super) fn end_ns(&self) -> u64 {
        self.end.saturating_mul(self.unit)
    }
}

/// The rest of the first line: the header and the number of communicators.
fn parse(line: &[u8]) -> Result<(Header, u64), String> {
    let close = line.iter().position(|b| *b == b')');
    let close = close.ok_or("the date does not end")?;
    let mut text = Text(&line[close + 1..]);
    let mut header = Header {
        date: String::from_utf8_lossy(&line[..close]).into_owned(),
        ..Header::default()
    };
    text.is(b':');
    header.end = text.number().ok_or("the trace has no end time")?;
    header.unit = 1_000;
    if text.is(b'_') {
        let unit = text.0.get(..2).unwrap_or_default();
        header.unit = match unit {
            b"ns" => 1,
            b"us" => 1_000,
            b"ms" => 1_000_000,
            _ => return Err("the unit of time is none of ns, us and ms".to_owned()),
        };
        text.0 = &text.0[2..];
    }
    if header
        .end
        .checked_mul(header.unit)
        .is_none_or(|end| end > i64::MAX as u64)
    {
        return Err("the trace ends after more than 292 years".to_owned());
    }
    text.is(b':');
    let nodes = text.small().ok_or("the number of nodes is missing")?;
    if text.is(b'(') {
        loop {
            let cpus = text
                .small()
                .ok_or("the number of CPUs of a node is missing")?;
            header.cpus.push(cpus);
            if !text.is(b',') {
                break;
            }
        }
        if !text.is(b')') || header.cpus.len() as u64 != u64::from(nodes) {
            return Err(format!("the CPUs of {nodes} nodes are not listed"));
        }
    } else if nodes <= MOST_NODES {
        header.cpus = vec![1; nodes as usize];
    }
    let cpus: u64 = header.cpus.iter().map(|n| u64::from(*n)).sum();
    if cpus > MOST_CPUS || nodes > MOST_NODES {
        return Err(format!("{nodes} nodes with {cpus} CPUs are too many"));
    }
    text.is(b':');
    let applications = text
        .number()
        .ok_or("the number of applications is missing")?;
    for number in 1..=applications {
        // One separator, whatever it is.
        text.0 = text.0.get(1..).unwrap_or_default();
        let tasks = tasks(&mut text, nodes);
        let tasks =
            tasks.ok_or_else(|| format!("application {number} is not like `2(1:1,1:1)`"))?;
        header.applications.push(tasks);
    }
    let communicators = match text.is(b',') {
        true => text
            .number()
            .ok_or("the number of communicators is missing")?,
        false => 0,
    };
    Ok((header, communicators))
}

fn tasks(text: &mut Text<'_>, nodes: u32) -> Option<Vec<Task>> {
    let count = text.number()?;
    let mut tasks = Vec::new();
    if !text.is(b'(') {
        return None;
    }
    while !text.is(b')') {
        if !tasks.is_empty() && !text.is(b',') {
            return None;
        }
        let threads = text.small()?;
        let node = match text.is(b':') {
            true => text.small()?,
            false => return None,
        };
        if node > nodes {
            return None;
        }
        tasks.push(Task { threads, node });
    }
    (tasks.len() as u64 == count).then_some(tasks)
}

/// Application, number and tasks of a communicator.
fn communicator(line: &[u8]) -> Option<(u32, u32, Vec<u32>)> {
    let (b'c' | b'C' | b'i' | b'I', rest) = line.split_first()? else {
        return None;
    };
    let mut text = Text(rest);
    let mut next = || text.is(b':').then(|| text.small()).flatten();
    let (application, number, count) = (next()?, next()?, next()?);
    let mut tasks = Vec::new();
    while let Some(task) = next() {
        tasks.push(task);
    }
    (tasks.len() as u64 == u64::from(count)).then_some((application, number, tasks))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<(Header, u64), String> {
        parse(line.strip_prefix("#Paraver (").unwrap().as_bytes())
    }

    #[test]
    fn the_forms_of_the_first_line_are_read() {
        let (header, communicators) =
            of("#Paraver (31/07/2026 at 12:00):10000_ns:1(2):2:2(1:1,1:1),1(1:1),1").unwrap();
        let task = |threads, node| Task { threads, node };
        assert_eq!((header.end, header.unit, communicators), (10_000, 1, 1));
        assert_eq!(header.cpus, [2]);
        assert_eq!(header.applications, [vec![task(1, 1); 2], vec![task(1, 1)]]);
        // No unit: microseconds. No list of CPUs: one for each node. And another separator.
        let (header, _) = of("#Paraver (x):7:2:2:1(3:2):1(1:1)").unwrap();
        assert_eq!((header.end_ns(), header.cpus), (7_000, vec![1, 1]));
        assert_eq!(header.applications, [[task(3, 2)], [task(1, 1)]]);
        let (header, _) = of("#Paraver (x):7_ms:0:1:1(1:0)").unwrap();
        assert_eq!((header.unit, header.cpus.len()), (1_000_000, 0));
    }

    #[test]
    fn what_a_first_line_may_not_say_is_refused() {
        for line in [
            "#Paraver (",
            "#Paraver ()",
            "#Paraver ():x",
            "#Paraver ():1_ps:0:0",
            "#Paraver ():1_ns:2(1):0",
            "#Paraver ():1_ns:1(4000000000):0",
            "#Paraver ():1_ns:4000000000:0",
            "#Paraver ():1:0:1",
            "#Paraver ():1:0:1:2(1:0)",
            "#Paraver ():1:0:99999999999:1(1:0)",
            "#Paraver ():1:1:1:1(1:2)",
            "#Paraver ():99999999999999999_ms:1:1:1(1:1)",
        ] {
            assert!(of(line).is_err(), "{line}");
        }
    }
}
