#!/bin/bash
# qwen-code: npm install @qwen-code/qwen-code. The key: OPENAI_API_KEY; the server speaks chat completions.
set -eu -o pipefail
export OPENAI_BASE_URL="${RCB_BASE_URL:-https://api.openai.com/v1}" OPENAI_MODEL="$RCB_MODEL"
qwen --yolo --auth-type openai --output-format stream-json --model "$RCB_MODEL" <"$RCB_PROMPT_FILE" |
python3 -uc '
import json, os, sys
for line in sys.stdin:
    print(line, end="")
    event = json.loads(line) if line.startswith("{") else {}
    if event.get("type") == "result":
        took = event["usage"]
        call = {"prompt_tokens": took["input_tokens"], "completion_tokens": took["output_tokens"]}
        if call["prompt_tokens"]:
            print(json.dumps(call), file=open(os.environ["RCB_USAGE_FILE"], "a"))
        if event.get("result", "").startswith("[API Error: "):  # which is a success to it, and code 0
            sys.exit(75)
'
