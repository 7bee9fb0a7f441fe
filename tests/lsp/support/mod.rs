//! What all tests share.

mod client;
mod fake_checker;
mod reports;

pub(crate) use client::{Builder, Server};
pub(crate) use fake_checker::Call;
pub(crate) use reports::{
    case, could_not_run, failing, finding, launched, mismatch, passed_report, place, report_of, timing,
};

/// A file with one launched kernel, as both ends see it.
pub(crate) const COPY: &str = "\
import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(y_ptr + offsets, x)


def copy(x):
    y = torch.empty_like(x)
    copy_kernel[(1,)](x, y, x.numel(), BLOCK=16)
    return y
";

/// 1-based line of the load in [`COPY`].
pub(crate) const LOAD_LINE: u32 = 9;
