//! The matrix against a model, and small tables to check by eye.

#![allow(clippy::unwrap_used)]

use idlewave_gang::GangId;
use idlewave_gang::matrix::{Cell, Demand, Matrix, MatrixError, Packing, RowId};
use idlewave_units::NodeId;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn any(nodes: u32, ranks: u32) -> Demand {
    Demand::Any { nodes, ranks }
}

fn gang(n: u32) -> GangId {
    GangId::new(n)
}

/// Each row as text: a capital at home, a small letter as an alternate.
fn drawn(matrix: &Matrix) -> Vec<String> {
    let letter = |g: GangId, first: u8| char::from(first + g.get() as u8);
    let cell =
        |row: RowId, node: usize, slot: u32| match matrix.cell(row, NodeId::new(node as u32), slot)
        {
            Some(Cell::Home(g)) => letter(g, b'A'),
            Some(Cell::Alternate(g)) => letter(g, b'a'),
            None => '.',
        };
    matrix
        .rows()
        .map(|row| {
            (0..matrix.nodes())
                .flat_map(|n| {
                    (0..matrix.slots(NodeId::new(n as u32))).map(move |s| cell(row, n, s))
                })
                .collect()
        })
        .collect()
}

#[test]
fn first_fit_takes_the_first_row_with_room_and_alternates_fill_what_is_free() {
    let mut matrix = Matrix::new(&[1; 4], 4, Packing::FirstFit);
    for (g, nodes) in [(0, 3), (1, 2), (2, 1), (3, 2)] {
        matrix.insert(gang(g), &any(nodes, 1)).unwrap();
    }
    assert_eq!(drawn(&matrix), ["AAAC", "BBDD"]);
    matrix.remove(gang(0)).unwrap();
    assert_eq!(drawn(&matrix), ["bb.C", "BBDD"]);
    assert_eq!(matrix.utilisation(), (7, 8));
    let rows: Vec<RowId> = matrix.rows().collect();
    assert_eq!(matrix.running(rows[0]), [gang(2), gang(1)]);
    assert_eq!(matrix.running(rows[1]), [gang(1), gang(3)]);
}

#[test]
fn an_alternate_gives_way_to_a_home() {
    let mut matrix = Matrix::new(&[2, 2], 3, Packing::FirstFit);
    matrix.insert(gang(0), &any(2, 2)).unwrap();
    matrix.insert(gang(1), &any(1, 2)).unwrap();
    matrix.insert(gang(2), &any(2, 1)).unwrap();
    assert_eq!(drawn(&matrix), ["AAAA", "BB..", "C.C."]);
    matrix.remove(gang(0)).unwrap();
    let placed = matrix
        .insert(gang(3), &Demand::On(vec![(NodeId::new(1), 1)]))
        .unwrap();
    assert_eq!(drawn(&matrix), ["BBD.", "C.C."]);
    assert_eq!(Some(placed), matrix.rows().next());
}

#[test]
fn buddies_keep_small_gangs_off_the_blocks_of_large_ones() {
    let packed = |packing| {
        let mut matrix = Matrix::new(&[1; 8], 8, packing);
        for (g, nodes) in [(0, 1), (1, 3), (2, 4), (3, 2)] {
            matrix.insert(gang(g), &any(nodes, 1)).unwrap();
        }
        drawn(&matrix)
            .iter()
            .map(|row| row.replace(|c: char| c.is_lowercase(), "."))
            .collect::<Vec<_>>()
    };
    assert_eq!(packed(Packing::FirstFit), ["ABBBCCCC", "DD......"]);
    // A in block 0; B in the empty block 4-7; C (both halves have one row) in a new row of 0-3; D
    // beside A, in the first block with one row.
    assert_eq!(packed(Packing::Buddy), ["A.DDBBB.", "CCCC...."]);
}

#[test]
fn compacting_moves_a_row_only_if_all_of_it_finds_room() {
    let mut matrix = Matrix::new(&[1; 4], 4, Packing::FirstFit);
    let on = |nodes: &[u32]| Demand::On(nodes.iter().map(|n| (NodeId::new(*n), 1)).collect());
    for (g, nodes) in [
        (0, &[0, 1][..]),
        (1, &[2, 3]),
        (2, &[0, 1]),
        (3, &[2, 3]),
        (4, &[1, 2]),
    ] {
        matrix.insert(gang(g), &on(nodes)).unwrap();
    }
    assert_eq!(drawn(&matrix), ["AABB", "CCDD", ".EE."]);
    assert_eq!(matrix.compact(), []);
    matrix.remove(gang(1)).unwrap();
    matrix.remove(gang(2)).unwrap();
    assert_eq!(drawn(&matrix), ["AAdd", "aaDD", ".EE."]);
    let rows: Vec<RowId> = matrix.rows().collect();
    let moves = matrix.compact();
    assert_eq!(moves.len(), 1);
    assert_eq!(
        (moves[0].gang, moves[0].from, moves[0].to),
        (gang(3), rows[1], rows[0])
    );
    assert_eq!(drawn(&matrix), ["AADD", ".EE."]);
}

#[test]
fn a_free_slot_goes_to_the_next_gang_after_those_at_home_not_always_to_the_first() {
    let mut matrix = Matrix::new(&[1; 3], 4, Packing::FirstFit);
    let on = |nodes: &[u32]| Demand::On(nodes.iter().map(|n| (NodeId::new(*n), 1)).collect());
    for (g, nodes) in [
        (0, &[1][..]),
        (3, &[0, 2]),
        (1, &[0]),
        (4, &[1, 2]),
        (2, &[1]),
    ] {
        matrix.insert(gang(g), &on(nodes)).unwrap();
    }
    matrix.remove(gang(4)).unwrap();
    assert_eq!(drawn(&matrix), ["DAD", "Bc.", "dCd"]);
}

#[test]
fn what_cannot_be_placed_is_refused_and_changes_nothing() {
    let mut matrix = Matrix::new(&[2, 1], 1, Packing::FirstFit);
    matrix.insert(gang(0), &any(1, 2)).unwrap();
    let before = matrix.clone();
    let node = NodeId::new;
    for (demand, expected) in [
        (any(0, 1), MatrixError::Empty(gang(1))),
        (Demand::On(vec![(node(0), 0)]), MatrixError::Empty(gang(1))),
        (
            any(2, 2),
            MatrixError::TooFewNodes {
                gang: gang(1),
                wanted: 2,
                ranks: 2,
                nodes: 1,
            },
        ),
        (
            any(2, 1),
            MatrixError::Full {
                gang: gang(1),
                rows: 1,
            },
        ),
        (
            Demand::On(vec![(node(2), 1)]),
            MatrixError::NoSuchNode {
                gang: gang(1),
                node: node(2),
                nodes: 2,
            },
        ),
        (
            Demand::On(vec![(node(1), 1), (node(1), 1)]),
            MatrixError::Twice {
                gang: gang(1),
                node: node(1),
            },
        ),
        (
            Demand::On(vec![(node(1), 2)]),
            MatrixError::TooFewSlots {
                gang: gang(1),
                node: node(1),
                ranks: 2,
                slots: 1,
            },
        ),
    ] {
        assert_eq!(matrix.insert(gang(1), &demand), Err(expected));
    }
    assert_eq!(
        matrix.insert(gang(0), &any(1, 1)),
        Err(MatrixError::Present(gang(0)))
    );
    assert_eq!(matrix.remove(gang(9)), Err(MatrixError::Absent(gang(9))));
    assert_eq!(matrix, before);
}

#[derive(Clone, Debug)]
enum Act {
    Insert(u32, Demand),
    Remove(u32),
    Compact,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let demand = prop_oneof![
        (0..5_u32, 0..4_u32).prop_map(|(nodes, ranks)| any(nodes, ranks)),
        prop::collection::vec((0..6_u32, 0..4_u32), 0..4)
            .prop_map(|of| Demand::On(of.into_iter().map(|(n, r)| (NodeId::new(n), r)).collect())),
    ];
    let act = prop_oneof![
        5 => (0..12_u32, demand).prop_map(|(g, demand)| Act::Insert(g, demand)),
        3 => (0..12_u32).prop_map(Act::Remove),
        1 => Just(Act::Compact),
    ];
    prop::collection::vec(act, 0..40)
}

/// What every matrix must satisfy: each gang has all of its slots at home and either all or none of
/// them in any other row; there is nothing else.
fn check(matrix: &Matrix) {
    let rows: Vec<RowId> = matrix.rows().collect();
    let mut cells = 0;
    for row in &rows {
        let running = matrix.running(*row);
        assert_eq!(running.iter().collect::<BTreeSet<_>>().len(), running.len());
        let mut homes = 0;
        for g in &running {
            let home = matrix.home(*g).unwrap();
            let expected = if home.row == *row {
                Cell::Home(*g)
            } else {
                Cell::Alternate(*g)
            };
            homes += usize::from(home.row == *row);
            for (node, slot) in &home.slots {
                assert_eq!(matrix.cell(*row, *node, *slot), Some(expected));
            }
            cells += home.slots.len();
        }
        assert!(homes > 0, "no row is empty");
    }
    // Every cell belongs to a gang that runs there, so none belongs to a gang that is gone.
    assert_eq!(cells, matrix.utilisation().0);
    for (g, home) in matrix.gangs() {
        assert!(rows.contains(&home.row));
        for row in &rows {
            let free = home
                .slots
                .iter()
                .all(|(n, s)| matrix.cell(*row, *n, *s).is_none());
            assert!(
                !free,
                "gang {g} has room in row {row} and does not run there"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 5000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nothing_is_booked_twice_and_what_left_leaves_nothing(
        slots in prop::collection::vec(1..4_u32, 1..6),
        buddy in proptest::bool::ANY,
        acts in acts(),
    ) {
        let packing = if buddy { Packing::Buddy } else { Packing::FirstFit };
        let mut matrix = Matrix::new(&slots, 5, packing);
        let mut present = BTreeSet::new();
        for act in &acts {
            match act {
                Act::Insert(g, demand) => {
                    let before = matrix.clone();
                    match matrix.insert(gang(*g), demand) {
                        Ok(row) => {
                            prop_assert!(present.insert(*g));
                            let home = matrix.home(gang(*g)).unwrap();
                            prop_assert_eq!(home.row, row);
                            let mut wanted: Vec<(NodeId, u32)> = match demand {
                                Demand::On(of) => of.iter().copied().filter(|(_, r)| *r > 0).collect(),
                                Demand::Any { nodes, ranks } => {
                                    let on: BTreeSet<NodeId> = home.slots.iter().map(|s| s.0).collect();
                                    prop_assert_eq!(on.len(), *nodes as usize);
                                    on.into_iter().map(|n| (n, *ranks)).collect()
                                }
                            };
                            wanted.sort();
                            let mut got: Vec<(NodeId, u32)> = Vec::new();
                            for (node, _) in &home.slots {
                                match got.last_mut() {
                                    Some((n, ranks)) if n == node => *ranks += 1,
                                    _ => got.push((*node, 1)),
                                }
                            }
                            prop_assert_eq!(got, wanted);
                        }
                        Err(_) => prop_assert_eq!(&matrix, &before),
                    }
                }
                Act::Remove(g) => prop_assert_eq!(matrix.remove(gang(*g)).is_ok(), present.remove(g)),
                Act::Compact => {
                    let rows = matrix.rows().count();
                    let slots: Vec<_> = matrix.gangs().map(|(g, h)| (g, h.slots.clone())).collect();
                    let moves = matrix.compact();
                    for step in &moves {
                        prop_assert_eq!(matrix.home(step.gang).unwrap().row, step.to);
                    }
                    prop_assert!(matrix.rows().count() <= rows);
                    prop_assert_eq!(moves.is_empty(), matrix.rows().count() == rows);
                    let after: Vec<_> = matrix.gangs().map(|(g, h)| (g, h.slots.clone())).collect();
                    prop_assert_eq!(slots, after);
                }
            }
            check(&matrix);
            let gangs: BTreeSet<u32> = matrix.gangs().map(|(g, _)| g.get()).collect();
            prop_assert_eq!(&gangs, &present);
            prop_assert!(matrix.rows().count() <= 5);
        }
        for g in present {
            matrix.remove(gang(g)).unwrap();
        }
        prop_assert_eq!(matrix.rows().count(), 0);
    }
}
