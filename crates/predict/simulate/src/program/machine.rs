//! Executes a rank's instructions, from one group of operations to the next.

use super::code::{self, Action, Code, Instruction, Leaf, Operation, Value};
use super::error::{Place, Problem, ProgramError};
use crate::goal::{ANY, Kind, Task};

/// Instructions in a row without an operation after which a rank is assumed to loop forever.
const MOST_IDLE: u64 = 1 << 24;

/// Why a rank cannot go on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fault {
    /// The instruction.
    pub at: u32,
    pub problem: Box<Problem>,
}

/// Executes instructions, for any rank.
pub(super) struct Machine<'a> {
    pub code: &'a Code,
    /// The stack of the current computation.
    kept: Vec<i64>,
}

impl<'a> Machine<'a> {
    pub fn new(code: &'a Code) -> Self {
        Machine {
            code,
            kept: Vec::new(),
        }
    }

    /// Runs from instruction `position` to the next group of operations, which begin when those
    /// before have ended, and reports them in order, each with its instruction and the slots. False
    /// at the end of the program.
    pub fn next_group(
        &mut self,
        rank: u32,
        position: &mut u32,
        slots: &mut [i64],
        mut tell: impl FnMut(Task, u32, &[i64]) -> Result<(), Problem>,
    ) -> Result<bool, Fault> {
        let code = self.code;
        let mut at = *position;
        let (mut together, mut told, mut idle) = (false, false, 0);
        loop {
            let here = at;
            let fault = |problem| Fault {
                at: here,
                problem: Box::new(problem),
            };
            at += 1;
            idle += 1;
            if idle > MOST_IDLE {
                return Err(fault(Problem::Idle(MOST_IDLE)));
            }
            match code.instructions[here as usize] {
                Instruction::Action(action) => {
                    let action = &code.actions[action as usize];
                    let task = self.task(action, rank, slots).map_err(fault)?;
                    tell(task, here, slots).map_err(fault)?;
                    (told, idle) = (true, 0);
                    if !together {
                        break;
                    }
                }
                Instruction::Open => together = true,
                Instruction::Close => {
                    together = false;
                    if told {
                        break;
                    }
                }
                Instruction::Set { slot, value } => {
                    slots[slot as usize] = self.value(value, rank, slots).map_err(fault)?;
                }
                Instruction::Loop { slot, count, end } => {
                    let count = self.value(count, rank, slots).map_err(fault)?;
                    range("count of the loop", count, i64::MAX).map_err(fault)?;
                    if count == 0 {
                        at = end;
                    }
                    slots[slot as usize] = 0;
                    slots[slot as usize + 1] = count;
                }
                Instruction::Again { slot, begin } => {
                    // It stays below the count.
                    let passed = slots[slot as usize] + 1;
                    if passed < slots[slot as usize + 1] {
                        slots[slot as usize] = passed;
                        at = begin;
                    }
                }
                Instruction::Unless { condition, to } => {
                    if self.value(condition, rank, slots).map_err(fault)? == 0 {
                        at = to;
                    }
                }
                Instruction::Jump(to) => at = to,
                Instruction::End => {
                    *position = here;
                    return Ok(false);
                }
            }
        }
        *position = at;
        Ok(true)
    }

    #[inline]
    fn task(&mut self, action: &Action, rank: u32, slots: &[i64]) -> Result<Task, Problem> {
        let size = self.value(action.size, rank, slots)?;
        let what = match action.kind {
            Kind::Calc => "computation of ns",
            _ => "number of bytes",
        };
        range(what, size, i64::MAX)?;
        let any = match action.kind {
            Kind::Calc => 0,
            _ => ANY,
        };
        let peer = match action.peer {
            None => any,
            Some(peer) => {
                let peer = self.value(peer, rank, slots)?;
                range("rank", peer, i64::from(self.code.ranks) - 1)?;
                peer as u32
            }
        };
        let tag = match action.tag {
            None => any,
            Some(tag) => {
                let tag = self.value(tag, rank, slots)?;
                range("tag", tag, i64::from(ANY) - 1)?;
                tag as u32
            }
        };
        let cpu = self.value(action.cpu, rank, slots)?;
        range("CPU", cpu, i64::from(self.code.cpus) - 1)?;
        let nic = self.value(action.nic, rank, slots)?;
        range("NIC", nic, i64::from(self.code.nics) - 1)?;
        Ok(Task {
            size: size as u64,
            peer,
            tag,
            rank,
            kind: action.kind,
            cpu: cpu as u8,
            nic: nic as u8,
        })
    }

    #[inline]
    fn value(&mut self, value: Value, rank: u32, slots: &[i64]) -> Result<i64, Problem> {
        match value {
            Value::Leaf(value) => Ok(leaf(value, rank, slots)),
            Value::Computed(begin, end) => self.compute(begin, end, rank, slots),
        }
    }

    fn compute(&mut self, begin: u32, end: u32, rank: u32, slots: &[i64]) -> Result<i64, Problem> {
        let operations = &self.code.operations[..end as usize];
        let (mut at, mut hand) = (begin as usize, 0);
        while let Some(&operation) = operations.get(at) {
            at += 1;
            match operation {
                Operation::Load(value) => hand = leaf(value, rank, slots),
                Operation::Keep => self.kept.push(hand),
                Operation::Unary(operator) => hand = code::unary_or_why(operator, hand)?,
                Operation::WithLeaf(operator, right) => {
                    hand = code::binary_or_why(operator, hand, leaf(right, rank, slots))?;
                }
                Operation::WithKept(operator) => {
                    // Each `WithKept` has its `Keep`.
                    let left = self.kept.pop().unwrap_or_default();
                    hand = code::binary_or_why(operator, left, hand)?;
                }
                Operation::Truth => hand = i64::from(hand != 0),
                Operation::And(end) if hand == 0 => at = end as usize,
                Operation::Or(end) if hand != 0 => (at, hand) = (end as usize, 1),
                Operation::And(_) | Operation::Or(_) => {}
            }
        }
        Ok(hand)
    }

    /// Describes where a rank is at an instruction.
    pub fn place(&self, rank: u32, at: u32, slots: &[i64]) -> Place {
        let around = self.code.loops.iter();
        let around = around.filter(|place| (place.begin..place.end).contains(&at));
        Place {
            rank: Some(rank),
            line: self.code.lines[at as usize],
            iterations: around
                .map(|place| (place.variable.clone(), slots[place.slot as usize]))
                .collect(),
        }
    }

    /// A fault with its location.
    #[cold]
    pub fn error(&self, rank: u32, fault: Fault, slots: &[i64]) -> ProgramError {
        self.place(rank, fault.at, slots).error(*fault.problem)
    }
}

#[inline]
fn leaf(leaf: Leaf, rank: u32, slots: &[i64]) -> i64 {
    match leaf {
        Leaf::Constant(constant) => constant,
        Leaf::Rank => rank.into(),
        Leaf::Slot(slot) => slots[slot as usize],
    }
}

#[inline]
fn range(what: &'static str, found: i64, most: i64) -> Result<(), Problem> {
    match (0..=most).contains(&found) {
        true => Ok(()),
        false => Err(Problem::OutOfRange {
            what,
            found,
            least: 0,
            most,
        }),
    }
}
