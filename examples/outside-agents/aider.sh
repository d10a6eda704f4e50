#!/bin/bash
# aider: pip install aider-chat. The key: OPENAI_API_KEY, or what litellm expects for the model.
set -eu -o pipefail
export PYTHONUNBUFFERED=1 AIDER_ANALYTICS_LOG="${RCB_USAGE_FILE%/*}/aider.jsonl" AIDER_CHAT_HISTORY_FILE=/dev/null
[ -z "$RCB_BASE_URL" ] || export OPENAI_API_BASE="$RCB_BASE_URL"
# --no-analytics: nothing is sent, and the log is written all the same. It does not look for files by itself.
aider --model "$RCB_MODEL" --edit-format diff --yes-always --no-git --no-analytics --no-check-update --no-show-model-warnings \
    --no-pretty --no-stream --message-file "$RCB_PROMPT_FILE" ${RCB_PAPER_FILE:+--read "$RCB_PAPER_FILE"} "$RCB_FILE" 2>&1 |
python3 -uc '
import json, os, sys
refused = False
for line in sys.stdin:
    print(line, end="")
    refused = refused or "litellm.AuthenticationError" in line
with open(os.environ["AIDER_ANALYTICS_LOG"]) as log, open(os.environ["RCB_USAGE_FILE"], "a") as file:
    for event in map(json.loads, log):
        if event["event"] == "message_send":
            took = event["properties"]
            call = {name: took[name] for name in ("prompt_tokens", "completion_tokens")}
            call["cost_usd"] = took["cost"] or None
            print(json.dumps(call), file=file)
sys.exit(75 * refused)
'
