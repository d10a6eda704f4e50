#!/bin/bash
# mini-swe-agent: pip install mini-swe-agent. The key: OPENAI_API_KEY, or what litellm expects for the model.
set -eu -o pipefail
export MSWEA_CONFIGURED=true MSWEA_SILENT_STARTUP=1 MSWEA_COST_TRACKING=ignore_errors
[ -z "$RCB_BASE_URL" ] || export OPENAI_API_BASE="$RCB_BASE_URL"
trajectory="${RCB_USAGE_FILE%/*}/mini.json"
code=0
mini --model "$RCB_MODEL" --task "$RCB_PROMPT" --yolo --exit-immediately --output "$trajectory" </dev/null || code=$?

[ -f "$trajectory" ] || exit $code
python3 - "$trajectory" <<'PYTHON' || exit
import json, os, sys
told = json.load(open(sys.argv[1]))
with open(os.environ["RCB_USAGE_FILE"], "a") as file:
    for message in told["messages"]:
        usage = ((message.get("extra") or {}).get("response") or {}).get("usage")
        if usage:
            names = ("prompt_tokens", "completion_tokens")
            print(json.dumps({name: usage.get(name) for name in names}), file=file)
if told["info"].get("exit_status") == "AuthenticationError":
    sys.exit(75)
PYTHON
exit $code
