#!/usr/bin/env bash
# Command-line agents, driven by a scripted model, play one challenge; shows what the run says of each.
#
#   examples/outside-agents/play.sh                     # all seven
#   examples/outside-agents/play.sh codex aider         # these
#
# Each is installed first, with npm or pip, into a folder of its own below AGENTS_FOLDER (default: outside-agents in your
# cache; 50 to 750 MB each), once: remove its folder for a newer version. RCB names rcb's program, CHALLENGE the challenge,
# and OUT the folder of the runs. MODEL_KEY=refused shows what each does when its key is refused.
# Exit code 69: an agent cannot be installed; 1: one could not work.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
RCB=${RCB:-$here/../../.venv/bin/rcb}
agents=${AGENTS_FOLDER:-${XDG_CACHE_HOME:-$HOME/.cache}/outside-agents}
challenge=${CHALLENGE:-DyT/forward}
out=${OUT:-$(mktemp -d)}
key=${MODEL_KEY:-scripted}
code=0

# Of each agent: where it is from, and the name it is to give to the model.
about() {
    case $1 in
        mini-swe-agent) echo pip mini-swe-agent openai/scripted ;;
        aider) echo pip aider-chat openai/scripted ;;
        codex) echo npm @openai/codex scripted ;;
        claude-code) echo npm @anthropic-ai/claude-code scripted ;;
        opencode) echo npm opencode-ai scripted ;;
        gemini-cli) echo npm @google/gemini-cli scripted ;;
        qwen-code) echo npm @qwen-code/qwen-code scripted ;;
        *) echo "play.sh: there is no agent $1; there are mini-swe-agent, aider, codex, claude-code, opencode, gemini-cli, qwen-code" >&2
           return 1 ;;
    esac
}

install() {
    local installer=$1 package=$2 folder=$3
    echo "play.sh: installing $package into $folder (once) ..." >&2
    rm -rf "$folder"
    if [ "$installer" = npm ]; then
        npm install --global --prefix "$folder" --no-audit --no-fund --loglevel error "$package" >&2
    else
        python3 -m venv "$folder" && "$folder/bin/pip" install --quiet --disable-pip-version-check "$package" >&2
    fi || {
        echo "play.sh: $package cannot be installed with $installer; its words are above" >&2
        exit 69
    }
    touch "$folder/complete"
}

[ $# -gt 0 ] || set -- mini-swe-agent aider codex claude-code opencode gemini-cli qwen-code
for agent; do about "$agent" >/dev/null; done

exec 3< <(exec "$(dirname "$RCB")/python" "$here/scripted_model.py" "$challenge")
server=$!
trap 'kill $server' EXIT
read -r url <&3

export OPENAI_API_KEY=$key ANTHROPIC_API_KEY=$key GEMINI_API_KEY=$key
mkdir -p "$agents"
for agent; do
    read -r installer package model < <(about "$agent")
    [ -e "$agents/$agent/complete" ] || install "$installer" "$package" "$agents/$agent"
    PATH="$agents/$agent/bin:$here:$PATH" "$RCB" run --agent "command:$agent.sh" --model "$model" --base-url "$url/v1" \
        --challenges "$challenge" --budget-seconds 300 --out "$out/$agent" --quiet ||
        code=$?
done
"$RCB" report --brief "$out"
exit $code
