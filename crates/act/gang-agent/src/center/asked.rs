//! Requests to the controller, and its answers.

use super::Center;
use crate::clients::{ClientId, Word};
use crate::control::{NodeStatus, Reply, Request, RowStatus, Status};
use crate::courier::Courier;
use crate::desk::{Job, NodeFacts};
use idlewave_freeze::clock;
use idlewave_gang::GangId;
use idlewave_gang::matrix::{Cell, RowId};
use idlewave_gang::policy::Class;
use idlewave_gang::protocol::Slot;
use idlewave_sys::Uid;
use idlewave_units::{Nanos, NodeId};
use std::collections::BTreeSet;

/// The most time that a new or ended gang costs the agents, which also have real-time priority:
/// they read all gangs and list the processes of their node.
const ELSEWHERE: Nanos = Nanos::from_millis(1);

impl<C: Courier> Center<C> {
    pub(super) fn word(&mut self, client: ClientId, word: Word) {
        self.news = true;
        let (request, user) = match word {
            Word::Asked(request, user) => (request, user),
            Word::Gone => {
                // The submitter of these gangs has disconnected: they end with it, or continue
                // unswitched.
                for gang in self.tied.remove(&client).unwrap_or_default() {
                    self.told.remove(&gang);
                    self.desk.over(gang);
                }
                return;
            }
        };
        if let Request::Submit { .. } | Request::Cancel { .. } | Request::Release { .. } = request {
            // All agents are told and look for the gang's processes, which costs them as much time.
            self.clients.charge(&BTreeSet::from([user]), ELSEWHERE);
        }
        let reply = self
            .answer(client, request, user)
            .unwrap_or_else(Reply::Failed);
        self.clients.say(client, &reply);
    }

    fn answer(&mut self, client: ClientId, request: Request, user: Uid) -> Result<Reply, String> {
        let now = clock::now();
        let may = user == Uid::ROOT || user == self.settings.owner;
        let brings = may || self.settings.operators.contains(&user);
        let refused = |what: &str| {
            Err(format!(
                "{what} as user {user}: only root and the service's user (user {}) may",
                self.settings.owner
            ))
        };
        match request {
            Request::Submit {
                name,
                mark,
                user: of,
                interactive,
                weight,
                keep,
                contexts,
            } => {
                let of = Uid::new(of);
                if of != user && !brings {
                    return refused(&format!("submit processes of user {of}"));
                }
                let class = if interactive {
                    Class::Interactive
                } else {
                    Class::Production
                };
                let job = Job {
                    name,
                    user: of,
                    own: !brings,
                    mark,
                    class,
                    weight,
                    contexts,
                };
                let gang = self.desk.submit(job, now).map_err(|e| e.to_string())?;
                if !keep {
                    self.tied.entry(client).or_default().push(gang);
                }
                Ok(Reply::Submitted { gang: gang.get() })
            }
            Request::Observed {
                gang,
                initialised,
                activity,
            } => {
                let id = GangId::new(gang);
                if !self.tied.get(&client).is_some_and(|of| of.contains(&id)) {
                    return Err(format!(
                        "observe gang {gang}: another connection submitted it"
                    ));
                }
                if self.protocol.idle() {
                    // The current turn counts up to now.
                    self.account(self.protocol.running(), now);
                }
                self.desk.observed(id, initialised, activity);
                Ok(Reply::Done)
            }
            Request::Cancel { gang } => {
                let asked = if may { Uid::ROOT } else { user };
                self.desk.cancel(gang, asked).map_err(|e| e.to_string())?;
                Ok(Reply::Done)
            }
            Request::Release { mark } => {
                let asked = if brings { Uid::ROOT } else { user };
                self.desk.release(&mark, asked).map_err(|e| e.to_string())?;
                Ok(Reply::Done)
            }
            Request::Drain { on } if may => {
                self.desk.drain(on);
                Ok(Reply::Done)
            }
            Request::Drain { .. } => refused("drain"),
            Request::Status => Ok(Reply::Status(Box::new(self.status(now)))),
            Request::Stop if may => {
                self.stop = true;
                Ok(Reply::Done)
            }
            Request::Stop => refused("stop the service"),
        }
    }

    fn status(&self, now: Nanos) -> Status {
        let members = self.protocol.members();
        let policy = self.desk.policy();
        let slice = policy.costs().slice(policy.settings());
        let node = |(id, facts): (&NodeId, &NodeFacts)| NodeStatus {
            node: *id,
            host: facts.host.clone(),
            cpus: facts.cpus,
            freezer: facts.freezer.clone(),
            coordinated: members.contains(*id),
            limits: facts.limits.clone(),
            forged: self.forged.get(id).copied().unwrap_or(0),
        };
        Status {
            age: now.saturating_sub(self.began),
            open: self.protocol.idle() || self.protocol.running() != Slot::All,
            draining: self.desk.draining(),
            running: match self.protocol.running() {
                Slot::All => None,
                Slot::Gang(row) => Some(row.get()),
            },
            slice: slice.length,
            slice_for: slice.cost,
            overhead: policy.settings().overhead,
            contexts: self.settings.desk.copying,
            nodes: self.desk.nodes().iter().map(node).collect(),
            rows: self.desk.matrix().rows().map(|row| self.row(row)).collect(),
            gangs: self.desk.gangs(now),
            switches: self.tallies.status(),
            epoch: self.protocol.epoch().to_string(),
        }
    }

    fn row(&self, row: RowId) -> RowStatus {
        let matrix = self.desk.matrix();
        let cell = |node, slot| {
            matrix.cell(row, node, slot).map(|cell| match cell {
                Cell::Home(gang) => (gang.get(), true),
                Cell::Alternate(gang) => (gang.get(), false),
            })
        };
        let nodes = (0..matrix.nodes()).map(|node| NodeId::new(node as u32));
        RowStatus {
            row: row.get(),
            cells: nodes
                .map(|node| {
                    (0..matrix.slots(node))
                        .map(|slot| cell(node, slot))
                        .collect()
                })
                .collect(),
        }
    }
}
