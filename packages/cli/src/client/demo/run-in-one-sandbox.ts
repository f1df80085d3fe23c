import { formatBytes, formatMs } from '../../format/amounts.ts'
import { type Answered, type DemoSandboxes, timed } from './demo-sandboxes.ts'
import type { Scenario } from './scenario.ts'

export interface KeptOutcome {
  readonly sandboxId: string
  readonly createMs: number
  readonly loadMs: number
  readonly questions: readonly Answered[]
  readonly sleepMs: number
  /** From the request to the result of the first run after sleep. */
  readonly wakeMs: number
  readonly sameObject: boolean
  readonly forkMs: number
  readonly whatIfs: readonly Answered[]
  /** The fork and the answers of all children. */
  readonly whatIfsMs: number
  readonly memoryBytes: number
  readonly asleepMemoryBytes: number
  readonly childrenMemoryBytes: number
  readonly sent: readonly string[]
}

/** Runs the scenario in one sandbox: load once, ask, sleep, wake, fork. */
export async function runInOneSandbox(
  sandboxes: DemoSandboxes,
  scenario: Scenario,
  say: (line: string) => void,
): Promise<KeptOutcome> {
  const { value: sandbox, ms: createMs } = await timed(() => sandboxes.create())
  say(`create   ${formatMs(createMs)}   a sandbox with Python and pandas`)
  const { ms: loadMs } = await sandboxes.run(sandbox, scenario.preamble)
  const memoryBytes = await sandboxes.memoryBytes(sandbox)
  say(`load     ${formatMs(loadMs)}   the data frame is in memory: ${formatBytes(memoryBytes)}`)
  const questions: Answered[] = []
  for (const question of scenario.questions) questions.push(await sandboxes.run(sandbox, question))
  say(`ask      ${questions.map(({ ms }) => formatMs(ms)).join(', ')}`)
  const before = await sandboxes.run(sandbox, 'print(id(df))')
  const { ms: sleepMs } = await timed(() => sandbox.idle({ tier: 'stored' }))
  const asleepMemoryBytes = await sandboxes.memoryBytes(sandbox)
  say(
    `sleep    ${formatMs(sleepMs)}   on disk only: no processes, ${formatBytes(asleepMemoryBytes)} of memory`,
  )
  const after = await sandboxes.run(sandbox, 'print(id(df))')
  const sameObject = before.text === after.text
  say(`wake     ${formatMs(after.ms)}   and answered: id(df) is ${sameObject ? 'unchanged' : 'DIFFERENT'}`)
  const { value: children, ms: forkMs } = await timed(() => sandbox.fork(scenario.whatIfs.length))
  for (const child of children) sandboxes.own(child)
  const { value: whatIfs, ms: answersMs } = await timed(() =>
    Promise.all(children.map((child, index) => sandboxes.run(child, scenario.whatIfs[index] ?? ''))),
  )
  const memories = await Promise.all(children.map((child) => sandboxes.memoryBytes(child)))
  const childrenMemoryBytes = memories.reduce((sum, bytes) => sum + bytes, 0)
  say(
    `fork     ${formatMs(forkMs)}   ${children.length} children with the same data frame; all what-ifs in ${formatMs(forkMs + answersMs)}`,
  )
  for (const child of children) await sandboxes.delete(child)
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
    sent: [scenario.preamble, ...scenario.questions, ...scenario.whatIfs],
  }
}
