// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.

export type SessionAnswer = {
  keyId: string
  name: string
  scopes: readonly ('admin' | 'read' | 'run')[]
  expiresAt?: string | undefined
  server: { version: string; previewDomain?: string | undefined }
}

export type SignInLinkAnswer = { path: string; code: string; expiresAt: string }
