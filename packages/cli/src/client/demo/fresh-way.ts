import { type Answered, type Stage, timed } from './measure.ts'
import type { Story } from './story.ts'

export interface FreshWay {
  readonly questions: readonly Answered[]
  readonly whatIfs: readonly Answered[]
  /** Of one sandbox that answers a question. */
  readonly memoryBytes: number
  /** Of as many as there are what-ifs, measured one after another. */
  readonly whatIfsMemoryBytes: number
  readonly sent: readonly string[]
}

/** A new sandbox for every question, which has to be told everything again. */
export async function freshWay(
  stage: Stage,
  story: Story,
  onAnswer: (count: number) => void,
): Promise<FreshWay> {
  let count = 0
  const ask = async (code: string) => {
    const { value, ms } = await timed(async () => {
      const sandbox = await stage.create()
      const answered = await stage.run(sandbox, story.preamble + code)
      return { sandbox, answered }
    })
    const memoryBytes = await stage.memoryBytes(value.sandbox)
    await stage.delete(value.sandbox)
    onAnswer(++count)
    return { text: value.answered.text, ms, memoryBytes }
  }
  const questions = []
  for (const question of story.questions) questions.push(await ask(question))
  const whatIfs = []
  for (const whatIf of story.whatIfs) whatIfs.push(await ask(whatIf))
  return {
    questions,
    whatIfs,
    memoryBytes: Math.max(...questions.map(({ memoryBytes }) => memoryBytes)),
    whatIfsMemoryBytes: whatIfs.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0),
    sent: [...story.questions, ...story.whatIfs].map((code) => story.preamble + code),
  }
}
