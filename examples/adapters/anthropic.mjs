// A sandbox behind Anthropic's bash and text editor tools. The answers are scripted; leave `fetch` out for real ones.
import assert from 'node:assert/strict'
import Anthropic from '@anthropic-ai/sdk'
import { Sandbox } from 'dormouse'
import { codeExecutionResult, dormouseTools } from 'dormouse/anthropic'

const use = (id, name, input) => ({ type: 'tool_use', id, name, input })
const turns = [
  [use('1', 'bash', { command: 'mkdir -p app && cd app && pwd' })],
  [
    use('2', 'str_replace_based_edit_tool', {
      command: 'create',
      path: 'app/a.py',
      file_text: 'x = 1\nprint(x)\n',
    }),
    use('3', 'str_replace_based_edit_tool', {
      command: 'str_replace',
      path: 'app/a.py',
      old_str: 'x = 1',
      new_str: 'x = 42',
    }),
    use('4', 'bash', { command: 'python3 ~/app/a.py' }),
  ],
  [
    use('5', 'str_replace_based_edit_tool', {
      command: 'str_replace',
      path: 'app/a.py',
      old_str: 'y',
      new_str: 'z',
    }),
  ],
  [use('6', 'run_python', { code: 'import matplotlib.pyplot as plt; plt.plot([1]); plt.show()' })],
  [{ type: 'text', text: 'It prints 42.' }],
]
const scripted = async () => {
  const content = turns.shift()
  const stop_reason = content[0].type === 'text' ? 'end_turn' : 'tool_use'
  return Response.json({ id: 'msg', type: 'message', role: 'assistant', content, stop_reason })
}
const anthropic = new Anthropic({ apiKey: 'none', fetch: scripted })

const sandbox = await Sandbox.create()
const { tools, answer } = dormouseTools({ sandbox })
const messages = [{ role: 'user', content: 'Write a program.' }]
for (;;) {
  const message = await anthropic.messages.create({ model: 'scripted', max_tokens: 1000, tools, messages })
  messages.push({ role: 'assistant', content: message.content })
  const results = await answer(message)
  if (results.length === 0) break
  messages.push({ role: 'user', content: results })
}
console.log(messages.at(-1).content[0].text)
const resultOf = (id) => messages.flatMap(({ content }) => content).find((block) => block.tool_use_id === id)
assert.match(resultOf('1').content[0].text, /\/app$/)
assert.match(resultOf('3').content[0].text, /1\tx = 42/)
assert.equal(resultOf('4').content[0].text, '42')
assert.equal(resultOf('5').is_error, true)
assert.equal(resultOf('6').content[1].source.media_type, 'image/png')

const run = await sandbox.runCode('print("hi"); 1 + 1')
const { stdout, return_code } = codeExecutionResult(run)
assert.deepEqual({ stdout, return_code }, { stdout: 'hi\n2\n', return_code: 0 })
await sandbox.delete()
