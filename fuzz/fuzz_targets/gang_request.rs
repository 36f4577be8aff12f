//! What anybody may say on the control socket of gang switching: no panic; what is read is written and read the same again; every line is
//! answered with a line of JSON.
#![no_main]

mod gang;

use idlewave_gang_agent::control::{Reply, Request};
use libfuzzer_sys::fuzz_target;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Requests that a byte stands for, so that those are found that go somewhere.
const PARTS: [&str; 16] = [
    "{\"submit\":{\"name\":\"",
    "\",\"mark\":{\"token\":\"",
    "\"},\"user\":",
    ",\"interactive\":true,\"weight\":",
    ",\"keep\":true}}\n",
    ",\"keep\":false}}\n",
    "{\"cancel\":{\"gang\":",
    "}}\n",
    "{\"drain\":{\"on\":true}}\n",
    "{\"drain\":{\"on\":false}}\n",
    "\"status\"\n",
    "\",\"mark\":{\"slurm\":",
    "},\"user\":",
    "0",
    "1",
    "4294967295",
];

fuzz_target!(|input: &[u8]| {
    let mut said = Vec::new();
    for byte in input.iter().take(2_000) {
        match byte {
            128..144 => said.extend_from_slice(PARTS[usize::from(byte - 128)].as_bytes()),
            other => said.push(*other),
        }
    }
    let mut lines = 0;
    for line in said.split_inclusive(|byte| *byte == b'\n') {
        lines += usize::from(line.ends_with(b"\n"));
        if let Ok(request) = serde_json::from_slice::<Request>(line) {
            let again = serde_json::to_vec(&request).expect("it is written");
            let read: Request = serde_json::from_slice(&again).expect("what was written");
            assert_eq!(read, request);
            if request == Request::Stop {
                return;
            }
        }
    }
    // A request of a connection is taken once in a millisecond: not many of them here.
    if lines > 3 {
        return;
    }
    let words = gang::Words::new(VecDeque::new(), u32::MAX);
    let stop = words.stop.clone();
    let mut center = gang::center(words);
    let hand = UnixStream::connect(gang::path()).expect("it listens");
    let hearing = std::thread::spawn({
        let stop = stop.clone();
        move || {
            let heard = hear(hand, &said, lines);
            stop.store(true, Ordering::Relaxed);
            heard
        }
    });
    center.run(&stop, |_| ()).expect("it serves");
    let heard = hearing.join().expect("it hears").expect("answers");
    for line in heard.split_inclusive(|byte| *byte == b'\n') {
        serde_json::from_slice::<Reply>(line).expect("a reply");
    }
});

/// Says it, and takes so many lines.
fn hear(mut hand: UnixStream, said: &[u8], lines: usize) -> io::Result<Vec<u8>> {
    hand.set_read_timeout(Some(Duration::from_secs(10)))?;
    hand.write_all(said)?;
    let (mut heard, mut bytes) = (Vec::new(), [0; 4096]);
    while heard.iter().filter(|byte| **byte == b'\n').count() < lines {
        match hand.read(&mut bytes)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => heard.extend_from_slice(&bytes[..n]),
        }
    }
    Ok(heard)
}
