//! Properties of schedules and engine: an engine written as plainly as the rules, max-plus
//! recurrences, relabelled ranks, round trips, damaged files.

#![allow(clippy::unwrap_used)]

use idlewave_simulate::goal::{
    Action, GoalError, Operation, OperationId, Parameters, PerByte, ReadError, Schedule,
    ScheduleBuilder, simulate,
};
use idlewave_simulate::{Graph, step};
use idlewave_units::{Bytes, Nanos};
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};

/// Operations of a rank, and dependencies: later, earlier, whether on the start of the earlier.
#[derive(Clone, Debug, Default)]
struct RankPlan {
    operations: Vec<Operation>,
    dependencies: Vec<(u32, u32, bool)>,
}

impl RankPlan {
    fn push(&mut self, operation: Operation, after: &[u32]) -> u32 {
        let index = self.operations.len() as u32;
        self.operations.push(operation);
        self.dependencies
            .extend(after.iter().map(|&earlier| (index, earlier, false)));
        index
    }
}

fn build(plan: &[RankPlan]) -> Schedule {
    let mut builder = ScheduleBuilder::new(plan.len() as u32).unwrap();
    for rank in plan {
        let ids: Vec<OperationId> = rank
            .operations
            .iter()
            .map(|&operation| builder.push(operation).unwrap())
            .collect();
        for &(later, earlier, at_start) in &rank.dependencies {
            let (later, earlier) = (ids[later as usize], ids[earlier as usize]);
            match at_start {
                true => builder.irequires(later, earlier).unwrap(),
                false => builder.requires(later, earlier).unwrap(),
            }
        }
        builder.end_rank().unwrap();
    }
    builder.finish().unwrap()
}

/// The rules of docs/simulate.md for one CPU and one NIC, implemented as plainly as possible.
/// `None` if something is left over.
struct Plain<'a> {
    plan: &'a [RankPlan],
    parameters: Parameters,
    /// Time, stamp, message (or operation), rank, index.
    queue: BTreeSet<(u64, u64, bool, usize, usize)>,
    stamp: u64,
    missing: Vec<Vec<usize>>,
    cpu: Vec<u64>,
    sending: Vec<u64>,
    receiving: Vec<u64>,
    posted: Vec<VecDeque<usize>>,
    unexpected: Vec<VecDeque<(usize, usize)>>,
}

impl Plain<'_> {
    fn run(plan: &[RankPlan], parameters: Parameters) -> Option<Vec<u64>> {
        let ranks = plan.len();
        let missing = |rank: &RankPlan| {
            let waits = |i: usize| {
                rank.dependencies
                    .iter()
                    .filter(|d| d.0 as usize == i)
                    .count()
            };
            (0..rank.operations.len()).map(waits).collect()
        };
        let mut all = Plain {
            plan,
            parameters,
            queue: BTreeSet::new(),
            stamp: 0,
            missing: plan.iter().map(missing).collect(),
            cpu: vec![0; ranks],
            sending: vec![0; ranks],
            receiving: vec![0; ranks],
            posted: vec![VecDeque::new(); ranks],
            unexpected: vec![VecDeque::new(); ranks],
        };
        for (rank, own) in plan.iter().enumerate() {
            let free = (0..own.operations.len()).filter(|&i| all.missing[rank][i] == 0);
            let free: Vec<usize> = free.collect();
            all.start(rank, free);
        }
        while let Some(event) = all.queue.pop_first() {
            all.event(event);
        }
        let left = all.missing.iter().flatten().any(|&m| m > 0)
            || all.posted.iter().any(|l| !l.is_empty())
            || all.unexpected.iter().any(|l| !l.is_empty());
        (!left).then_some(all.cpu)
    }

    fn start(&mut self, rank: usize, mut freed: Vec<usize>) {
        let kind = |index: usize| match self.plan[rank].operations[index].action {
            Action::Send { .. } => 0,
            Action::Recv { .. } => 1,
            Action::Calc { .. } => 2,
        };
        freed.sort_by_key(|&index| kind(index));
        for index in freed {
            let mut time = self.cpu[rank];
            if kind(index) == 0 {
                time = time.max(self.sending[rank]);
            }
            self.stamp += 1;
            self.queue.insert((time, self.stamp, false, rank, index));
        }
    }

    fn fulfil(&mut self, rank: usize, index: usize, at_start: bool, freed: &mut Vec<usize>) {
        for &(later, earlier, start) in &self.plan[rank].dependencies {
            if earlier as usize == index && start == at_start {
                self.missing[rank][later as usize] -= 1;
                if self.missing[rank][later as usize] == 0 {
                    freed.push(later as usize);
                }
            }
        }
    }

    fn event(&mut self, (time, stamp, is_message, rank, index): (u64, u64, bool, usize, usize)) {
        let p = self.parameters;
        let (o, l, g) = (p.overhead.get(), p.latency.get(), p.gap.get());
        let mut freed = Vec::new();
        match self.plan[rank].operations[index].action {
            Action::Calc { ns } => {
                if self.cpu[rank] > time {
                    self.queue
                        .insert((self.cpu[rank], stamp, false, rank, index));
                    return;
                }
                self.cpu[rank] = time + ns;
                self.fulfil(rank, index, true, &mut freed);
                self.fulfil(rank, index, false, &mut freed);
                self.start(rank, freed);
            }
            Action::Send { bytes, to, tag } => {
                let rest = bytes.saturating_sub(1);
                let per_byte = p.gap_per_byte.cost(rest).unwrap();
                let overhead = p.overhead_per_byte.cost(rest).unwrap();
                let here = if is_message { to as usize } else { rank };
                let nic = if is_message {
                    self.receiving[here]
                } else {
                    self.sending[here]
                };
                let free = self.cpu[here].max(nic);
                if free > time {
                    self.queue.insert((free, stamp, is_message, rank, index));
                    return;
                }
                let waits = bytes > p.rendezvous.get();
                if !is_message {
                    self.cpu[rank] = time + o + overhead;
                    self.sending[rank] = time + g + per_byte;
                    self.stamp += 1;
                    self.queue
                        .insert((time + o + l, self.stamp, true, rank, index));
                    self.fulfil(rank, index, true, &mut freed);
                    if !waits {
                        self.fulfil(rank, index, false, &mut freed);
                    }
                    self.start(rank, freed);
                    return;
                }
                self.cpu[here] = time + o + per_byte.max(overhead);
                self.receiving[here] = time + g + per_byte;
                let fits = |&recv: &usize| match self.plan[here].operations[recv].action {
                    Action::Recv {
                        from, tag: wanted, ..
                    } => from.is_none_or(|f| f as usize == rank) && wanted.is_none_or(|w| w == tag),
                    _ => unreachable!(),
                };
                match self.posted[here].iter().position(fits) {
                    Some(at) => {
                        let recv = self.posted[here].remove(at).unwrap();
                        self.meet(rank, index, here, recv, time, freed);
                    }
                    None => self.unexpected[here].push_back((rank, index)),
                }
            }
            Action::Recv { from, tag, .. } => {
                self.fulfil(rank, index, true, &mut freed);
                let fits = |&(source, send): &(usize, usize)| match self.plan[source].operations
                    [send]
                    .action
                {
                    Action::Send { tag: sent, .. } => {
                        from.is_none_or(|f| f as usize == source) && tag.is_none_or(|w| w == sent)
                    }
                    _ => unreachable!(),
                };
                match self.unexpected[rank].iter().position(fits) {
                    Some(at) => {
                        let (source, send) = self.unexpected[rank].remove(at).unwrap();
                        self.meet(source, send, rank, index, time, freed);
                    }
                    None => {
                        self.posted[rank].push_back(index);
                        self.start(rank, freed);
                    }
                }
            }
        }
    }

    /// A message meets its receive.
    fn meet(
        &mut self,
        source: usize,
        send: usize,
        here: usize,
        recv: usize,
        time: u64,
        mut freed: Vec<usize>,
    ) {
        let Action::Send { bytes, .. } = self.plan[source].operations[send].action else {
            unreachable!()
        };
        let mut there = Vec::new();
        if bytes > self.parameters.rendezvous.get() {
            self.cpu[source] = self.cpu[source].max(time);
            self.sending[source] = self.sending[source].max(time);
            let list = if source == here {
                &mut freed
            } else {
                &mut there
            };
            self.fulfil(source, send, false, list);
        }
        self.fulfil(here, recv, false, &mut freed);
        if source < here {
            self.start(source, there);
            self.start(here, freed);
        } else {
            self.start(here, freed);
            self.start(source, there);
        }
    }
}

/// Small parameters, so that many events coincide.
fn small_parameters() -> impl Strategy<Value = Parameters> {
    let per_byte = prop_oneof![Just("0"), Just("1"), Just("0.3")];
    (
        0_u64..6,
        0_u64..4,
        0_u64..4,
        per_byte.clone(),
        per_byte,
        0_u64..8,
    )
        .prop_map(|(latency, overhead, gap, g, o, rendezvous)| Parameters {
            latency: Nanos::from_nanos(latency),
            overhead: Nanos::from_nanos(overhead),
            gap: Nanos::from_nanos(gap),
            gap_per_byte: g.parse().unwrap(),
            overhead_per_byte: o.parse().unwrap(),
            rendezvous: Bytes::new(rendezvous),
        })
}

/// One message: sender, receiver, tag, bytes, whether the receive takes any source, whether any
/// tag.
type Message = (u32, u32, u32, u64, bool, bool);

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let any = || prop::bool::weighted(0.2);
    prop::collection::vec(
        (0_u32..4, 0_u32..4, 0_u32..3, 0_u64..12, any(), any()),
        1..24,
    )
}

/// Sends and receives of the messages, plus work, with dependencies by `chance`; it may deadlock.
fn plan_of(messages: &[Message], chance: &[u32]) -> Vec<RankPlan> {
    let mut plan = vec![RankPlan::default(); 4];
    for &(from, to, tag, bytes, any_source, any_tag) in messages {
        let send = Operation::send(bytes, to).tag(tag);
        let source = (!any_source).then_some(from);
        let recv = Operation::recv(bytes, source).tag(tag);
        plan[from as usize].push(send, &[]);
        plan[to as usize].push(if any_tag { recv.any_tag() } else { recv }, &[]);
        plan[(from ^ to) as usize].push(Operation::calc(bytes * 3 % 7), &[]);
    }
    let mut chance = chance.iter().cycle();
    for rank in &mut plan {
        let count = rank.operations.len() as u32;
        for _ in 0..count * 3 / 2 {
            let (a, b) = (
                chance.next().unwrap() % count,
                chance.next().unwrap() % count,
            );
            // A later operation waits for an earlier one, so there are no cycles; sometimes it
            // waits twice, sometimes for its start.
            if a != b {
                let at_start = chance.next().unwrap() % 4 == 0;
                rank.dependencies.push((a.max(b), a.min(b), at_start));
            }
        }
    }
    plan
}

fn chances() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(any::<u32>(), 97)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_engine_does_what_the_plain_one_does(
        messages in messages(),
        chances in chances(),
        parameters in small_parameters(),
    ) {
        let plan = plan_of(&messages, &chances);
        let expected = Plain::run(&plan, parameters);
        match simulate(&build(&plan), &parameters) {
            Ok(outcome) => prop_assert_eq!(Some(outcome.finish_ns), expected),
            Err(GoalError::Unfinished(_)) => prop_assert_eq!(None, expected),
            Err(error) => panic!("{error}"),
        }
    }

    /// A second CPU or NIC makes the engine track each operation; nothing else changes.
    #[test]
    fn a_cpu_that_is_not_used_changes_nothing(
        messages in messages(),
        chances in chances(),
        parameters in small_parameters(),
    ) {
        let mut plan = plan_of(&messages, &chances);
        let one = simulate(&build(&plan), &parameters);
        plan.push(RankPlan::default());
        plan[4].push(Operation::calc(0).cpu(1), &[]);
        let two = simulate(&build(&plan), &parameters);
        match (one, two) {
            (Ok(one), Ok(two)) => prop_assert_eq!(one.finish_ns.as_slice(), &two.finish_ns[..4]),
            (one, two) => prop_assert_eq!(one.is_err(), two.is_err()),
        }
    }

    #[test]
    fn schedules_survive_both_forms(messages in messages(), chances in chances(), places in chances()) {
        let mut plan = plan_of(&messages, &chances);
        let mut place = places.iter().cycle();
        for operation in plan.iter_mut().flat_map(|r| &mut r.operations) {
            operation.cpu = (place.next().unwrap() % 3) as u8;
            if !matches!(operation.action, Action::Calc { .. }) {
                operation.nic = (place.next().unwrap() % 3) as u8;
            }
        }
        let schedule = build(&plan);
        let (mut text, mut binary) = (Vec::new(), Vec::new());
        schedule.write_text(&mut text).unwrap();
        schedule.write_binary(&mut binary).unwrap();
        let read = Schedule::read(text.as_slice()).unwrap();
        prop_assert_eq!(&read, &schedule);
        let mut again = Vec::new();
        read.write_binary(&mut again).unwrap();
        prop_assert_eq!(&again, &binary);
        prop_assert_eq!(Schedule::read(binary.as_slice()).unwrap(), schedule);
    }

    #[test]
    fn damaged_files_are_read_or_refused_with_their_place(
        messages in messages(),
        chances in chances(),
        is_text in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..4), 1..4),
    ) {
        let schedule = build(&plan_of(&messages, &chances));
        let mut bytes = Vec::new();
        match is_text {
            true => schedule.write_text(&mut bytes).unwrap(),
            false => schedule.write_binary(&mut bytes).unwrap(),
        }
        for (at, byte, what) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            // In a text, use characters that may occur there.
            let byte = if is_text { b"0123456789-abcrs:{}/* \n"[usize::from(byte) % 22] } else { byte };
            match what {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => drop(bytes.remove(at)),
                _ => bytes.truncate(at),
            }
        }
        let lines = bytes.iter().filter(|b| **b == b'\n').count() as u64 + 1;
        match Schedule::read(bytes.as_slice()) {
            Ok(schedule) => drop(simulate(&schedule, &Parameters::default())),
            Err(ReadError::Text { line, .. }) => prop_assert!((1..=lines).contains(&line)),
            Err(ReadError::Binary { offset, .. }) => prop_assert!(offset <= bytes.len() as u64),
            Err(ReadError::Io(error)) => panic!("{error}"),
        }
    }

    /// Messages in one order for all ranks, each waiting for what its ranks did before, cannot
    /// deadlock. Work of up to 2^40 ns keeps events of different ranks from coinciding, in which
    /// case the lower rank would come first. Every receive names its source: of two messages at the
    /// same time, a receive from any source would take that of the lower rank.
    #[test]
    fn relabelled_ranks_have_the_same_times(
        messages in prop::collection::vec((0_u32..6, 0_u32..6, 0_u64..200_000, 1_u64..1 << 40, 1_u64..1 << 40), 1..40),
        order in Just([0_u32, 1, 2, 3, 4, 5]).prop_shuffle(),
    ) {
        let finish = |label: &dyn Fn(u32) -> u32| {
            let mut plan = vec![RankPlan::default(); 6];
            let mut last = vec![Vec::new(); 6];
            for &(from, to, bytes, before, after) in messages.iter().filter(|m| m.0 != m.1) {
                let (from, to) = (label(from), label(to));
                let mut add = |rank: u32, operation| {
                    let rank = rank as usize;
                    last[rank] = vec![plan[rank].push(operation, &last[rank])];
                };
                add(from, Operation::calc(before));
                add(from, Operation::send(bytes, to));
                add(to, Operation::recv(bytes, from));
                add(to, Operation::calc(after));
            }
            simulate(&build(&plan), &Parameters::default()).unwrap().finish_ns
        };
        let plain = finish(&|rank| rank);
        let turned = finish(&|rank| order[rank as usize]);
        for rank in 0..6 {
            prop_assert_eq!(plain[rank], turned[order[rank] as usize]);
        }
    }
}

/// Only the latency costs time.
fn latency_only(ns: u64) -> Parameters {
    Parameters {
        latency: Nanos::from_nanos(ns),
        overhead: Nanos::ZERO,
        gap: Nanos::ZERO,
        gap_per_byte: PerByte::ZERO,
        overhead_per_byte: PerByte::ZERO,
        rendezvous: Bytes::new(65_535),
    }
}

/// Work of every rank in every step, with one long delay.
fn work(rank: u32, step: u32) -> u64 {
    let mut z = u64::from(rank) << 32 | u64::from(step);
    for _ in 0..3 {
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z ^= z >> 27;
    }
    match (rank, step) {
        (17, 5) => 1_000_000,
        _ => 2_000 + z % 5_000,
    }
}

/// Steps of work and messages to these neighbours; the next step waits for the messages.
fn exchange(ranks: u32, steps: u32, neighbours: impl Fn(u32) -> Vec<u32>) -> Vec<RankPlan> {
    let mut plan = vec![RankPlan::default(); ranks as usize];
    for (rank, own) in (0..ranks).zip(&mut plan) {
        let mut before = Vec::new();
        for step in 0..steps {
            let calc = own.push(Operation::calc(work(rank, step)), &before);
            before.clear();
            for peer in neighbours(rank) {
                before.push(own.push(Operation::send(8, peer).tag(step), &[calc]));
                before.push(own.push(Operation::recv(8, peer).tag(step), &[calc]));
            }
        }
        // Ends when all messages of the last step have arrived.
        own.push(Operation::calc(0), &before);
    }
    plan
}

#[test]
fn an_exchange_is_the_max_plus_recurrence_rank_by_rank() {
    const RANKS: u32 = 50;
    const STEPS: u32 = 40;
    const LATENCY: u64 = 1_300;
    let sides = |rank: u32| vec![(rank + RANKS - 1) % RANKS, (rank + 1) % RANKS];
    let mut times = vec![0_u64; RANKS as usize];
    for k in 0..STEPS {
        let worked: Vec<u64> = (0..RANKS).map(|r| times[r as usize] + work(r, k)).collect();
        let at = |rank: u32| worked[rank as usize];
        for rank in 0..RANKS {
            let [left, right] = [sides(rank)[0], sides(rank)[1]];
            times[rank as usize] = at(rank).max(at(left) + LATENCY).max(at(right) + LATENCY);
        }
    }
    let plan = exchange(RANKS, STEPS, sides);
    let outcome = simulate(&build(&plan), &latency_only(LATENCY)).unwrap();
    assert_eq!(outcome.finish_ns, times);
    // The delay's wave has had 35 steps, one rank each way per step: it has reached every rank.
    let late = times.iter().filter(|t| **t > 1_000_000).count();
    assert_eq!(late, RANKS as usize);
}

#[test]
fn an_exchange_with_itself_too_is_the_bulk_synchronous_engine_rank_by_rank() {
    const RANKS: u32 = 50;
    const STEPS: u32 = 40;
    const LATENCY: u64 = 1_300;
    // In the plain bulk-synchronous engine every rank pays for its own step too: here, with a
    // message to itself.
    let around = |rank: u32| vec![(rank + RANKS - 1) % RANKS, rank, (rank + 1) % RANKS];
    let mut times = vec![0; RANKS as usize];
    for k in 0..STEPS {
        step(&Graph::ring(RANKS), &mut times, 0, LATENCY, |rank| {
            work(rank, k)
        });
    }
    let plan = exchange(RANKS, STEPS, around);
    let outcome = simulate(&build(&plan), &latency_only(LATENCY)).unwrap();
    assert_eq!(outcome.finish_ns, times);
}
