//! Compiles the tree to instructions: computes constants, turns names into slots, drops branches
//! that are never taken.

use super::code::{self, Action, Code, Instruction, Leaf, LoopPlace, Operation, Value};
use super::error::{Place, Problem, ProgramError};
use super::names::Names;
use super::tree::{Binary, Expression, Program, Statement, Step};
use crate::goal::Kind;

/// Compiles a checked program with these values of its parameters, in program order.
pub(super) fn compile(
    program: &Program,
    ranks: u32,
    parameters: &[i64],
) -> Result<Code, ProgramError> {
    let mut names = Names::new();
    for (parameter, &value) in program.parameters.iter().zip(parameters) {
        names.define(parameter.name.as_str(), Leaf::Constant(value));
    }
    let mut compiler = Compiler {
        names,
        live: 0,
        line: None,
        code: Code {
            ranks,
            cpus: program.cpus,
            nics: program.nics,
            instructions: Vec::new(),
            lines: Vec::new(),
            operations: Vec::new(),
            actions: Vec::new(),
            slots: 0,
            loops: Vec::new(),
        },
    };
    compiler.block(&program.body)?;
    compiler.line = None;
    compiler.put(Instruction::End)?;
    Ok(compiler.code)
}

/// The default value of a parameter.
pub(super) fn parameter_value(
    expression: &Expression,
    ranks: u32,
    known: &dyn Fn(&str) -> Option<i64>,
) -> Result<i64, Problem> {
    let inner = |expression: &Expression| parameter_value(expression, ranks, known);
    match expression {
        Expression::Number(number) => Ok(*number),
        Expression::Rank => Err(Problem::RankInParameter),
        Expression::Ranks => Ok(ranks.into()),
        Expression::Name(name) => known(name).ok_or_else(|| Problem::UnknownName(name.clone())),
        Expression::Unary(operator, of) => code::unary_or_why(*operator, inner(of)?),
        Expression::Binary(operator, left, right) => {
            let left = inner(left)?;
            match (operator, left != 0) {
                (Binary::And, false) => Ok(0),
                (Binary::Or, true) => Ok(1),
                _ => code::binary_or_why(*operator, left, inner(right)?),
            }
        }
    }
}

struct Compiler<'a> {
    /// What the names in scope stand for.
    names: Names<&'a str, Leaf>,
    /// Number of slots in use.
    live: u32,
    line: Option<u32>,
    code: Code,
}

impl<'a> Compiler<'a> {
    fn refuse<T>(&self, problem: Problem) -> Result<T, ProgramError> {
        Err(Place::line(self.line).error(problem))
    }

    /// Position of the next instruction.
    fn here(&self) -> u32 {
        self.code.instructions.len() as u32
    }

    fn put(&mut self, instruction: Instruction) -> Result<u32, ProgramError> {
        const MOST: usize = u32::MAX as usize;
        let at = self.code.instructions.len();
        if at >= MOST || self.code.operations.len() >= MOST {
            let what = "a program";
            return self.refuse(Problem::TooDeep { what, most: MOST });
        }
        self.code.instructions.push(instruction);
        self.code.lines.push(self.line);
        Ok(at as u32)
    }

    fn slot(&mut self) -> u32 {
        let slot = self.live;
        self.live += 1;
        self.code.slots = self.code.slots.max(self.live);
        slot
    }

    /// Compiles a block; its names and slots end with it.
    fn block(&mut self, body: &'a [Statement]) -> Result<(), ProgramError> {
        let (names, live) = (self.names.len(), self.live);
        for statement in body {
            self.line = statement.line;
            self.step(&statement.step)?;
        }
        self.names.truncate(names);
        self.live = live;
        Ok(())
    }

    fn step(&mut self, step: &'a Step) -> Result<(), ProgramError> {
        match step {
            Step::Let { name, value } => {
                let leaf = match self.value(value)? {
                    Value::Leaf(leaf) => leaf,
                    value => {
                        let slot = self.slot();
                        self.put(Instruction::Set { slot, value })?;
                        Leaf::Slot(slot)
                    }
                };
                self.names.define(name, leaf);
            }
            Step::Loop {
                variable,
                count,
                body,
            } => self.repeat(variable, count, body)?,
            Step::If {
                condition,
                then,
                otherwise,
            } => self.choose(condition, then, otherwise)?,
            Step::Together(body) => {
                self.put(Instruction::Open)?;
                self.block(body)?;
                self.put(Instruction::Close)?;
            }
            Step::Send {
                bytes,
                to,
                tag,
                cpu,
                nic,
            } => {
                let (to, tag) = (Some(to), Some(tag));
                self.action(Kind::Send, bytes, to, tag, cpu, nic)?;
            }
            Step::Recv {
                bytes,
                from,
                tag,
                cpu,
                nic,
            } => self.action(Kind::Recv, bytes, from.as_ref(), tag.as_ref(), cpu, nic)?,
            Step::Calc { ns, cpu } => {
                let nic = &Expression::Number(0);
                self.action(Kind::Calc, ns, None, None, cpu, nic)?;
            }
        }
        Ok(())
    }

    fn repeat(
        &mut self,
        variable: &'a str,
        count: &Expression,
        body: &'a [Statement],
    ) -> Result<(), ProgramError> {
        let count = self.value(count)?;
        let (live, names, line) = (self.live, self.names.len(), self.line);
        let slot = self.slot();
        // The slot of its count.
        self.slot();
        self.names.define(variable, Leaf::Slot(slot));
        let begin = self.put(Instruction::Loop {
            slot,
            count,
            end: 0,
        })?;
        let place = self.code.loops.len();
        self.code.loops.push(LoopPlace {
            variable: variable.to_owned(),
            slot,
            begin: begin + 1,
            end: 0,
        });
        self.block(body)?;
        self.line = line;
        self.put(Instruction::Again {
            slot,
            begin: begin + 1,
        })?;
        let end = self.here();
        self.code.loops[place].end = end;
        self.code.instructions[begin as usize] = Instruction::Loop { slot, count, end };
        self.names.truncate(names);
        self.live = live;
        Ok(())
    }

    fn choose(
        &mut self,
        condition: &Expression,
        then: &'a [Statement],
        otherwise: &'a [Statement],
    ) -> Result<(), ProgramError> {
        let condition = self.value(condition)?;
        if let Value::Leaf(Leaf::Constant(constant)) = condition {
            return self.block(if constant != 0 { then } else { otherwise });
        }
        let line = self.line;
        let unless = self.put(Instruction::Unless { condition, to: 0 })?;
        self.block(then)?;
        let mut to = self.here();
        if !otherwise.is_empty() {
            self.line = line;
            let jump = self.put(Instruction::Jump(0))?;
            to = self.here();
            self.block(otherwise)?;
            self.code.instructions[jump as usize] = Instruction::Jump(self.here());
        }
        self.code.instructions[unless as usize] = Instruction::Unless { condition, to };
        Ok(())
    }

    fn action(
        &mut self,
        kind: Kind,
        size: &Expression,
        peer: Option<&Expression>,
        tag: Option<&Expression>,
        cpu: &Expression,
        nic: &Expression,
    ) -> Result<(), ProgramError> {
        let action = Action {
            kind,
            size: self.value(size)?,
            peer: peer.map(|peer| self.value(peer)).transpose()?,
            tag: tag.map(|tag| self.value(tag)).transpose()?,
            cpu: self.value(cpu)?,
            nic: self.value(nic)?,
        };
        let at = self.code.actions.len() as u32;
        self.code.actions.push(action);
        self.put(Instruction::Action(at))?;
        Ok(())
    }

    fn value(&mut self, expression: &Expression) -> Result<Value, ProgramError> {
        if let Some(leaf) = self.leaf(expression)? {
            return Ok(Value::Leaf(leaf));
        }
        let begin = self.code.operations.len() as u32;
        self.compute(expression)?;
        Ok(Value::Computed(begin, self.code.operations.len() as u32))
    }

    /// The value of an expression that is constant or can simply be read.
    fn leaf(&self, expression: &Expression) -> Result<Option<Leaf>, ProgramError> {
        Ok(match expression {
            Expression::Number(number) => Some(Leaf::Constant(*number)),
            Expression::Rank => Some(Leaf::Rank),
            Expression::Ranks => Some(Leaf::Constant(self.code.ranks.into())),
            Expression::Name(name) => {
                let Some(leaf) = self.names.get(name) else {
                    return self.refuse(Problem::UnknownName(name.clone()));
                };
                Some(leaf)
            }
            // An expression without a result is reported when a rank gets there, if one does.
            Expression::Unary(operator, of) => self
                .constant(of)?
                .and_then(|of| code::unary(*operator, of))
                .map(Leaf::Constant),
            Expression::Binary(operator, left, right) => {
                let left = self.constant(left)?;
                match (operator, left) {
                    (Binary::And, Some(0)) => Some(Leaf::Constant(0)),
                    (Binary::Or, Some(..=-1 | 1..)) => Some(Leaf::Constant(1)),
                    _ => left
                        .zip(self.constant(right)?)
                        .and_then(|(left, right)| code::binary(*operator, left, right))
                        .map(Leaf::Constant),
                }
            }
        })
    }

    fn constant(&self, expression: &Expression) -> Result<Option<i64>, ProgramError> {
        Ok(match self.leaf(expression)? {
            Some(Leaf::Constant(constant)) => Some(constant),
            _ => None,
        })
    }

    /// Emits operations that compute an expression into the accumulator.
    fn compute(&mut self, expression: &Expression) -> Result<(), ProgramError> {
        if let Some(leaf) = self.leaf(expression)? {
            self.code.operations.push(Operation::Load(leaf));
            return Ok(());
        }
        match expression {
            Expression::Unary(operator, of) => {
                self.compute(of)?;
                self.code.operations.push(Operation::Unary(*operator));
            }
            Expression::Binary(operator, left, right) => {
                self.compute(left)?;
                let here = self.code.operations.len();
                let by = match operator {
                    Binary::And | Binary::Or => {
                        self.code.operations.push(Operation::Truth);
                        self.compute(right)?;
                        self.code.operations.push(Operation::Truth);
                        let end = self.code.operations.len() as u32;
                        self.code.operations[here] = match operator {
                            Binary::And => Operation::And(end),
                            _ => Operation::Or(end),
                        };
                        return Ok(());
                    }
                    _ => self.leaf(right)?,
                };
                match by {
                    Some(leaf) => self
                        .code
                        .operations
                        .push(Operation::WithLeaf(*operator, leaf)),
                    None => {
                        self.code.operations.push(Operation::Keep);
                        self.compute(right)?;
                        self.code.operations.push(Operation::WithKept(*operator));
                    }
                }
            }
            // All others are leaves.
            _ => {}
        }
        Ok(())
    }
}
