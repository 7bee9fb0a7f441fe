//! Which functions of PyTorch are a whole operation: who calls one of them has left it to a library.

/// Names as the worker reports them (`library.py`), by the kind of a Definition. Operations of which parts are commonly
/// and honestly left to PyTorch (the last sum of a reduction, one product of several) have none; there, a result that
/// needs no kernel at all is found by calling the function with kernels that store nothing.
pub(super) fn whole_operation(op_type: &str) -> &'static [&'static str] {
    match op_type {
        "softmax" => &["softmax", "log_softmax", "softmin"],
        "matmul" | "gemm" => &[
            "matmul",
            "mm",
            "bmm",
            "addmm",
            "baddbmm",
            "addbmm",
            "linear",
            "einsum",
            "tensordot",
            "mv",
            "inner",
            "scaled_mm",
            "chain_matmul",
            "multi_dot",
        ],
        "layernorm" => &["layer_norm", "native_layer_norm"],
        "rmsnorm" => &["rms_norm", "fused_rms_norm"],
        "flash_attention" => &["scaled_dot_product_attention", "multi_head_attention_forward"],
        "cross_entropy" => &["cross_entropy", "cross_entropy_loss", "nll_loss"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::builtin_named;

    #[test]
    fn kinds_are_those_of_definitions() {
        for name in ["softmax", "matmul", "layernorm", "rmsnorm", "cross_entropy", "flash_attention_causal"] {
            let definition = builtin_named(name).expect("a Definition of ours");
            assert!(!whole_operation(&definition.op_type).is_empty(), "{name}");
        }
        assert!(whole_operation("reduce").is_empty());
    }
}
