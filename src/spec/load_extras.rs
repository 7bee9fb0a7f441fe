//! Reads the key `warpsmith` of a Definition.

use serde_json::Value;

use super::axes::{AxisExpr, AxisValues};
use super::definition::{Definition, ITEMSIZE, TensorSpec};
use super::dtype::Dtype;
use super::extras::{AxisRange, Extras, Precision, ToleranceExtras};
use super::fill::FillSpec;
use super::load::{check_run, read_dtype};
use super::problem::JsonPath;
use super::reader::{At, Object, Reader, listed};

const KEYS: [&str; 19] = [
    "dtypes",
    "args",
    "vary",
    "inputs",
    "derived",
    "ranges",
    "smoke",
    "profiles",
    "layouts",
    "sizes",
    "only_sizes",
    "bench",
    "flops",
    "bytes",
    "tol",
    "precision",
    "deterministic",
    "reference_f64",
    "baseline",
];

pub(super) fn read(reader: &mut Reader<'_>, root: &Object<'_>, definition: &Definition) -> Extras {
    let Some(at) = root.get("warpsmith") else { return Extras::default() };
    let Some(object) = reader.object(at, "an object") else { return Extras::default() };
    warn_about_unknown_keys(reader, &object, &KEYS);
    let derived = read_derived(reader, &object, definition);
    let free =
        Definition { extras: Extras { derived: derived.clone(), ..Extras::default() }, ..definition.clone() };
    let sizes = read_sizes(reader, &object, &free);
    Extras {
        dtypes: read_dtypes(reader, &object),
        args: read_args(reader, &object, definition),
        vary: read_vary(reader, &object, definition),
        inputs: read_fills(reader, &object, definition),
        derived,
        ranges: read_ranges(reader, &object, definition),
        smoke: object.get("smoke").and_then(|at| read_size(reader, at, &free)),
        profiles: words(reader, &object, "profiles"),
        layouts: words(reader, &object, "layouts"),
        bench: read_bench(reader, &object, &sizes),
        sizes,
        size_scalars: Default::default(),
        only_sizes: reader.boolean(&object, "only_sizes"),
        flops: read_expression(reader, object.get("flops"), definition, &[ITEMSIZE]),
        bytes: read_expression(reader, object.get("bytes"), definition, &[ITEMSIZE]),
        tolerance: read_tolerance(reader, &object, definition),
        precision: read_precision(reader, &object),
        deterministic: reader.boolean(&object, "deterministic"),
        reference_f64: read_source(reader, &object, "reference_f64", definition),
        baseline: read_source(reader, &object, "baseline", definition),
    }
}

fn words(reader: &mut Reader<'_>, object: &Object<'_>, name: &str) -> Vec<String> {
    reader.strings(object, name).into_iter().map(|(word, _)| word).collect()
}

/// Unknown keys are ignored, as everywhere, but here they are nearly always a slip.
fn warn_about_unknown_keys(reader: &mut Reader<'_>, object: &Object<'_>, known: &[&str]) {
    for (name, at) in object.iter() {
        if !known.contains(&name) {
            let fix = format!("use one of {}", listed(known.iter().copied(), ""));
            reader.warn_at_key(&at.path, "is unknown and ignored", fix);
        }
    }
}

fn read_dtypes(reader: &mut Reader<'_>, object: &Object<'_>) -> Vec<Dtype> {
    let Some(at) = object.get("dtypes") else { return Vec::new() };
    let mut dtypes = Vec::new();
    for element in reader.array(&at, "a list of dtypes").unwrap_or_default() {
        let Some(dtype) = read_dtype(reader, &element) else { continue };
        if dtypes.contains(&dtype) {
            reader.warn(&element.path, "is listed twice", "remove one");
        } else {
            dtypes.push(dtype);
        }
    }
    dtypes
}

fn read_args(
    reader: &mut Reader<'_>,
    object: &Object<'_>,
    definition: &Definition,
) -> std::collections::BTreeMap<String, Value> {
    let mut args = std::collections::BTreeMap::new();
    let Some(at) = object.get("args") else { return args };
    let Some(object) = reader.object(at, "an object, such as {\"eps\": 1e-6}") else { return args };
    for (name, at) in object.iter() {
        match definition.input(name) {
            Some(spec) if spec.is_scalar() => {
                if check_scalar(reader, &at, spec) {
                    args.insert(name.to_owned(), at.value.clone());
                }
            }
            Some(_) => {
                let fix = "say under `warpsmith.inputs` how its values are drawn";
                reader.error_at_key(&at.path, "names a tensor, which has no value", fix);
            }
            // An option of the entry, which the reference has built in.
            None => {
                args.insert(name.to_owned(), at.value.clone());
            }
        }
    }
    args
}

/// Other values of scalar inputs, tried besides those of `args`.
fn read_vary(
    reader: &mut Reader<'_>,
    object: &Object<'_>,
    definition: &Definition,
) -> std::collections::BTreeMap<String, Vec<Value>> {
    let mut vary = std::collections::BTreeMap::new();
    let Some(at) = object.get("vary") else { return vary };
    let Some(object) = reader.object(at, "an object, such as {\"eps\": [1e-5, 0.1]}") else { return vary };
    for (name, at) in object.iter() {
        let Some(spec) = definition.input(name).filter(|spec| spec.is_scalar()) else {
            let scalars = definition.inputs.iter().filter(|(_, spec)| spec.is_scalar());
            let known = listed(scalars.map(|(name, _)| name.as_str()), "none");
            reader.error_at_key(&at.path, "names no scalar input", format!("name one of: {known}"));
            continue;
        };
        let Some(items) = reader.array(&at, "a list of values") else { continue };
        let fitting = items.into_iter().filter(|item| check_scalar(reader, item, spec));
        let values = fitting.map(|item| item.value.clone()).collect();
        vary.insert(name.to_owned(), values);
    }
    vary
}

/// `null` is Python's `None`: what the operation does with it is for the reference to say.
fn check_scalar(reader: &mut Reader<'_>, at: &At<'_>, spec: &TensorSpec) -> bool {
    let (fits, wanted) = match spec.dtype {
        Dtype::Bool => (at.value.is_boolean(), "true or false"),
        dtype if dtype.is_float() => (at.value.is_number(), "a number"),
        _ => (at.value.is_i64(), "a whole number"),
    };
    if !fits && !at.value.is_null() {
        reader.wrong_kind::<()>(at, &format!("{wanted}: its dtype is {}", spec.dtype));
        return false;
    }
    true
}

fn read_fills(
    reader: &mut Reader<'_>,
    object: &Object<'_>,
    definition: &Definition,
) -> std::collections::BTreeMap<String, FillSpec> {
    let mut fills = std::collections::BTreeMap::new();
    let Some(at) = object.get("inputs") else { return fills };
    let Some(object) = reader.object(at, "an object, such as {\"x\": {\"normal\": [0, 1]}}") else {
        return fills;
    };
    for (name, at) in object.iter() {
        match definition.input(name) {
            Some(spec) if !spec.is_scalar() => {
                if let Some(fill) = read_fill(reader, at, spec, definition) {
                    fills.insert(name.to_owned(), fill);
                }
            }
            Some(_) => {
                reader.error_at_key(&at.path, "is a scalar, which is not drawn", "give its value in `args`")
            }
            None => {
                let known = listed(definition.inputs.iter().map(|(name, _)| name.as_str()), "none");
                reader.error_at_key(&at.path, "names no input", format!("use one of {known}"));
            }
        }
    }
    fills
}

const FILLS: &str = "{\"normal\": [mean, std]}, {\"uniform\": [low, high]} or {\"int\": [low, high]}";

fn read_fill(
    reader: &mut Reader<'_>,
    at: At<'_>,
    spec: &TensorSpec,
    definition: &Definition,
) -> Option<FillSpec> {
    let object = reader.object(at, FILLS)?;
    let members: Vec<_> = object.iter().collect();
    let [(kind, at)] = members.as_slice() else {
        reader.error(&object.path, format!("has {} members", members.len()), format!("write {FILLS}"));
        return None;
    };
    let pair = reader.array(at, "a list of two values")?;
    let [first, second] = pair.as_slice() else {
        reader.error(&at.path, format!("has {} values", pair.len()), "write a list of two values");
        return None;
    };
    if matches!(*kind, "normal" | "uniform") && !spec.dtype.is_float() {
        let fix = "write {\"int\": [low, high]}, where high is not reached";
        reader.error(&at.path, format!("draws fractions for dtype {}", spec.dtype), fix);
        return None;
    }
    match *kind {
        "normal" => {
            let (mean, std) = (number(reader, first)?, number(reader, second)?);
            if std < 0.0 {
                reader.error(&second.path, "is negative", "write a standard deviation, 0 or more");
            }
            Some(FillSpec::Normal { mean, std })
        }
        "uniform" => {
            let (low, high) = (number(reader, first)?, number(reader, second)?);
            if low >= high {
                reader.error(&at.path, "is an empty range", "write [low, high] with low < high");
            }
            Some(FillSpec::Uniform { low, high })
        }
        "int" => {
            let low = read_expression(reader, Some(first.clone()), definition, &[])?;
            let high = read_expression(reader, Some(second.clone()), definition, &[])?;
            let constant = |bound: &AxisExpr| bound.evaluate_signed(&AxisValues::new()).ok();
            if let (Some(low), Some(high)) = (constant(&low), constant(&high))
                && low >= high
            {
                let fix = "write [low, high] with low < high; high is not reached";
                reader.error(&at.path, "is an empty range", fix);
            }
            Some(FillSpec::Integers { low, high })
        }
        _ => {
            reader.error_at_key(&at.path, "is no way to draw values", format!("write {FILLS}"));
            None
        }
    }
}

fn number(reader: &mut Reader<'_>, at: &At<'_>) -> Option<f64> {
    match at.value.as_f64() {
        Some(value) => Some(value),
        None => reader.wrong_kind(at, "a number"),
    }
}

/// An expression over the Definition's axes and `also`; whole numbers may stand without quotes.
fn read_expression(
    reader: &mut Reader<'_>,
    at: Option<At<'_>>,
    definition: &Definition,
    also: &[&str],
) -> Option<AxisExpr> {
    let at = at?;
    let source = match at.value {
        Value::Number(number) if number.is_i64() || number.is_u64() => number.to_string(),
        _ => reader.string(&at, "an expression over axes, such as \"2 * M * N\"")?.to_owned(),
    };
    let expression = match AxisExpr::parse(&source) {
        Ok(expression) => expression,
        Err(error) => {
            let fix = "write whole numbers, axes, `+ - * /`, parentheses and `cdiv(a, b)`";
            reader.error(&at.path, error.to_string(), fix);
            return None;
        }
    };
    let known: Vec<&str> =
        definition.axes.iter().map(|(name, _)| name.as_str()).chain(also.iter().copied()).collect();
    for (name, column) in expression.names() {
        if !known.contains(&name) {
            let message = format!("names `{name}` at column {column} of `{source}`, which is no axis");
            reader.error(&at.path, message, format!("use {}", listed(known.iter().copied(), "numbers")));
        }
    }
    Some(expression)
}

/// Axes that follow from others: variable ones, as expressions over those that do not.
fn read_derived(
    reader: &mut Reader<'_>,
    object: &Object<'_>,
    definition: &Definition,
) -> Vec<(String, AxisExpr)> {
    let mut derived = Vec::new();
    let Some(at) = object.get("derived") else { return derived };
    let Some(object) = reader.object(at, "an object, such as {\"head_dim\": \"2 * half_dim\"}") else {
        return derived;
    };
    for (name, at) in object.iter() {
        if !definition.var_axes().contains(&name) {
            let fix = "name an axis of type \"var\"";
            reader.error_at_key(&at.path, "is no variable axis, so nothing can follow for it", fix);
        } else if let Some(expression) = read_expression(reader, Some(at.clone()), definition, &[]) {
            let chained = expression.names().any(|(used, _)| object.members.contains_key(used));
            if chained {
                let fix = "write it over axes that follow from nothing";
                reader.error(&at.path, "uses an axis that follows from others itself", fix);
            } else {
                derived.push((name.to_owned(), expression));
            }
        }
    }
    derived
}

fn read_ranges(
    reader: &mut Reader<'_>,
    object: &Object<'_>,
    definition: &Definition,
) -> std::collections::BTreeMap<String, AxisRange> {
    let mut ranges = std::collections::BTreeMap::new();
    let Some(at) = object.get("ranges") else { return ranges };
    let Some(object) = reader.object(at, "an object, such as {\"head_dim\": [1, 256]}") else {
        return ranges;
    };
    for (name, at) in object.iter() {
        if !definition.var_axes().contains(&name) {
            reader.error_at_key(&at.path, "is no variable axis", "name an axis of type \"var\"");
        } else if let Some(range) = read_range(reader, &at) {
            ranges.insert(name.to_owned(), range);
        }
    }
    ranges
}

fn read_range(reader: &mut Reader<'_>, at: &At<'_>) -> Option<AxisRange> {
    let pair = reader.array(at, "a list of the least and the greatest length, such as [1, null]")?;
    let [least, most] = pair.as_slice() else {
        let fix = "write [least, greatest], or [least, null] for no upper limit";
        reader.error(&at.path, format!("has {} values", pair.len()), fix);
        return None;
    };
    let least = reader.whole_number(least)?;
    let most = if most.value.is_null() { None } else { Some(reader.whole_number(most)?) };
    if most.is_some_and(|most| most < least) {
        reader.error(&at.path, "is an empty range", "write [least, greatest] with least ≤ greatest");
    }
    Some(AxisRange { least, most })
}

fn read_sizes(
    reader: &mut Reader<'_>,
    object: &Object<'_>,
    definition: &Definition,
) -> Vec<(String, AxisValues)> {
    let mut sizes = Vec::new();
    let Some(at) = object.get("sizes") else { return sizes };
    let Some(object) = reader.object(at, "an object, such as {\"large\": {\"M\": 4096}}") else {
        return sizes;
    };
    for (name, at) in object.iter() {
        if let Some(values) = read_size(reader, at, definition) {
            sizes.push((name.to_owned(), values));
        }
    }
    sizes
}

fn read_size(reader: &mut Reader<'_>, at: At<'_>, definition: &Definition) -> Option<AxisValues> {
    let vars = definition.var_axes();
    let object = reader.object(at, "an object with a value for each variable axis")?;
    let mut values = AxisValues::new();
    for (axis, at) in object.iter() {
        if let Some((_, expression)) = definition.extras.derived.iter().find(|(name, _)| name == axis) {
            let fix = format!("remove it: it is `{expression}`");
            reader.error_at_key(&at.path, "follows from other axes", fix);
        } else if !vars.contains(&axis) {
            let fix = format!("use {}", listed(vars.iter().copied(), "nothing: all axes are constant"));
            reader.error_at_key(&at.path, "is no variable axis", fix);
        } else if let Some(value) = reader.whole_number(&at) {
            values.insert(axis.to_owned(), value);
        }
    }
    for axis in vars {
        reader.required(&object, axis, "a value for this variable axis");
    }
    Some(definition.with_derived(&values))
}

fn read_bench(reader: &mut Reader<'_>, object: &Object<'_>, sizes: &[(String, AxisValues)]) -> Vec<String> {
    let mut bench = Vec::new();
    for (name, path) in reader.strings(object, "bench") {
        if sizes.iter().any(|(size, _)| *size == name) {
            bench.push(name);
        } else {
            let known = listed(sizes.iter().map(|(size, _)| size.as_str()), "no size: there are none");
            reader.error(&path, format!("names no size: `{name}`"), format!("use {known}"));
        }
    }
    bench
}

fn read_tolerance(reader: &mut Reader<'_>, object: &Object<'_>, definition: &Definition) -> ToleranceExtras {
    let Some(at) = object.get("tol") else { return ToleranceExtras::default() };
    let Some(object) = reader.object(at, "an object, such as {\"reduction\": \"K\"}") else {
        return ToleranceExtras::default();
    };
    warn_about_unknown_keys(reader, &object, &["reduction", "intermediate"]);
    ToleranceExtras {
        reduction: read_expression(reader, object.get("reduction"), definition, &[]),
        intermediate: object.get("intermediate").and_then(|at| reader.whole_number(&at)).unwrap_or(0),
    }
}

fn read_precision(reader: &mut Reader<'_>, object: &Object<'_>) -> Precision {
    let Some(at) = object.get("precision") else { return Precision::default() };
    match at.value.as_str() {
        Some("ieee") => Precision::Ieee,
        Some("tf32") => Precision::Tf32,
        _ => reader.wrong_kind(&at, "\"ieee\" or \"tf32\"").unwrap_or_default(),
    }
}

/// Python source that defines `run` with the Definition's inputs.
fn read_source(
    reader: &mut Reader<'_>,
    object: &Object<'_>,
    name: &str,
    definition: &Definition,
) -> Option<String> {
    let at = object.get(name)?;
    let path: JsonPath = at.path.clone();
    let source = reader.string(&at, "Python source that defines `run`")?;
    check_run(reader, &path, source, &definition.inputs)?;
    Some(source.to_owned())
}
