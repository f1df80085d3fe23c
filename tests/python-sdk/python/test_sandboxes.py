import unittest
from datetime import datetime, timedelta, timezone

from dormouse import (
    AuthenticationError,
    Client,
    ConflictError,
    DormouseError,
    Expires,
    InvalidArgumentError,
    NotFoundError,
    Sandbox,
    ServerUnreachableError,
)

GB = 1024**3


class Lifecycle(unittest.TestCase):
    def test_deleted_at_the_end_of_its_block_also_after_an_exception(self):
        with self.assertRaises(KeyError), Sandbox() as s:
            raise KeyError
        with self.assertRaises(NotFoundError) as raised:
            Sandbox.connect(s.id)
        self.assertEqual((raised.exception.code, raised.exception.status), ("not_found", 404))
        self.assertTrue(raised.exception.request_id)
        s.close()

    def test_it_sleeps_and_keeps_its_state(self):
        with Sandbox() as s:
            self.assertEqual(s.info().expires, Expires(idle=3600))
            s.run_code("x = object(); where = id(x)")
            self.assertEqual(s.standby("stored").tier, "stored")
            self.assertEqual(s.run_code("id(x) == where").text, "True")
            self.assertEqual(s.standby().tier, "frozen")
            self.assertIs(s.resume(), s)
            self.assertEqual(s.last_info.state, "running")
            events = [entry.event for entry in s.ledger()]
            self.assertEqual(events[0], "created")
            self.assertGreaterEqual(events.count("woke"), 2)
            self.assertEqual(len(s.ledger(after=0)), len(events) - 1)

    def test_network_policy_and_report(self):
        with Sandbox(network=["example.com:443"]) as s:
            network = s.info().network
            self.assertEqual((network.mode, network.allow), ("allow", ["example.com:443"]))
            self.assertEqual(s.update(network="none").network.mode, "none")
            self.assertEqual(
                s.run_code('import socket; socket.getaddrinfo("example.com", 443)').error.name, "gaierror"
            )
            report = s.network()
            self.assertEqual((report.mode, list(report.allow)), ("none", []))
            self.assertGreater(report.counters.denied, 0)
            with self.assertRaises(InvalidArgumentError):
                s.update(network=["*"])

    def test_idle_makes_it_persistent(self):
        with Sandbox() as s:
            s.run_code("x = 5")
            space_id = s.idle("stored")
        again = Sandbox.resume(space_id)
        try:
            self.assertEqual(again.run_code("x").text, "5")
            self.assertIsNone(again.info().expires)
        finally:
            again.delete()

    def test_persistent_sandboxes_stay_and_are_found_by_name(self):
        with Sandbox(persistent=True, name="py-lasting", metadata={"who": "py"}) as s:
            s.run_code("x = 1")
        try:
            self.assertEqual(Sandbox.connect("py-lasting").id, s.id)
            self.assertEqual(Sandbox.get_or_create("py-lasting").run_code("x").text, "1")
            self.assertEqual([each.id for each in Sandbox.list(metadata={"who": "py"})], [s.id])
            self.assertEqual(Sandbox.list(metadata={"who": "nobody"}), [])
            with self.assertRaises(ConflictError) as raised:
                Sandbox(name="py-lasting")
            self.assertEqual(raised.exception.code, "name_taken")
            self.assertTrue(raised.exception.hint)
            changed = s.update(name=None, idle_timeout=2.5, expires=Expires(after=60), cpus=0.5, disk_bytes=2 * GB, files=5000)
            self.assertEqual((changed.name, changed.idle_timeout_ms), (None, 2500))
            self.assertEqual((changed.limits.cpus, changed.limits.disk_bytes, changed.limits.files), (0.5, 2 * GB, 5000))
            self.assertEqual(changed.expires, Expires(after=60))
            self.assertIsNone(s.update(expires=None).expires)
            self.assertFalse(changed.wake_on_timer)
            self.assertTrue(s.update(wake_on_timer=True).wake_on_timer)
            kept = s.update(keep_asleep=60, wake_on_data=True).connections
            self.assertEqual((kept.keep_asleep_ms, kept.wake_on_data), (60_000, True))
        finally:
            s.delete()
        created = Sandbox.get_or_create("py-lasting", metadata={"a": "b"}, wake_on_timer=True)
        try:
            self.assertEqual((created.name, created.last_info.metadata), ("py-lasting", {"a": "b"}))
            self.assertTrue(created.last_info.wake_on_timer)
            created.run_code("import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()")
            created.idle()
            self.assertGreater(created.why().wakes_at, created.info().state_since)
        finally:
            created.delete()

    def test_snapshots_and_rollback(self):
        with Sandbox() as s:
            s.run_code("x = 'before'")
            saved = s.snapshot("py-before")
            self.assertEqual((saved.name, saved.kind, saved.sandbox_id), ("py-before", "full", s.id))
            s.run_code("x = 'after'")
            s.rollback(saved)
            self.assertEqual(s.run_code("x").text, "'before'")
            snapshots = s.client.snapshots
            self.assertIn(saved.id, [each.id for each in snapshots.list(sandbox_id=s.id)])
            self.assertEqual(snapshots.get(saved.id), saved)
            snapshots.verify(saved.id)
            with self.assertRaises(NotFoundError):
                snapshots.verify("sn-2222222222222222")

    def test_names_of_snapshots_and_promotion(self):
        with Sandbox(name="py-origin") as s:
            s.run_code("x = 1")
            saved = s.snapshot("ready")
            snapshots = s.client.snapshots
            self.assertEqual(snapshots.get("py-origin/ready").id, saved.id)
            with self.assertRaises(DormouseError) as raised:
                s.snapshot("ready")
            self.assertEqual(raised.exception.code, "name_taken")
            s.run_code("x = 2")
            s.rollback("ready")
            self.assertEqual(s.run_code("x").text, "1")
            for snapshot in ("py-origin/ready", saved):
                second = Sandbox(snapshot=snapshot)
                second.run_code("x += 10")
                self.assertEqual(second.promote().id, s.id)
                self.assertEqual(s.run_code("x").text, "11")
                with self.assertRaises(NotFoundError):
                    second.info()
            snapshots.delete("py-origin/ready")

    def test_template_of_a_snapshot(self):
        client = Client()
        with Sandbox() as s:
            s.run_code("answer = 42")
            made = client.templates.create("py-ready", snapshot_id=s.snapshot().id)
            try:
                self.assertEqual((made.state, made.source), ("ready", "snapshot"))
                self.assertEqual(client.templates.wait("py-ready").name, "py-ready")
                with Sandbox("py-ready") as other:
                    self.assertEqual(other.run_code("answer").text, "42")
            finally:
                client.templates.delete("py-ready")
        self.assertNotIn("py-ready", [each.name for each in client.templates.list()])

    def test_template_of_a_description(self):
        client = Client()
        client.templates.create("py-built", from_="python", network="none", commands=["echo 42 > /srv/answer"])
        try:
            made = client.templates.wait("py-built")
            self.assertEqual((made.state, made.source, made.from_), ("ready", "description", "python"))
            materials = client.templates.materials("py-built")
            self.assertEqual((made.materials.count, made.materials.sha256), (materials.count, materials.sha256))
            self.assertIn("bash", [each.name for each in materials.items if each.type == "deb"])
            with Sandbox("py-built") as other:
                self.assertEqual(other.files.read("/srv/answer"), "42\n")
        finally:
            client.templates.delete("py-built")
        client.templates.create("py-broken", commands=["echo the reason; exit 3"])
        try:
            with self.assertRaises(DormouseError) as raised:
                client.templates.wait("py-broken")
            self.assertIn("command 1 of 1", str(raised.exception))
            self.assertIn("the reason", raised.exception.details["logTail"])
        finally:
            client.templates.delete("py-broken")

    def test_volumes_outlive_sandboxes(self):
        client = Client()
        client.volumes.create("py-data")
        try:
            with Sandbox(volumes={"/data": "py-data"}) as s:
                s.files.write("/data/kept", "yes")
                self.assertEqual(list(client.volumes.get("py-data").used_by), [s.id])
            with Sandbox(volumes={"/mnt/d": "py-data"}) as s:
                self.assertEqual(s.files.read("/mnt/d/kept"), "yes")
        finally:
            self.assertEqual(client.volumes.update("py-data", size_bytes=GB).size_bytes, GB)
            client.volumes.delete("py-data")
        self.assertNotIn("py-data", [each.name for each in client.volumes.list()])

    def test_ssh_keys_are_added_and_deleted(self):
        client = Client()
        line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3tqsj9Ps9EBDl7k1QzTUxHm6HYgL5eFvbi1xmIbhkO"
        key = client.ssh_keys.add("py-laptop", f"{line} ana@laptop")
        try:
            self.assertEqual((key.type, key.public_key), ("ssh-ed25519", line))
            self.assertEqual(client.ssh_keys.get("py-laptop"), key)
            self.assertFalse(key.confirmed)
            self.assertTrue(key.confirm_as.startswith("confirm+"))
            self.assertTrue(client.ssh_keys.endpoint().host_key.startswith("ssh-ed25519 "))
        finally:
            client.ssh_keys.delete("py-laptop")
        self.assertEqual(client.ssh_keys.list(), [])

    def test_secrets_are_placeholders_inside(self):
        client = Client()
        secret = client.secrets.create("PY_KEY", "sk-live-12345678", domains=["api.example.com"])
        try:
            with Sandbox(secrets=["PY_KEY"]) as s:
                self.assertEqual(s.run_code("import os; print(os.environ['PY_KEY'])").stdout, secret.placeholder + "\n")
                self.assertEqual(list(client.secrets.get("PY_KEY").used_by), [s.id])
                changed = client.secrets.update("PY_KEY", domains=["*.example.com"])
                self.assertEqual((changed.placeholder, list(changed.domains)), (secret.placeholder, ["*.example.com"]))
                self.assertEqual(list(s.update(secrets=[]).secrets), [])
                s.update(secrets=["PY_KEY"])
                with self.assertRaises(ConflictError):
                    client.secrets.delete("PY_KEY")
        finally:
            client.secrets.delete("PY_KEY", force=True)
        self.assertNotIn("PY_KEY", [each.name for each in client.secrets.list()])

    def test_why_hold_metrics_and_usage(self):
        with Sandbox(env={"COLOUR": "blue"}, memory_bytes=256 * 1024**2, disk_bytes=GB) as s:
            until = s.hold("a test", 30)
            self.assertLess(abs(until - datetime.now(timezone.utc) - timedelta(seconds=30)), timedelta(seconds=10))
            why = s.why()
            self.assertIn("a test", [work.what for work in why.work])
            self.assertEqual(str(why), why.summary)
            metrics = s.metrics()
            self.assertEqual((metrics.sandbox_id, metrics.state), (s.id, "running"))
            self.assertGreater(metrics.memory_bytes, 0)
            self.assertIsNone(metrics.memory)
            memory = s.metrics(memory=True).memory
            self.assertGreater(memory.private_bytes, 0)
            self.assertGreater(memory.shared_bytes, 0)
            self.assertEqual(metrics.network.denied, 0)
            limits = s.last_info.limits
            self.assertEqual((limits.memory_bytes, limits.disk_bytes), (256 * 1024**2, GB))
            self.assertEqual(s.run_code("import os; print(os.environ['COLOUR'])").stdout, "blue\n")
            self.assertGreaterEqual(s.usage().total.running_seconds, 0)

    def test_run_once_in_a_sandbox_of_its_own(self):
        client = Client()
        before = len(client.list_sandboxes())
        heard = []
        r = client.run_once("print(1 + 1); 6 * 7", on_stdout=heard.append)
        self.assertEqual((r.stdout, r.text, heard), ("2\n", "42", ["2\n"]))
        code = "import socket; socket.getaddrinfo('example.com', 443)"
        self.assertEqual(client.run_once(code, network="none").error.name, "gaierror")
        code = "x = bytearray(200 * 1024**2)"
        self.assertTrue(client.run_once(code).ok)
        self.assertFalse(client.run_once(code, memory_bytes=128 * 1024**2, cpus=1, pids=100, disk_bytes=GB).ok)
        self.assertEqual(len(client.list_sandboxes()), before)
        self.assertEqual(client.health()["status"], "ok")


class Errors(unittest.TestCase):
    def test_every_error_has_a_code_and_a_hint(self):
        with self.assertRaises(InvalidArgumentError) as raised:
            Sandbox(name="no spaces please")
        self.assertEqual(raised.exception.details.get("field"), "name")
        with self.assertRaises(NotFoundError) as raised:
            Sandbox("no-such-template")
        self.assertEqual(raised.exception.code, "template_not_found")
        with self.assertRaises(AuthenticationError):
            Sandbox(api_key="dm_wrong_key")
        with self.assertRaises(ServerUnreachableError) as raised:
            Sandbox(url="http://127.0.0.1:9", api_key="any")
        self.assertIn("dormouse up", raised.exception.hint)
        with Sandbox() as s:
            with self.assertRaises(DormouseError) as raised:
                s.fork(n=0)
            self.assertEqual(raised.exception.code, "invalid_argument")
