use serde_json::json;

use super::*;

#[test]
fn any_text_is_a_python_string() {
    assert_eq!(literal("x = 1\n"), "\"\"\"x = 1\n\"\"\"");
    assert_eq!(literal("say \"\"\"so\"\"\"\n"), "\"say \\\"\\\"\\\"so\\\"\\\"\\\"\\n\"");
    assert_eq!(literal("a \\ b"), "\"a \\\\ b\"");
    assert_eq!(literal("ends with \""), "\"ends with \\\"\"");
}

#[test]
fn values_are_written_as_python_writes_them() {
    let value = json!({"a": null, "b": [true, false, 1e-6], "c": "x"});
    assert_eq!(python(&value, 0), r#"{"a": None, "b": [True, False, 1e-6], "c": "x"}"#);
    let long = json!({"key": "x".repeat(80), "other": [1]});
    assert!(python(&long, 0).contains("\n    \"other\": [1],\n}"));
}
