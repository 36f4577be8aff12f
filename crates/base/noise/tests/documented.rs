//! The model shown in docs/noise-model.md is valid.

#![allow(clippy::unwrap_used)]

use idlewave_noise::NoiseModel;

#[test]
fn the_documented_model_is_read_and_written_back_the_same() {
    let page = include_str!("../../../../docs/noise-model.md");
    let text = page.split("```toml\n").nth(1).unwrap();
    let text = text.split("```").next().unwrap();
    let model = NoiseModel::read(text).unwrap();
    assert_eq!(model.sources.len(), 3);
    assert_eq!(NoiseModel::read(&model.write()), Ok(model));
}
