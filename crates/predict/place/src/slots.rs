//! Rank counts per node.

/// Distributes ranks with at most `per_node` on a node, on as few nodes as possible: all nodes
/// full, the rest on the last one. `per_node` above 0.
pub fn full_nodes(ranks: u32, per_node: u32) -> Vec<u32> {
    let mut counts = vec![per_node; (ranks / per_node) as usize];
    if ranks % per_node > 0 {
        counts.push(ranks % per_node);
    }
    counts
}

/// As many nodes as [`full_nodes`], with rank counts that differ by at most one, larger ones first.
pub fn even_nodes(ranks: u32, per_node: u32) -> Vec<u32> {
    let nodes = ranks.div_ceil(per_node);
    let (each, more) = (ranks / nodes.max(1), ranks % nodes.max(1));
    (0..nodes)
        .map(|node| each + u32::from(node < more))
        .collect()
}

/// An endless sequence of memory domains for the local ranks of a node. Domains with free cores
/// take turns, like Slurm's `--distribution=block:cyclic`; once all cores are used, all domains do.
/// `cores` lists the cores of each domain, of which there must be one.
pub(crate) fn domains_in_turn(cores: &[u32]) -> impl Iterator<Item = u32> + '_ {
    let most = cores.iter().copied().max().unwrap_or(0);
    (0..).flat_map(move |turn| {
        let with_core = (0..)
            .zip(cores)
            .filter(move |&(_, &c)| turn < c || turn >= most);
        with_core.map(|(domain, _)| domain)
    })
}

/// The rank count of each memory domain, for this many ranks on a node.
pub(crate) fn of_domains(ranks: u32, cores: &[u32]) -> Vec<u32> {
    let mut counts = vec![0; cores.len()];
    for domain in domains_in_turn(cores).take(ranks as usize) {
        counts[domain as usize] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ten_ranks_by_four_are_four_four_two_or_four_three_three() {
        assert_eq!(full_nodes(10, 4), [4, 4, 2]);
        assert_eq!(even_nodes(10, 4), [4, 3, 3]);
        assert_eq!(full_nodes(3, 8), [3]);
        assert_eq!(even_nodes(3, 8), [3]);
        assert_eq!(of_domains(5, &[4; 3]), [2, 2, 1]);
        assert_eq!(of_domains(7, &[2, 6]), [2, 5]);
        assert_eq!(of_domains(9, &[6, 2]), [7, 2]);
        let in_turn: Vec<u32> = domains_in_turn(&[1, 3, 2]).take(6).collect();
        assert_eq!(in_turn, [0, 1, 2, 1, 2, 1]);
    }

    proptest! {
        #[test]
        fn all_ranks_have_a_slot_and_no_node_too_many(ranks in 1u32..500, per_node in 1u32..70) {
            for counts in [full_nodes(ranks, per_node), even_nodes(ranks, per_node)] {
                prop_assert_eq!(counts.iter().sum::<u32>(), ranks);
                prop_assert_eq!(counts.len() as u32, ranks.div_ceil(per_node));
                prop_assert!(counts.iter().all(|&c| (1..=per_node).contains(&c)));
            }
            let even = even_nodes(ranks, per_node);
            prop_assert!(even[0] - even[even.len() - 1] <= 1);
        }
    }
}
