//! A look as text.

use crate::look::{Doubt, Look, RankLook};
use idlewave_gang::state::{Cause, Collective, Deadlock, Link, Request};
use idlewave_interpose::state::{mode, unknown};
use idlewave_interpose::{StateCollective, StateCount, StatePhase, StateWant, functions};
use std::fmt::Write;

/// The most awaited requests named per rank.
const NAMED: usize = 4;
/// The most unreceived messages listed.
const UNRECEIVED: usize = 8;

impl Look {
    /// The deadlock or suspicion in lines of text: what it is, which ranks wait for which, and
    /// where each rank is. `None` without either.
    pub fn report(&self) -> Option<Vec<String>> {
        let deadlock = self.stuck()?;
        let ranks = deadlock.ranks.len();
        let all = self.ranks.len();
        let mut lines = vec![match self.suspicion() {
            None => format!("deadlock: {ranks} of {all} ranks will never continue"),
            Some((_, Doubt::Polling)) => format!(
                "suspicion: {ranks} of {all} ranks are stuck, but {} only polling and may be waiting for something else",
                self.polling(deadlock)
            ),
            Some((_, Doubt::Slow)) => format!(
                "suspicion: {ranks} of {all} ranks are stuck, but their messages to other nodes may just be slow"
            ),
        }];
        match &deadlock.cause {
            Cause::Cycle { links, .. } => {
                lines.push("each waits for the next:".to_owned());
                lines.extend(links.iter().map(|link| self.link(link)));
                // Requests of one wait may be equal.
                lines.dedup();
            }
            Cause::Knot { links } => {
                lines.push("each waits for any of several, and all of them wait:".to_owned());
                lines.extend(links.iter().take(16).map(|link| self.link(link)));
                lines.dedup();
            }
            Cause::Exited { waits } => {
                lines.push("the awaited rank has ended:".to_owned());
                lines.push(self.link(waits));
            }
            Cause::Mismatch { waits } => {
                lines.push("members of a communicator are in different collectives:".to_owned());
                lines.push(self.link(waits));
            }
            Cause::Unnamed => {}
        }
        for mismatch in self.verdict.iter().flat_map(|v| &v.mismatches) {
            lines.push(format!(
                "  collective {} of {}: rank {} entered {}, rank {} {}",
                mismatch.number,
                self.communicator(mismatch.communicator),
                mismatch.one.0,
                kind(mismatch.one.1),
                mismatch.other.0,
                kind(mismatch.other.1)
            ));
        }
        let unreceived = self.unreceived(deadlock);
        if !unreceived.is_empty() {
            lines.push("sent to them, but never received:".to_owned());
            lines.extend(unreceived);
        }
        lines.extend(self.places());
        Some(lines)
    }

    /// Where each rank is, in lines of text; none before the first rank is seen.
    pub fn places(&self) -> Vec<String> {
        let all = self.ranks.len();
        if all == 0 {
            return Vec::new();
        }
        let mut lines = vec!["where the ranks are:".to_owned()];
        let here = self.ranks.first().map(|rank| &rank.host);
        let several = self.ranks.iter().any(|rank| Some(&rank.host) != here);
        lines.extend(self.ranks.iter().take(64).map(|rank| {
            let host = match several {
                true => format!(" on {}", rank.host),
                false => String::new(),
            };
            format!(
                "  rank {} (process {}{host}): {}",
                rank.rank,
                rank.pid,
                self.place(rank)
            )
        }));
        if all > 64 {
            lines.push(format!("  and {} more", all - 64));
        }
        lines
    }

    /// Messages for ranks that wait for another tag: `rank 1 sent tag 8; rank 0 waits for tag 7
    /// (MPI_COMM_WORLD)`, indented.
    fn unreceived(&self, deadlock: &Deadlock) -> Vec<String> {
        let mut lines = Vec::new();
        let stuck = |rank: &&RankLook| deadlock.ranks.iter().any(|of| of.get() == rank.rank);
        for waits in self.ranks.iter().filter(stuck) {
            for want in &waits.record.wants {
                let StateWant::Receive {
                    communicator,
                    from,
                    tag: Some(wanted),
                    ..
                } = want
                else {
                    continue;
                };
                let senders = self.ranks.iter();
                for sender in senders.filter(|of| from.is_none_or(|from| from == of.rank)) {
                    for (tag, messages) in left_over(sender, waits, *communicator) {
                        if tag == *wanted {
                            continue;
                        }
                        let many = match messages {
                            1 => String::new(),
                            n => format!("{n} messages with "),
                        };
                        lines.push(format!(
                            "  rank {} sent {many}tag {tag}; rank {} waits for tag {wanted} ({})",
                            sender.rank,
                            waits.rank,
                            self.named(*communicator)
                        ));
                    }
                }
            }
        }
        lines.dedup();
        if lines.len() > UNRECEIVED {
            let more = lines.len() - UNRECEIVED;
            lines.truncate(UNRECEIVED);
            lines.push(format!("  and {more} more"));
        }
        lines
    }

    /// The deadlocked ranks that poll: `rank 0 is`, `ranks 0, 2 are`.
    fn polling(&self, deadlock: &Deadlock) -> String {
        let polls = |rank: &&RankLook| {
            let stuck = deadlock.ranks.iter().any(|of| of.get() == rank.rank);
            stuck && rank.record.mode >= mode::POLL_ALL
        };
        let of: Vec<String> = self
            .ranks
            .iter()
            .filter(polls)
            .map(|rank| rank.rank.to_string())
            .collect();
        match of.as_slice() {
            [one] => format!("rank {one} is"),
            several => {
                let more = match several.len().saturating_sub(NAMED) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let named: Vec<&str> = several.iter().take(NAMED).map(String::as_str).collect();
                format!("ranks {}{more} are", named.join(", "))
            }
        }
    }

    /// `rank 0 waits in MPI_Recv for rank 1 (tag 7, MPI_COMM_WORLD)`, indented.
    fn link(&self, link: &Link) -> String {
        let whom = match (link.to, &link.request) {
            (Some(to), Request::Receive(r)) if r.from.is_none() => {
                format!("anyone, as rank {to}")
            }
            (Some(to), _) => format!("rank {to}"),
            (None, _) => "no remaining rank".to_owned(),
        };
        let detail = match &link.request {
            Request::Receive(r) => match r.tag {
                Some(tag) => format!("tag {tag}, {}", self.communicator(r.communicator)),
                None => format!("any tag, {}", self.communicator(r.communicator)),
            },
            Request::Send(s) => match s.tag {
                Some(tag) => format!(
                    "to receive tag {tag}, {}",
                    self.communicator(s.communicator)
                ),
                None => format!("to receive, {}", self.communicator(s.communicator)),
            },
            Request::Collective {
                communicator,
                number,
                ..
            } => format!(
                "collective {number} of {}",
                self.communicator(*communicator)
            ),
            Request::Outside => "outside the job".to_owned(),
        };
        let call = name(link.call);
        format!("  rank {} waits in {call} for {whom} ({detail})", link.from)
    }

    fn communicator(&self, number: u32) -> String {
        let of = self.communicators.get(number as usize);
        of.map_or_else(|| "a communicator".to_owned(), |(key, _)| self.named(*key))
    }

    /// By its key: communicators other than MPI_COMM_WORLD have no name.
    fn named(&self, key: u64) -> String {
        let of = || {
            let all = self
                .ranks
                .iter()
                .flat_map(|rank| &rank.record.communicators);
            all.filter(|of| of.key == key)
        };
        match of().next() {
            Some(of) if of.world => "MPI_COMM_WORLD".to_owned(),
            Some(of) => format!("communicator {:04x} of {} ranks", key & 0xffff, of.members),
            None => format!("communicator {:04x}", key & 0xffff),
        }
    }

    /// A rank's activity: `in MPI_Recv from rank 1 (tag 7, MPI_COMM_WORLD)`.
    pub fn place(&self, rank: &RankLook) -> String {
        let record = &rank.record;
        let mut text = match record.phase {
            _ if rank.gone && record.phase != StatePhase::Finalised => "has ended".to_owned(),
            StatePhase::Running | StatePhase::Initialising
                if record.unknown & unknown::TORN != 0 =>
            {
                format!("not tracked: {}", reasons(record.unknown))
            }
            StatePhase::Initialising => "in MPI_Init".to_owned(),
            StatePhase::Finalising => "in MPI_Finalize".to_owned(),
            StatePhase::Finalised => "past MPI_Finalize".to_owned(),
            StatePhase::Aborted => "in MPI_Abort".to_owned(),
            StatePhase::Running if record.unknown != 0 => {
                format!("not tracked: {}", reasons(record.unknown))
            }
            StatePhase::Running if record.mode == mode::NONE => "in no blocking call".to_owned(),
            StatePhase::Running => {
                let call = name(record.function);
                let verb = if record.mode >= mode::POLL_ALL {
                    "polls with"
                } else {
                    "in"
                };
                let mut text = format!("{verb} {call}");
                let of = record.wants.iter().take(NAMED).map(|want| self.want(want));
                let of: Vec<String> = of.collect();
                if !of.is_empty() {
                    let _ = write!(text, " {}", of.join(", "));
                }
                if record.wants.len() > NAMED {
                    let _ = write!(text, " and {} more", record.wants.len() - NAMED);
                }
                text
            }
        };
        if rank.stopped {
            text.push_str("; stopped by a signal");
        }
        text
    }

    fn want(&self, want: &StateWant) -> String {
        let tagged =
            |tag: &Option<i32>| tag.map_or("any tag".to_owned(), |tag| format!("tag {tag}"));
        match want {
            StateWant::Receive {
                communicator,
                from,
                tag,
                ..
            } => {
                let from = from.map_or("anyone".to_owned(), |from| format!("rank {from}"));
                format!(
                    "from {from} ({}, {})",
                    tagged(tag),
                    self.named(*communicator)
                )
            }
            StateWant::Send {
                communicator,
                to,
                tag,
                ..
            } => format!(
                "to rank {to} ({}, {})",
                tagged(tag),
                self.named(*communicator)
            ),
            StateWant::Collective {
                communicator,
                number,
                ..
            } => format!("(collective {number} of {})", self.named(*communicator)),
        }
    }
}

/// Messages sent from one rank to another and not received, by tag, if tags are known.
fn left_over(sender: &RankLook, receiver: &RankLook, communicator: u64) -> Vec<(i32, u64)> {
    let pair = |of: &RankLook, peer: u32| -> Option<(StateCount, StateCount)> {
        let mut all = of.record.pairs.iter();
        let pair = all.find(|pair| pair.communicator == communicator && pair.peer == peer)?;
        Some((pair.sent.clone(), pair.received.clone()))
    };
    let Some((StateCount::Tags(sent), _)) = pair(sender, receiver.rank) else {
        return Vec::new();
    };
    let received = match pair(receiver, sender.rank) {
        Some((_, StateCount::Tags(received))) => received,
        Some((_, StateCount::Sum(_))) => return Vec::new(),
        None => Vec::new(),
    };
    let taken = |tag: i32| {
        let of_tag = received.iter().filter(|(of, _)| *of == tag);
        of_tag.map(|(_, messages)| *messages).sum::<u64>()
    };
    sent.into_iter()
        .map(|(tag, messages)| (tag, messages.saturating_sub(taken(tag))))
        .filter(|(_, messages)| *messages > 0)
        .collect()
}

/// Name of a call by its number.
fn name(call: u16) -> &'static str {
    functions()
        .get(usize::from(call))
        .map_or("a call", |f| f.name)
}

fn kind(of: Collective) -> String {
    let rooted = |which: u16, root: idlewave_units::Rank| {
        let of = StateCollective {
            which,
            ..StateCollective::default()
        };
        format!("{} with root {root}", of.name())
    };
    match of {
        Collective::Barrier => "MPI_Barrier".to_owned(),
        Collective::FromRoot { which, root } | Collective::ToRoot { which, root } => {
            rooted(which, root)
        }
        Collective::AllToAll(which) | Collective::Other(which) => StateCollective {
            which,
            ..StateCollective::default()
        }
        .name(),
    }
}

fn reasons(bits: u32) -> String {
    let of = [
        (unknown::THREADS, "several threads may call MPI at a time"),
        (
            unknown::FULL,
            "it has more communicators, partners or receives than its page holds",
        ),
        (unknown::FAILED, "a call returned an error"),
        (
            unknown::OUTSIDE,
            "it communicates with processes outside MPI_COMM_WORLD",
        ),
        (
            unknown::UNCOUNTED,
            "it cancelled a send, or used MPI_Isendrecv",
        ),
        (unknown::TORN, "its program truncated its state file"),
    ];
    let of: Vec<&str> = of
        .iter()
        .filter(|(bit, _)| bits & bit != 0)
        .map(|(_, why)| *why)
        .collect();
    of.join(", ")
}
