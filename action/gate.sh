#!/usr/bin/env bash
# Records a command and checks its recording; action.yml says what the variables are.
set -euo pipefail

heaplab=$(command -v heaplab || true)
if [ -z "$heaplab" ]; then
  if [ -z "${GATE_SHA256:-}" ] || [ -z "${GATE_VERSION:-}" ]; then
    echo "::error::no heaplab is on the PATH, and no version with its sha256 was given to download one" >&2
    exit 2
  fi
  name="heaplab-$GATE_VERSION-$(uname -m)-unknown-linux-gnu"
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  curl --fail --silent --show-error --location --retry 3 -o "$folder/heaplab.tar.gz" \
    "https://github.com/heaplab/heaplab/releases/download/v$GATE_VERSION/$name.tar.gz"
  echo "$GATE_SHA256  $folder/heaplab.tar.gz" | sha256sum --check --quiet
  tar -C "$folder" -xzf "$folder/heaplab.tar.gz"
  heaplab="$folder/$name/heaplab"
fi

case "${GATE_STRICT:-false}" in
  true | True | TRUE) strict=--strict ;;
  false | False | FALSE | "") strict= ;;
  *) echo "::error::strict: expected true or false" >&2; exit 2 ;;
esac
# An earlier run's: a job that ends before the check must not upload it.
if [ -n "${GATE_JUNIT:-}" ] && grep -q "<testsuite" "$GATE_JUNIT" 2>/dev/null; then rm "$GATE_JUNIT"; fi

if [ -n "${GATE_COMMAND:-}" ]; then
  words=(bash -c "$GATE_COMMAND")
  # A plain command needs no shell, whose own allocations would be recorded too.
  if [[ $GATE_COMMAND =~ ^[A-Za-z0-9_./:@%+,\ -]+$ ]]; then
    read -ra plain <<< "$GATE_COMMAND"
    if type -P "${plain[0]}" > /dev/null; then words=("${plain[@]}"); fi
  fi
  "$heaplab" record --force -o "$GATE_RECORDING" -- "${words[@]}" || {
    code=$?
    echo "::error::heaplab record: the command failed, or could not be recorded (exit code $code)"
    exit "$code"
  }
fi

arguments=()
while IFS= read -r assertion; do
  if [ -n "${assertion//[[:space:]]/}" ]; then arguments+=("--assert=$assertion"); fi
done <<< "$GATE_ASSERT"
if [ -n "${GATE_BASELINE:-}" ]; then arguments+=("--baseline=$GATE_BASELINE"); fi
if [ -n "${GATE_JUNIT:-}" ]; then arguments+=("--junit=$GATE_JUNIT"); fi
if [ -n "${GATE_PROCESS:-}" ]; then arguments+=("--process=$GATE_PROCESS"); fi
if [ -n "$strict" ]; then arguments+=("$strict"); fi

code=0
text=$("$heaplab" check "${arguments[@]}" -- "$GATE_RECORDING" 2>&1) || code=$?
# Names of functions come of the recorded program. None of them is a command to the runner.
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
printf '::stop-commands::%s\n%s\n::%s::\n' "$token" "$text" "$token"
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
  { echo "### heaplab check"; echo '```'; echo "$text"; echo '```'; } >> "$GITHUB_STEP_SUMMARY"
fi
if [ "$code" != 0 ]; then
  echo "::error::heaplab check: an assertion does not hold, or could not be checked (exit code $code)"
fi
exit "$code"
