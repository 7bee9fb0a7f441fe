//! The interpreter beside a GPU: what a GPU does not tell.
//!
//! A kernel whose programs race, or that reads past the end of a tensor into memory that happens to hold the right
//! thing, passes on a GPU whenever luck has it. So the small shapes run in Triton's interpreter at the same time, on a
//! core that the GPU does not need, and what its shadow memory sees counts against the case, whatever the GPU said. Values
//! are not compared there: the hardware's own were.

use super::case::Case;
use super::check::CheckOptions;
use super::run::Outcomes;
use super::stages::{self, Plan, Reach};
use super::verdict::{CaseRecord, Code, Finding};
use super::{NotRun, Stage, Verdict};
use crate::spec::Definition;

/// What it looks for, as it stands in the line that says that it could not.
pub(super) const WHAT: &str = "races, bounds, int32 offsets and unset memory";
/// What only shadow memory sees. Whatever else goes wrong in the interpreter may be a thing that it lacks.
const SEEN_THERE: [Code; 5] =
    [Code::OutOfBounds, Code::Race, Code::DuplicateStore, Code::IntegerOverflow, Code::UninitialisedRead];

/// The cases that run beside those of a GPU: smoke, sweep and the orders of programs, in the first dtype. Where offsets
/// wrap and who writes where does not depend on the dtype.
pub(super) fn plan_beside(definitions: &[&Definition], options: &CheckOptions, seed: u64) -> Plan {
    let wanted = [Stage::Smoke, Stage::Sweep, Stage::Determinism];
    let asked = |stage: &Stage| options.stages.is_empty() || options.stages.contains(stage);
    let stages: Vec<Stage> = wanted.into_iter().filter(asked).collect();
    let mut plan = Plan::default();
    if stages.is_empty() {
        return plan;
    }
    for definition in definitions {
        let dtypes = stages::dtypes(definition, options).into_iter().take(1).collect::<Vec<_>>();
        let of_first = CheckOptions { stages: stages.clone(), dtypes, ..options.clone() };
        plan.cases.extend(stages::plan(&[*definition], &of_first, seed, Reach::INTERPRETER).cases);
    }
    // What is left out of it is no stage that did not run: the GPU runs them all.
    plan
}

/// Adds what the interpreter saw to what the GPU found of the same cases; the cases that are wrong for it.
pub(super) fn merge(outcomes: &mut Outcomes, beside: Result<Outcomes, String>) -> Vec<CaseRecord> {
    let beside = match beside {
        Ok(beside) => beside,
        Err(why) => {
            outcomes.not_run.push(NotRun::new(WHAT, format!("the interpreter could not look: {why}")));
            return Vec::new();
        }
    };
    let (mut looked, mut is_cut_short) = (0, false);
    let mut wrong = Vec::new();
    let mut obstacle = None;
    for mut record in beside.cases {
        let seen: Vec<Finding> = std::mem::take(&mut record.findings)
            .into_iter()
            .filter(|finding| {
                if finding.code.verdict() != Verdict::Passed {
                    obstacle.get_or_insert_with(|| finding.message.clone());
                }
                SEEN_THERE.contains(&finding.code)
            })
            .map(|finding| Finding {
                message: format!("{} (seen in the interpreter)", finding.message),
                ..finding
            })
            .collect();
        looked += usize::from(!record.launches.is_empty());
        // After such a smoke case the others are left out.
        is_cut_short |= record.case.stage == Stage::Smoke && record.verdict != Verdict::Passed;
        if !seen.is_empty() {
            wrong.push(add(outcomes, CaseRecord { findings: seen, ..record }));
        }
    }
    obstacle = obstacle.or_else(|| beside.findings.first().map(|finding| finding.message.clone()));
    if looked == 0 || (is_cut_short && wrong.is_empty()) {
        let why = obstacle.unwrap_or_else(|| "none of its cases launched a kernel".to_owned());
        outcomes.not_run.push(NotRun::new(WHAT, format!("the interpreter could not look: {why}")));
    }
    wrong
}

fn add(outcomes: &mut Outcomes, record: CaseRecord) -> CaseRecord {
    let is_same = |known: &&mut CaseRecord| {
        let key = |case: &Case| (case.stage, case.definition.clone(), case.label());
        key(&known.case) == key(&record.case)
    };
    match outcomes.cases.iter_mut().find(is_same) {
        Some(known) => {
            known.findings.splice(0..0, record.findings);
            known.verdict = Verdict::Wrong;
            known.clone()
        }
        None => {
            let record = CaseRecord { verdict: Verdict::Wrong, errors: Vec::new(), ..record };
            outcomes.cases.push(record.clone());
            record
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::judge::Coverage;
    use crate::runner::protocol::Launch;
    use crate::spec::{Dtype, builtin_named};

    fn record(rows: u64, verdict: Verdict, codes: &[Code]) -> CaseRecord {
        let launch = Launch {
            kernel: "k".to_owned(),
            file: "/k.py".to_owned(),
            line: 1,
            grid: [1, 1, 1],
            programs: 1,
            programs_run: 1,
            tf32_dots: Vec::new(),
            ms: 0.0,
        };
        CaseRecord {
            case: Case {
                stage: Stage::Sweep,
                definition: "softmax".to_owned(),
                axes: BTreeMap::from([("M".to_owned(), rows)]),
                dtype: Dtype::Float16,
                layout: "contiguous".to_owned(),
                profile: crate::judge::DEFAULT_PROFILE.to_owned(),
                scalars: BTreeMap::new(),
                options: BTreeMap::new(),
                coverage: Coverage::Full,
            },
            verdict,
            findings: codes.iter().map(|code| Finding::plain(*code, code.name())).collect(),
            errors: Vec::new(),
            launches: vec![launch],
            seed: 1,
            elapsed_ms: 1.0,
        }
    }

    fn merged(gpu: Vec<CaseRecord>, beside: Result<Vec<CaseRecord>, String>) -> Outcomes {
        let mut outcomes = Outcomes { cases: gpu, ..Outcomes::default() };
        merge(&mut outcomes, beside.map(|cases| Outcomes { cases, ..Outcomes::default() }));
        outcomes
    }

    fn told(outcomes: &Outcomes) -> Vec<(Verdict, Vec<Code>)> {
        let codes = |record: &CaseRecord| record.findings.iter().map(|finding| finding.code).collect();
        outcomes.cases.iter().map(|record| (record.verdict, codes(record))).collect()
    }

    /// A race is one although the GPU's values were right, on the very case and on one that the GPU did not run.
    #[test]
    fn what_shadow_memory_sees_makes_a_passed_case_wrong() {
        let gpu =
            || vec![record(1, Verdict::Passed, &[]), record(2, Verdict::Passed, &[Code::Nondeterministic])];
        let beside = [1, 2, 3].map(|rows| record(rows, Verdict::Wrong, &[Code::Race]));
        let outcomes = merged(gpu(), Ok(beside[1..].to_vec()));
        assert_eq!(
            told(&outcomes),
            [
                (Verdict::Passed, vec![]),
                (Verdict::Wrong, vec![Code::Race, Code::Nondeterministic]),
                (Verdict::Wrong, vec![Code::Race]),
            ]
        );
        assert!(outcomes.cases[1].findings[0].message.ends_with("(seen in the interpreter)"));
        assert!(outcomes.not_run.is_empty());
    }

    /// Values that differ there, exceptions and things that it lacks say nothing of a GPU.
    #[test]
    fn what_the_interpreter_lacks_says_nothing() {
        let faults = [Code::Mismatch, Code::Raised, Code::CompileError, Code::Timeout, Code::Unsupported];
        let beside = faults.map(|code| record(1, code.verdict(), &[code]));
        let outcomes = merged(vec![record(1, Verdict::Passed, &[])], Ok(beside.to_vec()));
        assert_eq!(told(&outcomes), [(Verdict::Passed, vec![])]);
        assert!(outcomes.not_run.is_empty());
    }

    /// Where its first case does not pass it looks at no other, and that is told.
    #[test]
    fn an_interpreter_that_stopped_at_smoke_is_told() {
        let mut smoke = record(1, Verdict::Wrong, &[Code::Raised]);
        smoke.case.stage = Stage::Smoke;
        let outcomes = merged(vec![record(1, Verdict::Passed, &[])], Ok(vec![smoke]));
        assert_eq!(told(&outcomes), [(Verdict::Passed, vec![])]);
        assert_eq!(outcomes.not_run[0].why, "the interpreter could not look: raised");
    }

    /// That nobody looked is told, whatever the reason.
    #[test]
    fn an_interpreter_that_could_not_look_is_told() {
        let passed = || vec![record(1, Verdict::Passed, &[])];
        let lacking =
            CaseRecord { launches: Vec::new(), ..record(1, Verdict::CouldNotRun, &[Code::Unsupported]) };
        for beside in [Err("no worker".to_owned()), Ok(vec![lacking]), Ok(Vec::new())] {
            let outcomes = merged(passed(), beside);
            assert_eq!(told(&outcomes), [(Verdict::Passed, vec![])]);
            assert_eq!(outcomes.not_run.len(), 1);
            assert_eq!(outcomes.not_run[0].what, WHAT);
        }
    }

    #[test]
    fn the_cases_beside_are_few_and_of_one_dtype() {
        let definition = builtin_named("softmax").expect("a Definition of this binary");
        let plan = plan_beside(&[&definition], &CheckOptions::default(), 1);
        assert!((20..60).contains(&plan.cases.len()), "{}", plan.cases.len());
        assert!(plan.cases.iter().all(|case| case.dtype == Dtype::Float16));
        assert!(plan.cases.iter().any(|case| case.coverage == Coverage::Offsets));
        let edge = CheckOptions { stages: vec![Stage::Edge], ..CheckOptions::default() };
        assert!(plan_beside(&[&definition], &edge, 1).cases.is_empty());
    }
}
