//! From a case to the request that makes its tensors.

use super::philox::Draws;
use super::{Case, Coverage};
use crate::runner::protocol::{InputSpec, OutputSpec, Prepare, TensorInput};
use crate::spec::{AxisError, Definition, Fill, TensorSpec};

/// A case as the worker was asked to prepare it.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) request: Prepare,
}

/// Why a case's tensors cannot be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum InputError {
    #[error(transparent)]
    Axis(#[from] AxisError),
    #[error("the Definition says nothing of how `{0}` is drawn; give it a rule under `warpsmith.inputs`")]
    NoFill(String),
}

/// Shapes, strides, fills and the case's own seed, drawn from the check's. `is_ours`: the judge computes the
/// expected values.
///
/// # Errors
/// An axis that has no value in this case, or an input of which nobody says how it is drawn.
pub(super) fn prepare(
    definition: &Definition,
    case: &Case,
    name: String,
    seed: u64,
    is_ours: bool,
) -> Result<Prepared, InputError> {
    let inputs = definition.inputs.iter().map(|(name, spec)| input(definition, case, name, spec));
    let outputs = definition.outputs.iter().map(|(name, spec)| {
        Ok(OutputSpec {
            name: name.clone(),
            dtype: definition.dtype_in_case(spec, case.dtype),
            shape: definition.resolve_shape(spec, &case.axes)?,
        })
    });
    // Bound to the case's identity, not to its position, so that `--stage` and `--dtype` replay it too.
    let case_seed =
        Draws::new(seed, &format!("{} {} {}", case.stage, case.definition, case.label())).next_u64();
    Ok(Prepared {
        request: Prepare {
            case: name,
            definition: is_ours.then(|| definition.name.clone()),
            seed: case_seed,
            inputs: inputs.collect::<Result<_, InputError>>()?,
            outputs: outputs.collect::<Result<_, InputError>>()?,
            infer_outputs: is_ours && definition.outputs.is_empty(),
        },
    })
}

fn input(
    definition: &Definition,
    case: &Case,
    name: &str,
    spec: &TensorSpec,
) -> Result<InputSpec, InputError> {
    if spec.is_scalar() {
        let value = case.scalars.get(name).or_else(|| definition.scalar_default(name));
        return Ok(InputSpec::Scalar { name: name.to_owned(), value: value.cloned().unwrap_or_default() });
    }
    let shape = definition.resolve_shape(spec, &case.axes)?;
    let fill = match case.coverage {
        Coverage::Offsets => Fill::Untouched,
        Coverage::Full | Coverage::Sampled => {
            definition.fill(name, &case.axes)?.ok_or_else(|| InputError::NoFill(name.to_owned()))?
        }
    };
    Ok(InputSpec::Tensor(TensorInput {
        name: name.to_owned(),
        dtype: definition.dtype_in_case(spec, case.dtype),
        strides: contiguous_strides(&shape),
        shape,
        fill,
    }))
}

/// Row-major strides, in elements. Zero-length axes count as one, as in torch.
fn contiguous_strides(shape: &[u64]) -> Vec<u64> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].max(1);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_are_those_of_torch() {
        assert_eq!(contiguous_strides(&[2, 3, 4]), [12, 4, 1]);
        assert_eq!(contiguous_strides(&[5]), [1]);
        assert_eq!(contiguous_strides(&[4, 0, 3]), [3, 3, 1]);
        assert!(contiguous_strides(&[]).is_empty());
    }
}
