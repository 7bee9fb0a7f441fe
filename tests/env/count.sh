# shellcheck shell=bash
# Reads how many tests passed, failed and were skipped from a log; sourced by tests/run. Each function takes the log
# and sets `passed`, `failed` and `skipped`. A log without a summary leaves all three at 0, which counts as a failure.

# sum PATTERN FILE: adds the numbers that stand before a word, in the lines that match.
sum() { grep -oE "$1" "$2" | grep -oE '[0-9]+' | awk '{ total += $1 } END { print total + 0 }'; }

# `Summary [ 1.2s] 12 tests run: 9 passed (1 slow), 2 failed, 1 timed out, 3 skipped`
count_nextest() {
  local summary
  summary=$(grep -E '^ *Summary \[' "$1" | tail -n 1)
  passed=$(sum '[0-9]+ passed' <(echo "$summary"))
  skipped=$(sum '[0-9]+ skipped' <(echo "$summary"))
  failed=$(($(sum '[0-9]+ tests? run' <(echo "$summary")) - passed))
}

# `test result: ok. 3 passed; 0 failed; 1 ignored; …`, one line for each test binary
count_libtest() {
  local results
  results=$(grep -E '^test result: ' "$1")
  passed=$(sum '[0-9]+ passed' <(echo "$results"))
  failed=$(sum '[0-9]+ failed' <(echo "$results"))
  skipped=$(sum '[0-9]+ ignored' <(echo "$results"))
}

# `Ran 12 tests in 1.2s`, then `OK (skipped=1)` or `FAILED (failures=1, errors=2, skipped=1)`; several are added
count_unittest() {
  local verdicts run
  run=$(sum '^Ran [0-9]+ tests?' "$1")
  verdicts=$(grep -E '^(OK|FAILED|NO TESTS RAN)( \(|$)' "$1")
  skipped=$(sum 'skipped=[0-9]+' <(echo "$verdicts"))
  failed=$(($(sum '\(failures=[0-9]+' <(echo "$verdicts")) + $(sum 'errors=[0-9]+' <(echo "$verdicts"))))
  failed=$((failed + $(sum 'unexpected successes=[0-9]+' <(echo "$verdicts"))))
  passed=$((run - skipped - failed))
  # Sub-tests and class set-ups fail without counting as a test that ran.
  if [ $passed -lt 0 ]; then passed=0; fi
}

# Our own programs: the last line of the form `1 passed, 0 failed, 2 skipped`
count_said() {
  local line
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$1" | tail -n 1)
  passed=$(sum '[0-9]+ passed' <(echo "$line"))
  failed=$(sum '[0-9]+ failed' <(echo "$line"))
  skipped=$(sum '[0-9]+ skipped' <(echo "$line"))
}
