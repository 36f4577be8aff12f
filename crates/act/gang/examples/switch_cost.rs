//! Prints the cost of a switch against nodes, arity, clock error and loss, and the slice of which
//! that cost is 2 %.
//! `cargo run --release -p idlewave-gang --example switch_cost [switches per line] [seed]`

use idlewave_gang::sim::{Cluster, simulate};
use idlewave_stats::quantiles::quantile;
use idlewave_units::Nanos;

fn main() {
    let mut args = std::env::args().skip(1).map(|a| a.parse().ok());
    let switches = args.next().flatten().unwrap_or(60) as u32;
    let seed = args.next().flatten().unwrap_or(1_u64);
    println!(
        "median, [quartiles] and p99 of the switch in us; skew of thaw in us; slice for 2 % in ms"
    );
    println!("nodes arity clock_us loss | switch [q1 q3] p99 | skew p99 | aborts left | slice | n");
    for nodes in [16, 64, 256, 1024] {
        for arity in [2, 4, 8, 16, 32] {
            for clock in [0, 50, 200] {
                for loss in [0.0, 1e-4, 1e-2] {
                    let mut cluster = Cluster::new(nodes, arity);
                    cluster.clock_error = Nanos::from_micros(clock);
                    cluster.loss = loss;
                    let out = simulate(&cluster, switches, seed);
                    let us = |v: &[u64], q| quantile(v, q).value / 1e3;
                    let median = us(&out.cost, 0.5);
                    println!(
                        "{nodes} {arity} {clock} {loss} | {median:.0} [{:.0} {:.0}] {:.0} | {:.0} {:.0} | {} {} | {:.0} | {}",
                        us(&out.cost, 0.25),
                        us(&out.cost, 0.75),
                        us(&out.cost, 0.99),
                        us(&out.skew, 0.5),
                        us(&out.skew, 0.99),
                        out.aborts,
                        out.left,
                        median / 0.02 / 1e3,
                        out.cost.len()
                    );
                }
            }
        }
    }
}
