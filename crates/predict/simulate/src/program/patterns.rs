//! Ready-made parts of programs: exchanges between neighbours, and collective operations by
//! algorithm, for any number of ranks.
//!
//! Each is a statement that is valid wherever its names are free: it uses `round` and `far` for its
//! loops. The meaning is that of [`bulk`](crate::bulk): the same messages in the same rounds.

use super::tree::{Binary, Expression, Program, Statement, Step};
use crate::Stencil;
use crate::bulk::{Algorithm, Collective, CollectiveError};

/// A program that repeatedly computes and then executes some statements.
///
/// `work` is the computation in nanoseconds; it may use [`Expression::Rank`] and the loop variable,
/// `step`.
pub fn steps(ranks: u32, steps: i64, work: Expression, then: Vec<Statement>) -> Program {
    let calc = Step::Calc {
        ns: work,
        cpu: 0.into(),
    };
    let mut body = vec![calc.into()];
    body.extend(then);
    Program {
        ranks: Some(ranks),
        body: vec![repeat("step", steps, body)],
        ..Program::default()
    }
}

/// One message of `bytes` bytes to each neighbour, and one from each, unordered. The number of
/// ranks must be that of the stencil. Messages have tags: twice the axis, plus one if they go down.
pub fn exchange(stencil: &Stencil, bytes: i64) -> Statement {
    let shape = stencil.shape;
    let sides = [shape.x, shape.y, shape.z];
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    let mut stride = 1;
    for (axis, side) in (0..).zip(sides.map(|side| side as i64)) {
        let coordinate = (Expression::Rank / stride) % side;
        for distance in 1..=i64::from(stencil.reach) {
            // Wrapping around the end leads back to the rank itself.
            if stencil.periodic && distance % side == 0 {
                continue;
            }
            for (down, offset) in [(0, distance), (1, -distance)] {
                if down == 1 && stencil.one_sided {
                    continue;
                }
                let tag = 2 * axis + down;
                let to = neighbour(&coordinate, offset, side, stride, stencil.periodic);
                let from = neighbour(&coordinate, -offset, side, stride, stencil.periodic);
                sends.push(to.guard(send(bytes, to.rank.clone(), tag)));
                receives.push(from.guard(recv(bytes, from.rank.clone(), tag)));
            }
        }
        stride *= side;
    }
    sends.append(&mut receives);
    Step::Together(sends).into()
}

/// A neighbour at a distance along an axis, and the condition for its existence.
struct Neighbour {
    rank: Expression,
    exists: Option<Expression>,
}

impl Neighbour {
    fn guard(&self, step: Statement) -> Statement {
        match &self.exists {
            Some(exists) => choose(exists.clone(), vec![step], Vec::new()),
            None => step,
        }
    }
}

fn neighbour(
    coordinate: &Expression,
    offset: i64,
    side: i64,
    stride: i64,
    periodic: bool,
) -> Neighbour {
    let moved = coordinate.clone() + offset;
    if periodic {
        let around = (moved % side - coordinate.clone()) * stride;
        return Neighbour {
            rank: Expression::Rank + around,
            exists: None,
        };
    }
    let exists = match offset > 0 {
        true => Expression::binary(Binary::Less, moved, side),
        false => Expression::binary(Binary::GreaterOrEqual, moved, 0),
    };
    Neighbour {
        rank: Expression::Rank + offset * stride,
        exists: Some(exists),
    }
}

/// A collective operation with messages of `bytes` bytes per rank of the operation. The root is
/// rank 0.
///
/// # Errors
/// The algorithm is not one for this operation.
pub fn collective(
    collective: Collective,
    algorithm: Algorithm,
    bytes: i64,
) -> Result<Vec<Statement>, CollectiveError> {
    if !collective.algorithms().contains(&algorithm) {
        return Err(CollectiveError {
            collective,
            algorithm,
        });
    }
    Ok(match (collective, algorithm) {
        (Collective::Broadcast, Algorithm::ScatterRing) => {
            let around = shift(piece(bytes, 1.into()), 1);
            let ring = repeat("around", Expression::Ranks - 1, vec![around]);
            vec![tree_down(|bit| piece(bytes, bit)), ring]
        }
        (Collective::Broadcast, _) => vec![tree_down(|_| bytes.into())],
        (Collective::Reduce, _) => vec![tree_up(bytes)],
        (_, Algorithm::Binomial) => vec![tree_up(bytes), tree_down(|_| bytes.into())],
        (_, Algorithm::Dissemination) => {
            let body = shift(bytes, bit());
            vec![repeat("round", levels(), vec![body])]
        }
        (_, Algorithm::RecursiveDoubling) => {
            let rounds = repeat("round", power_levels(), vec![differ(bytes, bit())]);
            folded(bytes, vec![rounds])
        }
        (_, Algorithm::Rabenseifner) => {
            let half = |k: Expression| {
                let parts = power() >> k.clone();
                let bytes = (Expression::from(bytes) + (parts.clone() - 1)) / parts;
                differ(bytes, Expression::from(1) << k)
            };
            let down = half(power_levels() - 1 - Expression::name("round"));
            let up = half(Expression::name("round"));
            let rounds = [down, up].map(|body| repeat("round", power_levels(), vec![body]));
            folded(bytes, rounds.to_vec())
        }
        (_, Algorithm::Bruck) => {
            let body = shift(with_bit() * bytes, bit());
            vec![repeat("round", levels(), vec![body])]
        }
        (_, Algorithm::Ring) => {
            let body = shift(piece(bytes, 1.into()), 1);
            vec![repeat(
                "round",
                Expression::from(2) * (Expression::Ranks - 1),
                vec![body],
            )]
        }
        // No collective has these algorithms, as checked above.
        (_, Algorithm::Pairwise | Algorithm::ScatterRing | Algorithm::Linear) => {
            let body = shift(bytes, Expression::name("far") + 1);
            vec![repeat("far", Expression::Ranks - 1, vec![body])]
        }
    })
}

/// Every rank sends `bytes` bytes to every other rank, all at once.
pub fn linear_alltoall(bytes: i64) -> Statement {
    let far = || Expression::name("far") + 1;
    let body = vec![
        send(bytes, (Expression::Rank + far()) % Expression::Ranks, 0),
        recv(bytes, (Expression::Rank - far()) % Expression::Ranks, 0),
    ];
    Step::Together(vec![repeat("far", Expression::Ranks - 1, body)]).into()
}

/// The bytes of `pieces` of the ranks' pieces, rounded up.
fn piece(bytes: i64, pieces: Expression) -> Expression {
    (pieces * bytes + (Expression::Ranks - 1)) / Expression::Ranks
}

/// How many of the numbers below the number of ranks have the round's bit set.
fn with_bit() -> Expression {
    let rest = || Expression::Ranks % (bit() * 2) - bit();
    let above = Expression::binary(Binary::Greater, rest(), 0);
    Expression::Ranks / (bit() * 2) * bit() + above * rest()
}

/// Sends to the rank this far above and receives from the one that far below, wrapping around at
/// the end.
fn shift(bytes: impl Into<Expression>, by: impl Into<Expression>) -> Statement {
    let (bytes, by) = (bytes.into(), by.into());
    Step::Together(vec![
        send(
            bytes.clone(),
            (Expression::Rank + by.clone()) % Expression::Ranks,
            0,
        ),
        recv(bytes, (Expression::Rank - by) % Expression::Ranks, 0),
    ])
    .into()
}

/// Ranks whose lowest set bit is that of the round send to those without it.
fn tree_up(bytes: i64) -> Statement {
    let step = tree(bit(), |down| match down {
        true => send(bytes, Expression::Rank - bit(), 0),
        false => recv(bytes, Expression::Rank + bit(), 0),
    });
    repeat("round", levels(), vec![step])
}

/// The reverse: highest bit first. The bytes on an edge follow from its bit.
fn tree_down(bytes: impl Fn(Expression) -> Expression) -> Statement {
    let bit = || Expression::from(1) << (levels() - 1 - Expression::name("round"));
    let step = tree(bit(), |down| match down {
        true => recv(bytes(bit()), Expression::Rank - bit(), 0),
        false => send(bytes(bit()), Expression::Rank + bit(), 0),
    });
    repeat("round", levels(), vec![step])
}

/// What the lower and the upper end of each edge do in a round; `down` marks the end whose partner
/// is below.
fn tree(bit: Expression, step: impl Fn(bool) -> Statement) -> Statement {
    let within = Expression::Rank % (bit.clone() * 2);
    let upper = Expression::binary(Binary::Equal, within.clone(), bit.clone());
    let lower = Expression::binary(
        Binary::And,
        Expression::binary(Binary::Equal, within, 0),
        Expression::binary(Binary::Less, Expression::Rank + bit, Expression::Ranks),
    );
    let otherwise = choose(lower, vec![step(false)], Vec::new());
    choose(upper, vec![step(true)], vec![otherwise])
}

/// The largest power of two not above the number of ranks, and its logarithm.
fn power() -> Expression {
    Expression::from(1) << power_levels()
}

fn power_levels() -> Expression {
    Expression::unary(super::Unary::Log2Floor, Expression::Ranks)
}

/// Ranks whose numbers differ in a bit exchange.
fn differ(bytes: impl Into<Expression>, bit: Expression) -> Statement {
    let (bytes, partner) = (bytes.into(), Expression::Rank ^ bit);
    let both = [
        send(bytes.clone(), partner.clone(), 0),
        recv(bytes, partner, 0),
    ];
    Step::Together(both.to_vec()).into()
}

/// Ranks at or above the largest power of two join those that far below, before and after the inner
/// statements.
fn folded(bytes: i64, inside: Vec<Statement>) -> Vec<Statement> {
    let above = || Expression::binary(Binary::GreaterOrEqual, Expression::Rank, power());
    let has_one =
        || Expression::binary(Binary::Less, Expression::Rank + power(), Expression::Ranks);
    let fold = |own: Statement, others: Statement| {
        choose(
            above(),
            vec![own],
            vec![choose(has_one(), vec![others], Vec::new())],
        )
    };
    let below = Expression::binary(Binary::Less, Expression::Rank, power());
    vec![
        fold(
            send(bytes, Expression::Rank - power(), 0),
            recv(bytes, Expression::Rank + power(), 0),
        ),
        choose(below, inside, Vec::new()),
        fold(
            recv(bytes, Expression::Rank - power(), 0),
            send(bytes, Expression::Rank + power(), 0),
        ),
    ]
}

/// Rounds until 2^round is at least the number of ranks.
fn levels() -> Expression {
    Expression::unary(super::Unary::Log2Ceil, Expression::Ranks)
}

/// 2^round
fn bit() -> Expression {
    Expression::from(1) << Expression::name("round")
}

fn send(bytes: impl Into<Expression>, to: Expression, tag: i64) -> Statement {
    Step::Send {
        bytes: bytes.into(),
        to,
        tag: tag.into(),
        cpu: 0.into(),
        nic: 0.into(),
    }
    .into()
}

fn recv(bytes: impl Into<Expression>, from: Expression, tag: i64) -> Statement {
    Step::Recv {
        bytes: bytes.into(),
        from: Some(from),
        tag: Some(tag.into()),
        cpu: 0.into(),
        nic: 0.into(),
    }
    .into()
}

fn repeat(variable: &str, count: impl Into<Expression>, body: Vec<Statement>) -> Statement {
    Step::Loop {
        variable: variable.to_owned(),
        count: count.into(),
        body,
    }
    .into()
}

fn choose(condition: Expression, then: Vec<Statement>, otherwise: Vec<Statement>) -> Statement {
    Step::If {
        condition,
        then,
        otherwise,
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;
    use crate::goal::Action;
    use crate::program::Bindings;

    /// The ranks that each rank sends to, with bytes, and those it receives from, in order.
    type Messages = (Vec<(u32, u64)>, Vec<(u32, u64)>);

    fn messages(body: Vec<Statement>, ranks: u32) -> Vec<Messages> {
        let program = Program {
            ranks: Some(ranks),
            body,
            ..Program::default()
        };
        let again: Program = program.to_string().parse().unwrap();
        assert_eq!(again, program);
        let schedule = again.bind(&Bindings::default()).unwrap();
        let schedule = schedule.expand(1_000_000).unwrap();
        let of_rank = |rank| {
            let (mut sends, mut receives) = (Vec::new(), Vec::new());
            for operation in schedule.rank(rank) {
                match operation.action {
                    Action::Send { bytes, to, .. } => sends.push((to, bytes)),
                    Action::Recv { bytes, from, .. } => receives.push((from.unwrap(), bytes)),
                    Action::Calc { .. } => {}
                }
            }
            (sends, receives)
        };
        (0..ranks).map(of_rank).collect()
    }

    #[test]
    fn collectives_have_the_messages_of_their_algorithm_round_by_round() {
        let all = [
            Collective::Barrier,
            Collective::Allreduce,
            Collective::Broadcast,
            Collective::Reduce,
            Collective::Alltoall,
        ];
        for ranks in [1, 2, 3, 4, 5, 7, 8, 13, 16, 33] {
            for what in all {
                for &algorithm in what.algorithms() {
                    let seen = messages(collective(what, algorithm, 801).unwrap(), ranks);
                    let rounds = what.rounds(algorithm, ranks, 801).unwrap();
                    for (rank, (sends, receives)) in (0..).zip(&seen) {
                        let targets = rounds.iter().filter_map(|round| {
                            Some((round.pattern.target(rank, ranks)?, round.bytes))
                        });
                        let sources = rounds.iter().filter_map(|round| {
                            Some((round.pattern.source(rank, ranks)?, round.bytes))
                        });
                        let told = format!("{what} {algorithm} {ranks}: rank {rank}");
                        assert_eq!(*sends, targets.collect::<Vec<_>>(), "{told}");
                        assert_eq!(*receives, sources.collect::<Vec<_>>(), "{told}");
                    }
                }
            }
        }
        assert!(collective(Collective::Broadcast, Algorithm::Ring, 1).is_err());
    }

    #[test]
    fn exchanges_have_the_messages_of_their_stencil() {
        for (x, y, z) in [
            (7, 1, 1),
            (3, 2, 1),
            (4, 4, 1),
            (3, 4, 2),
            (1, 5, 3),
            (1, 1, 1),
        ] {
            for reach in 1..4 {
                for (periodic, one_sided) in
                    [(true, false), (false, false), (true, true), (false, true)]
                {
                    let stencil = Stencil {
                        shape: Shape { x, y, z },
                        reach,
                        periodic,
                        one_sided,
                    };
                    let ranks = stencil.ranks();
                    let seen = messages(vec![exchange(&stencil, 9)], ranks as u32);
                    for (rank, (mut sends, mut receives)) in seen.into_iter().enumerate() {
                        let directions = stencil.directions();
                        let all = directions.iter();
                        let targets = all.clone().filter_map(|&d| stencil.target(rank, d));
                        let mut targets: Vec<_> = targets.map(|to| (to as u32, 9)).collect();
                        let sources = all.filter_map(|&d| stencil.source(rank, d));
                        let mut sources: Vec<_> = sources.map(|from| (from as u32, 9)).collect();
                        for list in [&mut sends, &mut receives, &mut targets, &mut sources] {
                            list.sort_unstable();
                        }
                        assert_eq!(sends, targets, "{stencil:?} {rank}");
                        assert_eq!(receives, sources, "{stencil:?} {rank}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_linear_alltoall_is_one_message_between_any_two() {
        for ranks in [1, 2, 5, 8] {
            for (rank, (sends, receives)) in (0..).zip(messages(vec![linear_alltoall(3)], ranks)) {
                let after = (1..ranks).map(|far| ((rank + far) % ranks, 3));
                let before = (1..ranks).map(|far| ((rank + ranks - far) % ranks, 3));
                assert_eq!(sends, after.collect::<Vec<_>>());
                assert_eq!(receives, before.collect::<Vec<_>>());
            }
        }
    }
}
