//! A capture of this machine, recorded by a minimal recorder into its own tracefs instance. Needs
//! root and tracefs; otherwise says why it is skipped.
#![allow(
    clippy::unwrap_used,
    reason = "clippy takes only functions marked as tests for tests"
)]

use idlewave_ftrace::{CpuStats, EVENTS, RawCapture, decode_capture, format_path, pages_path};
use idlewave_run::tables::{Bursts, Interrupts, Sources, Tasks};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{RunReader, RunWriter, Table};
use idlewave_units::{Cpu, NodeId, Pid};
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A tracefs instance, removed on drop.
struct Instance(PathBuf);

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("tracing_on"), "0");
        let _ = fs::remove_dir(&self.0);
    }
}

fn now_ns() -> u64 {
    idlewave_sys::clock::now().get()
}

fn record(raw: &Path) -> Result<(RawCapture, Vec<u64>), io::Error> {
    let tracefs = Path::new("/sys/kernel/tracing");
    let dir = tracefs.join(format!("instances/idlewave-test-{}", std::process::id()));
    fs::create_dir(&dir)?;
    let instance = Instance(dir.clone());
    fs::write(dir.join("tracing_on"), "0")?;
    fs::write(dir.join("trace_clock"), "mono")?;
    fs::write(dir.join("buffer_size_kb"), "4096")?;
    for (system, event) in EVENTS {
        let source = tracefs.join("events").join(system).join(event);
        if let Ok(text) = fs::read(source.join("format")) {
            let path = format_path(raw, system, event);
            fs::create_dir_all(path.parent().unwrap())?;
            fs::write(path, text)?;
            fs::write(
                dir.join("events").join(system).join(event).join("enable"),
                "1",
            )?;
        }
    }
    // This file takes a single read: a second one, at an offset, gets nothing.
    let mut text = vec![0; 4096];
    let length = fs::File::open(tracefs.join("events/header_page"))?.read(&mut text)?;
    fs::write(raw.join("header_page"), &text[..length])?;
    let online = fs::read_dir(dir.join("per_cpu"))?.count() as u32;
    let on_ns = now_ns();
    fs::write(dir.join("tracing_on"), "1")?;
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(2));
        std::hint::black_box(vec![1_u8; 1 << 20]);
    }
    fs::write(dir.join("tracing_on"), "0")?;
    let off_ns = now_ns();
    let (mut stats, mut read_events) = (Vec::new(), Vec::new());
    for cpu in (0..online).map(Cpu::new) {
        let per_cpu = dir.join("per_cpu").join(format!("cpu{cpu}"));
        let mut pipe = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(per_cpu.join("trace_pipe_raw"))?;
        let mut bytes = Vec::new();
        let mut page = vec![0; rustix::param::page_size()];
        while let Ok(n) = pipe.read(&mut page) {
            if n == 0 {
                break;
            }
            bytes.extend(&page[..n]);
        }
        drop(pipe);
        fs::write(pages_path(raw, cpu), &bytes)?;
        let text = fs::read_to_string(per_cpu.join("stats"))?;
        let stat = |name: &str| {
            let value = text.lines().find_map(|l| l.strip_prefix(name));
            value
                .unwrap()
                .trim_start_matches(':')
                .trim()
                .parse::<u64>()
                .unwrap()
        };
        read_events.push(stat("read events"));
        stats.push(CpuStats {
            cpu,
            overrun: stat("overrun"),
            commit_overrun: stat("commit overrun"),
            dropped: stat("dropped events"),
            bytes: bytes.len() as u64,
        });
    }
    drop(instance);
    let capture = RawCapture {
        page_size: rustix::param::page_size() as u32,
        clock: "mono".to_owned(),
        cpus: stats.iter().map(|s| s.cpu).collect(),
        little_endian: cfg!(target_endian = "little"),
        long_bytes: size_of::<usize>() as u8,
        on_ns,
        off_ns: Some(off_ns),
        stats,
        tasks: Vec::new(),
    };
    capture.save(raw).map_err(io::Error::other)?;
    Ok((capture, read_events))
}

#[test]
fn a_capture_of_this_machine_has_every_event_and_accounts_for_all_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut out = RunWriter::create(&dir.path().join("run"), empty_manifest()).unwrap();
    let raw = out.path().join("raw");
    fs::create_dir(&raw).unwrap();
    let (capture, read_events) = match record(&raw) {
        Ok(recorded) => recorded,
        Err(e) => {
            println!("skipped: no own tracefs instance: {e}");
            return;
        }
    };
    let stop = AtomicBool::new(false);
    let summary = decode_capture(&raw, NodeId::new(0), &mut out, &stop, &|_| {}).unwrap();
    out.close(None).unwrap();
    println!("{summary:#?}");
    let run = RunReader::open(out.path()).unwrap();
    let bursts = run.read::<Bursts>().unwrap();
    let interrupts = run.read::<Interrupts>().unwrap();
    let sources = run.read::<Sources>().unwrap();
    println!("{:?}", sources.name);
    // The kernel's own count of what was read is the oracle.
    assert_eq!(summary.events, read_events.iter().sum::<u64>());
    let me = Pid::new(thread_number());
    assert!(bursts.pid.contains(&me));
    assert!(run.read::<Tasks>().unwrap().pid.contains(&me));
    assert!(
        interrupts
            .source
            .iter()
            .all(|s| (*s as usize) < sources.len())
    );
    if !summary.losses.is_empty() {
        println!("skipped: all time accounted for: there were losses");
        return;
    }
    let span = capture.off_ns.unwrap() - capture.on_ns;
    for cpu in &capture.cpus {
        let of_cpu = bursts.rows().filter(|b| b.cpu == *cpu);
        let ran: u64 = of_cpu.map(|b| b.end_ns - b.begin_ns).sum();
        assert!(ran == 0 || ran == span, "CPU {cpu}: {ran} of {span} ns");
    }
}

fn thread_number() -> u32 {
    idlewave_sys::process::own_thread().get()
}
