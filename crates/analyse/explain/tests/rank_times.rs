//! Where the time of every rank of a recorded program went.

use crate::made::Made;
use idlewave_run::findings::ProgramFindings;
use idlewave_units::Pid;

const US: u64 = 1_000;

/// Computing, taken, waiting, communicating, in nanoseconds.
fn parts(program: &ProgramFindings, rank: usize) -> [u64; 4] {
    let t = &program.ranks_time[rank];
    [t.computing, t.taken, t.waiting, t.communicating].map(|n| n.get())
}

#[test]
fn what_is_taken_from_a_rank_inside_a_call_counts_from_the_end_of_its_wait() {
    let mut made = Made::new(2);
    // The message is there at 50 us, the rank gets its CPU back at 90 us.
    made.strike(0, (30 * US, 90 * US), 0);
    made.message(1, 0, (50 * US, 51 * US), (20 * US, 92 * US));
    let found = made.explain();
    let time = &found.program().ranks_time[0];
    let waiting = time.waiting.get();
    assert!((30 * US..=31 * US).contains(&waiting), "{waiting}");
    assert_eq!(time.taken.get(), 70 * US - waiting);
    assert_eq!(time.communicating.get(), 2 * US);
}

#[test]
fn where_the_time_of_a_rank_went_adds_up() {
    let mut made = Made::new(2);
    made.strike(1, (30 * US, 80 * US), 0);
    made.message(1, 0, (150 * US, 151 * US), (60 * US, 152 * US));
    made.mark(0, "solve", 50 * US, Some(100 * US));
    made.mark(0, "solve", 155 * US, None);
    made.mark(1, "tick", 10 * US, Some(10 * US));
    let found = made.explain();
    let program = found.program();
    // From the return of MPI_Init, at 0, to the entry into MPI_Finalize, 10 ns after the last call.
    assert_eq!(program.total.get(), 152 * US + 10);
    assert_eq!(parts(program, 0), [60 * US + 10, 0, 90 * US, 2 * US]);
    assert_eq!(parts(program, 1), [101 * US + 10, 50 * US, 0, US]);
    assert_eq!((program.messages, program.message_bytes), (1, 64));
    assert_eq!(program.library.as_deref(), Some("Test MPI 1.0"));
    let receive = program
        .operations
        .iter()
        .find(|o| o.name == "MPI_Recv")
        .unwrap();
    assert_eq!(
        (receive.time.get(), receive.waiting.get()),
        (92 * US, 90 * US)
    );
    let send = program
        .operations
        .iter()
        .find(|o| o.name == "MPI_Send")
        .unwrap();
    assert_eq!((send.calls, send.bytes, send.median.get()), (1, 64, US));
    let solve = &program.marks[0];
    assert_eq!((solve.name.as_str(), solve.count), ("solve", 2));
    assert_eq!((solve.time.get(), solve.waiting.get()), (50 * US, 40 * US));
    assert_eq!(
        (program.marks[1].count, program.marks[1].time.get()),
        (1, 0)
    );
}

#[test]
fn every_rank_is_looked_at_until_it_enters_finalize_itself() {
    let mut made = Made::new(2);
    made.message(1, 0, (10 * US, 11 * US), (9 * US, 12 * US));
    made.call("MPI_Send", 0, (80 * US, 81 * US));
    made.finalize.insert(1, Some(20 * US));
    let found = made.explain();
    assert_eq!(found.program().total.get(), 81 * US + 10);
    assert_eq!(parts(found.program(), 1), [19 * US, 0, 0, US]);
    let all: u64 = parts(found.program(), 0).iter().sum();
    assert_eq!(all, 81 * US + 10);
}

#[test]
fn what_a_rank_did_after_its_last_call_is_not_known_if_it_never_entered_finalize() {
    let mut made = Made::new(2);
    made.message(1, 0, (10 * US, 11 * US), (9 * US, 12 * US));
    made.call("MPI_Send", 1, (80 * US, 81 * US));
    made.finalize.insert(0, None);
    let found = made.explain();
    assert_eq!(parts(found.program(), 0).iter().sum::<u64>(), 12 * US);
    assert_eq!(found.program().total.get(), 81 * US + 10);
}

#[test]
fn the_thread_with_most_calls_stands_for_its_rank() {
    let mut made = Made::new(2);
    made.message(1, 0, (10 * US, 11 * US), (9 * US, 12 * US));
    let whole = made.explain();
    let beside = made.write_with(|manifest| {
        for (i, sheet) in manifest.ranks.iter_mut().enumerate() {
            sheet.threads.insert(0, Pid::new(900 + i as u32));
        }
    });
    let found = beside.explain();
    assert!(parts(found.program(), 0)[2] > 0);
    assert_eq!(found.program().ranks_time, whole.program().ranks_time);
}

#[test]
fn without_an_init_all_ranks_are_there_when_the_last_one_is_seen() {
    let made = |last_seen: u64| {
        let mut made = Made::new(2);
        made.library = "nccl";
        made.message(1, 0, (60 * US, 61 * US), (50 * US, 62 * US));
        made.call("MPI_Send", 1, (80 * US, 81 * US));
        made.first_seen(1, last_seen);
        made
    };
    let time = |made: Made| {
        let found = made.explain();
        [0, 1].map(|rank| parts(found.program(), rank).iter().sum::<u64>())
    };
    // The last calls are this library's Finalize: they start 10 ns later and take 1 us.
    let end = 82 * US + 10;
    assert_eq!(time(made(40 * US)), [end - 40 * US; 2]);
    let mut marked = made(40 * US);
    marked.mark(1, "forward", 30 * US, Some(35 * US));
    assert_eq!(time(marked), [end - 30 * US; 2]);
    // If a rank has ended by then, nothing is left out: the recording starts 100 us earlier.
    let mut apart = Made::new(2);
    apart.library = "nccl";
    apart.call("MPI_Send", 0, (50 * US, 62 * US));
    apart.call("MPI_Send", 1, (80 * US, 81 * US));
    apart.first_seen(1, 78 * US);
    apart.finalize.insert(0, None);
    let [first, second] = time(apart);
    assert_eq!((first, second), (162 * US, end + 100 * US));
}
