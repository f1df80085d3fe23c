// A sandbox as tools of a Mastra agent. The model is scripted; name a real one instead.
import assert from 'node:assert/strict'
import { Agent } from '@mastra/core/agent'
import { Sandbox } from 'dormouse'
import { dormouseTools } from 'dormouse/mastra'

const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 }
const call = (toolCallId, toolName, input) => ({
  type: 'tool-call',
  toolCallId,
  toolName,
  input: JSON.stringify(input),
})
const turns = [
  call('1', 'run_python', { code: 'x = 41' }),
  call('2', 'run_python', { code: 'x + 1' }),
  { type: 'text', text: 'It is 42.' },
]
const prompts = []
const model = {
  specificationVersion: 'v2',
  provider: 'scripted',
  modelId: 'scripted',
  supportedUrls: {},
  doGenerate: async ({ prompt }) => {
    prompts.push(prompt)
    const content = turns.shift()
    const finishReason = content.type === 'text' ? 'stop' : 'tool-calls'
    return { content: [content], usage, finishReason, warnings: [] }
  },
}

const sandbox = await Sandbox.create()
const agent = new Agent({
  name: 'analyst',
  instructions: 'Use Python.',
  model,
  tools: dormouseTools({ sandbox }),
})
const { text } = await agent.generate('What is x + 1?', { maxSteps: 5 })
assert.equal(text, 'It is 42.')
console.log(text)
assert.match(JSON.stringify(prompts.at(-1)), /"text":"42"/)
await sandbox.delete()
