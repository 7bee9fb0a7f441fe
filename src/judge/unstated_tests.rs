use std::collections::BTreeMap;

use super::*;
use crate::judge::{Case, Coverage, Finding, Stage};
use crate::oracle::{ForeignFile, ForeignReference, OracleLabel, Variant};
use crate::spec::{Dtype, builtin_named};

fn oracle() -> Oracle {
    let mut definition = (*builtin_named("softmax").expect("a Definition of this binary")).clone();
    definition.outputs.clear();
    Oracle {
        label: OracleLabel { rung: 4, label: "ref=truth".to_owned() },
        entry: "f".to_owned(),
        variants: vec![Variant { definition: definition.into(), parameters: Vec::new() }],
        reference: Reference::Foreign(ForeignReference {
            file: ForeignFile::Same,
            function: "truth".to_owned(),
        }),
        stated_at: None,
        destinations: Vec::new(),
        left_out: Vec::new(),
        files: Vec::new(),
    }
}

fn record(codes: &[Code]) -> CaseRecord {
    let case = Case {
        stage: Stage::Smoke,
        definition: "softmax".to_owned(),
        axes: BTreeMap::new(),
        dtype: Dtype::Float32,
        layout: "contiguous".to_owned(),
        profile: "default".to_owned(),
        scalars: BTreeMap::new(),
        options: BTreeMap::new(),
        coverage: Coverage::Full,
    };
    CaseRecord {
        case,
        verdict: Verdict::Wrong,
        findings: codes.iter().map(|&code| Finding::plain(code, "told")).collect(),
        errors: Vec::new(),
        launches: Vec::new(),
        seed: 1,
        elapsed_ms: 1.0,
    }
}

/// The first finding's code stands beside the verdict in records.
#[test]
fn what_decides_stays_first() {
    for form in [Code::WrongDtype, Code::WrongOutputs] {
        for (codes, worst) in [
            (vec![form, Code::AliasesInput, Code::WeakTolerance], Code::AliasesInput),
            (vec![Code::WeakTolerance, form], Code::NotComparable),
            (vec![form], Code::NotComparable),
        ] {
            let eased = eased(record(&codes), &oracle());
            assert_eq!(eased.findings[0].code, worst, "{codes:?}");
            assert_eq!(eased.verdict, worst.verdict(), "{codes:?}");
        }
    }
}
