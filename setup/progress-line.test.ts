import { expect, it } from 'vitest'
import { ProgressLine } from './progress-line.mjs'

function record(terminal: { isTTY?: boolean; columns?: number }) {
  const output = { ...terminal, text: '', write: (text: string) => (output.text += text) }
  return output
}

it('without a terminal, a progress line prints a start line and a finish line', () => {
  const output = record({})
  const line = new ProgressLine(output)
  line.start({ title: 'Step' })
  line.update({ percent: 50, doing: 'half' })
  line.finish('ok')
  expect(output.text).toMatch(/^\.\. Step\nok Step \(\d+\.\d s\)\n$/)
})

it('a progress line on a terminal never wraps and leaves only its outcome', async () => {
  const output = record({ isTTY: true, columns: 60 })
  const line = new ProgressLine(output)
  line.start({ title: 'Step' })
  line.update({ percent: 50, doing: 'x'.repeat(200) })
  await new Promise((resolve) => setTimeout(resolve, 250))
  line.finish('ok')
  const drawn = output.text.split('\r\u001b[K')
  expect(drawn.some((text) => text.includes('[############............]  50%'))).toBe(true)
  expect(Math.max(...drawn.map((text) => text.trimEnd().length))).toBeLessThan(60)
  expect(drawn.at(-1)).toMatch(/^ok Step \(/)
})
