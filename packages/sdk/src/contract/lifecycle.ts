// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.
import type { SandboxAnswer } from './sandboxes.ts'

export type ForkAnswer = { children: readonly SandboxAnswer[] }

export type ForkBody = { count?: number | undefined; reseed?: boolean | undefined }

export type HoldAnswer = { what: string; until: string }

export type LedgerPageAnswer = {
  items: readonly {
    seq: number
    at: string
    event:
      | 'adopted'
      | 'changed'
      | 'created'
      | 'damaged'
      | 'denied'
      | 'disconnected'
      | 'failed'
      | 'forked'
      | 'lost'
      | 'memory_high'
      | 'out_of_memory'
      | 'refused'
      | 'rolled_back'
      | 'slept'
      | 'snapshot'
      | 'stored'
      | 'woke'
    cause: string
    tier?: 'frozen' | 'stored' | undefined
    latencyMs?: number | undefined
    bytes?: number | undefined
    detail?: string | undefined
    denied?:
      | {
          protocol: 'dns' | 'tcp'
          name?: string | undefined
          address?: string | undefined
          port?: number | undefined
          reason: string
          count: number
        }
      | undefined
  }[]
  nextCursor?: string | undefined
}

export type PromoteBody = { keep?: boolean | undefined }

export type SandboxMetricsAnswer = {
  sandboxId: string
  state: 'creating' | 'deleting' | 'resuming' | 'running' | 'standby' | 'suspending'
  tier?: 'frozen' | 'stored' | undefined
  usage?:
    | { memoryBytes: number; memoryPeakBytes: number; cpuMs: number; pids: number; oomKills: number }
    | undefined
  memory?: { privateBytes: number; sharedBytes: number; proportionalBytes: number; at: string } | undefined
  network: { connections: number; denied: number; names: number; bytesOut: number; bytesIn: number }
}

export type StandbyBody = {
  tier?: 'frozen' | 'stored' | undefined
  durability?: 'cluster' | 'host' | undefined
}

export type WhyAnswer = {
  state: 'creating' | 'deleting' | 'resuming' | 'running' | 'standby' | 'suspending'
  tier?: 'frozen' | 'stored' | undefined
  summary: string
  work: readonly {
    kind: 'call' | 'connection' | 'cpu' | 'hold' | 'process' | 'recent' | 'run' | 'stream'
    what: string
    since: string
  }[]
  sleepsAt?: string | undefined
  storesAt?: string | undefined
  expiresAt?: string | undefined
  wakesAt?: string | undefined
  cannotSleep?: { reason: string; retryAt: string } | undefined
  checkpoint?:
    | {
        lastAt?: string | undefined
        pauseMs?: number | undefined
        nextAt?: string | undefined
        refused?: string | undefined
      }
    | undefined
  memory?:
    | {
        event: 'memory_high' | 'out_of_memory' | 'paused'
        at: string
        limitBytes: number
        peakBytes: number
        message: string
      }
    | undefined
  copied?: readonly { program: string; bytes: number }[] | undefined
  damage?:
    | { snapshotId: string; reason: string; foundAt: string; rollbackTo?: string | undefined }
    | undefined
}
