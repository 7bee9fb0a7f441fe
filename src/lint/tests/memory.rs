//! Rules on what a kernel computes and how it is launched.

use super::{clean, file, fixed, only, rules};

fn kernel(body: &str) -> String {
    format!("@triton.jit\ndef kernel(x_ptr, out_ptr, n, x_row_stride, BLOCK: tl.constexpr):\n    {body}\n")
}

#[test]
fn ranges_are_powers_of_two() {
    for bounds in ["0, 3", "0, 0x60", "1, 6", "0, 0", "8, 4", "0, 1_000", "start=0, end=3"] {
        only(&kernel(&format!("x = tl.arange({bounds})")), "arange-power-of-two");
    }
    for bounds in ["0, 4", "0, 1", "4, 8", "1, 5", "0, BLOCK", "0, 3 * 2", "*bounds"] {
        clean(&kernel(&format!("x = tl.arange({bounds})")));
    }
    clean("x = tl.arange(0, 3)\n");
    clean(&kernel("x = np.arange(0, 3)"));
}

#[test]
fn globals_are_constexpr() {
    let with = |value: &str| format!("LIMIT {value}\n\n\n{}", kernel("x = n + LIMIT"));
    for value in ["= 4", "= -1.5", "= 'ieee'", ": tl.constexpr = 4", "= float('inf')"] {
        let code = with(value);
        let lint = only(&code, "global-not-constexpr");
        assert!(fixed(&code, &lint.fixes[0]).contains("= tl.constexpr("), "{value}");
    }
    for value in ["= tl.constexpr(4)", "= tl.float32", "= other()", "= 4\nLIMIT = 5", ": int"] {
        clean(&with(value));
    }
    // Host code reads it too: the fix could break that.
    let code = format!("{}\n\nprint(LIMIT)\n", with("= 4"));
    assert!(only(&code, "global-not-constexpr").fixes.is_empty());
}

#[test]
fn names_of_the_kernel_are_no_globals() {
    clean(&format!("n = 4\n\n{}", kernel("x = n + 1")));
    clean(&format!("y = 4\n\n{}", kernel("y = n\n    x = y + 1")));
    clean(&format!("dtype = 4\n\n{}", kernel("x = n.dtype\n    y = tl.zeros([4], dtype=x)")));
    clean("SIZE = 4\n\n@triton.jit\ndef kernel(x, BLOCK: tl.constexpr = SIZE):\n    pass\n");
    let allowed =
        format!("os.environ['TRITON_ALLOW_NON_CONSTEXPR_GLOBALS'] = '1'\nY = 4\n{}", kernel("x = Y"));
    clean(&allowed);
}

#[test]
fn rows_are_counted_in_64_bits() {
    let code =
        kernel("row = tl.program_id(0)\n    x = tl.load(x_ptr + row * x_row_stride + tl.arange(0, BLOCK))");
    let lint = only(&code, "int32-offset");
    assert_eq!(super::at(&file(&code), &lint), "row * x_row_stride");
    assert!(fixed(&code, &lint.fixes[0]).contains("row.to(tl.int64) * x_row_stride"));
    for offset in [
        "tl.program_id(0) * x_row_stride",
        "(tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None] * x_row_stride",
        "tl.arange(0, BLOCK) + tl.program_id(0) // 2 * x_row_stride",
        "(4 + x_row_stride * tl.program_id(0))",
    ] {
        let code = kernel(&format!("x = tl.load(x_ptr + {offset})"));
        fixed(&code, &only(&code, "int32-offset").fixes[0]);
    }
    let moved = kernel("x_ptr += tl.program_id(0) * x_row_stride\n    x = tl.load(x_ptr)");
    only(&moved, "int32-offset");
}

#[test]
fn offsets_that_are_wide_or_small_are_left_alone() {
    for body in [
        "row = tl.program_id(0).to(tl.int64)\n    x = tl.load(x_ptr + row * x_row_stride)",
        "row = tl.cast(tl.program_id(0), tl.int64)\n    x = tl.load(x_ptr + row * x_row_stride)",
        "row = tl.load(out_ptr)\n    x = tl.load(x_ptr + row * x_row_stride)",
        "x = tl.load(x_ptr + tl.arange(0, BLOCK) * x_row_stride)",
        "x = tl.load(x_ptr + tl.program_id(0) * BLOCK)",
        "x = tl.load(x_ptr + tl.program_id(0) * n)",
        // Compared, not read through.
        "mask = tl.program_id(0) * x_row_stride < n\n    x = tl.load(x_ptr, mask=mask)",
    ] {
        clean(&kernel(body));
    }
    let wide = kernel("x = tl.load(x_ptr + tl.program_id(0) * x_row_stride)");
    clean(&wide.replace("x_row_stride,", "x_row_stride: tl.int64,"));
}

#[test]
fn sums_are_wide() {
    only(&kernel("x = tl.load(x_ptr).to(tl.bfloat16)\n    y = tl.sum(x, axis=0)"), "narrow-sum");
    only(&kernel("y = tl.cumsum(n.to(tl.float16) * n.to(tl.float16))"), "narrow-sum");
    for body in [
        "x = tl.load(x_ptr)\n    y = tl.sum(x, axis=0)",
        "x = tl.load(x_ptr).to(tl.float32)\n    y = tl.sum(x, axis=0)",
        "x = tl.load(x_ptr).to(tl.bfloat16)\n    y = tl.sum(x.to(tl.float32))",
        "x = tl.load(x_ptr).to(tl.bfloat16)\n    y = tl.sum(x, dtype=tl.float32)",
        "x = tl.load(x_ptr).to(tl.bfloat16)\n    y = tl.sum(x * n)",
    ] {
        clean(&kernel(body));
    }
}

/// A kernel that adds to `out_ptr`, and a function that launches it.
fn adding(before: &str) -> String {
    format!(
        "{}\n\ndef run(x):\n    {before}\n    kernel[(4,)](x, out, x.numel(), 1, BLOCK=64)\n",
        kernel("tl.atomic_add(out_ptr, tl.load(x_ptr))")
    )
}

#[test]
fn what_is_added_to_starts_at_something() {
    for (empty, zeros) in [
        ("torch.empty(4)", "torch.zeros(4)"),
        ("torch.empty_like(x)", "torch.zeros_like(x)"),
        ("x.new_empty(4)", "x.new_zeros(4)"),
    ] {
        let code = adding(&format!("out = {empty}"));
        let lint = only(&code, "atomic-into-empty");
        assert!(fixed(&code, &lint.fixes[0]).contains(zeros));
    }
    for before in [
        "out = torch.zeros(4)",
        "out = torch.empty(4)\n    out.zero_()",
        "out = torch.empty(4)\n    fill(out)",
        "out = torch.empty(4)\n    out = torch.zeros(4)",
        "out = torch.empty(4).zero_()",
        "out, other = torch.empty(4), 1",
        "pass",
    ] {
        clean(&adding(before));
    }
    clean(
        &adding("out = torch.empty(4)").replace("tl.atomic_add", "tl.store(out_ptr, 0)\n    tl.atomic_add"),
    );
    clean(&adding("out = torch.empty(4)").replace("(x, out,", "(*x, out,"));
    let by_name = adding("out = torch.empty(4)")
        .replace("(x, out,", "(x, out_ptr=out, n=")
        .replace("1, BLOCK", "BLOCK");
    only(&by_name, "atomic-into-empty");
}

fn launched(grid: &str) -> String {
    format!("{}\n\ndef run(x, B, H, bsz):\n    {grid}\n", kernel("pass"))
}

#[test]
fn batches_stand_on_the_first_axis() {
    for grid in [
        "kernel[(4, B)](x)",
        "kernel[4, 4, B * H](x)",
        "grid = (4, bsz)\n    kernel[grid](x)",
        "grid = lambda meta: (triton.cdiv(4, meta['BLOCK']), B * H)\n    kernel[grid](x)",
        "def grid(meta): return (meta['BLOCK'], H * B)\n    kernel[grid](x)",
    ] {
        only(&launched(grid), "grid-axis-limit");
    }
    for grid in [
        "kernel[(B,)](x)",
        "kernel[(B * H, 4)](x)",
        "kernel[(4, H)](x)",
        "kernel[(4, triton.cdiv(B, 64))](x)",
        "kernel[(4, min(B, 65535))](x)",
        "other[(4, B)](x)",
    ] {
        clean(&launched(grid));
    }
    only(&launched("input = x  # descending\n    kernel[(4, B)](x)"), "grid-axis-limit");
    clean(&format!("import torch_npu\n{}", launched("kernel[(4, B)](x)")));
    assert_eq!(rules(&launched("grid = (4, B)\n    kernel[grid](x)\n    kernel[grid](x)")).len(), 1);
}
