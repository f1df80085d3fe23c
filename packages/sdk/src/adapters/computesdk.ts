import { type CommandRunner, type CreateOptions, defineProvider, type Provider } from '@computesdk/provider'
import { Dormouse, type DormouseOptions } from '../dormouse.ts'
import { hasCode } from '../error.ts'
import { Sandbox } from '../sandbox.ts'

export interface DormouseProviderOptions extends DormouseOptions {
  /** Default: `python`. */
  readonly template?: string | undefined
}

/** Templates whose names other providers use. */
const NO_TEMPLATE = new Set(['base', 'default'])

/** Dormouse as a provider of ComputeSDK: `compute.setConfig({ provider: dormouse({ apiKey }) })`. */
export function dormouse(options: DormouseProviderOptions = {}): Provider {
  return provider(options)
}

const runCommand: CommandRunner = async (sandbox, command, options = {}) => {
  const { background = false, timeout, cwd, env, onStdout, onStderr } = options
  const common = { ...(cwd !== undefined && { cwd }), ...(env !== undefined && { env }) }
  if (background) {
    await sandbox.commands.start(command, common)
    return { stdout: '', stderr: '', exitCode: 0, durationMs: 0 }
  }
  return sandbox.commands.run(command, {
    ...common,
    ...(timeout !== undefined && { timeoutMs: timeout }),
    onStdout,
    onStderr,
  })
}

const provider = defineProvider<DormouseProviderOptions>({
  name: 'dormouse',
  methods: {
    sandbox: {
      create: async (config, options = {}) =>
        made(await Sandbox.create(createOptions(config, options), { ...config, signal: options.signal })),
      getById: async (config, id) => {
        try {
          return made(await Sandbox.connect(id, config))
        } catch (error) {
          if (hasCode(error, 'not_found')) return null
          throw error
        }
      },
      list: async (config) => (await Sandbox.list({}, config).all()).map(made),
      destroy: async (config, id) => (await Sandbox.connect(id, config)).delete(),
      runCommand,
      streamCommand: runCommand,
      getInfo: async (sandbox) => {
        const { id, createdAt, metadata, expires, damage } = await sandbox.refresh()
        const timeout = expires?.afterMs ?? 0
        const status = damage === undefined ? 'running' : 'error'
        // A sandbox that sleeps is as good as a running one: the next call wakes it.
        return { id, provider: 'dormouse', status, createdAt: new Date(createdAt), timeout, metadata }
      },
      getUrl: async (sandbox, { port }) => (await sandbox.ports.link(port)).url,
      filesystem: {
        readFile: (sandbox, path) => sandbox.files.read(path),
        writeFile: async (sandbox, path, content) => void (await sandbox.files.write(path, content)),
        mkdir: async (sandbox, path) => void (await sandbox.files.mkdir(path, { parents: true })),
        readdir: async (sandbox, path) =>
          (await sandbox.files.list(path)).map(({ name, type, sizeBytes, modifiedAt }) => ({
            name,
            type: type === 'directory' ? ('directory' as const) : ('file' as const),
            size: sizeBytes,
            modified: new Date(modifiedAt),
          })),
        exists: (sandbox, path) => sandbox.files.exists(path),
        remove: (sandbox, path) => sandbox.files.remove(path, { recursive: true }),
      },
    },
    snapshot: {
      create: async (config, sandboxId, options = {}) =>
        (await Sandbox.connect(sandboxId, config)).snapshot(
          options.name === undefined ? {} : { name: options.name },
        ),
      list: async (config, { sandboxId, limit } = {}) => {
        const all = await new Dormouse(config).snapshots
          .list(sandboxId === undefined ? {} : { sandboxId })
          .all()
        return all.slice(0, limit)
      },
      delete: async (config, snapshotId) => new Dormouse(config).snapshots.delete(snapshotId),
    },
  },
})

function made(sandbox: Sandbox) {
  return { sandbox, sandboxId: sandbox.id }
}

function createOptions({ template }: DormouseProviderOptions, options: CreateOptions) {
  const named = options.templateId ?? template
  const metadata = Object.entries(options.metadata ?? {}).map(([name, value]) => [name, String(value)])
  return {
    ...(named !== undefined && !NO_TEMPLATE.has(named) && { template: named }),
    ...(options.snapshotId !== undefined && { snapshot: options.snapshotId }),
    ...(options.name !== undefined && { name: options.name }),
    ...(options.envs !== undefined && { env: options.envs }),
    ...(options.timeout !== undefined && {
      expires: { afterMs: options.timeout, action: 'delete' as const },
    }),
    ...(metadata.length > 0 && { metadata: Object.fromEntries(metadata) }),
  }
}
