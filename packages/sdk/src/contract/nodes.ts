// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.

export type DrainedAnswer = {
  moved: readonly MovedAnswer[]
  left: readonly { sandboxId: string; reason: string }[]
}

export type MovedAnswer = { sandboxId: string; node: string }

export type NodeAnswer = {
  id: string
  address: string
  state: 'alive' | 'left' | 'lost'
  isSelf: boolean
  isCordoned: boolean
  drain?:
    | { total: number; moved: number; left: number; stays: readonly { sandboxId: string; reason: string }[] }
    | undefined
  version: string
  startedAt: string
  arch: string
  kernel: string
  cpu?: { model: string; fingerprint: string } | undefined
  cpus: number
  load: { running: number; sandboxes: number; cpu: number }
  memory: { freeBytes: number; totalBytes: number }
  disk: { freeBytes: number; totalBytes: number }
}

export type NodesAnswer = { items: readonly NodeAnswer[] }
