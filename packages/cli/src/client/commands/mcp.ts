import type { Call } from '../call.ts'

export async function mcp(call: Call, { sandbox }: { readonly sandbox?: string }): Promise<void> {
  const { runStdio } = await import('@dormouse/mcp')
  const { stdin, stdout, stderr } = call.io
  await runStdio({ client: call.client, sandbox, stdin, stdout, stderr, signal: call.signal })
}
