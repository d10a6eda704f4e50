#!/bin/sh
# mini-swe-agent plays a challenge: rcb run --agent "command:/path/to/agent.sh" --model openai/NAME
#
# rcb starts this in a folder with the challenge's files; RCB_... variables say what is to be done. Needs `mini` on the
# PATH (pip install mini-swe-agent), and the key and address that litellm expects for the model. Commands of the agent
# run on this machine, as you.
set -eu
export MSWEA_CONFIGURED=true MSWEA_SILENT_STARTUP=1 MSWEA_COST_TRACKING=ignore_errors
trajectory="$(dirname "$RCB_USAGE_FILE")/mini.json"
[ -z "$RCB_BASE_URL" ] || export OPENAI_API_BASE="$RCB_BASE_URL" OPENAI_BASE_URL="$RCB_BASE_URL"

mini --model "$RCB_MODEL" --task "$RCB_PROMPT" --config mini_textbased.yaml --config agent.mode=yolo \
    --config model.model_class=litellm_textbased --output "$trajectory" --exit-immediately </dev/null

# What its model calls took, for rcb's budgets and reports.
python3 - "$trajectory" "$RCB_USAGE_FILE" <<'PYTHON'
import json, sys
with open(sys.argv[1]) as file, open(sys.argv[2], "a") as usage:
    for message in json.load(file)["messages"]:
        taken = ((message.get("extra") or {}).get("response") or {}).get("usage")
        if taken:
            names = ("prompt_tokens", "completion_tokens")
            print(json.dumps({name: taken.get(name) for name in names}), file=usage)
PYTHON
