//! A configuration gives the kernel a keyword that it does not take.

use crate::lint::facts::{File, argument};
use crate::lint::tuning::plain_string;
use crate::lint::{Check, Lint, Rule, Severity};
use crate::source::syntax::children;

pub(super) static RULE: Rule = Rule {
    name: "autotune-unknown-keyword",
    severity: Severity::Warning,
    summary: "a configuration sets a keyword that is neither a parameter of the kernel nor an option of Triton",
    page: include_str!("autotune_unknown_keyword.md"),
    check: Check::File(check),
};

/// Options of the compiler and launcher, of all back ends and versions that we know. They may stand in the
/// dictionary of a configuration too.
const OPTIONS: &[&str] = &[
    "num_warps",
    "num_stages",
    "num_ctas",
    "maxnreg",
    "pre_hook",
    "ir_override",
    "warp_size",
    "ptx_version",
    "ptx_options",
    "enable_fp_fusion",
    "enable_reflect_ftz",
    "sched4reg",
    "launch_cooperative_grid",
    "launch_pdl",
    "clc",
    "default_dot_input_precision",
    "max_num_imprecise_acc_default",
    "extern_libs",
    "debug",
    "sanitize_overflow",
    "instrumentation_mode",
    "min_shared_mem",
    "cluster_dims",
    "num_consumer_groups",
    "num_buffers_warp_spec",
    "reg_dec_producer",
    "reg_inc_consumer",
    "minRegAutoWS",
    "maxRegAutoWS",
    "waves_per_eu",
    "matrix_instr_nonkdim",
    "kpack",
    "allow_flush_denorm",
    "schedule_hint",
    "num_cpu_threads",
    "grf_mode",
];

fn check(file: &File<'_, '_>, found: &mut Vec<Lint>) {
    for kernel in &file.kernels {
        let Some(tuning) = &kernel.tuning else { continue };
        // Pruning may rewrite what a configuration sets, `**options` takes everything, and decorators that we do
        // not know may take keywords for themselves.
        let takes_all = kernel.parameters.iter().any(|name| name.starts_with('*'));
        if tuning.pruned || takes_all || !kernel.kernel.other_decorators.is_empty() {
            continue;
        }
        let mut told: Vec<&str> = Vec::new();
        for config in &tuning.configs {
            let Some(dictionary) = argument(*config, 0, "kwargs", file.text) else { continue };
            for pair in children(dictionary).into_iter().filter(|node| node.kind() == "pair") {
                let Some(key) = pair.child_by_field_name("key") else { continue };
                let Some(name) = plain_string(key, file.text) else { continue };
                if kernel.parameters.contains(name) || OPTIONS.contains(&name) || told.contains(&name) {
                    continue;
                }
                told.push(name);
                let message = format!(
                    "`{name}` is neither a parameter of `{}` nor an option of Triton: the launch of this \
                     configuration is refused",
                    kernel.kernel.name
                );
                found.push(RULE.at(key.byte_range(), message));
            }
        }
    }
}
