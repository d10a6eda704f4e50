#!/bin/bash
# Gemini CLI: npm install @google/gemini-cli. The key: GEMINI_API_KEY.
set -eu -o pipefail
[ -z "$RCB_BASE_URL" ] || export GOOGLE_GEMINI_BASE_URL="${RCB_BASE_URL%/v1*}"
# With an address of one's own it refuses to choose the key by itself.
export GEMINI_CLI_TRUST_WORKSPACE=true GEMINI_CLI_SYSTEM_SETTINGS_PATH="${RCB_USAGE_FILE%/*}/gemini.json"
echo '{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}}' \
    >"$GEMINI_CLI_SYSTEM_SETTINGS_PATH"
gemini --yolo --output-format stream-json --model "$RCB_MODEL" <"$RCB_PROMPT_FILE"
