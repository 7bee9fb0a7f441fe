//! Rules on what is tuned.

use super::{clean, file, fixed, lints, only, rules};
use crate::lint::run;
use crate::source::parse;

const TWO: &str = "configs=[triton.Config({'BLOCK': 64}), triton.Config({'BLOCK': 128})]";

/// A tuned kernel: the decorator's further arguments and the body.
fn tuned(arguments: &str, body: &str) -> String {
    format!(
        "@triton.autotune({TWO}, {arguments})\n@triton.jit\ndef kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):\n    \
         offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    {body}\n"
    )
}

#[test]
fn a_key_is_a_parameter() {
    let code = tuned("key=['n', 'N']", "pass");
    let lint = only(&code, "autotune-unknown-name");
    let text = file(&code);
    assert_eq!(super::at(&text, &lint), "'N'");
    let titles: Vec<&str> = lint.fixes.iter().map(|fix| fix.title.as_str()).collect();
    assert_eq!(titles, ["Write `n`", "Remove `N` from `key`"]);
    assert!(fixed(&code, &lint.fixes[0]).contains("key=['n', 'n']"));
    assert!(fixed(&code, &lint.fixes[1]).contains("key=['n'])"));
    clean(&tuned("key=['n', 'BLOCK']", "pass"));
    clean(&tuned("key=KEYS", "pass"));
    clean(&tuned("key=['n'] + EXTRA", "pass"));
    clean(&tuned("['n']", "pass"));
}

#[test]
fn an_entry_is_removed_with_its_comma() {
    for (keys, left) in [
        ("['wrong', 'n']", "key=['n']"),
        ("['wrong',\n'n']", "key=[\n'n']"),
        ("['wrong']", "key=[]"),
        ("['n', 'wrong', ]", "key=['n', ]"),
    ] {
        let code = tuned(&format!("key={keys}"), "pass");
        let lint = only(&code, "autotune-unknown-name");
        let after = fixed(&code, lint.fixes.last().expect("a fix"));
        assert!(after.contains(left), "{keys}: {after}");
    }
}

#[test]
fn names_behind_a_name_and_in_wrappers_count() {
    let code = format!("KEYS = ['m']\n{}", tuned("key=KEYS", "pass"));
    assert_eq!(super::at(&file(&code), &only(&code, "autotune-unknown-name")), "KEYS");
    let wrapper = tuned("key=['m']", "pass").replace("triton.autotune", "cached_autotune");
    only(&wrapper, "autotune-unknown-name");
    let bound_twice = format!("KEYS = ['m']\nKEYS = ['n']\n{}", tuned("key=KEYS", "pass"));
    clean(&bound_twice);
}

#[test]
fn restored_and_reset_names_are_parameters() {
    only(&tuned("key=['n'], restore_value=['z_ptr_']", "pass"), "autotune-unknown-name");
    only(&tuned("key=['n'], reset_to_zero=['zero']", "pass"), "autotune-unknown-name");
    clean(&tuned("key=['n'], reset_to_zero=None", "pass"));
    let any = tuned("key=['m']", "pass").replace("n, BLOCK", "*n, BLOCK");
    clean(&any);
}

#[test]
fn keywords_of_configurations() {
    let with = |config: &str| tuned("key=['n']", "pass").replacen("'BLOCK': 64", config, 1);
    let code = with("'BLOCK': 64, 'BLOCK_M': 2");
    assert_eq!(super::at(&file(&code), &only(&code, "autotune-unknown-keyword")), "'BLOCK_M'");
    clean(&with("'BLOCK': 64, 'waves_per_eu': 2"));
    clean(&with("'BLOCK': 64, NAME: 2"));
    clean(
        &with("'BLOCK': 64, 'BLOCK_M': 2")
            .replace("key=", "prune_configs_by={'early_config_prune': f}, key="),
    );
    clean(&with("'BLOCK': 64, 'BLOCK_M': 2").replace("@triton.jit", "@library.entry\n@triton.jit"));
    let listed = "def configs():\n    return [triton.Config({'BLOCK_M': b}) for b in [1, 2]]\n\n";
    let code = tuned("key=['n']", "pass").replace(TWO, "configs=configs()");
    only(&format!("{listed}{code}"), "autotune-unknown-keyword");
}

const IN_PLACE: &str = "x = tl.load(x_ptr + offsets)\n    tl.store(x_ptr + offsets, x + 1)";

#[test]
fn what_is_overwritten_is_restored() {
    let code = tuned("key=['n']", IN_PLACE);
    let lint = only(&code, "autotune-in-place");
    assert!(fixed(&code, &lint.fixes[0]).contains("key=['n'], restore_value=[\"x_ptr\"])"));
    let listed = tuned("key=['n'], restore_value=['y_ptr']", IN_PLACE);
    let lint = only(&listed, "autotune-in-place");
    assert!(fixed(&listed, &lint.fixes[0]).contains("restore_value=['y_ptr', \"x_ptr\"]"));
    clean(&tuned("key=['n'], restore_value=['x_ptr']", IN_PLACE));
    clean(&tuned("key=['n'], restore_value=NAMES", IN_PLACE));
    clean(&tuned("key=['n'], pre_hook=reset", IN_PLACE));
    // One configuration is not tried.
    clean(&code.replace(", triton.Config({'BLOCK': 128})", ""));
    clean(&code.replace("@triton.autotune", "# @triton.autotune"));
}

#[test]
fn a_pointer_is_followed_through_names() {
    let body = "p = tl.make_block_ptr(x_ptr + 4, (n,), (1,), (0,), (BLOCK,), (0,))\n    x = tl.load(p)\n    \
                tl.store(p, x + 1)";
    only(&tuned("key=['n']", body), "autotune-in-place");
}

#[test]
fn other_memory_is_no_place() {
    for body in [
        "x = tl.load(x_ptr + offsets)\n    tl.store(y_ptr + offsets, x)",
        // Another part of the tensor.
        "x = tl.load(x_ptr + offsets)\n    tl.store(x_ptr + n + offsets, x)",
        // Its own values.
        "tl.store(x_ptr + offsets, 1)\n    x = tl.load(x_ptr + offsets)\n    tl.store(x_ptr + offsets, x + 1)",
        // Nobody can tell which.
        "p = x_ptr if n > 4 else y_ptr\n    x = tl.load(p)\n    tl.store(p, x)",
    ] {
        clean(&tuned("key=['n']", body));
    }
}

const ATOMIC: &str = "tl.atomic_add(y_ptr + offsets, tl.load(x_ptr + offsets))";

#[test]
fn what_is_added_to_is_reset() {
    let code = tuned("key=['n']", ATOMIC);
    let lint = only(&code, "autotune-atomics");
    assert_eq!(lint.fixes.len(), 2);
    assert!(fixed(&code, &lint.fixes[0]).contains("reset_to_zero=[\"y_ptr\"]"));
    assert!(fixed(&code, &lint.fixes[1]).contains("restore_value=[\"y_ptr\"]"));
    clean(&tuned("key=['n'], reset_to_zero=['y_ptr']", ATOMIC));
    clean(&tuned("key=['n']", &ATOMIC.replace("atomic_add", "atomic_max")));
    clean(&tuned("key=['n']", &format!("tl.store(y_ptr + offsets, 0)\n    {ATOMIC}")));
    clean(&tuned("key=['n']", ATOMIC).replace("{'BLOCK': 64}", "{'BLOCK': 64}, pre_hook=zero"));
    assert_eq!(rules(&tuned("key=['n'], **options", ATOMIC)), ["autotune-atomics"]);
    assert!(lints(&tuned("key=['n'], **options", ATOMIC))[0].fixes.is_empty());
}

#[test]
fn a_kernel_without_tuning_is_none_of_these() {
    let code = tuned("key=['m'], restore_value=['z']", &format!("{IN_PLACE}\n    {ATOMIC}"));
    let text = file(code.split_once(")\n").expect("a decorator").1);
    assert!(run(&parse(&text), &text).is_empty());
}
