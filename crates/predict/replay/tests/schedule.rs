//! Hand-made runs whose schedules and times are known.

#![allow(clippy::unwrap_used)]

use crate::made::Made;
use idlewave_replay::{Replay, ReplayError, ReplayOptions, Taken, schedule_of};
use idlewave_run::tables::Table;
use idlewave_simulate::bulk::{Algorithm, Collective};
use idlewave_simulate::goal::{Action, Parameters, Schedule, simulate};
use idlewave_units::Nanos;
use proptest::prelude::*;
use std::collections::BTreeMap;

const US: u64 = 1_000;

/// L 1000 ns, o 500 ns, bytes are free.
fn costs() -> Parameters {
    Parameters {
        latency: Nanos::from_nanos(1_000),
        overhead: Nanos::from_nanos(500),
        ..Parameters::FREE
    }
}

fn with(made: &Made, options: &ReplayOptions) -> Replay {
    schedule_of(&made.write().open(), options).unwrap()
}

fn of(made: &Made) -> Replay {
    with(made, &ReplayOptions::default())
}

fn text(schedule: &Schedule) -> String {
    let mut out = Vec::new();
    schedule.write_text(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn actions(schedule: &Schedule, rank: u32) -> Vec<Action> {
    schedule.rank(rank).map(|o| o.action).collect()
}

fn finish(replay: &Replay) -> Vec<u64> {
    simulate(&replay.schedule, &costs()).unwrap().finish_ns
}

fn send(bytes: u64, to: u32, tag: u32) -> Action {
    Action::Send { bytes, to, tag }
}

fn recv(bytes: u64, from: u32, tag: u32) -> Action {
    let (from, tag) = (Some(from), Some(tag));
    Action::Recv { bytes, from, tag }
}

fn calc(ns: u64) -> Action {
    Action::Calc { ns }
}

fn left_out(replay: &Replay) -> BTreeMap<&str, u64> {
    let entries = replay.left_out.entries().iter();
    entries.map(|l| (l.what.as_str(), l.count)).collect()
}

#[test]
fn a_message_is_the_schedule_of_the_picture() {
    let mut made = Made::new(2);
    made.message(1, 0, (50 * US, 51 * US), (20 * US, 92 * US));
    let replay = of(&made);
    // All enter MPI_Finalize 10 ns after the last call.
    assert_eq!(
        text(&replay.schedule),
        "num_ranks 2\n\nrank 0 {\no0: calc 20000\no1: recv 64b from 1\no2: calc 10\no1 requires o0\no2 requires o1\n}\n\n\
         rank 1 {\no0: calc 50000\no1: send 64b to 0\no2: calc 41010\no1 requires o0\no2 requires o1\n}\n"
    );
    assert_eq!(replay.measured_ns, [92_010, 92_010]);
    assert_eq!(replay.work_ns, [20_010, 91_010]);
    // The send is at 50 us; overhead, latency, overhead.
    assert_eq!(finish(&replay), [52_010, 91_510]);
    assert_eq!(left_out(&replay), BTreeMap::new());
}

#[test]
fn what_others_took_from_a_computation_is_work_or_is_not() {
    let mut made = Made::new(2);
    made.strike(1, (30 * US, 45 * US), 0);
    // Time taken within a call does not concern the schedule.
    made.strike(0, (25 * US, 35 * US), 0);
    made.message(1, 0, (50 * US, 51 * US), (20 * US, 92 * US));
    let removed = of(&made);
    assert_eq!(removed.taken_ns, [0, 15 * US]);
    assert_eq!(actions(&removed.schedule, 1)[0], calc(35 * US));
    assert_eq!(actions(&removed.schedule, 0)[0], calc(20 * US));
    let kept = with(
        &made,
        &ReplayOptions {
            taken: Taken::Kept,
            ..ReplayOptions::default()
        },
    );
    assert_eq!(kept.taken_ns, [0, 0]);
    assert_eq!(actions(&kept.schedule, 1)[0], calc(50 * US));
    assert_eq!(finish(&kept)[0], finish(&removed)[0] + 15 * US);
    assert_eq!(kept.measured_ns, removed.measured_ns);
}

#[test]
fn with_what_calls_took_too_long_every_rank_ends_when_it_did() {
    let mut made = overlapping();
    made.strike(1, (1_030 * US, 1_045 * US), 0);
    made.message(1, 0, (1_050 * US, 1_051 * US), (1_020 * US, 1_092 * US));
    let all = [(0, 2_010 * US, 2_045 * US), (1, 2_040 * US, 2_061 * US)];
    made.collective("MPI_Allreduce", 0, None, &all);
    let options = ReplayOptions {
        taken: Taken::Kept,
        excess_over: Some(costs()),
        ..ReplayOptions::default()
    };
    let replay = with(&made, &options);
    assert_eq!(replay.measured_ns, [2_061 * US + 10; 2]);
    // Off by at most one message: messages that came before they were waited for cost less than the
    // excess assumes.
    let found = finish(&replay);
    for (found, measured) in found.iter().zip(&replay.measured_ns) {
        assert!(found.abs_diff(*measured) <= 2 * US, "{found} {measured}");
    }
    // Without the excess, calls take what their messages cost.
    let short = finish(&with(
        &made,
        &ReplayOptions {
            excess_over: None,
            ..options
        },
    ));
    assert!(
        short[0] < found[0] - 3 * US && short[1] < found[1] - 19 * US,
        "{short:?}"
    );
}

#[test]
fn sleep_outside_of_calls_is_the_programs_own() {
    let mut made = Made::new(2);
    made.sleep(1, (30 * US, 45 * US));
    made.message(1, 0, (50 * US, 51 * US), (20 * US, 92 * US));
    assert_eq!(actions(&of(&made).schedule, 1)[0], calc(50 * US));
}

/// Rank 0 posts its receive, computes 30 us while the message comes, and waits. Rank 1 sends the
/// message and waits for the send later.
fn overlapping() -> Made {
    let mut made = Made::new(2);
    made.call("MPI_Irecv", 0, (0, 200));
    made.call("MPI_Isend", 1, (5 * US, 5_500));
    made.call("MPI_Waitall", 0, (30_200, 30_300));
    made.transfer(false, 0, Some(1), 0, 3, 100, 0, Some((30_200, 30_300)));
    made.transfer(true, 1, Some(0), 0, 3, 100, 5 * US, Some((40 * US, 40_100)));
    made.call("MPI_Waitall", 1, (40 * US, 40_100));
    made
}

#[test]
fn what_is_posted_early_is_waited_for_where_it_was_completed() {
    let replay = of(&overlapping());
    // The time of a call that only posts a receive is work.
    let all = [calc(200), recv(100, 1, 0), calc(30 * US), calc(9_810)];
    assert_eq!(actions(&replay.schedule, 0), all);
    let all = [calc(5 * US), send(100, 0, 0), calc(34_500), calc(10)];
    assert_eq!(actions(&replay.schedule, 1), all);
    let text = text(&replay.schedule);
    assert!(
        text.contains("o2 irequires o1\no3 requires o1\no3 requires o2"),
        "{text}"
    );
    // The message costs rank 0 its overhead, but no wait: it came while the rank computed.
    assert_eq!(finish(&replay), [40_010 + 500, 40_010]);
}

#[test]
fn messages_of_one_pair_and_tag_on_two_communicators_have_two_tags() {
    let mut made = Made::new(2);
    made.communicator(1, &[1, 0]);
    made.call("MPI_Send", 0, (US, 2 * US));
    made.call("MPI_Send", 0, (3 * US, 4 * US));
    made.call("MPI_Recv", 1, (5 * US, 6 * US));
    made.call("MPI_Recv", 1, (7 * US, 8 * US));
    made.transfer(true, 0, Some(1), 0, 7, 11, US, Some((US, 2 * US)));
    made.transfer(true, 0, Some(1), 1, 7, 22, 3 * US, Some((3 * US, 4 * US)));
    // The other way round: the second message is received first.
    made.transfer(false, 1, Some(0), 1, 7, 22, 5 * US, Some((5 * US, 6 * US)));
    made.transfer(false, 1, Some(0), 0, 7, 11, 7 * US, Some((7 * US, 8 * US)));
    let replay = of(&made);
    let messages = |rank| {
        let all = actions(&replay.schedule, rank).into_iter();
        all.filter(|a| !matches!(a, Action::Calc { .. }))
            .collect::<Vec<_>>()
    };
    assert_eq!(messages(0), [send(11, 1, 0), send(22, 1, 1)]);
    assert_eq!(messages(1), [recv(22, 0, 1), recv(11, 0, 0)]);
}

#[test]
fn a_probe_waits_for_its_message() {
    let mut made = Made::new(2);
    made.call("MPI_Probe", 0, (10 * US, 60 * US));
    made.message(1, 0, (50 * US, 51 * US), (65 * US, 66 * US));
    let replay = of(&made);
    let all = [calc(10 * US), recv(64, 1, 0), calc(6 * US + 10)];
    assert_eq!(actions(&replay.schedule, 0), all);
}

#[test]
fn a_sendrecv_does_both_and_goes_on_after_both() {
    let mut made = Made::new(2);
    for (rank, begin) in [(0, 10 * US), (1, 20 * US)] {
        let span = (begin, 22 * US);
        made.call("MPI_Sendrecv", rank, span);
        made.transfer(true, rank, Some(1 - rank), 0, 1, 8, begin, Some(span));
        made.transfer(false, rank, Some(1 - rank), 0, 1, 8, begin, Some(span));
    }
    let replay = of(&made);
    // Rank 0 waits for the message of rank 1, which is sent at 20 us and costs 2 us.
    assert_eq!(finish(&replay), [22_010, 20 * US + 500 + 500 + 10]);
}

#[test]
fn collectives_are_messages_of_their_members_with_the_root_that_they_had() {
    let mut made = Made::new(4);
    made.communicator(1, &[3, 1, 2]);
    made.collective(
        "MPI_Bcast",
        1,
        Some(1),
        &[(1, 10, 20), (2, 10, 20), (3, 10, 20)],
    );
    let replay = of(&made);
    let messages = |rank| {
        let all = actions(&replay.schedule, rank).into_iter();
        all.filter(|a| !matches!(a, Action::Calc { .. }))
            .collect::<Vec<_>>()
    };
    // Members from the root on: 1, 2, 3. The tree: 1 to 3, then 1 to 2.
    assert_eq!(messages(0), []);
    assert_eq!(messages(1), [send(8, 3, 0), send(8, 2, 0)]);
    assert_eq!(messages(2), [recv(8, 1, 0)]);
    assert_eq!(messages(3), [recv(8, 1, 0)]);
}

#[test]
fn an_allreduce_ends_when_its_last_member_was_there_and_the_rounds_are_over() {
    let mut made = Made::new(4);
    let spans = [
        (0, 10 * US, 45 * US),
        (1, 40 * US, 45 * US),
        (2, 5 * US, 45 * US),
        (3, US, 45 * US),
    ];
    made.collective("MPI_Allreduce", 0, None, &spans);
    // Two rounds of overhead, latency, overhead.
    assert_eq!(
        finish(&of(&made)).iter().max(),
        Some(&(40 * US + 2 * 2 * US + 10))
    );
    let mut options = ReplayOptions::default();
    options
        .algorithms
        .set(Collective::Allreduce, Algorithm::Ring)
        .unwrap();
    // Six rounds. All members begin at once: a late one would pay the overheads of the messages
    // that wait for it.
    let mut made = Made::new(4);
    let spans = [0, 1, 2, 3].map(|rank| (rank, 40 * US, 45 * US));
    made.collective("MPI_Allreduce", 0, None, &spans);
    let ring = with(&made, &options);
    assert_eq!(finish(&ring), [40 * US + 6 * 2 * US + 10; 4]);
}

#[test]
fn calls_that_are_not_understood_are_counted_and_are_work() {
    let mut made = Made::new(2);
    let all = [(0, 10 * US, 30 * US), (1, 20 * US, 30 * US)];
    made.collective("MPI_Neighbor_allgather", 0, None, &all);
    // Not seen on rank 1.
    made.collective("MPI_Barrier", 0, None, &[(0, 40 * US, 50 * US)]);
    made.collective(
        "MPI_Comm_split",
        0,
        None,
        &[(0, 60 * US, 61 * US), (1, 60 * US, 61 * US)],
    );
    let replay = of(&made);
    assert_eq!(actions(&replay.schedule, 0)[0], calc(60 * US));
    assert_eq!(actions(&replay.schedule, 1)[0], calc(60 * US));
    let lost = left_out(&replay);
    assert_eq!(
        lost["MPI_Neighbor_allgather, collectives that are not resolved"],
        1
    );
    assert_eq!(lost["MPI_Barrier, collectives that are not resolved"], 1);
    assert_eq!(lost["calls that make communicators"], 1);
}

#[test]
fn messages_without_an_end_are_left_out_and_nobody_waits_for_them() {
    let mut made = Made::new(2);
    made.call("MPI_Send", 0, (US, 2 * US));
    made.transfer(true, 0, Some(1), 0, 9, 8, US, Some((US, 2 * US)));
    made.call("MPI_Irecv", 1, (US, 2 * US));
    made.transfer(false, 1, None, 0, 9, 8, US, None);
    let replay = of(&made);
    assert_eq!(replay.schedule.operations(), 2);
    assert_eq!(finish(&replay), [2_010, 2_010]);
    assert_eq!(
        left_out(&replay)["sends and receives without their other end"],
        1
    );
}

#[test]
fn ranks_begin_when_they_left_init_and_end_where_they_entered_finalize() {
    let mut made = Made::new(2);
    made.call("MPI_Init", 1, (3 * US, 7 * US));
    made.message(1, 0, (10 * US, 11 * US), (9 * US, 12 * US));
    made.finalize.insert(0, Some(12_500));
    made.finalize.insert(1, None);
    let replay = of(&made);
    // What rank 1 did before it left its last MPI_Init is one stretch.
    assert_eq!(
        actions(&replay.schedule, 1),
        [calc(10 * US), send(64, 0, 0)]
    );
    assert_eq!(replay.measured_ns, [12_500, 11 * US]);
    assert_eq!(actions(&replay.schedule, 0)[2], calc(500));
}

#[test]
fn time_begins_when_the_first_rank_left_init() {
    let mut made = Made::new(2);
    made.left_init(0, 4 * US);
    made.message(1, 0, (10 * US, 11 * US), (9 * US, 12 * US));
    let replay = of(&made);
    assert_eq!(actions(&replay.schedule, 0)[0], calc(9 * US));
    assert_eq!(actions(&replay.schedule, 1)[0], calc(10 * US));
    assert_eq!(replay.measured_ns, [12_010, 12_010]);
}

#[test]
fn messages_of_collectives_have_tags_of_their_own() {
    let mut made = Made::new(2);
    made.message(1, 0, (50 * US, 51 * US), (20 * US, 92 * US));
    made.communicator(1, &[0, 1]);
    for comm in [0, 1] {
        let begin = (100 + 10 * u64::from(comm)) * US;
        let members = [(0, begin, begin + 5), (1, begin, begin + 5)];
        made.collective("MPI_Barrier", comm, None, &members);
    }
    let replay = of(&made);
    let tags = replay.schedule.rank(0).filter_map(|o| match o.action {
        Action::Recv { tag, .. } => tag,
        _ => None,
    });
    assert_eq!(tags.collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn who_only_sends_or_only_receives_in_a_collective_goes_on_after_that() {
    let mut made = Made::new(4);
    let members = [0, 1, 2, 3].map(|rank| (rank, 10 * US, 20 * US));
    made.collective("MPI_Bcast", 0, Some(0), &members);
    // To 2 at 10 us, to 1 half a microsecond later; from 2 to 3. Then 10 ns.
    let ends = [11_000, 12_500, 12_500, 14_000].map(|ns| ns + 10);
    assert_eq!(finish(&of(&made)), ends);
}

#[test]
fn a_run_without_calls_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("empty");
    let manifest = idlewave_run::testing::empty_manifest();
    idlewave_run::RunWriter::create(&path, manifest)
        .unwrap()
        .close(None)
        .unwrap();
    let run = idlewave_run::RunReader::open(&path).unwrap();
    let error = schedule_of(&run, &ReplayOptions::default()).unwrap_err();
    assert!(matches!(error, ReplayError::NoProgram(_)), "{error}");
    assert!(error.to_string().contains("empty"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Random messages, received in a different order than sent. Between two ranks, the n-th send
    /// of a tag matches the n-th receive, and these are the messages that the analysis finds. The
    /// schedule finishes.
    #[test]
    fn who_receives_what_is_as_in_the_run(
        wanted in proptest::collection::vec((0u32..4, 0u32..4, 0i32..3, 0u32..2, any::<bool>(), any::<u16>()), 1..40),
    ) {
        let mut made = Made::new(4);
        made.communicator(1, &[2, 0, 3, 1]);
        let mut receives = Vec::new();
        for (i, &(from, to, tag, comm, waits, order)) in wanted.iter().enumerate() {
            let begin = 10 * i as u64;
            let (bytes, span) = (1_000 + i as u64, (begin, begin + 5));
            made.call(if waits { "MPI_Send" } else { "MPI_Isend" }, from, span);
            made.transfer(true, from, Some(to), comm, tag, bytes, begin, waits.then_some(span));
            receives.push((order, to, from, comm, tag, bytes));
        }
        // Each stream in sending order, streams mixed.
        let mut streams: BTreeMap<_, Vec<u64>> = BTreeMap::new();
        for r in &receives {
            streams.entry((r.1, r.2, r.3, r.4)).or_default().push(r.5);
        }
        receives.sort();
        for (i, &(_, to, from, comm, tag, _)) in receives.iter().enumerate() {
            let begin = 10 * (wanted.len() + i) as u64;
            let span = (begin, begin + 5);
            let bytes = streams.get_mut(&(to, from, comm, tag)).unwrap().remove(0);
            made.call("MPI_Recv", to, span);
            made.transfer(false, to, Some(from), comm, tag, bytes, begin, Some(span));
        }
        let bundle = made.write();
        let replay = schedule_of(&bundle.open(), &ReplayOptions::default()).unwrap();
        let mut sent: BTreeMap<(u32, u32, u32), Vec<u64>> = BTreeMap::new();
        let mut received = sent.clone();
        for rank in 0..4 {
            for action in actions(&replay.schedule, rank) {
                match action {
                    Action::Send { bytes, to, tag } => sent.entry((rank, to, tag)).or_default().push(bytes),
                    Action::Recv { bytes, from, tag } => {
                        let key = (from.unwrap(), rank, tag.unwrap());
                        received.entry(key).or_default().push(bytes);
                    }
                    Action::Calc { .. } => {}
                }
            }
        }
        prop_assert_eq!(&sent, &received);
        let flat = |(&(from, to, _), bytes): (&(u32, u32, u32), &Vec<u64>)| {
            bytes.iter().map(move |&b| (from, to, b)).collect::<Vec<_>>()
        };
        let mut ours: Vec<_> = sent.iter().flat_map(flat).collect();
        let tables = bundle.explain().tables;
        let mut theirs: Vec<_> = tables.messages.rows().map(|m| (m.from.get(), m.to.get(), m.bytes.get())).collect();
        ours.sort_unstable();
        theirs.sort_unstable();
        prop_assert_eq!(ours, theirs);
        prop_assert!(simulate(&replay.schedule, &costs()).is_ok());
        prop_assert!(left_out(&replay).is_empty());
    }
}
