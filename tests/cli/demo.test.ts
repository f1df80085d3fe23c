import { expect, test } from 'vitest'
import { useCommandLine } from './command-line.ts'

const cli = useCommandLine()

// Few rows: these tests check the work and the counting, not the speed.
test('demo gets the same answers both ways, counts the tokens that it sent, and leaves nothing behind', async () => {
  const outcome = await cli.json(['demo', '--rows', '20000'])
  expect(outcome.sameAnswers).toBe(true)
  expect(outcome.kept.sameObject).toBe(true)
  expect(outcome.kept.asleepMemoryBytes).toBe(0)
  expect(outcome.kept.questions).toHaveLength(10)
  expect(outcome.fresh.questions).toHaveLength(10)
  expect(outcome.kept.whatIfs).toHaveLength(5)
  // The preamble once, against once per question and what-if.
  expect(outcome.kept.sent).toHaveLength(16)
  expect(outcome.fresh.sent).toHaveLength(15)
  for (const code of outcome.fresh.sent) expect(code.startsWith(outcome.kept.sent[0])).toBe(true)
  expect(outcome.tokensWithHistory.kept).toBe(2 * outcome.tokensWritten.kept)
  expect(outcome.tokensWritten.fresh).toBeGreaterThan(3 * outcome.tokensWritten.kept)
  expect(await cli.json(['ls', '-q'])).toEqual([])
})

test('an interrupted demo leaves nothing behind; --keep leaves the sandbox with its data frame', async () => {
  const { status } = await cli.run(['demo', '--rows', '20000'], { interruptAt: { shows: /load / } })
  expect(status).toBe(130)
  expect(await cli.json(['ls', '-q'])).toEqual([])
  const { kept } = await cli.json(['demo', '--rows', '20000', '--keep'])
  expect(await cli.json(['ls', '-q'])).toEqual([kept.sandboxId])
  expect((await cli.run(['run', kept.sandboxId, 'print(len(df))'])).stdout).toBe('20000\n')
})
