import type { CommandResult, Sandbox, SandboxInfo } from '../src/index.ts'

interface RunCommandOptions {
  readonly cwd?: string
  readonly env?: Record<string, string>
  readonly timeout?: number
  readonly background?: boolean
  readonly onStdout?: (data: string) => void
  readonly onStderr?: (data: string) => void
}
export interface CreateOptions {
  readonly timeout?: number
  readonly templateId?: string
  readonly snapshotId?: string
  readonly metadata?: Record<string, unknown>
  readonly envs?: Record<string, string>
  readonly name?: string
  readonly signal?: AbortSignal
}
interface Entry {
  readonly name: string
  readonly type: 'file' | 'directory'
  readonly size?: number
  readonly modified?: Date
}
interface Made {
  readonly sandbox: Sandbox
  readonly sandboxId: string
}
export type CommandRunner = (
  sandbox: Sandbox,
  command: string,
  options?: RunCommandOptions,
) => Promise<Pick<CommandResult, 'stdout' | 'stderr' | 'exitCode' | 'durationMs'>>

export interface Provider {
  readonly name: string
}
export function defineProvider<Config>(provider: {
  readonly name: string
  readonly methods: {
    readonly sandbox: {
      readonly create: (config: Config, options?: CreateOptions) => Promise<Made>
      readonly getById: (config: Config, id: string) => Promise<Made | null>
      readonly list: (config: Config) => Promise<Made[]>
      readonly destroy: (config: Config, id: string) => Promise<void>
      readonly runCommand: CommandRunner
      readonly streamCommand: (
        sandbox: Sandbox,
        command: string,
        options: RunCommandOptions,
      ) => ReturnType<CommandRunner>
      readonly getInfo: (sandbox: Sandbox) => Promise<{
        id: string
        provider: string
        status: 'running' | 'stopped' | 'error'
        createdAt: Date
        timeout: number
        metadata?: SandboxInfo['metadata']
      }>
      readonly getUrl: (sandbox: Sandbox, options: { port: number; protocol?: string }) => Promise<string>
      readonly filesystem: {
        readonly readFile: (sandbox: Sandbox, path: string) => Promise<string>
        readonly writeFile: (sandbox: Sandbox, path: string, content: string) => Promise<void>
        readonly mkdir: (sandbox: Sandbox, path: string) => Promise<void>
        readonly readdir: (sandbox: Sandbox, path: string) => Promise<Entry[]>
        readonly exists: (sandbox: Sandbox, path: string) => Promise<boolean>
        readonly remove: (sandbox: Sandbox, path: string) => Promise<void>
      }
    }
    readonly snapshot: {
      readonly create: (config: Config, sandboxId: string, options?: { name?: string }) => Promise<object>
      readonly list: (
        config: Config,
        options?: { sandboxId?: string; limit?: number },
      ) => Promise<readonly object[]>
      readonly delete: (config: Config, snapshotId: string) => Promise<void>
    }
  }
}): (config: Config) => Provider
