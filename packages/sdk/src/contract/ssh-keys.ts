// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.

export type AddSshKeyBody = { name: string; publicKey: string }

export type SshEndpointAnswer = { host: string; port: number; hostKey: string; fingerprint: string }

export type SshKeyAnswer = {
  name: string
  keyId: string
  type: string
  fingerprint: string
  publicKey: string
  confirmed: boolean
  confirmAs?: string
  createdAt: string
}

export type SshKeyPageAnswer = { items: readonly SshKeyAnswer[]; nextCursor?: string | undefined }
