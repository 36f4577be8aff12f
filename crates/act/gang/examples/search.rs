//! For each configuration, prints how many states were visited and what was found.
//! `cargo run --release -p idlewave-gang --example search [limit of states]`

use idlewave_gang::search::{Faults, Shape, explore};

fn main() {
    let limit = std::env::args()
        .nth(1)
        .and_then(|a| a.parse().ok())
        .unwrap_or(3_000_000);
    let none = Faults::default();
    let kinds = [
        ("no fault", none),
        ("1 lost", Faults { lose: 1, ..none }),
        ("2 lost", Faults { lose: 2, ..none }),
        (
            "1 doubled, 1 late",
            Faults {
                double: 1,
                late: 1,
                ..none
            },
        ),
        ("1 agent crashes", Faults { agent: 1, ..none }),
        (
            "controller crashes",
            Faults {
                controller: 1,
                ..none
            },
        ),
        ("1 failure", Faults { fail: 1, ..none }),
        ("1 rank dies", Faults { die: 1, ..none }),
        ("1 node leaves", Faults { leave: 1, ..none }),
        (
            "1 lost, 1 agent",
            Faults {
                lose: 1,
                agent: 1,
                ..none
            },
        ),
        (
            "1 lost, controller",
            Faults {
                lose: 1,
                controller: 1,
                ..none
            },
        ),
    ];
    println!("nodes arity requests faults states moves ends result seconds");
    for (nodes, arity) in [(1, 1), (2, 1), (2, 2), (3, 1), (3, 3)] {
        for (name, faults) in kinds {
            let mut shape = Shape::new(nodes, arity, &[(0, false), (1, true)]);
            shape.faults = faults;
            let start = std::time::Instant::now();
            let found = explore(&shape, limit);
            let result = match &found.wrong {
                Some((wrong, steps)) => format!("WRONG {wrong}\n{steps:?}"),
                None if found.cut => "cut".to_owned(),
                None => "all hold".to_owned(),
            };
            println!(
                "{nodes} {arity} 2 [{name}] {} {} {} {result} {:.1}",
                found.states,
                found.moves,
                found.ends,
                start.elapsed().as_secs_f64()
            );
        }
    }
}
