//! Problems whose inputs and weights are drawn by the user's own functions (KernelBench).
//!
//! One process for each size serves as the reference. It draws values under seeds that the candidate's process
//! never learns; they cross into memory of the judge, and from there to both sides like all inputs.

use super::assess::Ended;
use super::foreign::ForeignRun;
use super::inputs::Prepared;
use super::philox::Draws;
use super::run::{CheckRun, JUDGE_WALL_S, fresh_name, judge_ended};
use super::{Case, CaseRecord, Code, Finding, NotRun, RANDOM_AFFINE_PROFILE};
use crate::oracle::{ModuleReference, ModuleSize, Oracle, Reference, Variant};
use crate::runner::Worker;
use crate::runner::protocol::{
    Argument, ArgumentSource, CaseId, Change, InputSpec, Outcome, OutputSpec, Prepare, Problem, ProblemValue,
    Request, Retake, Take, TensorInput,
};
use crate::spec::{Axis, AxisExpr, AxisKind, Definition, Dtype, Extras, Fill, TensorSpec, ToleranceExtras};

/// How a parameter or buffer is called among the inputs of a case: as a method would call it.
const STATE: &str = "self.";
/// What the worker's side expects before the name of an argument.
const INPUT_ARGUMENT: &str = "x:";
const STATE_ARGUMENT: &str = "w:";
/// Seeds of torch are signed in places.
const SEED_MASK: u64 = u64::MAX >> 1;

/// One size of a problem with the process of its reference.
pub(super) struct ModuleRun {
    /// The name of the size's Definition.
    pub(super) definition: String,
    pub(super) size: ModuleSize,
    pub(super) foreign: ForeignRun,
}

/// What a case's values came from, and how both sides are called on them.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    definition: String,
    weights_seed: u64,
    random_affine: bool,
    pub(super) candidate: Vec<Argument>,
    pub(super) reference: Vec<Argument>,
}

/// The name of the Definition of a size: the class alone when there is one size only.
pub(super) fn definition_name(entry: &str, size: &ModuleSize, is_only: bool) -> String {
    if is_only { entry.to_owned() } else { format!("{entry} {}", words(size)) }
}

fn words(size: &ModuleSize) -> String {
    let word = |(name, value): (&String, &u64)| format!("{name}={value}");
    size.constants.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Seeds of the weights and of the inputs of a case, bound to its identity.
pub(super) fn seeds(seed: u64, case: &Case) -> (u64, u64) {
    let mut draws = Draws::new(seed, &format!("{} {} {}", case.stage, case.definition, case.label()));
    (draws.next_u64() & SEED_MASK, draws.next_u64() & SEED_MASK)
}

/// Why a case with other parameters than those that constructors make says nothing: the judged object cannot be
/// given them. Nobody says that it must.
pub(super) fn cannot_follow(record: &CaseRecord) -> Option<String> {
    let finding = record.findings.first()?;
    (record.case.profile == RANDOM_AFFINE_PROFILE && finding.code == Code::UnmatchedWeights)
        .then(|| finding.message.clone())
}

impl<W: Worker> CheckRun<'_, W> {
    /// The process that knows the truth of a Definition, when that is not the judge.
    pub(super) fn foreign_of(&self, prepared: &Prepared) -> Option<&ForeignRun> {
        match &prepared.drawn {
            Some(drawn) => self.module(&drawn.definition).map(|module| &module.foreign),
            None => self.foreign,
        }
    }

    fn module(&self, definition: &str) -> Option<&ModuleRun> {
        self.modules.iter().find(|module| module.definition == definition)
    }

    /// The oracle with what each size of its problem looks like; `None` when there is nothing to learn. Sizes that
    /// are too large are told in `not_run`.
    pub(super) async fn learned(&self, not_run: &mut Vec<NotRun>) -> Result<Option<Oracle>, Finding> {
        let Reference::Module(reference) = &self.oracle.reference else { return Ok(None) };
        let (variants, too_large) = self.learn(reference).await?;
        not_run.extend(too_large);
        Ok(Some(Oracle { variants, ..self.oracle.clone() }))
    }

    /// Asks each size what it looks like. What is too large is left out.
    async fn learn(&self, reference: &ModuleReference) -> Result<(Vec<Variant>, Vec<NotRun>), Finding> {
        let (mut variants, mut not_run, mut too_large) = (Vec::new(), Vec::new(), None);
        for module in self.modules {
            let opened = match self.opened_reference(&module.foreign).await {
                Ok(opened) => opened,
                Err(finding) if finding.code == Code::TooLarge => {
                    not_run.push(NotRun::new(words(&module.size), finding.message.clone()));
                    too_large.get_or_insert(finding);
                    continue;
                }
                Err(finding) => return Err(finding),
            };
            let failed = |message: String| Finding::plain(Code::ReferenceFailed, message);
            let problem =
                opened.problem.ok_or_else(|| failed("the reference told nothing of itself".to_owned()))?;
            let definition =
                definition(reference, &module.size, &module.definition, &problem).map_err(failed)?;
            variants.push(Variant { definition: definition.into(), parameters: Vec::new() });
        }
        match too_large {
            Some(finding) if variants.is_empty() => Err(with_remedy(finding, reference)),
            _ => Ok((variants, not_run)),
        }
    }

    /// The case's values from the reference's process, in memory of the judge.
    pub(super) async fn prepare_drawn(&self, case: &Case) -> Result<Prepared, Ended> {
        let module = self.module(&case.definition);
        let module = module.ok_or_else(|| judge_ended(format!("nobody knows `{}`", case.definition)))?;
        let (weights_seed, seed) = seeds(self.seed, case);
        let problem = self.problem(&module.foreign).await.map_err(Ended::NoTruth)?;
        let values = tensors_first(&problem).map_err(judge_ended)?;
        let inputs: Vec<InputSpec> = values.iter().map(|value| value.spec.clone()).collect();
        let request = Prepare {
            case: fresh_name("k"),
            definition: None,
            seed,
            inputs,
            outputs: outputs(&problem).map_err(judge_ended)?,
            wall_s: JUDGE_WALL_S,
            infer_outputs: false,
        };
        let random_affine = case.profile == RANDOM_AFFINE_PROFILE;
        let reference = arguments(&values, weights_seed);
        let of_candidate = [
            value_argument("init", problem.init.as_str().into()),
            value_argument("random_affine", random_affine.into()),
        ];
        let candidate = reference.iter().cloned().chain(of_candidate).collect();
        let definition = case.definition.clone();
        let drawn = Drawn { definition, weights_seed, random_affine, candidate, reference };
        let prepared = Prepared { request, drawn: Some(drawn) };
        self.take(&prepared, seed).await?;
        Ok(prepared)
    }

    async fn problem(&self, foreign: &ForeignRun) -> Result<Problem, Finding> {
        let opened = self.opened_reference(foreign).await?;
        let nothing =
            || Finding::plain(Code::ReferenceFailed, "the reference told nothing of itself".to_owned());
        opened.problem.ok_or_else(nothing)
    }

    /// Draws the inputs of this seed and makes the prepared case of them.
    async fn take(&self, prepared: &Prepared, seed: u64) -> Result<(), Ended> {
        let of = self.draw(prepared, seed).await.map_err(Ended::NoTruth)?;
        let Prepare { case, inputs, outputs, .. } = prepared.request.clone();
        let took = self.done(Request::Take(Take { case, of: of.clone(), inputs, outputs })).await;
        self.release_case(of).await;
        took
    }

    /// Other inputs and the same weights in the memory of a case.
    pub(super) async fn redraw_drawn(&self, prepared: &Prepared, seed: u64) -> Result<(), Ended> {
        let of = self.draw(prepared, seed & SEED_MASK).await.map_err(Ended::NoTruth)?;
        let case = prepared.request.case.clone();
        let took = self.done(Request::Retake(Retake { case, of: of.clone() })).await;
        self.release_case(of).await;
        took
    }

    /// What is right for other inputs with the same weights; `None` when that cannot be had.
    pub(super) async fn other_draw(&self, foreign: &ForeignRun, prepared: &Prepared) -> Option<CaseId> {
        let case = fresh_name("k");
        let request = Prepare { case: case.clone(), ..prepared.request.clone() };
        let other = Prepared { request, drawn: prepared.drawn.clone() };
        let seed = Draws::new(prepared.request.seed, "another draw").next_u64() & SEED_MASK;
        self.take(&other, seed).await.ok()?;
        let found = self.run_changed(foreign, &other, Change::Widened, 0, &[]).await;
        self.release_case(case).await;
        found.unwrap_or(None)
    }

    /// A case whose outputs hold what the reference drew.
    async fn draw(&self, prepared: &Prepared, inputs_seed: u64) -> Result<CaseId, Finding> {
        let (Some(drawn), Some(foreign)) = (&prepared.drawn, self.foreign_of(prepared)) else {
            return Err(Finding::plain(Code::JudgeFailed, "nobody draws this case".to_owned()));
        };
        let case = fresh_name("k");
        let outputs: Vec<OutputSpec> = prepared.request.inputs.iter().filter_map(drawn_output).collect();
        let request = Prepare {
            case: case.clone(),
            definition: None,
            // Nothing is drawn by the judge.
            seed: 0,
            inputs: Vec::new(),
            outputs,
            wall_s: JUDGE_WALL_S,
            infer_outputs: false,
        };
        self.make_case(Request::Prepare(request)).await?;
        let seeds = serde_json::json!({
            "weights_seed": drawn.weights_seed,
            "inputs_seed": inputs_seed,
            "random_affine": drawn.random_affine,
        });
        let arguments = vec![value_argument("draw", seeds)];
        let problem = match self.run_reference(foreign, &case, arguments, false).await {
            Ok(ran) if ran.outputs.iter().all(|output| output.copied) => return Ok(case),
            Ok(_) => {
                foreign.failed("draws inputs of other dtypes or shapes each time; they must stay the same")
            }
            Err(finding) => finding,
        };
        self.release_case(case).await;
        Err(problem)
    }

    async fn done(&self, request: Request) -> Result<(), Ended> {
        match self.worker.request(request).await {
            Ok(Outcome::Done(_)) => Ok(()),
            Ok(Outcome::Failed { code, message }) => Err(Ended::Failed { code, message }),
            Ok(other) => Err(judge_ended(format!("{other:?}"))),
            Err(error) => Err(judge_ended(error.to_string())),
        }
    }
}

/// One value of a problem as an input of a case.
struct Value {
    argument: String,
    spec: InputSpec,
}

/// Inputs, then parameters and buffers.
fn tensors_first(problem: &Problem) -> Result<Vec<Value>, String> {
    let inputs = problem.inputs.iter().map(|value| {
        Ok(Value {
            argument: format!("{INPUT_ARGUMENT}{}", value.name),
            spec: spec(value, value.name.clone())?,
        })
    });
    let state = problem.state.iter().map(|value| {
        let argument = format!("{STATE_ARGUMENT}{}", value.name);
        Ok(Value { argument, spec: spec(value, format!("{STATE}{}", value.name))? })
    });
    inputs.chain(state).collect()
}

fn spec(value: &ProblemValue, name: String) -> Result<InputSpec, String> {
    if value.dtype.is_none() {
        return Ok(InputSpec::Scalar { name, value: value.scalar.clone() });
    }
    Ok(InputSpec::Tensor(TensorInput {
        dtype: dtype(value)?,
        name,
        shape: value.shape.clone(),
        strides: value.strides.clone(),
        offset: 0,
        // The values are taken over, none are drawn.
        fill: Fill::Untouched,
    }))
}

fn dtype(value: &ProblemValue) -> Result<Dtype, String> {
    let name = value.dtype.as_deref().unwrap_or_default();
    name.parse()
        .map_err(|_| format!("`{}` of the reference is {name}, which is not judged; convert it", value.name))
}

fn drawn_output(input: &InputSpec) -> Option<OutputSpec> {
    match input {
        InputSpec::Tensor(tensor) => {
            Some(OutputSpec { name: tensor.name.clone(), dtype: tensor.dtype, shape: tensor.shape.clone() })
        }
        InputSpec::Scalar { .. } => None,
    }
}

fn outputs(problem: &Problem) -> Result<Vec<OutputSpec>, String> {
    let output = |value: &ProblemValue| {
        Ok(OutputSpec { name: value.name.clone(), dtype: dtype(value)?, shape: value.shape.clone() })
    };
    problem.outputs.iter().map(output).collect()
}

fn arguments(values: &[Value], weights_seed: u64) -> Vec<Argument> {
    let of_values = values.iter().map(|value| {
        let (InputSpec::Tensor(TensorInput { name, .. }) | InputSpec::Scalar { name, .. }) = &value.spec;
        Argument { parameter: value.argument.clone(), source: ArgumentSource::Input { input: name.clone() } }
    });
    of_values.chain([value_argument("weights_seed", weights_seed.into())]).collect()
}

fn value_argument(parameter: &str, value: serde_json::Value) -> Argument {
    Argument { parameter: parameter.to_owned(), source: ArgumentSource::Value { value } }
}

/// What the planner and the tolerance must know: shapes and dtypes, of which the first float leads.
fn definition(
    reference: &ModuleReference,
    size: &ModuleSize,
    name: &str,
    problem: &Problem,
) -> Result<Definition, String> {
    let mut inputs: Vec<(String, TensorSpec)> = Vec::new();
    for value in tensors_first(problem)? {
        match value.spec {
            InputSpec::Tensor(tensor) => {
                inputs.push((tensor.name.clone(), tensor_spec(tensor.dtype, &tensor.shape)))
            }
            InputSpec::Scalar { name, .. } => inputs.push((
                name,
                TensorSpec { shape: None, dtype: Dtype::Float32, optional: false, description: None },
            )),
        }
    }
    inputs.sort_by_key(|(_, spec)| spec.is_scalar() || !spec.dtype.is_float());
    let outputs: Vec<(String, TensorSpec)> = outputs(problem)?
        .into_iter()
        .map(|output| (output.name, tensor_spec(output.dtype, &output.shape)))
        .collect();
    let shapes =
        || problem.inputs.iter().chain(&problem.state).chain(&problem.outputs).map(|value| &value.shape);
    let mut axes: Vec<(String, Axis)> = size
        .constants
        .keys()
        .map(|name| (name.clone(), Axis { kind: AxisKind::Var, description: None }))
        .collect();
    for &length in shapes().flatten() {
        let name = axis_name(length);
        if axes.iter().all(|(known, _)| *known != name) {
            axes.push((name, Axis { kind: AxisKind::Const { value: length }, description: None }));
        }
    }
    let reduction = match &reference.reduction {
        Some(told) => Some(told.clone()),
        None => AxisExpr::parse(&longest_sum(problem).to_string()).ok(),
    };
    let size_name = if size.constants.is_empty() { "its size".to_owned() } else { words(size) };
    Ok(Definition {
        name: name.to_owned(),
        op_type: "kernelbench".to_owned(),
        description: None,
        tags: Vec::new(),
        axes,
        inputs,
        outputs,
        constraints: Vec::new(),
        reference: String::new(),
        run_parameters: Vec::new(),
        extras: Extras {
            sizes: vec![(size_name, size.constants.clone())],
            only_sizes: true,
            profiles: problem
                .has_constant_parameters
                .then(|| RANDOM_AFFINE_PROFILE.to_owned())
                .into_iter()
                .collect(),
            flops: AxisExpr::parse(&problem.flops.unwrap_or_default().to_string()).ok(),
            tolerance: ToleranceExtras { reduction, intermediate: 0 },
            precision: reference.precision,
            ..Extras::default()
        },
        warnings: Vec::new(),
    })
}

fn axis_name(length: u64) -> String {
    format!("_{length}")
}

fn tensor_spec(dtype: Dtype, shape: &[u64]) -> TensorSpec {
    let shape = Some(shape.iter().copied().map(axis_name).collect());
    TensorSpec { shape, dtype, optional: false, description: None }
}

/// An upper bound: all lengths added up, or what stands behind one row of the largest weight.
fn longest_sum(problem: &Problem) -> u64 {
    let shapes =
        problem.inputs.iter().chain(&problem.state).chain(&problem.outputs).map(|value| &value.shape);
    let mut lengths: Vec<u64> = shapes.flatten().copied().collect();
    lengths.sort_unstable();
    lengths.dedup();
    let rows = problem.state.iter().filter(|value| value.shape.len() > 1).map(|value| {
        value.shape.iter().skip(1).fold(1_u64, |product, &length| product.saturating_mul(length))
    });
    rows.max().unwrap_or(1).max(lengths.into_iter().fold(0, u64::saturating_add))
}

/// How to make the sizes smaller.
fn with_remedy(finding: Finding, reference: &ModuleReference) -> Finding {
    let constants = reference.sizes.first().map(|size| size.constants.keys().cloned().collect::<Vec<_>>());
    let constants = constants.unwrap_or_default();
    let remedy = if constants.is_empty() {
        "give its sizes names at module level (`batch_size = 16`), so that a comment above the class can make them \
         smaller"
            .to_owned()
    } else {
        let words: Vec<String> = constants.iter().map(|name| format!("{name}=…")).collect();
        format!("make it smaller with a comment above the class: `# warpsmith: {}`", words.join(" "))
    };
    Finding { message: format!("{}; {remedy}", finding.message), ..finding }
}
