//! Golden timelines: events in, rows out, small enough to check by eye.

use super::*;
use crate::testing::PageWriter;
use idlewave_run::SourceKind;
use idlewave_run::tables::Tasks;
use idlewave_units::Pid;

#[test]
fn a_trace_without_loss_becomes_a_gapless_timeline() {
    let run = decode(&[
        vec![
            switch(1000, 7, 0, 9),
            switch(1400, 9, 1, 7),
            switch(2000, 7, 0x100, 9),
            switch(2500, 9, 2, 0),
            switch(3000, 0, 0, 8),
            switch(3001, 8, 0x20, 7),
            switch(3500, 7, 0x40, 0),
            switch(3600, 0, 0, 2),
            switch(3700, 2, 0x80, 7),
        ],
        vec![switch(5000, 0, 0, 6)],
    ]);
    assert_eq!(
        run.bursts(),
        [
            "cpu0 7: 100..1000 r0 ?",
            "cpu0 9: 1000..1400 r1",
            "cpu0 7: 1400..2000 r0",
            "cpu0 9: 2000..2500 r2",
            "cpu0 0: 2500..3000 r0",
            "cpu0 8: 3000..3001 r4",
            "cpu0 7: 3001..3500 r3",
            "cpu0 0: 3500..3600 r0",
            "cpu0 2: 3600..3700 r1",
            "cpu0 7: 3700..10000 r5 ?",
            "cpu1 0: 100..5000 r0 ?",
            "cpu1 6: 5000..10000 r5 ?",
        ]
    );
    assert!(run.summary.losses.is_empty(), "{:?}", run.losses());
    let s = &run.summary;
    assert_eq!((s.cpus, s.pages, s.events, s.bursts), (2, 2, 10, 12));
    assert_eq!((s.missed, s.interrupts, s.stopped), (0, 0, false));
    let tasks = run.run.read::<Tasks>().unwrap();
    assert_eq!(tasks.pid, [0, 2, 6, 7, 8, 9].map(Pid::new));
    assert_eq!(tasks.name[3], "thread");
}

#[test]
fn interrupts_nest_and_come_in_order_of_their_begin() {
    let run = decode(&[vec![
        number(200, 7, "local_timer_exit", 236), // began before the trace
        number(1000, 7, "local_timer_entry", 236),
        number(1010, 7, "local_timer_exit", 236),
        number(1012, 7, "softirq_entry", 1),
        (1014, Payload::irq_entry(7, 24, "eth0")),
        (1016, Payload::nmi(7, 1)),
        number(1018, 7, "irq_handler_exit", 24),
        (1020, Payload::irq_entry(7, 24, "usb1")), // shares the number
        number(1021, 7, "irq_handler_exit", 24),
        number(1030, 7, "softirq_exit", 1),
        number(1100, 7, "reschedule_entry", 253),
        number(1101, 7, "reschedule_exit", 253),
        (1200, Payload::fault(7)),
        (1300, Payload::nmi(7, 1000)), // claims to have begun before the fault
    ]]);
    assert_eq!(
        run.interrupts(),
        [
            "timer tick@7 1000..1010 d0",
            "TIMER@7 1012..1030 d0",
            "eth0@7 1014..1018 d1",
            "NMI@7 1015..1016 d2",
            "usb1@7 1020..1021 d1",
            "reschedule@7 1100..1101 d0",
            "page fault@7 1200..1200 d0 ?",
            "NMI@7 1200..1300 d0",
        ]
    );
    assert!(run.summary.losses.is_empty(), "{:?}", run.losses());
    let sources = run.run.read::<Sources>().unwrap();
    assert_eq!(sources.id, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(sources.kind[5], SourceKind::Ipi);
    assert_eq!(run.bursts(), ["cpu0 7: 100..10000 r5 ?"]);
}

#[test]
fn a_hole_without_reported_loss_closes_the_burst_at_its_last_witness() {
    let run = decode(&[vec![
        switch(1000, 7, 0, 9),
        (1100, Payload::waking(9, 7, "rank", 0)),
        switch(2000, 8, 1, 7),                  // nobody saw 9 leave and 8 come
        number(2100, 6, "reschedule_entry", 1), // nor 7 leave and 6 come
        number(2101, 6, "reschedule_exit", 1),
        switch(2200, 6, 1, 0),
    ]]);
    assert_eq!(
        run.bursts(),
        [
            "cpu0 7: 100..1000 r0 ?",
            "cpu0 9: 1000..1100 r5 ?",
            "cpu0 6: 2100..2200 r1 ?",
            "cpu0 0: 2200..10000 r5 ?",
        ]
    );
    assert_eq!(
        run.losses(),
        [(
            "switches missing from the kernel trace without reported loss".to_owned(),
            2
        )]
    );
}

#[test]
fn an_idle_cpu_turns_to_the_thread_woken_on_it_also_where_the_switch_is_missing() {
    let wake = |time, cpu| {
        vec![
            number(time, 0, "local_timer_entry", 1),
            (time + 1, Payload::waking(0, 7, "rank", cpu)),
            number(time + 5, 0, "local_timer_exit", 1),
        ]
    };
    let here = [wake(1000, 0), vec![switch(2000, 7, 1, 0)]].concat();
    let elsewhere = [wake(3000, 1), vec![switch(4000, 7, 1, 0)]].concat();
    let run = decode(&[[here, elsewhere].concat()]);
    assert_eq!(
        run.bursts(),
        [
            "cpu0 0: 100..1005 r5 ?",
            "cpu0 7: 1005..2000 r1 ?",
            "cpu0 0: 2000..3005 r5 ?",
            "cpu0 0: 4000..10000 r5 ?",
        ]
    );
}

#[test]
fn unmatched_entries_and_exits_are_tolerated_and_counted() {
    let run = decode(&[vec![
        switch(1000, 7, 0, 9),
        number(1100, 9, "softirq_exit", 3), // never entered
        number(1200, 9, "softirq_entry", 1),
        number(1210, 9, "local_timer_entry", 1), // never left
        number(1220, 9, "softirq_exit", 1),
        number(1300, 9, "irq_work_entry", 1), // cannot outlast a switch
        switch(1400, 9, 0, 7),
        number(9000, 7, "call_function_entry", 1), // the trace ends in it
    ]]);
    assert_eq!(
        run.interrupts(),
        [
            "TIMER@9 1200..1220 d0",
            "timer tick@9 1210..1220 d1 ?",
            "irq_work@9 1300..1400 d0 ?",
            "call_function@7 9000..9000 d0 ?",
        ]
    );
    let expected = [
        ("interrupts entered but not left in the kernel trace", 2),
        ("interrupts left but not entered in the kernel trace", 1),
    ];
    assert_eq!(run.losses(), expected.map(|(what, n)| (what.to_owned(), n)));
}

#[test]
fn reported_losses_break_the_timeline_and_are_counted_once() {
    let first = pages(
        4096,
        &[
            switch(1000, 7, 0, 9),
            number(1100, 9, "local_timer_entry", 1),
        ],
    );
    let mut second = PageWriter::new(4096, 2000);
    second.event(2000, number(2000, 9, "local_timer_exit", 1).1.bytes());
    second.event(2100, switch(2100, 9, 1, 7).1.bytes());
    let mut third = PageWriter::new(4096, 3000);
    third.event(3000, switch(3000, 7, 1, 0).1.bytes());
    let bytes = [
        first,
        second.missed(Some(50)).finish(),
        third.missed(None).finish(),
    ]
    .concat();
    let run = decode_with(
        |_, capture| {
            capture.stats[0].overrun = 70;
        },
        &[bytes],
    );
    assert_eq!(
        run.bursts(),
        [
            "cpu0 7: 100..1000 r0 ?",
            "cpu0 9: 1000..1100 r5 ?",
            "cpu0 9: 2000..2100 r1 ?",
            "cpu0 0: 3000..10000 r5 ?",
        ]
    );
    assert_eq!(run.interrupts(), ["timer tick@9 1100..1100 d0 ?"]);
    assert_eq!(run.summary.missed, 70);
    assert_eq!(
        run.losses(),
        [("kernel trace events lost on CPU 0".to_owned(), 70)]
    );
}

#[test]
fn events_lost_after_the_last_one_leave_the_end_open() {
    let bytes = pages(4096, &[switch(1000, 7, 0, 9), (1500, Payload::fault(9))]);
    let run = decode_with(|_, capture| capture.stats[0].dropped = 3, &[bytes]);
    assert_eq!(
        run.bursts(),
        ["cpu0 7: 100..1000 r0 ?", "cpu0 9: 1000..1500 r5 ?"]
    );
}

#[test]
fn a_wakeup_has_its_waker_and_the_cpu_that_was_chosen() {
    let run = decode(&[vec![
        (1000, Payload::waking(9, 7, "rank", 0)),
        (1001, Payload::migrate(9, 7, 0, 3)),
        (1100, Payload::waking(9, 8, "other", 1)),
        (1101, Payload::migrate(9, 6, 2, 4)), // another thread
        (1200, Payload::waking(9, 5, "third", 2)),
        number(1201, 9, "reschedule_entry", 1),
        (1202, Payload::migrate(9, 5, 2, 6)), // too late to belong to the wake-up
    ]]);
    let rows: Vec<_> = run.run.read::<Wakeups>().unwrap().rows().collect();
    let rows = rows
        .iter()
        .map(|w| (w.time_ns, w.waker.get(), w.pid.get(), w.target_cpu.get()));
    assert_eq!(
        rows.collect::<Vec<_>>(),
        [(1000, 9, 7, 3), (1100, 9, 8, 1), (1200, 9, 5, 2)]
    );
    let moved: Vec<_> = run.run.read::<Migrations>().unwrap().rows().collect();
    let moved = moved
        .iter()
        .map(|m| (m.time_ns, m.pid.get(), m.from.get(), m.to.get()));
    assert_eq!(
        moved.collect::<Vec<_>>(),
        [(1001, 7, 0, 3), (1101, 6, 2, 4), (1202, 5, 2, 6)]
    );
}

#[test]
fn system_calls_are_rows_of_a_table_that_only_such_captures_have() {
    let calls = |events: &[(u64, Payload)]| {
        let found = decode_with(|_, _| {}, &[pages(4096, events)]);
        let run = &found.run;
        let table = run.table_if_present::<Syscalls>().unwrap();
        let rows = table.map(|_| run.read::<Syscalls>().unwrap().rows().collect::<Vec<_>>());
        assert_eq!(
            found.summary.syscalls,
            rows.as_ref().map_or(0, Vec::len) as u64
        );
        assert_eq!(run.path().join("syscalls.arrow").exists(), rows.is_some());
        rows
    };
    let switch = |time, next| (time, Payload::switch((0, "swapper"), 0, (next, "app")));
    assert_eq!(calls(&[switch(200, 9)]), None);
    let rows = calls(&[
        switch(200, 9),
        (300, Payload::syscall(9, 202, false)),
        (400, Payload::syscall(9, 202, true)),
        // A tracer, or the return from a signal handler, leaves no number.
        (500, Payload::syscall(9, -1, true)),
    ]);
    let row = |time_ns, number, returned| Syscall {
        node: NodeId::new(0),
        time_ns,
        cpu: Cpu::new(0),
        pid: Pid::new(9),
        number,
        returned,
    };
    let expected = vec![
        row(300, Some(202), false),
        row(400, Some(202), true),
        row(500, None, true),
    ];
    assert_eq!(rows, Some(expected));
}
