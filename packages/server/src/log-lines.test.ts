import { expect, test } from 'vitest'
import { type LogLine, LogLines } from './log-lines.ts'

const { signal } = new AbortController()

test('keeps the newest lines, and cuts long ones', async () => {
  const lines = new LogLines()
  for (let i = 0; i < 1_200; i++) lines.add(`${i}${'x'.repeat(i === 1_199 ? 5_000 : 0)}\n`)
  const all: LogLine[] = []
  for await (const line of lines.read({ after: -1, follow: false, signal })) all.push(line)
  expect(all).toHaveLength(1_000)
  expect(all[0]).toEqual({ seq: 200, text: '200' })
  expect(all.at(-1)?.text).toHaveLength(2_000)
})

test('a reader gets lines as they come, and ends with its signal', async () => {
  const lines = new LogLines()
  const stop = new AbortController()
  lines.add('one')
  const seen: string[] = []
  const reading = (async () => {
    for await (const { text } of lines.read({ after: -1, follow: true, signal: stop.signal })) {
      seen.push(text)
      if (text === 'one') lines.add('two')
      else stop.abort()
    }
  })()
  await reading
  expect(seen).toEqual(['one', 'two'])
})
