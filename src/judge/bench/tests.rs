//! Timing against a worker and a card that are not there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::device::fake::Fake;
use crate::device::usage::CardProcess;
use crate::device::{Attempt, Gpus, Lease, LeaseFolder, Management, Readings, ThrottleReason, Visible};
use crate::judge::foreign::ForeignRun;
use crate::judge::means::Means;
use crate::judge::run::Source;
use crate::judge::{Code, OnGpu};
use crate::oracle::{ForeignFile, ForeignReference, HeadReference, Oracle, OracleLabel, Reference};
use crate::runner::protocol::Event;
use crate::runner::{WorkerError, WorkerVersions};
use crate::spec::{Dtype, builtin_named};
use crate::toolchain::{Places, Surroundings};

/// Answers what a worker on a GPU would; `wrong_compare` says which comparison finds wrong values, `no_compare` which
/// the judge cannot make.
struct FakeWorker {
    sides: fn() -> Outcome,
    wrong_compare: Option<u64>,
    no_compare: Option<u64>,
    /// A timing ends when so many processes were closed.
    hangs_until_closed: Option<usize>,
    baseline_opens: bool,
    compares: AtomicU64,
    log: Mutex<Vec<String>>,
    events: broadcast::Sender<Event>,
}

impl FakeWorker {
    fn new() -> Self {
        Self {
            sides,
            wrong_compare: None,
            no_compare: None,
            hangs_until_closed: None,
            baseline_opens: true,
            compares: AtomicU64::new(0),
            log: Mutex::default(),
            events: broadcast::channel(16).0,
        }
    }

    fn log(&self) -> Vec<String> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Worker for FakeWorker {
    async fn request(&self, request: Request) -> Result<Outcome, WorkerError> {
        tokio::task::yield_now().await;
        let (word, outcome) = match request {
            Request::Open(open) => {
                let is_baseline = open.entry == "run";
                let word = if is_baseline { "open baseline" } else { "open" };
                let parameters = json!({"parameters": [], "import_ms": 1.0});
                let raised = json!({"exception": "ImportError", "message": "no such name", "code": "raised",
                                    "missing": null, "place": null, "column": null});
                let raised = || Outcome::Raised(serde_json::from_value(raised).unwrap());
                (word, if is_baseline && !self.baseline_opens { raised() } else { Outcome::Done(parameters) })
            }
            Request::Run(_) => ("run", ran()),
            Request::Compare(compare) => {
                let nth = Some(self.compares.fetch_add(1, Ordering::Relaxed));
                let is_wrong = nth == self.wrong_compare;
                let outputs: Vec<Value> = compare
                    .tolerances
                    .iter()
                    .map(|_| {
                        json!({"name": "out", "elements": 9, "elements_compared": 9,
                               "violations": if is_wrong { 4 } else { 0 }, "tf32_violations": 4})
                    })
                    .collect();
                let compared = match nth == self.no_compare {
                    true => failed("reference-failed", "the float64 reference raised"),
                    false => Outcome::Done(json!({"outputs": outputs, "inputs_changed": []})),
                };
                ("compare", compared)
            }
            Request::Time(_) => {
                let closed = || self.log().iter().filter(|word| *word == "close").count();
                while self.hangs_until_closed.is_some_and(|least| closed() < least) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                ("time", (self.sides)())
            }
            Request::Derive(_) => ("derive", Outcome::Done(json!({"possible": true, "outputs": []}))),
            Request::Repeat { .. } => {
                let same = json!([{"name": "out", "elements": 9, "differing": 0, "first": null}]);
                ("repeat", Outcome::Done(json!({"outputs": same})))
            }
            Request::Ceilings(asked) => {
                let point =
                    |time_us: f64| json!([{"bytes": asked.bytes.unwrap_or(1 << 26), "time_us": time_us}]);
                let measured = json!({
                    "copy": point(375.0), "read": point(300.0), "launch_floor_us": 2.0, "took_s": 1.0,
                    "matrix": [{"kind": "float16", "flops_per_s": 7.9e14, "side": 8192}],
                });
                (if asked.bytes.is_some() { "same bytes" } else { "ceilings" }, Outcome::Done(measured))
            }
            Request::Prepare(_) => ("prepare", Outcome::Done(json!({"possible": true}))),
            Request::Redraw(_) => ("redraw", Outcome::Done(json!({}))),
            Request::Release { .. } => ("release", Outcome::Done(json!({}))),
            Request::Close { .. } => ("close", Outcome::Done(json!({}))),
            other => unreachable!("{other:?}"),
        };
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push(word.to_owned());
        Ok(outcome)
    }

    fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    fn versions(&self) -> WorkerVersions {
        WorkerVersions::default()
    }
}

fn failed(code: &str, message: &str) -> Outcome {
    Outcome::Failed { code: code.to_owned(), message: message.to_owned() }
}

fn at_head() -> HeadReference {
    let (path, text) = ("/k.py".into(), "def kernel_fn(x): ...".to_owned());
    let function =
        ForeignReference { file: ForeignFile::Text { path, text }, function: "kernel_fn".to_owned() };
    HeadReference { function, commit: "a1b2c3d".to_owned(), inferred: false }
}

fn returned() -> Value {
    json!([{"type_name": "torch.Tensor", "dtype": "float16", "shape": [4096, 4096], "strides": [4096, 1],
            "written_by_single_launch": true, "copied": true}])
}

fn ran() -> Outcome {
    Outcome::Done(json!({
        "outputs": returned(), "findings": [], "unsupported": null, "run_ms": 1.0,
        "launches": [{"kernel": "softmax_kernel", "file": "/k.py", "line": 1, "grid": [4096, 1, 1],
                      "programs": 4096, "programs_run": 4096}],
    }))
}

fn series(us: f64) -> Value {
    json!({"method": "events", "cold_us": vec![us; 30], "warm_us": vec![us; 30], "empty_us": 1.0, "host_us": 20.0, "launches": 3,
           "claimed_us": us, "wall_us": us * 1.01})
}

fn sides() -> Outcome {
    Outcome::Done(json!({
        "candidate": series(412.0), "baseline": series(754.0), "pool_entries": 4, "pool_bytes": 1, "flush_bytes": 1,
        "outputs": returned(),
    }))
}

/// What came of timing softmax with the card in this state.
struct Scene {
    fake: Fake,
    leases: tempfile::TempDir,
    cache: tempfile::TempDir,
    options: CheckOptions,
    cancel: CancellationToken,
    /// Only the version at HEAD says what is right.
    against_head: bool,
}

impl Scene {
    fn new() -> Self {
        Self {
            fake: Fake::with_cards(1),
            leases: tempfile::tempdir().unwrap(),
            cache: tempfile::tempdir().unwrap(),
            options: CheckOptions {
                timing: TimingChoice::First,
                dtypes: vec![Dtype::Float16],
                ..CheckOptions::default()
            },
            cancel: CancellationToken::new(),
            against_head: false,
        }
    }

    fn folder(&self) -> LeaseFolder {
        LeaseFolder::of_variable(Some(self.leases.path().as_os_str()))
    }

    async fn benched(&self, worker: &FakeWorker) -> Benched {
        let definition = builtin_named("softmax").expect("a Definition of this binary");
        let oracle = Oracle {
            label: OracleLabel { rung: 0, label: "AutoKernel softmax · torch ref".to_owned() },
            entry: "kernel_fn".to_owned(),
            variants: vec![crate::oracle::Variant {
                definition: Arc::clone(&definition),
                parameters: Vec::new(),
            }],
            reference: if self.against_head { Reference::Head(at_head()) } else { Reference::Ours },
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
        let means =
            Means::Gpu(OnGpu { name: "NVIDIA H200".to_owned(), free_bytes: 128 << 30, ..OnGpu::default() });
        let surroundings = Surroundings::of_this_process().with("WARPSMITH_CACHE_DIR", self.cache.path());
        let places = Places::of(&surroundings).unwrap();
        let gpus = Gpus::read(&self.fake, &Visible::of_variable(None));
        let management: Arc<dyn Management> = Arc::new(self.fake.clone());
        let gpu = BenchGpu {
            gpu: gpus.all()[0].clone(),
            management,
            leases: self.folder(),
            ceilings_folder: places.ceilings(),
            patience: Duration::from_secs(5),
            what: "k.py".to_owned(),
        };
        let (events, _receiver) = mpsc::unbounded_channel();
        let foreign = ForeignRun::at_head(source.clone(), "kernel_fn".to_owned(), "a1b2c3d");
        let run = CheckRun {
            worker,
            oracle: &oracle,
            source: &source,
            foreign: self.against_head.then_some(&foreign),
            modules: &[],
            means: &means,
            compares: true,
            seed: 7,
            began: Instant::now(),
            events: &events,
            cancel: &self.cancel,
        };
        let bench = Bench {
            gpu: &gpu,
            sources: Sources { places: &places, means: &means },
            options: &self.options,
            path: Path::new("/k.py"),
            provenance: &Provenance::default(),
            code_hash: "c0de".to_owned(),
            head: None,
        };
        run.bench(&bench, &[&definition], &[]).await
    }
}

#[tokio::test]
async fn what_passed_is_timed_and_every_process_is_closed() {
    let worker = FakeWorker::new();
    let scene = Scene::new();
    let benched = scene.benched(&worker).await;
    let titles: Vec<String> = benched.timings.iter().map(timing::text::title).collect();
    assert_eq!(titles, ["1.83× torch (412 ± 0 µs · f16 4096×4096 · 91 % of a copy of these bytes)"]);
    assert!(benched.not_timed.is_empty(), "{:?}", benched.not_timed);
    assert_eq!(benched.records.iter().map(|record| record.verdict).collect::<Vec<_>>(), [Verdict::Passed]);
    let expected = [
        "open",
        "prepare",
        "run",
        "compare",
        "open baseline",
        "redraw",
        "ceilings",
        "time",
        "same bytes",
        "close",
        "compare",
        "close",
        "release",
    ];
    assert_eq!(worker.log(), expected);
    // The ceilings are kept, the copy of the same bytes is not.
    let again = FakeWorker::new();
    scene.benched(&again).await;
    assert!(!again.log().contains(&"ceilings".to_owned()));
    assert!(again.log().contains(&"same bytes".to_owned()));
}

/// A function that computes something else while it is timed is wrong, and no time of it stands anywhere.
#[tokio::test]
async fn wrong_outputs_of_a_timed_call_make_the_verdict_wrong() {
    let worker = FakeWorker { wrong_compare: Some(1), ..FakeWorker::new() };
    let benched = Scene::new().benched(&worker).await;
    assert!(benched.timings.is_empty());
    assert_eq!(benched.records[0].verdict, Verdict::Wrong);
    assert_eq!(benched.records[0].findings[0].code, Code::Mismatch);
    assert_eq!(benched.not_timed[0].code, NoTimingCode::TimedCallWrong);
}

/// A kernel that reads beyond its tensors at its hundredth call is as wrong as at its first.
#[tokio::test]
async fn a_fault_of_the_kernel_while_it_is_timed_makes_the_verdict_wrong() {
    fn raised(code: &str) -> Outcome {
        let raised = json!({"exception": "DriverError", "message": "an illegal memory access", "code": code,
                            "missing": null, "place": null, "column": null});
        Outcome::Raised(serde_json::from_value(raised).unwrap())
    }
    let worker = FakeWorker { sides: || raised("illegal-access"), ..FakeWorker::new() };
    let benched = Scene::new().benched(&worker).await;
    assert_eq!(benched.records[0].verdict, Verdict::Wrong);
    assert!(benched.records[0].findings[0].message.contains("while it was timed: "), "{:?}", benched.records);
    assert_eq!(benched.not_timed[0].code, NoTimingCode::TimedCallWrong);
    // What timing itself does may raise too.
    let worker = FakeWorker { sides: || raised("raised"), ..FakeWorker::new() };
    let benched = Scene::new().benched(&worker).await;
    assert_eq!(
        (benched.records[0].verdict, benched.not_timed[0].code),
        (Verdict::Passed, NoTimingCode::Failed)
    );
}

/// Not to know whether they are right is something else.
#[tokio::test]
async fn outputs_of_a_timed_call_that_cannot_be_judged_are_not_called_wrong() {
    let worker = FakeWorker { no_compare: Some(1), ..FakeWorker::new() };
    let benched = Scene::new().benched(&worker).await;
    assert!(benched.timings.is_empty());
    assert_eq!(benched.records[0].verdict, Verdict::Passed);
    assert_eq!(benched.not_timed[0].code, NoTimingCode::Failed);
    assert!(benched.not_timed[0].why.contains("cannot be said: "), "{:?}", benched.not_timed);
}

#[tokio::test]
async fn a_function_that_is_wrong_at_one_size_keeps_no_time_of_another() {
    let definition = builtin_named("softmax").expect("a Definition of this binary");
    let means = Means::Gpu(OnGpu { free_bytes: 128 << 30, ..OnGpu::default() });
    let mut scene = Scene::new();
    scene.options.timing = TimingChoice::Some;
    let sizes = bench_cases(&[&definition], &scene.options, Reach::of(&means)).len();
    assert!(sizes > 1);
    // Two comparisons of each size: before it is timed, and of the timed call.
    let worker = FakeWorker { wrong_compare: Some(2), ..FakeWorker::new() };
    let benched = scene.benched(&worker).await;
    assert_eq!(benched.records.last().map(|record| record.verdict), Some(Verdict::Wrong));
    assert!(benched.timings.is_empty(), "a history must not hold it");
}

/// Whichever side is at work, both go, or the GPU would not be free before the baseline's step is over.
#[tokio::test(start_paused = true)]
async fn a_cancelled_timing_ends_both_sides() {
    let worker = FakeWorker { hangs_until_closed: Some(2), ..FakeWorker::new() };
    let scene = Scene::new();
    let cancels = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        scene.cancel.cancel();
    };
    let both = async { tokio::join!(scene.benched(&worker), cancels) };
    let (benched, ()) = tokio::time::timeout(Duration::from_secs(9), both).await.expect("it ends");
    assert!(benched.timings.is_empty());
    assert!(!worker.log().contains(&"same bytes".to_owned()), "nothing more is measured then");
    assert!(matches!(
        Lease::try_acquire(&scene.folder(), &scene.fake.cards[0].gpu.uuid, "another.py"),
        Ok(Attempt::Acquired(_))
    ));
}

/// As in the stages before: other values than HEAD's are a difference, and which are right nobody knows.
#[tokio::test]
async fn where_only_head_says_what_is_right_a_timed_size_is_seen_from_there() {
    let mut scene = Scene::new();
    scene.against_head = true;
    let worker = FakeWorker { wrong_compare: Some(0), ..FakeWorker::new() };
    let benched = scene.benched(&worker).await;
    let codes: Vec<Code> = benched.records[0].findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Code::DiffersFromHead]);
}

#[tokio::test]
async fn what_is_wrong_at_the_timed_size_is_not_timed() {
    let worker = FakeWorker { wrong_compare: Some(0), ..FakeWorker::new() };
    let benched = Scene::new().benched(&worker).await;
    assert_eq!(benched.records[0].verdict, Verdict::Wrong);
    assert_eq!(benched.not_timed[0].code, NoTimingCode::NotPassed);
    assert!(!worker.log().contains(&"time".to_owned()));
}

#[tokio::test]
async fn a_baseline_that_fails_leaves_the_latency_without_a_speedup() {
    let worker = FakeWorker { baseline_opens: false, ..FakeWorker::new() };
    let benched = Scene::new().benched(&worker).await;
    let timing = &benched.timings[0];
    assert!(timing.speedup.is_none() && timing.latency.cold_us.median == 412.0);
    assert!(timing.baseline_failed.as_ref().is_some_and(|why| why.contains("no such name")), "{timing:?}");
}

/// Who else times has the card; the wait ends, and nothing was timed.
#[tokio::test(start_paused = true)]
async fn a_lease_that_another_has_is_waited_for_and_then_told() {
    let scene = Scene::new();
    let uuid = scene.fake.cards[0].gpu.uuid.clone();
    let held = Lease::try_acquire(&scene.folder(), &uuid, "another.py").unwrap();
    let benched = scene.benched(&FakeWorker::new()).await;
    assert_eq!(benched.not_timed[0].code, NoTimingCode::GpuBusy);
    assert!(benched.timings.is_empty());
    drop(held);
    assert_eq!(scene.benched(&FakeWorker::new()).await.timings.len(), 1);
}

#[tokio::test]
async fn claims_that_the_clock_refutes_are_not_published() {
    fn lied() -> Outcome {
        let Outcome::Done(mut sides) = sides() else { unreachable!() };
        sides["candidate"]["claimed_us"] = json!(206.0);
        Outcome::Done(sides)
    }
    let worker = FakeWorker { sides: lied, ..FakeWorker::new() };
    let benched = Scene::new().benched(&worker).await;
    assert!(benched.timings.is_empty());
    assert_eq!(benched.not_timed[0].code, NoTimingCode::ClaimRefused);
}

/// While we time the GPU is busy with us: another process that holds memory and runs nothing disturbs nobody.
#[tokio::test]
async fn only_who_ran_something_meanwhile_has_disturbed_a_time() {
    let mut scene = Scene::new();
    let uuid = scene.fake.cards[0].gpu.uuid.clone();
    let beside = |sm_percent| Readings {
        processes: Some(vec![CardProcess { pid: 4_000_000, used_bytes: None, sm_percent: Some(sm_percent) }]),
        utilization_percent: Some(97),
        throttle: Some(vec![ThrottleReason::SoftwareThermal]),
        ..Readings::default()
    };
    scene.fake.readings.insert(uuid.clone(), beside(0));
    let quiet = scene.benched(&FakeWorker::new()).await.timings.remove(0);
    assert!(!quiet.is_disturbed, "{:?}", quiet.conditions);
    assert!(quiet.roofline.is_some());
    scene.fake.readings.insert(uuid, beside(40));
    let beside = scene.benched(&FakeWorker::new()).await.timings.remove(0);
    assert!(beside.is_disturbed);
    assert_eq!(beside.conditions[0], "process 4000000 was on the GPU too");
}

/// They are kept for good, and a rate that was halved by another would make every right time impossible.
#[tokio::test]
async fn ceilings_that_another_process_disturbed_are_not_kept() {
    let mut scene = Scene::new();
    let uuid = scene.fake.cards[0].gpu.uuid.clone();
    let other = CardProcess { pid: 4_000_000, used_bytes: None, sm_percent: Some(90) };
    let busy = Readings { processes: Some(vec![other]), ..Readings::default() };
    let idle = scene.fake.readings.insert(uuid.clone(), busy).unwrap();
    let timing = scene.benched(&FakeWorker::new()).await.timings.remove(0);
    assert_eq!(timing.roofline, None);
    scene.fake.readings.insert(uuid, idle);
    let worker = FakeWorker::new();
    let timing = scene.benched(&worker).await.timings.remove(0);
    assert!(worker.log().contains(&"ceilings".to_owned()) && timing.roofline.is_some());
}

#[test]
fn a_save_times_one_size_and_a_check_a_few_of_every_definition() {
    let names = ["reduce_sum_last", "reduce_max_last"];
    let known: Vec<_> = names.iter().map(|name| builtin_named(name).expect("a Definition")).collect();
    let definitions: Vec<&Definition> = known.iter().map(|definition| &**definition).collect();
    let means = Means::Gpu(OnGpu { free_bytes: 128 << 30, ..OnGpu::default() });
    let timed = |timing| {
        let options = CheckOptions { timing, ..CheckOptions::default() };
        let cases = bench_cases(&definitions, &options, Reach::of(&means));
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for case in cases {
            *counts.entry(case.case.definition).or_default() += 1;
        }
        counts.into_values().collect::<Vec<_>>()
    };
    assert!(timed(TimingChoice::None).is_empty());
    assert_eq!(timed(TimingChoice::First), [1]);
    let several = timed(TimingChoice::Some);
    assert!(several.len() == 2 && several.iter().all(|&count| (1..=3).contains(&count)), "{several:?}");
}
