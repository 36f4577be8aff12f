//! The syntax tree of a program.

/// What every rank does.
///
/// Two programs are equal if they say the same, wherever their statements stand in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Number of ranks if the caller gives none.
    pub ranks: Option<u32>,
    /// CPUs of each rank, from 1 to 256.
    pub cpus: u16,
    /// NICs of each rank, from 1 to 256.
    pub nics: u16,
    /// Numbers that the caller may set.
    pub parameters: Vec<Parameter>,
    /// The statements, in order.
    pub body: Vec<Statement>,
}

impl Default for Program {
    /// An empty program with one CPU and one NIC.
    fn default() -> Self {
        Program {
            ranks: None,
            cpus: 1,
            nics: 1,
            parameters: Vec::new(),
            body: Vec::new(),
        }
    }
}

/// A number that the caller may set.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its default: an expression of numbers, `ranks` and the parameters before it.
    pub value: Expression,
    /// Its line in the text, from 1.
    pub line: Option<u32>,
}

impl PartialEq for Parameter {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.value == other.value
    }
}

impl Eq for Parameter {}

/// A statement of a program.
#[derive(Clone, Debug)]
pub struct Statement {
    /// What it does.
    pub step: Step,
    /// Its line in the text, from 1.
    pub line: Option<u32>,
}

impl PartialEq for Statement {
    fn eq(&self, other: &Self) -> bool {
        self.step == other.step
    }
}

impl Eq for Statement {}

impl From<Step> for Statement {
    /// A statement that is not from a text.
    fn from(step: Step) -> Self {
        Statement { step, line: None }
    }
}

/// The kinds of statements. Each begins when the previous one has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Names a value, from here to the end of the block.
    Let {
        /// The name.
        name: String,
        /// What it stands for.
        value: Expression,
    },
    /// Repeats a block.
    Loop {
        /// The loop variable; counts from 0.
        variable: String,
        /// Number of passes, at least 0.
        count: Expression,
        /// The block.
        body: Vec<Statement>,
    },
    /// Executes one of two blocks.
    If {
        /// True unless it is 0.
        condition: Expression,
        /// Executed if it is true.
        then: Vec<Statement>,
        /// Executed otherwise.
        otherwise: Vec<Statement>,
    },
    /// Unordered operations. The statement ends when all have ended. It cannot be nested.
    Together(Vec<Statement>),
    /// Sends a message.
    Send {
        /// Its length in bytes, from 0.
        bytes: Expression,
        /// The receiving rank.
        to: Expression,
        /// Tag that the receive must match, from 0 to 4294967294.
        tag: Expression,
        /// The CPU of its rank that it uses.
        cpu: Expression,
        /// The NIC of its rank that it uses.
        nic: Expression,
    },
    /// Receives a message.
    Recv {
        /// Length of the buffer in bytes, from 0. A message keeps the length with which it was
        /// sent.
        bytes: Expression,
        /// The sending rank; `None` receives from any rank.
        from: Option<Expression>,
        /// Tag of the message; `None` receives any tag.
        tag: Option<Expression>,
        /// The CPU of its rank that it uses.
        cpu: Expression,
        /// The NIC of its rank that it uses.
        nic: Expression,
    },
    /// Computes.
    Calc {
        /// Duration in nanoseconds, from 0.
        ns: Expression,
        /// The CPU of its rank that it uses.
        cpu: Expression,
    },
}

/// A signed 64-bit number. A value that does not fit is an error only where it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// This number.
    Number(i64),
    /// The current rank, from 0.
    Rank,
    /// The number of ranks.
    Ranks,
    /// A parameter, a loop variable, or a name defined by `let`.
    Name(String),
    /// An operation on one number.
    Unary(Unary, Box<Expression>),
    /// An operation on two numbers.
    Binary(Binary, Box<Expression>, Box<Expression>),
}

/// Operations on one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// `-a`
    Negative,
    /// `not a`: 1 if a is 0, else 0.
    Not,
    /// `log2floor(a)`: the largest n with 2^n at most a. Defined for a of at least 1.
    Log2Floor,
    /// `log2ceil(a)`: the smallest n with 2^n at least a. Defined for a of at least 1.
    Log2Ceil,
}

/// Operations on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// `a or b`: 1 if one of them is not 0, else 0. `b` is not evaluated if `a` decides.
    Or,
    /// `a and b`: 1 if neither is 0, else 0. `b` is not evaluated if `a` decides.
    And,
    /// `a == b`: 1 or 0, like all comparisons.
    Equal,
    /// `a != b`
    NotEqual,
    /// `a < b`
    Less,
    /// `a <= b`
    LessOrEqual,
    /// `a > b`
    Greater,
    /// `a >= b`
    GreaterOrEqual,
    /// `a | b`, bit by bit.
    BitOr,
    /// `a ^ b`, bit by bit.
    BitXor,
    /// `a & b`, bit by bit.
    BitAnd,
    /// `a << b`: a times 2^b, b from 0 to 63.
    ShiftLeft,
    /// `a >> b`: a divided by 2^b, rounded down, b from 0 to 63.
    ShiftRight,
    /// `a + b`
    Add,
    /// `a - b`
    Subtract,
    /// `a * b`
    Multiply,
    /// `a / b`: rounded so that the remainder is not negative. 7 / 2 is 3, -7 / 2 is -4.
    Divide,
    /// `a % b`: the remainder, from 0 to |b| - 1. -1 % 5 is 4.
    Remainder,
    /// `min(a, b)`
    Minimum,
    /// `max(a, b)`
    Maximum,
}

/// How tightly expressions bind in the text: one that binds less tightly needs brackets.
pub(super) mod binding {
    use super::{Binary, Expression, Unary};

    pub const LOOSEST: u8 = 1;
    pub const NOT: u8 = 3;
    pub const COMPARISON: u8 = 4;
    pub const SIGN: u8 = 11;
    pub const TIGHTEST: u8 = 12;

    pub fn of_binary(operator: Binary) -> u8 {
        match operator {
            Binary::Or => LOOSEST,
            Binary::And => 2,
            Binary::Equal
            | Binary::NotEqual
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::Greater
            | Binary::GreaterOrEqual => COMPARISON,
            Binary::BitOr => 5,
            Binary::BitXor => 6,
            Binary::BitAnd => 7,
            Binary::ShiftLeft | Binary::ShiftRight => 8,
            Binary::Add | Binary::Subtract => 9,
            Binary::Multiply | Binary::Divide | Binary::Remainder => 10,
            Binary::Minimum | Binary::Maximum => TIGHTEST,
        }
    }

    pub fn of(expression: &Expression) -> u8 {
        match expression {
            Expression::Unary(Unary::Not, _) => NOT,
            Expression::Unary(Unary::Negative, _) => SIGN,
            Expression::Number(number) if *number < 0 => SIGN,
            Expression::Binary(operator, ..) => of_binary(*operator),
            _ => TIGHTEST,
        }
    }
}
