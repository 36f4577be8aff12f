//! Parameters as a TOML file. docs/network.md describes the format.

use crate::error::NetworkError;
use crate::parameters::NetworkParameters;
use idlewave_units::foreign::at_line;

impl NetworkParameters {
    /// Reads parameters and checks them.
    ///
    /// # Errors
    /// Invalid TOML, unknown or missing keys (with their line), invalid values.
    pub fn read(text: &str) -> Result<Self, NetworkError> {
        let parameters: Self = toml::from_str(text)
            .map_err(|e| NetworkError::Form(at_line(text, e.span(), e.message())))?;
        parameters.check()?;
        Ok(parameters)
    }

    /// The parameters as a file that [`read`](Self::read) reads back unchanged.
    ///
    /// # Panics
    /// Never for parameters that [`check`](Self::check) accepts: TOML can represent all of their
    /// values.
    pub fn write(&self) -> String {
        toml::to_string(self).expect("every field has a form in TOML")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Misfit;
    use crate::quantity::{Origin, Quantity};

    const BY_HAND: &str = r#"
about = "gigabit Ethernet, by hand"
overhead_ns = 5000
eager_limit = 65536
hop_ns = 0
memory = { value = 6e9, low = 5e9, high = 7e9, origin = "measured" }

[inside]
latency_ns = 500
bandwidth = 2e9

[outside]
latency_ns = 25000
bandwidth = 117e6

[adapter]
out = 117e6
into = 117e6

[[slow_down]]
ranks = 8
factor = 2.5
"#;

    #[test]
    fn parameters_by_hand_are_read_and_written_back_the_same() {
        let network = NetworkParameters::read(BY_HAND).unwrap();
        assert_eq!(network.memory.origin, Origin::Measured);
        // The misfit is unknown.
        assert_eq!(network.misfit, Misfit::ASSUMED);
        assert_eq!(network.adapter.out, Quantity::stated(117e6));
        assert_eq!(network.slow_down(8).value, 2.5);
        assert_eq!(NetworkParameters::read(&network.write()), Ok(network));
        let assumed = NetworkParameters::assumed("nothing", 1e9);
        assert_eq!(NetworkParameters::read(&assumed.write()), Ok(assumed));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_or_its_name() {
        for (from, to, said) in [
            ("hop_ns = 0", "hops_ns = 0", "line 5"),
            ("into = 117e6", "", "line 16"),
            ("ranks = 8", "ranks = -8", "line 21"),
            ("bandwidth = 117e6", "bandwidth = 0", "outside.bandwidth"),
        ] {
            let error = NetworkParameters::read(&BY_HAND.replace(from, to)).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
    }
}
