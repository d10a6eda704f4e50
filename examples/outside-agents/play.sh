#!/usr/bin/env bash
# mini-swe-agent, driven by a scripted model, plays one challenge; shows what the run says of it.
#
#   pip install mini-swe-agent        # anywhere; `mini` must be on the PATH
#   examples/mini-swe-agent/try.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin="$here/../../.venv/bin"
challenge=${1:-DyT/forward}
out=${2:-$(mktemp -d)/run}

exec 3< <(exec "$bin/python" "$here/scripted_model.py" "$challenge")
server=$!
trap 'kill $server' EXIT
read -r url <&3

OPENAI_API_KEY=none "$bin/rcb" run --agent "command:$here/agent.sh" --model openai/scripted --base-url "$url" \
    --challenges "$challenge" --budget-seconds 300 --out "$out"
"$bin/rcb" trajectory "$out" "$challenge" --max-chars 1500
