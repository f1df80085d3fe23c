import datetime
import unittest

from dormouse import Client, DormouseError

START = "echo version $COLOUR; exec python3 -m http.server $PORT"


class Services(unittest.TestCase):
    def setUp(self):
        self.client = Client()
        self.services = self.client.services

    def deploy(self, colour, **more):
        return self.services.deploy(
            "py", port=8000, template="python", start=START, env={"COLOUR": colour}, isolation="process", **more
        )

    def test_versions_roll_back_and_logs_are_searched_and_followed(self):
        self.assertEqual(self.deploy("green").versions[0].isolation, "process")
        updated = self.services.update("py", max_replicas=3, health="/", health_interval=60)
        self.assertEqual((updated.replicas.max, updated.health["path"]), (3, "/"))
        self.assertIsNone(self.services.update("py", health=None).health)
        self.assertEqual(self.deploy("blue").version, 2)
        self.assertEqual(self.services.rollback("py").version, 1)
        self.assertEqual(self.services.rollback("py", version=2).version, 2)
        with self.assertRaises(DormouseError) as refused:
            self.services.rollback("py", version=7)
        self.assertEqual(refused.exception.code, "not_found")
        said = []
        lines = self.services.logs("py", search="version ", follow=True)
        for line in lines:
            if line.stream == "stdout":
                said.append(line)
            if len(said) == 2:
                break
        lines.close()
        self.assertEqual([line.text for line in said], ["version green", "version blue"])
        later = said[1].at
        self.assertNotIn("version green", [line.text for line in self.services.logs("py", since=later)])
        self.assertEqual(list(self.services.logs("py", since=later + datetime.timedelta(hours=1))), [])
        after = self.services.logs("py", after=said[0].seq, search="version blue", tail=1)
        self.assertEqual([line.text for line in after], ["version blue"])
        self.services.delete("py")
        self.assertEqual(self.services.list(), [])


class Events(unittest.TestCase):
    def test_a_reader_sees_a_job_and_continues_after_what_it_has_seen(self):
        client = Client()
        with client.events() as events:
            # What happens from now on is in the stream.
            self.assertEqual(next(events)["type"], "gap")
            job = client.jobs.create("item", [1], name="seen", isolation="process")
            self.assertEqual(job.isolation, "process")
            created = next(event for event in events if event["type"] == "job.created")
            self.assertEqual(created["data"]["id"], job.id)
        with client.events(after=created["seq"]) as events:
            later = []
            while not later or later[-1]["type"] != "job.ended":
                later.append(next(events))
        self.assertNotIn("gap", [event["type"] for event in later])
        ended = later[-1]
        self.assertGreater(ended["seq"], created["seq"])
        self.assertEqual((ended["data"]["id"], ended["data"]["state"]), (job.id, "finished"))
        client.jobs.delete(job.id)
