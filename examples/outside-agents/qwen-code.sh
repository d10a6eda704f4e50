#!/bin/bash
# qwen-code: npm install @qwen-code/qwen-code. The key: OPENAI_API_KEY; the server speaks chat completions.
set -eu -o pipefail
export OPENAI_BASE_URL="${RCB_BASE_URL:-https://api.openai.com/v1}" OPENAI_MODEL="$RCB_MODEL"
qwen --yolo --auth-type openai --output-format stream-json --model "$RCB_MODEL" <"$RCB_PROMPT_FILE"
