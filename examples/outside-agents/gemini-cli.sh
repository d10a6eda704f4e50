#!/bin/bash
# Gemini CLI: npm install @google/gemini-cli. The key: GEMINI_API_KEY.
set -eu -o pipefail
[ -z "$RCB_BASE_URL" ] || export GOOGLE_GEMINI_BASE_URL="${RCB_BASE_URL%/v1*}"
# With an address of one's own it refuses to choose the key by itself.
export GEMINI_CLI_TRUST_WORKSPACE=true GEMINI_CLI_SYSTEM_SETTINGS_PATH="${RCB_USAGE_FILE%/*}/gemini.json"
echo '{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}}' \
    >"$GEMINI_CLI_SYSTEM_SETTINGS_PATH"
gemini --yolo --output-format stream-json --model "$RCB_MODEL" <"$RCB_PROMPT_FILE" |
python3 -uc '
import json, os, sys
for line in sys.stdin:
    print(line, end="")
    event = json.loads(line) if line.startswith("{") else {}
    if event.get("type") == "result":
        took = event["stats"]
        call = {"prompt_tokens": took["input_tokens"], "completion_tokens": took["total_tokens"] - took["input_tokens"]}
        if took["total_tokens"]:
            print(json.dumps(call), file=open(os.environ["RCB_USAGE_FILE"], "a"))
        if "API key not valid" in (event.get("error") or {}).get("message", ""):
            sys.exit(75)
'
