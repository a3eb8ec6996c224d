#!/usr/bin/env python3
"""The recorded session of the real client (tests/data/golden/contract/session.jsonl) against a service.

    session_replay.py --base-url U --token T --store-cert F --store-key F session.jsonl

Sends the client's requests as recorded, in its order, with the ids that this service gave in the place
of the recorded ones and this script's store in the place of the recorded one. Compares what a client
reads: statuses, exact key sets, ids in request order, digests of the uploads, and that a resumed session
goes on with the very loss that the unbroken one had. Last line: N passed, N failed.
"""
import argparse
import hashlib
import json
import math
import os
import re
import sys
from urllib.parse import urlsplit

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "data", "golden", "contract"))
import replay  # noqa: E402

STORE = "https://objects.example:9443"


class Client:
    def __init__(self, service, store):
        self.service, self.store = service, store
        self.names = {}  # recorded id -> this service's
        self.session = None
        self.losses = {}  # recorded seq -> (loss, gradient_norm)
        self.passed = self.failed = 0
        self.requests = []  # (method, path with query, headers) at the store
        self.watch_store()

    def watch_store(self):
        handler, requests = self.store.server.RequestHandlerClass, self.requests
        for verb in ("PUT", "GET"):
            def do(request, answer=getattr(handler, "do_" + verb), verb=verb):
                requests.append((verb, request.path, dict(request.headers)))
                answer(request)
            setattr(handler, "do_" + verb, do)

    def check(self, good, what, *args):
        if good:
            self.passed += 1
        else:
            self.failed += 1
            print(what % args)

    def fill(self, text):
        for old, new in self.names.items():
            text = text.replace(old, new)
        return text.replace("{token}", self.service.token).replace(STORE, self.store.url)

    def to_trainer(self, record):
        if record["path"] == "/v1/sessions" and self.session:
            # the recording had one service a session; here the slot has to be given back
            status, _ = self.service.json("DELETE", "/v1/sessions/%s?force=true" % self.session)
            self.check(status in (200, 204), "%d: closing the session: %d", record["seq"], status)
        body = self.fill(record["body"]["text"]).encode() if record["body"] else b""
        headers = [(name, self.fill(value)) for name, value in record["headers"]
                   if name.lower() not in ("host", "content-length", "connection")]
        raw = self.service.build(record["method"], self.fill(record["path"]), headers, body)
        status, _, data = self.service.exchange(raw, record["method"])
        self.check(status == record["status"], "%d: status %d: %s", record["seq"], status, data[:200])
        if status == record["status"]:
            self.compare(record, json.loads(data), json.loads(body or b"{}"))

    def compare(self, record, got, sent):
        seq, want = record["seq"], json.loads(record["answer"]["text"])
        self.check(set(got) == set(want), "%d: keys %s, want %s", seq, sorted(got), sorted(want))
        if "session_id" in want:
            self.session = self.names[want["session_id"]] = got["session_id"]
        for old, new in zip(want.get("datums", ()), got.get("datums", ())):
            self.names[old["datum_id"]] = new["datum_id"]
            self.check(set(old) == set(new) and old["example_id"] == new["example_id"]
                       and new["supervised_token_count"] > 0, "%d: datum %s", seq, new)
        self.check(len(want.get("datums", ())) == len(got.get("datums", ())), "%d: number of datums", seq)
        if "loss" in want:
            finite = all(math.isfinite(got[key]) for key in want)
            self.check(finite and got["loss"] > 0 and got["gradient_norm"] > 0
                       and 0 < got["supervised_token_count"] < got["input_token_count"], "%d: %s", seq, got)
            self.losses[seq] = got["loss"], got["gradient_norm"]
        if "sha256" in want:
            url = urlsplit(sent["upload_url"])
            data = self.store.objects.get(url.path, b"")
            self.check(hashlib.sha256(data).hexdigest() == got["sha256"]
                       and len(data) == got["size_bytes"] > 0, "%d: not what was uploaded: %s", seq, got)

    def at_store(self, record):
        """The store's side: one request for the exact URL, with the headers that were signed."""
        path = self.fill(record["path"])
        found = [r for r in self.requests if r[0] == record["method"] and r[1] == path]
        self.check(len(found) == 1, "%d: %d requests for %s", record["seq"], len(found), path[:60])
        if found and record["method"] == "PUT":
            headers = {name.lower(): value for name, value in found[0][2].items()}
            self.check(headers.get("content-type") == "application/octet-stream"
                       and re.fullmatch("[0-9]+", headers.get("content-length", ""))
                       and "transfer-encoding" not in headers, "%d: headers %s", record["seq"], headers)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("session")
    for name in ("--base-url", "--token", "--store-cert", "--store-key"):
        parser.add_argument(name, required=True)
    args = parser.parse_args()
    client = Client(replay.Service(args.base_url, args.token, None, 300),
                    replay.Store(args.store_cert, args.store_key))
    with open(args.session, encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    for record in records:
        if record["to"] == "trainer":
            client.to_trainer(record)
    for record in records:
        if record["to"] == "store":
            client.at_store(record)
    losses = client.losses
    client.check(losses.get(6, (9,))[0] < losses.get(4, (0,))[0], "the loss did not fall: %s", losses)
    client.check(losses.get(11, 0) == losses.get(15, 1), "resumed, the step differs: %s", losses)
    client.check(losses.get(11, 0) == losses.get(19, 1), "with the adapter, the step differs: %s", losses)
    client.service.json("DELETE", "/v1/sessions/%s?force=true" % client.session)
    print("%d passed, %d failed" % (client.passed, client.failed))
    return 1 if client.failed else 0


if __name__ == "__main__":
    sys.exit(main())
