//! Parcels of gang switching, as an agent with the key might say them: no panic; what is read is written and read the same again; and the
//! controller outlives them all.
#![no_main]

mod gang;

use idlewave_gang::protocol::Peer;
use idlewave_gang_agent::{ContextSeen, Parcel, Seen, State, Waiting, What};
use idlewave_units::{Nanos, NodeId};
use libfuzzer_sys::fuzz_target;
use std::net::{Ipv4Addr, SocketAddr};

/// A number of any size, from three bytes: small ones, and those at the end.
fn number(bytes: &[u8]) -> u64 {
    let at = |n: usize| u64::from(bytes.get(n).copied().unwrap_or(0));
    match at(0) & 3 {
        0 => at(1),
        1 => at(1) << 8 | at(2),
        2 => u64::MAX - at(1),
        _ => (at(1) << 8 | at(2)) << (at(0) >> 2),
    }
}

fn seen(bytes: &[u8]) -> Seen {
    let (small, large) = (
        |n: usize| number(&bytes[n..]) as u32,
        |n: usize| Nanos::from_nanos(number(&bytes[n..])),
    );
    Seen {
        gang: u32::from(bytes[0] & 3),
        processes: small(1),
        ranks: small(2),
        size: (bytes[3] & 1 == 0).then(|| small(3)),
        steady: large(4),
        cpu: large(5),
        others: 0,
        trouble: (bytes[6] & 7 == 0).then(|| "trouble".to_owned()),
    }
}

fn context(bytes: &[u8]) -> ContextSeen {
    let small = |n: usize| number(&bytes[n..]) as u32;
    let what = match bytes[8] & 3 {
        0 => What::Left,
        1 => What::Send {
            to: small(4),
            tag: small(5),
        },
        _ => What::Receive {
            from: (bytes[8] & 4 == 0).then(|| small(4)),
            tag: small(5),
        },
    };
    ContextSeen {
        gang: u32::from(bytes[0] & 3),
        ranks: (0..u32::from(bytes[1] & 7)).chain([small(2)]).collect(),
        size: (bytes[3] & 1 == 0).then(|| small(3)),
        attached: small(2),
        failed: bytes[3] & 2 == 0,
        looked: number(&bytes[6..]).checked_sub(1),
        waits: (0..2)
            .map(|rank| Waiting {
                rank,
                since: number(&bytes[6..]),
                what,
            })
            .collect(),
        trouble: None,
    }
}

fn device(bytes: &[u8]) -> (u32, SocketAddr) {
    let port = u16::from_le_bytes([bytes[1], bytes[2]]);
    let address = Ipv4Addr::new(127, 0, 0, bytes[3]);
    (u32::from(bytes[0] % 8), SocketAddr::from((address, port)))
}

fn parcel(kind: u8, node: NodeId, bytes: &[u8]) -> Vec<u8> {
    let state = match kind {
        0 => State::Hello {
            node,
            host: String::from_utf8_lossy(bytes).into_owned(),
            cpus: number(bytes) as u32,
            freezer: String::new(),
            limits: Vec::new(),
        },
        1 => State::Sight {
            node,
            version: number(bytes),
            seen: bytes.chunks_exact(9).map(seen).collect(),
            contexts: bytes.chunks_exact(9).map(context).collect(),
            devices: bytes.chunks_exact(4).map(device).collect(),
            forged: number(bytes),
        },
        // A message of the protocol, or JSON, or neither.
        2 => return [&[0], bytes].concat(),
        3 => return [&[1], bytes].concat(),
        _ => return bytes.to_vec(),
    };
    Parcel::State(state).encode()
}

fuzz_target!(|input: &[u8]| {
    let mut words = std::collections::VecDeque::new();
    let mut rest = input;
    while let [kind, node, length, others @ ..] = rest {
        let (bytes, others) = others.split_at(others.len().min(usize::from(*length)));
        rest = others;
        let number = match node {
            0..200 => u32::from(node % 4),
            _ => number(bytes) as u32,
        };
        let node = NodeId::new(number);
        let said = parcel(kind % 5, node, bytes);
        if let Ok(parcel) = Parcel::decode(&said) {
            let again = parcel.encode();
            assert_eq!(Parcel::decode(&again).expect("what was written"), parcel);
        }
        words.push_back((Peer::Agent(node), said));
    }
    // Gangs that their sightings are of.
    let words = gang::Words::new(words, 2);
    let stop = words.stop.clone();
    let mut center = gang::center(words);
    let mut hand = std::os::unix::net::UnixStream::connect(gang::path()).expect("it listens");
    let name = |n: u8| {
        let mark = format!("{{\"token\":\"{n}\"}}");
        format!(
            "{{\"submit\":{{\"name\":\"n\",\"mark\":{mark},\"user\":{},\"interactive\":false,\"weight\":1,\"keep\":true,\"contexts\":65536}}}}\n",
            idlewave_sys::Uid::own()
        )
    };
    std::io::Write::write_all(&mut hand, name(1).as_bytes()).expect("it takes a line");
    let mut other = std::os::unix::net::UnixStream::connect(gang::path()).expect("it listens");
    std::io::Write::write_all(&mut other, name(2).as_bytes()).expect("it takes a line");
    center.run(&stop, |_| ()).expect("it serves");
});
