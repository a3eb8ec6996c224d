#!/bin/sh
# The recorded faults of bodies were answered where no session was; with one, its worker reads some of
# these bodies. The answers are the same.
set -eu
. tests/http/start.inc
data=tests/data/golden/contract
python3 - "$data/cases.jsonl" >"$dir/cases.jsonl" <<'END'
import json
import sys

for line in open(sys.argv[1], encoding="utf-8"):
    case = json.loads(line)
    if "/no-such-session/" not in case["path"] or case["group"] in ("auth", "route", "framing"):
        continue
    expect = case.get("good") if case["reference_only"] else case["expect"]
    status = expect["status"] if isinstance(expect["status"], list) else [expect["status"]]
    if 404 in status:
        continue
    case["path"] = case["path"].replace("no-such-session", "{session_id}")
    case["needs"] = "session"
    print(json.dumps(case))
END
start_stepd
python3 "$data/replay.py" --base-url "$url" --token "$token" --model "$model" --strict "$dir/cases.jsonl"
