// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.

export type ServerLogLineAnswer = { seq: number; text: string }

export type ServerReportAnswer = {
  version: string
  startedAt: string
  canRunSandboxes: boolean
  checks: readonly {
    id: string
    title: string
    status: 'fail' | 'ok' | 'warn'
    found: string
    meaning: string
    mend?: string | undefined
  }[]
  disk: { freeBytes: number; totalBytes: number }
  memory: { freeBytes: number; totalBytes: number }
}
