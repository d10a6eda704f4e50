#!/bin/bash
# opencode: npm install opencode-ai. The key: OPENAI_API_KEY; the server speaks chat completions.
set -eu -o pipefail
export OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_LSP_DOWNLOAD=1
export OPENCODE_CONFIG_CONTENT='{"provider": {"rcb": {"npm": "@ai-sdk/openai-compatible", "models": {"'$RCB_MODEL'": {}},
    "options": {"baseURL": "'${RCB_BASE_URL:-https://api.openai.com/v1}'", "apiKey": "{env:OPENAI_API_KEY}"}}}}'
opencode run --format json --auto --model "rcb/$RCB_MODEL" <"$RCB_PROMPT_FILE" |
python3 -uc '
import json, os, sys
for line in sys.stdin:
    print(line, end="")
    event = json.loads(line) if line.startswith("{") else {}
    if event.get("type") == "step_finish":
        took = event["part"]["tokens"]
        call = {"prompt_tokens": took["input"] + took["cache"]["read"] + took["cache"]["write"]}
        call |= {"completion_tokens": took["output"] + took["reasoning"], "reasoning_tokens": took["reasoning"]}
        print(json.dumps(call), file=open(os.environ["RCB_USAGE_FILE"], "a"))
    if event.get("type") == "error" and event["error"].get("data", {}).get("statusCode") in (401, 403):
        sys.exit(75)
'
