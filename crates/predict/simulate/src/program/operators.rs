//! Expressions written in Rust: `(Expression::Rank + 1) % Expression::Ranks`.

use super::tree::{Binary, Expression, Unary};
use std::ops;

impl Expression {
    /// A parameter, a loop variable, or a name defined by `let`.
    pub fn name(name: &str) -> Self {
        Expression::Name(name.to_owned())
    }

    /// An operation on two expressions.
    pub fn binary(operator: Binary, left: impl Into<Self>, right: impl Into<Self>) -> Self {
        Expression::Binary(operator, Box::new(left.into()), Box::new(right.into()))
    }

    /// An operation on one expression.
    pub fn unary(operator: Unary, of: impl Into<Self>) -> Self {
        Expression::Unary(operator, Box::new(of.into()))
    }
}

impl From<i64> for Expression {
    fn from(number: i64) -> Self {
        Expression::Number(number)
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $binary:ident) => {
        impl<T: Into<Expression>> ops::$trait<T> for Expression {
            type Output = Expression;

            fn $method(self, right: T) -> Expression {
                Expression::binary(Binary::$binary, self, right)
            }
        }
    };
}

operator!(Add, add, Add);
operator!(Sub, sub, Subtract);
operator!(Mul, mul, Multiply);
operator!(Div, div, Divide);
operator!(Rem, rem, Remainder);
operator!(BitAnd, bitand, BitAnd);
operator!(BitOr, bitor, BitOr);
operator!(BitXor, bitxor, BitXor);
operator!(Shl, shl, ShiftLeft);
operator!(Shr, shr, ShiftRight);
