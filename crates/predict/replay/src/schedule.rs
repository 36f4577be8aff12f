//! A recorded program as a schedule of single operations.
//!
//! Each thread keeps the order of its calls. A message starts where it was posted, and its thread
//! waits for it where it was completed. Each (communicator, tag) pair has its own tag in the
//! schedule, and so do the collectives of each communicator. Between two ranks, messages of one tag
//! keep their order on both sides, so every receive gets what it got in the run, even a receive
//! from any source.

use crate::ReplayError;
use crate::script::{Activity, RankScript, Script, Taken};
use idlewave_run::{Ledger, RunReader};
use idlewave_simulate::collectives::Algorithms;
use idlewave_simulate::goal::{
    BuildError, Operation, OperationId, Parameters, Schedule, ScheduleBuilder,
};
use std::collections::BTreeMap;

/// How a recorded program becomes a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayOptions {
    /// What becomes of the time that others took.
    pub taken: Taken,
    /// How collectives are resolved.
    pub algorithms: Algorithms,
    /// The time that a call took beyond messages of these costs, counted from when those it waited
    /// for had arrived, becomes work after the call: every call then ends when it did in the run.
    /// `None` leaves it out: messages alone decide how long calls take.
    pub excess_over: Option<Parameters>,
}

/// A recorded program as a schedule.
#[derive(Clone, Debug)]
pub struct Replay {
    /// What every rank does.
    pub schedule: Schedule,
    /// When each rank ended in the run, in nanoseconds from when the first one left MPI_Init: when
    /// it entered MPI_Finalize, or when its last call ended.
    pub measured_ns: Vec<u64>,
    /// How long each rank computes, in nanoseconds, without the excess of calls.
    pub work_ns: Vec<u64>,
    /// Time taken from each rank while it computed, in nanoseconds; the schedule does not count it
    /// as work.
    pub taken_ns: Vec<u64>,
    /// CPUs of each rank in the schedule: the most threads of a rank that called MPI, at most 256.
    pub cpus_per_rank: u32,
    /// What is in the run but not in the schedule, and what that means.
    pub left_out: Ledger,
}

/// The schedule of a run's recorded program.
///
/// Memory: what [`idlewave_explain::program`] needs for all ranks, the script of one rank (64 bytes
/// per call and 36 per message end), and the schedule.
///
/// # Errors
/// Runs that cannot be read or have no recorded program, and schedules that are too large.
pub fn schedule_of(run: &RunReader, options: &ReplayOptions) -> Result<Replay, ReplayError> {
    let mut script = Script::read(run, options.taken)?;
    script.excess_over = options.excess_over.map(|c| (c, options.algorithms.clone()));
    write(&script, &options.algorithms)
}

pub(crate) fn write(script: &Script, algorithms: &Algorithms) -> Result<Replay, ReplayError> {
    let failed = |rank| move |error| ReplayError::Build { rank, error };
    let mut builder = ScheduleBuilder::new(script.ranks).map_err(failed(0))?;
    let (mut measured_ns, mut work_ns, mut taken_ns) = (Vec::new(), Vec::new(), Vec::new());
    let mut cpus_per_rank = 1;
    for rank in 0..script.ranks {
        let told = script.rank(rank);
        measured_ns.push(told.end);
        work_ns.push(told.worked);
        taken_ns.push(told.taken);
        cpus_per_rank = cpus_per_rank.max(told.rest.len().min(256) as u32);
        Writer::new(&mut builder, script, algorithms, rank, &told)
            .write()
            .and_then(|()| builder.end_rank())
            .map_err(failed(rank))?;
    }
    let schedule = builder.finish().map_err(failed(script.ranks - 1))?;
    Ok(Replay {
        schedule,
        measured_ns,
        work_ns,
        taken_ns,
        cpus_per_rank,
        left_out: script.left_out.clone(),
    })
}

/// What the next operation of a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Start(OperationId),
    End(OperationId),
}

struct Writer<'a> {
    builder: &'a mut ScheduleBuilder,
    script: &'a Script,
    algorithms: &'a Algorithms,
    rank: u32,
    told: &'a RankScript,
    /// What each thread waits for next.
    front: Vec<Vec<After>>,
    /// Operations of posts that are not completed yet.
    open: BTreeMap<u32, OperationId>,
}

impl<'a> Writer<'a> {
    fn new(
        builder: &'a mut ScheduleBuilder,
        script: &'a Script,
        algorithms: &'a Algorithms,
        rank: u32,
        told: &'a RankScript,
    ) -> Self {
        Writer {
            builder,
            script,
            algorithms,
            rank,
            told,
            front: vec![Vec::new(); told.rest.len().max(1)],
            open: BTreeMap::new(),
        }
    }

    fn write(&mut self) -> Result<(), BuildError> {
        let told = self.told;
        for activity in &told.activities {
            self.compute(activity.lane, activity.work)?;
            self.messages(activity)?;
            if activity.collective.is_some() {
                self.collective(activity)?;
            }
            self.compute(activity.lane, activity.excess)?;
        }
        for (lane, &work) in told.rest.iter().enumerate().take(256) {
            self.compute(lane as u8, work)?;
        }
        Ok(())
    }

    /// Appends an operation that waits for the front of its thread.
    fn push(&mut self, lane: u8, operation: Operation) -> Result<OperationId, BuildError> {
        let id = self.builder.push(operation.cpu(lane))?;
        for after in &self.front[usize::from(lane)] {
            match *after {
                After::Start(earlier) => self.builder.irequires(id, earlier)?,
                After::End(earlier) => self.builder.requires(id, earlier)?,
            }
        }
        Ok(id)
    }

    fn compute(&mut self, lane: u8, ns: u64) -> Result<(), BuildError> {
        if ns > 0 {
            let id = self.push(lane, Operation::calc(ns))?;
            self.front[usize::from(lane)] = vec![After::End(id)];
        }
        Ok(())
    }

    /// Posts messages one after the other, then completes those that the call completed.
    fn messages(&mut self, activity: &Activity) -> Result<(), BuildError> {
        let told = self.told;
        for index in activity.posts.clone() {
            let post = told.posts[index as usize];
            let operation = match post.sends {
                true => Operation::send(post.bytes, post.peer),
                false => Operation::recv(post.bytes, post.peer),
            };
            let id = self.push(activity.lane, operation.tag(post.tag))?;
            self.front[usize::from(activity.lane)] = vec![After::Start(id)];
            self.open.insert(index, id);
        }
        let completed = activity.completed.start as usize..activity.completed.end as usize;
        for index in &told.completed[completed] {
            // If clocks contradict each other, a message may be completed before it was posted:
            // nothing waits for it then.
            if let Some(id) = self.open.remove(index) {
                let front = &mut self.front[usize::from(activity.lane)];
                front.retain(|after| *after != After::Start(id));
                front.push(After::End(id));
            }
        }
        Ok(())
    }

    fn collective(&mut self, activity: &Activity) -> Result<(), BuildError> {
        let script = self.script;
        let Some(played) = activity
            .collective
            .map(|id| &script.collectives[id as usize])
        else {
            return Ok(());
        };
        let members = &script.members[played.comm as usize];
        let Some(own) = members.iter().position(|&r| r == self.rank) else {
            return Ok(());
        };
        let lane = activity.lane;
        for step in played.call.steps(own as u32, self.algorithms) {
            let mut ends = Vec::new();
            for (from, bytes) in step.from {
                let receive = Operation::recv(bytes, members[from as usize]).tag(played.tag);
                ends.push(After::End(self.push(lane, receive)?));
            }
            for (to, bytes) in step.to {
                let send = Operation::send(bytes, members[to as usize]).tag(played.tag);
                ends.push(After::End(self.push(lane, send)?));
            }
            if !ends.is_empty() {
                self.front[usize::from(lane)] = ends;
            }
        }
        Ok(())
    }
}
