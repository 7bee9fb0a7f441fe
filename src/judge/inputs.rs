//! From a case to the request that makes its tensors.

use super::case::{AGAIN_PROFILE, DEFAULT_PROFILE};
use super::layouts::{Layout, Placement, contiguous_strides};
use super::module::Drawn;
use super::philox::Draws;
use super::profiles::{EXACT_INTEGERS, ValueProfile};
use super::run::JUDGE_WALL_S;
use super::{Case, Coverage, NEAR_EPSILON_PROFILE};
use crate::runner::protocol::{InputSpec, OutputSpec, Prepare, TensorInput};
use crate::spec::{AxisError, Definition, Fill, TensorSpec};

/// A case as the worker was asked to prepare it.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) request: Prepare,
    /// Set when the user's own functions drew the values.
    pub(super) drawn: Option<Drawn>,
}

/// Why a case's tensors cannot be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum InputError {
    #[error(transparent)]
    Axis(#[from] AxisError),
    #[error("the Definition says nothing of how `{0}` is drawn; give it a rule under `warpsmith.inputs`")]
    NoFill(String),
    #[error("nobody knows the value profile `{0}`")]
    NoProfile(String),
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
            wall_s: JUDGE_WALL_S,
            infer_outputs: is_ours && definition.outputs.is_empty(),
        },
        drawn: None,
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
            let usual =
                definition.fill(name, &case.axes)?.ok_or_else(|| InputError::NoFill(name.to_owned()))?;
            if case.profile == NEAR_EPSILON_PROFILE {
                near_epsilon(definition, usual)
            } else {
                profiled(definition, case, name, usual, &shape)?
            }
        }
    };
    let placement = Layout::in_case(&case.layout, name).map_or_else(
        || Placement { strides: contiguous_strides(&shape), offset: 0 },
        |layout| layout.place(&shape),
    );
    Ok(InputSpec::Tensor(TensorInput {
        name: name.to_owned(),
        dtype: definition.dtype_in_case(spec, case.dtype),
        strides: placement.strides,
        offset: placement.offset,
        shape,
        fill,
    }))
}

/// The fill under the case's value profile. It is given to the first float tensor, so that the others keep
/// the sizes for which the operation is meant; whole numbers to all, or nothing would be exact.
fn profiled(
    definition: &Definition,
    case: &Case,
    name: &str,
    base: Fill,
    shape: &[u64],
) -> Result<Fill, InputError> {
    if [DEFAULT_PROFILE, AGAIN_PROFILE].contains(&case.profile.as_str()) {
        return Ok(base);
    }
    let profile =
        ValueProfile::named(&case.profile).ok_or_else(|| InputError::NoProfile(case.profile.clone()))?;
    let mut floats = definition.inputs.iter().filter(|(_, spec)| !spec.is_scalar() && spec.dtype.is_float());
    let has_profile = if profile.name == EXACT_INTEGERS {
        floats.any(|(float, _)| float == name)
    } else {
        floats.next().is_some_and(|(float, _)| float == name)
    };
    if !has_profile {
        return Ok(base);
    }
    let row_length = shape.last().copied().unwrap_or(1).max(1);
    Ok(Fill::Profiled { base: Box::new(base), profile: profile.in_dtype(case.dtype), row_length })
}

/// The fill near the epsilon: what is centred at zero becomes so small that its mean square is the epsilon;
/// scales and offsets stay as they are.
fn near_epsilon(definition: &Definition, usual: Fill) -> Fill {
    match (usual, definition.epsilon()) {
        (Fill::Normal { mean: 0.0, .. }, Some(epsilon)) => Fill::Normal { mean: 0.0, std: epsilon.sqrt() },
        (usual, _) => usual,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the mean square is about the epsilon, half of the result depends on where it is added.
    #[test]
    fn near_the_epsilon_only_what_is_centred_shrinks() {
        let definition = crate::spec::builtin_named("rmsnorm").expect("a Definition of this binary");
        let usual = [Fill::Normal { mean: 0.0, std: 1.0 }, Fill::Normal { mean: 1.0, std: 0.5 }];
        let expected = [Fill::Normal { mean: 0.0, std: 1e-3 }, usual[1].clone()];
        assert_eq!(usual.map(|fill| near_epsilon(&definition, fill)), expected);
    }
}
