//! Parts of the flow.
