//! Collectives: the calls of all members that make up one operation.
//!
//! Members call the collectives of a communicator in the same order, so the `sequence`-th
//! collective is the same on all of them (MPI 4.1, section 6.14).

use super::lanes::{Call, Entry, Instance, Program};
use idlewave_run::Ledger;
use idlewave_run::tables::OperationClass as Class;
use std::num::NonZeroU32;
use std::ops::Range;

impl Program {
    /// Groups the calls of every collective.
    pub(super) fn make_instances(&mut self, entries: &[Entry], losses: &mut Ledger) {
        let mut all: Vec<(u32, u32, u32, u32)> = Vec::with_capacity(entries.len());
        for (lane, l) in self.lanes.iter_mut().enumerate() {
            for (i, call) in l.calls.iter().enumerate() {
                let Some(entry) = call.instance.map(|n| &entries[n.get() as usize - 1]) else {
                    continue;
                };
                all.push((entry.comm, entry.sequence, lane as u32, i as u32));
                l.collectives.entry(entry.comm).or_default().push(i as u32);
            }
        }
        all.sort_unstable();
        let (mut partial, mut mixed) = (0, 0);
        self.members = all.iter().map(|a| (a.2, a.3)).collect();
        let mut from = 0;
        for group in all.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let members = from..from + group.len() as u32;
            from = members.end;
            let instance = self.instance(group, entries, members, &mut partial, &mut mixed);
            self.instances.push(instance);
            let number = NonZeroU32::new(self.instances.len() as u32);
            for &(_, _, lane, call) in group {
                self.lanes[lane as usize].calls[call as usize].instance = number;
            }
        }
        let of = |class| self.instances.iter().filter(|i| i.class == class).count() as u64;
        losses.enter(
            "non-blocking collectives",
            of(Class::StartCollective),
            "waits for them are not explained: the completing call is not recorded",
            "nothing: the time in those calls is counted as communicating",
        );
        losses.enter(
            "neighbourhood collectives",
            of(Class::Neighbour),
            "waits in them are not explained: the neighbours are not recorded",
            "nothing: the time in those calls is counted as communicating",
        );
        losses.enter(
            "collectives not recorded on all their members",
            partial,
            "waits in them are not explained",
            "check whether ranks ended early, or calls were lost",
        );
        losses.enter(
            "collectives whose members called different functions",
            mixed,
            "waits in them are not explained",
            "check whether calls were lost before them",
        );
    }

    fn instance(
        &self,
        group: &[(u32, u32, u32, u32)],
        entries: &[Entry],
        members: Range<u32>,
        partial: &mut u64,
        mixed: &mut u64,
    ) -> Instance {
        let (comm, _, first_lane, first_call) = group[0];
        let call = |&(_, _, lane, call): &(u32, u32, u32, u32)| self.call(lane, call);
        let root = |entry| {
            let n = call(entry).instance?;
            entries[n.get() as usize - 1].root
        };
        let (mut last_enter, mut last) = (0, first_lane);
        for member in group {
            if call(member).begin > last_enter {
                (last_enter, last) = (call(member).begin, member.2);
            }
        }
        let operation = self.call(first_lane, first_call).operation;
        let ranks_are_distinct = group
            .windows(2)
            .all(|pair| self.lanes[pair[0].2 as usize].rank != self.lanes[pair[1].2 as usize].rank);
        let whole = self
            .communicators
            .get(&comm)
            .is_some_and(|c| c.len() == group.len() && ranks_are_distinct);
        let same = group.iter().all(|m| call(m).operation == operation);
        let class = if !whole {
            *partial += 1;
            Class::Other
        } else if !same {
            *mixed += 1;
            Class::Other
        } else {
            match self.class(self.call(first_lane, first_call)) {
                // All members take part in creating a communicator.
                Class::Communicator => Class::AllToAll,
                other => other,
            }
        };
        Instance {
            class,
            comm,
            root: group.iter().find_map(root),
            members,
            last_enter,
            last,
        }
    }

    /// The collective that a call belongs to.
    pub fn instance_of(&self, call: &Call) -> Option<&Instance> {
        call.instance.map(|n| &self.instances[n.get() as usize - 1])
    }

    /// Calls of a collective, as lane and index.
    pub fn members_of(&self, instance: &Instance) -> &[(u32, u32)] {
        &self.members[instance.members.start as usize..instance.members.end as usize]
    }
}
