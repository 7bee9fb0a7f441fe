//! Draft the comment that says what a kernel computes.
//!
//! Offered on a kernel of which nothing says what is right, when one module-level function launches it. Names,
//! dimensions and scalars are read off the code, the reference is guessed from the names, dtypes and lengths
//! are a proposal: look at every word before you save.
//!
//! Before:
//! ```python
//! def silu(x):
//! ```
//! After:
//! ```python
//! # warpsmith: ref=torch.nn.functional.silu x=f16|f32[M,N] M=1,127 N=255,1000
//! def silu(x):
//! ```

pub(crate) const TITLE: &str = "Describe this kernel for warpsmith";
