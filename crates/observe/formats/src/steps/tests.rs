use super::*;
use proptest::prelude::*;

fn read(text: &str, unit: Option<Unit>) -> Result<StepFile, String> {
    read_csv(text.as_bytes(), unit).map_err(|error| error.to_string())
}

const US: Option<Unit> = Some(Unit::Microseconds);

#[test]
fn a_list_in_any_order_becomes_steps_of_all_ranks() {
    let text = "\u{23} a comment\nstep,duration_us,host,rank,begin [ns]\n\
        1,20,a,0,1000\n0, 10.5,a,0,0\n0,11,b,1,5\n1,21,b,1,1001 # slow\n2,9,a,0,2000\n";
    let got = read(text, None).unwrap();
    assert_eq!(got.durations, [10_500, 11_000, 20_000, 21_000]);
    assert_eq!(got.begins, [0, 5, 1_000, 1_001]);
    assert_eq!((got.ranks, got.left_out), (2, 1));
}

#[test]
fn a_matrix_has_a_row_per_step_and_begins_when_all_have_ended() {
    let rows = "10 11 12\n20\t1e1 1\n";
    let wrong = read(rows, US).unwrap_err();
    assert!(
        wrong.starts_with("line 2: it has 2 fields, the first line 3"),
        "{wrong}"
    );
    let got = read("10 11 12\r\n20 1e1 1\r\n", US).unwrap();
    assert_eq!(
        got.durations,
        [10_000, 11_000, 12_000, 20_000, 10_000, 1_000]
    );
    assert_eq!(got.begins, [0, 0, 0, 12_000, 12_000, 12_000]);
    // Names of ranks, and a column of steps.
    let named = read("step;r0;r1\n7;1;2\n8;3;4\n", Some(Unit::Seconds)).unwrap();
    assert_eq!(named.durations[3], 4_000_000_000);
    assert_eq!(named.ranks, 2);
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let said = |text: &str, unit, part: &str| {
        let error = read(text, unit).unwrap_err();
        assert!(error.contains(part), "{error}");
    };
    said("", None, "it is empty");
    said("1 2\n3 4\n", None, "line 1: a matrix of times has no unit");
    said(
        "rank,step,duration\n0,0,1\n",
        None,
        "line 1: column `duration` has no unit",
    );
    said(
        "rank,duration_us\n0,1\n",
        None,
        "line 1: column `step` is missing",
    );
    said(
        "rank,step,duration_us\n0,0,-1\n",
        None,
        "line 2: a duration is not",
    );
    said(
        "rank,step,duration_us\n0,0,nan\n",
        None,
        "line 2: a duration is not",
    );
    said(
        "rank,step,duration_s\n0,0,1e6\n",
        None,
        "line 2: a duration is not",
    );
    said(
        "rank,step,duration_us\n0.5,0,1\n",
        None,
        "line 2: `rank` is not",
    );
    said(
        "rank,step,duration_us\n0,0,1\n0,0,2\n",
        None,
        "rank 0 has step 0 twice",
    );
    said(
        "rank,step,duration_us\n1,0,1\n1,1,2\n",
        None,
        "rank 1 is there, but rank 0 is not",
    );
    said(
        "rank,step,duration_us\n0,0,1\n1,0,2\n0,1,2\n",
        None,
        "it has 1 steps",
    );
    said("1 2\n", US, "it has 1 steps");
    let bytes = read_csv(b"1 2\n\xff", US).unwrap_err().to_string();
    assert_eq!(bytes, "line 2: it is not text");
}

proptest! {
    #[test]
    fn list_and_matrix_of_the_same_times_are_read_alike(
        ranks in 1_usize..5,
        times in prop::collection::vec(0_u64..1_000_000, 10..60),
    ) {
        let steps = times.len() / ranks;
        let times = &times[..steps * ranks];
        let matrix: Vec<String> = times
            .chunks(ranks)
            .map(|step| step.iter().map(u64::to_string).collect::<Vec<_>>().join(","))
            .collect();
        let mut list = vec!["rank,step,duration_ns".to_owned()];
        // From the last to the first.
        list.extend((0..times.len()).rev().map(|i| format!("{},{},{}", i % ranks, i / ranks, times[i])));
        let read_list = read(&list.join("\n"), None).unwrap();
        prop_assert_eq!(&read_list.durations[..], times);
        prop_assert_eq!(read(&matrix.join("\n"), Some(Unit::Nanoseconds)).unwrap(), read_list);
    }

    #[test]
    fn no_text_makes_it_panic(text in "[rankstepduio_,; 0-9.e\n-]{0,200}") {
        for unit in [None, US] {
            if let Ok(got) = read(&text, unit) {
                prop_assert_eq!(got.durations.len(), got.begins.len());
                prop_assert!(got.durations.len() >= 2 * got.ranks);
            }
        }
    }
}
