#!/bin/bash
# Codex: npm install @openai/codex. The key: OPENAI_API_KEY; the server speaks OpenAI's responses.
set -eu -o pipefail
provider="name=\"rcb\", base_url=\"${RCB_BASE_URL:-https://api.openai.com/v1}\", env_key=\"OPENAI_API_KEY\", wire_api=\"responses\""
codex exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --model "$RCB_MODEL" \
    -c 'model_provider="rcb"' -c "model_providers.rcb={$provider}" - <"$RCB_PROMPT_FILE" |
python3 -uc '
import json, os, sys
for line in sys.stdin:
    print(line, end="")
    event = json.loads(line) if line.startswith("{") else {}
    if event.get("type") == "turn.completed":
        took = event["usage"]
        call = {"prompt_tokens": took["input_tokens"], "completion_tokens": took["output_tokens"]}
        call["reasoning_tokens"] = took.get("reasoning_output_tokens")
        print(json.dumps(call), file=open(os.environ["RCB_USAGE_FILE"], "a"))
    if event.get("type") == "turn.failed" and "401 Unauthorized" in event["error"]["message"]:
        sys.exit(75)
'
