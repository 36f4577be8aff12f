//! A program bound to a number of ranks and to values of its parameters.

use super::check;
use super::code::Code;
use super::compile;
use super::error::{Place, Problem, ProgramError};
use super::tree::Program;
use std::collections::{HashMap, HashSet};

/// What the caller supplies for a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bindings {
    /// Number of ranks; `None` leaves it to the program.
    pub ranks: Option<u32>,
    /// Values of parameters, by name. Of two values for one name the last one counts.
    pub values: Vec<(String, i64)>,
}

/// A program ready to play: its ranks and all its parameters are known.
#[derive(Clone, Debug)]
pub struct Bound {
    pub(super) code: Code,
    parameters: Vec<(String, i64)>,
}

impl Program {
    /// Binds a program to a number of ranks and to the values of its parameters. Errors: whatever
    /// the text form would reject; no number of ranks; a parameter that does not exist, or whose
    /// value cannot be computed.
    pub fn bind(&self, bindings: &Bindings) -> Result<Bound, ProgramError> {
        check::check(self)?;
        let nowhere = |problem| Place::default().error(problem);
        let ranks = bindings.ranks.or(self.ranks);
        let ranks = ranks.ok_or_else(|| nowhere(Problem::NoRanks))?;
        let most = i64::from(check::MOST_RANKS);
        check::in_range("number of ranks", ranks.into(), most).map_err(nowhere)?;
        let declared: HashSet<&str> = self.parameters.iter().map(|p| p.name.as_str()).collect();
        for (name, _) in &bindings.values {
            if !declared.contains(name.as_str()) {
                return Err(nowhere(Problem::UnknownParameter {
                    name: name.clone(),
                    known: self.parameters.iter().map(|p| p.name.clone()).collect(),
                }));
            }
        }
        let given = bindings
            .values
            .iter()
            .map(|(name, value)| (name.as_str(), *value));
        let given: HashMap<&str, i64> = given.collect();
        let mut parameters: Vec<(String, i64)> = Vec::new();
        let mut values: HashMap<&str, i64> = HashMap::new();
        for parameter in &self.parameters {
            let value = match given.get(parameter.name.as_str()) {
                Some(&value) => value,
                None => {
                    let known = |name: &str| values.get(name).copied();
                    compile::parameter_value(&parameter.value, ranks, &known)
                        .map_err(|problem| Place::line(parameter.line).error(problem))?
                }
            };
            values.insert(&parameter.name, value);
            parameters.push((parameter.name.clone(), value));
        }
        let values: Vec<i64> = parameters.iter().map(|known| known.1).collect();
        Ok(Bound {
            code: compile::compile(self, ranks, &values)?,
            parameters,
        })
    }
}

impl Bound {
    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.code.ranks
    }

    /// Number of CPUs per rank.
    pub fn cpus(&self) -> u16 {
        self.code.cpus
    }

    /// The parameters with their values, in program order.
    pub fn parameters(&self) -> &[(String, i64)] {
        &self.parameters
    }
}
