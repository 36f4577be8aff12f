//! Notifications to the submitter of a gang.

use super::{Center, Note};
use crate::clients::ClientId;
use crate::control::{GangStatus, Reply, Stage};
use crate::courier::Courier;
use idlewave_gang::GangId;
use idlewave_units::Nanos;

impl<C: Courier> Center<C> {
    /// Admits gangs, registers ends, and notifies submitters.
    pub(super) fn look(&mut self, now: Nanos) {
        self.desk.advance(now);
        for gang in self.desk.gangs(now) {
            let id = GangId::new(gang.gang);
            self.tell_of_deadlock(id, &gang);
            let state = (gang.stage, gang.ending);
            if self.told.insert(id, state) == Some(state) {
                continue;
            }
            self.notes.push(Note::Gang(gang.gang, gang.stage));
            let (stage, ending) = state;
            self.tell(id, &Reply::Changed { stage, ending });
            let tied = self.tied.values().any(|gangs| gangs.contains(&id));
            if gang.stage == Stage::Ended && !tied {
                self.told.remove(&id);
                self.desk.over(id);
            }
        }
        let (desk, told) = (&self.desk, &mut self.deadlocks);
        told.retain(|gang, _| desk.knows(*gang));
    }

    /// What the service itself found: the submitter of an MPI program looks at the calls.
    fn tell_of_deadlock(&mut self, id: GangId, gang: &GangStatus) {
        if gang.waits.is_empty() {
            self.deadlocks.remove(&id);
        } else if self.deadlocks.get(&id) != Some(&gang.waits) {
            let waits = gang.waits.clone();
            self.deadlocks.insert(id, waits.clone());
            self.tell(id, &Reply::Deadlocked { waits });
        }
    }

    fn tell(&mut self, gang: GangId, reply: &Reply) {
        let tied = self.tied.iter().filter(|(_, gangs)| gangs.contains(&gang));
        let of: Vec<ClientId> = tied.map(|(client, _)| *client).collect();
        for client in of {
            self.clients.say(client, reply);
        }
    }
}
