mod damage;
mod discovery;
mod hashes;
mod launching;
mod pieces;

use super::{Kernel, SourceModel, parse};

/// The kernel of this id.
fn kernel<'a>(model: &'a SourceModel, id: &str) -> &'a Kernel {
    let found = model.kernels.iter().find(|kernel| kernel.id.0 == id);
    found.unwrap_or_else(|| panic!("no `{id}` among {:?}", ids(model)))
}

fn ids(model: &SourceModel) -> Vec<&str> {
    model.kernels.iter().map(|kernel| kernel.id.0.as_str()).collect()
}
