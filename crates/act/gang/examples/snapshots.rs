//! Takes a million snapshots of programs that terminate, at random points of runs with randomly
//! stopped ranks, and counts false verdicts. Also times a verdict on many ranks.
//!
//! `cargo run --release -p idlewave-gang --example snapshots [looks] [seed]`

use idlewave_gang::state::testing::{Program, Random, Seen, walk};
use idlewave_gang::state::{
    Cause, Collective, Communicator, Count, Doing, Entered, Posted, RankState, Receive, Request,
    Send, Snapshot, State, Wait, judge,
};
use idlewave_units::Rank;
use std::time::Instant;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| {
        let given = arguments.next();
        given.and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (wanted, seed) = (number(1_000_000), number(1));
    alive(wanted, seed);
    stuck(seed);
    for (name, snapshot) in [
        ("ring of receives, one computes", ring(100_000, true)),
        ("ring of receives, deadlocked", ring(100_000, false)),
        (
            "exchange with 6 neighbours, messages under way",
            exchange(100_000, true),
        ),
        (
            "exchange with 6 neighbours, deadlocked",
            exchange(100_000, false),
        ),
        ("barrier, one is late", barrier(100_000)),
        ("from anyone, deadlocked", anyone(100_000)),
    ] {
        time(name, &snapshot);
    }
}

fn alive(wanted: u64, seed: u64) {
    let random = &mut Random::new(seed);
    let (mut looks, mut runs, mut wrong, mut blocked) = (0, 0, 0, 0);
    let start = Instant::now();
    while looks < wanted {
        let events = 4 + random.below(20);
        let program = Program::ending(random, events);
        let _ = walk(&program, random, |machine, random| {
            let snapshot = machine.snapshot(Seen {
                tags: random.one_in(2),
                posted: random.one_in(2),
                polling: random.one_in(4),
            });
            let waits = |r: &RankState| matches!(r.doing, Doing::Blocked { .. });
            blocked += u64::from(snapshot.ranks.iter().filter(|r| waits(r)).count() > 1);
            let state = judge(&snapshot).state;
            wrong += u64::from(!matches!(state, State::Progressing | State::Terminated));
            looks += 1;
        });
        runs += 1;
    }
    println!(
        "{looks} snapshots of {runs} runs that end (seed {seed}), in {blocked} of them two ranks or more blocked: {wrong} false verdicts, {:.1} s",
        start.elapsed().as_secs_f64()
    );
}

/// For programs that do not terminate: how often the standstill is found, by what is recorded.
fn stuck(seed: u64) {
    for (what, tags, posted) in [
        ("tags and posted receives", true, true),
        ("no tags", false, true),
        ("tags, posted unknown", true, false),
    ] {
        let random = &mut Random::new(seed);
        let (mut stuck, mut found, mut ranks, mut named) = (0, 0, 0, 0);
        for n in 0..20_000 {
            let program = if n % 2 == 0 {
                Program::any(random, 8)
            } else {
                Program::ending(random, 6).broken(random)
            };
            let end = walk(&program, random, |_, _| {});
            let left = (0..program.ranks.len()).filter(|r| !end.exited(*r)).count();
            if left == 0 {
                continue;
            }
            stuck += 1;
            ranks += left;
            let seen = Seen {
                tags,
                posted,
                polling: false,
            };
            if let State::Deadlocked(d) = judge(&end.snapshot(seen)).state {
                found += 1;
                named += d.ranks.len();
            }
        }
        println!(
            "{what}: {found} of {stuck} standstills of random programs found ({:.2} %), {named} of {ranks} ranks",
            100.0 * f64::from(found) / f64::from(stuck)
        );
    }
}

fn time(name: &str, snapshot: &Snapshot) {
    let mut times: Vec<f64> = (0..11)
        .map(|_| {
            let start = Instant::now();
            let verdict = judge(snapshot);
            std::hint::black_box(&verdict);
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let what = match judge(snapshot).state {
        State::Deadlocked(d) => match d.cause {
            Cause::Cycle { links, smallest } => {
                format!("cycle of {}, smallest: {smallest}", links.len())
            }
            Cause::Knot { links } => format!("knot of {} links", links.len()),
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    };
    println!(
        "{name}, {} ranks, {} bytes a rank: {:.2} ms (n=11, min {:.2}, max {:.2}); {what}",
        snapshot.ranks.len(),
        bytes(snapshot) / snapshot.ranks.len(),
        times[5],
        times[0],
        times[10]
    );
}

fn bytes(snapshot: &Snapshot) -> usize {
    let of = |r: &RankState| {
        let requests = match &r.doing {
            Doing::Blocked {
                wait: Wait::All(of),
                ..
            } => size_of_val(&of[..]),
            _ => 0,
        };
        size_of::<RankState>()
            + requests
            + size_of_val(&r.sent[..])
            + size_of_val(&r.received[..])
            + size_of_val(&r.entered[..])
    };
    let members: usize = snapshot
        .communicators
        .iter()
        .map(|c| size_of_val(&c.members[..]))
        .sum();
    snapshot.ranks.iter().map(of).sum::<usize>() + members
}

fn world(ranks: u32, rank: impl Fn(u32) -> RankState) -> Snapshot {
    Snapshot {
        ranks: (0..ranks).map(rank).collect(),
        communicators: vec![Communicator {
            members: (0..ranks).map(Rank::new).collect(),
        }],
        polls: 0,
    }
}

fn state(doing: Doing, peers: &[u32]) -> RankState {
    let mut counts: Vec<Count> = peers
        .iter()
        .map(|p| Count {
            communicator: 0,
            peer: Rank::new(*p),
            tag: Some(0),
            messages: 7,
        })
        .collect();
    counts.sort_unstable();
    RankState {
        epochs: [2, 2],
        doing,
        sent: counts.clone(),
        received: counts,
        entered: vec![Entered {
            communicator: 0,
            number: 3,
            kind: Collective::Barrier,
        }],
        posted: Posted::Known(Vec::new()),
    }
}

fn one(request: Request) -> Doing {
    Doing::Blocked {
        call: 1,
        wait: Wait::One(request),
    }
}

fn receive(from: Option<u32>) -> Request {
    Request::Receive(Receive {
        communicator: 0,
        from: from.map(Rank::new),
        tag: Some(0),
    })
}

fn ring(ranks: u32, moves: bool) -> Snapshot {
    world(ranks, |r| {
        let before = (r + ranks - 1) % ranks;
        let doing = if moves && r == 0 {
            Doing::Computing
        } else {
            one(receive(Some(before)))
        };
        state(doing, &[before, (r + 1) % ranks])
    })
}

fn exchange(ranks: u32, moves: bool) -> Snapshot {
    let steps = [1, 50, 2500];
    world(ranks, |r| {
        let peers: Vec<u32> = steps
            .iter()
            .flat_map(|s| [(r + s) % ranks, (r + ranks - s) % ranks])
            .collect();
        let send = |p: &u32| {
            Request::Send(Send {
                communicator: 0,
                to: Rank::new(*p),
                tag: Some(0),
                number: 8,
            })
        };
        let all = peers
            .iter()
            .map(|p| receive(Some(*p)))
            .chain(peers.iter().map(send));
        let doing = Doing::Blocked {
            call: 1,
            wait: Wait::All(all.collect()),
        };
        let mut state = state(doing, &peers);
        for count in &mut state.sent {
            count.messages += u64::from(moves);
        }
        state
    })
}

fn barrier(ranks: u32) -> Snapshot {
    world(ranks, |r| {
        let request = Request::Collective {
            communicator: 0,
            number: 3,
            kind: Collective::Barrier,
        };
        let mut rank = state(
            if r == 0 {
                Doing::Computing
            } else {
                one(request)
            },
            &[],
        );
        if r == 0 {
            rank.entered.clear();
        }
        rank
    })
}

fn anyone(ranks: u32) -> Snapshot {
    world(ranks, |r| {
        state(
            one(receive(None)),
            &[(r + 1) % ranks, (r + ranks - 1) % ranks],
        )
    })
}
