import { ERROR_META } from '@dormouse/mcp'
import { McpClient } from '../mcp/mcp-client.ts'
import type { ServerProcess } from '../server/server-process.ts'
import { type Language, Refused, type Surface } from './surface.ts'

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
  async function runCode(
    given: { sandbox: string; code: string },
    language: Language | undefined,
    see?: (output: string) => void,
  ) {
    if (language !== 'r')
      return language === undefined
        ? call('run_python', given, see)
        : call('run_javascript', { ...given, language }, see)
    // A run without a language is in that of its context.
    const { sandbox } = given
    await call('contexts', { action: 'create', name: 'r', language, sandbox }).catch((error: unknown) => {
      if (!(error instanceof Refused) || error.code !== 'already_exists') throw error
    })
    return call('run_python', { ...given, context: 'r' }, see)
  }
  return {
    create: (template) => call('create_sandbox', template === undefined ? {} : { template }),
    async run(sandbox, code, language) {
      const { stdout, stderr, exitCode, value, error } = await runCode({ sandbox, code }, language)
      return { stdout, stderr, exitCode, text: value, error }
    },
    stream: (sandbox, code, see, language) => runCode({ sandbox, code }, language, see),
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
