// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.

export type ScrubAnswer = {
  state: 'idle' | 'running'
  progress?: { parts: number; checkedParts: number } | undefined
  beganAt?: string | undefined
  finishedAt?: string | undefined
  readBytes: number
  damagedSnapshots: readonly { reason: string; foundAt: string; snapshotId: string; sandboxId: string }[]
  damagedTemplates: readonly { reason: string; foundAt: string; template: string }[]
}
