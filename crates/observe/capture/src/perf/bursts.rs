//! Turns the records of one thread into its bursts.

use super::record::Event;
use idlewave_run::tables::{Burst, EndReason};
use idlewave_units::{Cpu, NodeId, Pid};

/// What is known about a thread besides its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread {
    pub(crate) node: NodeId,
    pub(crate) pid: Pid,
    /// Start and end of its recording.
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    /// The CPU of a thread that had a CPU throughout and was never switched.
    pub(crate) unswitched_on: Option<Cpu>,
}

/// The thread's state between two records.
enum State {
    /// No record so far.
    Begin,
    /// On this CPU since this time.
    On {
        since_ns: u64,
        cpu: u32,
    },
    Off,
    /// Records are missing, so it may be on or off a CPU.
    Hole,
}

/// Bursts of one thread, in order of time. The start and end of the recording bound the first and
/// the last burst, whose true bounds are then not certain. Time around lost records is left out, up
/// to the next record that determines the state.
pub(crate) fn bursts(thread: Thread, events: &[Event], mut push: impl FnMut(Burst)) {
    let Thread {
        node,
        pid,
        begin_ns,
        end_ns,
        unswitched_on,
    } = thread;
    let mut state = State::Begin;
    let mut burst = |begin: u64, end: u64, cpu: Cpu, end_reason: EndReason, certain: bool| {
        if begin <= end {
            push(Burst {
                node,
                cpu,
                pid,
                begin_ns: begin,
                end_ns: end,
                end_reason,
                certain,
            });
        }
    };
    for event in events {
        state = match *event {
            Event::In { time_ns, cpu } => State::On {
                since_ns: time_ns,
                cpu,
            },
            Event::Out { time_ns, cpu, .. } | Event::Exit { time_ns, cpu } => {
                let reason = match event {
                    Event::Exit { .. } => EndReason::Exited,
                    Event::Out {
                        preempted: true, ..
                    } => EndReason::Preempted,
                    _ => EndReason::Sleeping,
                };
                match state {
                    State::On { since_ns, cpu: on } if on == cpu => {
                        burst(since_ns, time_ns, Cpu::new(cpu), reason, true);
                    }
                    State::Begin => burst(begin_ns, time_ns, Cpu::new(cpu), reason, false),
                    _ => {}
                }
                State::Off
            }
            Event::Lost { .. } => State::Hole,
        };
    }
    match (state, unswitched_on) {
        (State::On { since_ns, cpu }, _) => {
            burst(since_ns, end_ns, Cpu::new(cpu), EndReason::Unknown, false);
        }
        (State::Begin, Some(cpu)) => burst(begin_ns, end_ns, cpu, EndReason::Unknown, false),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Start, end, CPU, reason, certain.
    fn of(events: &[Event], unswitched_on: Option<u32>) -> Vec<(u64, u64, u32, EndReason, bool)> {
        let mut rows = Vec::new();
        let thread = Thread {
            node: NodeId::new(0),
            pid: Pid::new(9),
            begin_ns: 10,
            end_ns: 100,
            unswitched_on: unswitched_on.map(Cpu::new),
        };
        bursts(thread, events, |b| {
            rows.push((b.begin_ns, b.end_ns, b.cpu.get(), b.end_reason, b.certain));
        });
        rows
    }

    fn on(time_ns: u64, cpu: u32) -> Event {
        Event::In { time_ns, cpu }
    }

    fn off(time_ns: u64, cpu: u32, preempted: bool) -> Event {
        Event::Out {
            time_ns,
            cpu,
            preempted,
        }
    }

    #[test]
    fn what_lies_between_in_and_out_is_certain_and_the_edges_are_not() {
        let events = [off(20, 0, true), on(25, 1), off(40, 1, false), on(90, 0)];
        let expected = [
            (10, 20, 0, EndReason::Preempted, false),
            (25, 40, 1, EndReason::Sleeping, true),
            (90, 100, 0, EndReason::Unknown, false),
        ];
        assert_eq!(of(&events, None), expected);
    }

    #[test]
    fn a_thread_that_ended_has_no_time_after_it() {
        let events = [
            on(20, 1),
            Event::Exit {
                time_ns: 30,
                cpu: 1,
            },
        ];
        assert_eq!(of(&events, None), [(20, 30, 1, EndReason::Exited, true)]);
    }

    #[test]
    fn a_loss_leaves_a_hole_and_no_invented_burst() {
        let lost = Event::Lost { records: 3 };
        let events = [
            on(20, 0),
            lost,
            off(60, 0, false),
            on(70, 0),
            off(80, 0, true),
            lost,
        ];
        assert_eq!(of(&events, None), [(70, 80, 0, EndReason::Preempted, true)]);
    }

    #[test]
    fn a_thread_without_switches_ran_throughout_or_not_at_all() {
        assert_eq!(of(&[], Some(3)), [(10, 100, 3, EndReason::Unknown, false)]);
        assert_eq!(of(&[], None), []);
    }

    proptest! {
        #[test]
        fn bursts_of_ordered_records_do_not_overlap(
            steps in prop::collection::vec((0u8..4, 0u64..5, 0u32..2), 0..60),
        ) {
            let mut time_ns = 10;
            let events: Vec<Event> = steps
                .into_iter()
                .map(|(kind, step, cpu)| {
                    time_ns += step;
                    match kind {
                        0 => on(time_ns, cpu),
                        1 => off(time_ns, cpu, false),
                        2 => off(time_ns, cpu, true),
                        _ => Event::Lost { records: 1 },
                    }
                })
                .collect();
            let rows = of(&events, Some(0));
            prop_assert!(rows.iter().all(|r| r.0 <= r.1));
            prop_assert!(rows.windows(2).all(|w| w[0].1 <= w[1].0));
        }
    }
}
