#!/usr/bin/env bash
# Drives the server with the stock openai client and Prometheus' own parser, in a throw-away Python environment under the
# user's cache folder. Arguments: the program, then what unittest takes. CLIENT_PYTHON names an interpreter that has both.
set -euo pipefail
cd "$(dirname "$0")/.."

program="${1:-build/holdfast}"
[ $# -gt 0 ] && shift
python="${CLIENT_PYTHON:-}"
if [ -z "$python" ]; then
  folder="${XDG_CACHE_HOME:-$HOME/.cache}/holdfast/clients"
  python="$folder/bin/python"
  if ! "$python" -c "import openai, prometheus_client" 2>/dev/null; then
    tools/setup.sh peers
    python3 -m venv "$folder"
    "$python" -m pip install --quiet --no-cache-dir openai prometheus_client
  fi
fi
"$program" models fetch smollm2 >&2
exec "$python" tools/openai_client_test.py "$program" smollm2 "$@"
