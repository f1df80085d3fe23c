import asyncio
import unittest

from dormouse import InvalidArgumentError, Sandbox, langchain, openai_agents
from dormouse.tools import sandbox_tools


class ToolsTest(unittest.TestCase):
    def test_all_six_share_one_sandbox_that_sleeps_between_calls(self):
        with Sandbox() as sandbox:
            tools = {tool.name: tool for tool in sandbox_tools(sandbox)}

            def call(name, **input):
                return tools[name].execute(input)

            call("run_python", code="total = sum(range(101))")
            # It stays from now on, also after the block.
            sandbox.idle(tier="stored")
            self.addCleanup(sandbox.delete)
            answer = call("run_python", code="total")
            self.assertEqual((answer.text, answer.tokens, answer.is_error), ("5050", 1, False))
            plot = call("run_python", code="import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()")
            self.assertEqual([image.media_type for image in plot.images], ["image/png"])
            self.assertRegex(call("run_shell", command="seq 1 20000").text, r"bytes left out[\s\S]*\[cut: print less")
            self.assertEqual(call("run_shell", command="exit 3").text, "[exit code 3]")
            call("write_file", path="notes/a.txt", content="héllo\n")
            self.assertEqual(call("read_file", path="notes/a.txt").text, "héllo\n")
            self.assertTrue(call("read_file", path="notes/a.txt", maxBytes=2).text.startswith("h\n[7 bytes in total"))
            self.assertIn("a.txt  7 bytes", call("list_files", path="notes").text)
            call("run_shell", command="nohup python3 -m http.server 8000 >/dev/null 2>&1 &")
            self.assertTrue(asyncio.run(tools["preview_url"].execute_async({"port": 8000})).text.startswith("http"))

    def test_what_goes_wrong_is_a_result_that_says_what_to_do(self):
        with Sandbox() as sandbox:
            run_python, run_shell = sandbox_tools(sandbox, only=["run_python", "run_shell"])
            wrong = run_shell.execute({"command": 7, "shell": "zsh"})
            self.assertTrue(wrong.is_error)
            self.assertIn("command: must be text; shell: is not an input of this tool\nHint: Correct", wrong.text)
            self.assertIn("code: is missing", run_python.execute({}).text)
            self.assertIn("the input must be an object", run_python.execute("code").text)
            self.assertIn("ZeroDivisionError", run_python.execute({"code": "1 / 0"}).text)
        with self.assertRaises(InvalidArgumentError):
            sandbox_tools(only=["fly"])

    def test_adapters_can_be_imported_without_their_framework_and_name_it(self):
        for adapter, name in ((openai_agents, "openai-agents"), (langchain, "langchain-core")):
            with self.assertRaises(ImportError) as raised:
                adapter.dormouse_tools()
            self.assertIn(f"pip install {name}", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
