// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.

export type CreatePortLinkBody = { expiresInMs?: number | undefined; path?: string | undefined } | undefined

export type PortAccess = 'private' | 'public'

export type PortAnswer = {
  port: number
  isListening: boolean
  addresses: readonly string[]
  access: 'private' | 'public'
  url: string
  pathUrl: string
}

export type PortLinkAnswer = { url: string; pathUrl: string; expiresAt: string }

export type PortListAnswer = { items: readonly PortAnswer[] }

export type WaitForPortBody = { timeoutMs?: number | undefined } | undefined
