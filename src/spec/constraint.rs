//! Evaluates the constraints of a Definition over its axes: the part of Python that needs no values of tensors.

use super::axes::AxisValues;
use super::definition::{AxisKind, Definition};
use crate::source::syntax::{Node, children, parse_tree, text_of};

/// Deeper expressions are not looked at: nobody writes them, and each level costs stack.
const MAX_NESTING: usize = 64;

/// What is known of the names in a constraint.
struct Known<'a> {
    definition: &'a Definition,
    axes: AxisValues,
    text: &'a str,
}

impl Definition {
    /// Whether a constraint holds for these values of the variable axes. `None` when that cannot be said: it
    /// speaks of values of tensors, of an axis without a value, or in more than integer arithmetic.
    pub fn constraint_holds(&self, constraint: &str, axes: &AxisValues) -> Option<bool> {
        let tree = parse_tree(constraint);
        let root = tree.root_node();
        if root.has_error() {
            return None;
        }
        let statements = children(root);
        let [statement] = statements.as_slice() else { return None };
        let expression = children(*statement).into_iter().next()?;
        Known { definition: self, axes: self.all_axes(axes), text: constraint }.truth(expression, 0)
    }

    /// The variable axes that a constraint of the form `axis == expression` gives, with that constraint; none
    /// of them is needed for another.
    pub fn axes_given_by_constraints(&self) -> Vec<(&str, &str)> {
        let is_variable = |name: &str| self.axis(name).is_some_and(|axis| axis.kind == AxisKind::Var);
        let mut given: Vec<(&str, &str)> = Vec::new();
        let mut used: Vec<String> = Vec::new();
        for constraint in &self.constraints {
            let Some((left, right)) = constraint.split_once("==") else { continue };
            let left = left.trim();
            let names = super::python::names(right);
            let is_new =
                !given.iter().any(|(name, _)| *name == left) && !used.iter().any(|name| name == left);
            let is_chained = names.iter().any(|name| given.iter().any(|(axis, _)| axis == name));
            let is_own = names.iter().any(|name| name == left);
            if is_variable(left) && is_new && !is_chained && !is_own && !right.contains('=') {
                given.push((left, right.trim()));
                used.extend(names);
            }
        }
        given
    }

    /// The value of an integer expression over axes and shapes, as constraints have them.
    pub fn constraint_value(&self, expression: &str, axes: &AxisValues) -> Option<u64> {
        let tree = parse_tree(expression);
        let statement = children(tree.root_node()).into_iter().next()?;
        let node = children(statement).into_iter().next()?;
        let known = Known { definition: self, axes: self.all_axes(axes), text: expression };
        known.number(node, 0).and_then(|value| u64::try_from(value).ok())
    }
}

impl Known<'_> {
    fn truth(&self, node: Node<'_>, depth: usize) -> Option<bool> {
        if depth > MAX_NESTING {
            return None;
        }
        let inner = children(node);
        match node.kind() {
            "parenthesized_expression" => self.truth(*inner.first()?, depth + 1),
            "not_operator" => {
                self.truth(node.child_by_field_name("argument")?, depth + 1).map(|value| !value)
            }
            "boolean_operator" => {
                let side = |name| self.truth(node.child_by_field_name(name)?, depth + 1);
                let (left, right) = (side("left"), side("right"));
                match text_of(node.child_by_field_name("operator")?, self.text) {
                    "and" => Some(left? && right?),
                    _ => Some(left? || right?),
                }
            }
            "comparison_operator" => self.comparison(node, &inner, depth),
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// `a < b <= c`: every neighbouring pair.
    fn comparison(&self, node: Node<'_>, operands: &[Node<'_>], depth: usize) -> Option<bool> {
        let operators = node.children_by_field_name("operators");
        let operators: Vec<&str> = operators.map(|node| text_of(node, self.text)).collect();
        if operators.len() + 1 != operands.len() {
            return None;
        }
        let mut holds = true;
        for (pair, operator) in operands.windows(2).zip(operators) {
            let (left, right) = (self.number(pair[0], depth + 1)?, self.number(pair[1], depth + 1)?);
            holds &= match operator {
                "==" => left == right,
                "!=" => left != right,
                "<" => left < right,
                "<=" => left <= right,
                ">" => left > right,
                ">=" => left >= right,
                _ => return None,
            };
        }
        Some(holds)
    }

    fn number(&self, node: Node<'_>, depth: usize) -> Option<i128> {
        if depth > MAX_NESTING {
            return None;
        }
        match node.kind() {
            "integer" => text_of(node, self.text).parse().ok(),
            "identifier" => self.axes.get(text_of(node, self.text)).map(|&value| i128::from(value)),
            "parenthesized_expression" => self.number(*children(node).first()?, depth + 1),
            "unary_operator" if text_of(node, self.text).starts_with('-') => {
                self.number(node.child_by_field_name("argument")?, depth + 1)?.checked_neg()
            }
            "binary_operator" => {
                let side = |name| self.number(node.child_by_field_name(name)?, depth + 1);
                let (left, right) = (side("left")?, side("right")?);
                match text_of(node.child_by_field_name("operator")?, self.text) {
                    "+" => left.checked_add(right),
                    "-" => left.checked_sub(right),
                    "*" => left.checked_mul(right),
                    "//" if right > 0 => Some(left.div_euclid(right)),
                    "%" if right > 0 => Some(left.rem_euclid(right)),
                    // Python divides to a float; a whole quotient is the only one that is exact here.
                    "/" if right != 0 && left % right == 0 => Some(left / right),
                    _ => None,
                }
            }
            "subscript" => self.length(node),
            _ => None,
        }
    }

    /// `x.shape[1]`, `x.shape[-1]`
    fn length(&self, node: Node<'_>) -> Option<i128> {
        let tensor = text_of(node.child_by_field_name("value")?, self.text).strip_suffix(".shape")?;
        let index: i64 = text_of(node.child_by_field_name("subscript")?, self.text).parse().ok()?;
        let spec = self.definition.input(tensor).or_else(|| self.definition.output(tensor))?;
        let names = spec.shape.as_ref()?;
        let at = if index < 0 { index.checked_add(i64::try_from(names.len()).ok()?)? } else { index };
        let name = names.get(usize::try_from(at).ok()?)?;
        self.axes.get(name).map(|&value| i128::from(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(constraints: &[&str]) -> Definition {
        let json = serde_json::json!({
            "name": "d", "op_type": "o",
            "axes": {"M": {"type": "var"}, "L": {"type": "var"}, "K": {"type": "const", "value": 64}},
            "inputs": {"x": {"shape": ["M", "K"], "dtype": "float32"}, "y": {"shape": ["L"], "dtype": "float32"}},
            "outputs": {"z": {"shape": ["M"], "dtype": "float32"}},
            "constraints": constraints,
            "reference": "def run(x, y):\n    return x\n",
        });
        Definition::from_json(&json.to_string(), "d.json").expect("a Definition")
    }

    #[test]
    fn what_can_be_said_of_axes_is_said() {
        let definition = definition(&[]);
        let axes = AxisValues::from([("M".to_owned(), 6), ("L".to_owned(), 7)]);
        for (constraint, expected) in [
            ("L == M + 1", Some(true)),
            ("L == M", Some(false)),
            ("K % 16 == 0", Some(true)),
            ("K // 9 == 7 and not M > L", Some(true)),
            ("1 <= M < L <= K", Some(true)),
            ("(M >= 8) or L != 7", Some(false)),
            ("x.shape[-1] == K and x.shape[0] == M", Some(true)),
            ("-M < 0", Some(true)),
            ("K / 2 == 32", Some(true)),
            ("K / 5 == 12", None),
            ("M % 0 == 0", None),
            ("M ** 2 > 3", None),
            ("y[-1].item() == M", None),
            ("Q == 3", None),
            ("x.shape[2] == M", None),
            ("x.shape[-9223372036854775808] == M", None),
            ("9999999999999999999999999999999999999999999 > M", None),
            ("M == ", None),
            ("", None),
        ] {
            assert_eq!(definition.constraint_holds(constraint, &axes), expected, "{constraint}");
        }
        let deep = format!("{}M == 6{}", "(".repeat(5000), ")".repeat(5000));
        assert_eq!(definition.constraint_holds(&deep, &axes), None);
    }

    #[test]
    fn axes_that_follow_from_others_are_seen() {
        let given = definition(&["L == M + 1"]);
        assert_eq!(given.axes_given_by_constraints(), [("L", "M + 1")]);
        let axes = AxisValues::from([("M".to_owned(), 6)]);
        assert_eq!(given.constraint_value("M + 1", &axes), Some(7));
        for none in ["K == M", "L == L + 1", "M % 8 == 0", "L >= M", "L == M == K"] {
            assert_eq!(definition(&[none]).axes_given_by_constraints(), [], "{none}");
        }
        assert_eq!(definition(&["L == M", "M == L + 1"]).axes_given_by_constraints(), [("L", "M")]);
    }
}
