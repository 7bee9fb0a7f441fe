//! No text makes the rules fail.

use proptest::prelude::*;

use super::file;
use crate::lint::run;
use crate::source::parse;

/// Every finding and edit lies in the text.
fn check(text: &str) -> Result<(), TestCaseError> {
    for lint in run(&parse(text), text) {
        prop_assert!(text.get(lint.range.clone()).is_some(), "{lint:?}");
        for edit in lint.fixes.iter().flat_map(|fix| &fix.edits) {
            prop_assert!(text.get(edit.range.clone()).is_some(), "{lint:?}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text(text in "\\PC{0,200}") {
        check(&text)?;
    }

    #[test]
    fn truncated_files(end in 0usize..2_000) {
        let text = file(include_str!("every_rule.py"));
        check(text.get(..end.min(text.len())).unwrap_or_default())?;
    }

    #[test]
    fn damaged_files(
        start in 0usize..1_200,
        length in 0usize..60,
        patch in "[\\[\\](){}@:.,='\"\\\\#*+\n \ttladefijlmpr_0-9é]{0,12}",
    ) {
        let text = file(include_str!("every_rule.py"));
        let (start, end) = (start.min(text.len()), (start + length).min(text.len()));
        if let (Some(before), Some(after)) = (text.get(..start), text.get(end..)) {
            check(&format!("{before}{patch}{after}"))?;
        }
    }
}

#[test]
fn deep_and_cyclic_kernels_end() {
    let kernel = |body: &str| file(&format!("@triton.jit\ndef k(x, row_stride):\n    {body}\n"));
    let chain: String =
        (0..1_000).map(|i| format!("a{i} = a{} + a{}\n    ", i + 1, (i * 7) % 1_000)).collect();
    let sum = format!("tl.store(x{} , 1)", " + tl.program_id(0) * row_stride".repeat(2_000));
    let nested = format!("tl.store(x + {}1{}, 1)", "(".repeat(5_000), ")".repeat(5_000));
    for body in [
        format!("{chain}tl.store(x + a0 * row_stride, a0)"),
        sum,
        nested,
        "a = b\n    b = a\n    tl.load(a)".to_owned(),
    ] {
        let text = kernel(&body);
        run(&parse(&text), &text);
    }
}
