//! Reads Definitions and tells everything that is wrong with one.

use std::path::Path;

use serde_json::Value;

use super::definition::{Axis, AxisKind, Definition, TensorSpec};
use super::dtype::Dtype;
use super::load_extras;
use super::problem::{JsonPath, SpecError};
use super::python;
use super::reader::{At, Object, Reader, listed};

impl Definition {
    /// Reads a Definition from the text of a file. `file_name` may be a path; the Definition must be
    /// named like its stem, unless that is `definition`, or the `op_type` with which the name begins.
    ///
    /// # Errors
    /// Everything that makes it unusable, each with its JSON path and place. What only deserves a look
    /// is in [`Definition::warnings`].
    pub fn from_json(text: &str, file_name: &str) -> Result<Self, SpecError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let value: Value =
            serde_json::from_str(text).map_err(|error| SpecError::from_json_error(file_name, &error))?;
        let mut reader = Reader::new(text);
        let root = At { value: &value, path: JsonPath::default() };
        let definition = reader
            .object(root, "an object with name, op_type, axes, inputs, outputs and reference")
            .and_then(|root| read(&mut reader, &root, file_name));
        match definition {
            Some(mut definition) if reader.errors.is_empty() => {
                definition.warnings = reader.warnings;
                Ok(definition)
            }
            _ => Err(SpecError { file: file_name.to_owned(), problems: reader.errors }),
        }
    }
}

/// Reads all parts before it gives up, so that all errors are told. `None` only after an error.
fn read(reader: &mut Reader<'_>, root: &Object<'_>, file_name: &str) -> Option<Definition> {
    let name = reader.required_text(root, "name", "the name of the Definition, that of the file");
    check_name(reader, root, name.as_deref(), file_name);
    let op_type = reader.required_text(root, "op_type", "the kind of operation, such as \"softmax\"");
    let description = reader.optional_text(root, "description");
    let tags = reader.strings(root, "tags").into_iter().map(|(tag, _)| tag).collect();
    let axes = read_axes(reader, root);
    let known_axes = axes.as_deref();
    let inputs = read_tensors(reader, root, "inputs", known_axes);
    let outputs = read_tensors(reader, root, "outputs", known_axes);
    check_disjoint(reader, root, inputs.as_deref(), outputs.as_deref());
    let constraints = read_constraints(reader, root);
    let reference = reader.required_text(root, "reference", "Python source that defines `run`");
    let mut definition = Definition {
        name: name.unwrap_or_default(),
        op_type: op_type.unwrap_or_default(),
        description,
        tags,
        axes: axes?,
        inputs: inputs?,
        outputs: outputs?,
        constraints,
        run_parameters: Vec::new(),
        reference: reference?,
        extras: super::Extras::default(),
        warnings: Vec::new(),
    };
    check_axes_are_used(reader, root, &definition);
    let reference_path = root.path.key("reference");
    let parameters = check_run(reader, &reference_path, &definition.reference, &definition.inputs);
    definition.run_parameters = parameters.unwrap_or_default();
    definition.extras = load_extras::read(reader, root, &definition);
    Some(definition)
}

fn check_name(reader: &mut Reader<'_>, root: &Object<'_>, name: Option<&str>, file_name: &str) {
    let path = Path::new(file_name);
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    // Beside a kernel it may be called after what it is.
    let op_type = root.get("op_type").and_then(|at| at.value.as_str());
    let says_the_kind = |name: &str, stem: &str| Some(stem) == op_type && name.starts_with(stem);
    if let (true, Some(name), Some(stem)) = (is_json, name, stem)
        && name != stem
        && stem != "definition"
        && !says_the_kind(name, stem)
    {
        let path = root.path.key("name");
        let fix = format!("rename the file to `{name}.json` or the Definition to `{stem}`");
        reader.error(&path, format!("is `{name}`, but the file is named `{stem}`"), fix);
    }
}

fn read_axes(reader: &mut Reader<'_>, root: &Object<'_>) -> Option<Vec<(String, Axis)>> {
    let what = "an object of axes, such as {\"M\": {\"type\": \"var\"}}";
    let at = reader.required(root, "axes", what)?;
    let object = reader.object(at, what)?;
    let mut axes = Vec::new();
    for (name, at) in object.iter() {
        if !is_identifier(name) {
            let fix = "name it like a Python variable: letters, digits and `_`";
            reader.error_at_key(&at.path, "is no name for an axis", fix);
        }
        if let Some(axis) = read_axis(reader, at) {
            axes.push((name.to_owned(), axis));
        }
    }
    // An axis that could not be read is already told; its uses must not be told again as undeclared.
    (axes.len() == object.members.len()).then_some(axes)
}

fn read_axis(reader: &mut Reader<'_>, at: At<'_>) -> Option<Axis> {
    let what = "{\"type\": \"var\"} or {\"type\": \"const\", \"value\": 4096}";
    let object = reader.object(at, what)?;
    let description = reader.optional_text(&object, "description");
    let kind_at = reader.required(&object, "type", "\"var\" or \"const\"")?;
    let kind = match reader.string(&kind_at, "\"var\" or \"const\"")? {
        "var" => {
            if object.get("value").is_some() {
                let fix = "remove it, or make the axis \"const\"";
                reader.warn(&object.path.key("value"), "is ignored: the axis is \"var\"", fix);
            }
            AxisKind::Var
        }
        "const" => {
            let value = reader.required(&object, "value", "the size of this constant axis")?;
            AxisKind::Const { value: reader.whole_number(&value)? }
        }
        _ => return reader.wrong_kind(&kind_at, "\"var\" or \"const\""),
    };
    Some(Axis { kind, description })
}

fn read_tensors(
    reader: &mut Reader<'_>,
    root: &Object<'_>,
    section: &str,
    axes: Option<&[(String, Axis)]>,
) -> Option<Vec<(String, TensorSpec)>> {
    let what = "an object of tensors, such as {\"x\": {\"shape\": [\"M\"], \"dtype\": \"float32\"}}";
    let at = reader.required(root, section, what)?;
    let object = reader.object(at, what)?;
    if object.members.is_empty() {
        reader.error(&object.path, "is empty", format!("write {what}"));
    }
    let mut tensors = Vec::new();
    for (name, at) in object.iter() {
        if !is_identifier(name) {
            let fix = "name it like a Python variable: letters, digits and `_`";
            reader.error_at_key(&at.path, "is no name for a tensor", fix);
        }
        if let Some(spec) = read_tensor(reader, at, axes) {
            tensors.push((name.to_owned(), spec));
        }
    }
    (tensors.len() == object.members.len()).then_some(tensors)
}

fn read_tensor(reader: &mut Reader<'_>, at: At<'_>, axes: Option<&[(String, Axis)]>) -> Option<TensorSpec> {
    let object = reader.object(at, "{\"shape\": [\"M\"], \"dtype\": \"float32\"}")?;
    let description = reader.optional_text(&object, "description");
    let optional = reader.boolean(&object, "optional");
    let dtype = reader.required(&object, "dtype", "a dtype, such as \"float32\"");
    let dtype = dtype.and_then(|at| read_dtype(reader, &at));
    let shape_path = object.path.key("shape");
    let shape = match object.members.get("shape") {
        Some(Value::Null) => Some(None),
        Some(value) => read_shape(reader, &At { value, path: shape_path }, axes).map(Some),
        None => {
            reader.required(&object, "shape", "a list of axes; null means a Python scalar");
            None
        }
    };
    Some(TensorSpec { shape: shape?, dtype: dtype?, optional, description })
}

/// FlashInfer-Bench's long names only: other readers know no short ones.
pub(super) fn read_dtype(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Dtype> {
    let name = reader.string(at, "a dtype, such as \"float32\"")?;
    let dtype = Dtype::ALL.into_iter().find(|dtype| dtype.name() == name);
    if dtype.is_none() {
        let fix = format!("use one of {}", listed(Dtype::ALL.map(Dtype::name), ""));
        reader.error(&at.path, format!("is `{name}`, which is no dtype"), fix);
    }
    dtype
}

/// The entries must be declared axes; `axes` is `None` when those are not known.
fn read_shape(reader: &mut Reader<'_>, at: &At<'_>, axes: Option<&[(String, Axis)]>) -> Option<Vec<String>> {
    let mut shape = Vec::new();
    let mut complete = true;
    for entry in reader.array(at, "a list of axes; null means a Python scalar")? {
        let Some(name) = reader.string(&entry, "the name of an axis; declare constants under `axes`") else {
            complete = false;
            continue;
        };
        if let Some(axes) = axes
            && !axes.iter().any(|(axis, _)| axis == name)
        {
            let known = listed(axes.iter().map(|(axis, _)| axis.as_str()), "none so far");
            let fix = format!("declare it under `axes` (declared: {known})");
            reader.error(&entry.path, format!("names `{name}`, which is no declared axis"), fix);
        }
        shape.push(name.to_owned());
    }
    complete.then_some(shape)
}

fn check_disjoint(
    reader: &mut Reader<'_>,
    root: &Object<'_>,
    inputs: Option<&[(String, TensorSpec)]>,
    outputs: Option<&[(String, TensorSpec)]>,
) {
    for (name, _) in outputs.unwrap_or_default() {
        if inputs.unwrap_or_default().iter().any(|(input, _)| input == name) {
            let path = root.path.key("outputs").key(name);
            reader.error_at_key(&path, "is the name of an input too", "give the output another name");
        }
    }
}

fn read_constraints(reader: &mut Reader<'_>, root: &Object<'_>) -> Vec<String> {
    let constraints = reader.strings(root, "constraints");
    for (text, path) in &constraints {
        if !python::is_expression(text) {
            let fix = "write a Python expression over axes, such as \"N % 8 == 0\"";
            reader.error(path, format!("`{text}` is no Python expression"), fix);
        }
    }
    constraints.into_iter().map(|(text, _)| text).collect()
}

fn check_axes_are_used(reader: &mut Reader<'_>, root: &Object<'_>, definition: &Definition) {
    let uses = |tensors: &[(String, TensorSpec)], axis: &str| {
        tensors.iter().any(|(_, spec)| spec.shape.iter().flatten().any(|name| name == axis))
    };
    let in_constraints = |axis: &str| {
        definition.constraints.iter().any(|text| python::names(text).iter().any(|name| name == axis))
    };
    for (name, axis) in &definition.axes {
        let path = root.path.key("axes").key(name);
        let in_inputs = uses(&definition.inputs, name);
        if axis.kind == AxisKind::Var && !in_inputs {
            let message = "appears in no input, so its value cannot be read off the arguments";
            reader.warn_at_key(&path, message, "use it in the shape of an input, or make it \"const\"");
        } else if !in_inputs && !uses(&definition.outputs, name) && !in_constraints(name) {
            let fix = "remove it if the reference does not mean it either";
            reader.warn_at_key(&path, "is used by no shape and no constraint", fix);
        }
    }
}

/// Parameters of the reference's `run`, checked against the inputs. `None` when there is no usable `run`.
pub(super) fn check_run(
    reader: &mut Reader<'_>,
    path: &JsonPath,
    source: &str,
    inputs: &[(String, TensorSpec)],
) -> Option<Vec<String>> {
    let names: Vec<&str> = inputs.iter().map(|(name, _)| name.as_str()).collect();
    let signature = format!("def run({}):", names.join(", "));
    if let Some(line) = python::first_error_line(source) {
        let message = format!("is no valid Python: line {line} of the source has a syntax error");
        reader.error(path, message, "correct the source");
        return None;
    }
    let Some(parameters) = python::parameters_of(source, "run") else {
        let fix = format!("define `{signature}` at the top level");
        reader.error(path, "defines no top-level function `run`", fix);
        return None;
    };
    let variadic = parameters.iter().any(|name| name.starts_with('*'));
    let same_names = {
        let (mut left, mut right) = (parameters.clone(), names.clone());
        left.sort_unstable();
        right.sort_unstable();
        left == right
    };
    if !variadic && parameters.len() != names.len() {
        let message =
            format!("`run` takes ({}), but there are {} inputs", parameters.join(", "), names.len());
        reader.error(path, message, format!("write `{signature}`"));
    } else if !variadic && same_names && parameters != names {
        let message = format!("`run` takes ({}), in another order than `inputs`", parameters.join(", "));
        reader.warn(path, message, format!("write `{signature}`: some readers pass by position"));
    } else if !variadic && !same_names {
        let message = format!("`run` takes ({}), named unlike the inputs", parameters.join(", "));
        reader.warn(path, message, format!("write `{signature}`: now it is called by position"));
    }
    Some(parameters)
}

fn is_identifier(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && characters.all(|c| c.is_alphanumeric() || c == '_')
}
