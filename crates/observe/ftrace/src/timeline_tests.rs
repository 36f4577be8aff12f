//! Properties of timelines: nested stretches of time come out as they went in.

use super::{Sink, Timeline, reason};
use crate::event::{Decoder, Event};
use crate::format::HeaderPage;
use crate::testing::{CpuTables, Payload, decode_pages, formats, pages};
use idlewave_run::Table;
use idlewave_run::tables::EndReason;
use idlewave_units::{Cpu, NodeId, Pid};
use proptest::prelude::*;

const PAGE: usize = 4096;

fn decode(bytes: &[u8], span: (u64, Option<u64>)) -> CpuTables {
    let (decoder, _) = Decoder::new(&formats());
    decode_pages::<true>(&decoder, &HeaderPage::LONG64, PAGE, bytes, span)
}

/// One step of a random schedule.
#[derive(Clone, Debug)]
enum Step {
    Run(u64),
    Switch(u32),
    Enter(u8),
    Leave,
    Wake(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1_u64..1 << 29).prop_map(Step::Run),
        3 => (0_u32..6).prop_map(Step::Switch),
        3 => (0_u8..4).prop_map(Step::Enter),
        3 => Just(Step::Leave),
        1 => (0_u32..6).prop_map(Step::Wake),
    ];
    prop::collection::vec(step, 1..300)
}

const HANDLERS: [(&str, &str); 4] = [
    ("softirq_entry", "softirq_exit"),
    ("irq_handler_entry", "irq_handler_exit"),
    ("local_timer_entry", "local_timer_exit"),
    ("reschedule_entry", "reschedule_exit"),
];

/// The rows that a schedule must give.
#[derive(Debug, Default, PartialEq)]
struct Expected {
    bursts: Vec<(u32, u64, u64)>,
    /// Start, end, depth, thread.
    interrupts: Vec<(u64, u64, u8, u32)>,
    wakeups: usize,
}

fn play(steps: &[Step]) -> (Vec<(u64, Payload)>, Expected) {
    let (mut now, mut pid, mut since) = (1000, 1, 1000);
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut events = Vec::new();
    let mut expected = Expected::default();
    for step in steps {
        match *step {
            Step::Run(time) => now += time,
            Step::Wake(who) => {
                events.push((now, Payload::waking(pid, who, "w", 0)));
                expected.wakeups += 1;
            }
            Step::Switch(next) if open.is_empty() && next != pid => {
                events.push((now, Payload::switch((pid, "p"), 1, (next, "n"))));
                expected.bursts.push((pid, since, now));
                (pid, since) = (next, now);
            }
            Step::Enter(kind) if open.len() < 8 => {
                // Handlers of one kind do not nest within each other: number them by depth.
                let (kind, depth) = (usize::from(kind), open.len());
                let number = depth as u32;
                let payload = match kind {
                    1 => Payload::irq_entry(pid, number, "dev"),
                    _ => Payload::number(HANDLERS[kind].0, pid, number),
                };
                events.push((now, payload));
                open.push((kind, expected.interrupts.len()));
                expected.interrupts.push((now, now, depth as u8, pid));
            }
            Step::Leave => {
                if let Some((kind, row)) = open.pop() {
                    events.push((
                        now,
                        Payload::number(HANDLERS[kind].1, pid, open.len() as u32),
                    ));
                    expected.interrupts[row].1 = now;
                }
            }
            _ => {}
        }
    }
    while let Some((kind, row)) = open.pop() {
        now += 1;
        events.push((
            now,
            Payload::number(HANDLERS[kind].1, pid, open.len() as u32),
        ));
        expected.interrupts[row].1 = now;
    }
    expected.bursts.push((pid, since, now + 5));
    (events, expected)
}

proptest! {
    #[test]
    fn random_nesting_comes_back_as_it_was_and_durations_add_up(steps in steps()) {
        let (events, expected) = play(&steps);
        let end = expected.bursts.last().unwrap().2;
        let tables = decode(&pages(PAGE, &events), (1000, Some(end)));
        prop_assert_eq!(tables.events, events.len() as u64);
        prop_assert_eq!(tables.misfits, [0; 4]);
        let interrupts: Vec<_> = tables.interrupts.rows()
            .map(|i| (i.begin_ns, i.end_ns, i.depth, i.pid.get()))
            .collect();
        prop_assert_eq!(interrupts, expected.interrupts);
        prop_assert!(tables.interrupts.certain.iter().all(|c| *c));
        prop_assert_eq!(tables.wakeups.len(), expected.wakeups);
        if !events.is_empty() {
            let bursts = tables.bursts.rows().map(|b| (b.pid.get(), b.begin_ns, b.end_ns));
            let whole = |b: &(u32, u64, u64)| b.1 < b.2 || b.1 > 1000;
            let expected: Vec<_> = expected.bursts.into_iter().filter(whole).collect();
            prop_assert_eq!(bursts.filter(whole).collect::<Vec<_>>(), expected);
            let ran: u64 = tables.bursts.rows().map(|b| b.end_ns - b.begin_ns).sum();
            prop_assert_eq!(ran, end - 1000);
        }
    }

    #[test]
    fn a_shift_in_time_shifts_all_rows(steps in steps(), shift in 0_u64..1 << 50) {
        let (events, _) = play(&steps);
        let moved: Vec<_> = events.iter().map(|(t, p)| (t + shift, p.clone())).collect();
        let here = decode(&pages(PAGE, &events), (1000, None));
        let there = decode(&pages(PAGE, &moved), (1000 + shift, None));
        let back = |times: &[u64]| times.iter().map(|t| t - shift).collect::<Vec<_>>();
        prop_assert_eq!(&here.bursts.begin_ns, &back(&there.bursts.begin_ns));
        prop_assert_eq!(&here.interrupts.end_ns, &back(&there.interrupts.end_ns));
        prop_assert_eq!(&here.bursts.pid, &there.bursts.pid);
    }

    #[test]
    fn altered_bytes_never_panic_and_rows_stay_ordered(
        steps in steps(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let (events, _) = play(&steps);
        let mut bytes = pages(PAGE, &events);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len() - cut.index(PAGE));
        let tables = decode(&bytes, (1000, Some(2000)));
        for (table, ends) in [
            (&tables.bursts.begin_ns, &tables.bursts.end_ns),
            (&tables.interrupts.begin_ns, &tables.interrupts.end_ns),
        ] {
            prop_assert!(table.is_sorted());
            prop_assert!(table.iter().zip(ends).all(|(begin, end)| begin <= end));
        }
        let bursts = &tables.bursts;
        prop_assert!(bursts.end_ns.iter().zip(bursts.begin_ns.iter().skip(1)).all(|(e, b)| e <= b));
    }

    #[test]
    fn events_left_out_at_random_are_never_taken_for_certain_time(
        steps in steps(),
        kept in prop::collection::vec(any::<bool>(), 300),
    ) {
        let (events, expected) = play(&steps);
        let holes: Vec<_> = events.into_iter().zip(kept.into_iter().cycle())
            .filter(|(_, keep)| *keep)
            .map(|(event, _)| event)
            .collect();
        let tables = decode(&pages(PAGE, &holes), (1000, None));
        // A burst marked certain began with a real switch to that thread.
        for burst in tables.bursts.rows().filter(|b| b.certain) {
            let real = expected.bursts.iter().any(|e| (e.0, e.1) == (burst.pid.get(), burst.begin_ns));
            prop_assert!(real, "{burst:?}");
        }
    }
}

#[test]
fn a_flood_of_entries_stays_within_bounds() {
    let entry = |i: u64| {
        (
            1000 + i,
            Payload::number("softirq_entry", 1, (i % 40) as u32),
        )
    };
    let events: Vec<_> = (0..10_000).map(entry).collect();
    let tables = decode(&pages(PAGE, &events), (1000, None));
    assert_eq!(tables.interrupts.len(), 10_000);
    assert!(tables.interrupts.depth.iter().all(|d| *d < 32));
    let faults = |i: u64| (2000 + i, Payload::fault(1));
    let first = std::iter::once((1000, Payload::number("softirq_entry", 1, 1)));
    let events: Vec<_> = first.chain((0..10_000).map(faults)).collect();
    let tables = decode(&pages(PAGE, &events), (1000, None));
    assert_eq!(tables.interrupts.len(), 10_001);
    assert_eq!(tables.misfits, [0, 1, 0, 0]);
}

#[test]
fn events_out_of_order_are_taken_as_simultaneous_and_counted() {
    let first = pages(PAGE, &[(5000, Payload::switch((1, "a"), 1, (2, "b")))]);
    let second = pages(PAGE, &[(4000, Payload::switch((2, "b"), 1, (3, "c")))]);
    let tables = decode(&[first, second].concat(), (1000, Some(9000)));
    assert_eq!(tables.misfits, [0, 0, 0, 1]);
    assert_eq!(tables.bursts.begin_ns, [1000, 5000, 5000]);
    assert_eq!(tables.bursts.end_ns, [5000, 5000, 9000]);
}

#[test]
fn states_of_a_thread_that_leaves_its_cpu_are_told_apart() {
    let states = [
        (Some(0), EndReason::Preempted),
        (Some(0x100), EndReason::Preempted),
        (Some(0x101), EndReason::Preempted),
        (Some(1), EndReason::Sleeping),
        (Some(2), EndReason::Uninterruptible),
        (Some(4), EndReason::Stopped),
        (Some(8), EndReason::Stopped),
        (Some(0x10), EndReason::Exited),
        (Some(0x20), EndReason::Exited),
        (Some(0x40), EndReason::Stopped),
        (Some(0x80), EndReason::Sleeping),
        (Some(3), EndReason::Unknown),
        (None, EndReason::Unknown),
    ];
    for (state, expected) in states {
        assert_eq!(reason(state), expected, "{state:?}");
    }
}

#[test]
fn a_thread_that_gets_a_cpu_which_another_never_left_shows_a_hole() {
    let (mut timeline, mut sink) = (
        Timeline::new(NodeId::new(0), Cpu::new(0), None),
        Sink::default(),
    );
    for (time_ns, pid) in [(10, 1), (50, 2)] {
        timeline.gets(time_ns, Pid::new(pid), None, &mut sink);
    }
    timeline.event(40, Some(Pid::new(2)), Event::Fault, &mut sink);
    timeline.leaves(70, Pid::new(2), Some(1), &mut sink);
    timeline.end(None, &mut sink);
    let bursts = sink.rows.bursts.rows();
    let bursts: Vec<_> = bursts
        .map(|b| (b.pid.get(), b.begin_ns, b.end_ns, b.end_reason, b.certain))
        .collect();
    // Nothing is known about the first thread after it got the CPU.
    assert_eq!(bursts, [(2, 50, 70, EndReason::Sleeping, true)]);
    assert_eq!((timeline.misfits.holes, timeline.misfits.backwards), (1, 1));
    assert_eq!(timeline.span(), Some((10, 70)));
}
