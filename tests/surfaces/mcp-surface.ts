import { ERROR_META } from '@dormouse/mcp'
import { McpClient } from '../mcp/mcp-client.ts'
import type { ServerProcess } from '../server/server-process.ts'
import { Refused, type Surface } from './surface.ts'

/** The tools, called by the official client. */
export async function mcpSurface(server: ServerProcess): Promise<Surface> {
  const client = await McpClient.overStdio(server)

  // biome-ignore lint/suspicious/noExplicitAny: what comes back is compared by the scenario
  async function call(name: string, given: object, see?: (output: string) => void): Promise<any> {
    const onprogress = ({ message = '' }) => see?.(message)
    const options = see === undefined ? {} : { onprogress }
    const { structuredContent, _meta, isError } = await client.call(name, { ...given }, options)
    const failure = _meta?.[ERROR_META] as { code: string } | undefined
    if (failure !== undefined) throw new Refused(failure.code)
    if (structuredContent === undefined) throw new Error(`${name}: ${isError}`)
    return structuredContent
  }
  return {
    create: () => call('create_sandbox', {}),
    async run(sandbox, code) {
      const { stdout, stderr, exitCode, value, error } = await call('run_python', { sandbox, code })
      return { stdout, stderr, exitCode, text: value, error }
    },
    stream: (sandbox, code, see) => call('run_python', { sandbox, code }, see),
    standby: (sandbox, tier) => call('standby_sandbox', { sandbox, tier }),
    resume: (sandbox) => call('resume_sandbox', { sandbox }),
    fork: async (sandbox, count) =>
      (await call('fork_sandbox', { sandbox, count })).children.map(({ id }: { id: string }) => id),
    write: (sandbox, path, content) => call('write_file', { sandbox, path, content }),
    read: async (sandbox, path) => (await call('read_file', { sandbox, path })).content,
    list: async (sandbox, path) =>
      (await call('list_files', { sandbox, path })).entries.map((entry: { path: string }) =>
        entry.path.slice(path.length + 1),
      ),
    delete: (sandbox) => call('delete_sandbox', { sandbox }),
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  }
}
