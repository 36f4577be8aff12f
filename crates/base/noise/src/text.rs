//! The model as a TOML file.

use crate::check::ModelProblem;
use crate::model::NoiseModel;
use idlewave_units::foreign::at_line;

/// Why a text is not a valid model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// A syntax error; the message has line and column.
    #[error("{0}")]
    Form(String),
    /// The syntax is valid but the model is not.
    #[error(transparent)]
    Problem(#[from] ModelProblem),
}

impl NoiseModel {
    /// Reads a model and checks it.
    ///
    /// # Errors
    /// Invalid TOML, unknown or missing keys (with their line), invalid values.
    pub fn read(text: &str) -> Result<NoiseModel, ModelError> {
        let model: NoiseModel = toml::from_str(text)
            .map_err(|e| ModelError::Form(at_line(text, e.span(), e.message())))?;
        model.check()?;
        Ok(model)
    }

    /// The model as a file that [`NoiseModel::read`] reads back unchanged.
    ///
    /// # Panics
    /// Never for a model that [`NoiseModel::check`] accepts: TOML can represent all of its values.
    pub fn write(&self) -> String {
        toml::to_string(self).expect("TOML can represent every field")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"
schema = 1
about = "written by hand"
cpus_per_node = 4

[[source]]
kind = "timer_tick"
name = "local timer"
arrivals = { process = "periodic", period_ns = 4_000_000, jitter_ns = 500 }
length = { law = "exponential", mean_ns = 2500.0 }

[[source]]
kind = "task"
name = "crond"
strikes = "one-cpu-of-node"
arrivals = { process = "poisson", rate_per_s = 0.1 }
length = { law = "empirical", bins = [[100, 3], [200, 1]], tail = { count = 1, threshold_ns = 200, scale_ns = 50.0, shape = 0.3 } }

[[source]]
kind = "slow_level"
name = "2.1 GHz"
together = "node"
keeps = 0.7
cpus = [0, 1]
arrivals = { process = "trace", watched_ns = 1000, block_ns = 100, events = [[0, 5], [500, 20]] }
"#;

    #[test]
    fn a_model_by_hand_is_read_and_written_back_the_same() {
        let model = NoiseModel::read(EXAMPLE).unwrap();
        assert_eq!(model.sources.len(), 3);
        assert_eq!(model.sources[2].keeps, 0.7);
        assert_eq!(NoiseModel::read(&model.write()), Ok(model));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (from, to, said) in [
            ("period_ns = 4_000_000", "period = 1", "line 9"),
            ("kind = \"task\"", "kind = \"daemon\"", "line 13"),
            ("keeps = 0.7", "keep = 0.7", "line 23"),
            ("schema = 1", "schema = 2", "schema 2"),
            ("schema = 1", "schema = ", "line 2"),
        ] {
            let text = EXAMPLE.replace(from, to);
            let error = NoiseModel::read(&text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
