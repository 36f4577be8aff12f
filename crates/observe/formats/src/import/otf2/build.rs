//! From events to rows.

use super::anchor::Anchor;
use super::clock::nanoseconds;
use super::definitions::{Definitions, Region};
use super::lane::{DEEPEST, Lane, MOST_ENDS, OpenCall};
use super::local::Local;
use super::losses::Losses;
use super::records::{Collective, Event, Message};
use super::requests::{self, Open, Requests};
use super::world::World;
use crate::import::app::{App, Call, Thread, ThreadId};
use crate::import::error::ImportError;
use idlewave_run::RunWriter;
use idlewave_run::tables::{Direction, TaskKind, Transfer};
use idlewave_units::{Bytes, Pid, Rank};
use std::collections::HashMap;

/// A run that is being built.
pub(super) struct Build {
    pub app: App,
    pub ticks_per_second: u64,
    pub world: World,
    /// Threads of the run by location.
    threads: HashMap<u64, (ThreadId, Option<Rank>)>,
    /// Events that the definitions announce, by location.
    announced: HashMap<u64, u64>,
    regions: HashMap<u32, Region>,
    names: HashMap<u32, String>,
    /// Number of the next request of a process.
    next_request: u64,
    pub events: u64,
    /// Times of the first and the last event.
    pub span: Option<(u64, u64)>,
    /// Whether the clock of a location was corrected.
    pub corrected: bool,
    /// Which thread of a rank called the last collective of a communicator.
    collectives: HashMap<(Rank, u32), ThreadId>,
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
        let ticks = definitions.clock.map(|clock| clock.ticks_per_second);
        let ticks_per_second = ticks
            .filter(|ticks| *ticks > 0)
            .ok_or_else(|| lacks("the definitions do not say how fast the clock ticks"))?;
        if definitions.locations.is_empty() {
            return Err(lacks("the definitions have no locations"));
        }
        let mut app = App::begin(run)?;
        let world = World::of(definitions, &mut app);
        let used = definitions.regions.values().map(|region| region.name);
        let name = |number: u32| Some((number, definitions.text(number)?.to_owned()));
        let mut build = Self {
            app,
            ticks_per_second,
            world,
            threads: HashMap::new(),
            announced: HashMap::new(),
            names: used.filter_map(name).collect(),
            regions: definitions.regions.clone(),
            next_request: 0,
            events: 0,
            span: None,
            corrected: false,
            collectives: HashMap::new(),
            losses: Losses::default(),
        };
        build.add_threads(definitions);
        Ok(build)
    }

    fn add_threads(&mut self, definitions: &Definitions) {
        let processes = self.world.processes(definitions);
        let threads: usize = processes.iter().map(Vec::len).sum();
        self.losses.no_threads = (definitions.locations.len() - threads) as u64;
        for (process, locations) in (0..).zip(processes) {
            let mut first = None;
            for (place, number) in (0..).zip(locations) {
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
                self.threads.insert(number, (self.app.add(thread), rank));
                self.announced.insert(number, location.events);
            }
        }
    }

    /// Locations by process, in the order in which they are read.
    pub(super) fn processes(&self, definitions: &Definitions) -> Vec<Vec<u64>> {
        self.world.processes(definitions)
    }

    /// A location whose events come next.
    pub(super) fn lane(&mut self, location: u64, local: Local) -> Lane {
        let (thread, rank) = self.threads[&location];
        self.corrected |= !local.offsets.is_empty();
        self.losses.files += 1;
        Lane {
            location,
            thread,
            rank,
            local,
            now_ns: 0,
            events: 0,
            regions: Vec::new(),
            too_deep: 0,
            call: None,
        }
    }

    /// A location has no file of events.
    pub(super) fn no_events(&mut self, location: u64) -> Result<(), ImportError> {
        let announced = self.announced.get(&location).copied().unwrap_or(0);
        self.losses.missing_files += u64::from(announced > 0);
        self.losses.missing_events += announced;
        Ok(())
    }

    /// Takes an event.
    pub(super) fn take(
        &mut self,
        lane: &mut Lane,
        requests: &mut Requests,
        ticks: u64,
        event: &Event,
    ) -> Result<(), ImportError> {
        self.events += 1;
        lane.events += 1;
        let now_ns = nanoseconds(lane.local.offsets.correct(ticks), self.ticks_per_second);
        self.losses.backwards += u64::from(now_ns < lane.now_ns);
        lane.now_ns = now_ns.max(lane.now_ns);
        let (first, last) = self.span.get_or_insert((lane.now_ns, lane.now_ns));
        (*first, *last) = ((*first).min(lane.now_ns), (*last).max(lane.now_ns));
        match *event {
            Event::Enter(region) => self.enter(lane, lane.local.regions.global(region)),
            Event::Leave(region) => return self.leave(lane, lane.local.regions.global(region)),
            Event::Send(message) => return self.whole(lane, Direction::Send, message),
            Event::Recv(message) => return self.whole(lane, Direction::Receive, message),
            Event::Isend(message, request) => {
                let end = self.message(lane, Direction::Send, message);
                return self.start(lane, requests, request, end.map(Open::Send));
            }
            Event::IrecvRequest(request) => {
                let open = lane.rank.map(|_| Open::Receive {
                    thread: self.app.thread(lane.thread).pid,
                    posted_ns: begin_of(lane),
                });
                return self.start(lane, requests, request, open);
            }
            Event::IsendComplete(request) => return self.sent(lane, requests, request),
            Event::Irecv(message, request) => {
                return self.received(lane, requests, message, request);
            }
            Event::RequestCancelled(request) => {
                requests.remove(&request);
                self.losses.cancelled += 1;
            }
            Event::CollectiveEnd(collective) => self.collective(lane, collective),
            Event::CollectiveRequest(_) => self.number_request(lane),
            Event::CollectiveComplete(_) => self.losses.nonblocking += 1,
            Event::CollectiveBegin | Event::RequestTest => {}
            Event::BufferFlush => self.losses.flushes += 1,
            Event::Metric => self.losses.metrics += 1,
            Event::Other(_) => self.losses.others += 1,
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

    /// One end of a message, without the times of its completion; `None` if it has no place in a run.
    fn message(
        &mut self,
        lane: &mut Lane,
        direction: Direction,
        message: Message,
    ) -> Option<Transfer> {
        let comm = lane.local.comms.global(message.comm);
        let rank = lane.rank;
        let number = rank.and_then(|rank| self.world.comm(comm, rank, &mut self.app));
        let (Some(rank), Some(number)) = (rank, number) else {
            self.losses.foreign += 1;
            return None;
        };
        let peer = self.world.peer(comm, rank, message.peer);
        self.losses.no_peer += u64::from(peer.is_none());
        if let Some(call) = &mut lane.call {
            call.comm = Some(number);
        }
        Some(Transfer {
            rank,
            thread: self.app.thread(lane.thread).pid,
            direction,
            comm: number,
            peer,
            // Tags of C are signed.
            tag: message.tag as i32,
            bytes: Some(Bytes::new(message.bytes)),
            posted_ns: begin_of(lane),
            wait_ns: None,
            completed_ns: None,
        })
    }

    /// A message that the call both starts and completes.
    fn whole(
        &mut self,
        lane: &mut Lane,
        direction: Direction,
        message: Message,
    ) -> Result<(), ImportError> {
        match self.message(lane, direction, message) {
            Some(end) => self.complete(lane, end),
            None => Ok(()),
        }
    }

    /// The present call completes an end of a message.
    fn complete(&mut self, lane: &mut Lane, end: Transfer) -> Result<(), ImportError> {
        let end = Transfer {
            wait_ns: Some(begin_of(lane)),
            completed_ns: Some(lane.now_ns),
            ..end
        };
        match &mut lane.call {
            Some(call) if call.ends.len() < MOST_ENDS => {
                call.ends.push(end);
                Ok(())
            }
            _ => self.app.transfer(end),
        }
    }

    fn number_request(&mut self, lane: &mut Lane) {
        if let Some(call) = &mut lane.call {
            call.request = Some(self.next_request);
        }
        self.next_request += 1;
    }

    /// The present call starts an operation.
    fn start(
        &mut self,
        lane: &mut Lane,
        requests: &mut Requests,
        request: u64,
        open: Option<Open>,
    ) -> Result<(), ImportError> {
        self.number_request(lane);
        let Some(open) = open else {
            return Ok(());
        };
        let before = match requests.len() < requests::MOST {
            true => requests.insert(request, open),
            false => Some(open),
        };
        before.map_or(Ok(()), |before| self.never_completed(before))
    }

    fn sent(
        &mut self,
        lane: &mut Lane,
        requests: &mut Requests,
        request: u64,
    ) -> Result<(), ImportError> {
        match requests.remove(&request) {
            Some(Open::Send(end)) => self.complete(lane, end),
            _ => {
                self.losses.not_started += 1;
                Ok(())
            }
        }
    }

    fn received(
        &mut self,
        lane: &mut Lane,
        requests: &mut Requests,
        message: Message,
        request: u64,
    ) -> Result<(), ImportError> {
        let open = requests.remove(&request);
        // The call that completes it may complete others too: it has no communicator.
        let comm = lane.call.as_ref().and_then(|call| call.comm);
        let end = self.message(lane, Direction::Receive, message);
        if let Some(call) = &mut lane.call {
            call.comm = comm;
        }
        let Some(mut end) = end else {
            return Ok(());
        };
        match open {
            Some(Open::Receive { thread, posted_ns }) => {
                (end.thread, end.posted_ns) = (thread, posted_ns);
            }
            _ => self.losses.not_started += 1,
        }
        self.complete(lane, end)
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
        if let Some(comm) = call.comm {
            let last = self.collectives.insert((rank, comm), lane.thread);
            self.losses.several_threads += u64::from(last.is_some_and(|last| last != lane.thread));
        }
    }

    /// The events of a location end.
    pub(super) fn end(&mut self, mut lane: Lane) -> Result<(), ImportError> {
        if let Some(call) = lane.call.take() {
            self.losses.open_calls += 1;
            for end in call.ends {
                self.app.transfer(end)?;
            }
        }
        self.losses.too_deep += lane.too_deep;
        while let Some((number, begin_ns)) = lane.regions.pop() {
            self.mark(&lane, number, begin_ns, None)?;
        }
        let announced = self.announced.get(&lane.location).copied().unwrap_or(0);
        self.losses.missing_events += announced.saturating_sub(lane.events);
        Ok(())
    }

    /// The events of a process end.
    pub(super) fn end_process(&mut self, requests: Requests) -> Result<(), ImportError> {
        for open in requests.into_values() {
            self.never_completed(open)?;
        }
        self.next_request = 0;
        Ok(())
    }

    fn never_completed(&mut self, open: Open) -> Result<(), ImportError> {
        match open {
            Open::Send(end) => self.app.transfer(end),
            Open::Receive { .. } => {
                self.losses.open_receives += 1;
                Ok(())
            }
        }
    }
}

/// Start of the present call, or the present time where there is none.
fn begin_of(lane: &Lane) -> u64 {
    lane.call.as_ref().map_or(lane.now_ns, |call| call.begin_ns)
}
