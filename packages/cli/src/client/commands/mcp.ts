import type { Call } from '../call.ts'
import { type NetworkFlags, networkOptions } from '../network-flags.ts'
import { omitUndefined } from '../omit-undefined.ts'

export interface McpFlags extends NetworkFlags {
  readonly sandbox?: string
  readonly template?: string
  readonly memory?: number
}

export async function mcp(call: Call, flags: McpFlags): Promise<void> {
  const { sandbox, template, memory } = flags
  const limits = memory === undefined ? undefined : { memoryBytes: memory }
  const create = omitUndefined({ template, limits, network: networkOptions(flags) })
  const { runStdio } = await import('@dormouse/mcp')
  const { stdin, stdout, stderr } = call.io
  await runStdio({ client: call.client, sandbox, create, stdin, stdout, stderr, signal: call.signal })
}
