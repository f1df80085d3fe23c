import { formatBytes, formatMs } from '../../format/amounts.ts'
import { type Answered, type Stage, timed } from './measure.ts'
import type { Story } from './story.ts'

export interface KeptWay {
  readonly sandboxId: string
  readonly createMs: number
  readonly loadMs: number
  readonly questions: readonly Answered[]
  readonly sleepMs: number
  /** From the request to the answer of the first run after it slept. */
  readonly wakeMs: number
  readonly sameObject: boolean
  readonly forkMs: number
  readonly whatIfs: readonly Answered[]
  /** Fork and all its answers. */
  readonly whatIfsMs: number
  readonly memoryBytes: number
  readonly asleepMemoryBytes: number
  readonly childrenMemoryBytes: number
  readonly sent: readonly string[]
}

/** One sandbox: load once, ask, sleep, wake, fork. */
export async function keptWay(stage: Stage, story: Story, say: (line: string) => void): Promise<KeptWay> {
  const { value: sandbox, ms: createMs } = await timed(() => stage.create())
  say(`create   ${formatMs(createMs)}   a sandbox with Python and pandas ready`)
  const { ms: loadMs } = await stage.run(sandbox, story.preamble)
  const memoryBytes = await stage.memoryBytes(sandbox)
  say(`load     ${formatMs(loadMs)}   the frame is in memory: ${formatBytes(memoryBytes)}`)
  const questions: Answered[] = []
  for (const question of story.questions) questions.push(await stage.run(sandbox, question))
  say(`ask      ${questions.map(({ ms }) => formatMs(ms)).join(', ')}`)
  const before = await stage.run(sandbox, 'print(id(df))')
  const { ms: sleepMs } = await timed(() => sandbox.idle({ tier: 'stored' }))
  const asleepMemoryBytes = await stage.memoryBytes(sandbox)
  say(`sleep    ${formatMs(sleepMs)}   on disk only: no process, ${formatBytes(asleepMemoryBytes)} of memory`)
  const after = await stage.run(sandbox, 'print(id(df))')
  const sameObject = before.text === after.text
  say(
    `wake     ${formatMs(after.ms)}   and answered: id(df) is ${sameObject ? 'the same number' : 'another number'}`,
  )
  const { value: children, ms: forkMs } = await timed(() => sandbox.fork(story.whatIfs.length))
  for (const child of children) stage.own(child)
  const { value: whatIfs, ms: answersMs } = await timed(() =>
    Promise.all(children.map((child, index) => stage.run(child, story.whatIfs[index] ?? ''))),
  )
  const memories = await Promise.all(children.map((child) => stage.memoryBytes(child)))
  const childrenMemoryBytes = memories.reduce((sum, bytes) => sum + bytes, 0)
  say(
    `fork     ${formatMs(forkMs)}   ${children.length} children with the frame in them; all what-ifs in ${formatMs(forkMs + answersMs)}`,
  )
  for (const child of children) await stage.delete(child)
  return {
    ...{
      sandboxId: sandbox.id,
      createMs,
      loadMs,
      questions,
      sleepMs,
      wakeMs: after.ms,
      sameObject,
      forkMs,
      whatIfs,
    },
    ...{ whatIfsMs: forkMs + answersMs, memoryBytes, asleepMemoryBytes, childrenMemoryBytes },
    sent: [story.preamble, ...story.questions, ...story.whatIfs],
  }
}
