import type { Call } from '../call.ts'
import { suggestTemplate } from '../suggest-template.ts'
import { sh } from './sh.ts'

/** Creates a sandbox in the state before the step that failed, and opens a shell in it if there is a terminal. */
export async function debugTemplate(
  call: Call,
  name: string,
  { sandbox }: { sandbox?: string },
): Promise<number | undefined> {
  const { client, signal, io } = call
  const { failedStep } = await suggestTemplate(call, name, client.templates.get(name, { signal }))
  const debugging = client.templates.debug(name, { signal, ...(sandbox !== undefined && { name: sandbox }) })
  const { id } = await call.withProgress('Starting a sandbox', debugging)
  call.note(
    `The sandbox ${id} is in the state before \`${failedStep ?? ''}\`. Delete it with \`dormouse rm ${id}\`.`,
  )
  if (!io.stdin.isTTY || !io.stdout.isTTY || call.isJson) {
    call.printResult({ id }, `${id}\n`)
    return undefined
  }
  return sh(call, id, [], {})
}
