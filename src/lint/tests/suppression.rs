//! Comments that allow a finding.

use super::{clean, lints, only, rules};

fn kernel(above: &str, behind: &str) -> String {
    format!("@triton.jit\ndef kernel(x):\n    {above}\n    y = tl.arange(0, 3){behind}\n    return y\n")
}

#[test]
fn a_reason_allows() {
    clean(&kernel("# warpsmith: allow(arange-power-of-two) never compiled", ""));
    clean(&kernel("pass", "  # warpsmith: allow(arange-power-of-two) never compiled"));
    clean(&kernel("#warpsmith: allow( arange-power-of-two ) never compiled\n    # another remark", ""));
}

#[test]
fn what_allows_nothing_is_told() {
    let told = |code: &str| {
        let found = lints(code);
        found
            .iter()
            .find(|lint| lint.rule.name == "suppression")
            .map(|lint| lint.message.clone())
            .unwrap_or_default()
    };
    let no_reason = kernel("# warpsmith: allow(arange-power-of-two)", "");
    assert_eq!(rules(&no_reason), ["suppression", "arange-power-of-two"]);
    assert!(told(&no_reason).contains("say why"));
    let elsewhere = kernel("# warpsmith: allow(arange-power-of-two) why\n    z = 1", "");
    assert_eq!(rules(&elsewhere), ["suppression", "arange-power-of-two"]);
    assert!(told(&elsewhere).contains("nothing to allow here"));
    let unknown = kernel("# warpsmith: allow(arange) why", "");
    assert!(told(&unknown).contains("`arange` is no rule"));
    only("# warpsmith: allow(suppression) why\nx = 1\n", "suppression");
}

#[test]
fn several_rules_may_be_allowed_at_once() {
    let code = kernel("# warpsmith: allow(arange-power-of-two, int32-offset) both are small", "");
    // The second allows nothing here.
    assert_eq!(rules(&code), ["suppression"]);
}

#[test]
fn other_comments_are_not_read() {
    clean("# warpsmith: ref=torch.neg x=f32[N] N=5\ndef f(x): pass\n");
    clean("text = '# warpsmith: allow(int32-offset)'\n");
}

#[test]
fn broken_code_does_not_make_a_comment_useless() {
    let code = kernel("# warpsmith: allow(arange-power-of-two) why", "\n    z = (");
    assert!(rules(&code).is_empty());
}
