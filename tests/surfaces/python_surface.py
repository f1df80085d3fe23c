"""Does what each line of stdin asks with the Python SDK, and answers with lines of JSON."""

import dataclasses
import json
import sys

from dormouse import DormouseError, Sandbox


def state(info):
    return {"id": info.id, "state": info.state, "tier": info.tier}


def do(ask):
    what = ask["do"]
    if what == "create":
        return state(Sandbox.create(persistent=True, template=ask.get("template")).info())
    if what == "resume":
        return state(Sandbox.resume(ask["id"]).info())
    sandbox = Sandbox.connect(ask["id"])
    if what == "run":
        run = sandbox.run_code(ask["code"], ask.get("language"))
        error = run.error and dataclasses.asdict(run.error)
        return {"stdout": run.stdout, "stderr": run.stderr, "exitCode": run.exit_code, "text": run.text, "error": error}
    if what == "stream":
        for event in sandbox.run_code_stream(ask["code"], ask.get("language")):
            if event.type == "stdout":
                answer({"output": event.data})
        return None
    if what == "standby":
        sandbox.idle(ask["tier"])
        return state(sandbox.last_info)
    if what == "fork":
        return [child.id for child in sandbox.fork(ask["count"])]
    if what == "write":
        sandbox.files.write(ask["path"], ask["content"], parents=True)
        return None
    if what == "read":
        return sandbox.files.read(ask["path"])
    if what == "list":
        return [entry.path[len(ask["path"]) + 1 :] for entry in sandbox.files.list(ask["path"])]
    if what == "delete":
        return sandbox.delete()
    raise ValueError(what)


def answer(value):
    print(json.dumps(value), flush=True)


for line in sys.stdin:
    try:
        answer({"answer": do(json.loads(line))})
    except DormouseError as error:
        answer({"refused": error.code})
