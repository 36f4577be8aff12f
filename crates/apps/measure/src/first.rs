//! Work on some of the ranks while the others wait, which all ranks then end in the same way.

use crate::{MeasureError, gather};
use idlewave_fabric::Fabric;
use idlewave_session::Progress;
use idlewave_units::Rank;
use idlewave_workloads::WorkloadError;

/// Does `work`, called `name`, on the first `number` ranks; `None` on the others. All ranks call it.
///
/// # Errors
/// [`MeasureError::Benchmark`], on which the ranks at work agree: the other ranks get one too. Any
/// other error ends the job, and its rank notes it first.
pub fn on_first<F: Fabric, T>(
    fabric: &mut F,
    (name, number): (&str, u32),
    progress: &dyn Progress,
    work: impl FnOnce(&mut F) -> Result<T, MeasureError>,
) -> Result<Option<T>, MeasureError> {
    let members: Vec<Rank> = (0..number).map(Rank::new).collect();
    on_ranks(fabric, (name, &members), progress, work)
}

/// [`on_first`] on these ranks.
pub fn on_ranks<F: Fabric, T>(
    fabric: &mut F,
    (name, members): (&str, &[Rank]),
    progress: &dyn Progress,
    work: impl FnOnce(&mut F) -> Result<T, MeasureError>,
) -> Result<Option<T>, MeasureError> {
    let mut failure = None;
    let done = fabric.with_ranks(members, |fabric| match work(fabric) {
        Err(error) if !is_agreed(&error) => {
            progress.note(&error.to_string());
            fabric.fail();
            failure = Some(error);
            None
        }
        done => Some(done),
    });
    // Rather than that a rank failed, which this one did.
    if let Some(error) = failure {
        return Err(error);
    }
    let done = done?.flatten().transpose();
    // Rank 0 speaks for all. If it took no part, it does not know what is wrong.
    let speaks = members.first() == Some(&fabric.rank()) && !members.contains(&Rank::new(0));
    if let (Err(error), true) = (&done, speaks) {
        progress.note(&error.to_string());
    }
    let wrong = gather::of_all(fabric, [u64::from(done.is_err())])?;
    match done {
        Ok(_) if wrong.contains(&[1]) => Err(MeasureError::Benchmark(WorkloadError::NotVerified {
            benchmark: name.to_owned(),
            what: "its result is wrong".to_owned(),
        })),
        done => done,
    }
}

fn is_agreed(error: &MeasureError) -> bool {
    matches!(error, MeasureError::Benchmark(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_fabric::{FabricError, PointToPoint, Waiting, world};
    use idlewave_session::SessionError;
    use std::sync::Mutex;

    /// What is noted.
    #[derive(Default)]
    struct Notes(Mutex<Vec<String>>);

    impl Progress for Notes {
        fn part(&self, _: &str) {}
        fn at(&self, _: f64) {}
        fn note(&self, text: &str) {
            self.0.lock().expect("no panic").push(text.to_owned());
        }
    }

    /// Each of three ranks' result of work on the first two, and what was noted.
    fn on_two(
        work: impl Fn(u32) -> Result<u32, MeasureError> + Sync,
    ) -> (Vec<Result<Option<u32>, MeasureError>>, Vec<String>) {
        let notes = Mutex::new(Vec::new());
        let done = std::thread::scope(|scope| {
            let threads: Vec<_> = world(3, Waiting::Yield)
                .into_iter()
                .map(|mut fabric| {
                    let (work, notes) = (&work, &notes);
                    scope.spawn(move || {
                        let own = Notes::default();
                        let done = on_first(&mut fabric, ("ep:S", 2), &own, |fabric| {
                            work(fabric.rank().get())
                        });
                        let own = own.0.into_inner().expect("no panic");
                        notes.lock().expect("no panic").extend(own);
                        done
                    })
                })
                .collect();
            let joined = threads.into_iter().map(|t| t.join().expect("no panic"));
            joined.collect()
        });
        (done, notes.into_inner().expect("no panic"))
    }

    #[test]
    fn those_that_take_no_part_have_no_result() {
        let (done, notes) = on_two(|rank| Ok(10 + rank));
        let done: Vec<Option<u32>> = done.into_iter().map(|d| d.expect("a result")).collect();
        assert_eq!((done, notes.len()), (vec![Some(10), Some(11), None], 0));
    }

    #[test]
    fn a_wrong_result_reaches_all_ranks_and_ends_no_job() {
        let wrong = |_| {
            Err(MeasureError::Benchmark(WorkloadError::NotVerified {
                benchmark: "ep:S".to_owned(),
                what: "the sum is 1, not 2".to_owned(),
            }))
        };
        let (done, notes) = on_two(wrong);
        let told: Vec<String> = done
            .into_iter()
            .map(|done| match done {
                Err(error @ MeasureError::Benchmark(_)) => error.to_string(),
                other => panic!("{other:?}"),
            })
            .collect();
        let [member, outside] = ["the sum is 1, not 2", "its result is wrong"];
        let told: Vec<&str> = told.iter().map(String::as_str).collect();
        let of = |what: &str| format!("verify ep:S: {what}");
        assert_eq!(told, [of(member), of(member), of(outside)]);
        assert_eq!(notes, [""; 0]);
    }

    #[test]
    fn any_other_error_is_noted_by_its_rank_and_ends_the_job() {
        let (done, notes) = on_two(|rank| match rank {
            1 => Err(SessionError::NotPossible {
                reason: "no room".to_owned(),
                next: "make some".to_owned(),
            }
            .into()),
            rank => Ok(rank),
        });
        assert!(
            done[1]
                .as_ref()
                .is_err_and(|e| e.to_string().contains("no room"))
        );
        for other in [0, 2] {
            let failed = MeasureError::Fabric(FabricError::PeerFailed).to_string();
            assert!(done[other].as_ref().is_err_and(|e| e.to_string() == failed));
        }
        assert!(
            matches!(notes.as_slice(), [note] if note.contains("no room")),
            "{notes:?}"
        );
    }
}
