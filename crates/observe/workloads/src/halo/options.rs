//! A halo exchange as text.

use super::Halo;
use std::fmt;
use std::str::FromStr;

/// Least and most cells along an edge.
const CELLS: [u32; 2] = [4, 4_096];
/// Most cells of a block: 32 GiB for both fields.
const MOST: u64 = 1 << 31;
const STEPS: u32 = 100;
const DIMS: u32 = 3;

impl Halo {
    /// Default steps, ranks in three dimensions, periodic.
    pub const fn new(cells: [u32; 3]) -> Self {
        Self {
            cells,
            steps: STEPS,
            dims: DIMS,
            residual_every: 0,
            periodic: true,
        }
    }

    /// Checks the sizes.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self) -> Result<(), String> {
        let [least, most] = CELLS;
        let product: u64 = self.cells.iter().map(|&c| u64::from(c)).product();
        if self.cells.iter().any(|c| !(least..=most).contains(c)) || product > MOST {
            return Err(format!(
                "give cells from {least} to {most} along each edge, {MOST} in all"
            ));
        }
        if self.steps == 0 {
            return Err("give steps of 1 or more".to_owned());
        }
        if !(1..=3).contains(&self.dims) {
            return Err("give dims of 1, 2 or 3".to_owned());
        }
        Ok(())
    }
}

impl fmt::Display for Halo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.cells;
        match x == y && y == z {
            true => write!(f, "{x}")?,
            false => write!(f, "{x}x{y}x{z}")?,
        }
        let usual = Self::new(self.cells);
        for (name, value, usual) in [
            ("steps", self.steps, usual.steps),
            ("dims", self.dims, usual.dims),
            ("residual", self.residual_every, usual.residual_every),
        ] {
            if value != usual {
                write!(f, ",{name}={value}")?;
            }
        }
        match self.periodic {
            true => Ok(()),
            false => f.write_str(",open"),
        }
    }
}

impl FromStr for Halo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |name: &str, text: &str| {
            let number = text.parse::<u32>();
            number.map_err(|_| format!("{text:?} is not a valid number of {name}"))
        };
        let mut words = text.split(',');
        let mut edges = Vec::new();
        for edge in words.next().unwrap_or_default().split('x') {
            edges.push(number("cells", edge)?);
        }
        let mut halo = Self::new(match edges[..] {
            [edge] => [edge; 3],
            [x, y, z] => [x, y, z],
            _ => return Err("give one number of cells, or three as in 64x32x16".to_owned()),
        });
        for word in words {
            match word.split_once('=') {
                Some(("steps", value)) => halo.steps = number("steps", value)?,
                Some(("dims", value)) => halo.dims = number("dims", value)?,
                Some(("residual", value)) => halo.residual_every = number("steps", value)?,
                None if word == "open" => halo.periodic = false,
                None if word == "periodic" => halo.periodic = true,
                _ => {
                    let all = "steps=N, dims=N, residual=N, open";
                    return Err(format!("{word:?} is not one of {all}"));
                }
            }
        }
        halo.check()?;
        Ok(halo)
    }
}
