//! How fast a kernel trace becomes a run, for docs/benchmarks.md: `import_speed FILE [TIMES [COMMAND ...]]`.
//!
//! Each time the file is imported and then the command is run, if there is one, so that both see the
//! same machine. Times are those of the clock and of the processor; medians over all times.

use idlewave_formats::import::{Ask, import};
use idlewave_sys::terminal::say;
use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Seconds by the clock and of the processor.
type Took = (f64, f64);

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let file = words
        .first()
        .ok_or("import_speed FILE [TIMES [COMMAND ...]]")?;
    let times = words.get(1).map_or(Ok(5), |word| word.parse::<usize>())?;
    let (mut events, mut ours, mut theirs) = (0, Vec::new(), Vec::new());
    for _ in 0..times.max(1) {
        let dir = tempfile::tempdir()?;
        let (count, took) = imported(Path::new(file), &dir.path().join("run"))?;
        events = count;
        ours.push(took);
        if let Some((program, arguments)) = words.get(2..).and_then(<[String]>::split_first) {
            theirs.push(ran(program, arguments)?);
        }
    }
    show("import", events, ours);
    if !theirs.is_empty() {
        show("the command", events, theirs);
    }
    Ok(())
}

fn imported(file: &Path, output: &Path) -> Result<(u64, Took), Box<dyn Error>> {
    let (begin, cpu) = (Instant::now(), cpu_seconds()?.0);
    let imported = import(&Ask::new(file, output))?;
    let took = (begin.elapsed().as_secs_f64(), cpu_seconds()?.0 - cpu);
    Ok((imported.events, took))
}

fn ran(program: &str, arguments: &[String]) -> Result<Took, Box<dyn Error>> {
    let (begin, cpu) = (Instant::now(), cpu_seconds()?.1);
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let status = command.status()?;
    if !status.success() {
        return Err(format!("{program} ended with {status}").into());
    }
    Ok((begin.elapsed().as_secs_f64(), cpu_seconds()?.1 - cpu))
}

/// Processor time in user mode, of this process and of its ended children (proc(5), stat).
fn cpu_seconds() -> Result<(f64, f64), Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let after = text.rsplit(')').next().unwrap_or_default();
    let words: Vec<&str> = after.split_whitespace().collect();
    let ticks = |n: usize| words.get(n).and_then(|word| word.parse::<f64>().ok());
    // Linux counts these in hundredths of a second on every machine.
    let seconds = |n: usize| ticks(n).map(|ticks| ticks / 100.0).ok_or("a short stat");
    Ok((seconds(11)?, seconds(13)?))
}

fn show(what: &str, events: u64, took: Vec<Took>) {
    let line = |name: &str, mut seconds: Vec<f64>| {
        seconds.sort_by(f64::total_cmp);
        let rate = |s: f64| events as f64 / s.max(0.01) / 1e6;
        let (least, most) = (seconds[0], seconds[seconds.len() - 1]);
        let median = seconds[seconds.len() / 2];
        say(&format!(
            "{what}: {events} events, {name}: median {median:.2} s, {:.2} M/s, {:.2} to {:.2} M/s, n = {}\n",
            rate(median),
            rate(most),
            rate(least),
            seconds.len(),
        ));
    };
    line("by the clock", took.iter().map(|t| t.0).collect());
    line("user CPU", took.iter().map(|t| t.1).collect());
}
