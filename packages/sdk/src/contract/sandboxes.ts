// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.
import type { NetworkBody } from './network.ts'

export type CreateSandboxBody = {
  template?: string
  snapshot?: string
  isolation?: 'microvm' | 'process'
  name?: string
  getOrCreate?: boolean | undefined
  metadata?: Record<string, string> | undefined
  env?: Record<string, string> | undefined
  idleTimeoutMs?: number
  storeAfterMs?: number
  maxBackgroundMs?: number
  wakeOnTimer?: boolean | undefined
  atMemoryLimit?: 'kill' | 'pause' | undefined
  checkpointEveryMs?: number | undefined
  connections?: { keepAsleepMs?: number | undefined; wakeOnData?: boolean | undefined } | undefined
  expires?: { afterMs?: number; idleMs?: number; at?: string; action: 'delete' | 'standby' }
  limits?:
    | { memoryBytes?: number; cpus?: number; pids?: number; diskBytes?: number; files?: number }
    | undefined
  volumes?: { volume: string; path: string; readOnly?: boolean | undefined }[] | undefined
  network?: NetworkBody
  secrets?: string[] | undefined
  ephemeral?: boolean | undefined
}

export type SandboxAnswer = {
  id: string
  name?: string | undefined
  state: 'creating' | 'deleting' | 'resuming' | 'running' | 'standby' | 'suspending'
  tier?: 'frozen' | 'stored' | undefined
  template: string
  isolation: 'microvm' | 'process'
  metadata: Readonly<Record<string, string>>
  idleTimeoutMs: number
  storeAfterMs: number
  maxBackgroundMs: number
  wakeOnTimer: boolean
  wakesAt?: string | undefined
  atMemoryLimit: 'kill' | 'pause'
  checkpointEveryMs: number
  connections: { keepAsleepMs: number; wakeOnData: boolean }
  expires?:
    | {
        afterMs?: number | undefined
        idleMs?: number | undefined
        at?: string | undefined
        action: 'delete' | 'standby'
      }
    | undefined
  ephemeral: boolean
  limits: { memoryBytes: number; cpus: number; pids: number; diskBytes: number; files: number }
  volumes: readonly { volume: string; path: string; readOnly: boolean }[]
  network: {
    mode: 'allow' | 'none' | 'public'
    allow: readonly string[]
    deny?: readonly string[] | undefined
    unavailable?: string | undefined
  }
  secrets: readonly string[]
  createdAt: string
  lastActiveAt: string
  stateSince: string
  headSnapshotId?: string | undefined
  forkedFrom?: string | undefined
  lostSince?: string | undefined
  damage?:
    | { snapshotId: string; reason: string; foundAt: string; rollbackTo?: string | undefined }
    | undefined
  replicated?: boolean | undefined
}

export type SandboxPageAnswer = { items: readonly SandboxAnswer[]; nextCursor?: string | undefined }

export type UpdateSandboxBody = {
  name?: string | null
  metadata?: Record<string, string>
  idleTimeoutMs?: number
  storeAfterMs?: number
  maxBackgroundMs?: number
  wakeOnTimer?: boolean
  atMemoryLimit?: 'kill' | 'pause'
  checkpointEveryMs?: number
  connections?: { keepAsleepMs?: number; wakeOnData?: boolean }
  expires?: { afterMs?: number; idleMs?: number; at?: string; action: 'delete' | 'standby' } | null
  ephemeral?: boolean
  network?: NetworkBody
  secrets?: string[]
  volumes?: { volume: string; path: string; readOnly?: boolean | undefined }[]
  limits?: { memoryBytes?: number; cpus?: number; pids?: number; diskBytes?: number; files?: number }
}
