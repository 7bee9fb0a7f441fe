//! Bugs that users reported in public, planted in small kernels of ours: each is found at its very line
//! (`# BUG: code` stands there) or on its case (`# CASE: code key=value`). Where a file says how it is mended
//! (`# RIGHT: …` above the faulty line), the mended twin passes everything.

use crate::harness::{Sandbox, python_or_skip};
use crate::markers::{assert_found, bug_file, bug_text, mended};

fn check_bug(name: &str, options: &[&str]) {
    let Some(python) = python_or_skip(name) else { return };
    let checked = Sandbox::new(python).check(&bug_file(name), options);
    assert_eq!((checked.verdict(), checked.exit), ("wrong", Some(1)), "{}", checked.describe());
    assert_found(&checked, &bug_file(name), &bug_text(name));
}

fn check_bug_and_twin(name: &str, options: &[&str]) {
    check_bug(name, options);
    let Some(python) = python_or_skip(name) else { return };
    let sandbox = Sandbox::new(python);
    let right = sandbox.check(&sandbox.write("twin.py", &mended(&bug_text(name))), options);
    assert_eq!((right.verdict(), right.exit), ("passed", Some(0)), "{}", right.describe());
    assert_eq!(right.codes(), Vec::<String>::new(), "{}", right.describe());
}

macro_rules! planted {
    ($($test:ident: $file:literal $(, $option:literal)*;)*) => {
        $(#[test]
        fn $test() {
            check_bug($file, &[$($option),*]);
        })*
    };
}

planted! {
    d01_tail_mask_of_the_sum: "d01_no_tail_mask.py";
    d02_store_without_bounds: "d02_no_bounds.py";
    d03_block_that_is_no_power_of_two: "d03_block_shape.py", "--dtype", "f32";
    d04_offset_that_wraps: "d04_int32_offset.py", "--dtype", "f16";
    d08_atomic_sum_into_unset_memory: "d08_split_k.py", "--dtype", "f32";
    d10_empty_tensor: "d10_empty.py", "--dtype", "f32";
    d29_rows_that_nobody_writes: "d29_unwritten.py";
    d30_sum_in_bfloat16: "d30_bf16_sum.py", "--dtype", "bf16";
    race_between_programs: "race.py", "--dtype", "f32";
}

macro_rules! with_twin {
    ($($test:ident: $file:literal $(, $option:literal)*;)*) => {
        $(#[test]
        fn $test() {
            check_bug_and_twin($file, &[$($option),*]);
        })*
    };
}

with_twin! {
    d05_product_that_rounds_to_tf32: "d05_tf32_dot.py", "--dtype", "f32";
    d06_tuning_that_scales_again_and_again: "d06_tuned_twice.py";
    d07_configurations_that_write_half_each: "d07_half_each.py";
    d09_input_read_as_if_contiguous: "d09_flat_input.py", "--dtype", "f32";
    d09_output_written_as_if_contiguous: "d09_flat_output.py", "--dtype", "f32";
    d12_row_whose_first_tile_is_masked: "d12_masked_row.py";
    d12_zeros_where_the_reference_says_nan: "d12_guarded_row.py", "--dtype", "f32";
    d22_one_configuration_of_three: "d22_one_configuration.py";
    d38_global_with_an_annotation_only: "d38_annotated_global.py";
    d38_plain_global: "d38_plain_global.py";
}

/// A bug in float32 alone, or on one shape alone, never hides behind the cases that pass.
#[test]
fn wrong_on_one_case_is_wrong() {
    let Some(python) = python_or_skip("wrong_on_one_case_is_wrong") else { return };
    let checked = Sandbox::new(python).check(&bug_file("d10_empty.py"), &["--dtype", "f32"]);
    let passed = checked.cases.iter().filter(|case| case["verdict"] == "passed").count();
    assert!(passed > 5, "{}", checked.describe());
    assert_eq!(checked.exit, Some(1));
}

/// What people read: a case counts once, however many findings it has of a kind at a line, and the line to
/// replay it asks for the same cases.
#[test]
fn the_text_counts_cases_and_replays_what_was_asked() {
    let Some(python) = python_or_skip("the_text_counts_cases") else { return };
    let text = bug_text("d04_int32_offset.py");
    // `other` without `mask` is refused in each program of the launch.
    let sandbox = Sandbox::new(python);
    let file = sandbox.write("without masks.py", &text.replace("mask=offsets < columns, other", "other"));
    let narrow = ["check", "--no-setup", "--dtype", "f32", "--stage", "smoke"];
    let output = sandbox.warpsmith().args(narrow).arg(&file).output().expect("the binary runs");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    assert!(stdout.contains("0 of 1 cases passed"), "{stdout}");
    assert!(stdout.contains("case: smoke M=") && !stdout.contains(", and "), "{stdout}");
    let replay = format!("replay: warpsmith check '{}' --dtype f32 --stage smoke --seed ", file.display());
    assert!(stdout.contains(&replay), "{stdout}");
}
