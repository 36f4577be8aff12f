//! Exports a run: `export FORMAT RUN OUTPUT [TIMES]`. Prints records per second, for docs/export.md.

use idlewave_formats::export::{Format, Job};
use idlewave_run::RunReader;
use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [format, run, output, rest @ ..] = words.as_slice() else {
        return Err("expected FORMAT RUN OUTPUT [TIMES]".into());
    };
    let format = Format::named(format).ok_or("no such format")?;
    let times: u32 = rest.first().map_or(Ok(1), |n| n.parse())?;
    let run = RunReader::open(Path::new(run))?;
    for _ in 0..times {
        let begin = Instant::now();
        let export = format.write(&Job {
            run: &run,
            output: Path::new(output),
            stop: &AtomicBool::new(false),
            progress: &|_| (),
        })?;
        let took = begin.elapsed().as_secs_f64();
        let records: u64 = export.files.iter().filter_map(|f| f.records).sum();
        let rate = records as f64 / took / 1e6;
        idlewave_sys::terminal::say(&format!(
            "{records} records in {took:.3} s: {rate:.2} M/s\n"
        ));
    }
    Ok(())
}
