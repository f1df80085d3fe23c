"""Drives a plain ipykernel: for each line on stdin, runs `print(1)` and prints how many milliseconds it took."""
import sys
import time
from jupyter_client.manager import start_new_kernel

manager, client = start_new_kernel(kernel_name="python3")
print("ready", flush=True)
try:
    for _line in sys.stdin:
        began = time.perf_counter()
        sent = client.execute("print(1)", store_history=False)
        text = ""
        # The kernel sends all output before it reports that it is idle.
        while True:
            message = client.get_iopub_msg(timeout=10)
            if message["parent_header"].get("msg_id") != sent:
                continue
            if message["msg_type"] == "stream":
                text += message["content"]["text"]
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
        client.get_shell_msg(timeout=10)
        assert text == "1\n", text
        print((time.perf_counter() - began) * 1000, flush=True)
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
