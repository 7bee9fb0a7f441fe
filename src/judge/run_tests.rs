//! The pipeline against a worker that is scripted: order, crashes, hangs, cancellation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Notify, broadcast};

use super::*;
use crate::judge::{Code, NotRun};
use crate::oracle::{OracleLabel, Reference};
use crate::runner::{WorkerError, WorkerVersions};
use crate::spec::builtin_named;

/// What the candidate does on its n-th run (from 0).
type Script = fn(usize) -> Outcome;

/// Answers like a supervisor whose judge is always content; the candidate follows a script.
struct FakeWorker {
    script: Script,
    log: Mutex<Vec<String>>,
    runs: AtomicU64,
    opens: AtomicU64,
    /// A run that waits for `close`, like an endless loop.
    hangs_on: Option<usize>,
    closed: Notify,
    events: broadcast::Sender<Event>,
    import: fn(u64) -> Outcome,
    compile_hangs: bool,
}

impl FakeWorker {
    fn new(script: Script) -> Self {
        Self {
            script,
            log: Mutex::default(),
            runs: AtomicU64::new(0),
            opens: AtomicU64::new(0),
            hangs_on: None,
            closed: Notify::new(),
            events: broadcast::channel(16).0,
            import: |_| done(json!({"parameters": [], "import_ms": 1.0})),
            compile_hangs: false,
        }
    }

    fn note(&self, what: &str) {
        lock_any(&self.log).push(what.to_owned());
    }

    fn count(&self, what: &str) -> usize {
        lock_any(&self.log).iter().filter(|entry| *entry == what).count()
    }
}

fn lock_any<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Worker for FakeWorker {
    async fn request(&self, request: Request) -> Result<Outcome, WorkerError> {
        tokio::task::yield_now().await;
        Ok(match request {
            Request::Define(_) => done(json!({})),
            Request::Open(open) => {
                self.note(if open.blocking { "open blocking" } else { "open" });
                (self.import)(self.opens.fetch_add(1, Ordering::Relaxed))
            }
            Request::Prepare(_) | Request::Derive(_) | Request::Take(_) => {
                self.note("prepare");
                done(json!({"possible": true}))
            }
            Request::Run(asked) => {
                let run = self.runs.fetch_add(1, Ordering::Relaxed) as usize;
                self.note(if asked.interpreter.idle_kernels { "idle run" } else { "run" });
                if self.hangs_on == Some(run) {
                    self.closed.notified().await;
                    died("killed")
                } else {
                    (self.script)(run)
                }
            }
            Request::Compare(compare) => {
                self.note("compare");
                let outputs: Vec<Value> = compare
                    .tolerances
                    .iter()
                    .map(|_| json!({"name": "out", "elements": 9, "elements_compared": 9}))
                    .collect();
                done(json!({"outputs": outputs, "inputs_changed": []}))
            }
            Request::Compile(compile) => {
                self.note("compile");
                assert_eq!(compile.inputs.len(), 1);
                if self.compile_hangs {
                    std::future::pending::<()>().await;
                }
                done(json!({}))
            }
            Request::Recopy(_) => done(json!({"copied": [true]})),
            Request::Redraw(_) | Request::Retake(_) => {
                self.note("redraw");
                done(json!({}))
            }
            Request::Repeat { .. } => {
                self.note("repeat");
                done(json!({"outputs": [{"name": "out", "elements": 9, "differing": 0, "first": null}]}))
            }
            Request::Release { .. } => {
                self.note("release");
                done(json!({}))
            }
            Request::DeviceState | Request::Ceilings(_) | Request::Time(_) => {
                unreachable!("asked of a GPU only")
            }
            Request::Close { .. } => {
                self.note("close");
                self.closed.notify_waiters();
                done(json!({}))
            }
        })
    }

    fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    fn versions(&self) -> WorkerVersions {
        WorkerVersions::default()
    }
}

fn done(value: Value) -> Outcome {
    Outcome::Done(value)
}

fn died(reason: &str) -> Outcome {
    let died = json!({"reason": reason, "signal": null, "status": 0, "output": ""});
    Outcome::Died(serde_json::from_value(died).unwrap())
}

/// A right answer to [`case`].
fn right() -> Outcome {
    done(json!({
        "outputs": [{"type_name": "torch.Tensor", "dtype": "float32", "shape": [3, 3], "strides": [3, 1],
                     "written_by_single_launch": true, "copied": true}],
        "launches": [{"kernel": "softmax_kernel", "file": "/k.py", "line": 1, "grid": [3, 1, 1], "programs": 3,
                      "programs_run": 3}],
        "findings": [], "unsupported": null, "run_ms": 1.0
    }))
}

fn case(stage: Stage) -> Case {
    Case {
        stage,
        definition: "softmax".to_owned(),
        axes: BTreeMap::from([("M".to_owned(), 3), ("N".to_owned(), 3)]),
        dtype: Dtype::Float32,
        layout: "contiguous".to_owned(),
        profile: crate::judge::DEFAULT_PROFILE.to_owned(),
        scalars: BTreeMap::new(),
        options: BTreeMap::new(),
        coverage: Coverage::Full,
    }
}

fn plan(sweeps: usize) -> Plan {
    let sweep = std::iter::repeat_n(case(Stage::Sweep), sweeps);
    Plan { cases: std::iter::once(case(Stage::Smoke)).chain(sweep).collect(), not_run: Vec::new() }
}

async fn run(worker: &FakeWorker, plan: Plan, cancel: &CancellationToken) -> (Outcomes, Vec<CheckEvent>) {
    run_with(&Means::Interpreter, worker, plan, cancel).await
}

async fn run_with(
    means: &Means,
    worker: &FakeWorker,
    plan: Plan,
    cancel: &CancellationToken,
) -> (Outcomes, Vec<CheckEvent>) {
    let run = async |run: &CheckRun<'_, FakeWorker>| {
        let candidate = run.load().await.unwrap_or_else(|finding| panic!("{}", finding.message));
        run.run(candidate, plan).await
    };
    in_check(means, worker, cancel, run).await
}

/// Does something in a check of softmax.
async fn in_check<T>(
    means: &Means,
    worker: &FakeWorker,
    cancel: &CancellationToken,
    what: impl AsyncFnOnce(&CheckRun<'_, FakeWorker>) -> T,
) -> (T, Vec<CheckEvent>) {
    let oracle = Oracle {
        label: OracleLabel { rung: 0, label: "AutoKernel softmax · torch ref".to_owned() },
        entry: "kernel_fn".to_owned(),
        variants: vec![Variant {
            definition: builtin_named("softmax").expect("a Definition of this binary"),
            parameters: Vec::new(),
        }],
        reference: Reference::Ours,
        stated_at: None,
        destinations: Vec::new(),
        left_out: Vec::new(),
        files: Vec::new(),
    };
    let source = Source {
        path: "/k.py".to_owned(),
        text_path: "/copy/k.py".to_owned(),
        text: "".into(),
        search_paths: Vec::new(),
        resident_bytes: 1 << 30,
        has_dot: false,
    };
    let (events, mut receiver) = mpsc::unbounded_channel();
    let run = CheckRun {
        worker,
        oracle: &oracle,
        source: &source,
        foreign: None,
        modules: &[],
        means,
        compares: true,
        seed: 7,
        began: Instant::now(),
        events: &events,
        cancel,
    };
    let done = what(&run).await;
    drop(events);
    let mut seen = Vec::new();
    while let Some(event) = receiver.recv().await {
        seen.push(event);
    }
    (done, seen)
}

async fn run_to_end(worker: &FakeWorker, sweeps: usize) -> Outcomes {
    let outcomes = run(worker, plan(sweeps), &CancellationToken::new()).await.0;
    assert_eq!(worker.count("prepare"), worker.count("release"), "every case's memory is freed");
    let accounted = cases_named(&outcomes.not_run) + outcomes.cases.len();
    assert_eq!(accounted, sweeps + 1, "every case is run or shown as not run, once");
    outcomes
}

/// Cases that the lines stand for: `sweep f32 (4 cases)` for four.
fn cases_named(not_run: &[NotRun]) -> usize {
    let count = |line: &NotRun| {
        let words = line.what.rsplit_once('(').and_then(|(_, rest)| rest.strip_suffix(" cases)"));
        words.map_or(1, |words| words.parse().expect("a count"))
    };
    not_run.iter().map(count).sum()
}

fn verdicts(outcomes: &Outcomes) -> Vec<Verdict> {
    outcomes.cases.iter().map(|record| record.verdict).collect()
}

fn codes(outcomes: &Outcomes) -> Vec<Code> {
    let of_cases = outcomes.cases.iter().flat_map(|record| &record.findings);
    of_cases.chain(&outcomes.findings).map(|finding| finding.code).collect()
}

#[tokio::test]
async fn a_right_kernel_passes_every_case_in_order() {
    let worker = FakeWorker::new(|_| right());
    let (outcomes, events) = run(&worker, plan(4), &CancellationToken::new()).await;
    assert_eq!(verdicts(&outcomes), [Verdict::Passed; 5]);
    assert_eq!((worker.count("open"), worker.count("close")), (1, 1));
    let finished: Vec<usize> = events
        .iter()
        .filter_map(|event| match event {
            CheckEvent::CaseFinished { index, .. } => Some(*index),
            _ => None,
        })
        .collect();
    assert_eq!(finished, [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn after_a_failed_smoke_case_the_sweep_is_shown_as_not_run() {
    let worker = FakeWorker::new(|run| if run == 0 { died("exit") } else { right() });
    let outcomes = run_to_end(&worker, 9).await;
    // Not even the cases that the pipeline had begun are recorded: which those are is chance.
    assert_eq!(verdicts(&outcomes), [Verdict::Wrong]);
    assert_eq!(outcomes.not_run, [NotRun::new("sweep f32 (9 cases)", "its smoke case did not pass")]);
}

#[tokio::test]
async fn a_crash_costs_one_case_and_many_crashes_end_the_check() {
    let once = FakeWorker::new(|run| if run == 2 { died("signal") } else { right() });
    let outcomes = run_to_end(&once, 4).await;
    assert_eq!(outcomes.cases.len(), 5);
    assert_eq!(verdicts(&outcomes).iter().filter(|v| **v == Verdict::Wrong).count(), 1);
    assert_eq!(once.count("open"), 2);

    let always = FakeWorker::new(|run| if run == 0 { right() } else { died("signal") });
    let outcomes = run_to_end(&always, 9).await;
    assert_eq!(outcomes.cases.len(), 4);
    assert_eq!(outcomes.not_run.len(), 1);
    assert_eq!(outcomes.not_run[0].what, "sweep M=3 N=3 · f32 (6 cases)");
}

#[tokio::test]
async fn a_hang_ends_the_check_and_is_no_wrong_verdict() {
    let worker = FakeWorker::new(|run| if run == 1 { died("timeout") } else { right() });
    let outcomes = run_to_end(&worker, 5).await;
    assert_eq!(verdicts(&outcomes), [Verdict::Passed, Verdict::CouldNotRun]);
    assert_eq!(codes(&outcomes), [Code::Timeout]);
    assert!(outcomes.not_run.iter().any(|line| line.why == "an earlier case did not end"));
}

/// An entry that copies tensors larger than memory dies of it there and nowhere else: the cases after it run.
#[tokio::test]
async fn a_copy_that_outgrows_memory_costs_the_offsets_case_only() {
    let script: Script = |n| if n == 1 { died("memory") } else { right() };
    for (coverage, others) in [(Coverage::Offsets, 4), (Coverage::Full, 0)] {
        let worker = FakeWorker::new(script);
        let mut plan = plan(5);
        plan.cases[1].coverage = coverage;
        let (outcomes, _) = run(&worker, plan, &CancellationToken::new()).await;
        let passed = verdicts(&outcomes).iter().filter(|&&verdict| verdict == Verdict::Passed).count();
        assert_eq!(passed, 1 + others, "{coverage:?}: {outcomes:?}");
        assert_eq!(codes(&outcomes).contains(&Code::OutOfMemory), coverage == Coverage::Full);
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_loaded_again_stops_the_check() {
    let mut worker = FakeWorker::new(|run| if run == 1 { died("exit") } else { right() });
    worker.import = |opens| match opens {
        0 => done(json!({"parameters": [], "import_ms": 1.0})),
        _ => died("signal"),
    };
    let outcomes = run_to_end(&worker, 5).await;
    assert_eq!(verdicts(&outcomes), [Verdict::Passed, Verdict::Wrong]);
    assert_eq!(codes(&outcomes), [Code::Exited, Code::CrashedAtImport]);
    assert_eq!(
        outcomes.not_run,
        [NotRun::new("sweep M=3 N=3 · f32 (4 cases)", "the file could not be loaded again")]
    );
}

#[tokio::test]
async fn cancelling_kills_the_runner_and_returns() {
    let mut worker = FakeWorker::new(|_| right());
    worker.hangs_on = Some(1);
    let worker = Arc::new(worker);
    let cancel = CancellationToken::new();
    let (on, canceller) = (Arc::clone(&worker), cancel.clone());
    tokio::spawn(async move {
        while on.count("run") < 2 {
            tokio::task::yield_now().await;
        }
        canceller.cancel();
    });
    let ended = tokio::time::timeout(Duration::from_secs(5), run(&worker, plan(9), &cancel)).await;
    let (outcomes, _) = ended.expect("a cancelled check returns");
    assert_eq!(codes(&outcomes), [Code::Cancelled]);
    assert!(worker.count("close") >= 1);
    assert_eq!(worker.count("prepare"), worker.count("release"));
    assert_eq!(worker.count("open"), 1, "a cancelled check opens nothing again");
    let left = outcomes.not_run.iter().map(|line| (line.what.as_str(), line.why.as_str()));
    assert!(left.clone().all(|(_, why)| why == "the check was cancelled"), "{left:?}");
    assert_eq!(
        cases_named(&outcomes.not_run) + outcomes.cases.len(),
        10,
        "every case is run or shown as not run"
    );
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_no_pass() {
    let worker = FakeWorker::new(|_| done(json!({"outputs": "all good"})));
    let outcomes = run_to_end(&worker, 0).await;
    assert_eq!(
        (verdicts(&outcomes), codes(&outcomes)),
        (vec![Verdict::CouldNotRun], vec![Code::JudgeFailed])
    );
}

#[tokio::test]
async fn a_determinism_case_is_called_again_and_again() {
    let worker = FakeWorker::new(|_| right());
    // Not the smallest shape, and few elements: again, other values, one element, back, reordered.
    let mut plan = plan(0);
    plan.cases.push(case(Stage::Determinism));
    let (outcomes, _) = run(&worker, plan, &CancellationToken::new()).await;
    assert_eq!(verdicts(&outcomes), [Verdict::Passed; 2]);
    assert_eq!((worker.count("run"), worker.count("redraw")), (1 + 6, 3));
    assert_eq!(worker.count("prepare"), worker.count("release"));
    assert_eq!((worker.count("open"), worker.count("close")), (1, 1));
}

/// A right answer of 20 elements, so many that nobody has them right by chance.
fn right_of_20() -> Outcome {
    let Outcome::Done(mut answer) = right() else { return right() };
    answer["outputs"][0]["shape"] = json!([5, 4]);
    Outcome::Done(answer)
}

async fn determinism_of_20(worker: &FakeWorker) -> Outcomes {
    let axes = [("M".to_owned(), 5), ("N".to_owned(), 4)].into();
    let plan = Plan { cases: vec![Case { axes, ..case(Stage::Determinism) }], not_run: Vec::new() };
    run(worker, plan, &CancellationToken::new()).await.0
}

/// The fake's judge is content with everything, so also with a call whose kernels stored nothing.
#[tokio::test]
async fn what_is_right_without_its_kernels_was_not_theirs() {
    let worker = FakeWorker::new(|_| right_of_20());
    let outcomes = determinism_of_20(&worker).await;
    assert_eq!((verdicts(&outcomes), codes(&outcomes)), (vec![Verdict::CouldNotRun], vec![Code::NoEffect]));
    assert_eq!((worker.count("run"), worker.count("idle run")), (6, 1));
    assert_eq!((worker.count("open"), worker.count("close")), (2, 2), "in a process of its own");
}

/// How a call ends whose kernels store nothing is no matter: what waits for them waits for ever.
#[tokio::test]
async fn what_fails_without_its_kernels_needs_them() {
    let worker = FakeWorker::new(|run| if run == 5 { died("timeout") } else { right_of_20() });
    let outcomes = determinism_of_20(&worker).await;
    assert_eq!((verdicts(&outcomes), codes(&outcomes)), (vec![Verdict::Passed], vec![]));
    assert_eq!(
        (worker.count("run"), worker.count("idle run")),
        (6, 1),
        "the programs are reordered afterwards"
    );
    assert_eq!(worker.count("prepare"), worker.count("release"));
}

#[tokio::test]
async fn a_trial_that_kills_the_candidate_costs_that_case() {
    let worker = FakeWorker::new(|run| if run == 2 { died("exit") } else { right() });
    let mut plan = plan(0);
    plan.cases.extend([case(Stage::Determinism), case(Stage::Edge)]);
    let (outcomes, _) = run(&worker, plan, &CancellationToken::new()).await;
    assert_eq!(verdicts(&outcomes), [Verdict::Passed, Verdict::Wrong, Verdict::Passed]);
    assert_eq!(codes(&outcomes), [Code::Exited]);
    assert_eq!(worker.count("open"), 2);
}

/// Values of a sampled run that more than the sampled programs made are not compared, and that is told.
#[tokio::test]
async fn a_sampled_chain_of_launches_shows_bounds_only() {
    let chained = |_| {
        let Outcome::Done(mut answer) = right() else { return right() };
        answer["outputs"][0]["written_by_single_launch"] = json!(false);
        answer["launches"][0]["programs"] = json!(300);
        Outcome::Done(answer)
    };
    let worker = FakeWorker::new(chained);
    let sampled = Case { coverage: Coverage::Sampled, ..case(Stage::Sweep) };
    let plan = Plan { cases: vec![sampled], not_run: Vec::new() };
    let outcomes = run(&worker, plan, &CancellationToken::new()).await.0;
    assert_eq!(worker.count("compare"), 0);
    assert_eq!(outcomes.cases[0].case.coverage, Coverage::Offsets);
    assert_eq!(verdicts(&outcomes), [Verdict::Passed]);
    assert_eq!(outcomes.not_run[0].what, "values of sweep M=3 N=3 · f32");
}

fn on_gpu() -> Means {
    Means::Gpu(crate::judge::OnGpu {
        name: "NVIDIA H200".to_owned(),
        free_bytes: 64 << 30,
        ..Default::default()
    })
}

fn illegal_access(place: Value) -> Outcome {
    let raised = json!({
        "exception": "AcceleratorError", "message": "CUDA error: an illegal memory access was encountered",
        "code": "illegal-access", "missing": null, "place": place, "column": null,
        "launches": [{"kernel": "softmax_kernel", "file": "/k.py", "line": 1, "grid": [3, 1, 1], "programs": 3,
                      "programs_run": 3}],
    });
    Outcome::Raised(serde_json::from_value(raised).unwrap())
}

/// The GPU tells of it at some later call; the second run waits for every launch and has the line. The case after it
/// runs in a process of its own.
#[tokio::test]
async fn an_illegal_access_is_told_with_the_line_of_a_second_run() {
    let worker = FakeWorker::new(|run| match run {
        0 | 3 => right(),
        1 => illegal_access(Value::Null),
        _ => illegal_access(json!({"file": "/k.py", "line": 12})),
    });
    let (outcomes, _) = run_with(&on_gpu(), &worker, plan(2), &CancellationToken::new()).await;
    assert_eq!((worker.count("open blocking"), worker.count("open")), (1, 2));
    let codes: Vec<_> =
        outcomes.cases.iter().map(|record| record.findings.first().map(|finding| finding.code)).collect();
    assert_eq!(codes, [None, Some(Code::IllegalAccess), None]);
    let finding = &outcomes.cases[1].findings[0];
    assert_eq!(finding.place.as_ref().map(|place| place.line), Some(12));
    assert_eq!(finding.kernel.as_deref(), Some("softmax_kernel"));
    insta::assert_snapshot!(finding.message);
}

#[tokio::test]
async fn an_access_that_is_not_repeated_is_a_fault_all_the_same() {
    let worker = FakeWorker::new(|run| if run == 1 { illegal_access(Value::Null) } else { right() });
    let (outcomes, _) = run_with(&on_gpu(), &worker, plan(1), &CancellationToken::new()).await;
    assert_eq!(outcomes.cases[1].verdict, Verdict::Wrong);
    assert_eq!(outcomes.cases[1].findings[0].code, Code::IllegalAccess);
}

#[tokio::test]
async fn a_kernel_that_ends_every_context_is_not_tried_for_ever() {
    let worker = FakeWorker::new(|run| if run == 0 { right() } else { illegal_access(Value::Null) });
    let (outcomes, _) = run_with(&on_gpu(), &worker, plan(9), &CancellationToken::new()).await;
    let wrong = outcomes.cases.iter().filter(|record| record.verdict == Verdict::Wrong).count();
    assert_eq!(wrong as u32, CRASH_LIMIT);
    assert!(outcomes.not_run.iter().any(|line| line.why == "too many earlier cases crashed"));
}

/// What the judged process says of a call of so many milliseconds.
fn ran(run_ms: f64) -> Ran {
    let Outcome::Done(mut value) = right() else { unreachable!("it is right") };
    value["run_ms"] = json!(run_ms);
    serde_json::from_value(value).unwrap()
}

#[tokio::test]
async fn others_compile_ahead_once_the_judged_process_is_seen_to_compile() {
    for (means, run_ms, lanes, compiled) in [
        (on_gpu(), 900.0, 3, 8),
        (on_gpu(), 90.0, 3, 0),
        (on_gpu(), 900.0, 0, 0),
        (Means::Interpreter, 900.0, 3, 0),
    ] {
        let worker = FakeWorker::new(|_| right());
        let cancel = CancellationToken::new();
        let compile = async |run: &CheckRun<'_, FakeWorker>| {
            let ahead = Ahead::new(&plan(9).cases, lanes);
            let going = run.compile_ahead(&ahead, &[]);
            let judging = async {
                // The second case is met by then; what is left is shared, and the tensors larger than memory are not met.
                ahead.has_run(1, &ran(run_ms));
                while worker.count("compile") < compiled {
                    tokio::task::yield_now().await;
                }
                // Time enough for a process that should not have been started.
                for _ in 0..50 {
                    tokio::task::yield_now().await;
                }
                ahead.end();
            };
            tokio::join!(going, judging);
        };
        in_check(&means, &worker, &cancel, compile).await;
        let opened = if compiled > 0 { lanes } else { 0 };
        assert_eq!((worker.count("compile"), worker.count("open")), (compiled, opened), "{run_ms} {lanes}");
        assert_eq!(worker.count("close"), opened, "they end before anything is timed");
    }
}

#[tokio::test]
async fn those_ahead_end_with_the_judged_process_or_the_check() {
    for is_cancelled in [false, true] {
        let worker = FakeWorker { compile_hangs: true, ..FakeWorker::new(|_| right()) };
        let cancel = CancellationToken::new();
        let compile = async |run: &CheckRun<'_, FakeWorker>| {
            let ahead = Ahead::new(&plan(9).cases, 2);
            let judging = async {
                ahead.has_run(0, &ran(900.0));
                while worker.count("compile") < 2 {
                    tokio::task::yield_now().await;
                }
                if is_cancelled { cancel.cancel() } else { ahead.end() }
            };
            tokio::join!(run.compile_ahead(&ahead, &[]), judging);
        };
        in_check(&on_gpu(), &worker, &cancel, compile).await;
        assert_eq!(worker.count("close"), 2);
    }
}

#[tokio::test]
async fn a_source_that_does_not_open_again_is_not_compiled_ahead() {
    let worker = FakeWorker { import: |_| died("exit"), ..FakeWorker::new(|_| right()) };
    let compile = async |run: &CheckRun<'_, FakeWorker>| {
        let ahead = Ahead::new(&plan(9).cases, 2);
        ahead.has_run(0, &ran(900.0));
        run.compile_ahead(&ahead, &[]).await;
    };
    in_check(&on_gpu(), &worker, &CancellationToken::new(), compile).await;
    assert_eq!((worker.count("compile"), worker.count("close")), (0, 2));
}
