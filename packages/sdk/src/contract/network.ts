// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.

export type NetworkBody = { mode: 'allow' | 'none' | 'public'; allow?: string[] | undefined; deny?: string[] }

export type NetworkMode = 'allow' | 'none' | 'public'

export type NetworkReportAnswer = {
  mode: 'allow' | 'none' | 'public'
  allow: readonly string[]
  deny?: readonly string[] | undefined
  unavailable?: string | undefined
  counters: { connections: number; denied: number; names: number; bytesOut: number; bytesIn: number }
  denied: readonly {
    protocol: 'dns' | 'tcp'
    name?: string | undefined
    address?: string | undefined
    port?: number | undefined
    reason: string
    count: number
    at: string
  }[]
  failedLookups: readonly { at: string; name: string; reason: string }[]
}
