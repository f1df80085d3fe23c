// A sandbox as tools of the Vercel AI SDK. The model is scripted; use any model of the AI SDK instead.
import assert from 'node:assert/strict'
import { generateText, stepCountIs, streamText } from 'ai'
import { convertArrayToReadableStream, MockLanguageModelV3 } from 'ai/test'
import { Sandbox } from 'dormouse'
import { dormouseTools } from 'dormouse/ai'

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } }
const call = (id, toolName, input) => ({
  type: 'tool-call',
  toolCallId: id,
  toolName,
  input: JSON.stringify(input),
})
const turn = (...content) => ({
  content,
  usage,
  warnings: [],
  finishReason: { unified: content[0].type === 'text' ? 'stop' : 'tool-calls' },
})
const turns = [
  turn(call('1', 'run_python', { code: 'import pandas as pd; df = pd.DataFrame({"x": range(10)})' })),
  turn(call('2', 'run_python', { code: 'df.plot(); df.x.sum()' })),
  turn({ type: 'text', text: 'The sum is 45.' }),
]
const seen = []
const model = new MockLanguageModelV3({
  doGenerate: async ({ prompt }) => {
    seen.push(prompt)
    return turns.shift()
  },
})

const sandbox = await Sandbox.create()
const tools = dormouseTools({ sandbox })
const { text } = await generateText({ model, tools, prompt: 'Sum x.', stopWhen: stepCountIs(5) })
assert.equal(text, 'The sum is 45.')
console.log(text)

// The model saw the value as text and the plot as an image.
const last = seen.at(-1).at(-1).content[0].output.value
assert.match(last[0].text, /np\.int64\(45\)/)
assert.ok(last.some((part) => part.type !== 'text' && part.mediaType === 'image/png'))

// Output arrives while the code runs.
const script = [
  { type: 'stream-start', warnings: [] },
  call('3', 'run_shell', { command: 'echo one; sleep 0.5; echo two' }),
  { type: 'finish', usage, finishReason: { unified: 'tool-calls' } },
]
const streaming = new MockLanguageModelV3({
  doStream: async () => ({ stream: convertArrayToReadableStream(script) }),
})
const shown = []
for await (const part of streamText({ model: streaming, tools, prompt: 'Count.' }).fullStream)
  if (part.type === 'tool-result') shown.push(part.output.text)
assert.equal(shown[0], 'one\n')
assert.equal(shown.at(-1), 'one\ntwo')
await sandbox.delete()
