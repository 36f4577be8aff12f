//! Runs a command, such as a launcher with its ranks, on a network device of this process: without
//! the gang service, and without freezing. With a time in microseconds the gang is stopped, drained
//! and resumed that often, as a switch does.
//!
//! `on_device RANKS [MICROSECONDS] -- COMMAND`

use idlewave_fabric::netctx::device::{Attachment, Gang, Setup, write_ticket};
use idlewave_fabric::netctx::{Device, Memory};
use std::process::Command;
use std::time::Duration;

type Failed = Box<dyn std::error::Error>;

const GANG: u32 = 1;

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut parts = arguments.splitn(2, |word| word == "--");
    let (Some(numbers), Some([program, rest @ ..])) = (parts.next(), parts.next()) else {
        return Err("give RANKS [MICROSECONDS] -- COMMAND".into());
    };
    let ranks: u32 = numbers.first().ok_or("give RANKS")?.parse()?;
    let every = numbers.get(1).map(|text| text.parse()).transpose()?;
    let every = every.map(Duration::from_micros);

    let directory = tempfile::tempdir_in("/dev/shm")?;
    let transport = Memory::all(1).remove(0);
    let setup = Setup::new(directory.path().join("device"));
    let device = Device::new(&setup, transport)?;
    let nodes = vec![0; ranks as usize];
    device.admit(&Gang { gang: GANG, nodes })?;
    device.switch(GANG, Duration::from_secs(1))?;
    device.resume(1)?;
    let ticket = directory.path().join("ticket");
    let user = idlewave_sys::Uid::own().get();
    write_ticket(&ticket, device.path(), GANG, user)?;

    let mut child = Command::new(program)
        .args(rest)
        .env(Attachment::VARIABLE, Attachment::of_ticket(&ticket))
        .spawn()?;
    let (mut switches, mut aborted) = (0_u32, 0_u32);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(every.unwrap_or(Duration::from_millis(5)));
        if every.is_some() {
            device.stop(GANG)?;
            let drained = device.wait_drained(Duration::from_millis(100)).complete;
            switches += 1;
            aborted += u32::from(!drained);
            device.resume(u64::from(switches) + 1)?;
        }
    };
    if every.is_some() {
        println!("{switches} switches, {aborted} of them not drained in time");
    }
    let failed = device.has_failed(GANG)?;
    println!("gang failed: {failed}");
    std::process::exit(status.code().unwrap_or(1));
}
