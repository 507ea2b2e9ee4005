#!/usr/bin/env bash
# The judge of gradus.array_api: array-api-tests, whose folder is the argument. It needs, beside an
# importable gradus (PYTHONPATH or an installed wheel), what its requirements.txt names:
#   git clone --recurse-submodules https://github.com/data-apis/array-api-tests
#   pip install -r array-api-tests/requirements.txt
#   run.sh array-api-tests [OPTIONS OF PYTEST]
# PYTHON names another interpreter. Expected failures stand, with reasons, in xfails.txt.
set -euo pipefail
if [[ $# -lt 1 || ! -d $1/array_api_tests ]]; then
  sed -n '2,7s/^# //p' "$0" >&2
  exit 2
fi
suite=$1
shift
xfails=$(cd "$(dirname "$0")" && pwd)/xfails.txt
cd "$suite"
export ARRAY_API_TESTS_MODULE=gradus.array_api ARRAY_API_TESTS_VERSION=2024.12
export ARRAY_API_TESTS_SKIP_DTYPES=int8,int16,uint16,uint32,uint64
options=(-p no:cacheprovider -q --tb=short --max-examples 20 --derandomize --disable-deadline
         --disable-extension fft --ignore array_api_tests/test_fft.py -k "not fft-"
         --rootdir=. "--xfails-file=$xfails")
said=$("${PYTHON:-python3}" -m pytest "${options[@]}" array_api_tests "$@" 2>&1) && rc=0 || rc=$?
[[ $rc == 0 ]] || printf '%s\n' "$said"
count() { grep -oE "[0-9]+ $1" <<<"$(tail -n 1 <<<"$said")" | head -n 1 | cut -d' ' -f1 || true; }
for what in passed failed skipped xfailed xpassed error; do
  printf '%s %s\n' "$what" "$(count $what)"
done | awk '{ n[$1] = $2 + 0 } END {
  all = n["passed"] + n["failed"] + n["xfailed"] + n["xpassed"] + n["error"]
  printf "array_api: %d passed, %d failed, %d expected to fail, of them %d passed, %d skipped: ",
    n["passed"], n["failed"] + n["error"], n["xfailed"] + n["xpassed"], n["xpassed"], n["skipped"]
  printf "%.1f %%\n", all ? 100 * (n["passed"] + n["xpassed"]) / all : 0
}'
exit "$rc"
