// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.

export type UsageAnswer = {
  from: string
  to: string
  currency: string
  total: {
    runningSeconds: number
    cpuSeconds: number
    memoryGbSeconds: number
    storedGbHours: number
    wakes: number
    forks: number
    savedTokens: number
    cost: number
    alwaysOnCost: number
  }
  keys: readonly {
    runningSeconds: number
    cpuSeconds: number
    memoryGbSeconds: number
    storedGbHours: number
    wakes: number
    forks: number
    savedTokens: number
    cost: number
    alwaysOnCost: number
    keyId: string
  }[]
  sandboxes: readonly {
    runningSeconds: number
    cpuSeconds: number
    memoryGbSeconds: number
    storedGbHours: number
    wakes: number
    forks: number
    savedTokens: number
    cost: number
    alwaysOnCost: number
    sandboxId: string
    keyId: string
    name?: string | undefined
    deleted: boolean
  }[]
}
