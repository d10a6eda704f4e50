#!/bin/bash
# Claude Code: npm install @anthropic-ai/claude-code. The key: ANTHROPIC_API_KEY.
set -eu -o pipefail
# Without IS_SANDBOX it does not skip permissions for root; it prices models that it does not know as one that it knows.
export IS_SANDBOX=1 DISABLE_AUTOUPDATER=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
[ -z "$RCB_BASE_URL" ] || export ANTHROPIC_BASE_URL="${RCB_BASE_URL%/v1}"
exec 3< <(exec claude --print --output-format stream-json --verbose --dangerously-skip-permissions --model "$RCB_MODEL" \
    <"$RCB_PROMPT_FILE")
agent=$!
python3 -uc '
import json, os, sys
for line in sys.stdin:
    print(line, end="")
    event = json.loads(line) if line.startswith("{") else {}
    if event.get("type") == "result":
        took = event["usage"]
        prompt = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        call = {"prompt_tokens": sum(took.get(name) or 0 for name in prompt)}
        call["completion_tokens"] = took["output_tokens"]
        call["cost_usd"] = None if os.environ["RCB_BASE_URL"] else event["total_cost_usd"]
        if call["prompt_tokens"]:
            print(json.dumps(call), file=open(os.environ["RCB_USAGE_FILE"], "a"))
    if event.get("subtype") == "api_retry" and event.get("error_status") in (401, 403):
        sys.exit(75)  # it would try ten times, for three minutes
' <&3 || { code=$?; kill $agent; exit $code; }
wait $agent
