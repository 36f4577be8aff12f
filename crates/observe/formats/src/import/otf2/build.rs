//! From events to rows.

use super::anchor::Anchor;
use super::clock::{LAST_NS, nanoseconds};
use super::definitions::{Definitions, Region};
use super::lane::{DEEPEST, Lane, OpenCall};
use super::local::Local;
use super::losses::Losses;
use super::records::{Collective, Event};
use super::requests::{Open, Requests};
use super::world::World;
use crate::import::app::{App, Call, Shifts, Thread, ThreadId};
use crate::import::error::ImportError;
use idlewave_run::RunWriter;
use idlewave_run::tables::{Direction, TaskKind, Transfer};
use idlewave_units::{Bytes, Pid};
use std::collections::HashMap;

/// A run that is being built.
pub(super) struct Build {
    pub app: App,
    pub ticks_per_second: u64,
    pub world: World,
    /// Locations by process, in the order in which they are read.
    pub processes: Vec<Vec<u64>>,
    /// Thread of the run for each location, and how many events the definitions announce.
    threads: HashMap<u64, (ThreadId, u64)>,
    /// The sum of the announced events.
    announced: u64,
    regions: HashMap<u32, Region>,
    names: HashMap<u32, String>,
    pub events: u64,
    /// Times of the first and the last event.
    pub span: Option<(u64, u64)>,
    /// Whether the clock of a location was corrected.
    pub corrected: bool,
    /// The shifts that make the clocks of ranks agree.
    pub shifts: Shifts,
    pub losses: Losses,
}

impl Build {
    pub(super) fn begin(
        anchor: &Anchor,
        definitions: &Definitions,
        run: RunWriter,
    ) -> Result<Self, ImportError> {
        let lacks = |what: &str| ImportError::Lacks {
            path: anchor.definitions(),
            what: what.to_owned(),
            next: "copy the whole archive again: its writer may have been killed".to_owned(),
        };
        let ticks_per_second = definitions
            .ticks_per_second
            .filter(|ticks| *ticks > 0)
            .ok_or_else(|| lacks("the definitions do not say how fast the clock ticks"))?;
        if definitions.locations.is_empty() {
            return Err(lacks("the definitions have no locations"));
        }
        let mut app = App::begin(run)?;
        let world = World::of(definitions, &mut app);
        let processes = world.processes(definitions);
        let used = definitions.regions.values().map(|region| region.name);
        let name = |number: u32| Some((number, definitions.text(number)?.to_owned()));
        let mut build = Self {
            app,
            ticks_per_second,
            world,
            processes,
            threads: HashMap::new(),
            announced: 0,
            names: used.filter_map(name).collect(),
            regions: definitions.regions.clone(),
            events: 0,
            span: None,
            corrected: false,
            shifts: Shifts::default(),
            losses: Losses::default(),
        };
        build.add_threads(definitions);
        Ok(build)
    }

    fn add_threads(&mut self, definitions: &Definitions) {
        let threads: usize = self.processes.iter().map(Vec::len).sum();
        self.losses.no_threads = (definitions.locations.len() - threads) as u64;
        for (process, locations) in (0..).zip(&self.processes) {
            let mut first = None;
            for (place, &number) in (0..).zip(locations) {
                let Some(location) = definitions.locations.get(&number) else {
                    continue;
                };
                let node = self.world.node(location.group);
                let pid = self.app.pid(node, location.thread.map(Pid::new));
                let name = definitions.text(location.name);
                let rank = self.world.rank(number, location.group);
                let thread = Thread {
                    place: [process, place, 0],
                    node,
                    pid,
                    process: *first.get_or_insert(pid),
                    name: name.map_or_else(|| format!("location {number}"), str::to_owned),
                    rank,
                    kind: match rank {
                        Some(_) => TaskKind::Rank,
                        None => TaskKind::Program,
                    },
                };
                let thread = self.app.add(thread);
                self.threads.insert(number, (thread, location.events));
                self.announced = self.announced.saturating_add(location.events);
            }
        }
    }

    /// The share of the archive read so far, from 0 to 1.
    pub(super) fn share(&self) -> f64 {
        (self.events as f64 / self.announced.max(1) as f64).min(1.0)
    }

    /// Begins a location, whose events come next.
    pub(super) fn lane(&mut self, location: u64, local: Local) -> Lane {
        let (thread, announced) = self.threads[&location];
        self.corrected |= !local.offsets.is_empty();
        self.losses.files += 1;
        let (rank, node) = (self.app.thread(thread).rank, self.app.thread(thread).node);
        Lane {
            thread,
            announced,
            rank,
            shift: self.shifts.of(rank, node),
            local,
            now_ns: 0,
            events: 0,
            regions: Vec::new(),
            too_deep: 0,
            call: None,
        }
    }

    /// Notes that a location has no file of events.
    pub(super) fn no_events(&mut self, location: u64) {
        let (_, announced) = self.threads[&location];
        self.losses.missing_files += u64::from(announced > 0);
        self.losses.missing_events(announced);
    }

    /// Moves a location to the time of its next event.
    pub(super) fn at(&mut self, lane: &mut Lane, ticks: u64) {
        let now_ns = nanoseconds(lane.local.offsets.correct(ticks), self.ticks_per_second);
        let now_ns = now_ns.saturating_add(lane.shift.get()).min(LAST_NS);
        self.losses.backwards += u64::from(now_ns < lane.now_ns);
        lane.now_ns = now_ns.max(lane.now_ns);
        let (first, last) = self.span.get_or_insert((lane.now_ns, lane.now_ns));
        (*first, *last) = ((*first).min(lane.now_ns), (*last).max(lane.now_ns));
    }

    /// Takes the event at the current time.
    pub(super) fn take(
        &mut self,
        lane: &mut Lane,
        requests: &mut Requests,
        event: &Event,
    ) -> Result<(), ImportError> {
        self.events += 1;
        lane.events += 1;
        match *event {
            Event::Enter(region) => self.enter(lane, lane.local.regions.global(region)),
            Event::Leave(region) => return self.leave(lane, lane.local.regions.global(region)),
            Event::Send(message) => return self.whole(lane, Direction::Send, message),
            Event::Recv(message) => return self.whole(lane, Direction::Receive, message),
            Event::Isend(message, request) => {
                let end = self.message_of_call(lane, Direction::Send, message);
                return self.start(lane, requests, request, end.map(Open::Send));
            }
            Event::IrecvRequest(request) => {
                let open = lane.rank.map(|_| Open::Receive {
                    thread: self.app.thread(lane.thread).pid,
                    posted_ns: lane.begin_ns(),
                });
                return self.start(lane, requests, request, open);
            }
            Event::IsendComplete(request) => return self.sent(lane, requests, request),
            Event::Irecv(message, request) => {
                return self.received(lane, requests, message, request);
            }
            Event::RequestCancelled(request) => {
                requests.remove(request);
                self.losses.cancelled += 1;
            }
            Event::CollectiveEnd(collective) => self.collective(lane, collective),
            Event::CollectiveRequest => requests.number(lane),
            Event::CollectiveComplete => self.losses.nonblocking += 1,
            Event::CollectiveBegin | Event::RequestTest => {}
            Event::BufferFlush => self.losses.flushes += 1,
            Event::Metric => self.losses.metrics += 1,
            Event::Other => self.losses.others += 1,
        }
        Ok(())
    }

    fn is_artificial(&self, number: u32) -> bool {
        let region = self.regions.get(&number);
        region.is_some_and(|region| region.is_artificial)
    }

    fn enter(&mut self, lane: &mut Lane, number: u32) {
        if self.is_artificial(number) {
            self.losses.artificial += 1;
            return;
        }
        if let Some(call) = &mut lane.call {
            call.within += 1;
            self.losses.within += 1;
            return;
        }
        let region = self.regions.get(&number).filter(|region| region.is_mpi);
        let Some(region) = region else {
            match lane.regions.len() < DEEPEST {
                true => lane.regions.push((number, lane.now_ns)),
                false => lane.too_deep += 1,
            }
            return;
        };
        let name = self.names.get(&region.name).map_or("MPI", String::as_str);
        // TAU writes `MPI_Send()`.
        let name = name.trim_end_matches(['(', ')', ' ']);
        let (operation, class) = self.app.function(name, region.is_collective);
        lane.call = Some(OpenCall {
            region: number,
            operation,
            class,
            begin_ns: lane.now_ns,
            within: 0,
            comm: None,
            root: None,
            sent: None,
            received: None,
            request: None,
            ends: Vec::new(),
        });
    }

    fn leave(&mut self, lane: &mut Lane, number: u32) -> Result<(), ImportError> {
        if self.is_artificial(number) {
            return Ok(());
        }
        match &mut lane.call {
            Some(call) if call.within > 0 => call.within -= 1,
            Some(call) if call.region != number => self.losses.unmatched += 1,
            Some(_) => return self.end_call(lane),
            None if lane.too_deep > 0 => {
                lane.too_deep -= 1;
                self.losses.too_deep += 1;
            }
            None => match lane.regions.last() {
                Some(&(top, begin_ns)) if top == number => {
                    lane.regions.pop();
                    return self.mark(lane, number, begin_ns, Some(lane.now_ns));
                }
                _ => self.losses.unmatched += 1,
            },
        }
        Ok(())
    }

    fn end_call(&mut self, lane: &mut Lane) -> Result<(), ImportError> {
        let Some(call) = lane.call.take() else {
            return Ok(());
        };
        for end in call.ends {
            self.app.transfer(Transfer {
                completed_ns: Some(lane.now_ns),
                ..end
            })?;
        }
        let added = self.app.call(
            lane.thread,
            Call {
                operation: call.operation,
                class: call.class,
                begin_ns: call.begin_ns,
                end_ns: lane.now_ns,
                comm: call.comm,
                root: call.root,
                sent: call.sent,
                received: call.received,
                request: call.request,
            },
        )?;
        self.losses.foreign += u64::from(!added);
        Ok(())
    }

    fn mark(
        &mut self,
        lane: &Lane,
        number: u32,
        begin_ns: u64,
        end_ns: Option<u64>,
    ) -> Result<(), ImportError> {
        let name = self.regions.get(&number).map(|region| region.name);
        let name = name.and_then(|name| self.names.get(&name)).cloned();
        let name = name.unwrap_or_else(|| format!("region {number}"));
        self.app.mark(lane.thread, name, begin_ns, end_ns)
    }

    fn collective(&mut self, lane: &mut Lane, collective: Collective) {
        let comm = lane.local.comms.global(collective.comm);
        let (Some(rank), Some(call)) = (lane.rank, &mut lane.call) else {
            self.losses.foreign += 1;
            return;
        };
        call.comm = self.world.comm(comm, rank, &mut self.app);
        call.root = self.world.root(comm, rank, collective.root);
        call.sent = Some(Bytes::new(collective.sent));
        call.received = Some(Bytes::new(collective.received));
    }

    /// Ends the events of a location.
    pub(super) fn end(&mut self, lane: &mut Lane) -> Result<(), ImportError> {
        if let Some(call) = lane.call.take() {
            self.losses.open_calls += 1;
            for end in call.ends {
                self.app.transfer(end)?;
            }
        }
        self.losses.too_deep += lane.too_deep;
        while let Some((number, begin_ns)) = lane.regions.pop() {
            self.mark(lane, number, begin_ns, None)?;
        }
        let missing = lane.announced.saturating_sub(lane.events);
        self.losses.missing_events(missing);
        Ok(())
    }

    /// Ends the events of a process.
    pub(super) fn end_process(&mut self, requests: Requests) -> Result<(), ImportError> {
        let mut left = requests.left();
        left.try_for_each(|open| self.never_completed(open))
    }
}
