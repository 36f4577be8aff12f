//! What a rank did as a sequence of phases: exchanges of messages and collectives, each with the
//! computation before it.

use crate::script::{RankScript, Script};
use idlewave_simulate::collectives::Kind;

/// What a phase does, without its times. Equal values are the same thing done again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// From the first post until all messages are completed: peers and bytes, in posting order.
    Exchange {
        sends: Vec<(u32, u64)>,
        receives: Vec<(u32, u64)>,
    },
    Collective {
        kind: Kind,
        bytes: u64,
        root: u32,
        /// Index into `Script::members`.
        comm: u32,
    },
}

/// A phase of a rank.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    pub what: What,
    /// Computation before it, nanoseconds.
    pub work: u64,
    /// Computation while its messages were in flight, nanoseconds.
    pub meanwhile: u64,
    /// Start of its first call and end of its last, nanoseconds from time zero.
    pub span: (u64, u64),
    /// Row of its first call in the table `calls`.
    pub row: u32,
}

/// Why a rank has no phases, and the row of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoPhases {
    pub row: u32,
    pub reason: &'static str,
}

/// An exchange that is not finished.
struct Open {
    phase: Phase,
    /// Message ends still to be completed.
    waiting: usize,
}

/// The phases of a rank.
pub(crate) fn phases(script: &Script, told: &RankScript) -> Result<Vec<Phase>, NoPhases> {
    let mut out: Vec<Phase> = Vec::new();
    let mut open: Option<Open> = None;
    // A send that nobody waits for is finished when posted.
    let mut waited = vec![false; told.posts.len()];
    for &index in &told.completed {
        waited[index as usize] = true;
    }
    for activity in &told.activities {
        let fail = |reason| NoPhases {
            row: activity.row,
            reason,
        };
        if activity.lane > 0 {
            return Err(fail("a second thread communicates"));
        }
        if let Some(id) = activity.collective {
            if open.is_some() {
                return Err(fail("a collective while messages are under way"));
            }
            let played = &script.collectives[id as usize];
            out.push(Phase {
                what: What::Collective {
                    kind: played.call.kind,
                    bytes: played.call.piece,
                    root: played.call.root,
                    comm: played.comm,
                },
                work: activity.work,
                meanwhile: 0,
                span: activity.span,
                row: activity.row,
            });
            continue;
        }
        let mut exchange = match open.take() {
            Some(mut open) => {
                open.phase.meanwhile += activity.work;
                open.phase.span.1 = activity.span.1;
                open
            }
            None => Open {
                phase: Phase {
                    what: What::Exchange {
                        sends: Vec::new(),
                        receives: Vec::new(),
                    },
                    work: activity.work,
                    meanwhile: 0,
                    span: activity.span,
                    row: activity.row,
                },
                waiting: 0,
            },
        };
        if let What::Exchange { sends, receives } = &mut exchange.phase.what {
            for index in activity.posts.clone() {
                let post = &told.posts[index as usize];
                let list = if post.sends {
                    &mut *sends
                } else {
                    &mut *receives
                };
                list.push((post.peer, post.bytes));
                exchange.waiting += usize::from(waited[index as usize]);
            }
        }
        exchange.waiting = exchange.waiting.saturating_sub(activity.completed.len());
        match exchange.waiting {
            0 => out.push(exchange.phase),
            _ => open = Some(exchange),
        }
    }
    match open {
        None => Ok(out),
        Some(open) => Err(NoPhases {
            row: open.phase.row,
            reason: "messages that are never all completed",
        }),
    }
}
