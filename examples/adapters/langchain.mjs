// A sandbox as tools of LangChain. The model is scripted; `model.bindTools(tools)` gives them to a real one.
import assert from 'node:assert/strict'
import { AIMessage, HumanMessage } from '@langchain/core/messages'
import { Sandbox } from 'dormouse'
import { dormouseTools } from 'dormouse/langchain'

const call = (id, name, args) =>
  new AIMessage({ content: '', tool_calls: [{ id, name, args, type: 'tool_call' }] })
const turns = [
  call('1', 'run_python', { code: 'x = 41' }),
  call('2', 'run_python', { code: 'x + 1' }),
  call('3', 'run_python', { code: 'import matplotlib.pyplot as plt; plt.plot([1]); plt.show()' }),
  new AIMessage('It is 42.'),
]
const model = { invoke: async (_messages) => turns.shift() }

const sandbox = await Sandbox.create()
const tools = new Map(dormouseTools({ sandbox }).map((tool) => [tool.name, tool]))
const messages = [new HumanMessage('What is x + 1?')]
for (;;) {
  const answer = await model.invoke(messages)
  messages.push(answer)
  if (!answer.tool_calls?.length) break
  for (const each of answer.tool_calls) messages.push(await tools.get(each.name).invoke(each))
}
console.log(messages.at(-1).content)
assert.equal(messages[4].content, '42')
assert.match(messages[6].content[1].image_url.url, /^data:image\/png;base64,/)
assert.equal(messages[6].artifact.images.length, 1)
await sandbox.delete()
