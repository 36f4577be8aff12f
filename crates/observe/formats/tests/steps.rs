//! Times of steps in Arrow files, as any program may write them.

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, UInt16Array};
use arrow_ipc::writer::FileWriter;
use idlewave_formats::steps::{Unit, read_arrow, read_csv};
use std::fs;
use std::sync::Arc;

const LIST: &str = "rank,step,duration_ms\n0,0,1.5\n1,0,2\n0,1,2.5\n1,1,3\n0,2,9\n";

/// The list as an Arrow file of two batches; `duration` is the name of the last column.
fn arrow(duration: &str) -> Vec<u8> {
    let batch = |ranks: Vec<u16>, steps: Vec<i64>, times: Vec<f64>| {
        let host = vec!["a"; ranks.len()];
        let columns: [(&str, ArrayRef); 4] = [
            ("step", Arc::new(Int64Array::from(steps))),
            ("host", Arc::new(StringArray::from(host))),
            ("rank", Arc::new(UInt16Array::from(ranks))),
            (duration, Arc::new(Float64Array::from(times))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let first = batch(vec![0, 1], vec![0, 0], vec![1.5, 2.0]);
    let mut out = FileWriter::try_new(Vec::new(), &first.schema()).unwrap();
    out.write(&first).unwrap();
    out.write(&batch(vec![0, 1, 0], vec![1, 1, 2], vec![2.5, 3.0, 9.0]))
        .unwrap();
    out.into_inner().unwrap()
}

#[test]
fn an_arrow_file_is_read_like_the_same_list_as_text() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("times.arrow");
    let text = read_csv(LIST.as_bytes(), None).unwrap();
    assert_eq!(text.durations, [1_500_000, 2_000_000, 2_500_000, 3_000_000]);
    assert_eq!(text.left_out, 1);
    fs::write(&path, arrow("duration_ms")).unwrap();
    assert_eq!(read_arrow(&path, None).unwrap(), text);
    fs::write(&path, arrow("duration")).unwrap();
    assert_eq!(read_arrow(&path, Some(Unit::Milliseconds)).unwrap(), text);
    let error = read_arrow(&path, None).unwrap_err().to_string();
    assert!(
        error.contains("times.arrow") && error.contains("has no unit"),
        "{error}"
    );
    fs::write(&path, arrow("time")).unwrap();
    let error = read_arrow(&path, None).unwrap_err().to_string();
    assert!(error.contains("column `duration` is missing"), "{error}");
}

#[test]
fn a_damaged_arrow_file_is_refused_or_read_as_whole_steps() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("times.arrow");
    let whole = arrow("duration_ms");
    for end in (0..whole.len()).step_by(41) {
        fs::write(&path, &whole[..end]).unwrap();
        assert!(read_arrow(&path, None).is_err(), "cut at {end}");
    }
    for place in (0..whole.len()).step_by(17) {
        let mut damaged = whole.clone();
        damaged[place] ^= 0x5a;
        fs::write(&path, damaged).unwrap();
        if let Ok(read) = read_arrow(&path, None) {
            assert!(read.durations.len() >= 2 * read.ranks, "changed at {place}");
        }
    }
}
