import { PossibleStates } from './possible-states.ts'

/** What is known of one sandbox from outside: the same tokens are written to its memory and to a file. */
export interface SandboxModel {
  readonly id: string
  memory: PossibleStates
  file: PossibleStates
  /** As of the last save that was acknowledged. A sandbox whose processes were killed comes back there. */
  saved: PossibleStates
  /** The file may hold a token more or less than memory where a save came between the two writes. */
  savedFile: PossibleStates
  readonly snapshots: SnapshotModel[]
}

export interface SnapshotModel {
  readonly id: string
  readonly memory: PossibleStates
  readonly file: PossibleStates
}

export function newSandboxModel(id: string, from?: Pick<SandboxModel, 'memory' | 'file'>): SandboxModel {
  const empty = PossibleStates.exactly([])
  const { memory, file } = from ?? { memory: empty, file: empty }
  return { id, memory, file, saved: memory, savedFile: file, snapshots: [] }
}
