import asyncio
import unittest

from dormouse import AsyncClient, AsyncSandbox, DormouseError, NotFoundError
from flaky_proxy import FlakyProxy


class Async(unittest.IsolatedAsyncioTestCase):
    async def test_ways_to_create_a_sandbox(self):
        async with AsyncSandbox() as s:
            self.assertEqual((await s.run_code("1 + 1")).text, "2")
        with self.assertRaises(NotFoundError):
            await AsyncSandbox.connect(s.id)
        awaited = await AsyncSandbox()
        await awaited.close()
        created = await AsyncSandbox.create()
        await created.close()
        # The first call creates it, once.
        lazy = AsyncSandbox()
        both = await asyncio.gather(lazy.run_code("1"), lazy.run_code("2"))
        self.assertEqual([r.text for r in both], ["1", "2"])
        self.assertIsNotNone(lazy.id)
        await lazy.close()

    async def test_streams_and_callbacks(self):
        heard = []

        async def hear(text):
            await asyncio.sleep(0)
            heard.append(text)

        async with AsyncSandbox() as s:
            events = [event.type async for event in s.run_code_stream("print(1); 2")]
            self.assertEqual(events, ["start", "stdout", "result", "exit"])
            await s.run_code("print('a')", on_stdout=hear)
            await s.run_code("print('b')", on_stdout=heard.append)
            self.assertEqual(heard, ["a\n", "b\n"])

            async def answer(event):
                return event.prompt.upper()

            self.assertEqual((await s.run_code("input('ada')", on_input=answer)).text, "'ADA'")

    async def test_cancelling_interrupts_a_run_also_in_the_queue(self):
        async with AsyncSandbox() as s:
            began = asyncio.Event()
            first = asyncio.ensure_future(
                s.run_code(
                    "import time; print(1, flush=True); time.sleep(600)", on_stdout=lambda _: began.set()
                )
            )
            await began.wait()
            queued = asyncio.ensure_future(s.run_code("never = True"))
            await asyncio.sleep(0.5)
            queued.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await queued
            first.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await first
            r = await asyncio.wait_for(s.run_code("'never' in globals()"), 10)
            self.assertEqual(r.text, "False")

    async def test_many_at_once(self):
        async with AsyncSandbox() as s:
            children = await s.fork(n=5)
            runs = [child.run_code(f"import time; time.sleep(0.2); {n}") for n, child in enumerate(children)]
            self.assertEqual([r.text for r in await asyncio.gather(*runs)], ["0", "1", "2", "3", "4"])
            await asyncio.gather(*(child.close() for child in children))

    async def test_idle_and_resume(self):
        s = await AsyncSandbox(persistent=True)
        try:
            await s.run_code("x = 7")
            space_id = await s.idle("stored")
            async with await AsyncSandbox.resume(space_id) as again:
                self.assertEqual((await again.run_code("x")).text, "7")
        finally:
            await s.delete()

    async def test_files_commands_and_terminals(self):
        async def pieces():
            for _ in range(3):
                yield b"abc"

        async with AsyncSandbox() as s:
            await s.files.write("/root/a", pieces())
            self.assertEqual(await s.files.read("/root/a"), "abcabcabc")
            async with await s.files.watch("/root") as watch:
                await s.files.write("/root/b", b"")
                async for change in watch:
                    if change.path == "/root/b":
                        break
            self.assertEqual((await s.commands.run("cat", input="x" * 300_000)).stdout, "x" * 300_000)
            async with await s.pty.create() as pty:
                await pty.write("exit 4\r")
                self.assertEqual(await pty.wait(), 4)
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(s.commands.run("exec sleep 600"), 1)
            killed = await s.commands.connect((await s.commands.list())[-1].process_id)
            self.assertEqual((await asyncio.wait_for(killed.wait(), 10)).signal, "SIGKILL")

    async def test_a_wait_ends_after_its_time(self):
        async with AsyncSandbox() as s:
            command = await s.commands.start("sleep 1; echo done")
            pty = await s.pty.create()
            for wait in (command.wait, pty.wait):
                with self.assertRaises(DormouseError) as raised:
                    await wait(timeout=0.1)
                self.assertEqual(raised.exception.code, "timed_out")
            self.assertEqual((await command.wait(timeout=60)).stdout, "done\n")
            await pty.write("exit 3\r")
            self.assertEqual(await pty.wait(timeout=60), 3)

    async def test_map_and_race(self):
        async with AsyncSandbox() as s:
            await s.run_code("base = 10")

            async def work(child, item):
                return (await child.run_code(f"base + {item}")).text

            self.assertEqual([each.value for each in await s.map([1, 2, 3], work, concurrency=2)], ["11", "12", "13"])
            outcome = await s.race(["y = 1", "y = 2"], score="y", best="lowest")
            self.assertEqual((await outcome.winner.run_code("y")).text, "1")
            await outcome.winner.close()

    async def test_cancelled_fan_out_leaves_no_child(self):
        async with AsyncSandbox() as s:
            for after in (0.05, 1.5):
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(s.map(range(4), "import time; time.sleep(600)"), after)
                all_sandboxes = await s.client.list_sandboxes()
                self.assertEqual([each.id for each in all_sandboxes if each.forked_from == s.id], [])

    async def test_lost_connections(self):
        with FlakyProxy() as proxy:
            async with AsyncClient(proxy.url) as client, AsyncSandbox(client=client) as s:
                await s.run_code("1")
                proxy.cut_after, proxy.cuts = 700, 5
                proxy.cut_all()
                stream = s.run_code_stream("for i in range(500): print(i, flush=i % 20 == 0)")
                seqs = [event.seq async for event in stream]
                self.assertEqual(seqs, list(range(len(seqs))))
                self.assertGreaterEqual(proxy.made_cuts, 3)
                self.assertEqual((await stream.wait()).stdout, "".join(f"{i}\n" for i in range(500)))


    async def test_everything_that_closes_can_be_awaited(self):
        client = AsyncClient()
        s = await AsyncSandbox(client=client)
        stream = s.run_code_stream("print(1)")
        async for _ in stream:
            break
        await stream.close()
        self.assertEqual((await stream.wait()).stdout, "1\n")
        watch = await s.files.watch("/root")
        await watch.close()
        file = s.files.stream("/etc/hostname")
        await file.close()
        events = s.runs.events(stream.run_id)
        await events.close()
        await s.close()
        await client.close()
        # It stays usable.
        self.assertEqual((await client.health())["status"], "ok")
        await client.close()


class Loops(unittest.TestCase):
    def test_one_client_serves_one_loop_after_another(self):
        async def once():
            async with AsyncSandbox() as s:
                return (await s.run_code("3")).text

        self.assertEqual([asyncio.run(once()) for _ in range(2)], ["3", "3"])
