//! Activations: strikes of one source that belong to the same event.
//!
//! A thread that migrates while it runs strikes two CPUs, though it was woken once. Length and
//! period are those of the activation; what its ranks lost stays with the single strikes.

use crate::strikes::Strike;

/// Joins the strikes of one source, from all watches and in any order: a strike that continues on
/// another CPU belongs to the strike before it. The result is in order of time.
pub fn activations(strikes: &[Strike]) -> Vec<Strike> {
    let mut sorted = strikes.to_vec();
    sorted.sort_by_key(|s| (s.node, s.begin, s.cpu));
    let mut out: Vec<Strike> = Vec::with_capacity(sorted.len());
    // Where the source was last: a strike continues the previous one, not one long ago.
    let mut last = None;
    for strike in sorted {
        let moved = last.is_some_and(|(node, cpu)| node == strike.node && cpu != strike.cpu);
        last = Some((strike.node, strike.cpu));
        match out.last_mut() {
            Some(before) if strike.continues && moved => before.length += strike.length,
            _ => out.push(strike),
        }
    }
    out.sort_by_key(|s| s.begin);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use idlewave_run::SourceKind;
    use idlewave_units::{Cpu, NodeId};

    fn strike(cpu: u32, begin: u64, length: u64, continues: bool) -> Strike {
        Strike {
            source: Catalog::default().intern(SourceKind::Task, "culprit"),
            node: NodeId::new(0),
            cpu: Cpu::new(cpu),
            begin,
            length,
            continues,
        }
    }

    #[test]
    fn a_thread_that_moves_on_while_it_runs_is_active_once() {
        // Woken at 1000 and 5000, migrated each time, in two successive watches.
        let strikes = [
            strike(0, 1000, 500, false),
            strike(0, 5600, 12, true),
            strike(1, 1600, 10, true),
            strike(1, 5000, 500, false),
        ];
        let joined: Vec<_> = activations(&strikes)
            .iter()
            .map(|s| (s.begin, s.length))
            .collect();
        assert_eq!(joined, [(1000, 510), (5000, 512)]);
    }

    #[test]
    fn what_continues_a_strike_that_was_not_watched_stands_alone() {
        let strikes = [strike(0, 1000, 10, true), strike(0, 5000, 12, true)];
        assert_eq!(activations(&strikes).len(), 2);
    }
}
