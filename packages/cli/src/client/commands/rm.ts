import type { Sandbox } from 'dormouse'
import type { Call } from '../call.ts'
import { CliError } from '../cli-error.ts'
import { shortName } from './ls.ts'

export async function rm(call: Call, refs: readonly string[], { force }: { force?: boolean }): Promise<void> {
  // All are looked up before the first is deleted, so that a wrong name deletes nothing.
  const found = (await Promise.all(refs.map((ref) => find(call, ref, force === true)))).filter(
    (sandbox) => sandbox !== undefined,
  )
  const deleted: string[] = []
  for (const sandbox of new Map(found.map((sandbox) => [sandbox.id, sandbox])).values()) {
    await call.withProgress(`Deleting ${shortName(sandbox)}`, sandbox.delete({ signal: call.signal }))
    deleted.push(sandbox.id)
    if (!call.isJson) call.io.stdout.write(`${sandbox.id}\n`)
  }
  if (call.isJson) call.printResult({ deleted }, '')
}

async function find(call: Call, ref: string, force: boolean): Promise<Sandbox | undefined> {
  try {
    return await call.sandbox(ref)
  } catch (error) {
    if (force && error instanceof CliError && error.code === 'not_found') return undefined
    throw error
  }
}
