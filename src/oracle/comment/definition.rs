//! A comment that names a Definition instead of a reference: `definition=./rmsnorm.json M=1,127`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use serde_json::Value as Json;

use super::define::{MOST_CASES, json};
use super::grammar::{Literal, Profile, Tensor, Value};
use super::parse::{CommentError, Parsed};
use super::{Judged, Statement, miss};
use crate::oracle::conventions::flashinfer::{self, Solution, Stated, Told};
use crate::oracle::{LeftOut, MissKind, Oracle, OracleMiss};
use crate::spec::{AxisKind, AxisValues, Definition, Dtype, FillSpec, builtin, builtin_named};

/// The Definition that the items name.
pub(super) fn named(parsed: &Parsed) -> Option<(&str, Range<usize>)> {
    let items = parsed.comment.items.iter().zip(&parsed.ranges);
    items.into_iter().find_map(|(item, range)| match &item.value {
        Value::Definition(name) => Some((name.as_str(), range.clone())),
        _ => None,
    })
}

pub(super) fn oracle(statement: &Statement<'_>, judged: &Judged<'_>) -> Result<Oracle, OracleMiss> {
    let (name, range) = named(statement.parsed).unwrap_or(("", statement.parsed.range.clone()));
    let at = |kind| OracleMiss::new(kind, Some(range.clone()));
    let stated = stated(name, statement.base).map_err(|problem| at(MissKind::Comment(problem)))?;
    let told = told(statement.parsed, &stated.definition).map_err(miss)?;
    let solution = Solution { stated, entry: statement.entry, destination_passing: None, told };
    let mut oracle = flashinfer::oracle(solution, judged.text, judged.model).map_err(at)?;
    oracle.label.rung = 4;
    oracle.label.label = oracle.label.label.replacen("FlashInfer-Bench", "comment · Definition", 1);
    oracle.stated_at = Some(range);
    Ok(oracle)
}

fn stated(name: &str, base: &Path) -> Result<Stated, String> {
    if name.ends_with(".json") {
        let path = base.join(name.trim_start_matches("./"));
        return flashinfer::read(&path);
    }
    builtin_named(name).map(|definition| Stated { definition, path: None }).ok_or_else(|| {
        let known: Vec<&str> = builtin().iter().map(|definition| definition.name.as_str()).collect();
        format!(
            "`definition={name}`: no Definition of this name comes with warpsmith; name a file \
             (`definition=./{name}.json`), or one of {}",
            known.join(", ")
        )
    })
}

/// What the other items say: lengths of axes, scalars, and how tensors are drawn.
fn told(parsed: &Parsed, definition: &Definition) -> Result<Told, CommentError> {
    let mut told = Told::default();
    let mut lengths: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut first_length: Option<Range<usize>> = None;
    for (item, range) in parsed.comment.items.iter().zip(&parsed.ranges) {
        let key = item.key.as_str();
        let fail = |why: String| Err(CommentError::new(why, range.clone()));
        match &item.value {
            Value::Definition(_) => {}
            Value::Sum(sum) => told.reduction = Some(sum.clone()),
            Value::Precision(precision) => told.precision = Some(*precision),
            Value::Scalars(values) => {
                match (definition.axis(key).map(|axis| axis.kind), definition.input(key)) {
                    (Some(AxisKind::Const { value }), _) => {
                        return fail(format!(
                            "the axis `{key}` of `{}` is always {value}; remove it",
                            definition.name
                        ));
                    }
                    (Some(AxisKind::Var), _) => {
                        first_length.get_or_insert_with(|| range.clone());
                        lengths.insert(key.to_owned(), lengths_of(key, values, range)?);
                    }
                    (None, Some(spec)) if spec.is_scalar() => {
                        if let Some(wrong) = values.iter().find(|value| !suits(**value, spec.dtype)) {
                            return fail(format!(
                                "`{wrong}` does not suit the scalar `{key}`, whose dtype is {}",
                                spec.dtype
                            ));
                        }
                        let mut values = values.iter().copied().map(json);
                        told.args.extend(values.next().map(|value| (key.to_owned(), value)));
                        let others: Vec<Json> = values.collect();
                        if !others.is_empty() {
                            told.vary.insert(key.to_owned(), others);
                        }
                    }
                    _ => return fail(unknown(key, definition)),
                }
            }
            Value::Tensor(tensor) => {
                let fill =
                    fill(key, tensor, definition).map_err(|why| CommentError::new(why, range.clone()))?;
                told.fills.insert(key.to_owned(), fill);
            }
            Value::Reference(_) => {
                return fail("name either a Definition or a reference, not both".to_owned());
            }
            other => return fail(format!("`{key}={other}`: has no meaning beside `definition=`; remove it")),
        }
    }
    if let Some(range) = first_length {
        let (sizes, left_out) =
            crossed(&lengths, &told, definition).map_err(|why| CommentError::new(why, range))?;
        (told.sizes, told.left_out) = (sizes, left_out);
    }
    Ok(told)
}

/// A whole number may stand for a float, nothing else for anything else.
fn suits(value: Literal, dtype: Dtype) -> bool {
    match value {
        Literal::Bool(_) => dtype == Dtype::Bool,
        Literal::Integer(_) => dtype != Dtype::Bool,
        Literal::Float(_) => dtype.is_float(),
    }
}

fn unknown(key: &str, definition: &Definition) -> String {
    let axes = definition.var_axes().into_iter();
    let scalars =
        definition.inputs.iter().filter(|(_, spec)| spec.is_scalar()).map(|(name, _)| name.as_str());
    let known: Vec<String> = axes.chain(scalars).map(|name| format!("`{name}`")).collect();
    format!(
        "`{key}` is neither a variable axis nor a scalar of `{}`; it has {}",
        definition.name,
        if known.is_empty() { "none of either".to_owned() } else { known.join(", ") }
    )
}

fn lengths_of(axis: &str, values: &[Literal], range: &Range<usize>) -> Result<Vec<u64>, CommentError> {
    let length = |value: &Literal| match value {
        Literal::Integer(length) => u64::try_from(*length).ok(),
        _ => None,
    };
    values
        .iter()
        .map(|value| {
            length(value).ok_or_else(|| {
                let message =
                    format!("`{value}` is no length of the axis `{axis}`; write whole numbers from 0");
                CommentError::new(message, range.clone())
            })
        })
        .collect()
}

/// `idx=i64[M]:int(0,N)`: only how it is drawn is new; the rest must be as in the Definition.
fn fill(name: &str, tensor: &Tensor, definition: &Definition) -> Result<FillSpec, String> {
    let Some(spec) = definition.input(name).filter(|spec| !spec.is_scalar()) else {
        return Err(format!("`{name}` is no tensor that `{}` takes", definition.name));
    };
    let rank = spec.shape.as_ref().map_or(0, Vec::len);
    if tensor.out || tensor.dtypes != [spec.dtype] || tensor.dims.len() != rank {
        return Err(format!(
            "the Definition says that `{name}` is {} with {rank} dimensions; write that, followed by how it is drawn, such \
             as `:int(0,100)`",
            spec.dtype.short()
        ));
    }
    match (&tensor.profile, spec.dtype.is_float()) {
        (None, _) => {
            Err(format!("`{name}` is described by the Definition already; add how it is drawn, or remove it"))
        }
        (Some(Profile::Integers { low, high }), _) => {
            let names = low.names().chain(high.names()).map(|(name, _)| name);
            if let Some(unknown) = names.into_iter().find(|name| definition.axis(name).is_none()) {
                return Err(format!(
                    "the range of `{name}` names `{unknown}`, which is no axis of the Definition"
                ));
            }
            Ok(FillSpec::Integers { low: low.clone(), high: high.clone() })
        }
        (Some(Profile::Normal { mean, std }), true) => Ok(FillSpec::Normal { mean: *mean, std: *std }),
        (Some(Profile::Uniform { low, high }), true) if low < high => {
            Ok(FillSpec::Uniform { low: *low, high: *high })
        }
        (Some(Profile::Uniform { .. }), true) => {
            Err("the range is empty; the upper bound is not reached".to_owned())
        }
        (Some(_), false) => Err("whole numbers are drawn with int(low,high)".to_owned()),
    }
}

type Sizes = Vec<(String, AxisValues)>;

/// Every combination of the lengths that the Definition allows; the others are told of.
fn crossed(
    lengths: &BTreeMap<String, Vec<u64>>,
    told: &Told,
    definition: &Definition,
) -> Result<(Sizes, Vec<LeftOut>), String> {
    let given = definition.axes_given_by_constraints();
    let follows = |axis: &str| given.iter().any(|(name, _)| *name == axis);
    let free = definition.var_axes();
    if let Some(missing) = free.iter().find(|axis| !lengths.contains_key(**axis) && !follows(axis)) {
        return Err(format!(
            "the axis `{missing}` of `{}` has no lengths; add some, such as `{missing}=1,127`",
            definition.name
        ));
    }
    let counts = lengths.values().map(Vec::len).chain(told.vary.values().map(|values| values.len() + 1));
    let cases = counts.fold(1_u64, |product, count| product.saturating_mul(count as u64));
    if cases > MOST_CASES {
        return Err(format!(
            "the lists ask for {cases} combinations; at most {MOST_CASES} are run for each dtype: shorten the lists"
        ));
    }
    let mut all = vec![AxisValues::new()];
    for (axis, values) in lengths {
        let with = |axes: &AxisValues, value: u64| {
            let mut axes = axes.clone();
            axes.insert(axis.clone(), value);
            axes
        };
        all = all.iter().flat_map(|axes| values.iter().map(move |&value| with(axes, value))).collect();
    }
    let (mut sizes, mut left_out): (Sizes, Vec<LeftOut>) = (Vec::new(), Vec::new());
    for mut axes in all {
        for (axis, expression) in given.iter().filter(|(axis, _)| !lengths.contains_key(*axis)) {
            match definition.constraint_value(expression, &axes) {
                Some(value) => drop(axes.insert((*axis).to_owned(), value)),
                None => {
                    return Err(format!("`{axis}` cannot be computed from `{expression}`; give its lengths"));
                }
            }
        }
        let violated = flashinfer::violated(definition, &axes);
        let size = flashinfer::named(axes);
        match violated {
            Some(why) => left_out.push(LeftOut::new(size.0, why)),
            None if sizes.contains(&size) => {}
            None => sizes.push(size),
        }
    }
    match left_out.first() {
        Some(first) if sizes.is_empty() => {
            Err(format!("nothing is left to run: {} is left out because {}", first.what, first.why))
        }
        _ => Ok((sizes, left_out)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use crate::oracle::{MissKind, Oracle, Reference, find};
    use crate::source::parse;
    use crate::spec::Fill;

    const KERNEL: &str = "import triton\n\n\n@triton.jit\ndef kernel(x): pass\n\n\n";

    /// What a comment says of `gather(table, index, scale)` beside its Definition.
    fn with(items: &str) -> Result<Oracle, String> {
        let folder = tempfile::tempdir().unwrap();
        let definition = json!({
            "name": "gather", "op_type": "gather",
            "axes": {"rows": {"type": "var"}, "lines": {"type": "var"}, "width": {"type": "const", "value": 8}},
            "inputs": {
                "table": {"shape": ["rows", "width"], "dtype": "float32"},
                "index": {"shape": ["lines"], "dtype": "int64"},
                "scale": {"shape": null, "dtype": "float32"},
            },
            "outputs": {"out": {"shape": ["lines", "width"], "dtype": "float32"}},
            "constraints": ["lines >= 2"],
            "reference": "def run(table, index, scale):\n    return table[index] * scale\n",
        });
        fs::write(folder.path().join("gather.json"), definition.to_string()).unwrap();
        let entry = "def gather(table, index, scale): kernel[(1,)](table)\n";
        let text = format!("{KERNEL}# warpsmith: {items}\n{entry}");
        find(&folder.path().join("k.py"), &text, &parse(&text), None).map_err(|miss| {
            let place = &text[miss.range.clone().expect("a place")];
            format!("{miss}\n    at: {place}").replace(&format!("{}/", folder.path().display()), "")
        })
    }

    #[test]
    fn lengths_scalars_and_ranges_complete_a_definition() {
        let items = "definition=./gather.json rows=3,5 lines=1,7 scale=0.5,2.0 index=i64[lines]:int(0,rows) tol=sum(width)";
        let oracle = with(items).unwrap();
        assert_eq!((oracle.label.rung, oracle.entry.as_str()), (4, "gather"));
        assert_eq!(oracle.label.label, "comment · Definition gather · reference of gather.json");
        assert!(matches!(oracle.reference, Reference::Foreign(_)));
        let definition = &oracle.variants[0].definition;
        let sizes: Vec<&str> = definition.extras.sizes.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(sizes, ["lines=7 rows=3", "lines=7 rows=5"]);
        assert_eq!(oracle.left_out.len(), 2);
        assert_eq!(oracle.left_out[0].why, "it violates the constraint `lines >= 2`");
        assert_eq!(definition.scalar_default("scale"), Some(&json!(0.5)));
        assert_eq!(definition.extras.vary["scale"], [json!(2.0)]);
        let axes = &definition.extras.sizes[0].1;
        assert_eq!(definition.fill("index", axes), Ok(Some(Fill::Integers { low: 0, high: 3 })));
        assert_eq!(definition.reduction_length(axes), Ok(8));
    }

    #[test]
    fn every_error_says_where_and_what_to_do() {
        const REST: &str = "scale=1.0 index=i64[lines]:int(0,rows)";
        let comments = [
            "definition=./none.json".to_owned(),
            "definition=/gather.json".to_owned(),
            "definition=gather".to_owned(),
            "definition=./gather.json ref=torch.abs".to_owned(),
            "definition=./gather.json scale=1.0".to_owned(),
            "definition=./gather.json index=i64[lines]:int(0,rows)".to_owned(),
            "definition=./gather.json scale=true".to_owned(),
            "definition=./gather.json scale=1.0 index=i64[lines]".to_owned(),
            "definition=./gather.json scale=1.0 index=i32[lines]:int(0,rows)".to_owned(),
            "definition=./gather.json scale=1.0 index=i64[lines]:int(0,height)".to_owned(),
            "definition=./gather.json scale=1.0 index=i64[lines]:normal(0,1)".to_owned(),
            "definition=./gather.json out=f32[lines,width]:uniform(0,1)".to_owned(),
            format!("definition=./gather.json rows=3 {REST}"),
            format!("definition=./gather.json rows=3 lines=1 {REST}"),
            format!("definition=./gather.json rows=3 lines=-1 {REST}"),
            format!("definition=./gather.json rows=3 lines=7 width=9 {REST}"),
            format!("definition=./gather.json rows=3 lines=7 height=9 {REST}"),
            format!("definition=./gather.json rows=3 lines=7 grid=rows {REST}"),
            format!("definition=./gather.json rows=1,2,3,4,5,6,7,8,9 lines=2,3,4,5,6,7,8,9 {REST}"),
        ];
        let told: Vec<String> = comments
            .iter()
            .map(|comment| format!("{comment}\n    {}", with(comment).expect_err(comment)))
            .collect();
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn ours_are_judged_as_they_are_unless_lengths_are_told() {
        let found = |items: &str| {
            let text = format!("{KERNEL}# warpsmith: {items}\ndef norm(a, b, eps=1e-6): kernel[(1,)](a)\n");
            find("k.py".as_ref(), &text, &parse(&text), None)
        };
        let whole = found("definition=rmsnorm").unwrap();
        assert!(!whole.variants[0].definition.extras.only_sizes);
        assert_eq!(whole.reference, Reference::Ours);
        assert_eq!(whole.variants[0].parameters[0].parameter, "a", "by position");
        let some = found("definition=rmsnorm M=3 N=5,7").unwrap();
        assert!(some.variants[0].definition.extras.only_sizes);
        assert_eq!(some.variants[0].definition.extras.sizes.len(), 2);
        let miss = found("definition=reduce_sum_lasst").unwrap_err();
        assert!(matches!(miss.kind, MissKind::Comment(_)), "{miss}");
    }
}
