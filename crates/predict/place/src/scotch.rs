//! Files of Scotch, a library that also maps graphs: its `gmap` can provide a mapping for
//! comparison.
//!
//! Formats: F. Pellegrini, "Scotch and libScotch user's guide", chapter "Files and data
//! structures". `gmap graph target mapping` maps the first onto the second.

use crate::error::PlaceError;
use crate::traffic::Traffic;
use idlewave_network::Program;
use std::fmt::Write;

/// The communication graph in Scotch's format, with the bytes of both directions as edge weights.
/// Each message counts one byte more; weights are scaled so that their sum fits 31 bits.
pub fn scotch_graph(program: &Program) -> String {
    let traffic = Traffic::new(program);
    let weight = |edge: &crate::traffic::Edge| {
        let back = traffic.edge(edge.mirror as usize);
        edge.out + edge.into + edge.messages + back.messages
    };
    let edges = || (0..traffic.ranks()).flat_map(|rank| traffic.edges_of(rank));
    let total: u128 = edges().map(|e| u128::from(weight(e))).sum();
    let scale = (total >> 30) as u64 + 1;
    // Version 0; vertices and edge ends; base 0, weights of edges alone.
    let mut text = format!("0\n{}\t{}\n0\t010\n", traffic.ranks(), traffic.edges());
    for rank in 0..traffic.ranks() {
        let _ = write!(text, "{}", traffic.edges_of(rank).len());
        for edge in traffic.edges_of(rank) {
            let _ = write!(text, "\t{}\t{}", (weight(edge) / scale).max(1), edge.peer);
        }
        text.push('\n');
    }
    text
}

/// Scotch's target: a complete graph of nodes with these rank counts, all equally far apart.
pub fn scotch_target(sizes: &[u32]) -> String {
    let mut text = format!("cmpltw\t{}", sizes.len());
    for size in sizes {
        let _ = write!(text, "\t{size}");
    }
    text.push('\n');
    text
}

/// The node of each rank, by its index in the target, as written by `gmap`.
///
/// # Errors
/// Lines that are not a pair of numbers, missing or repeated ranks, more lines than announced.
pub fn read_scotch_mapping(text: &str) -> Result<Vec<u32>, PlaceError> {
    let wrong = |line: usize, why: &'static str| PlaceError::Mapping { line, why };
    let mut lines = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty());
    let count: Option<usize> = lines.next().and_then(|(_, line)| line.trim().parse().ok());
    let count = count.ok_or(wrong(1, "expected the number of ranks"))?;
    // A rank takes a line of at least four characters.
    if count > text.len() {
        return Err(wrong(1, "there are fewer lines than ranks"));
    }
    let mut nodes: Vec<Option<u32>> = vec![None; count];
    for (at, line) in lines {
        let mut words = line.split_whitespace().map(str::parse::<u32>);
        let (Some(Ok(rank)), Some(Ok(node)), None) = (words.next(), words.next(), words.next())
        else {
            return Err(wrong(at, "expected a rank and a node"));
        };
        let Some(place) = nodes.get_mut(rank as usize) else {
            return Err(wrong(at, "there is no such rank"));
        };
        if place.replace(node).is_some() {
            return Err(wrong(at, "the rank already has a node"));
        }
    }
    let all: Option<Vec<u32>> = nodes.into_iter().collect();
    all.ok_or(wrong(1, "there are fewer lines than ranks"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::program_of;
    use proptest::prelude::*;

    #[test]
    fn a_line_of_three_ranks_is_written_as_scotch_has_it() {
        let program = program_of(3, &[(0, 1, 9), (1, 0, 4), (1, 2, 6)], 0);
        // 9 + 4 bytes in two messages; 6 in one.
        assert_eq!(
            scotch_graph(&program),
            "0\n3\t4\n0\t010\n1\t15\t1\n2\t15\t0\t7\t2\n1\t7\t1\n"
        );
        assert_eq!(scotch_target(&[2, 1]), "cmpltw\t2\t2\t1\n");
    }

    #[test]
    fn weights_fit_whatever_is_sent() {
        let program = program_of(2, &[(0, 1, u64::MAX / 4), (1, 0, 1)], 0);
        let graph = scotch_graph(&program);
        let weights = graph.lines().skip(3).filter_map(|l| l.split('\t').nth(1));
        let weights: Vec<u64> = weights.map(|w| w.parse().unwrap()).collect();
        assert_eq!(weights[0], weights[1]);
        assert!(weights[0] > 1 << 28 && weights[0] < 1 << 30);
    }

    #[test]
    fn mappings_are_read_and_what_is_wrong_is_said_with_its_line() {
        assert_eq!(
            read_scotch_mapping("3\n0\t1\n2\t0\n1\t1\n"),
            Ok(vec![1, 1, 0])
        );
        for (text, said) in [
            ("", "line 1"),
            ("x\n", "line 1"),
            ("2\n0\t1\n", "fewer"),
            ("99999999999999\n0 1\n", "fewer"),
            ("1\n0\n", "line 2"),
            ("1\n0\t1\t2\n", "line 2"),
            ("2\n0\t1\n0\t1\n", "line 3"),
            ("2\n0\t1\n2\t1\n", "line 3"),
        ] {
            let error = read_scotch_mapping(text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_mapping_is_read_in_any_order_and_whatever_is_changed_never_panics(
            node_of in prop::collection::vec(0u32..9, 0..12),
            turn in 0usize..12,
            changes in prop::collection::vec((0usize..64, "[-0-9\\t\\n x]{0,3}"), 0..4),
        ) {
            let mut lines: Vec<String> =
                (0..).zip(&node_of).map(|(rank, node): (u32, _)| format!("{rank}\t{node}\n")).collect();
            let turn = turn % lines.len().max(1);
            lines.rotate_left(turn);
            let mut text = format!("{}\n{}", node_of.len(), lines.concat());
            prop_assert_eq!(read_scotch_mapping(&text), Ok(node_of));
            for (at, with) in changes {
                let at = at.min(text.len());
                text.replace_range(at..(at + 1).min(text.len()), &with);
            }
            if let Ok(read) = read_scotch_mapping(&text) {
                let count = text.lines().find(|line| !line.trim().is_empty()).map(|line| line.trim().parse());
                prop_assert_eq!(count, Some(Ok(read.len())));
            }
        }
    }
}
