//! Runs a command, such as a launcher with its ranks, on a network device of this process: without
//! the gang service, and without freezing. With a time in microseconds the gang is stopped, drained
//! and resumed that often, as a switch does.
//!
//! `on_device RANKS [MICROSECONDS] -- COMMAND`

#[path = "../tests/provider/site.rs"]
mod site;

use site::Site;
use std::process::Command;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut parts = arguments.splitn(2, |word| word == "--");
    let (Some(numbers), Some([program, rest @ ..])) = (parts.next(), parts.next()) else {
        return Err("give RANKS [MICROSECONDS] -- COMMAND".into());
    };
    let ranks = numbers.first().ok_or("give RANKS")?.parse()?;
    let every = numbers.get(1).map(|text| text.parse()).transpose()?;
    let every = every.map(Duration::from_micros);
    let library = idlewave_fi::library(&std::env::current_exe()?.with_file_name("../x"));
    let library = library.ok_or("find the provider: build the library first")?;
    let mut site = Site::new(ranks);
    let mut command = Command::new(program);
    command.args(rest);
    command.envs(idlewave_fi::variables(&library, None));
    site.prepare(&mut command);
    let (status, switches, undrained) = site.wait(&mut command.spawn()?, every);
    println!("{switches} switches, {undrained} of them not drained in time");
    println!("gang failed: {}", site.has_failed());
    std::process::exit(status.code().unwrap_or(1));
}
