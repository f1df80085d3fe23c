import { DormouseError } from 'dormouse'
import type { Call } from './call.ts'
import { CliError } from './cli-error.ts'
import { didYouMean } from './closest-names.ts'

/** Adds similar names to the error when `work` does not find the template `name`. */
export async function suggestTemplate<Value>(
  call: Call,
  name: string | undefined,
  work: Promise<Value>,
): Promise<Value> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof DormouseError) || error.code !== 'template_not_found' || name === undefined)
      throw error
    const templates = await call.client.templates.list({ signal: call.signal }).all()
    const names = templates.map((template) => template.name)
    // It is there and still cannot be used: the message says why.
    if (names.includes(name)) throw error
    throw new CliError(error.code, error.message, {
      hint: `${didYouMean(name, names)}Run \`dormouse template ls\` to list templates.`,
    })
  }
}
