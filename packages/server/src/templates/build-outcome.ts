import { DormouseError } from '@dormouse/contracts'
import type { LogLine } from './build-log.ts'
import { programSettings } from './recipe/build-recipe.ts'
import { StepFailed } from './recipe/run-recipe.ts'
import type { FailedStep } from './template-rows.ts'

const ERROR_MAX_CHARACTERS = 1_000

/** The end of the log of a build that has ended. */
export async function* finishedLines(
  text: string | undefined,
  at: number,
  after: number,
): AsyncGenerator<LogLine> {
  const lines = text?.split('\n') ?? []
  for (const [seq, line] of lines.entries()) if (seq > after) yield { seq, at, text: line }
}

/** What a sandbox needs to start in the state before the step that failed. */
export function failedStepOf(error: unknown): FailedStep | undefined {
  if (!(error instanceof StepFailed)) return undefined
  const { shown, before } = error
  const { template, files } = before.origin
  return { shown, template, snapshotId: files, image: programSettings(before.settings) }
}

/** Why a build failed. Parts of the text may come from a sandbox. */
export function reasonOf(error: unknown): string {
  if (error instanceof StepFailed) {
    const reason = reasonOf(error.cause)
    return reason.startsWith(error.shown) ? reason : `${error.shown}: ${reason}`
  }
  if (!(error instanceof DormouseError)) return 'An inner error; the server log has it.'
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
  return error.message.replaceAll(/[\u0000-\u001f\u007f-\u009f]/g, ' ').slice(0, ERROR_MAX_CHARACTERS)
}
