//! References that are not ours: a process of their own, run after the candidate, their values compared like
//! a candidate's.
//!
//! Whatever goes wrong here says nothing of the kernel: it is `reference-failed`, never `wrong`.

use tokio::sync::Mutex;

use super::head::AtHeadByCase;
use super::inputs::Prepared;
use super::load::{IMPORT_WALL_S, open_request};
use super::run::{CheckRun, Source, fresh_name, read};
use super::{Code, Finding, Verdict};
use super::{assess, ends};
use crate::oracle::Variant;
use crate::runner::Worker;
use crate::runner::protocol::{
    Argument, ArgumentSource, Autotune, CaseId, CaseMade, Change, Derive, ForeignTruth, InterpreterOptions,
    Launch, ModuleRole, Opened, Outcome, OutputSpec, Parameter, Prepare, Problem, ProgramOrder, Ran, Request,
    Run, RunnerId, WorkerFinding,
};
use crate::spec::{Dtype, TensorSpec};

/// Ends of the reference's process after which it is not started again.
const DEATH_LIMIT: u32 = 3;
/// Roundings of the inputs that are tried to see how much they matter: in one, they may cancel by luck. As many
/// as the judge makes for a reference of its own.
const PERTURBATIONS: u32 = 6;
/// Two more where an output may be places of equal values: they tell whose order is chance.
const ORDERS: u32 = 2;

/// What a comparison needs of a reference that is not ours.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) null_candidates: bool,
    /// Whether the tolerance asks how ill-conditioned the values are.
    pub(super) with_condition: bool,
    /// What the candidate launched: the reference must not launch the same.
    pub(super) judged: &'a [Launch],
}

/// A reference that is not ours, in this check.
pub(super) struct ForeignRun {
    source: Source,
    function: String,
    /// What it is called in messages: `the reference `f``.
    told: String,
    /// Its source is no file that could be opened: lines of it are told in words.
    is_text: bool,
    module: Option<ModuleRole>,
    process: Mutex<Process>,
    /// Of a version at HEAD: what it did on the cases that were compared and not judged yet.
    pub(super) at_head: AtHeadByCase,
}

#[derive(Default)]
struct Process {
    opened: Option<OpenedReference>,
    deaths: u32,
}

/// A process that has the reference loaded.
#[derive(Clone)]
pub(super) struct OpenedReference {
    pub(super) runner: RunnerId,
    parameters: Vec<Parameter>,
    /// Of a class that draws its inputs.
    pub(super) problem: Option<Problem>,
}

impl ForeignRun {
    pub(super) fn new(source: Source, function: String, is_text: bool) -> Self {
        let told = format!("the reference `{function}`");
        let (process, at_head) = (Mutex::default(), AtHeadByCase::default());
        Self { source, function, told, is_text, module: None, process, at_head }
    }

    /// The version of the judged function itself at HEAD.
    pub(super) fn at_head(source: Source, function: String, commit: &str) -> Self {
        let told = format!("`{function}` at HEAD {commit}");
        Self { told, ..Self::new(source, function, true) }
    }

    /// A class that draws its inputs.
    pub(super) fn of_class(source: Source, class: String, role: ModuleRole) -> Self {
        Self { module: Some(role), ..Self::new(source, class, false) }
    }

    /// What it raised, told as no fault of the kernel. `when` follows its name.
    fn raised(&self, raised: Finding, when: &str) -> Finding {
        let mut message = format!("{}{when}: {}", self.told, raised.message);
        let mut place = raised.place;
        if self.is_text
            && let Some(line) = place.take_if(|place| place.file == self.source.path)
        {
            message.push_str(&format!(" (line {} of its source)", line.line));
        }
        Finding { code: Code::ReferenceFailed, message, kernel: None, place, ..raised }
    }

    /// The end of its process. That of a check that was cancelled is no failure.
    fn ended(&self, told: &Finding, what: &str) -> Finding {
        let code = if told.code == Code::Cancelled { told.code } else { Code::ReferenceFailed };
        Finding { code, ..self.failed(&format!("{what}: {}", told.message)) }
    }

    pub(super) fn failed(&self, what: &str) -> Finding {
        Finding::plain(Code::ReferenceFailed, format!("{} {what}", self.told))
    }
}

impl ForeignTruth {
    /// The cases to release after the comparison.
    pub(super) fn cases(&self) -> Vec<CaseId> {
        let of_nulls = [&self.other_seed, &self.coarse_inputs].into_iter().flatten();
        let mut cases: Vec<CaseId> = vec![self.float64.clone(), self.in_dtype.clone()];
        cases.extend(self.again.iter().chain(of_nulls).chain(&self.perturbed).cloned());
        // Where nothing is computed in float64, both are one.
        cases.dedup();
        cases
    }
}

impl<W: Worker> CheckRun<'_, W> {
    /// Loads the reference, so that what is wrong with it is told once, before any case.
    pub(super) async fn open_reference(&self) -> Result<(), Finding> {
        let Some(foreign) = self.foreign else { return Ok(()) };
        self.opened_reference(foreign).await.map(|_| ())
    }

    pub(super) async fn close_reference(&self) {
        let of_modules = self.modules.iter().map(|module| &module.foreign);
        for foreign in self.foreign.into_iter().chain(of_modules) {
            if let Some(opened) = foreign.process.lock().await.opened.take() {
                self.close_runner(&opened.runner).await;
            }
        }
    }

    /// The reference's process, started anew when the last one ended.
    pub(super) async fn opened_reference(&self, foreign: &ForeignRun) -> Result<OpenedReference, Finding> {
        let mut process = foreign.process.lock().await;
        if let Some(opened) = &process.opened {
            return Ok(opened.clone());
        }
        if process.deaths >= DEATH_LIMIT {
            return Err(foreign.failed("ended its process too often"));
        }
        let runner = fresh_name("f");
        let open = open_request(&foreign.source, &foreign.function, &runner, self.means, foreign.module);
        let request = Request::Open(open);
        let finding = match self.cancellable(&runner, self.worker.request(request)).await {
            Ok(Outcome::Done(value)) => match read::<Opened>(value) {
                Ok(opened) => {
                    let Opened { parameters, problem, .. } = opened;
                    let opened = OpenedReference { runner, parameters, problem };
                    process.opened = Some(opened.clone());
                    return Ok(opened);
                }
                Err(message) => Finding::plain(Code::JudgeFailed, message),
            },
            Ok(Outcome::Raised(raised)) => {
                let finding = ends::raised_finding(&raised);
                match finding.code {
                    Code::TooLarge => finding,
                    _ => foreign.raised(finding, " cannot be loaded"),
                }
            }
            Ok(Outcome::Died(died)) => {
                process.deaths += 1;
                let told = ends::died_at_import_finding(&died, IMPORT_WALL_S);
                foreign.ended(&told, "cannot be loaded")
            }
            Ok(Outcome::Failed { message, .. }) => Finding::plain(Code::JudgeFailed, message),
            Err(error) => Finding::plain(Code::JudgeFailed, error.to_string()),
        };
        self.close_runner(&runner).await;
        Err(finding)
    }

    /// Runs the reference on the inputs of a case that the candidate is done with. `None` when the judge
    /// computes what is right.
    pub(super) async fn foreign_truth(
        &self,
        prepared: &Prepared,
        wanted: Wanted<'_>,
    ) -> Result<Option<ForeignTruth>, Finding> {
        let Some(foreign) = self.foreign_of(prepared) else { return Ok(None) };
        if self.oracle.reference.head().is_some() {
            return self.head_truth(foreign, prepared).await.map(Some);
        }
        let mut runs = vec![(Change::Widened, 0), (Change::Same, 0)];
        if wanted.null_candidates {
            runs.push((Change::Widened, 0));
        }
        if wanted.with_condition {
            let may_be_indices =
                prepared.request.outputs.iter().any(|output| super::comparison::may_be_indices(output.dtype));
            let draws = PERTURBATIONS + if may_be_indices { ORDERS } else { 0 };
            runs.extend((0..draws).map(|draw| (Change::Perturbed, draw)));
        }
        let mut made = Vec::new();
        for (change, draw) in runs {
            let ended = match self.run_changed(foreign, prepared, change, draw, wanted.judged).await {
                Ok(Some(case)) => {
                    made.push(case);
                    continue;
                }
                Ok(None) => foreign.failed("could not be run"),
                Err(finding) => finding,
            };
            for case in made {
                self.release_case(case).await;
            }
            return Err(ended);
        }
        let mut made = made.into_iter();
        let (Some(float64), Some(in_dtype)) = (made.next(), made.next()) else {
            return Err(foreign.failed("could not be run"));
        };
        let again = if wanted.null_candidates { made.next() } else { None };
        let mut truth = ForeignTruth {
            float64,
            in_dtype,
            again,
            perturbed: made.collect(),
            other_seed: None,
            coarse_inputs: None,
        };
        if wanted.null_candidates {
            // An impostor that the reference cannot take is left out.
            let impostor = |change| self.run_changed(foreign, prepared, change, 0, wanted.judged);
            truth.other_seed = match &prepared.drawn {
                Some(_) => self.other_draw(foreign, prepared).await,
                None => impostor(Change::OtherSeed).await.unwrap_or(None),
            };
            truth.coarse_inputs = impostor(Change::CoarseInputs).await.unwrap_or(None);
        }
        Ok(Some(truth))
    }

    /// The case that the reference ran on without a fault, with its values in the outputs.
    pub(super) async fn run_changed(
        &self,
        foreign: &ForeignRun,
        prepared: &Prepared,
        change: Change,
        draw: u32,
        judged: &[Launch],
    ) -> Result<Option<CaseId>, Finding> {
        let Some((case, ran)) = self.run_derived(foreign, prepared, change, draw).await? else {
            return Ok(None);
        };
        let checked = check_launches(judged, &ran)
            .and_then(|()| check_faults(&ran))
            .and_then(|()| check_form(&prepared.request.outputs, &ran, change));
        match checked {
            Ok(()) => Ok(Some(case)),
            Err(problem) => {
                self.release_case(case).await;
                Err(foreign.failed(&problem))
            }
        }
    }

    /// The case that the reference ran on, and how it went. `None` where the inputs cannot be so changed.
    pub(super) async fn run_derived(
        &self,
        foreign: &ForeignRun,
        prepared: &Prepared,
        change: Change,
        draw: u32,
    ) -> Result<Option<(CaseId, Ran)>, Finding> {
        let request = &prepared.request;
        let (case, of, outputs) = (fresh_name("k"), request.case.clone(), request.outputs.clone());
        let derive = Derive { case: case.clone(), of, change, draw, outputs };
        if !self.make_case(Request::Derive(derive)).await?.possible {
            self.release_case(case).await;
            return Ok(None);
        }
        let arguments = match &prepared.drawn {
            Some(drawn) => Ok(drawn.reference.clone()),
            None => self.reference_arguments(foreign).await,
        };
        let ran = match arguments {
            Ok(arguments) => self.run_reference(foreign, &case, arguments, change != Change::Same).await,
            Err(finding) => Err(finding),
        };
        match ran {
            Ok(ran) => Ok(Some((case, ran))),
            Err(finding) => {
                self.release_case(case).await;
                Err(finding)
            }
        }
    }

    pub(super) async fn make_case(&self, request: Request) -> Result<CaseMade, Finding> {
        match self.worker.request(request).await {
            Ok(Outcome::Done(value)) => {
                read(value).map_err(|message| Finding::plain(Code::JudgeFailed, message))
            }
            Ok(other) => Err(Finding::plain(Code::JudgeFailed, format!("{other:?}"))),
            Err(error) => Err(Finding::plain(Code::JudgeFailed, error.to_string())),
        }
    }

    pub(super) async fn release_case(&self, case: CaseId) {
        let _ = self.worker.request(Request::Release { case }).await;
    }

    /// How a function is called: as the Definition has it.
    pub(super) async fn reference_arguments(&self, foreign: &ForeignRun) -> Result<Vec<Argument>, Finding> {
        let OpenedReference { parameters, .. } = self.opened_reference(foreign).await?;
        let Some(variant) = self.oracle.variants.first() else {
            return Err(Finding::plain(Code::JudgeFailed, "nobody knows what is called".to_owned()));
        };
        match self.oracle.reference.head() {
            // It is the same function: it is called as the judged one is.
            Some(_) => {
                let names: Vec<String> = parameters.into_iter().map(|parameter| parameter.name).collect();
                Ok(variant.arguments(&names).into_iter().chain(self.oracle.destination_arguments()).collect())
            }
            None => arguments(variant, &parameters).map_err(|problem| foreign.failed(&problem)),
        }
    }

    pub(super) async fn run_reference(
        &self,
        foreign: &ForeignRun,
        case: &str,
        arguments: Vec<Argument>,
        widened: bool,
    ) -> Result<Ran, Finding> {
        let OpenedReference { runner, .. } = self.opened_reference(foreign).await?;
        let run = Request::Run(Run {
            runner: runner.clone(),
            case: case.to_owned(),
            arguments,
            wall_s: self.means.case_wall_s(),
            interpreter: InterpreterOptions {
                max_programs: None,
                compare_values: true,
                // All programs run, so none are drawn.
                sampling_seed: 0,
                program_order: ProgramOrder::default(),
                autotune: Autotune::default(),
                other_poison: false,
                idle_kernels: false,
            },
            hold: false,
            widened,
        });
        match self.cancellable(&runner, self.worker.request(run)).await {
            Ok(Outcome::Done(value)) => {
                read(value).map_err(|message| Finding::plain(Code::JudgeFailed, message))
            }
            Ok(Outcome::Raised(raised)) => {
                let on = if widened { " on float64 inputs" } else { "" };
                Err(foreign.raised(ends::raised_finding(&raised), on))
            }
            Ok(Outcome::Died(died)) => {
                let mut process = foreign.process.lock().await;
                process.opened = None;
                process.deaths += 1;
                let told = ends::died_finding(&died, self.means.case_wall_s(), self.means.gpu().is_some());
                Err(foreign.ended(&told, "failed"))
            }
            Ok(Outcome::Failed { code, message }) => Err(Finding::plain(
                Code::JudgeFailed,
                format!("the reference was not run ({code}): {message}"),
            )),
            Err(error) => Err(Finding::plain(Code::JudgeFailed, error.to_string())),
        }
    }

    /// Dtypes and shapes that the reference returns, learnt on inputs of another seed: what is right for the
    /// case itself must not exist before the candidate ran.
    pub(super) async fn ask_reference_for_outputs(
        &self,
        prepared: &Prepared,
    ) -> Result<Vec<OutputSpec>, Finding> {
        let Some(foreign) = self.foreign else { return Ok(Vec::new()) };
        let case = fresh_name("k");
        let request =
            Prepare { case: case.clone(), seed: !prepared.request.seed, ..prepared.request.clone() };
        let arguments = self.reference_arguments(foreign).await?;
        self.make_case(Request::Prepare(request)).await?;
        let ran = self.run_reference(foreign, &case, arguments, false).await;
        self.release_case(case).await;
        let ran = ran?;
        let count = ran.outputs.len();
        let outputs = ran.outputs.iter().enumerate().map(|(at, value)| {
            let dtype = value.dtype.as_deref().and_then(|name| name.parse::<Dtype>().ok());
            let name = if count == 1 { "out".to_owned() } else { format!("out{}", at + 1) };
            dtype.map(|dtype| OutputSpec { name, dtype, shape: value.shape.clone() }).ok_or_else(|| {
                let found = value.dtype.as_ref().unwrap_or(&value.type_name);
                format!("returns a `{found}`, which is not judged")
            })
        });
        outputs.collect::<Result<_, String>>().map_err(|problem| foreign.failed(&problem))
    }
}

/// A reference that launches the very kernel that is judged agrees with it whatever it computes. A file may be spelled
/// in several ways, such as `./k.py`.
fn check_launches(judged: &[Launch], ran: &Ran) -> Result<(), String> {
    let real = |file: &str| std::fs::canonicalize(file).ok();
    let is_same =
        |one: &str, other: &str| one == other || real(one).is_some_and(|one| Some(one) == real(other));
    let is_judged = |launch: &Launch| {
        judged.iter().any(|other| other.kernel == launch.kernel && is_same(&other.file, &launch.file))
    };
    match ran.launches.iter().find(|launch| is_judged(launch)) {
        None => Ok(()),
        Some(launch) => Err(format!(
            "launches the kernel `{}` that is judged, so it cannot say what is right; write it with PyTorch alone",
            launch.kernel
        )),
    }
}

/// A reference with a kernel of its own that reads past an end, races or the like gives values by chance.
fn check_faults(ran: &Ran) -> Result<(), String> {
    if let Some(unsupported) = &ran.unsupported {
        return Err(format!("cannot be run here: {}", unsupported.message));
    }
    let is_fault = |found: &&WorkerFinding| assess::worker_code(found.kind).verdict() == Verdict::Wrong;
    match ran.findings.iter().find(is_fault) {
        None => Ok(()),
        Some(found) => Err(format!(
            "has `{}` itself, so it cannot say what is right: {} ({}:{})",
            assess::worker_code(found.kind).name(),
            found.message,
            found.place.file,
            found.place.line
        )),
    }
}

/// What keeps a reference's values from being those of the case: they must be what it says; in float64, any
/// float.
pub(super) fn check_form(expected: &[OutputSpec], ran: &Ran, change: Change) -> Result<(), String> {
    if ran.outputs.len() != expected.len() {
        return Err(format!("returns {} values, the case has {}", ran.outputs.len(), expected.len()));
    }
    for (expected, got) in expected.iter().zip(&ran.outputs) {
        if got.copied {
            continue;
        }
        let found = got.dtype.as_ref().unwrap_or(&got.type_name);
        let wanted = match change {
            Change::Same => expected.dtype.name(),
            _ if expected.dtype.is_float() => "float64",
            _ => expected.dtype.name(),
        };
        return Err(format!(
            "returns {found} of shape {:?} for `{}`, which should be {wanted} of shape {:?}",
            got.shape, expected.name, expected.shape
        ));
    }
    Ok(())
}

/// Tensors named like a parameter go there, the others to the parameters that are left, in order; scalars
/// only to a parameter of their name.
fn arguments(variant: &Variant, parameters: &[Parameter]) -> Result<Vec<Argument>, String> {
    let definition = &variant.definition;
    let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    let mut free = names.iter().filter(|name| !name.starts_with('*') && definition.input(name).is_none());
    let mut arguments = Vec::new();
    let mut without_place = Vec::new();
    for input in variant.parameters.iter().map(|mapping| &mapping.input) {
        let is_scalar = definition.input(input).is_none_or(TensorSpec::is_scalar);
        let parameter = if names.contains(&input.as_str()) {
            input.as_str()
        } else if is_scalar {
            without_place.push(input.as_str());
            continue;
        } else {
            let left = free.next().copied();
            left.ok_or_else(|| format!("takes ({}), so nothing takes `{input}`", names.join(", ")))?
        };
        let source = ArgumentSource::Input { input: input.clone() };
        arguments.push(Argument { parameter: parameter.to_owned(), source });
    }
    // A scalar may be the entry's alone, a parameter may have a default; both at once is a mistaken name.
    if let (Some(scalar), Some(parameter)) = (without_place.first(), free.next()) {
        return Err(format!(
            "has no parameter `{scalar}` and is given nothing for `{parameter}`; call both the same, \
             or give `{parameter}` a value"
        ));
    }
    Ok(arguments)
}

#[cfg(test)]
#[path = "foreign_tests.rs"]
mod tests;
