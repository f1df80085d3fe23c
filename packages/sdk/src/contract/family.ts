// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.

export type FamilyAnswer = {
  nodes: readonly (
    | {
        kind: 'sandbox'
        id: string
        name?: string | undefined
        parentId?: string | undefined
        state: 'creating' | 'deleted' | 'deleting' | 'resuming' | 'running' | 'standby' | 'suspending'
        tier?: 'frozen' | 'stored' | undefined
        createdAt?: string | undefined
        memory?: { privateBytes: number; sharedBytes: number } | undefined
      }
    | {
        kind: 'snapshot'
        id: string
        name?: string | undefined
        parentId: string
        createdAt: string
        memoryBytes: number
      }
  )[]
  more: boolean
}
