//! The program as a tree.

/// What every rank does.
///
/// Two programs are equal if they say the same, wherever their statements stand in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Number of ranks, if the caller gives none.
    pub ranks: Option<u32>,
    /// CPUs of each rank, from 1 to 256.
    pub cpus: u16,
    /// NICs of each rank, from 1 to 256.
    pub nics: u16,
    /// Numbers that the caller may set.
    pub parameters: Vec<Parameter>,
    /// One after the other.
    pub body: Vec<Statement>,
}

impl Default for Program {
    /// Nothing, on one CPU and one NIC.
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
    /// What it is if nobody sets it: of numbers, `ranks` and the parameters before it.
    pub value: Expression,
    /// Where it stands in the text that it was read from, from 1.
    pub line: Option<u32>,
}

impl PartialEq for Parameter {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.value == other.value
    }
}

impl Eq for Parameter {}

/// What a rank does at a place of the program.
#[derive(Clone, Debug)]
pub struct Statement {
    /// What it does.
    pub step: Step,
    /// Where it stands in the text that it was read from, from 1.
    pub line: Option<u32>,
}

impl PartialEq for Statement {
    fn eq(&self, other: &Self) -> bool {
        self.step == other.step
    }
}

impl Eq for Statement {}

impl From<Step> for Statement {
    /// In no text.
    fn from(step: Step) -> Self {
        Statement { step, line: None }
    }
}

/// The kinds of statements. Each begins when the one before it has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Gives a value a name, from here to the end of the block.
    Let {
        /// The name.
        name: String,
        /// What it stands for.
        value: Expression,
    },
    /// Repeats.
    Loop {
        /// Counts from 0.
        variable: String,
        /// How often, from 0.
        count: Expression,
        /// What.
        body: Vec<Statement>,
    },
    /// Does one thing or another.
    If {
        /// True if it is not 0.
        condition: Expression,
        /// Done if it is true.
        then: Vec<Statement>,
        /// Done if it is not.
        otherwise: Vec<Statement>,
    },
    /// Operations without order among each other. It ends when all have ended. None holds another one.
    Together(Vec<Statement>),
    /// Sends a message.
    Send {
        /// Its length in bytes, from 0.
        bytes: Expression,
        /// The receiving rank.
        to: Expression,
        /// What the receive must ask for, from 0 to 4294967294.
        tag: Expression,
        /// The CPU of its rank that it takes.
        cpu: Expression,
        /// The NIC of its rank that it takes.
        nic: Expression,
    },
    /// Receives a message.
    Recv {
        /// Length of the buffer in bytes, from 0. What arrives has the length with which it was sent.
        bytes: Expression,
        /// The sending rank; `None` takes a message of any.
        from: Option<Expression>,
        /// Tag of the message; `None` takes any.
        tag: Option<Expression>,
        /// The CPU of its rank that it takes.
        cpu: Expression,
        /// The NIC of its rank that it takes.
        nic: Expression,
    },
    /// Computes.
    Calc {
        /// For so many nanoseconds, from 0.
        ns: Expression,
        /// The CPU of its rank that it takes.
        cpu: Expression,
    },
}

/// A whole number of 64 bits, signed. What does not fit is an error where it is needed, and nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// This number.
    Number(i64),
    /// The rank at hand, from 0.
    Rank,
    /// How many ranks there are.
    Ranks,
    /// A parameter, the variable of a loop, or what a `let` has named.
    Name(String),
    /// Of one number.
    Unary(Unary, Box<Expression>),
    /// Of two.
    Binary(Binary, Box<Expression>, Box<Expression>),
}

/// What makes one number of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// `-a`
    Negative,
    /// `not a`: 1 of 0, else 0.
    Not,
    /// `log2floor(a)`: the largest n with 2^n at most a. Only of numbers from 1.
    Log2Floor,
    /// `log2ceil(a)`: the smallest n with 2^n at least a. Only of numbers from 1.
    Log2Ceil,
}

/// What makes one number of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// `a or b`: 1 if one of them is not 0, else 0. The second is not looked at if the first decides.
    Or,
    /// `a and b`: 1 if none of them is 0, else 0. The second is not looked at if the first decides.
    And,
    /// `a == b`: 1 or 0, as all comparisons.
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
    /// `a / b`: so that the remainder is not negative. 7 / 2 is 3, -7 / 2 is -4.
    Divide,
    /// `a % b`: the remainder, from 0 to |b| - 1. -1 % 5 is 4.
    Remainder,
    /// `min(a, b)`
    Minimum,
    /// `max(a, b)`
    Maximum,
}

/// How tightly an expression is bound, in the text: what binds less needs brackets.
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
