import hashlib
import hmac
import http.server
import json
import threading
import time
import unittest

from dormouse import Client, InvalidArgumentError, Sandbox


def square(item):
    import math

    return int(math.pow(item, 2))


class Jobs(unittest.TestCase):
    def setUp(self):
        self.client = Client()

    def test_a_function_of_a_file_over_inputs(self):
        job = self.client.jobs.create(square, [1, 2, 3], sandbox_per="worker", concurrency=2)
        done = self.client.jobs.wait(job.id)
        self.assertEqual((done.tasks.succeeded, done.tasks.failed), (3, 0))
        tasks = self.client.jobs.tasks(job.id)
        self.assertEqual([task.result.text for task in sorted(tasks, key=lambda each: each.index)], ["1", "4", "9"])
        self.client.jobs.delete(job.id)

    def test_an_asynchronous_function_is_awaited(self):
        async def later(item):
            import asyncio

            await asyncio.sleep(0.01)
            return item + 1

        job = self.client.jobs.create(later, [1], sandbox_per="worker")
        self.client.jobs.wait(job.id)
        self.assertEqual(self.client.jobs.task(job.id, 0).result.text, "2")
        self.client.jobs.delete(job.id)

    def test_a_function_that_raises_is_a_failed_task(self):
        def fails(item):
            raise ValueError(item)

        job = self.client.jobs.create(fails, ["why"], sandbox_per="worker")
        self.assertEqual(self.client.jobs.wait(job.id).tasks.failed, 1)
        self.client.jobs.delete(job.id)

    def test_a_lambda_is_refused(self):
        with self.assertRaises(InvalidArgumentError):
            self.client.jobs.create(lambda item: item, [1])


class Receiver(http.server.BaseHTTPRequestHandler):
    seen = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        Receiver.seen.append((self.headers["dormouse-signature"], body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Webhooks(unittest.TestCase):
    def setUp(self):
        self.client = Client()
        self.receiver = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
        self.thread = threading.Thread(target=self.receiver.serve_forever)
        self.thread.start()

    def tearDown(self):
        self.receiver.shutdown()
        self.receiver.server_close()
        self.thread.join()

    def test_all_calls_and_a_signed_delivery(self):
        hooks = self.client.webhooks
        url = f"http://127.0.0.1:{self.receiver.server_port}/hook"
        made = hooks.create("py", url, ["run.finished"])
        self.assertTrue(made.secret.startswith("whsec_"))
        self.assertEqual([each.name for each in hooks.list()], ["py"])
        self.assertEqual(hooks.test("py").status, 204)
        signature, body = Receiver.seen[-1]
        fields = dict(part.split("=", 1) for part in signature.split(","))
        expected = hmac.new(made.secret.encode(), fields["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
        self.assertEqual(fields["v1"], expected)
        with Sandbox() as sandbox:
            sandbox.run_code("1")
        while not any(json.loads(body)["type"] == "run.finished" for _, body in Receiver.seen):
            time.sleep(0.05)
        self.assertGreaterEqual(len(hooks.deliveries("py")), 1)
        self.assertFalse(hooks.update("py", enabled=False).enabled)
        self.assertNotEqual(hooks.rotate("py").secret, made.secret)
        self.assertEqual(hooks.get("py").url, url)
        hooks.delete("py")
        self.assertEqual(hooks.list(), [])


class Volumes(unittest.TestCase):
    def test_files_clones_and_mounts(self):
        volumes = Client().volumes
        volumes.create("py", size_bytes="64MiB")
        files = volumes.files("py")
        files.write("/a/b", "hello")
        self.assertEqual([entry.path for entry in files.list("/", depth=2)], ["/a", "/a/b"])
        self.assertTrue(files.exists("/a/b"))
        files.move("/a/b", "/c")
        clone = volumes.clone("py", "py-v1", read_only=True)
        self.assertEqual((clone.read_only, clone.cloned_from, clone.access), (True, "py", "own"))
        files.remove("/c")
        self.assertFalse(files.exists("/c"))
        self.assertEqual(b"".join(volumes.files("py-v1").stream("/c")), b"hello")
        with Sandbox(checkpoint_every=3600) as sandbox:
            sandbox.run_code("x = 1")
            self.assertEqual(sandbox.update(volumes={"/data": "py"}).volumes[0].volume, "py")
            self.assertEqual(sandbox.run_code("open('/data/f', 'w').write('in'); x").text, "1")
            self.assertEqual(files.read("/f"), "in")
            self.assertEqual(list(sandbox.update(volumes={}).volumes), [])
            self.assertIsNotNone(sandbox.why().checkpoint.next_at)
        volumes.delete("py-v1")
        volumes.delete("py")
