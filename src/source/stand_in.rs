//! A line-based stand-in for the parser until the branches meet; dropped at merge.

use super::{Kernel, KernelId, LaunchContext, LaunchSite, SourceModel};

pub(super) fn parse(text: &str) -> SourceModel {
    let mut lines = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        lines.push((start, line));
        start += line.len();
    }
    let mut model = SourceModel::default();
    let mut index = 0;
    while index < lines.len() {
        let (start, line) = lines[index];
        index += 1;
        if !line.starts_with("@triton.jit") {
            continue;
        }
        let Some((def_start, def)) = lines.get(index).filter(|(_, line)| line.starts_with("def ")) else {
            continue;
        };
        let Some(paren) = def.find('(') else { continue };
        let name = def["def ".len()..paren].trim().to_owned();
        let name_range = def_start + 4..def_start + 4 + name.len();
        let mut end = def_start + def.trim_end().len();
        index += 1;
        while let Some((at, line)) = lines.get(index).filter(|(_, line)| line.starts_with([' ', '\n'])) {
            if !line.trim().is_empty() {
                end = at + line.trim_end().len();
            }
            index += 1;
        }
        let launches = text
            .match_indices(&format!("{name}["))
            .map(|(at, launch)| LaunchSite {
                range: at..at + launch.len(),
                context: LaunchContext::Function,
                function: String::new(),
            })
            .collect();
        let code: Vec<&str> =
            text[start..end].lines().filter(|line| !line.trim_start().starts_with('#')).collect();
        model.kernels.push(Kernel {
            id: KernelId(name.clone()),
            name,
            name_range,
            range: start..end,
            parameters: Vec::new(),
            autotuned: false,
            heuristics: false,
            other_decorators: Vec::new(),
            launches,
            helpers: Vec::new(),
            content_hash: blake3::hash(code.join("\n").as_bytes()).to_string(),
        });
    }
    // Enough to know a half-typed `def`.
    model.first_error = lines
        .iter()
        .find(|(_, line)| line.starts_with("def ") && !line.trim_end().ends_with(':'))
        .map(|(at, line)| *at..at + line.len());
    model
}
