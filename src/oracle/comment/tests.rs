use std::path::Path;

use proptest::prelude::*;

use super::grammar::{Comment, Dim, Item, Literal, Profile, ReferenceName, Tensor, Value};
use super::parse::{Parsed, parse};
use crate::oracle::{MissKind, Oracle, OracleMiss, Reference, find, find_all};
use crate::source;
use crate::spec::{AxisExpr, Definition, Dtype, Precision};

const KERNEL: &str = "import triton\n\n@triton.jit\ndef kernel(x): pass\n\n";

fn read(text: &str) -> Result<Parsed, String> {
    parse(&[(0, text)], 0..text.len()).map_err(|error| error.message)
}

pub(super) fn found(text: &str) -> Result<Oracle, OracleMiss> {
    find(Path::new("/project/file.py"), text, &source::parse(text), None)
}

/// The oracle of an entry `silu(x, eps)` under this comment.
fn with_comment(comment: &str) -> Result<Oracle, String> {
    let lines: Vec<String> = comment.lines().map(|line| format!("# warpsmith: {line}\n")).collect();
    let text = format!(
        "{KERNEL}def my_ref(x): return x\n\n{}def silu(x, eps=1e-6): kernel[(1,)](x)\n",
        lines.concat()
    );
    found(&text).map_err(|miss| {
        let place = miss.range.as_ref().map_or("nowhere", |range| &text[range.clone()]);
        format!("{miss}\n    at: {}", place.replace('\n', "⏎"))
    })
}

fn definition(comment: &str) -> Definition {
    let oracle = with_comment(comment).unwrap_or_else(|miss| panic!("{comment}: {miss}"));
    (*oracle.variants[0].definition).clone()
}

#[test]
fn one_line_makes_a_definition() {
    let oracle =
        with_comment("ref=torch.nn.functional.silu x=f16|bf16[M,N] M=1,127,4096 N=1000,4096").unwrap();
    assert_eq!((oracle.entry.as_str(), oracle.label.rung), ("silu", 4));
    assert_eq!(oracle.label.label, "comment · torch.nn.functional.silu");
    assert_eq!(oracle.reference, Reference::Ours);
    let definition = &oracle.variants[0].definition;
    assert_eq!(definition.extras.sizes.len(), 6);
    assert_eq!(definition.dtypes(), [Dtype::Float16, Dtype::Bfloat16]);
    assert!(definition.outputs.is_empty(), "the reference tells them");
    insta::assert_snapshot!(definition.reference);
}

#[test]
fn functions_of_several_arguments_are_called_by_their_signature() {
    let text =
        "ref=torch.nn.functional.rms_norm x=f32[M,N] weight=f32[N] normalized_shape=[N] eps=1e-6\nM=3 N=7,8";
    insta::assert_snapshot!(definition(text).reference);
}

#[test]
fn tensors_that_change_dtype_lead_and_the_others_stay() {
    let definition =
        definition("ref=torch.add idx=i64[N]:int(0,N) x=f32|f16[N] bias=f32[N] y=out:f32|f16[N] N=5");
    assert_eq!(definition.inputs[0].0, "x");
    let in_case = |name: &str, case| {
        let spec = definition.input(name).or_else(|| definition.output(name)).expect("a tensor");
        definition.dtype_in_case(spec, case)
    };
    for case in [Dtype::Float32, Dtype::Float16] {
        assert_eq!(in_case("x", case), case);
        assert_eq!(in_case("y", case), case);
        assert_eq!(in_case("bias", case), Dtype::Float32);
        assert_eq!(in_case("idx", case), Dtype::Int64);
    }
    assert_eq!(definition.reference.matches("\"idx\": idx, \"x\": x, \"bias\": bias").count(), 1);
}

#[test]
fn comments_describe_the_function_below_or_the_launcher_of_the_kernel_below() {
    const ITEMS: &str = "# warpsmith: ref=torch.abs x=f32[N]\n# warpsmith: N=5\n";
    let entry = |text: &str| found(text).map(|oracle| oracle.entry).map_err(|miss| miss.to_string());
    let kernel = "import triton\n# warpsmith: ref=torch.abs x=f32[N] N=5\n@triton.jit\ndef kernel(x): pass\n";
    assert_eq!(entry(&format!("{kernel}def f(x): kernel[(1,)](x)\n")).as_deref(), Ok("f"));
    assert!(entry(kernel).unwrap_err().contains("no module-level function of this file launches"));
    let two = format!("{kernel}def f(x): kernel[(1,)](x)\ndef g(x): kernel[(2,)](x)\n");
    assert!(entry(&two).unwrap_err().contains("`f`, `g`"));
    let below = format!("{KERNEL}{ITEMS}# another remark\n@decorated\ndef f(x): kernel[(1,)](x)\n");
    assert_eq!(entry(&below).as_deref(), Ok("f"));
    let gap = format!("{KERNEL}{ITEMS}\ndef f(x): kernel[(1,)](x)\n");
    assert!(entry(&gap).unwrap_err().contains("above no function"));
    let beside = format!("{KERNEL}def f(x): kernel[(1,)](x)  # warpsmith: ref=torch.abs x=f32[N] N=5\n");
    assert!(entry(&beside).unwrap_err().contains("lines of its own"));
    let string = format!("{KERNEL}TEXT = '''\n{ITEMS}def f(x): pass\n'''\ndef g(x): kernel[(1,)](x)\n");
    assert!(matches!(found(&string).unwrap_err().kind, MissKind::NoConvention));
}

/// A kernel and the function that launches it, under a comment with this reference.
fn described(name: &str, items: &str) -> String {
    format!(
        "@triton.jit\ndef {name}_kernel(x): pass\n# warpsmith: {items}\ndef {name}(x): {name}_kernel[(1,)](x)\n"
    )
}

#[test]
fn each_described_function_has_its_own_oracle() {
    let text = format!(
        "import triton\n{}{}{}",
        described("abs", "ref=torch.abs x=f32[N] N=5"),
        described("neg", "ref=torch.neg x=f61[N] N=5"),
        described("exp", "ref=torch.exp x=f32[N] N=5"),
    );
    let all = |asked| find_all(Path::new("f.py"), &text, &source::parse(&text), asked);
    let entries = |asked| -> Vec<(Option<String>, bool)> {
        all(asked).into_iter().map(|one| (one.entry, one.oracle.is_ok())).collect()
    };
    let entry = |name: &str, good| (Some(name.to_owned()), good);
    assert_eq!(entries(None), [entry("abs", true), entry("neg", false), entry("exp", true)]);
    assert_eq!(entries(Some("exp_kernel")), [entry("exp", true)]);
    assert_eq!(entries(Some("abs")), [entry("abs", true)]);
    assert_eq!(entries(Some("neg")), [entry("neg", false)]);
    let other = format!("{text}@triton.jit\ndef lonely(x): pass\ndef f(x): lonely[(1,)](x)\n");
    let asked = |name| find(Path::new("f.py"), &other, &source::parse(&other), Some(name)).unwrap_err();
    for name in ["lonely", "f"] {
        let told =
            format!("nothing says what `{name}` should compute; what is judged here: `abs`, `neg`, `exp`");
        assert_eq!(asked(name).to_string(), told);
    }
}

#[test]
fn two_comments_for_one_function_contradict_one_another() {
    let text = "import triton\n# warpsmith: ref=torch.abs x=f32[N] N=5\n@triton.jit\ndef kernel(x): pass\n# warpsmith: \
                ref=torch.neg x=f32[N] N=5\ndef f(x): kernel[(1,)](x)\n";
    let described = find_all(Path::new("f.py"), text, &source::parse(text), None);
    assert_eq!(described.len(), 1, "{described:?}");
    let miss = described[0].oracle.as_ref().unwrap_err();
    assert_eq!(miss.to_string(), "more than one comment describes `f`; keep one");
}

#[test]
fn a_kernel_that_another_file_launches_is_told_so() {
    let text = "import triton\n@triton.jit\ndef helper(x): pass\n@triton.jit\ndef kernel(x): helper(x)\n";
    let miss = found(text).unwrap_err();
    assert_eq!(miss.kind, MissKind::LaunchedElsewhere { kernels: vec!["kernel".to_owned()] });
    let there =
        "from kernels import kernel\n\n# warpsmith: ref=torch.abs x=f32[N] N=5\ndef f(x): kernel[(1,)](x)\n";
    assert_eq!(found(there).unwrap().entry, "f");
}

#[test]
fn a_comment_is_believed_before_a_convention() {
    let text = format!(
        "{KERNEL}KERNEL_TYPE = 'softmax'\n# warpsmith: ref=torch.abs x=f32[N] N=5\ndef kernel_fn(x): kernel[(1,)](x)\n"
    );
    assert_eq!(found(&text).unwrap().label.rung, 4);
}

#[test]
fn outputs_that_are_parameters_are_written_into() {
    let text = format!(
        "{KERNEL}# warpsmith: ref=torch.abs x=f32[N] y=out:f32[N] N=5\ndef f(x, y): kernel[(1,)](x)\n"
    );
    let oracle = found(&text).unwrap();
    assert_eq!(oracle.destinations.len(), 1);
    assert_eq!(oracle.destination_arguments().next().unwrap().parameter, "y");
    let parameters =
        |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), false)).collect::<Vec<_>>();
    assert_eq!(oracle.signature_problem(&parameters(&["x", "y"])), None);
    assert!(oracle.signature_problem(&parameters(&["x"])).is_some());
}

#[test]
fn references_of_the_user_are_foreign() {
    let same = with_comment("ref=my_ref x=f32[N] N=5").unwrap();
    assert_eq!(same.label.label, "comment · my_ref · ref from the same file");
    let other = with_comment("ref=./truth.py::right x=f32[N] N=5").unwrap();
    assert_eq!(other.label.label, "comment · ./truth.py::right");
    for oracle in [same, other] {
        assert!(matches!(oracle.reference, Reference::Foreign(_)));
    }
}

#[test]
fn every_error_says_where_and_what_to_do() {
    let comments = [
        "x=f16[M,N] M=1 N=2",
        "ref=torch.abs",
        "ref=torch.abs x=f61[N] N=5",
        "ref=torch.abs x=f16[N",
        "ref=torch.abs x=f16 N=5",
        "ref=torch.abs x=f16[N]",
        "ref=torch.abs x=f16[N] N=5 M=1,2",
        "ref=torch.abs x=f16[N] N=5 K=3",
        "ref=torch.abs x=f16[N] N=-1",
        "ref=torch.abs x=f16[N] N=5 N=6",
        "ref=torch.abs x=f16[N] x=f32[N] N=5",
        "ref=torch.abs x=f16|f16[N] N=5",
        "ref=torch.abs x=f16|f32[N] w=f32|f64[N] N=5",
        "ref=torch.abs x=f16|f32[N] w=f32|f16[N] N=5",
        "ref=torch.abs x=f32|f16[N] w=f32[N] b=f16[N] N=5",
        "ref=torch.abs x=f16[N] y=out:f16[M] N=5 M=5",
        "ref=torch.abs x=i64[N] N=5",
        "ref=torch.abs x=i64[N]:int(0,V) N=5",
        "ref=torch.abs x=i64[N]:int(5,5) N=5",
        "ref=torch.abs x=i64[N]:normal(0,1) N=5",
        "ref=torch.abs x=f32[N]:heavy N=5",
        "ref=torch.abs x=f32[N] N=5 n=i32",
        "ref=torch.abs x=f32[N] N=5 eps=1,0.5",
        "ref=torch.abs x=f32[N] N=5 grid=cdiv(N,256)",
        "ref=torch.abs x=f32[N] N=5 inputs=make_inputs",
        "ref=torch.abs x=f32[N] N=5 tol=1e-3",
        "ref=torch.abs x=f32[N] N=5 precision=fp32",
        "ref=abs x=f32[N] N=5",
        "ref=silu x=f32[N] N=5",
        "ref=torch.os.system x=f32[N] N=5",
        "ref=torch.__doc__ x=f32[N] N=5",
        "ref=__import__('os') x=f32[N] N=5",
        "ref=numpy.abs x=f32[N] N=5",
        "ref=/etc/truth.py::f x=f32[N] N=5",
        "ref=torch.abs x=f32[N] N = 5",
        "ref=torch.abs lambda=f32[N] N=5",
        "ref=torch.abs x=f32[A,B,C] A=1,2,3,4,5 B=1,2,3,4,5 C=1,2,3",
    ];
    let told: Vec<String> = comments
        .into_iter()
        .map(|comment| match with_comment(comment) {
            Err(miss) => format!("{comment}\n    {miss}"),
            Ok(_) => format!("{comment}\n    accepted"),
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"));
}

/// Ten axes of ten lengths: counted, never made.
#[test]
fn ten_billion_cases_are_refused_at_once() {
    let axes: Vec<String> = (0..10).map(|axis| format!("A{axis}")).collect();
    let lists: Vec<String> = axes.iter().map(|axis| format!("{axis}=1,2,3,4,5,6,7,8,9,10")).collect();
    let comment = format!("ref=torch.abs x=f32[{}] {}", axes.join(","), lists.join(" "));
    assert!(with_comment(&comment).unwrap_err().contains("10000000000 combinations"));
    let many: Vec<String> = (0..200_000).map(|length| length.to_string()).collect();
    let comment = format!("ref=torch.abs x=f32[M,N] M={} N={}", many.join(","), many.join(","));
    assert!(with_comment(&comment).unwrap_err().contains("40000000000 combinations"));
}

/// What is built here obeys the rules of files.
fn obeys_the_rules(definition: &Definition) -> bool {
    let mut definition = definition.clone();
    if definition.outputs.is_empty() {
        definition.outputs = vec![("stands_in_".to_owned(), definition.inputs[0].1.clone())];
    }
    let text = serde_json::to_string(&definition).expect("serializes");
    match Definition::from_json(&text, "comment") {
        Ok(mut again) => {
            again.warnings.clear();
            assert_eq!(again, definition);
            true
        }
        Err(error) => panic!("{error}\n{text}"),
    }
}

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z][a-zA-Z0-9_]{0,5}".prop_filter("reserved", |name| {
        !super::parse::RESERVED.contains(&name.as_str())
            && super::parse::PYTHON_KEYWORDS.iter().all(|word| word != name)
            && !["torch", "true", "false"].contains(&name.as_str())
    })
}

fn expression() -> impl Strategy<Value = AxisExpr> {
    prop_oneof!["[A-Z]", "[1-9]{1,3}", "[A-Z]\\*[1-9]", "cdiv\\([A-Z],[1-9]{1,3}\\)"]
        .prop_map(|text| AxisExpr::parse(&text).expect("an expression"))
}

fn dim() -> impl Strategy<Value = Dim> {
    prop_oneof![name().prop_map(Dim::Axis), any::<u64>().prop_map(Dim::Length)]
}

fn float() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("finite", |value| value.is_finite())
}

fn profile() -> impl Strategy<Value = Profile> {
    prop_oneof![
        (float(), float()).prop_map(|(mean, std)| Profile::Normal { mean, std: std.abs() }),
        (float(), float()).prop_map(|(a, b)| Profile::Uniform { low: a.min(b), high: a.max(b) }),
        (expression(), expression()).prop_map(|(low, high)| Profile::Integers { low, high }),
    ]
}

fn tensor() -> impl Strategy<Value = Value> {
    let dtypes = prop::sample::subsequence(Dtype::ALL.to_vec(), 1..4);
    let parts = (any::<bool>(), dtypes, prop::collection::vec(dim(), 0..4), prop::option::of(profile()));
    parts.prop_map(|(out, dtypes, dims, profile)| {
        Value::Tensor(Tensor { out, dtypes, dims, profile: profile.filter(|_| !out) })
    })
}

fn literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        any::<bool>().prop_map(Literal::Bool),
        any::<i64>().prop_map(Literal::Integer),
        float().prop_map(Literal::Float),
    ]
}

fn reference() -> impl Strategy<Value = ReferenceName> {
    prop_oneof![
        name().prop_map(|name| ReferenceName::Torch(format!("torch.nn.functional.{name}"))),
        name().prop_map(ReferenceName::SameFile),
        (name(), name())
            .prop_map(|(file, function)| ReferenceName::OtherFile { path: format!("./{file}.py"), function }),
    ]
}

fn item() -> impl Strategy<Value = Item> {
    let with = |key: &'static str| move |value| Item { key: key.to_owned(), value };
    let precision = prop_oneof![Just(Precision::Ieee), Just(Precision::Tf32)];
    prop_oneof![
        (name(), tensor()).prop_map(|(key, value)| Item { key, value }),
        (name(), prop::collection::vec(literal(), 1..5))
            .prop_map(|(key, scalars)| Item { key, value: Value::Scalars(scalars) }),
        (name(), prop::collection::vec(dim(), 1..4))
            .prop_map(|(key, dims)| Item { key, value: Value::Sizes(dims) }),
        (name(), prop::sample::select(Dtype::ALL.to_vec()))
            .prop_map(|(key, dtype)| Item { key, value: Value::Typed(dtype) }),
        reference().prop_map(Value::Reference).prop_map(with("ref")),
        name().prop_map(Value::Definition).prop_map(with("definition")),
        "[a-z]{1,4}(::[a-z]{1,4})?(<[a-z0-9,]{1,6}>)?".prop_map(Value::Kernel).prop_map(with("kernel")),
        prop::collection::vec(expression(), 1..4).prop_map(Value::Extent).prop_map(with("grid")),
        prop::collection::vec(expression(), 1..4).prop_map(Value::Extent).prop_map(with("block")),
        expression().prop_map(Value::Bytes).prop_map(with("smem")),
        prop::collection::vec(name(), 1..4).prop_map(Value::Names).prop_map(with("args")),
        name().prop_map(Value::Word).prop_map(with("inputs")),
        name().prop_map(Value::Word).prop_map(with("policy")),
        expression().prop_map(Value::Sum).prop_map(with("tol")),
        precision.prop_map(Value::Precision).prop_map(with("precision")),
    ]
}

pub(super) fn comment() -> impl Strategy<Value = Comment> {
    prop::collection::vec(item(), 0..8).prop_map(|mut items| {
        let mut seen = std::collections::BTreeSet::new();
        items.retain(|item| seen.insert(item.key.clone()));
        Comment { items }
    })
}

/// The draft for the first kernel, put where it belongs.
fn drafted(text: &str) -> Option<String> {
    let model = source::parse(text);
    let draft = super::draft(text, &model, model.kernels.first()?)?;
    let mut text = text.to_owned();
    text.insert_str(draft.at, &draft.text);
    Some(text)
}

const DRAFTED: &str = "\
import triton
import triton.language as tl

@triton.jit
def _silu_kernel(x_ptr, scale_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x_ptrs = x_ptr + at
    value = tl.load(x_ptrs, mask=at < n) * tl.load(scale_ptr + at)
    tl.store(y_ptr + at, value * tl.sigmoid(value), mask=at < n)

@decorated
def silu(x, scale, y, eps=1e-6, block=128):
    rows, columns = x.shape
    _silu_kernel[(rows,)](x, scale, y_ptr=y, n=columns, BLOCK=block)
    return scale.stride(0)
";

#[test]
fn a_draft_says_what_the_code_shows() {
    let text = drafted(DRAFTED).expect("a draft");
    insta::assert_snapshot!(text.lines().find(|line| line.starts_with("# warpsmith")).unwrap_or_default());
    assert!(text.contains("\n# warpsmith: ref=torch.nn.functional.silu "), "{text}");
    assert!(text.contains("N=255,1000") || text.contains("columns=255,1000"), "{text}");
    let crlf = drafted(&DRAFTED.replace('\n', "\r\n")).expect("a draft");
    assert_eq!(crlf.replace("\r\n", "\n"), text);
}

#[test]
fn a_draft_is_a_comment_that_can_be_used() {
    let oracle = found(&drafted(DRAFTED).expect("a draft")).unwrap_or_else(|miss| panic!("{miss}"));
    assert_eq!((oracle.entry.as_str(), oracle.destinations.len()), ("silu", 1));
}

#[test]
fn no_draft_where_nothing_can_be_said() {
    for text in [
        "import triton\n@triton.jit\ndef k(x): pass\n",
        "import triton\n@triton.jit\ndef k(x): pass\ndef f(n): k[(1,)](n)\n",
        "import triton\n@triton.jit\ndef k(x): tl.load(x)\ndef f(x): k[(1,)](x)\ndef g(x): k[(1,)](x)\n",
        "import triton\n@triton.jit\ndef k(x): tl.load(x)\nclass C:\n    def f(self, x): k[(1,)](x)\n",
    ] {
        assert_eq!(drafted(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn what_is_printed_is_read_again(comment in comment()) {
        let text = comment.to_string();
        prop_assert_eq!(read(&text).map(|parsed| parsed.comment), Ok(comment), "{}", text);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-zA-Z0-9=|\\[\\],:.()*+/ \\-_é\t]{0,80}") {
        if let Ok(parsed) = read(&text) {
            let again = read(&parsed.comment.to_string());
            prop_assert_eq!(again.map(|parsed| parsed.comment), Ok(parsed.comment));
        }
        let _ = with_comment(&text);
    }

    #[test]
    fn no_file_makes_the_search_panic(
        before in "(import triton\n@triton.jit\n)?(def k\\(x\\): pass\n)?",
        comment in "# ?warpsmith:[a-zA-Z0-9=|\\[\\], é]{0,60}[\r\n]{0,3}",
        after in "(@triton.jit\n)?(def f\\(x\\): k\\[(1,)\\]\\(x\\)\n)?[ \\S]{0,20}",
    ) {
        let text = format!("{before}{comment}{after}");
        if let Err(miss) = found(&text)
            && let Some(range) = miss.range
        {
            prop_assert!(text.get(range).is_some(), "{text}");
        }
        let _ = drafted(&text);
    }

    /// Whatever is accepted is a Definition that a file could hold.
    #[test]
    fn accepted_comments_obey_the_rules_of_definitions(
        dtypes in prop::sample::subsequence(vec!["f32", "f16", "bf16"], 1..4),
        lengths in prop::collection::vec(0_u64..100_000, 1..5),
        fixed in 0_u64..5000,
        std in (0_u32..900).prop_map(|hundredths| f64::from(hundredths) / 100.0),
        second in prop_oneof![Just("i32[N]:int(0,M)"), Just("bool[M]"), Just("i8[N]:int(-3,4)"), Just("f8e4m3[N]")],
    ) {
        let dtypes = dtypes.join("|");
        let lengths: Vec<String> = lengths.iter().map(u64::to_string).collect();
        let comment = format!(
            "ref=torch.add x={dtypes}[M,N,{fixed}]:normal(0,{std:?}) w={second} y=out:{dtypes}[M] M={} N=7 eps=0.5",
            lengths.join(",")
        );
        prop_assert!(obeys_the_rules(&definition(&comment)));
    }
}
