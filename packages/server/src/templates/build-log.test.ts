import { expect, it } from 'vitest'
import { BuildLog } from './build-log.ts'

it('keeps the end of what was said, and no line longer than a screen needs', () => {
  const log = new BuildLog()
  log.write(`${Array.from({ length: 10_000 }, (_, index) => `line ${index}`).join('\n')}\n`)
  log.write('x'.repeat(100_000))
  log.write('x'.repeat(100_000))
  log.say('last')
  const lines = log.tail?.split('\n') ?? []
  expect(lines).toHaveLength(60)
  expect(lines.at(-3)).toBe('line 9999')
  expect(lines.at(-2)).toHaveLength(500)
  expect(lines.at(-1)).toBe('last')
})

it('of a progress bar the last state is seen', () => {
  const log = new BuildLog()
  log.write('10 %\r50 %')
  log.write('\r100 %\r\nnext')
  expect(log.tail).toBe('100 %\nnext')
})

it('knows the step however much it has said since', () => {
  const log = new BuildLog()
  log.say('==> installing packages')
  log.write('Get:1\n'.repeat(20_000))
  log.say('    done in 1.0 s')
  expect(log.step).toBe('installing packages')
})

it('nothing was said', () => {
  expect(new BuildLog().tail).toBeUndefined()
})
