//! Programs that end abnormally, poll, fork, use threads or outrun their recorder.

#[allow(dead_code)]
mod common;

use common::{Place, Process, Run};
use idlewave_interpose::ring::{
    CAPACITY_VARIABLE, CLOCKS_VARIABLE, DIRECTORY_VARIABLE, flags, life,
};
use idlewave_interpose::{Mark, Record};
use idlewave_mpi::testing::{Installation, some_installations};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The program of all tests, compiled once while any of them runs.
static PROGRAMS: Mutex<Weak<Programs>> = Mutex::new(Weak::new());

struct Programs {
    place: Place,
    /// By installation; `None` where there is no compiler.
    compiled: Mutex<BTreeMap<&'static str, Option<PathBuf>>>,
}

impl Programs {
    fn shared() -> Arc<Self> {
        let mut shared = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let programs = Arc::new(Self {
                place: Place::new(),
                compiled: Mutex::default(),
            });
            *shared = Arc::downgrade(&programs);
            programs
        })
    }

    fn of(&self, mpi: &Installation) -> Option<PathBuf> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let compile = || self.place.compile_c(mpi, "life.c");
        compiled.entry(mpi.name).or_insert_with(compile).clone()
    }
}

fn each(what: &str, ranks: u32, more: &[(&str, &str)], check: impl Fn(&Installation, Run)) {
    let programs = Programs::shared();
    // A separate place for the rings.
    let place = Place::new();
    for mpi in some_installations(what) {
        if let Some(program) = programs.of(&mpi) {
            check(
                &mpi,
                place.run(&mpi, ranks, &[&program, Path::new(what)], more),
            );
        }
    }
}

fn well(mpi: &Installation, run: Run, ranks: usize) -> Vec<Process> {
    let words = String::from_utf8_lossy(&run.output.stderr);
    assert!(run.output.status.success(), "{}: {words}", mpi.name);
    assert_eq!(run.processes.len(), ranks, "{}", mpi.name);
    run.processes
}

#[test]
fn a_killed_program_leaves_everything_up_to_its_end() {
    each("crash", 2, &[], |mpi, run| {
        assert!(!run.output.status.success());
        assert_eq!(run.processes.len(), 2, "{}", mpi.name);
        // The first rank that is killed takes the other with it, which may not have left its last
        // barrier.
        let whole = run
            .processes
            .iter()
            .filter(|process| process.calls("MPI_Barrier").len() == 2);
        assert!(whole.count() >= 1, "{}", mpi.name);
        for process in &run.processes {
            assert_eq!(
                process.rings[0].state.life,
                life::INITIALISED,
                "{}",
                mpi.name
            );
            assert!(!process.calls("MPI_Barrier").is_empty(), "{}", mpi.name);
        }
    });
}

#[test]
fn an_abort_is_seen() {
    each("abort", 2, &[], |mpi, run| {
        let words = String::from_utf8_lossy(&run.output.stderr);
        let what = format!("{}: {words}", mpi.name);
        assert!(!run.output.status.success(), "{what}");
        assert_eq!(run.processes.len(), 2, "{what}");
        let [first, second] = [0, 1].map(|rank| &run.processes[rank]);
        // The rank that calls MPI_Abort has recorded it before it ends anybody, including itself.
        assert_eq!(first.calls("MPI_Abort").len(), 1, "{what}");
        let aborted = life::INITIALISED | life::ABORTED;
        assert_eq!(first.rings[0].state.life, aborted, "{what}");
        // The other rank waits to be ended and records nothing more.
        assert_eq!(second.calls("MPI_Abort").len(), 0, "{what}");
        let ended = life::ABORTED | life::FINALISING | life::FINALISED;
        assert_eq!(second.rings[0].state.life & ended, 0, "{what}");
    });
}

#[test]
fn what_is_called_inside_of_a_call_is_not_recorded() {
    each("callback", 1, &[], |mpi, run| {
        let said = String::from_utf8_lossy(&run.output.stdout).into_owned();
        assert!(said.contains("deleted"), "{}: {said}", mpi.name);
        let process = &well(mpi, run, 1)[0];
        assert_eq!(process.calls("MPI_Finalize").len(), 1, "{}", mpi.name);
        assert_eq!(process.calls("MPI_Send").len(), 0, "{}", mpi.name);
    });
}

#[test]
fn requests_that_share_a_handle_are_told_apart_by_their_variables() {
    each("shared", 1, &[], |mpi, run| {
        let process = &well(mpi, run, 1)[0];
        let requests = process.records().filter_map(|record| match record {
            Record::Call { request, .. } => *request,
            _ => None,
        });
        let requests: Vec<_> = requests.collect();
        assert_eq!(requests.len(), 6, "{}: {requests:?}", mpi.name);
        let [first, second] = [requests[0], requests[1]];
        assert_ne!(first, second, "{}", mpi.name);
        // Waited for in the other order.
        assert_eq!(requests[2..4], [second, first], "{}", mpi.name);
        // MPI_Start and the wait that completes it; the wait for an inactive request names none.
        assert_eq!(requests[4], requests[5], "{}", mpi.name);
    });
}

#[test]
fn requests_that_share_a_handle_and_were_copied_are_taken_in_the_order_in_which_they_were_started()
{
    each("copied", 1, &[], |mpi, run| {
        let process = &well(mpi, run, 1)[0];
        let requests = process.records().filter_map(|record| match record {
            Record::Call { request, .. } => *request,
            _ => None,
        });
        let requests: Vec<_> = requests.collect();
        // Four that start, two waits; MPI_Waitall names none.
        assert_eq!(requests.len(), 6, "{}: {requests:?}", mpi.name);
        assert_eq!(requests[4], requests[3], "{}", mpi.name);
        assert_eq!(requests[5], requests[0], "{}", mpi.name);
    });
}

#[test]
fn a_program_that_ends_well_says_so_and_one_that_does_not_finalise_too() {
    each("marks", 2, &[], |mpi, run| {
        for process in well(mpi, run, 2) {
            let all = life::INITIALISED | life::FINALISING | life::FINALISED | life::EXITED;
            assert_eq!(process.rings[0].state.life, all, "{}", mpi.name);
        }
    });
    each("exit", 2, &[], |mpi, run| {
        for process in &run.processes {
            assert_eq!(
                process.rings[0].state.life & life::FINALISING,
                0,
                "{}",
                mpi.name
            );
        }
    });
}

#[test]
fn a_program_without_mpi_leaves_no_file_and_one_without_a_directory_runs_on() {
    each("nothing", 1, &[], |mpi, run| {
        well(mpi, run, 0);
    });
    each(
        "many",
        1,
        &[(DIRECTORY_VARIABLE, "/nowhere/at/all")],
        |mpi, run| {
            well(mpi, run, 0);
        },
    );
}

#[test]
fn a_rank_without_a_ring_does_not_hold_up_the_others() {
    let (programs, place) = (Programs::shared(), Place::new());
    for mpi in some_installations("held up") {
        let Some(program) = programs.of(&mpi) else {
            continue;
        };
        // A ring that cannot be made, and one that is not wanted.
        let cases = ["/nowhere/at/all", ""]
            .map(|at| [(at, 0, "ranks"), (at, 1, "nodes"), (at, 1, "ranks")]);
        for (directory, without, compared) in cases.into_iter().flatten() {
            let script = format!(
                "test \"${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}\" != {without} || export {DIRECTORY_VARIABLE}={directory}; \
                 exec \"$0\" many"
            );
            let command = [
                Path::new("/bin/sh"),
                Path::new("-c"),
                Path::new(&script),
                &program,
            ];
            let run = place.run(&mpi, 3, &command, &[(CLOCKS_VARIABLE, compared)]);
            let processes = well(&mpi, run, 2);
            let ranks = processes.iter().map(|p| p.rings[0].state.rank);
            let with = (0..3).filter(|rank| *rank != without).map(Some);
            assert!(ranks.eq(with), "{}", mpi.name);
            // The second one with a ring asks the first one.
            let clocks = |p: &Process| {
                p.records()
                    .filter(|r| matches!(r, Record::Clock { .. }))
                    .count()
            };
            let expected = if compared == "ranks" { [0, 2] } else { [0, 0] };
            assert!(processes.iter().map(clocks).eq(expected), "{}", mpi.name);
        }
    }
}

#[test]
fn threads_for_which_no_ring_can_be_made_are_counted() {
    each("refused", 1, &[], |mpi, run| {
        let process = &well(mpi, run, 1)[0];
        assert_eq!(process.rings.len(), 1, "{}", mpi.name);
        assert_eq!(process.rings[0].state.refused, 2, "{}", mpi.name);
    });
    each("many", 1, &[], |mpi, run| {
        let process = &well(mpi, run, 1)[0];
        assert_eq!(process.rings[0].state.refused, 0, "{}", mpi.name);
    });
}

#[test]
fn records_for_which_there_is_no_room_are_counted_exactly() {
    each("many", 1, &[(CAPACITY_VARIABLE, "64")], |mpi, run| {
        let process = &well(mpi, run, 1)[0];
        let state = &process.rings[0].state;
        assert_eq!(state.written, 64, "{}", mpi.name);
        // MPI_Init_thread, the members of the world, a barrier, 1,000 sends, MPI_Finalize.
        assert_eq!(state.written + state.lost, 1004, "{}", mpi.name);
        assert_eq!(process.calls("MPI_Send").len(), 61, "{}", mpi.name);
    });
}

#[test]
fn polls_that_find_nothing_are_one_record() {
    each("polls", 2, &[], |mpi, run| {
        for process in well(mpi, run, 2) {
            let polls = process.records().filter_map(|record| match record {
                Record::Polls {
                    first, last, many, ..
                } => Some((*many, first < last)),
                _ => None,
            });
            assert_eq!(polls.collect::<Vec<_>>(), [(1000, true)], "{}", mpi.name);
            assert_eq!(process.calls("MPI_Iprobe").len(), 0);
        }
    });
}

#[test]
fn threads_have_rings_of_their_own_and_may_complete_what_others_started() {
    each("threads", 2, &[], |mpi, run| {
        for (rank, process) in well(mpi, run, 2).iter().enumerate() {
            let state = &process.rings[0].state;
            if state.thread_level != Some(3) {
                println!("{} has no threads", mpi.name);
                continue;
            }
            // Thread numbers may be reused, but each thread has its own ring.
            assert_eq!(process.rings.len(), 6, "{}", mpi.name);
            let other = Some(1 - rank as u32);
            let messages = process.messages();
            for tag in [1, 2, 3, 4] {
                let found = &messages[&tag];
                assert_eq!(found.len(), 100, "{}", mpi.name);
                let good = found
                    .iter()
                    .all(|m| m.bytes == tag as u64 && m.peer == other && m.complete);
                assert!(good, "{}", mpi.name);
            }
            let sizes: Vec<_> = messages[&9]
                .iter()
                .map(|m| (m.send, m.bytes, m.complete))
                .collect();
            assert_eq!(sizes, [(false, 9, true), (true, 9, true)], "{}", mpi.name);
            let one = process.rings.iter().filter(|ring| {
                let mut records = ring.records.iter();
                records.any(|record| matches!(record, Record::Completion { .. }))
            });
            assert_eq!(one.count(), 1, "{}", mpi.name);
        }
    });
}

#[test]
fn marks_have_names_and_nest() {
    each("marks", 1, &[], |mpi, run| {
        let process = &well(mpi, run, 1)[0];
        let (mut names, mut marks) = (BTreeMap::new(), Vec::new());
        for record in process.records() {
            match record {
                Record::MarkName { number, name } => {
                    names.insert(*number, name.clone());
                }
                Record::Mark { what, number, .. } => marks.push((*what, names[number].clone())),
                _ => {}
            }
        }
        let long = "a name of more than fifty-six bytes, of which the rest i";
        let expected = [
            (Mark::Begin, "solve"),
            (Mark::Point, long),
            (Mark::Begin, "inner"),
            (Mark::End, "inner"),
            (Mark::End, "solve"),
        ];
        let marks: Vec<_> = marks
            .iter()
            .map(|(what, name): &(Mark, String)| (*what, name.as_str()))
            .collect();
        assert_eq!(marks, expected, "{}", mpi.name);
        assert_eq!(
            process.losses(),
            BTreeMap::from([("Mark".to_owned(), 1)]),
            "{}",
            mpi.name
        );
    });
}

#[test]
fn a_forked_child_has_a_ring_of_its_own() {
    each("fork", 1, &[], |mpi, run| {
        let processes = well(mpi, run, 2);
        assert_eq!(processes[0].calls("MPI_Barrier").len(), 2, "{}", mpi.name);
        assert_eq!(processes[1].rings[0].state.rank, None, "{}", mpi.name);
        assert_eq!(
            processes[1].records().count(),
            2,
            "{}: name and mark",
            mpi.name
        );
    });
}

#[test]
fn functions_that_are_not_followed_are_counted_by_name() {
    each("windows", 2, &[], |mpi, run| {
        for (rank, process) in well(mpi, run, 2).iter().enumerate() {
            let mut expected = BTreeMap::from([("MPI_Win_fence".to_owned(), 4)]);
            if rank == 0 {
                expected.insert("MPI_Put".to_owned(), 3);
            }
            assert_eq!(process.losses(), expected, "{}", mpi.name);
        }
    });
}

#[test]
fn clocks_are_compared_at_both_ends_with_the_first_rank() {
    each("many", 3, &[(CLOCKS_VARIABLE, "ranks")], |mpi, run| {
        for (rank, process) in well(mpi, run, 3).iter().enumerate() {
            let clocks = process.records().filter_map(|record| match record {
                Record::Clock {
                    sent,
                    received,
                    peer,
                    theirs,
                    own,
                } => {
                    // One machine, one clock: the answer was given before it was received.
                    assert!(sent < received && theirs <= own, "{}", mpi.name);
                    Some(*peer)
                }
                _ => None,
            });
            let expected = if rank == 0 { vec![] } else { vec![0, 0] };
            assert_eq!(clocks.collect::<Vec<_>>(), expected, "{}", mpi.name);
            assert!(process.records().all(|record| match record {
                Record::Call { flags, .. } => flags & flags::FAILED == 0,
                _ => true,
            }));
        }
    });
    each("many", 2, &[(CLOCKS_VARIABLE, "nodes")], |mpi, run| {
        for process in well(mpi, run, 2) {
            assert!(
                !process
                    .records()
                    .any(|record| matches!(record, Record::Clock { .. })),
                "{}",
                mpi.name
            );
        }
    });
}
