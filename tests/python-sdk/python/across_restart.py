"""Follows a run and a command while the server is killed and comes back on another port.

Says when to kill, then what it saw.
"""

import json
import threading

from dormouse import Sandbox

CODE = "import time\nfor i in range(60):\n    print(i, flush=True)\n    time.sleep(0.1)"

with Sandbox(idle_timeout=0) as s:
    command = s.commands.start("for i in $(seq 0 59); do echo $i; sleep 0.1; done")
    wrote = []
    follower = threading.Thread(target=lambda: wrote.append(command.wait().stdout))
    follower.start()
    seqs, said = [], ""
    for event in s.run_code_stream(CODE):
        seqs.append(event.seq)
        if event.type == "stdout":
            said += event.data
            if said == "0\n1\n2\n":
                print("kill", flush=True)
    follower.join()
    wanted = "".join(f"{i}\n" for i in range(60))
    assert seqs == list(range(len(seqs))), seqs
    assert said == wanted, said
    assert wrote == [wanted], wrote
    assert s.run_code("i").text == "59"
print(json.dumps({"events": len(seqs)}))
