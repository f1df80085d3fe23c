// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.
import type { NetworkBody } from './network.ts'

export type DeployServiceBody = {
  port: number
  template?: string
  image?: string
  registryAuth?:
    | { username: string; password: string; registry?: string }[]
    | { username: string; password: string; registry?: string }
  dockerfile?: string
  context?: string
  buildArgs?: Record<string, string>
  target?: string
  steps?: (
    | { run: string }
    | { copy: string[]; to: string; chown?: string; chmod?: string; context?: string }
    | { env: Record<string, string> }
    | { workdir: string }
    | { user: string }
    | { shell: string[] }
    | { fresh: true }
  )[]
  start?: string
  ready?: { port?: number; command?: string; log?: string; timeoutMs?: number }
  cwd?: string
  user?: string
  env?: Record<string, string> | undefined
  secrets?: string[] | undefined
  volumes?: { volume: string; path: string; readOnly?: boolean | undefined }[] | undefined
  limits?:
    | { memoryBytes?: number; cpus?: number; pids?: number; diskBytes?: number; files?: number }
    | undefined
  isolation?: 'microvm' | 'process'
  network?: NetworkBody
  public?: boolean
  replicas?: { min?: number; max?: number; concurrency?: number; idleMs?: number }
  health?: { path?: string; intervalMs?: number; timeoutMs?: number; failures?: number } | null
  restart?: 'always' | 'never'
  checkpointEveryMs?: number
  keepVersions?: number
}

export type RollbackServiceBody = { version?: number } | undefined

export type ServiceAnswer = {
  id: string
  name: string
  createdAt: string
  version?: number | undefined
  port: number
  public: boolean
  url: string
  pathUrl: string
  replicas: {
    min: number
    max: number
    concurrency: number
    idleMs: number
    items: readonly {
      sandboxId: string
      version: number
      state: 'draining' | 'failed' | 'ready' | 'restarting' | 'starting'
      isAwake: boolean
      requests: number
      restarts: number
    }[]
  }
  health?: { path?: string; intervalMs?: number; timeoutMs?: number; failures?: number } | undefined
  restart: 'always' | 'never'
  checkpointEveryMs: number
  keepVersions: number
  versions: readonly {
    version: number
    state: 'building' | 'failed' | 'ready' | 'starting'
    isCurrent: boolean
    createdAt: string
    isolation?: 'microvm' | 'process' | undefined
    template?: string | undefined
    error?: string | undefined
  }[]
}

export type ServiceLogLineAnswer = {
  seq: number
  at: string
  sandboxId: string
  version: number
  stream: 'stderr' | 'stdout' | 'system'
  text: string
}

export type ServicePageAnswer = { items: readonly ServiceAnswer[]; nextCursor?: string | undefined }

export type UpdateServiceBody = {
  public?: boolean
  replicas?: { min?: number; max?: number; concurrency?: number; idleMs?: number }
  health?: { path?: string; intervalMs?: number; timeoutMs?: number; failures?: number } | null
  restart?: 'always' | 'never'
  checkpointEveryMs?: number
  keepVersions?: number
}
