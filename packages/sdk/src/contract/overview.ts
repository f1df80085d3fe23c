// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.

export type ActivityAnswer = {
  items: readonly {
    sandboxId: string
    why: string
    memoryBytes?: number | undefined
    day: readonly { state: 'frozen' | 'running' | 'stored'; from: string; to: string }[]
    lastRun?:
      | {
          runId: string
          state: 'finished' | 'lost' | 'queued' | 'running'
          code?: string | undefined
          startedAt: string
          exitCode?: number | undefined
        }
      | undefined
  }[]
}

export type OverviewAnswer = {
  running: number
  frozen: number
  stored: number
  failed: number
  memoryHeldBytes: number
  memorySavedBytes: number
  cost: { currency: string; spent: number; alwaysOn: number }
  wakes: { count: number; p50Ms?: number | undefined; p99Ms?: number | undefined }
}
