//! Rank-steps and events per second.
fn main() {
    divan::main();
}
