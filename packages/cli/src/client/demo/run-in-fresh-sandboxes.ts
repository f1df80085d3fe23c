import { type Answered, type DemoSandboxes, timed } from './demo-sandboxes.ts'
import type { Scenario } from './scenario.ts'

export interface FreshOutcome {
  readonly questions: readonly Answered[]
  readonly whatIfs: readonly Answered[]
  /** Memory of one sandbox that answers a question. */
  readonly memoryBytes: number
  /** Memory of all what-ifs together, measured one after another. */
  readonly whatIfsMemoryBytes: number
  readonly sent: readonly string[]
}

/** Runs every question in a new sandbox, which needs all of the preamble again. */
export async function runInFreshSandboxes(
  sandboxes: DemoSandboxes,
  scenario: Scenario,
  onAnswer: (count: number) => void,
): Promise<FreshOutcome> {
  let count = 0
  const ask = async (code: string) => {
    const { value, ms } = await timed(async () => {
      const sandbox = await sandboxes.create()
      const answered = await sandboxes.run(sandbox, scenario.preamble + code)
      return { sandbox, answered }
    })
    const memoryBytes = await sandboxes.memoryBytes(value.sandbox)
    await sandboxes.delete(value.sandbox)
    onAnswer(++count)
    return { text: value.answered.text, ms, memoryBytes }
  }
  const questions = []
  for (const question of scenario.questions) questions.push(await ask(question))
  const whatIfs = []
  for (const whatIf of scenario.whatIfs) whatIfs.push(await ask(whatIf))
  return {
    questions,
    whatIfs,
    memoryBytes: Math.max(...questions.map(({ memoryBytes }) => memoryBytes)),
    whatIfsMemoryBytes: whatIfs.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0),
    sent: [...scenario.questions, ...scenario.whatIfs].map((code) => scenario.preamble + code),
  }
}
