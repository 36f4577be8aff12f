//! A program as instructions, bound to a number of ranks and values of its parameters.
//!
//! What is the same for all ranks is computed once, here. A rank's state between two steps is
//! numbers in *slots*: loop variables, loop counts, values of `let`. Each rank has as many slots as
//! are live at a time.

use super::error::Problem;
use super::tree::{Binary, Unary};

/// A compiled expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Leaf(Leaf),
    /// The operations in this range of [`Code::operations`].
    Computed(u32, u32),
}

/// A value that is only read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Leaf {
    Constant(i64),
    Rank,
    Slot(u32),
}

/// An operation on an accumulator and a stack.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    /// Loads a value into the accumulator.
    Load(Leaf),
    /// Pushes the accumulator onto the stack.
    Keep,
    Unary(Unary),
    /// Combines the accumulator with a value.
    WithLeaf(Binary, Leaf),
    /// Combines the number popped from the stack with the accumulator.
    WithKept(Binary),
    /// Sets the accumulator to 1 if it is not 0.
    Truth,
    /// If the accumulator is 0, it is the result of the `and`, which ends there: jumps.
    And(u32),
    /// If the accumulator is not 0, the result of the `or`, which ends there, is 1: jumps.
    Or(u32),
}

/// An instruction of a rank.
#[derive(Clone, Copy, Debug)]
pub(super) enum Instruction {
    /// Stores a value in a slot.
    Set {
        slot: u32,
        value: Value,
    },
    /// Starts a loop: stores 0 in the slot and the count in the next one; jumps past `end` if the
    /// count is 0.
    Loop {
        slot: u32,
        count: Value,
        end: u32,
    },
    /// Ends a pass of the loop whose body starts at `begin`, after its `Loop`.
    Again {
        slot: u32,
        begin: u32,
    },
    /// Jumps to `to` if the value is 0.
    Unless {
        condition: Value,
        to: u32,
    },
    /// Jumps.
    Jump(u32),
    /// The operations up to `Close` are unordered.
    Open,
    Close,
    /// An operation: its index in [`Code::actions`].
    Action(u32),
    End,
}

/// An operation of a rank whose numbers are still expressions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Action {
    pub kind: crate::goal::Kind,
    /// Bytes or nanoseconds.
    pub size: Value,
    /// `None`: any rank; also for a computation.
    pub peer: Option<Value>,
    /// `None`: any tag.
    pub tag: Option<Value>,
    pub cpu: Value,
    pub nic: Value,
}

/// A loop, for reporting where an instruction is.
#[derive(Clone, Debug)]
pub(super) struct LoopPlace {
    pub variable: String,
    pub slot: u32,
    /// First of its instructions.
    pub begin: u32,
    pub end: u32,
}

/// A program as instructions.
#[derive(Clone, Debug)]
pub(super) struct Code {
    pub ranks: u32,
    pub cpus: u16,
    pub nics: u16,
    pub instructions: Vec<Instruction>,
    /// Line of each instruction.
    pub lines: Vec<Option<u32>>,
    pub operations: Vec<Operation>,
    pub actions: Vec<Action>,
    /// Number of slots of a rank.
    pub slots: u32,
    /// Loops, outer ones first.
    pub loops: Vec<LoopPlace>,
}

/// Evaluates an operation on one number; `None` if it has no result.
pub(super) fn unary(operator: Unary, of: i64) -> Option<i64> {
    match operator {
        Unary::Negative => of.checked_neg(),
        Unary::Not => Some(i64::from(of == 0)),
        Unary::Log2Floor => of.checked_ilog2().map(i64::from),
        Unary::Log2Ceil => {
            let below = u64::try_from(of).ok()?.checked_sub(1)?;
            Some(below.checked_ilog2().map_or(0, |log| i64::from(log) + 1))
        }
    }
}

/// Evaluates an operation on two numbers; `None` if it has no result.
#[inline]
pub(super) fn binary(operator: Binary, left: i64, right: i64) -> Option<i64> {
    let places = || u32::try_from(right).ok().filter(|places| *places < 64);
    Some(match operator {
        Binary::Add => left.checked_add(right)?,
        Binary::Subtract => left.checked_sub(right)?,
        Binary::Multiply => left.checked_mul(right)?,
        Binary::Divide => left.checked_div_euclid(right)?,
        // The remainder of the smallest number by -1 is 0.
        Binary::Remainder if right == -1 => 0,
        Binary::Remainder => left.checked_rem_euclid(right)?,
        Binary::ShiftLeft => {
            let places = places()?;
            let shifted = left << places;
            (shifted >> places == left).then_some(shifted)?
        }
        Binary::ShiftRight => left >> places()?,
        Binary::BitAnd => left & right,
        Binary::BitOr => left | right,
        Binary::BitXor => left ^ right,
        Binary::Minimum => left.min(right),
        Binary::Maximum => left.max(right),
        Binary::Equal => i64::from(left == right),
        Binary::NotEqual => i64::from(left != right),
        Binary::Less => i64::from(left < right),
        Binary::LessOrEqual => i64::from(left <= right),
        Binary::Greater => i64::from(left > right),
        Binary::GreaterOrEqual => i64::from(left >= right),
        Binary::And => i64::from(left != 0 && right != 0),
        Binary::Or => i64::from(left != 0 || right != 0),
    })
}

/// The same, with the reason if there is no result.
#[inline]
pub(super) fn unary_or_why(operator: Unary, of: i64) -> Result<i64, Problem> {
    unary(operator, of).ok_or_else(|| Problem::of_unary(operator, of))
}

#[inline]
pub(super) fn binary_or_why(operator: Binary, left: i64, right: i64) -> Result<i64, Problem> {
    binary(operator, left, right).ok_or_else(|| Problem::of_binary(operator, left, right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remainder_is_never_negative() {
        for left in -20..=20 {
            for right in (-6..=6).filter(|&right| right != 0) {
                let quotient = binary(Binary::Divide, left, right).unwrap();
                let remainder = binary(Binary::Remainder, left, right).unwrap();
                assert_eq!(quotient * right + remainder, left);
                assert!((0..i64::abs(right)).contains(&remainder));
            }
        }
        assert_eq!(binary(Binary::Remainder, i64::MIN, -1), Some(0));
        assert_eq!(binary(Binary::Divide, i64::MIN, -1), None);
        assert_eq!(binary(Binary::Divide, 1, 0), None);
        assert_eq!(binary(Binary::Remainder, 1, 0), None);
    }

    #[test]
    fn logarithms_are_exact_at_the_powers_of_two() {
        for log in 0..62 {
            let power = 1_i64 << log;
            assert_eq!(unary(Unary::Log2Floor, power), Some(log));
            assert_eq!(unary(Unary::Log2Ceil, power), Some(log));
            assert_eq!(unary(Unary::Log2Ceil, power + 1), Some(log + 1));
            assert_eq!(unary(Unary::Log2Floor, 2 * power - 1), Some(log));
        }
        assert_eq!(unary(Unary::Log2Ceil, i64::MAX), Some(63));
        for none in [0, -1, i64::MIN] {
            assert_eq!(unary(Unary::Log2Floor, none), None);
            assert_eq!(unary(Unary::Log2Ceil, none), None);
        }
    }

    #[test]
    fn what_does_not_fit_is_no_number() {
        assert_eq!(binary(Binary::Add, i64::MAX, 1), None);
        assert_eq!(binary(Binary::Subtract, i64::MIN, 1), None);
        assert_eq!(binary(Binary::Multiply, i64::MAX, 2), None);
        assert_eq!(unary(Unary::Negative, i64::MIN), None);
        assert_eq!(binary(Binary::ShiftLeft, 1, 62), Some(1 << 62));
        assert_eq!(binary(Binary::ShiftLeft, 1, 63), None);
        assert_eq!(binary(Binary::ShiftLeft, -1, 63), Some(i64::MIN));
        assert_eq!(binary(Binary::ShiftLeft, 0, 63), Some(0));
        assert_eq!(binary(Binary::ShiftLeft, 0, 64), None);
        assert_eq!(binary(Binary::ShiftLeft, 0, -1), None);
        assert_eq!(binary(Binary::ShiftRight, -5, 1), Some(-3));
        assert_eq!(binary(Binary::ShiftRight, -5, 63), Some(-1));
        assert_eq!(binary(Binary::ShiftRight, 5, 64), None);
    }
}
