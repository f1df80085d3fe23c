// A sandbox as tools of the OpenAI Agents SDK. The model is scripted; leave `model` out to use OpenAI's.
import assert from 'node:assert/strict'
import { Agent, run, setTracingDisabled, Usage } from '@openai/agents'
import { Sandbox } from 'dormouse'
import { dormouseTools } from 'dormouse/openai-agents'

setTracingDisabled(true)
const call = (callId, name, input) => ({
  type: 'function_call',
  status: 'completed',
  arguments: JSON.stringify(input),
  callId,
  name,
})
const say = (text) => ({
  type: 'message',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text }],
})
const turns = [
  call('1', 'run_python', { code: 'x = 41' }),
  call('2', 'run_python', { code: 'import matplotlib.pyplot as plt; plt.plot([1]); plt.show(); x + 1' }),
  say('It is 42.'),
]
const requests = []
const model = {
  getResponse: async (request) => {
    requests.push(request)
    return { usage: new Usage(), output: [turns.shift()] }
  },
}

const sandbox = await Sandbox.create()
const agent = new Agent({ name: 'analyst', model, tools: dormouseTools({ sandbox }) })
const { finalOutput } = await run(agent, 'What is x + 1?')
assert.equal(finalOutput, 'It is 42.')
console.log(finalOutput)
const { output } = requests.at(-1).input.at(-1)
assert.match(output[0].text, /42/)
assert.match(JSON.stringify(output[1]), /image.*png/s)
await sandbox.delete()
