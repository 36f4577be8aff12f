//! What can be wrong with a network, a placement or a program on it.

/// Why something cannot be played on a network.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NetworkError {
    /// A file of parameters is not of the form; the message has the line.
    #[error("{0}")]
    Form(String),
    /// A parameter cannot be.
    #[error("parameter {name}: {why}")]
    Parameter {
        /// As in the file.
        name: String,
        /// What it must be.
        why: &'static str,
    },
}
